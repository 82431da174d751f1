//! The particular rules of the link; the rest is in the conformance suite.
use super::*;
use crate::testing::{Packet, arena, arrived};
use ringway_shm::wire::wire;

#[test]
fn packets_cross_between_threads_with_arenas_of_their_own() {
    let (near, far) = wire(CAPACITY).expect("memory");
    let echo = std::thread::spawn(move || {
        let arena = arena();
        let mut link = Link::open(far, 1500, &arena).expect("ours");
        let mut burst = Burst::default();
        let mut echoed = 0;
        while echoed < 1000 {
            crate::testing::receive_armed(&mut link, &mut burst);
            echoed += burst.packets();
            link.transmit(Instant::ZERO, &mut burst).expect("the peer keeps the rules");
        }
    });
    let arena = arena();
    let mut link = Link::open(near, 1500, &arena).expect("ours");
    let (mut out, mut back) = (Burst::default(), Burst::default());
    let mut sequences = Vec::new();
    for sequence in 0..1000 {
        Packet { sequence, ..Packet::default() }.push(&arena, &mut out, 0, true);
        link.transmit(Instant::ZERO, &mut out).expect("the peer keeps the rules");
        if sequence % 50 == 49 {
            while sequences.len() <= sequence as usize {
                crate::testing::receive_armed(&mut link, &mut back);
                sequences.extend(arrived(&mut back).iter().map(|packet| packet.sequence()));
            }
        }
    }
    echo.join().expect("the other end is well");
    assert_eq!(sequences, (0..1000).collect::<Vec<_>>());
}

/// A turn takes half of the small packets that wait, at least 32 and at most 128; of large ones, 32.
#[test]
fn a_turn_takes_half_of_what_waits() {
    for (sent, payload, takes) in [(40, 64, [32, 8]), (200, 64, [100, 50]), (600, 64, [128, 128]), (40, 60_000, [32, 8])] {
        let (near, far) = wire(CAPACITY).expect("memory");
        let arena = arena();
        let (mut near, mut far) = (Link::open(near, 1500, &arena).expect("ours"), Link::open(far, 1500, &arena).expect("ours"));
        let mut burst = Burst::default();
        for sequence in 0..sent {
            let content = vec![1; payload];
            Packet { sequence, payload: &content, ..Packet::default() }.push(&arena, &mut burst, 1448, true);
            near.transmit(Instant::ZERO, &mut burst).expect("the peer keeps the rules");
        }
        for most in takes {
            let taken = far.receive(Instant::ZERO, &mut burst).expect("the peer keeps the rules");
            assert_eq!(taken, most, "of {sent} packets of {payload} bytes");
            burst.clear();
        }
    }
}

#[test]
fn a_full_link_leaves_packets_with_the_sender() {
    let (near, far) = wire(CAPACITY).expect("memory");
    let arena = arena();
    let (mut near, mut far) = (Link::open(near, 1500, &arena).expect("ours"), Link::open(far, 1500, &arena).expect("ours"));
    let packet = Packet { payload: &[1; 60_000], ..Packet::default() };
    let mut burst = Burst::default();
    let mut sent = 0;
    while burst.is_empty() {
        packet.push(&arena, &mut burst, 1448, true);
        sent += near.transmit(Instant::ZERO, &mut burst).expect("the peer keeps the rules");
    }
    assert!(sent as u32 > CAPACITY / 65_536);
    let mut got = Burst::default();
    far.receive(Instant::ZERO, &mut got).expect("the peer keeps the rules");
    assert_eq!(near.transmit(Instant::ZERO, &mut burst).expect("the peer keeps the rules"), 1);
}

#[test]
fn a_record_that_is_no_packet_breaks_the_link() {
    for len in [0, vnet::BYTES, PACKET_MAX + vnet::BYTES + 1] {
        let (near, far) = wire(CAPACITY).expect("memory");
        let mut hostile = Wire::open(near).expect("ours");
        let mut link = Link::open(far, 1500, &arena()).expect("ours");
        let bytes = vec![0; len];
        assert!(hostile.send(len, std::iter::once(&bytes[..])));
        hostile.flush();
        assert!(link.receive(Instant::ZERO, &mut Burst::default()).is_err(), "{len} bytes");
        assert!(!link.arm(), "a broken link does not keep the worker awake");
    }
}
