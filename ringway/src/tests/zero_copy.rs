//! Payload stays in its frames: proved by the counter, under loss, and with applications that keep their chunks.

use ringway_device::impair::Impairments;
use ringway_device::memory::MemoryOptions;
use ringway_shm::{Arena, Class, Duration};
use ringway_stack::TCP_HEADROOM;

use super::harness::{CLIENT, Pair, SERVER, pattern};
use crate::{Chunk, Content, Net, ReadError, TcpStreamId, WriteError};

/// Writes `bytes[*sent..]` in place.
fn write_in_place(net: &mut Net, stream: TcpStreamId, bytes: &[u8], sent: &mut usize) {
    while *sent < bytes.len() {
        match stream.reserve(net, bytes.len() - *sent) {
            Ok(mut room) => {
                let count = room.len();
                room.copy_from_slice(&bytes[*sent..*sent + count]);
                stream.commit(net, room, count).expect("there was room");
                *sent += count;
            }
            Err(error) => {
                assert_eq!(error, WriteError::WouldBlock);
                return;
            }
        }
    }
}

fn lossy() -> Impairments {
    Impairments { loss_ppm: 20_000, reorder_ppm: 10_000, delay: Duration::from_millis(2), ..Impairments::default() }
}

/// Under loss and reordering, bytes written in place, echoed by forwarding and read in place are never copied, and
/// retransmissions carry the committed bytes.
#[test]
fn an_echo_under_loss_copies_nothing() {
    let wires =
        [MemoryOptions::default(), MemoryOptions::offloading(), MemoryOptions { gathers: false, ..MemoryOptions::default() }];
    for wire in wires {
        let mut pair = Pair::with(wire, lossy(), 8_192);
        let (client, server) = pair.connection(80);
        let bytes = pattern(1 << 20, 11);
        let (mut sent, mut got) = (0, Vec::new());
        let mut held: Option<Chunk> = None;
        pair.run_until(|pair| {
            write_in_place(&mut pair.nets[CLIENT], client, &bytes, &mut sent);
            echo(&mut pair.nets[SERVER], server, &mut held);
            while let Ok(Some(chunk)) = client.read_chunk(&mut pair.nets[CLIENT]) {
                got.extend_from_slice(&chunk);
            }
            got.len() == bytes.len()
        });
        assert!(got == bytes, "what came back is what was sent");
        let again = client.info(&mut pair.nets[CLIENT]).expect("it is open").total_retransmits;
        assert!(again > 0, "the wire has lost something");
        assert_eq!(pair.nets.each_ref().map(|net| net.copied_bytes()), [0, 0]);
        client.close(&mut pair.nets[CLIENT]);
        server.close(&mut pair.nets[SERVER]);
        pair.run_for(Duration::from_secs(70));
        assert!(pair.frames_are_all_free(), "nothing has leaked");
    }
}

/// Content that is filled once is sent many times, on links of every kind and under loss, without a copy, and
/// retransmitted unchanged.
#[test]
fn content_is_sent_many_times_without_a_copy() {
    let wires =
        [MemoryOptions::default(), MemoryOptions::offloading(), MemoryOptions { gathers: false, ..MemoryOptions::default() }];
    for wire in wires {
        let mut pair = Pair::with(wire, lossy(), 8_192);
        let (client, server) = pair.connection(80);
        let content = Content::new(pattern(300_000, 21));
        let (mut sent, mut got) = (0, Vec::new());
        let all = 4 * content.len();
        pair.run_until(|pair| {
            while sent < all {
                let at = sent % content.len();
                match client.write_content(&mut pair.nets[CLIENT], &content, at..content.len()) {
                    Ok(count) => sent += count,
                    Err(error) => {
                        assert_eq!(error, WriteError::WouldBlock);
                        break;
                    }
                }
            }
            while let Ok(Some(chunk)) = server.read_chunk(&mut pair.nets[SERVER]) {
                got.extend_from_slice(&chunk);
            }
            got.len() == all
        });
        assert!(got.chunks(content.len()).all(|part| *part == content[..]), "what came is the content, four times");
        assert!(client.info(&mut pair.nets[CLIENT]).expect("it is open").total_retransmits > 0, "the wire has lost something");
        assert_eq!(pair.nets.each_ref().map(|net| net.copied_bytes()), [0, 0]);
        client.close(&mut pair.nets[CLIENT]);
        server.close(&mut pair.nets[SERVER]);
        pair.run_for(Duration::from_secs(70));
        assert!(pair.frames_are_all_free(), "nothing has leaked");
        assert_eq!(content.references(), 1, "no other reference is left");
    }
}

