//! The worker's end of a channel whose application writes arbitrary words at arbitrary offsets.
//!
//! Input: steps; each writes a word into the region or does one of the things that an engine does.

use std::fs::File;
use std::os::unix::fs::FileExt;

use ringway_channel::{Attachment, ControlAnswer, Failure, Flags, Shape, State};
use ringway_shm::{Arena, ArenaConfig, Frame, Instant};

use crate::input::Input;

const SHAPE: Shape =
    Shape { slots: 128, rx_large: 8, rx_small: 8, tx_large: 8, tx_small: 8, tx_bulk: 4, rx_bulk: 4, rx_middle: 4 };
/// Maximum number of steps of one input.
const STEPS_MAX: usize = 2000;

pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let (mut worker, region) = Attachment::create(SHAPE).expect("memory files work here");
    let region = File::from(region);
    let size = region.metadata().expect("a memory file has a size").len();
    let arena = Arena::new(ArenaConfig { large: 8, small: 8 });
    let mut frames = Vec::new();
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        let step = input.byte();
        if step < 128 {
            let place = u64::from(input.long());
            let end = if step < 32 { 4096 } else { size };
            let offset = place % (end - 8) / 4 * 4;
            let value = if step & 1 == 0 { input.distance() } else { input.long() };
            region.write_at(&value.to_le_bytes(), offset).expect("the region takes writes inside it");
        } else {
            act(&mut worker, &arena, &mut frames, step, &mut input);
        }
    }
    frames.clear();
    for slot in 0..SHAPE.slots {
        worker.free_slot(slot);
        assert_eq!(worker.tx_available(slot), 0);
    }
    worker.reclaim();
    assert_eq!(worker.free_rx(), (SHAPE.rx_large, SHAPE.rx_small), "every chunk was returned");
    assert_eq!((worker.lent_tx(), worker.free_rooms()), (0, SHAPE.rx_bulk + SHAPE.rx_middle), "also those under frames");
    assert_eq!(arena.free_extents(), arena.extents());
}

/// Does one of the things that an engine does.
fn act(worker: &mut Attachment, arena: &Arena, frames: &mut Vec<Frame>, step: u8, input: &mut Input<'_>) {
    let slot = u32::from(input.byte()) % SHAPE.slots;
    let mut bytes = [0xa5; 3000];
    match step % 16 {
        0 | 1 => {
            for _ in 0..20 {
                let Some(request) = worker.next_request() else { break };
                if request.slot.index < SHAPE.slots {
                    worker.answer(&request, ControlAnswer::Done);
                    worker.answer_with_bytes(&request, &bytes[..300]);
                }
            }
        }
        3 => {
            // Takes frames over what was pushed; some of them are kept.
            worker.tx_available(slot);
            frames.extend(worker.lend_tx(slot, arena, usize::from(input.word())));
            frames.truncate(usize::from(input.byte()) % 8);
        }
        2 => {
            let available = worker.tx_available(slot).min(bytes.len());
            assert_eq!(worker.copy_tx(slot, &mut bytes[..available]), available);
            worker.release_tx(slot, available as u32);
        }
        4 => {
            // Payload that a device reads to the region; some of it is dropped before it is pushed.
            frames.extend(worker.room_rx(arena, 16_384 + usize::from(input.word()) % 49_000).map(ringway_shm::Room::into_frame));
            if !input.byte().is_multiple_of(4) {
                let pushed = frames.pop().map(|frame| worker.push_room(slot, frame));
                frames.extend(pushed.and_then(Result::err));
            }
        }
        5 => {
            let len = usize::from(input.word()) % bytes.len();
            assert!(worker.push_rx(slot, &bytes[..len]) <= len);
        }
        6 => worker.signal(slot),
        7 => drop(worker.flush_wakes()),
        8 => drop(worker.reclaim()),
        9 => worker.free_slot(slot),
        10 => {
            if let Some(child) = worker.allocate_slot() {
                worker.set_state(child.index, State::Connected);
                worker.push_accepted(slot, child.index, Instant::ZERO);
            }
        }
        11 => worker.unaccepted(slot).into_iter().for_each(|child| worker.free_slot(child)),
        12 => {
            let gone = worker.process_gone(u32::from(input.byte()));
            assert!(gone.orphans.iter().chain(&gone.torn).chain(&gone.revisit).all(|slot| *slot < SHAPE.slots));
        }
        13 => worker.set_error(slot, Failure::Reset, Flags::HUNG_UP),
        14 => {
            worker.arm();
            worker.disarm();
        }
        _ => worker.publish_rx(slot),
    }
}
