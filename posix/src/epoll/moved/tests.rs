//! Watches of connections that the kernel goes on with; the kernel socket is one end of a pair.

use super::*;
use crate::errno::Errno;
use crate::fallback::{Kernel, OnExec};
use crate::mock::Bench;
use ringway_channel::{Flags, State};
use std::io::{IoSlice, IoSliceMut};
use std::sync::atomic::Ordering;
use std::thread;

const IN: u32 = libc::EPOLLIN as u32;
const OUT: u32 = libc::EPOLLOUT as u32;
const ET: u32 = libc::EPOLLET as u32;
/// Long enough for any machine; no test waits for it to pass.
const LONG: Option<Duration> = Some(Duration::from_secs(30));

impl Bench {
    fn send_to(&self, fd: Fd) {
        assert_eq!(self.kernel.write(fd, &[IoSlice::new(b"x")]), Ok(1));
    }

    fn take_from(&self, fd: Fd) {
        assert_eq!(self.kernel.read(fd, &mut [IoSliceMut::new(&mut [0])]), Ok(1));
    }
}

#[test]
fn a_watch_goes_on_in_the_kernel_with_its_events_and_the_programs_word() {
    let bench = Bench::new();
    let epoll = bench.epoll();
    let (at, peer) = bench.paired();
    bench.add(epoll, at.fd, IN);
    bench.say(at.socket, Flags::MOVED);
    assert_eq!(bench.now_ready(epoll), [], "the kernel's socket has nothing");
    assert!(bench.has_gone(at), "a wait sees it");
    bench.send_to(peer);
    assert_eq!(bench.now_ready(epoll), [(at.fd, IN)]);
    assert_eq!(bench.now_ready(epoll), [(at.fd, IN)], "a level holds");
    assert_eq!(bench.control(epoll, libc::EPOLL_CTL_MOD, at.fd, OUT), Ok(()));
    assert_eq!(bench.now_ready(epoll), [(at.fd, OUT)]);
    assert_eq!(bench.control(epoll, libc::EPOLL_CTL_DEL, at.fd, 0), Ok(()));
    assert_eq!(bench.now_ready(epoll), []);
}

#[test]
fn a_sleeping_wait_is_told_what_the_kernel_brings() {
    for wanted in [false, true] {
        let bench = Bench::new();
        bench.desk.hands_over.store(true, Ordering::Relaxed);
        let epoll = bench.epoll();
        let (at, peer) = bench.paired();
        bench.add(epoll, at.fd, IN);
        thread::scope(|scope| {
            let waiter = scope.spawn(|| bench.wait(epoll, 4, LONG));
            bench.say_to_sleeper(at.socket, if wanted { Flags::WANTED } else { Flags::MOVED });
            while !bench.has_gone(at) {
                thread::yield_now();
            }
            bench.send_to(peer);
            assert_eq!(waiter.join().expect("it does not panic"), Ok(vec![(at.fd, IN)]));
        });
    }
}

#[test]
fn a_read_moves_the_watch_under_a_sleeping_wait() {
    let bench = Bench::new();
    let epoll = bench.epoll();
    let (at, peer) = bench.paired();
    let (other, _) = bench.paired();
    bench.add(epoll, at.fd, IN);
    bench.add(epoll, other.fd, IN);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| bench.wait(epoll, 4, LONG));
        bench.turn(|worker| worker.set_flags(at.socket.index, Flags::MOVED));
        assert_eq!(bench.posix.socket_of(at.fd), None);
        bench.send_to(peer);
        assert_eq!(waiter.join().expect("it does not panic"), Ok(vec![(at.fd, IN)]));
    });
}

#[test]
fn an_edge_is_told_once_for_each_arrival() {
    let bench = Bench::new();
    let epoll = bench.epoll();
    let (at, peer) = bench.paired();
    bench.add(epoll, at.fd, IN | ET);
    bench.say(at.socket, Flags::MOVED);
    assert_eq!(bench.now_ready(epoll), []);
    for _ in 0..2 {
        bench.send_to(peer);
        assert_eq!(bench.now_ready(epoll), [(at.fd, IN)]);
        assert_eq!(bench.now_ready(epoll), []);
    }
}

