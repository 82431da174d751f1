//! poll(2) and select(2) over a worker that the test plays and real descriptors of the kernel.

use super::*;
use crate::fallback::Kernel;
use crate::mock::Bench;
use ringway_channel::{Flags, State};
use std::io::IoSlice;
use std::thread;

const LONG: Option<Duration> = Some(Duration::from_secs(30));
const NOW: Option<Duration> = Some(Duration::ZERO);

fn asked(fd: Fd, events: i16) -> pollfd {
    pollfd { fd, events, revents: -1 }
}

impl Bench {
    fn polled(&self, set: &mut [pollfd], timeout: Option<Duration>) -> (usize, Vec<i16>) {
        let count = self.posix.poll(set, timeout, None).expect("some are ours").expect("no error");
        (count, set.iter().map(|entry| entry.revents).collect())
    }

    fn poll_pipe(&self) -> (Fd, Fd) {
        let (read, write) = rustix::pipe::pipe().expect("pipes work here");
        (self.kernel.keep(read), self.kernel.keep(write))
    }
}

#[test]
fn a_mixed_set_is_answered_entry_by_entry() {
    let bench = Bench::new();
    let (first, socket) = bench.socket(State::Connected);
    let (second, _) = bench.socket(State::Connected);
    let (read, write) = bench.poll_pipe();
    let mut set = [
        asked(first, libc::POLLIN),
        asked(-1, libc::POLLIN),
        asked(second, libc::POLLIN | libc::POLLOUT),
        asked(read, libc::POLLIN),
        asked(900, libc::POLLIN),
    ];
    assert_eq!(bench.polled(&mut set, NOW), (2, vec![0, 0, libc::POLLOUT, 0, libc::POLLNVAL]));
    bench.arrive(socket, b"x");
    assert_eq!(bench.kernel.write(write, &[IoSlice::new(b"x")]), Ok(1));
    let mut set = [asked(first, libc::POLLIN), asked(read, libc::POLLIN), asked(second, 0)];
    assert_eq!(bench.polled(&mut set, LONG), (2, vec![libc::POLLIN, libc::POLLIN, 0]));
}

#[test]
fn a_sleeping_poll_is_woken_from_either_world_and_by_time() {
    let bench = Bench::new();
    let (fd, socket) = bench.socket(State::Connected);
    let (read, write) = bench.poll_pipe();
    let set = || [asked(fd, libc::POLLIN), asked(read, libc::POLLIN)];
    for _ in 0..20 {
        thread::scope(|scope| {
            scope.spawn(|| bench.arrive(socket, b"x"));
            assert_eq!(bench.polled(&mut set(), LONG), (1, vec![libc::POLLIN, 0]));
        });
        bench.read(socket, 1);
    }
    thread::scope(|scope| {
        scope.spawn(|| bench.kernel.write(write, &[IoSlice::new(b"x")]));
        assert_eq!(bench.polled(&mut set(), LONG), (1, vec![0, libc::POLLIN]));
    });
    assert_eq!(bench.polled(&mut [asked(fd, libc::POLLIN)], Some(Duration::from_millis(1))), (0, vec![0]));
}

#[test]
fn ends_are_told_unasked() {
    let bench = Bench::new();
    let (fd, socket) = bench.socket(State::Connected);
    bench.turn(|worker| worker.set_flags(socket.index, Flags(Flags::PEER_CLOSED.0 | Flags::HUNG_UP.0)));
    assert_eq!(bench.polled(&mut [asked(fd, 0)], LONG), (1, vec![libc::POLLHUP]));
}

#[test]
fn a_set_without_sockets_of_ours_is_the_kernels() {
    let bench = Bench::new();
    let (read, _write) = bench.poll_pipe();
    assert_eq!(bench.posix.poll(&mut [asked(read, libc::POLLIN)], NOW, None), None);
}

#[test]
fn the_death_of_the_service_ends_the_wait() {
    let mut bench = Bench::new();
    let (fd, _) = bench.socket(State::Connected);
    bench.kill_service();
    let (count, events) = bench.polled(&mut [asked(fd, libc::POLLIN)], LONG);
    assert_eq!(
        (count, events[0] & (libc::POLLIN | libc::POLLHUP | libc::POLLERR)),
        (1, libc::POLLIN | libc::POLLHUP | libc::POLLERR)
    );
}

#[test]
fn an_epoll_descriptor_is_readable_when_it_has_something() {
    let bench = Bench::new();
    let (fd, socket) = bench.socket(State::Connected);
    let epoll = bench.kernel.epoll_create(0).expect("epoll works here");
    bench.posix.epoll_created(epoll);
    let event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 1 };
    assert_eq!(bench.posix.epoll_control(epoll, libc::EPOLL_CTL_ADD, fd, Some(event)), Some(Ok(())));
    assert_eq!(bench.polled(&mut [asked(epoll, libc::POLLIN)], NOW), (0, vec![0]));
    bench.arrive(socket, b"x");
    assert_eq!(bench.polled(&mut [asked(epoll, libc::POLLIN)], NOW), (1, vec![libc::POLLIN]));
}

#[test]
fn select_reports_in_the_sets_it_was_given() {
    let bench = Bench::new();
    let (readable, socket) = bench.socket(State::Connected);
    let (idle, _) = bench.socket(State::Connecting);
    bench.arrive(socket, b"x");
    let words = idle.max(readable) as usize / 64 + 1;
    let set = |fds: &[Fd]| {
        let mut bits = vec![0u64; words];
        fds.iter().for_each(|&fd| bits[fd as usize / 64] |= 1 << (fd % 64));
        bits
    };
    let (mut read, mut write) = (set(&[readable, idle]), set(&[readable, idle]));
    let sets = SelectSets { read: Some(&mut read), write: Some(&mut write), except: None };
    assert_eq!(bench.posix.select(words * 64, sets, LONG, None), Some(Ok(2)));
    assert_eq!((read, write), (set(&[readable]), set(&[readable])));
}
