//! What may be sent now: as much as the windows leave, and a segment that is not full only where it is right.
//!
//! Read RFC 9293 §3.8.6.2.1, §3.7.4 and RFC 5681 §3.1 first. Both ways out ask here: [`output`](super::output) and
//! [`fast_send`](super::fast_send).

use super::tcb::{Tcb, flag};

/// What may be sent beside the data in flight, bytes.
pub(crate) struct Windows {
    /// The peer's window leaves so much.
    pub(crate) offered: u32,
    /// The congestion window leaves so much.
    pub(crate) room: u32,
}

impl Tcb {
    /// RFC 9293 §3.8.6, RFC 5681 §3.1: what the windows leave for new data, with `pipe` bytes in flight as congestion control counts.
    #[inline(always)]
    pub(crate) fn windows(&self, pipe: u32, segment: u32) -> Windows {
        // One segment may always be in flight (RFC 5681 §3.1: loss window), even when the segment size has grown beyond the
        // window since that was set: otherwise the window would never open.
        let room = if pipe == 0 { self.cwnd().max(segment) } else { self.cwnd().saturating_sub(pipe) };
        Windows { offered: self.snd_wnd().saturating_sub(self.flight()), room }
    }

    /// RFC 9293 §3.7.4 (Nagle) with Minshall's change: a segment that is not full waits only while another such one is in
    /// flight.
    #[inline(always)]
    pub(crate) fn nagle_allows(&self) -> bool {
        self.has(flag::NO_DELAY) || self.flight() == 0 || self.snd_sml().at_or_before(self.snd_una())
    }

    /// Returns true when a packet with a last segment that is not full may be sent (RFC 9293 §3.8.6.2.1, §3.7.4).
    pub(crate) fn may_send(&self, len: u32, unsent: u32, segment: u32, fin: bool) -> bool {
        if len.is_multiple_of(segment) {
            return true;
        }
        if len < unsent {
            // The window ends here: send if it is at least half of the largest one seen.
            return len >= self.max_window() / 2 || self.has(flag::PROBE);
        }
        if fin {
            return true;
        }
        if self.has(flag::CORK) {
            // Linux: with a full buffer, the application has written all that it can.
            return self.send_space() == 0 || self.has(flag::PROBE);
        }
        self.nagle_allows()
    }
}
