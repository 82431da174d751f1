//! Connections between two programs: the result of each call, and the events.

use std::io::{IoSlice, IoSliceMut};

use ringway_shm::Duration;

use super::harness::{CLIENT, Pair, SERVER, address, pattern};
use crate::{AcceptError, Event, ListenError, ReadError, SocketError, TcpListener, TcpOptions, TcpStream, WriteError};
use ringway_engine::native::TURN_BYTES;

/// Open, exchange data, close: each step has its event, and nothing is left.
#[test]
fn a_connection_from_open_to_close() {
    let mut pair = Pair::new();
    let listener = TcpListener::bind(&mut pair.nets[SERVER], address(SERVER, 80)).expect("free");
    assert_eq!(listener.accept(&mut pair.nets[SERVER]).err(), Some(AcceptError::WouldBlock));
    assert_eq!(TcpListener::bind(&mut pair.nets[SERVER], address(SERVER, 80)).err(), Some(ListenError::InUse));
    let client = TcpStream::connect(&mut pair.nets[CLIENT], address(SERVER, 80)).expect("a route").into_id();
    assert_eq!(client.read(&mut pair.nets[CLIENT], &mut [0; 8]), Err(ReadError::WouldBlock), "not yet open");
    pair.run_until(|pair| pair.events[SERVER].contains(&Event::Listener(listener.id())));
    let server = listener.accept(&mut pair.nets[SERVER]).expect("the event has said so").into_id();
    let news = pair.news(CLIENT, client);
    assert!(news.connected && news.writable && !news.readable, "{news:?}");
    assert_eq!(server.peer_addr(&mut pair.nets[SERVER]), client.local_addr(&mut pair.nets[CLIENT]));
    assert_eq!(client.peer_addr(&mut pair.nets[CLIENT]), Some(address(SERVER, 80)));

    assert_eq!(client.write(&mut pair.nets[CLIENT], b"ping"), Ok(4));
    pair.run_for(Duration::from_millis(1));
    assert!(pair.news(SERVER, server).readable);
    let chunk = server.read_chunk(&mut pair.nets[SERVER]).expect("it has come").expect("it is no end");
    assert_eq!(&chunk[..], b"ping");
    server.release(&mut pair.nets[SERVER], chunk);
    assert_eq!(server.read_chunk(&mut pair.nets[SERVER]).err(), Some(ReadError::WouldBlock));
    let mut reply = server.reserve(&mut pair.nets[SERVER], 4).expect("room");
    reply.copy_from_slice(b"pong");
    server.commit(&mut pair.nets[SERVER], reply, 4).expect("open");
    pair.run_for(Duration::from_millis(1));
    let mut buffer = [0; 8];
    assert_eq!(client.read(&mut pair.nets[CLIENT], &mut buffer), Ok(4));
    assert_eq!(&buffer[..4], b"pong");

    client.shutdown_write(&mut pair.nets[CLIENT]);
    assert_eq!(client.write(&mut pair.nets[CLIENT], b"more"), Err(WriteError::Closed));
    pair.run_for(Duration::from_millis(1));
    assert!(pair.news(SERVER, server).peer_closed);
    assert_eq!(server.read(&mut pair.nets[SERVER], &mut buffer), Ok(0));
    server.close(&mut pair.nets[SERVER]);
    assert_eq!(server.read(&mut pair.nets[SERVER], &mut buffer), Err(ReadError::NotOpen), "the handle is stale");
    pair.run_for(Duration::from_millis(1));
    assert_eq!(client.read(&mut pair.nets[CLIENT], &mut buffer), Ok(0));
    client.close(&mut pair.nets[CLIENT]);
    listener.close(&mut pair.nets[SERVER]);
    pair.run_for(Duration::from_millis(100));
    assert!(pair.frames_are_all_free());
}

