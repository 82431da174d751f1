//! Bulk chunks from the application to frames and back.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use crate::layout::{BULK_CHUNK, LARGE_CHUNK, Layout, Map};
use crate::tests::{Bench, SHAPE as SMALL};
use crate::{Reserved, Shape};
use ringway_shm::list::word;
use ringway_shm::region::Region;
use ringway_shm::{Arena, ArenaConfig, Frame};

const SHAPE: Shape = Shape { tx_bulk: 4, ..SMALL };

fn arena() -> Arena {
    Arena::new(ArenaConfig { large: 16, small: 16 })
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len as u32).map(|at| (at.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect()
}

/// Bytes that so many bulk chunks hold.
fn bulk(count: usize) -> Vec<u8> {
    pattern(count * BULK_CHUNK)
}

#[test]
fn much_at_once_leaves_in_frames_over_its_chunks_and_the_rest_is_copied() {
    let (mut bench, arena) = (Bench::new(SHAPE), arena());
    let slot = bench.connected(1 << 20);
    let bytes = pattern(3 * BULK_CHUNK + 1000);
    assert_eq!(bench.send(slot, &bytes), Ok(bytes.len()));
    assert_eq!(bench.worker.tx_available(slot.index), bytes.len());
    assert_eq!(bench.worker.lent_tx(), 3);
    let mut frames: Vec<Frame> = Vec::new();
    while let Some(frame) = bench.worker.lend_tx(slot.index, &arena, 20_000) {
        assert!(!frame.is_exclusive(), "what the application has written is only read");
        frames.push(frame);
    }
    let lens: Vec<usize> = frames.iter().map(Frame::len).collect();
    assert_eq!(lens, [20_000, 12_768, 20_000, 12_768, 20_000, 12_768], "at most what was asked for, and not beyond a chunk");
    assert_eq!(bench.worker.tx_available(slot.index), 1000);
    let mut arrived: Vec<u8> = frames.iter().flat_map(|frame| frame.payload().to_vec()).collect();
    arrived.extend(bench.copy_tx(slot));
    assert!(arrived == bytes, "other bytes came out than went in");
    assert_eq!(bench.worker.tx_copied(slot.index) as usize, bytes.len());
    // A chunk goes back with the last of its frames.
    assert_eq!(bench.worker.lent_tx(), 3);
    frames.remove(0);
    assert_eq!(bench.worker.lent_tx(), 3);
    frames.remove(0);
    assert_eq!(bench.worker.lent_tx(), 2);
    drop(frames);
    assert_eq!((bench.worker.lent_tx(), bench.worker.violations()), (0, 0));
    assert_eq!(arena.free_extents(), arena.extents());
}

#[test]
fn where_bulk_chunks_are_under_way_large_ones_take_over_until_they_come_back() {
    let (mut bench, arena) = (Bench::new(SHAPE), arena());
    let slot = bench.connected(1 << 20);
    let bytes = bulk(SHAPE.tx_bulk as usize);
    assert_eq!(bench.send(slot, &bytes), Ok(bytes.len()));
    let frames: Vec<Frame> = {
        bench.worker.tx_available(slot.index);
        std::iter::from_fn(|| bench.worker.lend_tx(slot.index, &arena, usize::MAX)).collect()
    };
    assert_eq!(frames.len(), SHAPE.tx_bulk as usize);
    let more = pattern(10 * LARGE_CHUNK);
    assert_eq!(bench.send(slot, &more), Ok(more.len()), "large chunks are free");
    bench.worker.tx_available(slot.index);
    assert!(bench.worker.lend_tx(slot.index, &arena, usize::MAX).is_none(), "large chunks are copied");
    assert!(bench.copy_tx(slot) == more);
    drop(frames);
    assert_eq!(bench.send(slot, &bytes), Ok(bytes.len()));
    assert_eq!(bench.worker.tx_available(slot.index), bytes.len());
    assert_eq!(bench.worker.lent_tx(), SHAPE.tx_bulk);
    // A slot that is freed with bytes in its queue gives its chunks back at once.
    bench.worker.free_slot(slot.index);
    assert_eq!(bench.worker.lent_tx(), 0);
}

#[test]
fn bulk_chunks_can_be_copied_too() {
    let mut bench = Bench::new(SHAPE);
    let slot = bench.connected(1 << 20);
    let bytes = bulk(2);
    assert_eq!(bench.send(slot, &bytes), Ok(bytes.len()));
    assert!(bench.copy_tx(slot) == bytes);
    assert_eq!((bench.worker.lent_tx(), bench.worker.violations()), (0, 0));
}

#[test]
fn no_extent_is_free_and_nothing_is_lost() {
    let (mut bench, arena) = (Bench::new(SHAPE), arena());
    let slot = bench.connected(1 << 20);
    let bytes = bulk(1);
    assert_eq!(bench.send(slot, &bytes), Ok(bytes.len()));
    bench.worker.tx_available(slot.index);
    let content = ringway_shm::extent::Content::new(vec![0u8; 8]);
    let others: Vec<Frame> = std::iter::from_fn(|| arena.frame_of(&content, 0..8)).collect();
    assert!(bench.worker.lend_tx(slot.index, &arena, usize::MAX).is_none());
    assert!(bench.copy_tx(slot) == bytes);
    drop(others);
    assert_eq!(bench.worker.lent_tx(), 0);
}

#[test]
fn an_application_that_pushes_a_chunk_again_while_it_is_sent_gains_nothing() {
    let (mut bench, arena) = (Bench::new(SHAPE), arena());
    let slot = bench.connected(1 << 20);
    let bytes = bulk(1);
    assert_eq!(bench.send(slot, &bytes), Ok(bytes.len()));
    bench.worker.tx_available(slot.index);
    let frame = bench.worker.lend_tx(slot.index, &arena, usize::MAX).expect("a frame");
    let layout = Layout::of(SHAPE);
    let map = Map::new(Region::attach(bench.region.as_fd(), layout.total).expect("sealed"), layout);
    map.tx_record(SHAPE.first_bulk()).next.store(0, Ordering::Relaxed);
    map.slot(9).tx_stack.store(word(SHAPE.first_bulk()), Ordering::Relaxed);
    assert_eq!((bench.worker.tx_available(9), bench.worker.violations()), (0, 1));
    drop(frame);
    assert_eq!(bench.worker.lent_tx(), 0, "given back once");
    // Its length may be a lie as well.
    map.tx_record(SHAPE.first_bulk() + 1).len.store(BULK_CHUNK as u32 + 1, Ordering::Relaxed);
    map.slot(9).tx_stack.store(word(SHAPE.first_bulk() + 1), Ordering::Relaxed);
    assert_eq!((bench.worker.tx_available(9), bench.worker.violations()), (0, 2));
}

#[test]
fn frames_outlive_the_application_and_the_workers_end() {
    let (mut bench, arena) = (Bench::new(SHAPE), arena());
    let slot = bench.connected(1 << 20);
    let bytes = bulk(1);
    assert_eq!(bench.send(slot, &bytes), Ok(bytes.len()));
    bench.worker.tx_available(slot.index);
    let frame = bench.worker.lend_tx(slot.index, &arena, usize::MAX).expect("a frame");
    drop(bench);
    assert!(frame.payload().to_vec() == bytes, "the region is still mapped");
    let again = frame.share();
    drop(frame);
    assert!(again.payload().to_vec() == bytes);
}

#[test]
fn what_a_dead_process_was_filling_comes_back() {
    let mut bench = Bench::new(SHAPE);
    let slot = bench.connected(1 << 20);
    let rooms = (0..SHAPE.tx_bulk).map(|_| bench.client.reserve(slot, BULK_CHUNK).expect("room"));
    let kept: Vec<_> = rooms.map(Reserved::into_reservation).collect();
    assert_eq!(kept.len() as u32, SHAPE.tx_bulk);
    let room = bench.client.reserve(slot, BULK_CHUNK).expect("room");
    assert_eq!(room.len(), LARGE_CHUNK, "no bulk chunk is left");
    drop(room);
    let process = bench.client.process();
    bench.worker.process_gone(process);
    let room = bench.client.reserve(slot, BULK_CHUNK).expect("room");
    assert_eq!(room.len(), BULK_CHUNK, "a bulk chunk again");
}
