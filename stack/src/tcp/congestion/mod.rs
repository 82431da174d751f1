//! Congestion control: the limit of bytes in flight.
//!
//! One file per algorithm. The window itself (`cwnd`, `ssthresh`) is in the control block, since output reads it for every
//! packet; further state of an algorithm is a `cubic::Cubic` in the cold object, in the first slow start a
//! `hystart::HyStart`, or a [`Controller`], such as `bbr::Bbr`. `control` (for a controller `rate_based`) calls it: bytes
//! acknowledged, start of a loss episode, timeout. Nothing here sends or knows segments.

pub(crate) mod bbr;
mod constant_rate;
pub(crate) mod controller;
pub(crate) mod cubic;
pub(crate) mod dctcp;
pub(crate) mod hystart;
pub(crate) mod newreno;
mod timely;

pub use constant_rate::ConstantRate;
pub use controller::{Controller, Episode, Flow, Lost, OwnControl, Sample};
pub use timely::{Timely, TimelyParameters};

use crate::config::CongestionControl;

/// The window that an algorithm works on; bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) cwnd: u32,
    pub(crate) ssthresh: u32,
    pub(crate) mss: u32,
}

/// "Arbitrarily high" (RFC 5681 §3.1).
pub(crate) const SSTHRESH_INITIAL: u32 = u32::MAX;
/// Largest window.
pub(crate) const CWND_MAX: u32 = 1 << 30;

/// RFC 6928 §2: `segments` (10), but not more than max(2 MSS, 14600) bytes for ten.
pub(crate) fn initial_window(mss: u32, segments: u8) -> u32 {
    (segments as u32 * mss).min((2 * mss).max(segments as u32 * 1460))
}

/// What an ACK acknowledges, when, and the smoothed round-trip time then.
#[derive(Clone, Copy)]
pub(crate) struct Acked {
    pub(crate) bytes: u32,
    pub(crate) now_ms: u32,
    pub(crate) srtt_us: u32,
}

impl Window {
    /// Returns true while the window grows exponentially.
    #[inline]
    pub(crate) fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// RFC 5681 §3.1 with RFC 3465's byte counting, L = 2 (in effect: a stretched ACK of any length counts whole, as the
    /// sender is paced by its own ACK clock). Returns the part of `acked` left over when ssthresh was reached.
    #[inline]
    pub(crate) fn slow_start(&mut self, acked: u32) -> u32 {
        let grown = self.cwnd.saturating_add(acked).min(self.ssthresh).min(CWND_MAX);
        let used = grown.saturating_sub(self.cwnd);
        self.cwnd = self.cwnd.max(grown);
        acked - used.min(acked)
    }

    /// Takes an ACK in congestion avoidance while the window was in use.
    pub(crate) fn on_ack(&mut self, algorithm: CongestionControl, cubic: Option<&mut cubic::Cubic>, acked: Acked) {
        let Acked { bytes, now_ms, srtt_us } = acked;
        match (algorithm, cubic) {
            (CongestionControl::Cubic, Some(cubic)) => cubic.on_ack(self, bytes, now_ms, srtt_us),
            _ => newreno::on_ack(self, bytes),
        }
        self.cwnd = self.cwnd.min(CWND_MAX);
    }

    /// Takes the peer's first report of marks in this window: sets ssthresh only.
    pub(crate) fn on_ecn(&mut self, algorithm: CongestionControl, cubic: &mut cubic::Cubic, dctcp: &dctcp::Dctcp, flight: u32) {
        match algorithm {
            CongestionControl::Dctcp => self.ssthresh = dctcp.on_ecn(self),
            _ => self.on_loss(algorithm, Some(cubic), flight),
        }
    }

    /// Starts a loss episode with `flight` bytes in flight: sets ssthresh only; recovery moves cwnd.
    pub(crate) fn on_loss(&mut self, algorithm: CongestionControl, cubic: Option<&mut cubic::Cubic>, flight: u32) {
        self.ssthresh = match (algorithm, cubic) {
            (CongestionControl::Cubic, Some(cubic)) => cubic.on_loss(self, flight),
            _ => newreno::on_loss(self, flight),
        };
    }
}

#[cfg(test)]
mod tests;
