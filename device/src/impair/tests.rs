//! Each impairment does what its option says, by the clock it is given, and a seed repeats.
use super::*;
use crate::memory::{Memory, MemoryOptions, pair};
use crate::testing::{Arrived, Packet, arena, arrived};

fn wire(seed: u64, options: Impairments) -> (Arena, Impair, Memory) {
    let (left, right) = (arena(), arena());
    let (a, b) = pair(&left, &right, MemoryOptions { queue_packets: 100_000, burst: 100_000, ..MemoryOptions::offloading() });
    let impair = Impair::new(Box::new(a), &left, seed, options, Impairments::default());
    (left, impair, b)
}

/// Sends `count` packets at time zero, 100 at a time, and returns what arrives with its time.
fn send(seed: u64, count: u32, options: Impairments) -> (Vec<(Instant, Arrived)>, Damage) {
    let (arena, mut impair, mut b) = wire(seed, options);
    let mut burst = Burst::default();
    let mut got = Vec::new();
    let mut now = Instant::ZERO;
    for sequence in 0..count {
        Packet { sequence, ..Packet::default() }.push(&arena, &mut burst, 0, false);
        impair.transmit(now, &mut burst).expect("memory does not fail");
        if options.delay == Duration::ZERO && options.rate_bits == 0 {
            collect(now, &mut b, &mut got);
        }
    }
    while let Some(due) = impair.poll_timeout() {
        now = due;
        impair.transmit(now, &mut burst).expect("memory does not fail");
        collect(now, &mut b, &mut got);
    }
    collect(now, &mut b, &mut got);
    (got, impair.damage().0)
}

fn collect(now: Instant, b: &mut Memory, got: &mut Vec<(Instant, Arrived)>) {
    let mut burst = Burst::default();
    b.receive(now, &mut burst).expect("memory does not fail");
    got.extend(arrived(&mut burst).into_iter().map(|packet| (now, packet)));
}

fn sequences(got: &[(Instant, Arrived)]) -> Vec<u32> {
    got.iter().map(|(_, packet)| packet.sequence()).collect()
}

#[test]
fn without_impairments_everything_passes_at_once() {
    let (got, damage) = send(1, 50, Impairments::default());
    assert_eq!(sequences(&got), (0..50).collect::<Vec<_>>());
    assert_eq!(damage, Damage::default());
}

#[test]
fn loss_follows_its_probability_and_its_seed() {
    let options = Impairments { loss_ppm: 100_000, ..Impairments::default() };
    let (got, damage) = send(7, 10_000, options);
    assert!((800..1200).contains(&damage.lost), "{} of 10000 at 10 %", damage.lost);
    assert_eq!(sequences(&got), sequences(&send(7, 10_000, options).0));
    assert_ne!(sequences(&got), sequences(&send(8, 10_000, options).0));
}

#[test]
fn every_third_packet_is_lost() {
    let (got, _) = send(1, 9, Impairments { loss_every: 3, ..Impairments::default() });
    assert_eq!(sequences(&got), [0, 1, 3, 4, 6, 7]);
}

#[test]
fn loss_bursts_take_neighbors() {
    let options = Impairments { burst_start_ppm: 20_000, burst_end_ppm: 250_000, ..Impairments::default() };
    let (got, damage) = send(3, 10_000, options);
    let sequences = sequences(&got);
    let gaps = sequences.windows(2).filter(|pair| pair[1] != pair[0] + 1).count() as u64;
    assert!(damage.lost > 2 * gaps, "{} lost in {gaps} bursts", damage.lost);
}

#[test]
fn delay_holds_and_jitter_keeps_the_order() {
    let options = Impairments { delay: Duration::from_millis(20), jitter: Duration::from_millis(5), ..Impairments::default() };
    let (got, _) = send(1, 100, options);
    assert_eq!(sequences(&got), (0..100).collect::<Vec<_>>());
    assert!(got.iter().all(|(at, _)| (20..=25).contains(&at.as_millis())));
    assert!(got.last().expect("arrived").0.as_millis() >= 24);
}

#[test]
fn the_rate_spaces_packets_and_a_full_queue_loses() {
    // A packet of 59 bytes at 472 kbit/s takes 1 ms.
    let options = Impairments { rate_bits: 472_000, rate_queue_bytes: 590, ..Impairments::default() };
    let (got, damage) = send(1, 20, options);
    let times: Vec<u64> = got.iter().map(|(at, _)| at.as_millis()).collect();
    assert_eq!(times, (1..=11).collect::<Vec<_>>());
    assert_eq!((damage.lost, damage.overflowed), (9, 9));
}

#[test]
fn reordered_packets_come_later() {
    let options = Impairments { reorder_ppm: 200_000, delay: Duration::from_micros(1), ..Impairments::default() };
    let (got, damage) = send(5, 100, options);
    assert_eq!(got.len(), 100);
    assert!(damage.reordered > 5);
    let late = got.iter().filter(|(at, _)| at.as_micros() == 1001).count() as u64;
    assert_eq!(late, damage.reordered);
}

#[test]
fn duplicates_and_corruption_happen_to_copies() {
    let options = Impairments { duplicate_ppm: 500_000, corrupt_ppm: 500_000, ..Impairments::default() };
    let (got, damage) = send(5, 200, options);
    assert_eq!(got.len() as u64, 200 + damage.duplicated);
    assert!(damage.duplicated > 50 && damage.corrupted > 50);
    let original: Vec<Vec<u8>> = (0..200).map(|sequence| Packet { sequence, ..Packet::default() }.bytes()).collect();
    let flipped = got.iter().filter(|(_, packet)| !original.contains(&packet.bytes)).count();
    assert!(flipped as u64 >= damage.corrupted);
}

#[test]
fn only_capable_packets_are_marked_and_their_header_stays_right() {
    let arena = arena();
    let mut lane = Lane::new(Impairments { mark_ppm: 1_000_000, ..Impairments::default() }, 1, 14);
    for (tos, marked) in [(0u8, 0), (2, 1), (1, 1), (3, 0)] {
        let mut bytes = Packet::default().bytes();
        bytes[15] = tos;
        bytes[24..26].copy_from_slice(&[0, 0]);
        let sum = !crate::checksum::fold(crate::checksum::add(0, &bytes[14..34]));
        bytes[24..26].copy_from_slice(&sum.to_be_bytes());
        let mut packet = vec![arena.alloc_from(&bytes).expect("room")];
        lane.damage = Damage::default();
        lane.pass(Instant::ZERO, &arena, &mut packet);
        let mut burst = Burst::default();
        lane.line.release(Instant::ZERO, &mut burst);
        assert_eq!(lane.damage.marked, marked, "TOS {tos}");
        assert_eq!(arrived(&mut burst)[0].payload(), b"hello");
    }
}

#[test]
fn the_receive_direction_is_impaired_too() {
    let (left, right) = (arena(), arena());
    let (a, mut b) = pair(&left, &right, MemoryOptions::default());
    let lossy = Impairments { loss_every: 2, ..Impairments::default() };
    let mut impair = Impair::new(Box::new(a), &left, 1, Impairments::default(), lossy);
    let mut burst = Burst::default();
    for sequence in 0..4 {
        Packet { sequence, ..Packet::default() }.push(&right, &mut burst, 0, false);
    }
    b.transmit(Instant::ZERO, &mut burst).expect("memory does not fail");
    assert_eq!(impair.receive(Instant::ZERO, &mut burst).expect("memory does not fail"), 2);
    assert_eq!(impair.damage().1.lost, 2);
}
