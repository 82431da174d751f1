//! Programs that talk to each other over one service: a worker in its own thread, with one interface, which leads
//! nowhere.

#[cfg(feature = "futures-io")]
mod async_io;
mod house;
mod loops;

use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::thread;
use std::time::Duration;

use house::{House, LOCAL};

use super::{Event, Interest, Listener, Poller, Session, SocketOption, Stream};

/// The port of `listener` at the worker's address.
fn address(listener: &Listener) -> SocketAddr {
    SocketAddr::new(LOCAL.into(), listener.local_addr().port())
}

fn listen(session: &Session) -> Listener {
    session.listen("0.0.0.0:0".parse().expect("an address"), 64).expect("a port is free")
}

/// Opens a connection; returns the opener's end and the other.
fn pair(house: &House) -> (Stream, Stream) {
    let (server, client) = (house.session(), house.session());
    let listener = listen(&server);
    let opened = client.connect(address(&listener)).expect("there is a listener");
    let (accepted, peer) = listener.accept().expect("it came");
    assert_eq!((peer, opened.peer_addr()), (opened.local_addr(), accepted.local_addr()));
    (opened, accepted)
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

fn would_block<T>(answer: std::io::Result<T>) -> bool {
    answer.err().is_some_and(|error| error.kind() == ErrorKind::WouldBlock)
}

#[test]
fn blocking_calls_carry_every_byte_both_ways() {
    let house = House::new();
    let (near, far) = pair(&house);
    let bytes = pattern(3_000_000);
    thread::scope(|scope| {
        scope.spawn(|| {
            (&near).write_all(&bytes).expect("it is connected");
            near.shutdown(Shutdown::Write).expect("it is connected");
        });
        let echo = scope.spawn(|| {
            let mut got = Vec::new();
            (&far).read_to_end(&mut got).expect("it is connected");
            (&far).write_all(&got).expect("it is connected");
            far.shutdown(Shutdown::Both).expect("it is connected");
        });
        let mut back = Vec::new();
        (&near).read_to_end(&mut back).expect("it is connected");
        echo.join().expect("no panic");
        assert!(back == bytes, "the bytes that came back are those that went out");
    });
}

#[test]
fn chunks_and_rooms_carry_every_byte_without_a_buffer_of_the_program() {
    let house = House::new();
    let (near, far) = pair(&house);
    let bytes = pattern(500_000);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut left = &bytes[..];
            while !left.is_empty() {
                let mut room = near.reserve(left.len()).expect("it is connected");
                let count = room.len().min(left.len());
                room[..count].copy_from_slice(&left[..count]);
                room.commit(count).expect("it is connected");
                left = &left[count..];
            }
            near.shutdown(Shutdown::Write).expect("it is connected");
        });
        let (mut got, mut kept) = (Vec::new(), Vec::new());
        while let Some(chunk) = far.read_chunk().expect("it is connected") {
            got.extend_from_slice(&chunk);
            kept.push(chunk.hold());
            if kept.len() == 4 {
                kept.drain(..).for_each(|held| far.give_back(held));
            }
        }
        kept.drain(..).for_each(|held| far.give_back(held));
        assert!(got == bytes);
    });
}

#[test]
fn an_option_reads_as_it_was_set() {
    let house = House::new();
    let (near, _far) = pair(&house);
    assert_eq!(near.option(SocketOption::NoDelay).expect("it is connected"), 0);
    let settings = [
        (SocketOption::NoDelay, 1),
        (SocketOption::KeepIdle, 77),
        (SocketOption::UserTimeout, 90_001),
        (SocketOption::ReceiveBuffer, 30_000),
        (SocketOption::Congestion, 2),
        (SocketOption::PacingRate, 5_000_000),
        (SocketOption::TimeToLive, 9),
    ];
    for (option, value) in settings {
        near.set_option(option, value).expect("it is connected");
    }
    for (option, value) in settings {
        assert_eq!(near.option(option).expect("it is connected"), value, "{option:?}");
    }
    let refused = near.option(SocketOption::ReadShut).expect_err("it can only be set");
    assert_eq!(refused.raw_os_error(), Some(rustix::io::Errno::NOPROTOOPT.raw_os_error()));
    let datagrams = house.session().bind_udp("0.0.0.0:0".parse().expect("an address")).expect("a port is free");
    datagrams.set_option(SocketOption::SegmentSize, 1_200).expect("it is open");
    assert_eq!(datagrams.option(SocketOption::SegmentSize).expect("it is open"), 1_200);
}

