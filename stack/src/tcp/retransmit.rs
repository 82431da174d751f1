//! The retransmission timer, the persist timer, and the actions on their expiry.
//!
//! Read RFC 6298 §5, RFC 9293 §3.8.1 (zero windows, §3.8.6.1) first. After a timeout all data that is not SACKed counts as
//! lost and is retransmitted in slow start; `sack` decides the order.

use crate::event::SocketError;
use crate::stats::Counter;

use super::congestion::Episode;
use super::connection::Connection;
use super::output::Plan;
use super::rtt;
use super::state::State;
use super::tcb::{Recovery, TimerKind, flag};
use super::tlp::Probe;
use crate::wire::sequence::SeqNum;

/// Linux tcp_orphan_retries: tries for a connection that no application holds.
const ORPHAN_RETRIES: u8 = 8;
/// Number of timeouts in a row after which the link may be to blame (RFC 9293 §3.8.3, R1).
pub(crate) const SUSPECT_AFTER: u8 = 3;

impl Connection<'_, '_> {
    /// RFC 6298 (5.2, 5.3): restarts the timer, which runs while anything is unacknowledged.
    #[inline(always)]
    pub(crate) fn restart_rto(&mut self) {
        self.tcb.clear(flag::PERSIST);
        if self.tcb.flight() == 0 {
            self.tcb.stop_rto();
        } else {
            self.start_rto();
        }
    }

    /// RFC 6298 (5.1): starts the timer for data in flight.
    #[inline(always)]
    pub(crate) fn start_rto(&mut self) {
        let (timeout, kind) = self.loss_timeout_us();
        let deadline = self.deadline(timeout);
        self.tcb.start_rto(deadline, kind);
        self.arm_by(deadline);
    }

    /// Starts the persist timer when data waits and nothing is in flight: the window is closed (or too small).
    pub(crate) fn persist_if_blocked(&mut self) {
        let tcb = &*self.tcb;
        let blocked = tcb.flight() == 0 && tcb.unsent() > 0 && tcb.snd_wnd() < tcb.unsent().min(tcb.mss() as u32);
        // Linux: the same timer ends a cork, after 200 ms at least.
        let corked = tcb.has(flag::CORK) && tcb.flight() == 0 && tcb.unsent() > 0;
        if (blocked || corked) && tcb.rto_deadline() == 0 {
            self.restart_persist();
        }
    }

    fn restart_persist(&mut self) {
        let timeout = rtt::backed_off_us(&self.shared.timing, self.tcb.srtt_us(), self.tcb.rttvar_us(), self.tcb.backoff());
        self.tcb.start_persist(self.deadline(timeout));
        self.arm();
    }

    /// Ends persisting when the window has opened.
    #[inline(never)]
    pub(crate) fn leave_persist(&mut self) {
        if self.tcb.snd_wnd() > 0 {
            self.tcb.clear(flag::PERSIST);
            self.tcb.end_backoff();
            self.tcb.stop_rto();
        }
    }

    /// Handles the expiry of the timer that all kinds of retransmission share.
    pub(crate) fn on_rto(&mut self) {
        self.tcb.stop_rto();
        if self.tcb.has(flag::PERSIST) {
            self.on_persist();
            return;
        }
        if self.tcb.flight() == 0 {
            return;
        }
        match self.tcb.timer_kind() {
            TimerKind::Retransmission => self.on_retransmission_timeout(),
            TimerKind::Probe => self.on_probe_timer(),
            TimerKind::Reordering => self.on_reordering_timer(),
        }
    }

    fn on_retransmission_timeout(&mut self) {
        self.env.counters.count(Counter::TcpTimeouts);
        self.note_timeout();
        self.tcb.back_off();
        ringway_probes::tcp_timeout(|| (self.tcb.key().ends(), self.tcb.backoff()));
        self.on_timeouts();
        let given_up = self.is_given_up(self.retries_max());
        if self.tcb.state() == State::SynSent {
            self.fast_open_timed_out(given_up);
        }
        if given_up {
            self.give_up();
            return;
        }
        if self.tcb.backoff() >= SUSPECT_AFTER {
            let (local, remote) = self.tcb.template.addresses();
            self.env.ip.suspect(self.now, local, remote);
        }
        if matches!(self.tcb.state(), State::SynSent | State::SynReceived) {
            self.ack_now();
        } else {
            self.enter_loss();
            self.depart_at_once();
            self.mtu_timed_out();
            self.mark_data();
        }
        self.restart_rto();
    }

    fn retries_max(&self) -> u8 {
        match self.tcb.state() {
            State::SynSent => match self.shared.cold.get(self.tcb.cold()).map_or(0, |cold| cold.timeouts.syn_retries) {
                0 => self.shared.config.syn_retries,
                retries => retries,
            },
            // Linux: one more for a connection that has data already.
            State::SynReceived => self.shared.config.synack_retries.saturating_add(self.tcb.is_early() as u8),
            _ if self.tcb.has(flag::ORPHAN) => ORPHAN_RETRIES.min(self.shared.config.retries),
            _ => self.shared.config.retries,
        }
    }

    /// Returns true when there were more than `retries` timeouts, or the user timeout (RFC 5482) has passed.
    fn is_given_up(&self, retries: u8) -> bool {
        let user_timeout_ms = self.shared.cold.get(self.tcb.cold()).map_or(0, |cold| cold.timeouts.user_timeout_ms);
        if user_timeout_ms != 0 {
            return self.waited_us(self.tcb.backoff(), self.linear_timeouts()) >= u64::from(user_timeout_ms) * 1_000;
        }
        match self.linear_timeouts() {
            0 => self.tcb.backoff() > retries,
            // Linux, retransmits_timed_out: SYNs at equal intervals do not last longer in total than others would.
            linear => self.waited_us(self.tcb.backoff(), linear) >= self.waited_us(retries.saturating_add(1), 0),
        }
    }

