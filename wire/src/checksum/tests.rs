use super::*;
use alloc::vec::Vec;

/// The definition, word by word.
fn slow(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
        sum = (sum & 0xffff) + (sum >> 16);
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

/// The example of RFC 1071 §3.
#[test]
fn rfc_1071_example() {
    assert_eq!(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
}

/// Every length up to several blocks agrees with the definition, also for bytes that carry most.
#[test]
fn agrees_with_the_definition() {
    for len in 0..300 {
        assert_eq!(sum(&bytes(len, 7)), slow(&bytes(len, 7)), "length {len}");
        let ones = Vec::from_iter(core::iter::repeat_n(0xff, len));
        assert_eq!(sum(&ones), slow(&ones), "length {len} of ones");
    }
    assert_eq!(sum(&bytes(65_535, 3)), slow(&bytes(65_535, 3)));
}

/// A packet cut anywhere, at odd offsets too, has the sum of the whole.
#[test]
fn parts_combine() {
    let whole = bytes(191, 5);
    for cut in 0..=whole.len() {
        for second in (cut..=whole.len()).step_by(13) {
            let parts = [&whole[..cut], &whole[cut..second], &whole[second..]];
            assert_eq!(sum_of_parts(parts.into_iter()), sum(&whole), "cut at {cut} and {second}");
        }
    }
}

/// The short way for headers is the long way.
#[test]
fn sums_of_headers() {
    for seed in 0..200 {
        let header: [u8; 20] = bytes(20, seed).try_into().expect("twenty bytes");
        assert_eq!(sum_of_header(&header), slow(&header));
    }
    assert_eq!((sum_of_header(&[0xff; 20]), sum_of_header(&[0; 20])), (0xffff, 0));
}

/// The example of RFC 1624 §4, where the older equation gives the wrong zero.
#[test]
fn rfc_1624_update() {
    assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
    let mut data = bytes(20, 9);
    let before = !sum(&data);
    let old = u16::from_be_bytes([data[6], data[7]]);
    data[6..8].copy_from_slice(&0xbeef_u16.to_be_bytes());
    assert_eq!(update(before, old, 0xbeef), !sum(&data));
}

/// The pseudo-header equals its bytes written out, for both families.
#[test]
fn pseudo_headers() {
    let (a, b): (IpAddr, IpAddr) = ([10, 0, 0, 1].into(), [192, 168, 7, 9].into());
    let written = [10, 0, 0, 1, 192, 168, 7, 9, 0, 6, 0x12, 0x34];
    assert_eq!(pseudo_header(a, b, 6, 0x1234), slow(&written));
    let (a, b) = ([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], [0xfe; 16]);
    let mut written = Vec::from(a);
    written.extend(b);
    written.extend([0, 1, 0, 4, 0, 0, 0, 6]);
    assert_eq!(pseudo_header(IpAddr::from(a), IpAddr::from(b), 6, 0x10004), slow(&written));
}
