//! Descriptors of a thread with its own table, and those of the other threads.

use super::*;
use crate::fallback::Kernel;
use crate::mock::Bench;
use ringway_channel::State;
use std::thread;

#[test]
fn a_thread_apart_closes_for_itself_alone() {
    let bench = Bench::new();
    let (fd, socket) = bench.socket(State::Connected);
    let control = bench.posix.attached().expect("it is attached").control_descriptor();
    let ranges = thread::scope(|scope| {
        let apart = scope.spawn(|| {
            let mut ranges = Vec::new();
            let answer = bench.posix.close_range_apart(fd, Fd::MAX, |first, last| {
                ranges.push((first, last));
                Ok(())
            });
            assert_eq!(answer, Some(Ok(())));
            assert_eq!(bench.posix.table.lookup(fd), Entry::None);
            assert_eq!(bench.posix.close(fd), None, "its number is the kernel's");
            // The kernel hands the number out again, to this thread.
            bench.posix.forget_stale(fd);
            assert!(matches!(bench.posix.channel(), Ok(None)));
            let epoll = bench.kernel.epoll_create(0).expect("epoll works here");
            bench.posix.epoll_created(epoll);
            assert_eq!(bench.posix.table.lookup(epoll), Entry::None);
            ranges
        });
        apart.join().expect("it does not panic")
    });
    assert!(ranges.iter().any(|(first, last)| (*first..=*last).contains(&fd)));
    assert!(!ranges.iter().any(|(first, last)| (*first..=*last).contains(&control)), "the library goes on there");
    assert_eq!(bench.posix.table.socket(fd), Some(socket));
    assert_eq!(bench.requests(), []);
}

#[test]
fn a_child_of_a_thread_apart_begins_with_nothing() {
    let bench = Bench::new();
    let (fd, socket) = bench.socket(State::Connected);
    thread::scope(|scope| {
        scope.spawn(|| {
            bench.posix.note_unshared();
            bench.posix.forget_apart();
            assert_eq!(bench.posix.table.socket(fd), None);
            assert!(matches!(bench.posix.channel(), Ok(Some(_))));
        });
    });
    assert!(bench.posix.attached().expect("it is attached").view(socket).is_some(), "others may have it");
}
