//! The memory wire moves frames between arenas, keeps order, and enforces its capabilities.
use super::*;
use crate::testing::{Packet, arena, arrived};

fn one_way(options: MemoryOptions, same: bool, segment_size: u16, partial: bool, payload: &[u8]) -> Vec<crate::testing::Arrived> {
    let left = arena();
    let right = if same { left.clone() } else { arena() };
    let (mut a, mut b) = pair(&left, &right, options);
    let mut burst = Burst::default();
    Packet { payload, ..Packet::default() }.push(&left, &mut burst, segment_size, partial);
    a.transmit(Instant::ZERO, &mut burst).expect("memory does not fail");
    assert!(burst.is_empty());
    b.receive(Instant::ZERO, &mut burst).expect("memory does not fail");
    arrived(&mut burst)
}

#[test]
fn a_packet_crosses_between_arenas_and_inside_one() {
    for same in [false, true] {
        let got = one_way(MemoryOptions::default(), same, 0, false, b"hello");
        assert_eq!(got.len(), 1);
        assert_eq!(got[0].payload(), b"hello");
    }
}

#[test]
fn a_super_segment_crosses_whole_with_its_metadata() {
    let payload: Vec<u8> = (0..60_000u32).map(|i| i as u8).collect();
    let got = one_way(MemoryOptions::offloading(), false, 1448, true, &payload);
    assert_eq!(got[0].payload(), payload);
    assert_eq!(got[0].segmentation.size, 1448);
    assert_eq!(got[0].checksum, Checksum::Partial { start: 34, offset: 16 });
}

#[test]
fn what_the_wire_does_not_carry_is_dropped() {
    let big = vec![1; 1461];
    assert!(one_way(MemoryOptions::default(), false, 0, false, &big).is_empty(), "larger than the MTU");
    assert!(one_way(MemoryOptions::default(), false, 0, true, b"x").is_empty(), "partial checksum");
    assert!(one_way(MemoryOptions::default(), false, 1448, false, &big).is_empty(), "super-segment");
    let linear = MemoryOptions { gathers: false, ..MemoryOptions::default() };
    assert!(one_way(linear, false, 0, false, b"x").is_empty(), "two frames");
}

#[test]
fn a_full_queue_leaves_packets_with_the_sender() {
    let (left, right) = (arena(), arena());
    let (mut a, mut b) = pair(&left, &right, MemoryOptions { queue_packets: 2, ..MemoryOptions::default() });
    let mut burst = Burst::default();
    for sequence in 0..3 {
        Packet { sequence, ..Packet::default() }.push(&left, &mut burst, 0, false);
    }
    assert_eq!(a.transmit(Instant::ZERO, &mut burst).expect("memory does not fail"), 2);
    assert_eq!(burst.packets(), 1);
    assert!(b.arm());
    let mut got = Burst::default();
    b.receive(Instant::ZERO, &mut got).expect("memory does not fail");
    a.transmit(Instant::ZERO, &mut burst).expect("memory does not fail");
    b.receive(Instant::ZERO, &mut got).expect("memory does not fail");
    assert_eq!(arrived(&mut got).iter().map(|p| p.sequence()).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(!b.arm());
}

#[test]
fn frames_shared_with_a_queue_are_copied_not_moved() {
    let arena = arena();
    let (mut a, mut b) = pair(&arena, &arena, MemoryOptions::default());
    let mut burst = Burst::default();
    let kept = arena.alloc_from(b"0123456789abcdef").expect("room");
    burst.push(kept.share());
    a.transmit(Instant::ZERO, &mut burst).expect("memory does not fail");
    assert!(kept.is_exclusive());
    b.receive(Instant::ZERO, &mut burst).expect("memory does not fail");
    assert!(burst.pop().expect("arrived").is_exclusive());
}