/// EPOLLONESHOT: one thread works on the connection; no other may hear of it before that one arms it again.
#[test]
fn a_spent_one_shot_stays_silent_until_the_program_arms_it() {
    let bench = Bench::new();
    let epoll = bench.epoll();
    let (at, peer) = bench.paired();
    bench.add(epoll, at.fd, IN | ONESHOT);
    bench.arrive(at.socket, b"x");
    assert_eq!(bench.now_ready(epoll), [(at.fd, IN)]);
    bench.read(at.socket, 1);
    bench.say(at.socket, Flags::MOVED);
    bench.send_to(peer);
    // Even a hang-up.
    bench.kernel.close(peer).expect("it is open");
    assert_eq!(bench.posix.socket_of(at.fd), None);
    assert_eq!(bench.now_ready(epoll), []);
    assert_eq!(bench.control(epoll, libc::EPOLL_CTL_MOD, at.fd, IN | ONESHOT), Ok(()));
    let told = bench.now_ready(epoll);
    assert!(matches!(told[..], [(fd, bits)] if fd == at.fd && bits & IN != 0), "{told:?}");
    assert_eq!(bench.now_ready(epoll), []);
    assert_eq!(bench.control(epoll, libc::EPOLL_CTL_DEL, at.fd, 0), Ok(()));
    assert_eq!(bench.control(epoll, libc::EPOLL_CTL_DEL, at.fd, 0), Err(Errno::NOENT));
}

#[test]
fn a_spent_one_shot_can_be_removed_and_an_armed_one_fires_in_the_kernel() {
    let bench = Bench::new();
    let epoll = bench.epoll();
    let (spent, _) = bench.paired();
    let (armed, peer) = bench.paired();
    bench.add(epoll, spent.fd, IN | ONESHOT);
    bench.add(epoll, armed.fd, IN | ONESHOT);
    bench.arrive(spent.socket, b"x");
    assert_eq!(bench.now_ready(epoll), [(spent.fd, IN)]);
    bench.read(spent.socket, 1);
    bench.say(spent.socket, Flags::MOVED);
    bench.say(armed.socket, Flags::MOVED);
    assert_eq!([spent, armed].map(|at| bench.posix.socket_of(at.fd)), [None; 2]);
    assert_eq!(bench.control(epoll, libc::EPOLL_CTL_DEL, spent.fd, 0), Ok(()));
    assert_eq!(bench.control(epoll, libc::EPOLL_CTL_MOD, spent.fd, IN), Err(Errno::NOENT));
    bench.send_to(peer);
    assert_eq!(bench.now_ready(epoll), [(armed.fd, IN)]);
    bench.send_to(peer);
    assert_eq!(bench.now_ready(epoll), []);
}

#[test]
fn every_instance_that_watches_it_gets_the_kernels_watch() {
    let bench = Bench::new();
    let (first, second) = (bench.epoll(), bench.epoll());
    let (at, peer) = bench.paired();
    bench.add(first, at.fd, IN);
    bench.add(second, at.fd, OUT);
    bench.say(at.socket, Flags::MOVED);
    assert_eq!(bench.posix.socket_of(at.fd), None);
    bench.send_to(peer);
    assert_eq!(bench.now_ready(first), [(at.fd, IN)]);
    assert_eq!(bench.now_ready(second), [(at.fd, OUT)]);
}

/// epoll(7): a watch lives as long as the open file description, not as its number.
#[test]
fn a_watch_outlives_the_number_that_it_was_made_under() {
    let bench = Bench::new();
    let epoll = bench.epoll();
    let (at, peer) = bench.paired();
    bench.add(epoll, at.fd, IN);
    let other = bench.posix.duplicate(at.fd, at.socket, 0, OnExec::Close).expect("numbers are free");
    assert_eq!(bench.posix.close(at.fd), Some(Ok(())));
    bench.say(at.socket, Flags::MOVED);
    assert_eq!(bench.posix.socket_of(other), None);
    bench.send_to(peer);
    assert_eq!(bench.now_ready(epoll), [(at.fd, IN)], "with the word of then");
}

