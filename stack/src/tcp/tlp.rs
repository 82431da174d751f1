//! Tail loss probe: detects losses at the end of a flight without a retransmission timeout.
//!
//! Read RFC 8985 §7 first. When no ACK has come for about two round trips the next segment (or, if there is none, the last
//! one again) is sent; its ACK shows RACK what is missing. The probe shares the retransmission timer: `rto_deadline` is the
//! probe's when the timer's kind is `Probe`. At most one probe is in flight, and none in recovery.

use crate::stats::Counter;

use super::connection::Connection;
use super::output::Plan;
use super::rtt;
use super::segment::Segment;
use super::tcb::{Recovery, Tcb, TimerKind, flag};
use crate::wire::sequence::SeqNum;
use crate::wire::tcp::SackBlock;

/// Added to two round trips, microseconds: lateness of timers and of receivers that wait for a processor. Linux adds two
/// ticks, of 4 ms in most distributions. With 2 ms, a receiver that shares two cores got up to ten times as many probes, all
/// unnecessary, as from a kernel.
const TIMER_SLACK_US: u64 = 8_000;
/// RFC 8985 §7.2: TLP.max_ack_delay, microseconds.
const MAX_ACK_DELAY_US: u64 = 200_000;
/// RFC 8985 §7.2: timeout without a round-trip sample.
const PTO_INITIAL_US: u64 = 1_000_000;

/// See the module's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Probe {
    /// A probe is to be sent.
    pub(crate) due: bool,
    /// TLP.end_seq: a probe is in flight.
    end: Option<SeqNum>,
    /// TLP.is_retrans
    is_retransmission: bool,
}

impl Probe {
    /// Returns true when no probe is due or in flight.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        !self.due && self.end.is_none()
    }
}

/// §7.2: two round trips, and the delay that the peer may add when there is only one segment to acknowledge.
#[inline]
pub(crate) fn probe_delay_us(tcb: &Tcb) -> u64 {
    let delay = if tcb.flight() <= tcb.mss() as u32 { MAX_ACK_DELAY_US } else { TIMER_SLACK_US };
    2 * tcb.srtt_us() as u64 + delay
}

impl Connection<'_, '_> {
    /// §7.2: returns true when a probe may be scheduled.
    fn may_probe(&self) -> bool {
        let tcb = &*self.tcb;
        self.uses_rack()
            && self.shared.config.tail_loss_probe
            && tcb.recovery() == Recovery::Open
            && tcb.backoff() == 0
            && tcb.state().sends_data()
            && self.shared.cold.get(tcb.cold()).is_none_or(|cold| cold.scoreboard.is_empty() && cold.probe.is_quiet())
    }

    /// §7.2 (TLP_calc_PTO): time to wait for an ACK before a probe, microseconds; `None`: the retransmission timeout comes
    /// first.
    pub(crate) fn probe_timeout_us(&self) -> Option<u64> {
        if !self.may_probe() {
            return None;
        }
        let tcb = &*self.tcb;
        if tcb.srtt_us() == 0 {
            return Some(PTO_INITIAL_US);
        }
        Some(probe_delay_us(tcb))
    }

    /// §7.3: handles the expiry of the probe timer.
    pub(crate) fn on_probe_timer(&mut self) {
        if self.may_probe() {
            self.demand_cold().probe.due = true;
            self.tcb.set(flag::RETRANSMIT);
            self.mark_data();
        }
        // In case the probe is not sent, or not answered.
        self.restart_rto();
    }

    /// §7.3 (TLP_send_probe): plans a new segment if there is one and the peer's window takes it, otherwise the last one
    /// again. The congestion window does not limit it.
    pub(crate) fn plan_probe(&self, segment: u32) -> Plan {
        let tcb = &*self.tcb;
        let len = tcb.unsent().min(segment);
        if len > 0 && tcb.flight().saturating_add(len) <= tcb.snd_wnd() {
            let fin = tcb.has(flag::FIN_QUEUED) && len == tcb.unsent();
            return Plan { sequence: tcb.snd_nxt(), len, fin, again: false, probe: true, segment };
        }
        let data_end = tcb.snd_end().earliest(tcb.snd_nxt());
        let start = if tcb.snd_una().before(data_end) { (data_end - segment).latest(tcb.snd_una()) } else { data_end };
        Plan { probe: true, ..self.plan_range(start, tcb.snd_nxt(), segment) }
    }

