//! From a device's read to the application without a copy between.

use super::*;
use crate::Shape;
use crate::tests::{Bench, SHAPE as SMALL};
use ringway_shm::{Arena, ArenaConfig};

const SHAPE: Shape = Shape { rx_bulk: 3, ..SMALL };

fn arena() -> Arena {
    Arena::new(ArenaConfig { large: 16, small: 16 })
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len as u32).map(|at| (at.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect()
}

/// A packet's payload, read to a room.
fn arrive(bench: &mut Bench, arena: &Arena, bytes: &[u8]) -> Frame {
    let mut room = bench.worker.room_rx(arena, bytes.len()).expect("a room");
    room.payload_mut().write(0, bytes);
    room.into_frame()
}

#[test]
fn payload_is_read_once_and_pushed_where_it_lies() {
    let (mut bench, arena) = (Bench::new(SHAPE), arena());
    let slot = bench.connected(1);
    let bytes = pattern(65_000);
    bench.worker.push_rx(slot.index, &bytes[..100]);
    let frame = arrive(&mut bench, &arena, &bytes[100..60_000]);
    assert_eq!((bench.worker.free_rooms(), frame.tailroom()), (2, 0));
    assert_eq!(bench.worker.push_room(slot.index, frame).ok(), Some(59_900));
    assert_eq!(
        (bench.worker.free_rooms(), arena.free_extents()),
        (2, arena.extents()),
        "the chunk is the slot's, the frame is gone"
    );
    bench.worker.push_rx(slot.index, &bytes[60_000..]);
    bench.worker.publish_rx(slot.index);
    assert_eq!(bench.client.slot(slot.index).unread(), 65_000);
    let mut got = Vec::new();
    while got.len() < bytes.len() {
        got.extend(bench.receive(slot, 17_777).expect("there is more"));
    }
    assert!(got == bytes, "other bytes came out than went in");
    assert_eq!(bench.worker.newly_consumed(slot.index), 65_000);
    bench.worker.reclaim();
    assert_eq!((bench.worker.free_rooms(), bench.worker.free_rx(), bench.worker.violations()), (3, (16, 16), 0));
}

#[test]
fn every_way_of_reading_takes_a_large_chunk() {
    let (mut bench, arena) = (Bench::new(SHAPE), arena());
    let slot = bench.connected(1);
    let bytes = pattern(40_000);
    let fill = |bench: &mut Bench| {
        let frame = arrive(bench, &arena, &bytes);
        assert!(bench.worker.push_room(slot.index, frame).is_ok());
        bench.worker.publish_rx(slot.index);
    };
    fill(&mut bench);
    let mut got = Vec::new();
    assert_eq!(bench.client.receive_with(slot, 40_000, |piece| got.extend_from_slice(piece)), Ok(40_000));
    assert!(got == bytes);
    fill(&mut bench);
    let lent = bench.client.lend(slot).expect("bytes").expect("no end");
    assert!(*lent == bytes[..]);
    drop(lent);
    fill(&mut bench);
    assert_eq!(bench.client.discard(slot, 39_999), Ok(39_999));
    assert_eq!(bench.receive(slot, 10), Ok(bytes[39_999..].to_vec()));
    bench.worker.reclaim();
    assert_eq!(bench.worker.free_rooms(), 3);
}

#[test]
fn what_is_dropped_on_the_way_comes_back_and_what_was_cut_is_copied() {
    let (mut bench, arena) = (Bench::new(SHAPE), arena());
    let slot = bench.connected(1);
    let bytes = pattern(30_000);
    drop(arrive(&mut bench, &arena, &bytes));
    assert_eq!(bench.worker.free_rooms(), 3);
    let mut cut = arrive(&mut bench, &arena, &bytes);
    cut.pull(1);
    let cut = bench.worker.push_room(slot.index, cut).expect_err("it does not begin where the chunk does");
    let other = cut.share();
    drop(bench.worker.push_room(slot.index, other).expect_err("somebody else sees it"));
    let foreign = arena.alloc_from(b"a frame of the arena").expect("a frame");
    assert!(bench.worker.push_room(slot.index, foreign).is_err());
    drop(cut);
    let mut short = arrive(&mut bench, &arena, &bytes);
    short.truncate(20_000);
    assert_eq!(bench.worker.push_room(slot.index, short).ok(), Some(20_000), "the end may be cut");
    bench.worker.free_slot(slot.index);
    assert_eq!((bench.worker.free_rooms(), arena.free_extents()), (3, arena.extents()));
}

#[test]
fn small_payload_and_more_than_there_are_chunks_go_elsewhere() {
    let (mut bench, arena) = (Bench::new(SHAPE), arena());
    assert!(bench.worker.room_rx(&arena, ROOM_MIN - 1).is_none());
    assert!(bench.worker.room_rx(&arena, EXTENT_BYTES_MAX + 1).is_none());
    let all: Vec<Room> = std::iter::from_fn(|| bench.worker.room_rx(&arena, EXTENT_BYTES_MAX)).collect();
    assert_eq!(all.len(), 3);
    drop(all);
    let mut none = Bench::new(SMALL);
    assert!(none.worker.room_rx(&arena, ROOM_MIN).is_none());
}

#[test]
fn packets_of_some_kib_have_chunks_of_their_own() {
    let (mut bench, arena) = (Bench::new(Shape { rx_bulk: 1, rx_middle: 2, ..SMALL }), arena());
    let slot = bench.connected(1);
    let bytes = pattern(60_000);
    let lengths = [LARGE_CHUNK + 1, MIDDLE_CHUNK, MIDDLE_CHUNK + 1];
    let mut expected = Vec::new();
    for len in lengths {
        let frame = arrive(&mut bench, &arena, &bytes[..len]);
        assert_eq!(bench.worker.push_room(slot.index, frame).ok(), Some(len));
        expected.extend_from_slice(&bytes[..len]);
    }
    assert_eq!(bench.worker.free_rooms(), 0);
    assert!(bench.worker.room_rx(&arena, LARGE_CHUNK + 1).is_none(), "both are used");
    assert!(bench.worker.room_rx(&arena, MIDDLE_CHUNK + 1).is_none(), "and the large one");
    bench.worker.publish_rx(slot.index);
    let mut got = Vec::new();
    while got.len() < expected.len() {
        got.extend(bench.receive(slot, 7_777).expect("there is more"));
    }
    assert!(got == expected, "other bytes came out than went in");
    bench.worker.reclaim();
    assert_eq!((bench.worker.free_rooms(), bench.worker.violations()), (3, 0));
    let last = arrive(&mut bench, &arena, &bytes[..4096]);
    assert!(bench.worker.room_rx(&arena, 4096).is_some(), "a chunk under a frame takes no other's place");
    drop(last);
    assert_eq!((bench.worker.free_rooms(), arena.free_extents()), (3, arena.extents()));
}

#[test]
fn an_application_that_returns_a_chunk_under_a_frame_gets_nothing_for_it() {
    let (mut bench, arena) = (Bench::new(SHAPE), arena());
    let frame = arrive(&mut bench, &arena, &pattern(20_000));
    let chunk = bench.worker.rooms.chunk_under(&frame).expect("its chunk");
    bench.worker.map.header().returned_rx.0.store(chunk + 1, Ordering::SeqCst);
    assert_eq!((bench.worker.reclaim(), bench.worker.violations(), bench.worker.free_rooms()), (0, 1, 2));
    drop(bench);
    assert!(frame.payload().to_vec() == pattern(20_000), "the region is mapped while the frame lives");
}
