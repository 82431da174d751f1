//! Calls of the congestion control and their arguments: `congestion` has the algorithms.
//!
//! Read RFC 5681 §3, RFC 7661 (windows that are not used) first. Three parts decide in a loss: `rack` or `sack` that there
//! is one, the algorithm where the window ends (ssthresh), `prr` how it gets there.

use super::congestion::hystart::Round;
use super::congestion::{Acked, SSTHRESH_INITIAL, initial_window};
use super::connection::Connection;
use super::tcb::{Recovery, flag};
use crate::config::CongestionControl;

/// Returns true when `under_way` is more than half of the window.
fn is_half(under_way: u32, cwnd: u32) -> bool {
    u64::from(under_way) * 2 > u64::from(cwnd)
}

impl Connection<'_, '_> {
    /// Grows the window after `acked` bytes were acknowledged outside recovery, of which `news` were not known to have
    /// arrived. `rtt_us` is the round-trip sample, 0: none.
    #[inline(always)]
    pub(crate) fn grow_window(&mut self, acked: u32, news: u32, rtt_us: u32) {
        // RFC 7661, Linux: in slow start a window that was more than half used may grow.
        let in_slow_start = self.tcb.cwnd() < self.tcb.ssthresh();
        if in_slow_start && self.may_be_half_used(acked) {
            return self.reborrow().grow_if_half_used(acked, news, rtt_us);
        }
        if self.tcb.has(flag::CWND_LIMITED) {
            self.reborrow().grow_used_window(news, rtt_us);
        }
    }

    #[inline(never)]
    fn grow_if_half_used(&mut self, acked: u32, news: u32, rtt_us: u32) {
        if self.note_most(self.tcb.flight() + acked) || self.tcb.has(flag::CWND_LIMITED) {
            self.grow_used_window(news, rtt_us);
        }
    }

    #[inline(never)]
    fn grow_used_window(&mut self, news: u32, rtt_us: u32) {
        if self.is_rate_based() {
            return;
        }
        let in_slow_start = self.tcb.cwnd() < self.tcb.ssthresh();
        let mut window = self.window();
        let rest = if self.tcb.ssthresh() == SSTHRESH_INITIAL {
            let round = Round { ack: self.tcb.snd_una(), nxt: self.tcb.snd_nxt(), acked: news, rtt_us };
            self.shared.slow_starts.of(self.index).on_ack(&mut window, &round);
            0
        } else if in_slow_start {
            window.slow_start(news)
        } else {
            news
        };
        if rest > 0 {
            let (algorithm, srtt_us, now_ms) = (self.tcb.congestion(), self.tcb.srtt_us(), self.tick());
            let cubic = (algorithm == CongestionControl::Cubic).then(|| &mut self.demand_cold().cubic);
            window.on_ack(algorithm, cubic, Acked { bytes: rest, now_ms, srtt_us });
        }
        self.set_window(window);
    }

    /// Returns true when the flight size must be recorded: it is, or lately was, half of the window.
    #[inline(always)]
    fn may_be_half_used(&self, acked: u32) -> bool {
        self.tcb.notes_most() || is_half(self.tcb.flight() + acked, self.tcb.cwnd())
    }

    /// Returns true when more than half of the window was in flight at some time in this window of data. Smaller flights are
    /// not recorded.
    fn note_most(&mut self, under_way: u32) -> bool {
        let (ack, nxt, cwnd) = (self.tcb.snd_una(), self.tcb.snd_nxt(), self.tcb.cwnd());
        let start = self.shared.slow_starts.of(self.index);
        if !self.tcb.notes_most() {
            start.forget_most_under_way();
        }
        let most = start.most_under_way(under_way, ack, nxt);
        self.tcb.set_notes_most(is_half(most, cwnd));
        is_half(most, cwnd)
    }

    /// Starts a loss episode: the algorithm sets ssthresh, unless a mark has reduced the window already.
    pub(crate) fn reduce_window(&mut self) {
        self.reduce_window_from(self.flight_to_reduce());
    }

    /// Like [`reduce_window`](Connection::reduce_window), after a timeout. A window grows only by what was used of it
    /// (RFC 7661), so all of it is proven, even when its application keeps little in flight (Linux).
    pub(crate) fn reduce_window_after_timeout(&mut self) {
        self.reduce_window_from(self.tcb.cwnd().max(self.tcb.mss() as u32));
    }

    fn reduce_window_from(&mut self, flight: u32) {
        if !self.begin_reduction() || self.is_rate_based() {
            return;
        }
        let (algorithm, mut window) = (self.tcb.congestion(), self.window());
        window.on_loss(algorithm, Some(&mut self.demand_cold().cubic), flight);
        self.set_window(window);
    }

    /// Like [`reduce_window`](Connection::reduce_window), for a congestion mark that came with the ACK of `delivered` bytes.
    pub(crate) fn reduce_window_for_mark(&mut self, delivered: u32) {
        self.begin_reduction();
        let (algorithm, mut window) = (self.tcb.congestion(), self.window());
        let flight = (self.tcb.flight() + delivered).min(window.cwnd);
        let cold = self.demand_cold();
        window.on_ecn(algorithm, &mut cold.cubic, &cold.dctcp, flight);
        self.set_window(window);
    }

    fn flight_to_reduce(&self) -> u32 {
        // RFC 5681's FlightSize is what the network holds. It excludes data SACKed or lost in a recovery that fails now, and
        // what limited transmit has added (RFC 5681 §3.2 (2)): it is at most the window. When the window was the limit, it
        // is not less either: ACKs in the same burst as the report of the loss have made space that could not be used yet.
        let window = self.tcb.cwnd().max(self.tcb.mss() as u32);
        if self.tcb.has(flag::CWND_LIMITED) { window } else { self.tcb.flight().min(window) }
    }

    /// Reduces the window without a recovery, for a loss that is repaired already.
    pub(crate) fn reduce_window_at_once(&mut self) {
        self.reduce_window();
        if !self.is_rate_based() {
            self.tcb.deflate_window();
        }
    }

    /// RFC 5681 §4.1: restarts the window from its initial size after an idle time of one RTO. RFC 2861 §3.1: the window
    /// reached before stays the goal of slow start.
    #[inline]
    pub(crate) fn restart_after_idle(&mut self) {
        if self.tcb.flight() == 0 && (self.was_idle() || self.is_rate_based()) {
            self.restart(self.idle_ms());
        }
    }

    /// Returns true when nothing was received for a while. No timeout is shorter than its minimum.
    #[inline]
    pub(crate) fn was_idle(&self) -> bool {
        self.shared.timing.is_idle(self.idle_ms())
    }

    fn idle_ms(&self) -> u32 {
        self.tick().wrapping_sub(self.tcb.last_received()).cast_signed().max(0).cast_unsigned()
    }

    #[inline(never)]
    fn restart(&mut self, idle_ms: u32) {
        if self.is_rate_based() {
            self.model_restart();
            return;
        }
        let tcb = &mut *self.tcb;
        let timeout_us = super::rtt::timeout_us(&self.shared.timing, tcb.srtt_us(), tcb.rttvar_us());
        let initial = initial_window(tcb.mss() as u32, self.shared.config.initial_window);
        let enabled = self.shared.config.restart_after_idle;
        let is_idle =
            enabled && tcb.last_received() != 0 && idle_ms as u64 * 1_000 > timeout_us && tcb.recovery() == Recovery::Open;
        if is_idle && tcb.cwnd() > initial {
            tcb.set_ssthresh(tcb.ssthresh().max((tcb.cwnd() as u64 * 3 / 4) as u32));
            tcb.set_cwnd(initial);
        }
    }
}
