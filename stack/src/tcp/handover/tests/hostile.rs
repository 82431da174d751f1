//! Bytes that are no image, and images of connections that cannot be.

use alloc::vec::Vec;

use ringway_shm::Instant;

use super::world::*;
use crate::State;
use crate::config::{CongestionControl, Ecn};
use crate::handover::{ConnectionImage, DecodeError, ImportError};

/// An image from the middle of a busy connection on a bad wire.
fn busy(seed: u64) -> (World, usize, ConnectionImage) {
    let mut random = Random(seed ^ 0x8057);
    let mut plan = Plan { faults: [12, 12, 12], is_forged: true, is_ipv6: seed.is_multiple_of(2), ..Plan::of(seed) };
    plan.bytes = [30_000, 30_000];
    plan.piece = [random.pick(&[300, 3_000]), random.pick(&[10, 3_000])];
    plan.reads_each_ms = [random.pick(&[1, 100]), random.pick(&[1, 100])];
    for end in [0, 1] {
        plan.options[end].congestion_control = random.pick(&CongestionControl::ALL);
        plan.configs[end].tcp.ecn = random.pick(&[Ecn::AccurateRequest, Ecn::Request, Ecn::Off]);
        plan.configs[end].tcp.sack = !random.one_in(4);
        plan.configs[end].tcp.timestamps = !random.one_in(4);
    }
    let mut world = World::new(plan);
    let number = random.below(2) as usize;
    world.until("a state that moves", |world| super::super::moves(world.ends[number].state()));
    for _ in 0..random.below(80) {
        // The next step may be the last.
        if world.ends[number].state() != State::Established && random.one_in(3) || world.ends[number].state().is_write_closed() {
            break;
        }
        world.step();
    }
    let image = world.export(number);
    world.renew(number);
    (world, number, image)
}

