//! BBR, version 3: a model of the path (bandwidth and round trip) instead of a window that grows until a loss.
//!
//! Read draft-ietf-ccwg-bbr §5 first; names and steps are the draft's. This file has the state, the order of the steps and
//! the control parameters (§5.6); `path` the model of the path (§5.5), `phase` the state machine (§5.3), `loss` the effect
//! of losses on both. Integers only: rates in bytes per second, volumes in bytes, times in microseconds, gains in percent;
//! `INFINITY` stands for a value that was not measured or does not limit. The input is ACKs as `rate` samples, without
//! segments or timers. CE marks are ignored.

mod loss;
mod path;
mod phase;

use super::controller::{Controller, Episode, Flow, Lost};
use crate::tcp::pacing::quantum;
use crate::tcp::rate::Sample;

/// Value of a bound that does not limit.
const INFINITY: u64 = u64::MAX;
/// BBR.PacingMarginPercent
const PACING_MARGIN_PERCENT: u64 = 1;
/// BBR.MinPipeCwnd, segments.
const MIN_PIPE_CWND: u64 = 4;
/// BBR.MinRTTFilterLen and BBR.ProbeRTTInterval, microseconds.
const MIN_RTT_FILTER_US: u64 = 10_000_000;
/// BBR.Beta, percent.
const BETA: u64 = 70;

/// BBR.state
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

impl Phase {
    /// BBR.pacing_gain, percent.
    fn pacing_gain(self) -> u64 {
        match self {
            Phase::Startup => 277,
            Phase::Drain => 50,
            Phase::Down => 90,
            Phase::Up => 125,
            Phase::Cruise | Phase::Refill | Phase::ProbeRtt => 100,
        }
    }

    /// BBR.cwnd_gain, percent.
    fn cwnd_gain(self) -> u64 {
        match self {
            Phase::Up => 225,
            Phase::ProbeRtt => 50,
            _ => 200,
        }
    }

    /// IsInAProbeBWState
    fn probes_bandwidth(self) -> bool {
        matches!(self, Phase::Down | Phase::Cruise | Phase::Refill | Phase::Up)
    }

    /// IsProbingBW
    fn accelerates(self) -> bool {
        matches!(self, Phase::Startup | Phase::Refill | Phase::Up)
    }
}

/// BBR.ack_phase
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AckPhase {
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// See the module's text; the names are the draft's unless the comment says otherwise.
#[derive(Clone, Debug)]
pub(crate) struct Bbr {
    phase: Phase,
    pacing_rate: u64,
    has_round_trip: bool,
    // Rounds.
    next_round_delivered: u64,
    round_start: bool,
    round_count: u64,
    // Bandwidth.
    /// max_bw_filter: the largest of this cycle and of the last.
    max_bw_filter: [u64; 2],
    bw: u64,
    bw_latest: u64,
    bw_shortterm: u64,
    // Volume.
    inflight_latest: u64,
    inflight_shortterm: u64,
    inflight_longterm: u64,
    // Round trip.
    min_rtt_us: u64,
    min_rtt_stamp_us: u64,
    min_rtt_expired: bool,
    // Aggregation.
    extra_acked_start_us: u64,
    extra_acked_delivered: u64,
    /// extra_acked_filter: the largest of the last rounds and of those before, and the round at which the former began.
    extra_acked_filter: [u64; 2],
    extra_acked_round: u64,
    // Full pipe.
    full_bw: u64,
    full_bw_count: u8,
    full_bw_now: bool,
    full_bw_reached: bool,
    drain_start_round: u64,
    // Loss.
    loss_in_round: bool,
    loss_round_start: bool,
    loss_round_delivered: u64,
    /// Ranges lost in this round.
    loss_ranges: u32,
    // Probing for bandwidth.
    ack_phase: AckPhase,
    cycle_stamp_us: u64,
    bw_probe_wait_us: u64,
    rounds_since_probe_up: u64,
    probe_up_acked_per_inc: u64,
    bw_probe_up_acked: u64,
    bw_probe_up_rounds: u32,
    is_bw_probe_sample: bool,
    prev_probe_too_high: bool,
    prev_probe_precautionary: bool,
    // Probing for the round trip.
    /// 0: not reached yet.
    probe_rtt_done_us: u64,
    probe_rtt_round_done: bool,
    probe_rtt_cwnd: u64,
    prior_cwnd: u32,
    idle_restart: bool,
    undo: Undo,
    /// State of a small generator: flows must not probe in step.
    random: u64,
}

/// What a model has measured, for one that begins anew elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Measured {
    /// BBR.max_bw, bytes per second.
    bandwidth: u64,
    /// BBR.min_rtt, microseconds; `INFINITY`: none.
    min_rtt_us: u64,
}