/// A refused and a reset connection are reported with their reason; data that had arrived before can still be read.
#[test]
fn failures_are_told_with_their_reason() {
    let mut pair = Pair::new();
    let refused = TcpStream::connect(&mut pair.nets[CLIENT], address(SERVER, 9)).expect("a route").into_id();
    let mut news = Default::default();
    pair.run_until(|pair| {
        news = pair.news(CLIENT, refused);
        news.failed
    });
    assert!(news.readable && news.writable && !news.connected);
    assert_eq!(refused.read(&mut pair.nets[CLIENT], &mut [0; 8]), Err(ReadError::Failed(SocketError::Refused)));
    assert_eq!(refused.write(&mut pair.nets[CLIENT], b"x"), Err(WriteError::Failed(SocketError::Refused)));
    assert_eq!(refused.error(&mut pair.nets[CLIENT]), Some(SocketError::Refused));
    refused.close(&mut pair.nets[CLIENT]);

    let (client, server) = pair.connection(80);
    assert_eq!(server.write(&mut pair.nets[SERVER], b"last words"), Ok(10));
    pair.run_for(Duration::from_millis(1));
    server.abort(&mut pair.nets[SERVER]);
    pair.run_until(|pair| pair.news(CLIENT, client).failed);
    let chunk = client.read_chunk(&mut pair.nets[CLIENT]).expect("it came before the reset").expect("no end");
    assert_eq!(&chunk[..], b"last words");
    assert_eq!(client.read(&mut pair.nets[CLIENT], &mut [0; 8]), Err(ReadError::Failed(SocketError::Reset)));
    drop(chunk);
    client.close(&mut pair.nets[CLIENT]);
    pair.run_for(Duration::from_millis(1));
    assert!(pair.frames_are_all_free());
}

/// Closing with unread data resets the connection, also if a read has taken part of it (RFC 2525 §2.17).
#[test]
fn closing_with_unread_bytes_resets() {
    let mut pair = Pair::new();
    let (client, server) = pair.connection(80);
    assert_eq!(client.write(&mut pair.nets[CLIENT], b"question"), Ok(8));
    pair.run_for(Duration::from_millis(1));
    assert_eq!(server.read(&mut pair.nets[SERVER], &mut [0; 3]), Ok(3));
    server.close(&mut pair.nets[SERVER]);
    pair.run_until(|pair| pair.news(CLIENT, client).failed);
    assert_eq!(client.error(&mut pair.nets[CLIENT]), Some(SocketError::Reset));
}

/// A megabyte each way through buffers of odd sizes arrives unchanged, by plain and by vectored calls.
#[test]
fn streams_by_copying_arrive_whole() {
    let mut pair = Pair::new();
    let (client, server) = pair.connection(80);
    let bytes = pattern(1 << 20, 5);
    let (mut sent, mut got) = (0, Vec::new());
    pair.run_until(|pair| {
        let (head, tail) = bytes[sent..].split_at((bytes.len() - sent).min(777));
        let rest = &tail[..tail.len().min(50_000)];
        match client.write_vectored(&mut pair.nets[CLIENT], &[IoSlice::new(head), IoSlice::new(&[]), IoSlice::new(rest)]) {
            Ok(count) => sent += count,
            Err(error) => assert_eq!(error, WriteError::WouldBlock),
        }
        let (mut first, mut second) = ([0; 1001], [0; 5]);
        let mut buffers = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut []), IoSliceMut::new(&mut second)];
        while let Ok(count @ 1..) = server.read_vectored(&mut pair.nets[SERVER], &mut buffers) {
            got.extend_from_slice(&buffers[0][..count.min(1001)]);
            got.extend_from_slice(&buffers[2][..count.saturating_sub(1001)]);
        }
        got.len() == bytes.len()
    });
    assert!(got == bytes);
    let copied = pair.nets.each_ref().map(|net| net.copied_bytes());
    assert_eq!(copied, [1 << 20; 2], "each byte once at each end");
}

/// A socket is named once per iteration, however much arrives; only sockets with news are named.
#[test]
fn a_turn_names_each_active_socket_once() {
    let mut pair = Pair::new();
    let connections: Vec<_> = (0..100).map(|port| pair.connection(1000 + port)).collect();
    pair.run_for(Duration::from_millis(10));
    pair.events = [Vec::new(), Vec::new()];
    for (client, _) in connections.iter().step_by(10) {
        let options = TcpOptions { no_delay: true, ..TcpOptions::default() };
        client.set_options(&mut pair.nets[CLIENT], options);
        for _ in 0..3 {
            assert_eq!(client.write(&mut pair.nets[CLIENT], &[1; 3000]), Ok(3000));
        }
    }
    pair.run_until(|pair| pair.events[SERVER].len() >= 10);
    let mut told: Vec<_> = pair.events[SERVER].iter().map(|event| format!("{event:?}")).collect();
    told.dedup();
    assert_eq!(told.len(), 10, "{told:?}");
    // Nothing is read, and nothing new comes: there is no event until the program asks.
    pair.run_for(Duration::from_millis(10));
    pair.events = [Vec::new(), Vec::new()];
    pair.run_for(Duration::from_millis(10));
    assert_eq!(pair.events[SERVER], []);
    let (_, server) = connections[10];
    server.again(&mut pair.nets[SERVER]);
    pair.step();
    assert!(pair.news(SERVER, server).readable);
}

