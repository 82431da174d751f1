//! DCTCP: the window is reduced in proportion to the marks. Read RFC 8257 §3 first; the variables are the RFC's.
//!
//! Integers only: the share of marked bytes is in 1/1024, g = 1/16. Losses and growth are Reno's. The receiver's part (ECE
//! in ACKs) is in `tcp::ecn`.

use super::Window;
use crate::tcp::handover::part::parts;
use crate::wire::sequence::SeqNum;

/// A share of 1.
const ALL: u32 = 1_024;
/// g = 1/16.
const GAIN_SHIFT: u32 = 4;

/// State of DCTCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dctcp {
    /// 1 - DCTCP.Alpha: §3.3 begins with an alpha of 1.
    unmarked: u32,
    /// DCTCP.WindowEnd; `None`: nothing was acknowledged yet.
    window_end: Option<SeqNum>,
    /// DCTCP.BytesAcked
    acked: u32,
    /// DCTCP.BytesMarked
    marked: u32,
}

impl Dctcp {
    /// §3.3 (1-8): takes `acked` acknowledged bytes, up to `ack`, `marked` of them with a mark; `nxt` is SND.NXT.
    pub(crate) fn on_ack(&mut self, ack: SeqNum, nxt: SeqNum, acked: u32, marked: u32) {
        self.acked = self.acked.saturating_add(acked);
        self.marked = self.marked.saturating_add(marked);
        let end = *self.window_end.get_or_insert(nxt);
        if !ack.after(end) {
            return;
        }
        let marked = self.marked.min(self.acked);
        let share = (marked as u64 * ALL as u64 / self.acked.max(1) as u64) as u32;
        let alpha = ALL - self.unmarked;
        // Linux: alpha falls to 0, though a sixteenth of a small value rounds to 0.
        let fall = if alpha == 0 { 0 } else { (alpha >> GAIN_SHIFT).max(1) };
        self.unmarked = ALL - (alpha - fall + (share >> GAIN_SHIFT)).min(ALL);
        self.window_end = Some(nxt);
        self.acked = 0;
        self.marked = 0;
    }

    /// Counts `bytes` as marked, for feedback that is separate from the ACK of those bytes (before or after).
    pub(crate) fn mark(&mut self, bytes: u32) {
        self.marked = self.marked.saturating_add(bytes);
    }

    /// §3.3 (9): the new ssthresh after a mark, cwnd * (1 - alpha / 2).
    pub(crate) fn on_ecn(&self, window: &Window) -> u32 {
        let alpha = ALL - self.unmarked;
        let reduction = (window.cwnd as u64 * alpha as u64 / (2 * ALL as u64)) as u32;
        (window.cwnd - reduction).max(2 * window.mss)
    }

    /// DCTCP.Alpha in 1/1024.
    #[cfg(test)]
    pub(crate) fn alpha(&self) -> u32 {
        ALL - self.unmarked
    }
}

impl Dctcp {
    /// Returns true when the share is one.
    pub(crate) fn is_sound(&self) -> bool {
        self.unmarked <= ALL
    }
}

parts!(Dctcp { unmarked, window_end, acked, marked });

#[cfg(test)]
mod tests;
