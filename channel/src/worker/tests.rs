//! An application that writes anything anywhere in its region: the worker must not panic, not loop, and keep
//! its own books right.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::*;
use crate::request::ControlAnswer;
use crate::slot::{Failure, Flags, State};
use ringway_shm::{Arena, Frame, Instant};

const SHAPE: Shape =
    Shape { slots: 128, rx_large: 8, rx_small: 8, tx_large: 8, tx_small: 8, tx_bulk: 4, rx_bulk: 4, rx_middle: 4 };

/// A small generator of its own, so that a seed means the same for ever.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Words that look like something: small numbers, powers of two, everything, nothing.
    fn word(&mut self) -> u32 {
        match self.below(6) {
            0 => 0,
            1 => u32::MAX,
            2 => 1 << self.below(32),
            3 => self.next() as u32,
            _ => self.below(130) as u32,
        }
    }
}

fn scribble(region: &Region, layout: &Layout, random: &mut Random) {
    // Mostly where words mean something: up to the chunk payload; weighted to the first pages.
    let end = match random.below(4) {
        0 => layout.total as u64,
        1 => 4096,
        _ => (layout.total - 448 * 1024) as u64,
    };
    let offset = (random.below(end / 4) * 4) as usize;
    region.write(offset, &random.word().to_le_bytes());
}

/// Everything that an engine may do, in any order.
fn act(worker: &mut Attachment, arena: &Arena, frames: &mut Vec<Frame>, random: &mut Random) {
    let slot = random.below(128) as u32;
    let mut bytes = [0xA5; 3000];
    match random.below(22) {
        0 => {
            for _ in 0..20 {
                let Some(request) = worker.next_request() else { break };
                if request.slot.index < 128 {
                    worker.answer(&request, ControlAnswer::Done);
                    worker.answer_with_bytes(&request, &bytes[..300]);
                }
            }
        }
        1 | 2 => {
            let available = worker.tx_available(slot).min(bytes.len());
            assert_eq!(worker.copy_tx(slot, &mut bytes[..available]), available);
            worker.release_tx(slot, available as u32);
        }
        3 | 4 => {
            let len = random.below(3000) as usize;
            assert!(worker.push_rx(slot, &bytes[..len]) <= len);
        }
        5 => worker.signal(slot),
        6 => {
            worker.flush_wakes();
        }
        7 => {
            worker.reclaim();
        }
        8 => {
            let outstanding = worker.unread(slot) + worker.newly_consumed(slot);
            assert!(outstanding <= 1 << 31);
        }
        9 => worker.free_slot(slot),
        10 => {
            if let Some(child) = worker.allocate_slot() {
                worker.set_state(child.index, State::Connected);
                worker.push_accepted(slot, child.index, Instant::ZERO);
            }
        }
        11 => {
            for child in worker.unaccepted(slot) {
                worker.free_slot(child);
            }
        }
        12 => {
            let gone = worker.process_gone(random.below(256) as u32);
            assert!(gone.orphans.iter().chain(&gone.torn).chain(&gone.revisit).all(|&slot| slot < 128));
        }
        13 => worker.set_error(slot, Failure::Reset, Flags::HUNG_UP),
        14 => {
            worker.arm();
            worker.disarm();
        }
        15 => worker.set_send_limit(slot, random.word()),
        16 => {
            worker.tx_in_flight(slot);
            worker.set_notify_bytes(slot, random.word());
        }
        17 => {
            worker.tx_available(slot);
            frames.extend(worker.lend_tx(slot, arena, random.below(70_000) as usize));
        }
        18 => drop(frames.pop()),
        19 => frames.extend(worker.room_rx(arena, 16_384 + random.below(50_000) as usize).map(ringway_shm::Room::into_frame)),
        20 => {
            let pushed = frames.pop().map(|frame| worker.push_room(slot, frame));
            frames.extend(pushed.and_then(Result::err));
        }
        _ => worker.publish_rx(slot),
    }
}

