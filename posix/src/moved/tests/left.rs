//! Datagram sockets of a dead service.

use super::*;
use crate::mock::Bench;
use std::net::SocketAddr;

/// One that is connected.
fn datagrams(bench: &Bench) -> (Descriptor, Fd) {
    let (at, peer) = bench.paired();
    bench.posix.descriptions.of(at.socket).mark(Flag::DATAGRAM);
    let [local, remote] = [1, 2].map(|host| SocketAddr::from(([10, 0, 0, host], 53)));
    bench.turn(|worker| worker.set_addresses(at.socket.index, local, remote));
    (at, peer)
}

/// The kernel socket under a connected one is not watched: the wait would hear of nothing any more.
#[test]
fn a_poll_of_it_alone_goes_on_in_the_kernel() {
    let mut bench = Bench::new();
    let (at, peer) = datagrams(&bench);
    bench.kill_service();
    assert_eq!(bench.kernel.write(peer, &[IoSlice::new(b"x")]), Ok(1));
    let mut set = [pollfd { fd: at.fd, events: libc::POLLIN, revents: 0 }];
    assert_eq!(bench.posix.poll(&mut set, LONG, None), Some(Ok(1)));
    assert_eq!((set[0].revents, bench.has_gone(at)), (libc::POLLIN, true));
}

#[test]
fn a_wait_for_it_alone_goes_on_in_the_kernel() {
    let mut bench = Bench::new();
    let (epoll, (at, peer)) = (bench.epoll(), datagrams(&bench));
    bench.add(epoll, at.fd, libc::EPOLLIN as u32);
    bench.kill_service();
    assert_eq!(bench.kernel.write(peer, &[IoSlice::new(b"x")]), Ok(1));
    assert_eq!(bench.wait(epoll, 4, LONG), Ok(vec![(at.fd, libc::EPOLLIN as u32)]));
    assert!(bench.has_gone(at));
}

#[test]
fn what_waits_is_read_first() {
    let mut bench = Bench::new();
    let (at, _) = datagrams(&bench);
    bench.arrive(at.socket, b"abc");
    bench.kill_service();
    bench.posix.look_at_service();
    assert_eq!(bench.posix.socket_of(at.fd), Some(at.socket));
    assert_eq!(bench.read(at.socket, 3), 3);
    assert_eq!((bench.posix.socket_of(at.fd), bench.has_gone(at)), (None, true));
}

#[test]
fn a_strict_programs_socket_stays() {
    let mut bench = Bench::with(Settings { strict: true, ..Settings::default() });
    let (at, _) = datagrams(&bench);
    bench.kill_service();
    bench.posix.look_at_service();
    assert_eq!(bench.posix.socket_of(at.fd), Some(at.socket));
}