/// Content of a connection that is reset while it waits is released; a stale handle sends none of it.
#[test]
fn content_is_let_go_with_its_connection() {
    let mut pair = Pair::new();
    let (client, server) = pair.connection(80);
    let content = Content::new(pattern(1 << 20, 5));
    let net = &mut pair.nets[CLIENT];
    let sent = client.write_content(net, &content, 10..content.len()).expect("room");
    assert!(sent > 0 && content.references() > 1);
    assert_eq!(client.write_content(net, &content, 7..7), Ok(0));
    pair.run_for(Duration::from_millis(1));
    client.abort(&mut pair.nets[CLIENT]);
    server.abort(&mut pair.nets[SERVER]);
    pair.run_for(Duration::from_secs(1));
    assert_eq!(content.references(), 1);
    assert_eq!(client.write_content(&mut pair.nets[CLIENT], &content, 0..9), Err(WriteError::NotOpen));
    assert!(pair.frames_are_all_free());
}

/// Sends received chunks back in place; a chunk without space waits in `held`.
fn echo(net: &mut Net, stream: TcpStreamId, held: &mut Option<Chunk>) {
    while let Some(chunk) = held.take().or_else(|| stream.read_chunk(net).ok().flatten()) {
        if let Err(rejected) = stream.write_chunk(net, chunk) {
            assert_eq!(rejected.error, WriteError::WouldBlock);
            *held = Some(rejected.item);
            return;
        }
    }
}

/// An application that keeps its chunks closes its own window: the sender stops, other connections go on, and all goes
/// on when the chunks come back.
#[test]
fn kept_chunks_close_their_own_window_only() {
    let mut pair = Pair::with(MemoryOptions::default(), Impairments::default(), 2_048);
    let (greedy_client, greedy_server) = pair.connection(80);
    let (fair_client, fair_server) = pair.connection(81);
    let bytes = pattern(4 << 20, 13);
    let (mut sent, mut kept) = (0, Vec::new());
    for _ in 0..20_000 {
        write_in_place(&mut pair.nets[CLIENT], greedy_client, &bytes, &mut sent);
        loop {
            match greedy_server.read_chunk(&mut pair.nets[SERVER]) {
                Ok(chunk) => kept.extend(chunk),
                Err(error) => break assert!(matches!(error, ReadError::WouldBlock | ReadError::Lent)),
            }
        }
        pair.step();
    }
    assert!(sent < bytes.len(), "the sender was stopped by the window");
    let arena = pair.nets[SERVER].arena();
    assert!(arena.free(Class::Large) > arena.capacity(Class::Large) / 4, "others find frames");

    let (mut fair_sent, mut fair_got) = (0, Vec::new());
    let message = pattern(1 << 20, 17);
    pair.run_until(|pair| {
        write_in_place(&mut pair.nets[CLIENT], fair_client, &message, &mut fair_sent);
        pair.drain(SERVER, fair_server, &mut fair_got);
        fair_got.len() == message.len()
    });
    assert!(fair_got == message, "another connection goes on");

    let mut got: Vec<u8> = Vec::new();
    kept.drain(..).for_each(|chunk| got.extend_from_slice(&chunk));
    pair.run_until(|pair| {
        write_in_place(&mut pair.nets[CLIENT], greedy_client, &bytes, &mut sent);
        while let Ok(Some(chunk)) = greedy_server.read_chunk(&mut pair.nets[SERVER]) {
            got.extend_from_slice(&chunk);
        }
        got.len() == bytes.len()
    });
    assert!(got == bytes, "giving back opens the window");
    for (host, stream) in [(CLIENT, greedy_client), (CLIENT, fair_client), (SERVER, greedy_server), (SERVER, fair_server)] {
        stream.close(&mut pair.nets[host]);
    }
    pair.run_for(Duration::from_secs(70));
    assert!(pair.frames_are_all_free());
}