/// All chunks are accounted for once every slot is free.
fn settle(worker: &mut Attachment) {
    for slot in 0..128 {
        worker.free_slot(slot);
        assert_eq!(worker.tx_available(slot), 0);
    }
    worker.reclaim();
    assert_eq!((worker.free_rx(), worker.lent_tx(), worker.free_rooms()), ((8, 8), 0, SHAPE.rx_bulk + SHAPE.rx_middle));
}

fn small_arena() -> Arena {
    Arena::new(ringway_shm::ArenaConfig { large: 8, small: 8 })
}

fn region_of(fd: &OwnedFd) -> (Region, Layout) {
    let layout = Layout::of(SHAPE);
    (Region::attach(fd.as_fd(), layout.total).expect("the region is sealed"), layout)
}

/// Ends the other thread also when an assertion fails.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn scribbling_between_calls_harms_no_other_group() {
    for seed in 1..=200u64 {
        let (mut worker, fd) = Attachment::create(SHAPE).expect("memory files work here");
        let (region, layout) = region_of(&fd);
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let (arena, mut frames) = (small_arena(), Vec::new());
        for _ in 0..1500 {
            for _ in 0..random.below(12) {
                scribble(&region, &layout, &mut random);
            }
            act(&mut worker, &arena, &mut frames, &mut random);
        }
        frames.clear();
        settle(&mut worker);
    }
}

#[test]
fn scribbling_during_calls_harms_no_other_group() {
    for seed in 1..=4u64 {
        let (mut worker, fd) = Attachment::create(SHAPE).expect("memory files work here");
        let (region, layout) = region_of(&fd);
        let over = AtomicBool::new(false);
        let (arena, mut frames) = (small_arena(), Vec::new());
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut random = Random(seed * 77_777_777);
                while !over.load(Ordering::Relaxed) {
                    scribble(&region, &layout, &mut random);
                }
            });
            let _stop = StopAtEnd(&over);
            let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            for _ in 0..100_000 {
                act(&mut worker, &arena, &mut frames, &mut random);
            }
        });
        frames.clear();
        settle(&mut worker);
    }
}

#[test]
fn a_chain_that_bites_its_tail_is_cut() {
    let (mut worker, fd) = Attachment::create(SHAPE).expect("memory files work here");
    let (region, layout) = region_of(&fd);
    let map = Map::new(region, layout);
    for (chunk, next) in [(0, 2), (1, 3), (2, 1)] {
        map.tx_record(chunk).len.store(100, Ordering::Relaxed);
        map.tx_record(chunk).next.store(next, Ordering::Relaxed);
    }
    map.slot(5).tx_stack.store(1, Ordering::Relaxed);
    assert_eq!(worker.tx_available(5), 300, "each chunk once");
    assert_eq!(worker.violations(), 1);
    map.slot(6).tx_stack.store(2, Ordering::Relaxed);
    assert_eq!(worker.tx_available(6), 0, "a chunk that another slot has");
    assert_eq!(worker.violations(), 2);
}

#[test]
fn lengths_and_cursors_that_cannot_be_are_refused() {
    let (mut worker, fd) = Attachment::create(SHAPE).expect("memory files work here");
    let (region, layout) = region_of(&fd);
    let map = Map::new(region, layout);
    map.tx_record(0).len.store(2049, Ordering::Relaxed);
    map.slot(0).tx_stack.store(1, Ordering::Relaxed);
    assert_eq!(worker.tx_available(0), 0);
    map.ring(3).tail.0.store(5000, Ordering::Relaxed);
    map.header().dirty.0[0].store(1 << 3, Ordering::Relaxed);
    assert_eq!(worker.next_request(), None);
    worker.push_rx(1, &[1; 100]);
    worker.signal(1);
    map.slot(1).rx_consumed.store(101, Ordering::Relaxed);
    assert_eq!(worker.newly_consumed(1), 100);
    map.header().returned_rx.0.store(9, Ordering::Relaxed);
    map.rx_record(8).next.store(9, Ordering::Relaxed);
    assert_eq!(worker.reclaim(), 1, "returned once although the chain says for ever");
    assert_eq!(worker.violations(), 4);
}
