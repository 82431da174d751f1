//! The sums agree with a word-by-word reference, however the bytes are cut into frames.
use super::*;
use ringway_shm::{Arena, ArenaConfig};

fn reference(bytes: &[u8]) -> u16 {
    let mut sum = 0u64;
    for pair in bytes.chunks(2) {
        sum += u64::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
    }
    fold(sum)
}

#[test]
fn sums_agree_with_the_reference_at_every_length() {
    let bytes: Vec<u8> = (0..100u32).map(|i| (i * 37 + 11) as u8).collect();
    for len in 0..bytes.len() {
        assert_eq!(fold(add(0, &bytes[..len])), reference(&bytes[..len]), "length {len}");
    }
}

#[test]
fn a_packet_cut_at_odd_places_sums_as_one() {
    let arena = Arena::new(ArenaConfig { large: 4, small: 8 });
    let bytes: Vec<u8> = (0..90u32).map(|i| (i * 91 + 5) as u8).collect();
    let packet: Vec<Frame> = [&bytes[..21], &bytes[21..22], &bytes[22..47], &bytes[47..]]
        .iter()
        .map(|part| arena.alloc_from(part).expect("room"))
        .collect();
    for start in [0, 1, 14, 20, 30] {
        assert_eq!(fold(sum_packet(&packet, start)), reference(&bytes[start..]), "start {start}");
    }
}