/// A chunk outlives its connection and its worker; its bytes do not change.
#[test]
fn a_chunk_outlives_its_connection() {
    let mut pair = Pair::new();
    let (client, server) = pair.connection(80);
    assert_eq!(client.write(&mut pair.nets[CLIENT], b"keepsake"), Ok(8));
    pair.run_for(Duration::from_millis(1));
    let chunk = server.read_chunk(&mut pair.nets[SERVER]).expect("it came").expect("no end");
    server.close(&mut pair.nets[SERVER]);
    let (client, server) = pair.connection(81);
    let (mut sent, mut got) = (0, Vec::new());
    let bytes = pattern(100_000, 3);
    pair.run_until(|pair| {
        write_in_place(&mut pair.nets[CLIENT], client, &bytes, &mut sent);
        pair.drain(SERVER, server, &mut got);
        got.len() == bytes.len()
    });
    drop(pair);
    assert_eq!(&chunk[..], b"keepsake");
}

/// A chunk may be split; each part gives back its own bytes, and parts that are sent on are copied, because they share
/// a frame.
#[test]
fn a_chunk_can_be_cut() {
    let mut pair = Pair::new();
    let (client, server) = pair.connection(80);
    assert_eq!(client.write(&mut pair.nets[CLIENT], b"GET /index"), Ok(10));
    pair.run_for(Duration::from_millis(1));
    let mut rest = server.read_chunk(&mut pair.nets[SERVER]).expect("it came").expect("no end");
    let method = rest.split_to(3);
    rest.advance(1);
    assert_eq!((&method[..], &rest[..]), (&b"GET"[..], &b"/index"[..]));
    server.write_chunk(&mut pair.nets[SERVER], method).expect("room");
    assert_eq!(pair.nets[SERVER].copied_bytes(), 3);
    server.write_chunk(&mut pair.nets[SERVER], rest).expect("room");
    assert_eq!(pair.nets[SERVER].copied_bytes(), 3, "the last part has the frame for itself");
    let mut got = Vec::new();
    pair.run_until(|pair| {
        pair.drain(CLIENT, client, &mut got);
        got == b"GET/index"
    });
}

/// A message written in place has headroom for its headers, so that it leaves in its own frame.
#[test]
fn reservations_have_room_for_headers() {
    let mut pair = Pair::new();
    let (client, _) = pair.connection(80);
    let net = &mut pair.nets[CLIENT];
    for (len, class) in [(1, Class::Small), (128, Class::Small), (129, Class::Large), (1_448, Class::Large)] {
        let before = net.arena().free(class);
        let room = client.reserve(net, len).expect("room");
        assert_eq!((room.len(), net.arena().free(class)), (len, before - 1));
        let frame = room.into_frame_of(net.arena(), len).expect("frames are there");
        assert!(frame.headroom() >= TCP_HEADROOM, "{len} bytes");
    }
}

/// A dropped reservation sends nothing; one of a closed connection comes back.
#[test]
fn reservations_can_be_given_up() {
    let mut pair = Pair::new();
    let (client, server) = pair.connection(80);
    let net = &mut pair.nets[CLIENT];
    drop(client.reserve(net, 100).expect("room"));
    let late = client.reserve(net, 100).expect("room");
    client.close(net);
    let rejected = client.commit(net, late, 50).expect_err("the handle is stale");
    assert_eq!((rejected.error, rejected.item.len()), (WriteError::NotOpen, 50));
    drop(rejected);
    pair.run_for(Duration::from_millis(100));
    assert_eq!(server.read(&mut pair.nets[SERVER], &mut [0; 8]), Ok(0), "only the end has come");
    server.close(&mut pair.nets[SERVER]);
    pair.run_for(Duration::from_secs(1));
    assert!(pair.frames_are_all_free());
}

