//! Read RFC 1071 first. The Internet checksum as sums that can be continued.
//!
//! A sum is a ones'-complement sum of big-endian 16-bit words, not folded, not complemented.

use ringway_shm::Frame;

/// Adds `bytes`, which start at an even place, to `sum`.
pub(crate) fn add(sum: u64, bytes: &[u8]) -> u64 {
    sum + u64::from(ringway_shm::sum::sum(bytes))
}

/// The sum in 16 bits.
#[inline]
pub(crate) fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

/// The sum of the packet's bytes from `start` (counted from the first frame's first byte) to the end.
pub(crate) fn sum_packet(packet: &[Frame], start: usize) -> u64 {
    let mut skip = start;
    let mut odd = false;
    let mut sum = 0;
    for frame in packet {
        let from = skip.min(frame.len());
        skip -= from;
        let part = frame.payload().slice(from..frame.len());
        let piece = part.sum();
        // RFC 1071 §2 (B): a piece that starts at an odd place counts with its bytes swapped.
        sum += u64::from(if odd { piece.swap_bytes() } else { piece });
        odd ^= part.len() % 2 == 1;
    }
    sum
}

/// The sum of a pseudo-header (RFC 9293 §3.1, RFC 8200 §8.1) from the address bytes of both ends.
pub(crate) fn pseudo(addresses: &[u8], protocol: u8, length: u32) -> u64 {
    add(0, addresses) + u64::from(protocol) + u64::from(length >> 16) + u64::from(length & 0xffff)
}

#[cfg(test)]
mod tests;