/// Largest bandwidth that is believed of another model, bytes per second.
const BANDWIDTH_MAX: u64 = 1 << 40;

impl Measured {
    /// Returns true when a path can have these values.
    pub(crate) fn is_sound(&self) -> bool {
        let round_trip = self.min_rtt_us == INFINITY || (1..=u32::MAX.into()).contains(&self.min_rtt_us);
        (1..=BANDWIDTH_MAX).contains(&self.bandwidth) && round_trip
    }
}

crate::tcp::handover::part::parts!(Measured { bandwidth, min_rtt_us });

/// State restored after a spurious loss episode.
#[derive(Clone, Copy, Debug)]
struct Undo {
    phase: Option<Phase>,
    bw_shortterm: u64,
    inflight_shortterm: u64,
    inflight_longterm: u64,
}

impl Bbr {
    /// OnInit
    pub(crate) fn new(flow: &Flow, seed: u64) -> Bbr {
        let mut bbr = Bbr {
            phase: Phase::Startup,
            pacing_rate: 0,
            has_round_trip: false,
            next_round_delivered: 0,
            round_start: false,
            round_count: 0,
            max_bw_filter: [0; 2],
            bw: 0,
            bw_latest: 0,
            bw_shortterm: INFINITY,
            inflight_latest: 0,
            inflight_shortterm: INFINITY,
            inflight_longterm: INFINITY,
            min_rtt_us: if flow.srtt_us == 0 { INFINITY } else { flow.srtt_us as u64 },
            min_rtt_stamp_us: flow.now_us,
            min_rtt_expired: false,
            extra_acked_start_us: flow.now_us,
            extra_acked_delivered: 0,
            extra_acked_filter: [0; 2],
            extra_acked_round: 0,
            full_bw: 0,
            full_bw_count: 0,
            full_bw_now: false,
            full_bw_reached: false,
            drain_start_round: 0,
            loss_in_round: false,
            loss_round_start: false,
            loss_round_delivered: 0,
            loss_ranges: 0,
            ack_phase: AckPhase::Init,
            cycle_stamp_us: 0,
            bw_probe_wait_us: 0,
            rounds_since_probe_up: 0,
            probe_up_acked_per_inc: INFINITY,
            bw_probe_up_acked: 0,
            bw_probe_up_rounds: 0,
            is_bw_probe_sample: false,
            prev_probe_too_high: false,
            prev_probe_precautionary: false,
            probe_rtt_done_us: 0,
            probe_rtt_round_done: false,
            probe_rtt_cwnd: flow.initial_cwnd as u64,
            prior_cwnd: 0,
            idle_restart: false,
            undo: Undo { phase: None, bw_shortterm: 0, inflight_shortterm: 0, inflight_longterm: 0 },
            random: seed | 1,
        };
        bbr.init_pacing_rate(flow);
        bbr
    }

    /// Returns what a model elsewhere can begin with; `None`: nothing was measured.
    pub(crate) fn measured(&self) -> Option<Measured> {
        let bandwidth = self.max_bw().min(BANDWIDTH_MAX);
        (bandwidth > 0).then_some(Measured { bandwidth, min_rtt_us: self.min_rtt_us })
    }