/// A signal handler that reads while its thread uses the instance.
#[test]
fn an_instance_that_stays_locked_is_left_to_the_next_call() {
    let bench = Bench::new();
    let epoll = bench.epoll();
    let (at, peer) = bench.paired();
    bench.add(epoll, at.fd, IN);
    bench.say(at.socket, Flags::MOVED);
    let Entry::Epoll(number) = bench.posix.table().lookup(epoll) else { panic!("it is known") };
    let locked = bench.posix.epolls.lock(number);
    assert_eq!(bench.posix.socket_of(at.fd), None, "the kernel's call is right at once");
    assert!(!bench.has_gone(at));
    drop(locked);
    bench.send_to(peer);
    assert_eq!(bench.now_ready(epoll), [(at.fd, IN)]);
    assert!(bench.has_gone(at));
}

#[test]
fn in_a_list_that_fork_shares_one_process_moves_the_watch() {
    let bench = Bench::new();
    let epoll = bench.epoll();
    let [both, childs] = [0; 2].map(|_| bench.paired());
    bench.add(epoll, both.0.fd, IN);
    bench.add(epoll, childs.0.fd, IN);
    bench.posix.before_fork();
    bench.posix.fork_is_over();
    // The child alone has the second one's number by now.
    bench.posix.table().set(childs.0.fd, Entry::None);
    bench.say(both.0.socket, Flags::MOVED);
    bench.say(childs.0.socket, Flags::MOVED);
    bench.send_to(both.1);
    bench.send_to(childs.1);
    assert_eq!(bench.now_ready(epoll), [(both.0.fd, IN)]);
    // The child has moved it, which this process only hears of.
    let event = epoll_event { events: IN, u64: childs.0.fd as u64 };
    let file = childs.0.fd;
    bench.kernel.epoll_control(epoll, libc::EPOLL_CTL_ADD, file, Some(event)).expect("it is not there yet");
    let mut told = bench.now_ready(epoll);
    told.sort_unstable();
    let mut all = [(both.0.fd, IN), (childs.0.fd, IN)];
    all.sort_unstable();
    assert_eq!(told, all);
}

#[test]
fn a_listener_is_watched_by_the_kernel_alone() {
    let bench = Bench::new();
    let epoll = bench.epoll();
    let (connected, peer) = bench.paired();
    // Its kernel socket becomes readable as one with a connection does.
    bench.turn(|worker| worker.set_state(connected.socket.index, State::Listening));
    bench.add(epoll, connected.fd, IN);
    bench.say(connected.socket, Flags::MOVED);
    assert_eq!(bench.now_ready(epoll), []);
    assert!(bench.has_gone(connected));
    bench.send_to(peer);
    assert_eq!(bench.now_ready(epoll), [(connected.fd, IN)]);
    bench.take_from(connected.fd);
    assert_eq!(bench.now_ready(epoll), []);
}

/// Another thread makes the socket the kernel's between a thread's look at the number and its epoll_ctl(2).
#[test]
fn a_watch_that_comes_too_late_for_the_stack_is_made_in_the_kernel() {
    let bench = Bench::new();
    let epoll = bench.epoll();
    let (added, peer) = bench.paired();
    let (modified, _) = bench.paired();
    bench.add(epoll, modified.fd, IN);
    for at in [added, modified] {
        bench.say(at.socket, Flags::MOVED);
        assert_eq!(bench.posix.socket_of(at.fd), None);
    }
    let Entry::Epoll(number) = bench.posix.table().lookup(epoll) else { panic!("it is known") };
    let instance = EpollRef { number, fd: epoll };
    let event = |at: Descriptor| epoll_event { events: IN | OUT, u64: at.fd as u64 };
    let late = bench.posix.epoll_add(number, epoll, added, event(added));
    let late = bench.posix.control_moved(instance, added, (libc::EPOLL_CTL_ADD, Some(event(added))), late);
    assert_eq!(late, Ok(()));
    let late = bench.posix.epoll_modify(number, epoll, modified, event(modified));
    assert_eq!(late, Err(Errno::NOENT));
    let late = bench.posix.control_moved(instance, modified, (libc::EPOLL_CTL_MOD, Some(event(modified))), late);
    assert_eq!(late, Ok(()));
    bench.send_to(peer);
    let mut told = bench.now_ready(epoll);
    told.sort_unstable();
    let mut all = [(added.fd, IN | OUT), (modified.fd, OUT)];
    all.sort_unstable();
    assert_eq!(told, all);
}

