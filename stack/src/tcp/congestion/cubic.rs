//! CUBIC. Read RFC 9438 §4 first. Integers only; windows in bytes, time in milliseconds.
//!
//! W(t) = C (t - K)^3 + W_max with C = 0.4 segments/s^3, beta = 0.7. The Reno-friendly window is kept beside it, and fast
//! convergence is on. Slow start is in [`Window`].

use super::Window;
use crate::tcp::handover::{Rebase, part::parts};

/// Maximum lateness of an ACK that the peer delays (RFC 9293 §3.8.6.3), milliseconds.
const ACK_DELAY_MS: u32 = 500;

/// Linux computes its target once a tick, of 4 ms in most distributions, and rounds it up to a whole segment: in the first
/// tick of an epoch its window grows by a segment per round trip. When round trips are so short that losses are a few
/// milliseconds apart that is most of the time, and a flow without this rule would get three quarters of its share.
const FIRST_TICK_MS: u32 = 4;

/// State of CUBIC between loss episodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cubic {
    /// Window before the last reduction, bytes; 0: no loss yet.
    w_max: u32,
    /// cwnd_prior: the window at the last reduction, which fast convergence does not touch, bytes.
    cwnd_prior: u32,
    /// Reno-friendly estimate, bytes.
    w_est: u32,
    /// Start of the epoch, milliseconds; meaningless unless `in_epoch`.
    epoch_start_ms: u32,
    /// Time from the epoch's start to the plateau, milliseconds.
    k_ms: u32,
    /// Time at which the window was last in use, milliseconds.
    used_ms: u32,
    in_epoch: bool,
}

impl Cubic {
    /// Returns true when dropping it loses nothing.
    pub(crate) fn is_quiet(&self) -> bool {
        self.w_max == 0 && self.cwnd_prior == 0 && !self.in_epoch
    }

    /// RFC 9438 §4.6, §4.7: the new ssthresh.
    pub(crate) fn on_loss(&mut self, window: &Window, flight: u32) -> u32 {
        let cwnd = window.cwnd;
        // Fast convergence: release bandwidth to new flows.
        self.w_max = if cwnd < self.w_max { (cwnd as u64 * 17 / 20) as u32 } else { cwnd };
        self.cwnd_prior = cwnd;
        self.in_epoch = false;
        ((flight.min(cwnd) as u64 * 7 / 10) as u32).max(2 * window.mss)
    }

    /// RFC 9438 §4.8: a timeout ends the epoch. The next begins with congestion avoidance: K is then 0, and W_max the
    /// window.
    pub(crate) fn on_timeout(&mut self) {
        self.in_epoch = false;
        self.w_max = 0;
    }

    /// RFC 9438 §4.2-4.5: growth in congestion avoidance.
    pub(crate) fn on_ack(&mut self, window: &mut Window, acked: u32, now_ms: u32, srtt_us: u32) {
        if !self.in_epoch {
            self.start_epoch(window, now_ms);
        }
        self.leave_out_idle_time(now_ms, srtt_us / 1_000);
        let elapsed_ms = now_ms.wrapping_sub(self.epoch_start_ms) as u64;
        // The target is the curve's value one round trip from now.
        let target =
            self.curve(elapsed_ms + srtt_us as u64 / 1_000, window.mss).clamp(window.cwnd as u64, window.cwnd as u64 * 3 / 2);
        let is_near = (1..FIRST_TICK_MS * 1_000).contains(&srtt_us);
        // An epoch that starts at the window of the last loss has nothing to regain.
        let begins = elapsed_ms < FIRST_TICK_MS as u64 && self.k_ms > 0;
        let target = target.max(window.cwnd as u64 + if is_near && begins { window.mss as u64 } else { 0 });
        let growth = (target - window.cwnd as u64) * acked as u64 / window.cwnd.max(1) as u64;
        // RFC 9438 §4.3: alpha = 3 (1 - beta) / (1 + beta) = 9/17 until w_est reaches cwnd_prior.
        let (num, den) = if self.w_est < self.cwnd_prior { (9, 17) } else { (1, 1) };
        let est = acked as u64 * window.mss as u64 * num / (window.cwnd.max(1) as u64 * den);
        self.w_est = self.w_est.saturating_add(est as u32);
        let cubic = window.cwnd.saturating_add(growth as u32);
        window.cwnd = cubic.max(self.w_est.min(super::CWND_MAX));
    }

    /// RFC 9438 §4.2: t excludes times when the window was not in use. While it is, ACKs come every round trip.
    fn leave_out_idle_time(&mut self, now_ms: u32, srtt_ms: u32) {
        let gap_ms = now_ms.wrapping_sub(self.used_ms);
        if gap_ms > srtt_ms + ACK_DELAY_MS {
            self.epoch_start_ms = self.epoch_start_ms.wrapping_add(gap_ms);
        }
        self.used_ms = now_ms;
    }

    fn start_epoch(&mut self, window: &Window, now_ms: u32) {
        self.in_epoch = true;
        self.epoch_start_ms = now_ms;
        self.used_ms = now_ms;
        self.w_est = window.cwnd;
        self.w_max = self.w_max.max(window.cwnd);
        // K = cbrt((W_max - cwnd_epoch) / C) seconds; in ms: cbrt(segments / 0.4 * 10^9).
        let gap = (self.w_max - window.cwnd) as u64;
        self.k_ms = cube_root(gap * 2_500_000_000 / window.mss.max(1) as u64);
    }

    /// W_cubic(t) in bytes.
    fn curve(&self, t_ms: u64, mss: u32) -> u64 {
        let offset = t_ms.abs_diff(self.k_ms as u64).min(1_000_000);
        // 0.4 segments/s^3 = 0.4e-9 segments/ms^3
        let delta = (offset as u128 * offset as u128 * offset as u128 * mss as u128 * 4 / 10_000_000_000) as u64;
        if t_ms < self.k_ms as u64 { (self.w_max as u64).saturating_sub(delta) } else { self.w_max as u64 + delta }
    }
}

/// The largest integer with a cube of at most `value`.
fn cube_root(value: u64) -> u32 {
    let (mut low, mut high) = (0u64, 2_642_245);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if middle * middle * middle <= value { low = middle } else { high = middle - 1 }
    }
    low as u32
}

impl Cubic {
    /// Moves its times to another clock.
    pub(crate) fn rebase(&mut self, by: Rebase) {
        // Without an epoch they mean nothing.
        let moved = |at| if self.in_epoch { by.tick(at) } else { 0 };
        (self.epoch_start_ms, self.used_ms) = (moved(self.epoch_start_ms), moved(self.used_ms));
    }
}

parts!(Cubic { w_max, cwnd_prior, w_est, epoch_start_ms, k_ms, used_ms, in_epoch });
