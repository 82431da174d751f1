//! Positions in a stream of bytes, and what is remembered of the bytes.
//!
//! Sequence numbers become positions that never wrap: the SYN is at 0 when it was seen, what came before is
//! negative. Promises: at most [`KEPT_BYTES_MAX`] bytes and [`PIECES_MAX`] pieces are kept.

use std::collections::BTreeMap;

/// Bytes of one direction that are kept for comparison.
const KEPT_BYTES_MAX: usize = 4 << 20;
/// Pieces of one direction that are kept.
const PIECES_MAX: usize = 16_384;
/// Acknowledged bytes that are kept: late copies of them are still compared.
const BEHIND_BYTES: i64 = 64 << 10;

/// Maps sequence numbers to positions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Positions {
    reference: Option<(u32, i64)>,
}

impl Positions {
    /// Makes `sequence` position zero.
    pub(crate) fn start(&mut self, sequence: u32) {
        self.reference = Some((sequence, 0));
    }

    /// The position nearest to what was seen last; the first ever becomes zero.
    pub(crate) fn of(&mut self, sequence: u32) -> i64 {
        let (reference, position) = *self.reference.get_or_insert((sequence, 0));
        position + i64::from(sequence.wrapping_sub(reference) as i32)
    }

    /// Follows the stream, so that the next numbers are near.
    pub(crate) fn follow(&mut self, position: i64) {
        if let Some((sequence, at)) = self.reference
            && position > at
        {
            self.reference = Some((sequence.wrapping_add((position - at) as u32), position));
        }
    }
}

/// Bytes that were sent, from their first copy.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    /// What was captured; may be shorter than `len`.
    bytes: Vec<u8>,
    len: i64,
    /// When it was last sent, nanoseconds.
    pub(crate) last_sent: u64,
    pub(crate) copies: u32,
}

/// What one end has sent and the other may not have yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sent {
    pieces: BTreeMap<i64, Piece>,
    kept: usize,
    /// Everything before this was seen without a hole.
    contiguous: Option<i64>,
}

/// What adding a segment showed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Added {
    /// Where bytes differ from an earlier copy.
    pub(crate) differs_at: Option<i64>,
    /// Some of it was seen before; the latest time at which, nanoseconds.
    pub(crate) sent_before: Option<u64>,
}

impl Sent {
    /// The stream was watched from here on.
    pub(crate) fn begin(&mut self, start: i64) {
        self.contiguous = Some(start);
    }

    /// Adds the segment that starts at `start` and has `len` bytes, of which `bytes` were captured.
    pub(crate) fn add(&mut self, now: u64, start: i64, len: i64, bytes: &[u8]) -> Added {
        let mut added = Added::default();
        let end = start + len;
        let overlapping: Vec<i64> =
            self.pieces.range(..end).rev().take_while(|(at, piece)| **at + piece.len > start).map(|(at, _)| *at).collect();
        let mut holes = Vec::new();
        let mut at = start;
        for key in overlapping.into_iter().rev() {
            let piece = self.pieces.get_mut(&key).expect("the key was just seen");
            if key > at {
                holes.push((at, key));
            }
            added.sent_before = added.sent_before.max(Some(piece.last_sent));
            added.differs_at = added.differs_at.or_else(|| piece.difference(key, start, bytes));
            piece.last_sent = now;
            piece.copies += 1;
            at = at.max(key + piece.len);
        }
        if at < end {
            holes.push((at, end));
        }
        for (from, to) in holes {
            let captured = bytes.get((from - start) as usize..).unwrap_or_default();
            let kept = &captured[..captured.len().min((to - from) as usize)];
            self.kept += kept.len();
            self.pieces.insert(from, Piece { bytes: kept.to_vec(), len: to - from, last_sent: now, copies: 1 });
        }
        self.advance(start);
        added
    }

    fn advance(&mut self, start: i64) {
        let mut at = self.contiguous.unwrap_or(start);
        while let Some((key, piece)) = self.pieces.range(..=at).next_back()
            && key + piece.len > at
        {
            at = key + piece.len;
        }
        self.contiguous = Some(at);
    }

    /// Everything before this position was seen, as far as is known.
    pub(crate) fn contiguous(&self) -> Option<i64> {
        self.contiguous
    }

    /// The other end has everything up to here: what is far behind is forgotten. `true`: some of it was never seen.
    pub(crate) fn acknowledged(&mut self, position: i64) -> bool {
        let missed = self.contiguous.is_some_and(|contiguous| contiguous < position);
        if missed {
            self.contiguous = Some(position);
            self.advance(position);
        }
        while let Some(first) = self.pieces.first_entry() {
            let full = self.kept > KEPT_BYTES_MAX;
            if first.key() + first.get().len > position - if full { 0 } else { BEHIND_BYTES } {
                break;
            }
            self.kept -= first.remove().bytes.len();
        }
        missed
    }

    /// Keeps to the bounds whatever happens.
    pub(crate) fn trim(&mut self) {
        while self.pieces.len() > PIECES_MAX || self.kept > 4 * KEPT_BYTES_MAX {
            let Some((_, piece)) = self.pieces.pop_first() else { return };
            self.kept -= piece.bytes.len();
        }
    }
}

impl Piece {
    /// The first position at which the segment's bytes differ from these.
    fn difference(&self, at: i64, start: i64, bytes: &[u8]) -> Option<i64> {
        let from = at.max(start);
        let to = (at + self.bytes.len() as i64).min(start + bytes.len() as i64);
        if from >= to {
            return None;
        }
        let mine = &self.bytes[(from - at) as usize..(to - at) as usize];
        let theirs = &bytes[(from - start) as usize..(to - start) as usize];
        (mine != theirs).then(|| {
            let same = mine.iter().zip(theirs).take_while(|(a, b)| a == b).count();
            from + same as i64
        })
    }
}

#[cfg(test)]
mod tests;
