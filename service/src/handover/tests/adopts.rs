//! Connections of the kernel's that go on in a stack.

use std::os::fd::BorrowedFd;

use ringway_stack::config::TcpConfig;

use super::super::adopt::{self, Ends};
use super::*;

const CLOSE: u8 = 7;
const ESTABLISHED: u8 = 1;

impl World {
    /// Waits until the kernel's connection may go.
    fn silent(&mut self, socket: BorrowedFd<'_>) -> Ends {
        let mut ends = None;
        self.until("silence", |_| {
            ends = adopt::look(socket).ok();
            ends.is_some()
        });
        ends.expect("it was set")
    }

    /// The stack is silent for the flow, whose packets come to it.
    fn expect_flow(&mut self, [local, remote]: Ends) {
        assert!(self.stack.hold(local, remote), "it is not known here");
        let end = |end: SocketAddress| (end.ip, end.port);
        self.filter.retake_flow(&ringway_shm::Flow { local: end(local), remote: end(remote) }).expect("it was left");
    }

    fn adopt(&mut self, socket: BorrowedFd<'_>) -> SocketId {
        let ends = self.silent(socket);
        self.expect_flow(ends);
        let (taken, quiet) = adopt::take(socket, ends).expect("nothing is under way");
        let image = ConnectionImage::of_quiet(&quiet, &TcpConfig::default());
        let id = self.stack.import(clock::now(), &image, 7).expect("it can go on");
        taken.let_go().expect("root");
        id
    }

    /// Bytes in both directions between the stack's end and the peer's.
    fn talk(&mut self, id: SocketId, peer: &mut TcpStream, seed: u32) {
        self.send(id, &pattern(seed, 60_000));
        self.expect("from the stack", peer, &pattern(seed, 60_000));
        self.write("to the stack", peer, &pattern(seed + 1, 60_000));
        self.until("the peer's bytes", |world| world.stack.unread(id) == 60_000);
        assert_eq!(self.take(id, 60_000), pattern(seed + 1, 60_000));
        self.stack.consumed(id, 60_000);
    }
}

/// To the kernel and back, twice; the kernel socket is as a fresh one in between.
#[test]
fn a_connection_comes_back() {
    in_fresh_namespace("handover::tests::adopts::namespace_back");
}

#[test]
#[ignore = "runs in a namespace of its own"]
fn namespace_back() {
    for kind in KINDS {
        let mut world = World::new(kind);
        let (mut id, mut peer) = warmed(&mut world);
        let (options, mut socket) = (TcpOptions::default(), kind.kernel_socket());
        for round in 0..2 {
            let image = world.export(id);
            let mut stream = world.hand_over(&leaving(&image, &options), socket);
            world.write("to the peer", &mut stream, &pattern(1, 100_000));
            world.expect("from the program", &mut peer, &pattern(1, 100_000));
            let resets = counted("snmp", "OutRsts");
            id = world.adopt(stream.as_fd());
            assert_eq!((state_of(&stream), state_of(&peer)), (CLOSE, ESTABLISHED));
            assert!(sockopt::socket_reuseaddr(&stream).expect("a socket"), "as it was");
            world.talk(id, &mut peer, 10 + round);
            assert_eq!(counted("snmp", "OutRsts"), resets, "the kernel has said nothing");
            socket = stream.into();
        }
        world.stack.close(clock::now(), id);
        world.expect_end("the end", &mut peer);
    }
}

/// What is under way keeps a connection with the kernel, which goes on after each attempt.
#[test]
fn a_connection_with_something_under_way_stays() {
    in_fresh_namespace("handover::tests::adopts::namespace_busy");
}

#[test]
#[ignore = "runs in a namespace of its own"]
fn namespace_busy() {
    let mut world = World::new(Kind::Ipv4);
    let (id, mut peer) = warmed(&mut world);
    let (image, options) = (world.export(id), TcpOptions::default());
    let mut stream = world.hand_over(&leaving(&image, &options), Kind::Ipv4.kernel_socket());
    let ends = world.silent(stream.as_fd());
    world.write("unread", &mut peer, b"unread");
    world.until("it has come", |_| matches!(stream.peek(&mut [0; 9]), Ok(6)));
    assert!(matches!(adopt::look(stream.as_fd()), Err(Refusal::Busy)));
    assert!(matches!(adopt::take(stream.as_fd(), ends), Err(Refusal::Busy)));
    assert_eq!(state_of(&stream), ESTABLISHED);
    world.expect("what was unread", &mut stream, b"unread");
    world.write("after it", &mut stream, &pattern(3, 100_000));
    world.expect("from the program", &mut peer, &pattern(3, 100_000));
    // What the stack refuses goes on too, and asks the peer for what was lost meanwhile.
    let ends = world.silent(stream.as_fd());
    world.expect_flow(ends);
    let (taken, _) = adopt::take(stream.as_fd(), ends).expect("nothing is under way");
    world.write("into the silence", &mut peer, b"lost");
    world.turn();
    drop(taken);
    world.steer(&image);
    assert!(world.stack.release_hold(image.local, image.remote), "it was held");
    world.expect("sent again", &mut stream, b"lost");
    drop(peer);
    world.until("the peer has ended", |_| matches!(adopt::look(stream.as_fd()), Err(Refusal::Busy)));
    world.expect_end("the end", &mut stream);
}

/// Other kinds of sockets, and listeners.
#[test]
fn what_is_no_connection_stays() {
    let datagrams = std::net::UdpSocket::bind(("127.0.0.1", 0)).expect("a port is free");
    assert!(matches!(adopt::look(datagrams.as_fd()), Err(Refusal::Socket)));
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
    assert!(adopt::look(listener.as_fd()).is_err());
}

/// A stack cannot go on with ECN that another has negotiated.
#[test]
fn a_connection_with_ecn_stays() {
    in_fresh_namespace("handover::tests::adopts::namespace_ecn");
}

#[test]
#[ignore = "runs in a namespace of its own"]
fn namespace_ecn() {
    shell("ip link set lo up");
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
    for (ecn, is_refused) in [(0, false), (1, true)] {
        std::fs::write("/proc/sys/net/ipv4/tcp_ecn", format!("{ecn}")).expect("root");
        let stream = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        let looked = adopt::look(stream.as_fd());
        // The other one is only not silent for long enough.
        assert!(
            if is_refused { matches!(looked, Err(Refusal::Terms)) } else { matches!(looked, Err(Refusal::Busy)) },
            "{looked:?}"
        );
    }
}