    /// Notes that the probe was written.
    pub(crate) fn probe_sent(&mut self, plan: &Plan) {
        self.env.counters.count(Counter::TcpLossProbes);
        ringway_probes::tcp_tail_loss_probe(|| (self.tcb.key().ends(), plan.sequence.0));
        let nxt = self.tcb.snd_nxt();
        self.demand_cold().probe = Probe { due: false, end: Some(nxt), is_retransmission: plan.again };
        self.predict();
        self.restart_rto();
    }

    /// §7.4.2 (TLP_process_ack). `dsack`: the range that the peer has received twice.
    pub(crate) fn probe_acknowledged(&mut self, segment: &Segment, advanced: bool, dsack: Option<SackBlock>) {
        let ack = segment.acknowledgment();
        let Some(cold) = self.shared.cold.get_mut(self.tcb.cold()) else { return };
        let Some(end) = cold.probe.end.filter(|&end| ack.at_or_after(end)) else { return };
        let is_plain = segment.header.options.sack().is_empty() && segment.len == 0;
        if !cold.probe.is_retransmission || dsack.is_some_and(|block| block.right == end) {
            // It was new data, or the first transmission and the probe have both arrived.
            cold.probe.end = None;
        } else if ack.after(end) {
            // The probe has repaired a loss: the congestion control must react.
            cold.probe.end = None;
            self.env.counters.count(Counter::TcpLossProbeRecovery);
            if self.tcb.recovery() == Recovery::Open {
                self.reduce_window_at_once();
            }
        } else if !advanced && is_plain {
            // A duplicate ACK for the probe: both have arrived, and the peer has no DSACK.
            cold.probe.end = None;
        }
        if self.shared.cold.get(self.tcb.cold()).is_some_and(|cold| cold.probe.is_quiet()) {
            self.predict();
        }
    }

    /// §7.2: new data was sent when `before` bytes were in flight, so the probe's time counts from now. Nothing changes when
    /// an ACK has started it in this tick, unless it then waited for the ACK of one segment and now there are more.
    #[inline]
    pub(crate) fn postpone_probe(&mut self, before: u32) {
        let mss = self.tcb.mss() as u32;
        let is_fresh = self.tcb.last_received() == self.tick() && (before > mss || self.tcb.flight() <= mss);
        if self.tcb.timer_kind() == TimerKind::Probe && self.tcb.rto_deadline() != 0 && !is_fresh && !self.tcb.has(flag::PERSIST)
        {
            self.reborrow().restart_rto();
        }
    }

    /// The earlier of probe and retransmission timeout, and which of the two it is.
    #[inline(always)]
    pub(crate) fn loss_timeout_us(&mut self) -> (u64, TimerKind) {
        let tcb = &*self.tcb;
        // A connection with the mark is established, not in recovery, and has no cold object: it may probe.
        if !tcb.prediction.is_marked() || tcb.backoff() != 0 || tcb.srtt_us() == 0 {
            return self.reborrow().unusual_loss_timeout_us();
        }
        let rto_us = rtt::timeout_us(&self.shared.timing, tcb.srtt_us(), tcb.rttvar_us());
        let timeout = match self.shared.timing.probes && tcb.has(flag::SACK) {
            true => (probe_delay_us(tcb).min(rto_us), TimerKind::Probe),
            false => (rto_us, TimerKind::Retransmission),
        };
        debug_assert_eq!(timeout, self.unusual_loss_timeout_us());
        timeout
    }

    #[inline(never)]
    fn unusual_loss_timeout_us(&self) -> (u64, TimerKind) {
        let backoffs = self.tcb.backoff().saturating_sub(self.linear_timeouts());
        let rto_us = rtt::backed_off_us(&self.shared.timing, self.tcb.srtt_us(), self.tcb.rttvar_us(), backoffs);
        match self.probe_timeout_us() {
            Some(pto_us) => (pto_us.min(rto_us), TimerKind::Probe),
            None => (rto_us, TimerKind::Retransmission),
        }
    }
}

super::handover::part::parts!(Probe { due, end, is_retransmission });
