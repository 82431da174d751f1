use super::*;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

fn me() -> PathBuf {
    Path::new("/proc").join(fs::read_link("/proc/thread-self").expect("proc is there"))
}

/// A thread that works is waited for until it sleeps.
#[test]
fn a_thread_that_is_about_to_call_is_let() {
    let (tell, told) = channel();
    let (end, ended) = channel::<()>();
    let called = AtomicBool::new(false);
    thread::scope(|scope| {
        let called = &called;
        scope.spawn(move || {
            tell.send(me()).expect("the test listens");
            // Work that takes much longer than to look once.
            let sum = (0..20_000_000_u64).fold(0, |sum: u64, number| std::hint::black_box(sum.wrapping_mul(31) + number));
            called.store(sum != 1, Ordering::Release);
            ended.recv().expect("the test ends it");
        });
        let second = Second::of(&told.recv().expect("it tells")).expect("it lives");
        second.let_sleep();
        assert!(called.load(Ordering::Acquire));
        end.send(()).expect("it waits for this");
    });
}

/// A thread that sleeps, or has ended, is not waited for; a file that is not one says nothing.
#[test]
fn the_main_thread_does_not_wait_for_ever() {
    let (tell, told) = channel();
    let ended = thread::spawn(move || tell.send(me()));
    let second = Second::of(&told.recv().expect("it tells"));
    ended.join().expect("no panic").expect("the test listens");
    second.iter().for_each(Second::let_sleep);
    assert!(second.is_none_or(|second| !second.is_awake()));
    assert!(Second::of(Path::new("/nowhere")).is_none());
}
