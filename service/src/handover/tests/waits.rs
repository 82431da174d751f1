//! Connections that no program has accepted go into the accept queue of a kernel listener.

use std::io::{ErrorKind, Write};
use std::net::{Shutdown, TcpListener};

use ringway_device::steering::AcceptQueues;
use ringway_engine::clock;
use rustix::net::listen;

use super::world::{PORT, World, pattern};
use super::*;

/// `None`: this kernel is older than 6.9.
fn queues() -> Option<AcceptQueues> {
    let old = [ErrorKind::Unsupported, ErrorKind::NotFound];
    AcceptQueues::new().inspect_err(|error| assert!(old.contains(&error.kind()), "root may use BPF: {error}")).ok()
}

/// The peer has sent its FIN.
struct Ended;

/// A connection of which the program knows nothing; the peer has sent `count` bytes on it.
fn unaccepted(world: &mut World, count: usize, end: Option<Ended>) -> (SocketId, TcpStream) {
    let (id, mut peer) = world.accepted(TcpOptions::default());
    world.write("to the stack", &mut peer, &pattern(2, count));
    world.until("unread bytes", |world| world.stack.unread(id) == count);
    if end.is_some() {
        peer.shutdown(Shutdown::Write).expect("it is connected");
        world.until("the peer's FIN", |world| world.state(id) == State::CloseWait);
    }
    (id, peer)
}

fn accept(world: &mut World, listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).expect("it is a socket");
    let mut accepted = None;
    world.until("accept", |_| {
        accepted = listener.accept().ok();
        accepted.is_some()
    });
    let (stream, _) = accepted.expect("set");
    stream.set_nonblocking(true).expect("it is a socket");
    stream
}

/// What has come is read first, what comes meanwhile is repeated, and both directions go on; the peer's end too.
#[test]
fn a_connection_that_waits_goes_on() {
    in_fresh_namespace("handover::tests::waits::namespace_goes_on");
}

#[test]
#[ignore = "runs in a namespace of its own"]
fn namespace_goes_on() {
    let Some(mut queues) = queues() else { return };
    for (kind, count) in KINDS.into_iter().flat_map(|kind| [(kind, 0), (kind, 50_000)]) {
        for ends in [false, true] {
            let mut world = World::new(kind);
            let (id, mut peer) = unaccepted(&mut world, count, ends.then_some(Ended));
            let listener = world.kernel_listener();
            let (image, options) = (world.export(id), TcpOptions::default());
            let leaving = leaving(&image, &options);
            enqueue(&leaving, listener.as_fd(), &world.injector, &mut queues).expect("the kernel takes it");
            if !ends {
                // No end answers yet.
                peer.write_all(&pattern(2, count + 10_000)[count..]).expect("room");
            }
            world.turn();
            world.steer(&image);
            world.turn();
            assert!(world.stack.release_hold(image.local, image.remote), "it was held");
            let mut stream = accept(&mut world, &listener);
            assert_eq!(stream.peer_addr().expect("connected").port(), peer.local_addr().expect("connected").port());
            let agreed = repair::info(stream.as_fd()).expect("it is a socket of TCP").agreed;
            let terms = &image.terms;
            assert_eq!((agreed.send_scale, agreed.receive_scale), (terms.send_scale, terms.receive_scale));
            assert_eq!((agreed.sack, agreed.timestamps), (terms.sack, terms.timestamps.is_some()));
            world.expect("what had come", &mut stream, &pattern(2, if ends { count } else { count + 10_000 }));
            if ends {
                world.expect_end("the peer's end", &mut stream);
            } else {
                world.write("to the program", &mut peer, &pattern(3, 300_000));
                world.expect("from the peer", &mut stream, &pattern(3, 300_000));
            }
            world.write("to the peer", &mut stream, &pattern(1, 500_000));
            world.expect("from the program", &mut peer, &pattern(1, 500_000));
            drop(stream);
            world.expect_end("the end", &mut peer);
        }
    }
}

/// What cannot wait in the queue, and queues that do not take it: the connection goes on in the stack.
#[test]
fn refusals_leave_it_in_the_stack() {
    in_fresh_namespace("handover::tests::waits::namespace_refusals");
}

#[test]
#[ignore = "runs in a namespace of its own"]
fn namespace_refusals() {
    let Some(mut queues) = queues() else { return };
    for kind in KINDS {
        let mut world = World::new(kind);
        let (id, mut peer) = unaccepted(&mut world, 1_000, None);
        let listener = world.kernel_listener();
        let (image, options) = (world.export(id), TcpOptions::default());
        let whole = leaving(&image, &options);
        let mut refusal = |leaving: &Leaving<'_>, socket: BorrowedFd<'_>| {
            enqueue(leaving, socket, &world.injector, &mut queues).expect_err("it stays").to_string()
        };
        assert_eq!(refusal(&whole, kind.kernel_socket().as_fd()), Refusal::Socket.to_string(), "it does not listen");
        let elsewhere = TcpListener::bind((kind.address(2), PORT + 1)).expect("the port is free");
        assert_eq!(refusal(&whole, elsewhere.as_fd()), Refusal::Address.to_string());
        let written = Leaving { unqueued: b"x", ..whole };
        assert_eq!(refusal(&written, listener.as_fd()), Refusal::Contradiction.to_string());
        let delivered = vec![0; 57 << 10];
        let much = Leaving { delivered: &delivered, ..whole };
        assert_eq!(refusal(&much, listener.as_fd()), Refusal::Queue.to_string());
        // A queue for one, which is there.
        listen(&listener, 0).expect("it listens");
        let _first = world.at_kernel();
        let refusal = enqueue(&whole, listener.as_fd(), &world.injector, &mut queues).expect_err("it stays").to_string();
        assert_eq!(refusal, Refusal::Queue.to_string());
        let id = world.stack.import(clock::now(), &image, 7).expect("it was exported here");
        assert_eq!(world.take(id, 1_000), pattern(2, 1_000));
        world.send(id, &pattern(1, 20_000));
        world.expect("from the stack", &mut peer, &pattern(1, 20_000));
    }
}

/// Where steering fails, the kernel has nothing of it, and the stack goes on.
#[test]
fn a_connection_is_taken_back() {
    in_fresh_namespace("handover::tests::waits::namespace_taken_back");
}

#[test]
#[ignore = "runs in a namespace of its own"]
fn namespace_taken_back() {
    let Some(mut queues) = queues() else { return };
    for (kind, ends) in KINDS.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        let mut world = World::new(kind);
        let (id, mut peer) = unaccepted(&mut world, 5_000, ends.then_some(Ended));
        let listener = world.kernel_listener();
        let (image, options) = (world.export(id), TcpOptions::default());
        let leaving = leaving(&image, &options);
        enqueue(&leaving, listener.as_fd(), &world.injector, &mut queues).expect("the kernel takes it");
        take_back(&leaving, &world.injector);
        let stream = accept(&mut world, &listener);
        assert_eq!(state_of(&stream), State::Closed.linux(), "it was reset");
        let id = world.stack.import(clock::now(), &image, 7).expect("it was exported here");
        assert_eq!(world.take(id, 5_000), pattern(2, 5_000));
        world.send(id, &pattern(1, 20_000));
        world.expect("from the stack", &mut peer, &pattern(1, 20_000));
    }
}