#[test]
fn a_program_that_keeps_its_chunks_stops_its_own_peer_only() {
    let house = House::new();
    let ((near, far), (other, beside)) = (pair(&house), pair(&house));
    far.set_option(SocketOption::ReceiveBuffer, 20_000).expect("it is connected");
    near.set_nonblocking(true);
    far.set_nonblocking(true);
    let (mut kept, mut idle_rounds) = (Vec::new(), 0);
    // Until neither end can do anything; a round trip beside proves an iteration of the worker.
    while idle_rounds < 20 {
        let wrote = (&near).write(&[7; 4096]).is_ok();
        let chunk = far.read_chunk().ok().flatten();
        idle_rounds = if wrote || chunk.is_some() { 0 } else { idle_rounds + 1 };
        kept.extend(chunk);
        (&other).write_all(b"x").expect("others go on");
        (&beside).read_exact(&mut [0]).expect("others go on");
    }
    assert!(kept.iter().map(|chunk| chunk.len()).sum::<usize>() < 200_000, "the window has closed");
    drop(kept);
    far.set_nonblocking(false);
    assert!(far.read_chunk().expect("it is connected").is_some(), "and has opened");
}

#[test]
fn a_poller_tells_what_can_be_done_and_only_that() {
    let house = House::new();
    let (server, client) = (house.session(), house.session());
    let (listener, poller) = (listen(&server), Poller::new(&server).expect("a context is free"));
    poller.add(&listener, 1, Interest::READABLE);
    let mut events = Vec::new();
    poller.wait(&mut events, Some(Duration::ZERO)).expect("the service lives");
    assert_eq!(events, []);
    let near = client.connect(address(&listener)).expect("there is a listener");
    poller.wait(&mut events, None).expect("the service lives");
    assert!(matches!(events[..], [Event { token: 1, readiness }] if readiness.readable));
    let (far, _) = listener.accept().expect("it was told");
    poller.add(&far, 2, Interest::READABLE);
    (&near).write_all(b"hello").expect("it is connected");
    poller.wait(&mut events, None).expect("the service lives");
    assert_eq!(events.iter().map(|event| event.token).collect::<Vec<_>>(), [2]);
    poller.wait(&mut events, Some(Duration::ZERO)).expect("the service lives");
    assert_eq!(events.len(), 1, "level-triggered: the bytes are still there");
    let chunk = far.read_chunk().expect("it is connected");
    poller.wait(&mut events, Some(Duration::ZERO)).expect("the service lives");
    assert_eq!(events, [], "what is lent is not there to be read again");
    drop(chunk);
    poller.add(&far, 3, Interest::BOTH);
    poller.wait(&mut events, None).expect("the service lives");
    assert!(matches!(events[..], [Event { token: 3, readiness }] if readiness.writable && !readiness.readable));
    poller.remove(&far);
    drop(near);
    poller.notify();
    poller.wait(&mut events, None).expect("the service lives");
    assert_eq!(events, []);
}

#[test]
fn a_poller_with_little_room_has_a_turn_for_every_socket() {
    let house = House::new();
    let (_peer, first) = pair(&house);
    let mut events = Vec::new();
    let poller = Poller::new(&first.session).expect("a context is free");
    let beside = Stream::over(&first.session, first.session.open_slot().expect("a slot is free"));
    poller.add(&first, 1, Interest::WRITABLE);
    poller.add(&beside, 2, Interest::BOTH);
    let mut tokens = [0; 4];
    for token in &mut tokens {
        poller.wait_for(&mut events, 1, None).expect("the service lives");
        *token = events[0].token;
        assert_eq!(events.len(), 1);
    }
    assert_eq!(tokens, [1, 2, 1, 2], "both are ready all the time: a socket that was never connected is hung up");
}