    /// Like [`new`](Bbr::new), with what an earlier model of the same path has measured: the pipe counts as filled, so the
    /// model begins in DRAIN at that rate, and probes from there.
    pub(crate) fn again(flow: &Flow, seed: u64, measured: &Measured) -> Bbr {
        let mut bbr = Bbr::new(flow, seed);
        bbr.max_bw_filter = [measured.bandwidth; 2];
        bbr.bw = measured.bandwidth;
        bbr.min_rtt_us = measured.min_rtt_us;
        bbr.has_round_trip = true;
        bbr.full_bw_reached = true;
        bbr.phase = Phase::Drain;
        bbr.set_pacing_rate(100);
        bbr
    }

    /// BBR.state
    #[cfg(test)]
    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    /// InitPacingRate
    fn init_pacing_rate(&mut self, flow: &Flow) {
        self.has_round_trip = flow.srtt_us != 0;
        let round_trip_us = if flow.srtt_us == 0 { 1_000 } else { flow.srtt_us as u64 };
        self.pacing_rate = flow.initial_cwnd as u64 * Phase::Startup.pacing_gain() * 10_000 / round_trip_us;
    }

    /// SetPacingRateWithGain
    fn set_pacing_rate(&mut self, gain: u64) {
        let rate = self.bw.saturating_mul(gain) / 100;
        let rate = rate - rate / 100 * PACING_MARGIN_PERCENT;
        if rate > 0 && (self.full_bw_reached || rate > self.pacing_rate) {
            self.pacing_rate = rate;
        }
    }

    /// BDPMultiple, `gain` in percent.
    fn bdp_multiple(&self, flow: &Flow, gain: u64) -> u64 {
        if self.min_rtt_us == INFINITY {
            return flow.initial_cwnd as u64;
        }
        self.bdp().saturating_mul(gain) / 100
    }

    /// BBR.bdp
    fn bdp(&self) -> u64 {
        (self.bw as u128 * self.min_rtt_us.min(u32::MAX as u64) as u128 / 1_000_000) as u64
    }

    /// QuantizationBudget
    fn quantization_budget(&self, flow: &Flow, inflight_cap: u64) -> u64 {
        let mss = flow.mss as u64;
        let offload_budget = 3 * quantum(self.pacing_rate, flow.mss) as u64;
        let cap = inflight_cap.max(offload_budget).max(MIN_PIPE_CWND * mss);
        if self.phase == Phase::Up { cap + 2 * mss } else { cap }
    }

    /// Inflight, `gain` in percent.
    fn inflight(&self, flow: &Flow, gain: u64) -> u64 {
        self.quantization_budget(flow, self.bdp_multiple(flow, gain))
    }

    /// TargetInflight
    fn target_inflight(&self, flow: &Flow) -> u64 {
        self.bdp().min(flow.cwnd as u64)
    }

    /// InflightWithHeadroom: leaves 15 percent to other flows.
    fn inflight_with_headroom(&self, flow: &Flow) -> u64 {
        if self.inflight_longterm == INFINITY {
            return INFINITY;
        }
        let headroom = (self.inflight_longterm * 15 / 100).max(flow.mss as u64);
        self.inflight_longterm.saturating_sub(headroom).max(MIN_PIPE_CWND * flow.mss as u64)
    }