/// A program that drops a `Net` with open connections gets its memory back, except what it still holds itself.
#[test]
fn a_net_that_ends_gives_its_frames_back() {
    let mut pair = Pair::new();
    let arenas = pair.nets.each_ref().map(|net| net.arena().clone());
    let (client, server) = pair.connection(80);
    assert_eq!(client.write(&mut pair.nets[CLIENT], &pattern(30_000, 1)), Ok(30_000));
    assert_eq!(server.write(&mut pair.nets[SERVER], b"not read"), Ok(8));
    pair.run_for(Duration::from_millis(1));
    assert_eq!(client.write(&mut pair.nets[CLIENT], &pattern(9_000, 1)), Ok(9_000));
    let held = server.read_chunk(&mut pair.nets[SERVER]).expect("it came").expect("no end");
    drop(pair);
    let out = |arena: &Arena, class| arena.capacity(class) - arena.free(class);
    assert_eq!(arenas.each_ref().map(|arena| out(arena, Class::Small) + out(arena, Class::Large)), [1, 0]);
    drop(held);
    assert_eq!(out(&arenas[SERVER], Class::Large), 0);
}

/// A program may have several workers: one copies chunks and reservations of another, and each gets its own back.
#[test]
fn frames_of_another_worker_are_copied() {
    let (mut one, mut other) = (Pair::new(), Pair::new());
    let (client, server) = one.connection(80);
    let (other_client, other_server) = other.connection(80);
    assert_eq!(client.write(&mut one.nets[CLIENT], &pattern(3_000, 1)), Ok(3_000));
    one.run_for(Duration::from_millis(1));
    let mut sent = 0;
    while let Ok(Some(chunk)) = server.read_chunk(&mut one.nets[SERVER]) {
        sent += chunk.len();
        other_client.write_chunk(&mut other.nets[CLIENT], chunk).expect("room");
    }
    assert_eq!((sent, other.nets[CLIENT].copied_bytes()), (3_000, 3_000));
    let mut room = server.reserve(&mut one.nets[SERVER], 100).expect("room");
    room.fill(7);
    other_client.commit(&mut other.nets[CLIENT], room, 50).expect("room");
    let mut got = Vec::new();
    other.run_until(|pair| {
        pair.drain(SERVER, other_server, &mut got);
        got.len() == 3_050
    });
    assert!(got[..3_000] == pattern(3_000, 1) && got[3_000..] == [7; 50]);

    assert_eq!(client.write(&mut one.nets[CLIENT], b"lent"), Ok(4));
    one.run_for(Duration::from_millis(1));
    let chunk = server.read_chunk(&mut one.nets[SERVER]).expect("it came").expect("no end");
    other_server.release(&mut other.nets[SERVER], chunk);
    for (pair, client, server) in [(&mut one, client, server), (&mut other, other_client, other_server)] {
        client.close(&mut pair.nets[CLIENT]);
        server.close(&mut pair.nets[SERVER]);
        pair.run_for(Duration::from_secs(70));
        assert!(pair.frames_are_all_free());
    }
}

/// A socket that finds no frame to write into is told when there are some; a socket closed meanwhile is not.
#[test]
fn a_sender_that_lacks_frames_is_told_when_there_are_some() {
    let mut pair = Pair::with(MemoryOptions::default(), Impairments::default(), 64);
    let (waiting, _) = pair.connection(80);
    let (closed, _) = pair.connection(81);
    pair.run_for(Duration::from_millis(10));
    let net = &mut pair.nets[CLIENT];
    let mut taken = Vec::new();
    while let Ok(room) = waiting.reserve(net, 1_000) {
        taken.push(room);
    }
    assert_eq!(taken.len(), 48, "one in four is left to what arrives");
    assert_eq!(closed.reserve(net, 1_000).err(), Some(WriteError::WouldBlock));
    closed.close(net);
    pair.run_for(Duration::from_millis(10));
    pair.events = [Vec::new(), Vec::new()];
    pair.run_for(Duration::from_millis(10));
    assert_eq!(pair.events[CLIENT], [], "there are none yet");
    taken.clear();
    pair.run_for(Duration::from_millis(10));
    assert!(pair.news(CLIENT, waiting).writable);
    assert_eq!(pair.events[CLIENT], []);
}