#[test]
fn errors_are_those_of_the_kernels_calls() {
    let house = House::new();
    let session = house.session();
    let nobody = SocketAddr::new(LOCAL.into(), 1);
    assert_eq!(session.connect(nobody).err().map(|error| error.kind()), Some(ErrorKind::ConnectionRefused));
    let elsewhere = "127.0.0.1:9".parse().expect("an address");
    assert_eq!(session.connect(elsewhere).err().map(|error| error.kind()), Some(ErrorKind::NetworkUnreachable));
    let listener = listen(&session);
    let taken = SocketAddr::new([0, 0, 0, 0].into(), listener.local_addr().port());
    assert_eq!(session.listen(taken, 1).err().map(|error| error.kind()), Some(ErrorKind::AddrInUse));
    listener.set_nonblocking(true);
    assert!(would_block(listener.accept()));
    let (near, far) = pair(&house);
    near.set_read_timeout(Some(Duration::from_millis(1)));
    assert!(would_block((&near).read(&mut [0])));
    far.abort();
    near.set_read_timeout(None);
    assert_eq!((&near).read(&mut [0]).err().map(|error| error.kind()), Some(ErrorKind::ConnectionReset));
    assert_eq!((&near).write(b"x").err().map(|error| error.kind()), Some(ErrorKind::BrokenPipe));
    assert!(near.reserve(1).is_err());
}

#[test]
fn datagrams_and_their_envelopes() {
    let house = House::new();
    let (one, two) = (house.session(), house.session());
    let any = "0.0.0.0:0".parse().expect("an address");
    let (here, there) = (one.bind_udp(any).expect("a port"), two.bind_udp(any).expect("a port"));
    let to = |port: u16| SocketAddr::new(LOCAL.into(), port);
    here.send_to(b"ping", to(there.local_addr().port())).expect("there is room");
    let mut buffer = [0; 16];
    let (count, peer) = there.recv_from(&mut buffer).expect("it came");
    assert_eq!((&buffer[..count], peer), (&b"ping"[..], Some(to(here.local_addr().port()))));
    there.send_to(b"pong pong", peer.expect("it has a sender")).expect("there is room");
    let (count, _) = here.recv_from(&mut buffer[..4]).expect("it came");
    assert_eq!(&buffer[..count], b"pong", "the rest of a datagram is lost");
    here.set_nonblocking(true);
    assert!(would_block(here.recv_from(&mut buffer)));
    let beside = SocketAddr::new([10, 99, 0, 2].into(), 9);
    there.connect(beside).expect("an interface leads there");
    there.send(b"refused").expect("there is room");
    assert_eq!(
        there.connect("127.0.0.1:9".parse().expect("an address")).err().map(|e| e.kind()),
        Some(ErrorKind::NetworkUnreachable)
    );
    let wrong = super::Envelope { len: 3, ..super::Envelope::default() };
    assert_eq!(there.send_message(&wrong, &[IoSlice::new(b"four")]).err().map(|e| e.kind()), Some(ErrorKind::InvalidInput));
}

#[test]
fn futures_need_no_particular_runtime() {
    let house = House::new();
    let (server, client) = (house.session(), house.session());
    let listener = listen(&server);
    let to = address(&listener);
    let serve = async {
        let (stream, _) = listener.accept_async().await.expect("it comes");
        while let Some(chunk) = stream.read_chunk_async().await.expect("it is connected") {
            stream.write_all_async(&chunk).await.expect("it is connected");
        }
    };
    let ask = async {
        let stream = client.connect_async(to).await.expect("there is a listener");
        let bytes = pattern(100_000);
        let mut back = vec![0; bytes.len()];
        let (mut sent, mut got) = (0, 0);
        while got < bytes.len() {
            if sent < bytes.len() {
                let end = bytes.len().min(sent + 10_000);
                stream.write_all_async(&bytes[sent..end]).await.expect("it is connected");
                sent = end;
            }
            got += stream.read_async(&mut back[got..]).await.expect("it is connected");
        }
        client.sleep(Duration::from_millis(2)).await.expect("the session lives");
        drop(client.sleep(Duration::from_secs(3600)));
        assert!(back == bytes);
    };
    thread::scope(|scope| {
        scope.spawn(|| house::block_on(serve));
        house::block_on(ask);
    });
}

#[test]
fn the_end_of_the_service_is_an_error_and_no_hang() {
    let house = House::new();
    let (near, far) = pair(&house);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| (&near).read(&mut [0]).err().map(|error| error.kind()));
        let later = scope.spawn(|| house::block_on(async { far.read_async(&mut [0]).await.err().map(|error| error.kind()) }));
        house.end();
        assert_eq!(waiting.join().expect("no panic"), Some(ErrorKind::ConnectionReset));
        assert_eq!(later.join().expect("no panic"), Some(ErrorKind::ConnectionReset));
    });
    assert!(near.info().is_err());
}
