//! The header of nearly all segments: timestamps in the layout of RFC 7323 appendix A, and no other option.
//!
//! It has one length, so it is read in place, and written as words. Its values are those of [`Header`](super::Header).

use super::{HEADER_BYTES, TIMESTAMPS_BYTES, Timestamps, read_u32};
use crate::checksum;
use crate::sequence::SeqNum;

/// Size of the header, bytes.
pub const BYTES: usize = HEADER_BYTES + TIMESTAMPS_BYTES;
/// Its data offset.
pub const WORDS: u32 = BYTES as u32 / 4;
/// RFC 7323 appendix A: two bytes of padding, kind and length of the option.
const LAYOUT: u32 = 0x0101_080a;

/// A received header, read when needed.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    bytes: &'a [u8; BYTES],
    /// The data offset and the flags, in the upper half of a word; the lower half is zero.
    pub word: u32,
}

impl Received<'_> {
    /// The header at the start of `bytes`, if it has this layout.
    #[inline(always)]
    pub fn parse(bytes: &[u8]) -> Option<Received<'_>> {
        let bytes: &[u8; BYTES] = bytes.first_chunk()?;
        let header = Received { bytes, word: read_u32(bytes, 12) & 0xffff_0000 };
        (read_u32(bytes, 20) == LAYOUT && header.word >> 28 == WORDS).then_some(header)
    }

    /// SEG.SEQ.
    #[inline(always)]
    pub fn sequence(&self) -> SeqNum {
        SeqNum(read_u32(self.bytes, 4))
    }

    /// SEG.ACK.
    #[inline(always)]
    pub fn acknowledgment(&self) -> SeqNum {
        SeqNum(read_u32(self.bytes, 8))
    }

    /// SEG.WND, not scaled.
    #[inline(always)]
    pub fn window(&self) -> u16 {
        read_u32(self.bytes, 12) as u16
    }

    /// TSval and TSecr.
    #[inline(always)]
    pub fn time(&self) -> Timestamps {
        Timestamps { value: read_u32(self.bytes, 24), echo: read_u32(self.bytes, 28) }
    }
}

/// A header to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Sent([u32; WORDS as usize]);

impl Sent {
    /// A header with these values and a zero checksum. `ports`: source and destination; `at`: sequence and acknowledgment
    /// number.
    #[inline(always)]
    pub fn new(ports: (u16, u16), at: (SeqNum, SeqNum), flags: u8, window: u16, time: Timestamps) -> Sent {
        let ports = u32::from(ports.0) << 16 | u32::from(ports.1);
        let word = WORDS << 28 | u32::from(flags) << 16 | u32::from(window);
        Sent([ports, at.0.0, at.1.0, word, 0, LAYOUT, time.value, time.echo])
    }

    /// The checksum of the header without that field.
    #[inline(always)]
    pub fn sum(&self) -> u16 {
        let sum = self.0.iter().map(|&word| u64::from(word)).sum::<u64>();
        // Three folds: to 35 bits, to 20, to 17; the last carry goes around in `add`.
        let sum = (sum >> 32) + (sum & 0xffff_ffff);
        let sum = (sum >> 16) + (sum & 0xffff);
        checksum::add((sum >> 16) as u16, sum as u16)
    }

    /// Writes the header with this checksum.
    ///
    /// # Panics
    /// When `bytes` is shorter.
    #[inline(always)]
    pub fn emit(&self, checksum: u16, bytes: &mut [u8]) {
        let bytes: &mut [u8; BYTES] = bytes.first_chunk_mut().expect("space for the header");
        for (at, &word) in self.0.iter().enumerate() {
            let word = if at == 4 { u32::from(checksum) << 16 } else { word };
            bytes[4 * at..4 * at + 4].copy_from_slice(&word.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests;
