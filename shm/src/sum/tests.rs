//! Every variant that this processor has agrees with the definition, byte by byte.
use super::*;
use alloc::vec;
use alloc::vec::Vec;

/// RFC 1071 §1 and §4.1, a byte at a time.
fn definition(bytes: &[u8]) -> u16 {
    let mut sum = 0u64;
    for (at, &byte) in bytes.iter().enumerate() {
        sum += u64::from(byte) << if at % 2 == 0 { 8 } else { 0 };
    }
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..len).map(next).collect()
}

fn variants() -> impl Iterator<Item = Variant> {
    Variant::ALL.into_iter().filter(|variant| variant.is_available())
}

/// All lengths from 0 to 9000, each at another of 64 alignments; a few under Miri, which is slow.
#[test]
fn every_length_agrees_with_the_definition() {
    for (seed, data) in [(1, bytes(9_100, 1)), (2, vec![0xff; 9_100])] {
        for len in 0..=if cfg!(miri) { 300 } else { 9_000 } {
            let start = len * 7 % 64;
            let part = &data[start..start + len];
            let expected = definition(part);
            for variant in variants() {
                assert_eq!(variant.sum(part), expected, "{variant:?}, length {len}, start {start}, data {seed}");
            }
            assert_eq!(sum(part), expected, "dispatched, length {len}");
        }
    }
}

/// All pairs of alignments of source and target, a few under Miri; nothing is written outside the target.
#[test]
fn copies_are_true_and_stay_inside() {
    let data = bytes(2_200, 3);
    let step = if cfg!(miri) { 13 } else { 1 };
    for variant in variants() {
        for (from, to) in (0..64).step_by(step).flat_map(|from| (0..64).step_by(5 * step).map(move |to| (from, to))) {
            for len in [0, 1, 7, 31, 63, 64, 65, 127, 200, 1_448] {
                let mut target = vec![0xa5; 2_200];
                let source = &data[from..from + len];
                assert_eq!(variant.copy(&mut target[to..to + len], source), definition(source), "{variant:?}, {len}");
                assert_eq!(&target[to..to + len], source, "{variant:?}, {from} to {to}, length {len}");
                let outside = target[..to].iter().chain(&target[to + len..]);
                assert!(outside.into_iter().all(|&byte| byte == 0xa5), "{variant:?}, {from} to {to}, length {len}");
            }
        }
    }
}

/// A cut at any place, odd ones too, gives sums that combine to that of the whole.
#[test]
fn odd_splits_combine() {
    let data = bytes(1_501, 5);
    let whole = sum(&data);
    for cut in (0..data.len()).step_by(if cfg!(miri) { 31 } else { 1 }) {
        let (left, right) = data.split_at(cut);
        let right = if cut % 2 == 0 { sum(right) } else { sum(right).swap_bytes() };
        assert_eq!(add(sum(left), right), whole, "cut at {cut}");
    }
}

/// Only bytes of zeros have the sum zero; anything else that is worth zero has 0xffff.
#[test]
fn both_zeros_are_told_apart() {
    for variant in variants() {
        assert_eq!(variant.sum(&[0; 300]), 0, "{variant:?}");
        assert_eq!(variant.sum(&[0xff; 300]), 0xffff, "{variant:?}");
    }
}

/// The widest variant of this processor is the one that is used.
#[test]
fn the_best_variant_is_chosen_once() {
    let best = variants().last();
    assert_eq!(Some(Variant::chosen()), best);
    assert_eq!(Some(Variant::chosen()), best);
}