/// Every beginning of an image is refused, and so is an image with something behind it or of another version.
#[test]
fn only_whole_images_are_read() {
    let (_, _, image) = busy(3);
    let bytes = image.encode();
    for len in 0..bytes.len() {
        assert!(ConnectionImage::decode(&bytes[..len]).is_err(), "{len} of {} bytes", bytes.len());
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert_eq!(ConnectionImage::decode(&longer), Err(DecodeError::Trailing));
    let mut later = bytes;
    later[3] += 1;
    assert_eq!(ConnectionImage::decode(&later), Err(DecodeError::OtherVersion));
}

/// Runs with a forged image.
const SEEDS: u64 = 150;

/// Changes some bytes, mostly of numbers: the bytes of queues say nothing.
fn forge(bytes: &mut [u8], random: &mut Random) {
    for _ in 0..=random.below(4) {
        let len = bytes.len() as u64;
        let at = match random.below(3) {
            0 => random.below(len.min(250)),
            1 => len - 1 - random.below(len.min(400)),
            _ => random.below(len),
        };
        let byte = &mut bytes[at as usize];
        *byte = match random.below(4) {
            0 => random.next() as u8,
            1 => byte.wrapping_add(1),
            2 => byte.wrapping_sub(1),
            _ => random.pick(&[0, 1, 127, 128, 255]),
        };
    }
}

/// Whatever an image says: it is refused with a name and leaves nothing, or it makes a connection that breaks no invariant
/// (their assertions are on) while it exchanges segments with an honest peer, and that ends without a trace.
#[test]
fn a_forged_image_harms_only_itself() {
    let mut refused = Vec::new();
    let mut taken = 0;
    for seed in 0..SEEDS {
        let (mut world, number, image) = busy(seed);
        let mut random = Random(seed ^ 0xf0e9);
        let mut bytes = image.encode();
        forge(&mut bytes, &mut random);
        let Ok(forged) = ConnectionImage::decode(&bytes) else { continue };
        let at = world.ends[number].time(world.now);
        match world.ends[number].stack.import(at, &forged, 7) {
            Err(error) => refused.push(error),
            Ok(id) => {
                taken += 1;
                world.ends[number].id = Some(id);
                for _ in 0..300 {
                    world.step();
                }
                let end = &mut world.ends[number];
                let at = end.time(world.now);
                if let Ok(again) = end.stack.export(at, id) {
                    let id = end
                        .stack
                        .import(at, &again, 7)
                        .unwrap_or_else(|error| panic!("seed {seed}: {error:?}, {:?}", brief(&again)));
                    end.stack.abort(at, id);
                } else {
                    end.stack.abort(at, id);
                }
                world.cut();
                world.send();
            }
        }
        world.ends[number].id = None;
        world.ends[number].assert_no_leak();
    }
    let has = |error| refused.contains(&error);
    assert!(taken > 30 && has(ImportError::Receiving) && has(ImportError::Sending), "{taken} taken, {refused:?}");
}

/// Each rule of the check has an image that breaks it.
#[test]
fn contradictions_have_names() {
    type Change = fn(&mut ConnectionImage);
    let changes: &[(ImportError, Change)] = &[
        (ImportError::Addresses, |image| image.remote.port = 0),
        (ImportError::Addresses, |image| image.remote.ip = [10, 0, 0, 9].into()),
        (ImportError::Addresses, |image| image.remote.ip = [0xff02, 0, 0, 0, 0, 0, 0, 1].into()),
        (ImportError::NotLocal, |image| image.local.ip = [0xfd00, 0, 0, 0, 0, 0, 0, 77].into()),
        (ImportError::State(State::SynSent), |image| image.state = State::SynSent),
        (ImportError::State(State::TimeWait), |image| image.state = State::TimeWait),
        (ImportError::Terms, |image| image.terms.send_scale = 15),
        (ImportError::Terms, |image| image.terms.receive_scale = 15),
        (ImportError::Terms, |image| image.terms.mss = 0),
        (ImportError::Terms, |image| image.terms.ecn = crate::tcp::ecn::EcnMode::Accurate),
        (ImportError::Terms, |image| image.settings.receive_buffer = 0),
        (ImportError::Receiving, |image| image.receiving.edge = image.receiving.nxt.wrapping_add(1 << 31)),
        (ImportError::Receiving, |image| image.receiving.unread.push(0)),
        (ImportError::Receiving, |image| image.receiving.fin = Some(image.receiving.nxt)),
        (ImportError::Receiving, |image| image.receiving.last_ack_sent = image.receiving.nxt.wrapping_add(1)),
        (ImportError::Sending, |image| image.sending.nxt = image.sending.una.wrapping_sub(1)),
        (ImportError::Sending, |image| image.sending.nxt = image.sending.una.wrapping_add(1)),
        (ImportError::Sending, |image| image.sending.max_window = image.sending.wnd - 1),
        (ImportError::Sending, |image| image.sending.wnd = u32::MAX),
        (ImportError::Recovering, |image| image.recovering.cwnd = 0),
        (ImportError::Recovering, |image| image.recovering.recovery = crate::tcp::tcb::Recovery::Fast),
        (ImportError::Recovering, |image| image.recovering.retransmits = true),
        (ImportError::Deadlines, |image| image.deadlines.srtt_us = u32::MAX),
        (ImportError::Deadlines, |image| image.deadlines.idle_ms = Some(u32::MAX)),
    ];
    let mut plan = Plan { is_ipv6: true, ..Plan::of(5) };
    (plan.bytes, plan.piece) = ([1, 100_000], [1, 0]);
    let mut world = World::new(plan);
    world.until("an idle connection", |world| world.now > Instant::from_millis(1_100));
    let image = world.export(1);
    world.renew(1);
    let at = world.ends[1].time(world.now);
    for (number, (error, change)) in changes.iter().enumerate() {
        let mut forged = image.clone();
        change(&mut forged);
        assert_eq!(world.ends[1].stack.import(at, &forged, 7), Err(*error), "change {number}");
        world.ends[1].assert_no_leak();
    }
    world.import(1, &image);
}
