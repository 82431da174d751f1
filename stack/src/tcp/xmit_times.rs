//! Xmit times of extents with parts that were not sent together.
//!
//! Read RFC 8985 §6.1 first: RACK needs the xmit time of each segment (Segment.xmit_ts). An extent of the send queue has one
//! such time, that of its part sent last; the times of earlier parts are here. Extents sent whole, or in one pass, have no
//! entry. There are at most [`XMIT_TIMES_MAX`] entries: parts beyond count as sent with the last part.

use super::handover::{Rebase, part::parts};
use super::ranges::Ranges;
use crate::wire::sequence::SeqNum;

/// Maximum entries of a connection.
const XMIT_TIMES_MAX: usize = 1_024;

/// See the module's text. Times are microseconds modulo 2^32.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct XmitTimes {
    earlier: Ranges<u32>,
}

impl XmitTimes {
    /// Returns true when there is no entry.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.earlier.is_empty()
    }

    /// Records that in the extent at `first` the bytes up to `end` were sent at `sent_at` or before; the rest is sent now.
    pub(crate) fn split(&mut self, first: SeqNum, end: SeqNum, sent_at: u32) {
        if self.earlier.len() < XMIT_TIMES_MAX {
            let known = self.earlier.last().map_or(first, |last| last.end);
            self.earlier.add(known.latest(first), end, sent_at);
        }
    }

    /// Xmit time of the byte at `sequence`, in an extent with its last part sent at `sent_at`; and the end, at most `end`,
    /// of the range that it holds for.
    pub(crate) fn time_of(&self, sequence: SeqNum, sent_at: u32, end: SeqNum) -> (u32, SeqNum) {
        self.earlier.find(sequence).map_or((sent_at, end), |part| (part.value, part.end.earliest(end)))
    }

    /// Drops what lies before `una`.
    pub(crate) fn acknowledge(&mut self, una: SeqNum) {
        self.earlier.acknowledge(una);
    }

    /// Empties it but keeps its memory.
    pub(crate) fn clear(&mut self) {
        self.earlier.clear();
    }
}

impl XmitTimes {
    /// Moves the times to another clock.
    pub(crate) fn rebase(&mut self, by: Rebase) {
        self.earlier.change_values(|at| by.us(at));
    }

    /// Returns true when the parts are in `una..nxt`.
    pub(crate) fn is_sound(&self, una: SeqNum, nxt: SeqNum) -> bool {
        self.earlier.is_sound(una, nxt, XMIT_TIMES_MAX)
    }
}

parts!(XmitTimes { earlier });