    /// Duration of this many timeouts, of which the first `linear` repeat the first; microseconds.
    fn waited_us(&self, timeouts: u8, linear: u8) -> u64 {
        let tcb = &*self.tcb;
        let timeout = |n: u8| rtt::backed_off_us(&self.shared.timing, tcb.srtt_us(), tcb.rttvar_us(), n.saturating_sub(linear));
        (0..timeouts).map(timeout).sum()
    }

    /// Number of timeouts after which the next is still as long as the first.
    pub(crate) fn linear_timeouts(&self) -> u8 {
        if self.tcb.state() == State::SynSent { self.shared.config.syn_linear_timeouts } else { 0 }
    }

    pub(crate) fn give_up(&mut self) {
        self.env.counters.count(Counter::TcpAbortOnTimeout);
        self.fail(SocketError::TimedOut);
    }

    /// RFC 1191 §6.5: retransmits data in flight at once that was too large for the path. That indicates no congestion.
    pub(crate) fn resend_all(&mut self) {
        self.tcb.set(flag::RETRANSMIT);
        self.mark_data();
        let una = self.tcb.snd_una();
        if let Some(cold) = self.cold() {
            // Retransmissions of a recovery were too large as well.
            cold.scoreboard.high_rxt = una;
        }
        if !self.uses_rack() || self.tcb.recovery() != Recovery::Open {
            return;
        }
        let (una, nxt) = (self.tcb.snd_una(), self.tcb.snd_nxt());
        let cold = self.demand_cold();
        let rack = &mut cold.rack;
        cold.scoreboard.for_each_outside(una, nxt, &mut |start, end| rack.lost.add(start, end, ()));
        rack.judged = Some(nxt);
        self.tcb.enter_recovery(Recovery::Loss);
        self.tcb.set_ssthresh(self.tcb.cwnd());
        self.predict();
    }

    /// RFC 5681 §3.1 (4), RFC 6298 (5.4-5.6), RFC 6675 §5.1.
    fn enter_loss(&mut self) {
        self.begin_frto(self.tcb.recovery() == Recovery::Open);
        self.remember_windows();
        self.model_episode(Episode::Timeout);
        if self.tcb.recovery() != Recovery::Loss {
            self.reduce_window_after_timeout();
        }
        if self.tcb.backoff() > 1 {
            // The peer may have dropped SACKed data (RFC 2018 §8).
            if let Some(cold) = self.cold() {
                cold.scoreboard.clear();
            }
        }
        self.tcb.enter_recovery(Recovery::Loss);
        self.tcb.begin_loss_window();
        self.tcb.forget_duplicate_acks();
        self.tcb.clear(flag::RETRANSMIT);
        let una = self.tcb.snd_una();
        let cold = self.demand_cold();
        cold.scoreboard.high_rxt = una;
        cold.cubic.on_timeout();
        cold.probe = Probe::default();
        if self.uses_rack() {
            self.rack_timed_out();
            self.tcb.set_cwnd(self.tcb.cwnd() + self.pipe());
            self.model_losses();
        } else {
            self.model_lost(una, self.tcb.recover());
        }
        self.predict();
    }

    /// Records a retransmission up to `end`.
    pub(crate) fn retransmitted(&mut self, plan: &Plan, end: SeqNum) {
        let state = self.tcb.recovery().linux();
        ringway_probes::tcp_retransmit(|| (self.tcb.key().ends(), plan.sequence.0, plan.len, state));
        let segments = plan.len.div_ceil(self.tcb.mss() as u32).max(1);
        self.env.counters.add(Counter::TcpRetransSegs, segments as u64);
        if self.tcb.recovery() == Recovery::Loss {
            self.env.counters.add(Counter::TcpSlowStartRetrans, segments as u64);
        }
        let rare = self.rare();
        rare.retransmitted_segments = rare.retransmitted_segments.saturating_add(segments);
        rare.retransmitted_bytes += plan.len as u64;
        if self.tcb.recovery() != Recovery::Open {
            self.remember_retransmission(plan.len);
        }
        let (uses_rack, now_us) = (self.uses_rack(), self.now_us());
        let cold = self.demand_cold();
        cold.scoreboard.high_rxt = cold.scoreboard.high_rxt.latest(end);
        if uses_rack {
            cold.rack.lost.remove(plan.sequence, end);
            cold.rack.again.add(plan.sequence, end, now_us);
        }
    }

    /// RFC 9293 §3.8.6.1: probes the window; as long as the peer answers, for ever.
    fn on_persist(&mut self) {
        if self.tcb.snd_wnd() >= self.tcb.unsent().min(self.tcb.mss() as u32) {
            // A cork held the data.
            self.tcb.clear(flag::PERSIST);
            self.tcb.set(flag::PROBE);
            self.mark_data();
            return;
        }
        self.tcb.back_off();
        // RFC 5482, Linux: a peer that keeps its window shut gets no more time than a silent one.
        let retries = if self.tcb.has(flag::ORPHAN) { ORPHAN_RETRIES } else { u8::MAX };
        // Linux, tcp_probe_timer: a peer that answers none gets as many probes as retransmissions.
        if self.is_given_up(retries) || self.tcb.probes() >= self.shared.config.retries {
            self.give_up();
            return;
        }
        self.env.counters.count(Counter::TcpWinProbe);
        self.tcb.set(flag::PROBE);
        if self.tcb.snd_wnd() > 0 {
            // RFC 9293 §3.8.6.2.1, the override: a small window is used after all.
            self.mark_data();
        } else {
            self.count_probes(self.tcb.probes() + 1);
            self.mark_control();
        }
        self.restart_persist();
    }
}