    /// SetCwnd
    fn set_cwnd(&mut self, flow: &mut Flow, sample: &Sample) {
        // UpdateMaxInflight
        let cap = self.bdp_multiple(flow, self.phase.cwnd_gain()).saturating_add(self.extra_acked());
        let max_inflight = self.quantization_budget(flow, cap);
        let (cwnd, minimum) = (flow.cwnd as u64, MIN_PIPE_CWND * flow.mss as u64);
        let grown = cwnd + sample.newly_acked as u64;
        let mut cwnd = if self.full_bw_reached {
            grown.min(max_inflight)
        } else if cwnd < max_inflight || flow.delivered < flow.initial_cwnd as u64 {
            grown
        } else {
            cwnd
        };
        cwnd = cwnd.max(minimum);
        // BoundCwndForProbeRTT
        if self.phase == Phase::ProbeRtt {
            cwnd = cwnd.min(self.probe_rtt_cwnd.max(minimum));
        }
        // BoundCwndForModel
        let cap = match self.phase {
            Phase::Down | Phase::Refill | Phase::Up => self.inflight_longterm,
            Phase::Cruise | Phase::ProbeRtt => self.inflight_with_headroom(flow),
            Phase::Startup | Phase::Drain => INFINITY,
        };
        flow.cwnd = cwnd.min(cap.min(self.inflight_shortterm).max(minimum)).min(super::CWND_MAX as u64) as u32;
    }

    /// SaveCwnd
    fn save_cwnd(&mut self, flow: &Flow) {
        let is_good = !flow.in_recovery && self.phase != Phase::ProbeRtt;
        self.prior_cwnd = if is_good { flow.cwnd } else { self.prior_cwnd.max(flow.cwnd) };
    }

    /// RestoreCwnd
    fn restore_cwnd(&self, flow: &mut Flow) {
        flow.cwnd = flow.cwnd.max(self.prior_cwnd);
    }

    /// A pseudo-random number below `bound`.
    fn random_below(&mut self, bound: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % bound
    }
}

impl Controller for Bbr {
    /// UpdateOnACK, after the ACK has been evaluated.
    fn on_ack(&mut self, flow: &mut Flow, sample: &Sample) {
        if !self.has_round_trip && flow.srtt_us != 0 {
            self.init_pacing_rate(flow);
        }
        // UpdateModelAndState
        self.update_latest_delivery_signals(flow, sample);
        self.update_congestion_signals(flow, sample);
        self.update_ack_aggregation(flow, sample);
        self.check_full_bw_reached(sample);
        self.check_startup_done(flow, sample);
        self.check_drain_done(flow);
        self.update_probe_bw_cycle_phase(flow, sample);
        self.update_min_rtt(flow, sample);
        if self.check_probe_rtt(flow, sample) {
            // MarkConnectionAppLimited
            flow.hold_back();
        }
        self.advance_latest_delivery_signals(sample);
        self.bound_bw_for_model();
        // UpdateControlParameters
        self.set_pacing_rate(self.phase.pacing_gain());
        self.set_cwnd(flow, sample);
    }

    /// C.pacing_rate
    fn pacing_rate(&self) -> u64 {
        self.pacing_rate
    }

    /// HandleLostPacket
    fn on_lost(&mut self, flow: &mut Flow, packet: &Lost) {
        self.handle_lost_packet(flow, packet);
    }

    /// OnEnterFastRecovery, OnEnterRTO
    fn on_episode(&mut self, flow: &mut Flow, _episode: Episode) {
        self.save_state_upon_loss(flow);
    }

    fn on_recovered(&mut self, flow: &mut Flow) {
        self.restore_cwnd(flow);
    }

    /// HandleSpuriousLossDetection
    fn on_undo(&mut self, flow: &mut Flow) {
        self.handle_spurious_loss_detection(flow);
    }

    /// HandleRestartFromIdle: the application had nothing to send, and now has.
    fn on_idle_restart(&mut self, flow: &mut Flow) {
        if !flow.app_limited {
            return;
        }
        self.idle_restart = true;
        self.extra_acked_start_us = flow.now_us;
        if self.phase.probes_bandwidth() {
            self.set_pacing_rate(100);
        } else if self.phase == Phase::ProbeRtt {
            self.check_probe_rtt_done(flow);
        }
    }
}

#[cfg(test)]
mod tests;