/// A handle of a closed socket never names the socket that has its index now.
#[test]
fn stale_handles_are_refused() {
    let mut pair = Pair::new();
    let (client, server) = pair.connection(80);
    client.close(&mut pair.nets[CLIENT]);
    let (new, _) = pair.connection(81);
    assert_eq!(new.index(), client.index(), "the place is used again");
    let net = &mut pair.nets[CLIENT];
    assert_eq!(client.write(net, b"x"), Err(WriteError::NotOpen));
    assert_eq!(client.reserve(net, 1).err(), Some(WriteError::NotOpen));
    assert_eq!(client.local_addr(net), None);
    assert!(client.readiness(net).hung_up);
    client.close(net);
    client.abort(net);
    assert_eq!(new.write(net, b"still open"), Ok(10));
    assert!(server.readiness(&mut pair.nets[SERVER]).readable, "it has seen the end of the first");
}

/// Unread and unacknowledged bytes are counted, and the urgent byte is reported and found.
#[test]
fn queues_and_urgent_data_can_be_asked_for() {
    let mut pair = Pair::new();
    let (client, server) = pair.connection(80);
    assert_eq!(client.write(&mut pair.nets[CLIENT], b"stop!"), Ok(5));
    client.mark_urgent(&mut pair.nets[CLIENT]);
    assert_eq!(client.unacknowledged(&mut pair.nets[CLIENT]), 5);
    pair.run_for(Duration::from_millis(100));
    assert_eq!(client.unacknowledged(&mut pair.nets[CLIENT]), 0);
    assert!(pair.news(SERVER, server).urgent);
    let net = &mut pair.nets[SERVER];
    assert_eq!(server.urgent(net).and_then(|urgent| urgent.byte), Some(b'!'));
    assert_eq!(server.unread(net), 5);
    assert_eq!(server.read(net, &mut [0; 2]), Ok(2));
    assert_eq!(server.unread(net), 3, "what a read has left of a frame counts");
}

/// `run` hands out events until it is stopped, here or on another thread.
#[test]
fn a_run_ends_when_it_is_stopped() {
    let [mut net, mut other] = Pair::new().nets;
    let mut heard = Vec::new();
    net.after(std::time::Duration::ZERO, 5);
    net.run(|net, event| {
        heard.push(event);
        net.stop();
    })
    .expect("a wait");
    assert_eq!(heard, [Event::Timer(5)]);
    let handle = other.handle();
    let stopping = std::thread::spawn(move || handle.stop());
    other.run(|_, event| panic!("{event:?}")).expect("a wait");
    assert_eq!(stopping.join().ok(), Some(()));
}

/// Large writes of many sockets copy no more between two transmissions than the cache keeps; each hears when it may go on, and
/// everything arrives. One that writes alone takes what its buffer holds.
#[test]
fn large_writes_of_many_sockets_go_ahead_together_by_a_bounded_amount() {
    const EACH: usize = 600 << 10;
    let mut pair = Pair::new();
    let ends: Vec<_> = (0..4).map(|port| pair.connection(80 + port)).collect();
    for (client, _) in &ends {
        let options = TcpOptions { send_buffer_bytes: EACH as u32, ..TcpOptions::default() };
        client.set_options(&mut pair.nets[CLIENT], options);
    }
    let bytes = pattern(EACH, 11);
    let mut sent: Vec<_> = ends.iter().map(|(client, _)| client.write(&mut pair.nets[CLIENT], &bytes).unwrap_or(0)).collect();
    assert_eq!(sent, [EACH, TURN_BYTES - EACH, 0, 0], "the first found nobody before it");
    let mut got = vec![Vec::new(); ends.len()];
    pair.run_until(|pair| {
        for (place, (client, server)) in ends.iter().enumerate() {
            if pair.news(CLIENT, *client).writable && sent[place] < EACH {
                sent[place] += client.write(&mut pair.nets[CLIENT], &bytes[sent[place]..]).unwrap_or(0);
            }
            pair.drain(SERVER, *server, &mut got[place]);
        }
        got.iter().all(|got| got.len() == EACH)
    });
    assert!(got.iter().all(|got| *got == bytes));
}
