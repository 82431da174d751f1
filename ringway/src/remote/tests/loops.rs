//! A poller in event loops of other libraries: its descriptor wakes them, and no wake-up is lost.

use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::unix::AsyncFd;

use super::house::House;
use super::{address, listen};
use crate::remote::{Event, Interest, Listener, Poller, Session, Stream};

const LISTENER: u64 = 1;
const STREAM: u64 = 2;
const ROUNDS: u8 = 200;

/// Answers one connection with what it sends, until its peer closes. `wait` returns when the poller's descriptor is readable.
fn echo(poller: &Poller, listener: &Listener, mut wait: impl FnMut()) {
    poller.add(listener, LISTENER, Interest::READABLE);
    let (mut events, mut stream) = (Vec::new(), None::<Stream>);
    loop {
        poller.try_wait(&mut events).expect("the service lives");
        if events.is_empty() {
            wait();
        }
        for event in &events {
            if event.token == LISTENER {
                let (accepted, _) = listener.accept().expect("the event says so");
                poller.add(&accepted, STREAM, Interest::READABLE);
                stream = Some(accepted);
                continue;
            }
            let mut connection = stream.as_ref().expect("it was added");
            let mut buffer = [0; 3];
            let count = connection.read(&mut buffer).expect("it is connected");
            connection.write_all(&buffer[..count]).expect("it is connected");
            if count == 0 {
                poller.remove(connection);
                poller.remove(listener);
                return;
            }
        }
    }
}

/// Sends messages of several reads each, one after the other.
fn ask(session: &Session, listener: &Listener) {
    let mut stream = session.connect(address(listener)).expect("a program listens");
    for round in 0..ROUNDS {
        let (sent, mut answer) = ([round; 7], [0; 7]);
        stream.write_all(&sent).expect("it is connected");
        stream.read_exact(&mut answer).expect("it is connected");
        assert_eq!(answer, sent);
    }
}

/// Runs `serve` with a poller and a listener, beside a client.
fn beside_a_client(serve: impl FnOnce(&Poller, &Listener)) {
    let house = House::new();
    let (server, client) = (house.session(), house.session());
    let (listener, poller) = (listen(&server), Poller::new(&server).expect("a context is free"));
    thread::scope(|scope| {
        scope.spawn(|| ask(&client, &listener));
        serve(&poller, &listener);
    });
}

fn is_readable(poller: &Poller) -> bool {
    let mut set = [PollFd::new(poller, PollFlags::IN)];
    poll(&mut set, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).expect("poll(2) works") > 0
}

#[test]
fn in_a_loop_of_poll() {
    beside_a_client(|poller, listener| {
        echo(poller, listener, || {
            poll(&mut [PollFd::new(poller, PollFlags::IN)], None).expect("poll(2) works");
        });
    });
}

/// mio registers edge-triggered.
#[test]
fn in_a_loop_of_mio() {
    let (mut mio, mut ready) = (mio::Poll::new().expect("descriptors are left"), mio::Events::with_capacity(4));
    beside_a_client(|poller, listener| {
        let fd = poller.as_fd().as_raw_fd();
        let source = &mut mio::unix::SourceFd(&fd);
        mio.registry().register(source, mio::Token(0), mio::Interest::READABLE).expect("it can be polled");
        echo(poller, listener, || mio.poll(&mut ready, None).expect("mio waits"));
    });
}

#[test]
#[expect(deprecated, reason = "tokio's newer call is unsafe for any descriptor; the poller outlives this one")]
fn in_a_loop_of_tokio() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("descriptors are left");
    beside_a_client(|poller, listener| {
        let inside = runtime.enter();
        let fd = AsyncFd::new(poller.as_fd()).expect("it can be polled");
        echo(poller, listener, || {
            runtime.block_on(async { fd.readable().await.expect("the runtime lives").clear_ready() });
        });
        drop((fd, inside));
    });
}

/// Waits at the descriptor until a call has found an event. The worker may ring for a change of which nothing is left to take.
fn wait_for_events(poller: &Poller, events: &mut Vec<Event>) {
    events.clear();
    while events.is_empty() {
        poll(&mut [PollFd::new(poller, PollFlags::IN)], None).expect("poll(2) works");
        poller.try_wait(events).expect("the service lives");
    }
}

/// Takes rings that are under way, until the descriptor stays silent after a call without an event.
fn assert_falls_silent(poller: &Poller, events: &mut Vec<Event>) {
    for _ in 0..100 {
        poller.try_wait(events).expect("the service lives");
        assert_eq!(*events, []);
        if !is_readable(poller) {
            return;
        }
    }
    panic!("the descriptor is readable without a reason");
}

/// The descriptor is level-triggered: readable until a call has found no event; and the end of the service wakes too.
#[test]
fn the_descriptor_is_readable_while_there_is_something_to_take() {
    let house = House::new();
    let (server, client) = (house.session(), house.session());
    let (listener, poller) = (listen(&server), Poller::new(&server).expect("a context is free"));
    let mut events: Vec<Event> = Vec::new();
    poller.add(&listener, LISTENER, Interest::READABLE);
    assert_falls_silent(&poller, &mut events);
    let peer = client.connect(address(&listener)).expect("a program listens");
    wait_for_events(&poller, &mut events);
    for _ in 0..2 {
        assert!(events.len() == 1 && is_readable(&poller), "the connection still waits");
        poller.try_wait(&mut events).expect("the service lives");
    }
    listener.accept().expect("it waits");
    assert_falls_silent(&poller, &mut events);
    poller.notify();
    assert!(is_readable(&poller));
    assert_falls_silent(&poller, &mut events);
    house.end();
    poll(&mut [PollFd::new(&poller, PollFlags::IN)], None).expect("poll(2) works");
    while let Ok(()) = poller.try_wait(&mut events) {
        poll(&mut [PollFd::new(&poller, PollFlags::IN)], None).expect("poll(2) works");
    }
    assert_eq!(poller.try_wait(&mut events).err().map(|error| error.kind()), Some(std::io::ErrorKind::ConnectionReset));
    drop(peer);
}
