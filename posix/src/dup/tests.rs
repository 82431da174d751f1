//! The number of a socket's descriptors, and the end of the last one.

use super::*;
use crate::channel::Channel;
use crate::fallback::{Kernel, OnExec};
use crate::mock::Bench;
use ringway_channel::{Operation, State};

fn is_close(operation: &Operation) -> bool {
    matches!(operation, Operation::Close { .. })
}

#[test]
fn only_the_last_descriptor_closes_the_socket() {
    let bench = Bench::new();
    let (fd, socket) = bench.socket(State::Connected);
    let copy = bench.posix.duplicate(fd, socket, 0, OnExec::Keep).expect("numbers are free");
    assert_eq!(bench.posix.table().socket(copy), Some(socket));
    assert_eq!(bench.posix.close(fd), Some(Ok(())));
    assert_eq!(bench.posix.table().lookup(fd), Entry::None);
    assert_eq!(bench.requests(), []);
    assert_eq!(bench.posix.close(copy), Some(Ok(())));
    assert_eq!(bench.requests(), [Operation::Close { linger_s: None }]);
}

/// For `ringway ss -p`: a number that is open.
#[test]
fn an_open_number_of_a_socket_is_noted() {
    let bench = Bench::new();
    let (fd, socket) = bench.socket(State::Connected);
    let (other, second) = bench.socket(State::Connected);
    let noted = |socket: SocketRef| bench.turn(|worker| worker.slot(socket.index).place().map(|place| place.number));
    assert_eq!((noted(socket), noted(second)), (Some(fd as u32), Some(other as u32)));
    let copy = bench.posix.duplicate(fd, socket, 0, OnExec::Keep).expect("numbers are free");
    assert_eq!(noted(socket), Some(copy as u32));
    bench.posix.close(copy);
    assert_eq!(noted(socket), Some(fd as u32));
    assert_eq!(bench.posix.duplicate_to(fd, other, OnExec::Keep), Some(Ok(other)));
    bench.posix.close(fd);
    assert_eq!(noted(socket), Some(other as u32));
    assert_ne!(noted(second), Some(other as u32));
}

#[test]
fn linger_with_no_time_is_a_reset() {
    let bench = Bench::new();
    let (fd, socket) = bench.socket(State::Connected);
    bench.posix.descriptions.of(socket).linger.store(0, Ordering::Release);
    bench.posix.close(fd);
    assert_eq!(bench.requests(), [Operation::Close { linger_s: Some(0) }]);
}

#[test]
fn dup2_over_a_socket_closes_it() {
    let bench = Bench::new();
    let (first, socket) = bench.socket(State::Connected);
    let (second, _) = bench.socket(State::Connected);
    assert_eq!(bench.posix.duplicate_to(first, second, OnExec::Keep), Some(Ok(second)));
    assert_eq!(bench.posix.table().socket(second), Some(socket));
    assert!(bench.requests().iter().any(is_close));
    bench.posix.close(first);
    assert_eq!(bench.requests(), []);
}

#[test]
fn a_failed_dup2_changes_nothing() {
    let bench = Bench::new();
    let (fd, socket) = bench.socket(State::Connected);
    assert_eq!(bench.posix.duplicate_to(Fd::MAX, fd, OnExec::Keep), Some(Err(Errno::BADF)));
    assert_eq!(bench.posix.table().socket(fd), Some(socket));
    assert_eq!(bench.requests(), []);
}

#[test]
fn our_own_descriptors_are_not_the_programs_to_close() {
    let bench = Bench::new();
    let control = bench.posix.attached().map(Channel::control_descriptor).expect("it is attached");
    let (fd, _) = bench.socket(State::Connected);
    assert_eq!(bench.posix.close(control), Some(Err(Errno::BADF)));
    assert_eq!(bench.posix.duplicate_to(fd, control, OnExec::Keep), Some(Err(Errno::BADF)));
    let mut kernel_ranges = Vec::new();
    let answer = bench.posix.close_range(fd, Fd::MAX, |first, last| {
        kernel_ranges.push((first, last));
        Ok(())
    });
    assert_eq!(answer, Some(Ok(())));
    assert!(kernel_ranges.iter().all(|(first, last)| !(*first..=*last).contains(&control)));
    assert!(bench.requests().iter().any(is_close));
}

#[test]
fn a_child_of_vfork_leaves_the_parents_sockets_alone() {
    let bench = Bench::new();
    let (fd, socket) = bench.socket(State::Connected);
    bench.kernel.pretended_process.store(1, Ordering::Relaxed);
    assert_eq!(bench.posix.close(fd), None);
    assert_eq!(bench.posix.duplicate_to(fd, 700, OnExec::Keep), Some(Ok(700)));
    let control = bench.posix.attached().map(Channel::control_descriptor).expect("it is attached");
    let mut closed = Vec::new();
    let answer = bench.posix.close_range(0, Fd::MAX, |first, last| {
        closed.push(first..=last);
        Ok(())
    });
    assert_eq!(answer, Some(Ok(())));
    assert!(closed.iter().any(|range| range.contains(&fd)), "its own descriptor");
    assert!(!closed.iter().any(|range| range.contains(&control)), "it may have to ask the service");
    bench.kernel.pretended_process.store(0, Ordering::Relaxed);
    assert_eq!(bench.posix.table().socket(fd), Some(socket));
    assert_eq!(bench.posix.table().lookup(700), Entry::None);
    assert!(!bench.requests().iter().any(is_close));
}

#[test]
fn a_socket_that_another_process_holds_goes_on() {
    let bench = Bench::new();
    let (fd, _) = bench.socket(State::Connected);
    bench.posix.before_fork();
    assert_eq!(bench.posix.close(fd), Some(Ok(())));
    assert!(!bench.requests().iter().any(is_close));
    assert!(bench.kernel.close(fd).is_err(), "the number is free");
}
