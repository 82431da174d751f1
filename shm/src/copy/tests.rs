//! Copies at every distance that matters bring every byte, and only those that would be slow are cut.

use super::*;

/// Whatever the distance within a page and the length, what was asked for arrives and nothing around it is touched.
#[test]
fn every_byte_arrives_and_no_other() {
    let source: Vec<u8> = (0..5 * PAGE).map(|at| (at * 31 % 251) as u8).collect();
    for distance in [0, 1, 8, 16, 63, 64, 65, PAGE / 2, PAGE - 16] {
        for count in [0, 1, 100, PIECE, PIECE + 1, 2 * PIECE, 3 * PIECE + 77] {
            let mut target = vec![255; 6 * PAGE];
            let aligned = source.as_ptr() as usize % PAGE;
            let start = (aligned + distance).wrapping_sub(target.as_ptr() as usize) % PAGE;
            assert_eq!((target[start..].as_ptr() as usize).wrapping_sub(source.as_ptr() as usize) % PAGE, distance);
            // SAFETY: both are longer than that, and apart.
            unsafe { copy(source.as_ptr(), target[start..].as_mut_ptr(), count) };
            assert_eq!(target[start..start + count], source[..count], "{count} bytes, {distance} behind");
            assert!(target[..start].iter().chain(&target[start + count..]).all(|byte| *byte == 255), "{count}, {distance}");
        }
    }
}

/// A buffer of malloc(3) and a chunk at the start of a page are the usual case: 16 bytes.
#[test]
fn only_targets_less_than_a_line_behind_their_source_are_close() {
    let (chunk, page) = (0x7f12_3456_0000, 0x5600_0000_0000);
    for distance in [1, 8, 16, 63] {
        assert!(is_close_behind(chunk, page + distance), "{distance}");
        assert!(is_close_behind(chunk + 65_160, page + 65_160 + distance), "{distance}, further on");
    }
    for distance in [0, 64, 2048, 4080] {
        assert!(!is_close_behind(chunk, page + distance), "{distance}");
    }
    assert!(!is_close_behind(chunk + 16, page), "in front");
}
