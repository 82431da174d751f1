//! Encoded headers decode to the same, and headers that lie are refused.
use super::*;
use crate::testing::{Packet, arena};
use ringway_shm::Burst;

fn first(segment_size: u16, partial: bool) -> (Burst, [u8; BYTES]) {
    let mut burst = Burst::default();
    Packet { payload: &[7; 3000], flags: 0x98, ..Packet::default() }.push(&arena(), &mut burst, segment_size, partial);
    let header = encode(burst.front_packet().next().expect("a packet"));
    (burst, header)
}

#[test]
fn encoded_metadata_decodes_to_the_same() {
    for (segment_size, partial) in [(0, false), (0, true), (1448, true)] {
        let (mut burst, header) = first(segment_size, partial);
        let original = burst.pop().expect("a frame");
        let mut copy = arena().alloc_from(original.bytes()).expect("room");
        assert!(decode(header, &mut copy));
        assert_eq!(copy.checksum(), original.checksum());
        assert_eq!(copy.segmentation(), original.segmentation());
    }
}

#[test]
fn a_super_segment_says_its_header_length_and_congestion_mark() {
    let (_, header) = first(1448, true);
    assert_eq!(header[1], GSO_TCP_IPV4 | GSO_ECN);
    assert_eq!(u16::from_ne_bytes([header[2], header[3]]), 54);
}

#[test]
fn lying_headers_are_refused() {
    let mut frame = arena().alloc_from(&[0; 60]).expect("room");
    let header = |flags, gso, size: u16, start: u16, offset: u16| {
        let mut header = [flags, gso, 0, 0, 0, 0, 0, 0, 0, 0];
        header[4..6].copy_from_slice(&size.to_ne_bytes());
        header[6..8].copy_from_slice(&start.to_ne_bytes());
        header[8..10].copy_from_slice(&offset.to_ne_bytes());
        header
    };
    assert!(decode(header(NEEDS_CHECKSUM, 0, 0, 34, 16), &mut frame));
    assert!(!decode(header(NEEDS_CHECKSUM, 0, 0, 43, 16), &mut frame), "checksum beyond the end");
    assert!(!decode(header(NEEDS_CHECKSUM, 0, 0, u16::MAX, u16::MAX), &mut frame), "overflow");
    assert!(!decode(header(0, GSO_TCP_IPV4, 0, 0, 0), &mut frame), "no segment size");
    assert!(!decode(header(0, 3, 100, 0, 0), &mut frame), "unknown kind");
}
