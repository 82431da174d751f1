//! Micro threads against pipes and each other; no time is measured.

use std::cell::RefCell;
use std::ptr;

use libc::{c_int, c_void};

use super::*;

thread_local!(static SEEN: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) });

fn see(what: u32) {
    SEEN.with_borrow_mut(|seen| seen.push(what));
}

fn seen() -> Vec<u32> {
    SEEN.take()
}

fn number(argument: *mut c_void) -> u32 {
    argument.addr() as u32
}

fn argument(number: u32) -> *mut c_void {
    ptr::without_provenance_mut(number as usize)
}

fn pipe() -> [c_int; 2] {
    let mut ends = [-1; 2];
    // SAFETY: there is room for both.
    assert_eq!(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
    ends
}

extern "C" fn sees_after_turns(place: *mut c_void) {
    for _ in 0..3 {
        see(number(place));
        ff_mt_yield();
    }
}

#[test]
fn those_that_may_run_take_turns() {
    for place in 1..=3 {
        assert!(!ff_mt_start(Some(sees_after_turns), argument(place)).is_null());
    }
    assert!(SEEN.with_borrow(Vec::is_empty), "none runs before the starter waits");
    while SEEN.with_borrow(Vec::len) < 9 {
        ff_mt_yield();
    }
    assert_eq!(seen(), [1, 2, 3, 1, 2, 3, 1, 2, 3]);
}

extern "C" fn wakes_in_turn(first: *mut c_void) {
    see(1);
    assert_eq!(ff_mt_wake(first), 0);
}

/// Ten thousand stand beside each other, and those that come after them take their stacks and their places.
#[test]
fn ten_thousand_stand_at_the_same_time() {
    ff_mt_set_stack_size(16 * 1024);
    for round in 1..=2 {
        for _ in 0..10_000 {
            assert!(!ff_mt_start(Some(wakes_in_turn), ff_mt_self()).is_null());
        }
        while SEEN.with_borrow(Vec::len) < 10_000 * round {
            ff_mt_wait(-1);
        }
    }
    assert_eq!(seen().len(), 20_000);
}

extern "C" fn reads_one(end: *mut c_void) {
    let mut byte = 0_u8;
    // SAFETY: the byte lives until the call returns.
    let got = unsafe { ff_mt_read(number(end) as c_int, (&raw mut byte).cast(), 1, -1) };
    see(if got == 1 { u32::from(byte) } else { 1000 });
}

/// Two wait for one descriptor; each gets a byte, in the order in which they came.
#[test]
fn several_wait_for_one_descriptor() {
    let [reads, writes] = pipe();
    for _ in 0..2 {
        ff_mt_start(Some(reads_one), argument(reads as u32));
    }
    ff_mt_yield();
    // SAFETY: the bytes live until the call returns.
    assert_eq!(unsafe { ff_mt_write(writes, b"ab".as_ptr().cast(), 2, -1) }, 2);
    while SEEN.with_borrow(Vec::len) < 2 {
        ff_mt_yield();
    }
    assert_eq!(seen(), [u32::from(b'a'), u32::from(b'b')]);
    assert_eq!(ff_mt_wait_events(reads, c_int::from(READ), 0), 0, "a time that is over is no readiness");
    close(writes);
    assert_eq!(ff_mt_wait_events(reads, c_int::from(READ), -1), c_int::from(READ), "the end can be read");
    close(reads);
    assert_eq!(ff_mt_wait_events(reads, c_int::from(READ), -1), -1);
}

/// Descriptors are looked at although some thread may always run.
#[test]
fn busy_threads_do_not_keep_descriptors_waiting() {
    let [reads, writes] = pipe();
    ff_mt_start(Some(reads_one), argument(reads as u32));
    ff_mt_yield();
    // SAFETY: the byte lives until the call returns.
    assert_eq!(unsafe { libc::write(writes, b"x".as_ptr().cast(), 1) }, 1);
    let turns = (0..1000).take_while(|_| SEEN.with_borrow(Vec::is_empty)).inspect(|_| ff_mt_yield()).count();
    assert!(turns < 100, "{turns}");
    assert_eq!(seen(), [u32::from(b'x')]);
    [reads, writes].into_iter().for_each(close);
}

/// A thread whose calls never wait, as with a client that sends without a pause.
#[test]
fn calls_that_never_wait_do_not_keep_others_waiting() {
    // SAFETY: a path and no memory of ours.
    let zeros = unsafe { libc::open(c"/dev/zero".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    let [reads, writes] = pipe();
    ff_mt_start(Some(reads_one), argument(reads as u32));
    // SAFETY: the byte lives until the call returns.
    assert_eq!(unsafe { libc::write(writes, b"x".as_ptr().cast(), 1) }, 1);
    let mut byte = 0_u8;
    // SAFETY: the same.
    let read = || assert_eq!(unsafe { ff_mt_read(zeros, (&raw mut byte).cast(), 1, -1) }, 1);
    let calls = std::iter::repeat_with(read).take(1000).take_while(|()| SEEN.with_borrow(Vec::is_empty)).count();
    assert!(calls < 200, "{calls}");
    assert_eq!(seen(), [u32::from(b'x')]);
    // SAFETY: nothing is read.
    assert_eq!(unsafe { ff_mt_read(zeros, (&raw mut byte).cast(), 0, -1) }, -1, "without a byte there is no call");
    [zeros, reads, writes].into_iter().for_each(close);
}

extern "C" fn ends_at_once(_: *mut c_void) {}

/// The name of one that has ended is none of the next in its place.
#[test]
fn a_name_ends_with_its_thread() {
    let name = ff_mt_start(Some(ends_at_once), ptr::null_mut());
    ff_mt_yield();
    let next = ff_mt_start(Some(ends_at_once), ptr::null_mut());
    assert_ne!(name, next);
    assert_eq!(ff_mt_wake(name), -1);
    assert_eq!(ff_mt_wake(next), 0);
    ff_mt_yield();
}

/// A stack that is too small is a larger one, and running over one hits its guard.
#[test]
fn a_stack_has_a_guard() {
    assert_eq!(stack::rounded(1), 16 * 1024);
    assert_eq!(stack::rounded(100_000), 102_400);
    let stack = stack::Stack::map(stack::rounded(1)).unwrap_or_else(|errno| panic!("{errno:?}"));
    let [lowest, guard] = stack.bounds();
    let is_readable = |place: *const u8| {
        let [reads, writes] = pipe();
        // SAFETY: the kernel looks whether the byte may be read, and says EFAULT where not.
        let written = unsafe { libc::write(writes, place.cast(), 1) };
        [reads, writes].into_iter().for_each(close);
        written == 1
    };
    assert!(is_readable(lowest) && !is_readable(guard));
    // SAFETY: nothing stands on it.
    unsafe { stack.unmap() };
}