#[test]
fn a_wait_goes_on_while_another_instance_keeps_the_socket() {
    let bench = Bench::new();
    let (first, second) = (bench.epoll(), bench.epoll());
    let (at, peer) = bench.paired();
    bench.add(first, at.fd, IN);
    bench.add(second, at.fd, IN);
    bench.say(at.socket, Flags::MOVED);
    let Entry::Epoll(number) = bench.posix.table().lookup(second) else { panic!("it is known") };
    let locked = bench.posix.epolls.lock(number);
    bench.send_to(peer);
    assert_eq!(bench.now_ready(first), [(at.fd, IN)]);
    assert!(!bench.has_gone(at));
    drop(locked);
    assert_eq!(bench.now_ready(second), [(at.fd, IN)]);
    assert!(bench.has_gone(at));
}

/// Another thread has the instance for long, while a wait finds that the socket has moved.
#[test]
fn a_wait_that_cannot_move_a_watch_leaves_it_to_the_next() {
    let bench = Bench::new();
    let epoll = bench.epoll();
    let (at, peer) = bench.paired();
    bench.add(epoll, at.fd, IN);
    assert_eq!(bench.now_ready(epoll), []);
    bench.turn(|worker| worker.set_flags(at.socket.index, Flags::MOVED));
    let Entry::Epoll(number) = bench.posix.table().lookup(epoll) else { panic!("it is known") };
    let locked = bench.posix.epolls.lock(number);
    thread::scope(|scope| {
        let mover = scope.spawn(|| bench.posix.move_later(number, vec![at.socket]));
        while bench.kernel.pauses.load(Ordering::Relaxed) < ATTEMPTS {
            thread::yield_now();
        }
        drop(locked);
        mover.join().expect("it does not panic");
    });
    assert!(!bench.has_gone(at));
    bench.send_to(peer);
    assert_eq!(bench.now_ready(epoll), [(at.fd, IN)]);
    assert!(bench.has_gone(at));
}

/// A program whose connections of the stack are always ready still hears of those that have moved.
#[test]
fn both_worlds_are_told_in_one_result() {
    let bench = Bench::new();
    let epoll = bench.epoll();
    let (ours, _) = bench.paired();
    let (moved, peer) = bench.paired();
    bench.add(epoll, ours.fd, IN);
    bench.add(epoll, moved.fd, IN);
    bench.say(moved.socket, Flags::MOVED);
    assert_eq!(bench.posix.socket_of(moved.fd), None);
    bench.arrive(ours.socket, b"x");
    bench.send_to(peer);
    assert_eq!(bench.now_ready(epoll), [(ours.fd, IN), (moved.fd, IN)]);
}

#[test]
fn a_slot_that_another_process_still_holds_wakes_this_one_no_more() {
    let bench = Bench::new();
    let epoll = bench.epoll();
    let (at, _) = bench.paired();
    bench.add(epoll, at.fd, IN);
    bench.say(at.socket, Flags::MOVED);
    assert_eq!(bench.now_ready(epoll), []);
    bench.turn(|worker| worker.signal(at.socket.index));
    let Entry::Epoll(number) = bench.posix.table().lookup(epoll) else { panic!("it is known") };
    let (context, _) = bench.posix.epolls.lock(number).as_ref().and_then(|instance| instance.wake_fd).expect("it has one");
    assert!(!bench.posix.attached().expect("it is attached").has_event(context));
}

/// A watch that another process has made under a number of its own is that process's to move.
#[test]
fn a_number_that_only_another_process_has_is_left_to_it() {
    let bench = Bench::new();
    let epoll = bench.epoll();
    let (at, peer) = bench.paired();
    bench.add(epoll, at.fd, IN);
    bench.posix.before_fork();
    bench.posix.fork_is_over();
    let other = bench.posix.duplicate(at.fd, at.socket, 0, OnExec::Close).expect("numbers are free");
    bench.posix.let_go(at.fd);
    bench.say(at.socket, Flags::MOVED);
    assert_eq!(bench.posix.socket_of(other), None);
    bench.send_to(peer);
    assert_eq!(bench.now_ready(epoll), []);
    // The other process.
    let event = epoll_event { events: IN, u64: at.fd as u64 };
    bench.kernel.epoll_control(epoll, libc::EPOLL_CTL_ADD, at.fd, Some(event)).expect("it is not there yet");
    assert_eq!(bench.now_ready(epoll), [(at.fd, IN)]);
}
