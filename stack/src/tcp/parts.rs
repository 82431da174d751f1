//! When the parts of an extent were sent that did not leave together.
//!
//! Read RFC 8985 §6.1 first: RACK knows of each segment when it was sent (Segment.xmit_ts). An extent of the send queue has
//! one such time, that of the part that left last; for the parts before, the times stand here. Extents that leave whole,
//! or in one turn, have no entry. There are at most [`PARTS_MAX`] entries: what goes beyond counts as sent with the part
//! that left last.

use super::ranges::Ranges;
use super::sequence::SeqNum;

/// Entries of a connection at most.
const PARTS_MAX: usize = 1_024;

/// See the module's text. Times are microseconds modulo 2^32.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    earlier: Ranges<u32>,
}

impl Parts {
    /// Whether nothing is known that extents do not say.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.earlier.is_empty()
    }

    /// Of the extent that begins at `first` the bytes up to `end` were sent at `sent_at` or before; what follows goes now.
    pub(crate) fn split(&mut self, first: SeqNum, end: SeqNum, sent_at: u32) {
        if self.earlier.len() < PARTS_MAX {
            let known = self.earlier.last().map_or(first, |last| last.end);
            self.earlier.add(known.latest(first), end, sent_at);
        }
    }

    /// When the byte at `sequence` was sent, of an extent whose last part left at `sent_at`; and up to where, but not beyond
    /// `end`, that holds.
    pub(crate) fn time_of(&self, sequence: SeqNum, sent_at: u32, end: SeqNum) -> (u32, SeqNum) {
        self.earlier.find(sequence).map_or((sent_at, end), |part| (part.value, part.end.earliest(end)))
    }

    /// Everything before `una` is acknowledged.
    pub(crate) fn acknowledge(&mut self, una: SeqNum) {
        self.earlier.acknowledge(una);
    }

    /// Empties it but keeps its memory.
    pub(crate) fn clear(&mut self) {
        self.earlier.clear();
    }
}
