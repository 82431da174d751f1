//! BBR's state machine: Startup, Drain, the four phases of ProbeBW, ProbeRTT. Read draft-ietf-ccwg-bbr §5.3 first.

use super::{AckPhase, Bbr, Flow, INFINITY, MIN_PIPE_CWND, Phase, Sample};

/// BBR.ProbeRTTDuration, microseconds.
const PROBE_RTT_US: u64 = 200_000;
/// Number of rounds without growth after which the pipe is full.
const FULL_BW_ROUNDS: u8 = 3;
/// Number of rounds after which Drain ends in any case.
const DRAIN_ROUNDS: u64 = 3;
/// T_reno_bound, rounds.
const RENO_ROUNDS: u64 = 63;

impl Bbr {
    /// ResetFullBW
    pub(super) fn reset_full_bw(&mut self) {
        self.full_bw = 0;
        self.full_bw_count = 0;
        self.full_bw_now = false;
    }

    /// CheckFullBWReached
    pub(super) fn check_full_bw_reached(&mut self, sample: &Sample) {
        if self.full_bw_now || !self.round_start || sample.app_limited {
            return;
        }
        if sample.delivery_rate >= self.full_bw + self.full_bw / 4 {
            self.reset_full_bw();
            self.full_bw = sample.delivery_rate;
            return;
        }
        self.full_bw_count += 1;
        self.full_bw_now = self.full_bw_count >= FULL_BW_ROUNDS;
        self.full_bw_reached |= self.full_bw_now;
    }

    /// CheckStartupDone
    pub(super) fn check_startup_done(&mut self, flow: &Flow, sample: &Sample) {
        self.check_startup_high_loss(flow, sample);
        if self.phase == Phase::Startup && self.full_bw_reached {
            // EnterDrain
            self.phase = Phase::Drain;
            self.drain_start_round = self.round_count;
        }
    }

    /// CheckDrainDone
    pub(super) fn check_drain_done(&mut self, flow: &Flow) {
        let is_late = self.round_count > self.drain_start_round + DRAIN_ROUNDS;
        if self.phase == Phase::Drain && (flow.in_flight as u64 <= self.inflight(flow, 100) || is_late) {
            self.start_down(flow);
        }
    }

    /// StartProbeBW_DOWN
    pub(super) fn start_down(&mut self, flow: &Flow) {
        self.reset_congestion_signals();
        self.probe_up_acked_per_inc = INFINITY;
        // PickProbeWait
        self.rounds_since_probe_up = self.random_below(2);
        self.bw_probe_wait_us = 2_000_000 + self.random_below(1_000_000);
        self.cycle_stamp_us = flow.now_us;
        self.ack_phase = AckPhase::ProbeStopping;
        self.start_round(flow);
        self.phase = Phase::Down;
    }

    /// StartProbeBW_REFILL
    pub(super) fn start_refill(&mut self, flow: &Flow) {
        self.reset_short_term_model();
        self.bw_probe_up_rounds = 0;
        self.bw_probe_up_acked = 0;
        self.prev_probe_precautionary = false;
        self.ack_phase = AckPhase::Refilling;
        self.start_round(flow);
        self.phase = Phase::Refill;
    }

    /// StartProbeBW_UP
    fn start_up(&mut self, flow: &Flow, sample: &Sample) {
        self.ack_phase = AckPhase::ProbeStarting;
        self.start_round(flow);
        self.reset_full_bw();
        self.full_bw = sample.delivery_rate;
        self.phase = Phase::Up;
        self.raise_inflight_longterm_slope(flow);
    }

    /// UpdateProbeBWCyclePhase
    pub(super) fn update_probe_bw_cycle_phase(&mut self, flow: &Flow, sample: &Sample) {
        if !self.full_bw_reached || self.adapt_long_term_model(flow, sample) {
            return;
        }
        match self.phase {
            Phase::Down if self.is_time_to_probe(flow) => self.start_refill(flow),
            Phase::Down if self.is_time_to_cruise(flow) => self.phase = Phase::Cruise,
            Phase::Cruise if self.is_time_to_probe(flow) => self.start_refill(flow),
            Phase::Refill if self.round_start => {
                self.is_bw_probe_sample = true;
                self.start_up(flow, sample);
            }
            Phase::Up => self.go_down_in_time(flow, sample),
            _ => {}
        }
    }

    /// IsTimeToProbeBW
    fn is_time_to_probe(&self, flow: &Flow) -> bool {
        let reno_rounds = (self.target_inflight(flow) / flow.mss.max(1) as u64).min(RENO_ROUNDS);
        flow.now_us > self.cycle_stamp_us + self.bw_probe_wait_us || self.rounds_since_probe_up >= reno_rounds
    }

    /// IsTimeToCruise
    fn is_time_to_cruise(&self, flow: &Flow) -> bool {
        let in_flight = flow.in_flight as u64;
        in_flight <= self.inflight_with_headroom(flow) && in_flight <= self.inflight(flow, 100)
    }

    fn go_down_in_time(&mut self, flow: &Flow, sample: &Sample) {
        if self.is_time_to_go_down(flow, sample) {
            self.prev_probe_too_high = false;
            self.start_down(flow);
        }
    }

    /// IsTimeToGoDown
    fn is_time_to_go_down(&mut self, flow: &Flow, sample: &Sample) -> bool {
        if self.prev_probe_too_high && flow.in_flight as u64 >= self.inflight_longterm {
            self.prev_probe_precautionary = true;
            return true;
        }
        if flow.cwnd_limited && flow.cwnd as u64 >= self.inflight_longterm {
            self.reset_full_bw();
            self.full_bw = sample.delivery_rate;
            return false;
        }
        self.full_bw_now
    }

    /// RaiseInflightLongtermSlope
    fn raise_inflight_longterm_slope(&mut self, flow: &Flow) {
        let growth_this_round = 1u64 << self.bw_probe_up_rounds;
        self.bw_probe_up_rounds = (self.bw_probe_up_rounds + 1).min(30);
        self.probe_up_acked_per_inc = (flow.cwnd as u64 / growth_this_round).max(flow.mss as u64);
    }

    /// ProbeInflightLongtermUpward
    fn probe_inflight_longterm_upward(&mut self, flow: &Flow, sample: &Sample) {
        if !flow.cwnd_limited || (flow.cwnd as u64) < self.inflight_longterm {
            return;
        }
        self.bw_probe_up_acked += sample.newly_acked as u64;
        if self.bw_probe_up_acked >= self.probe_up_acked_per_inc {
            let delta = self.bw_probe_up_acked / self.probe_up_acked_per_inc;
            self.bw_probe_up_acked -= delta * self.probe_up_acked_per_inc;
            self.inflight_longterm += delta * flow.mss as u64;
        }
        if self.round_start {
            self.raise_inflight_longterm_slope(flow);
        }
    }

    /// AdaptLongTermModel. Returns true when it has changed the phase.
    fn adapt_long_term_model(&mut self, flow: &Flow, sample: &Sample) -> bool {
        if self.ack_phase == AckPhase::ProbeStarting && self.round_start {
            self.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.ack_phase == AckPhase::ProbeStopping && self.round_start {
            self.is_bw_probe_sample = false;
            self.ack_phase = AckPhase::Init;
            let probes = self.phase.probes_bandwidth();
            if probes && !sample.app_limited {
                self.advance_max_bw_filter();
            }
            if probes && self.prev_probe_precautionary && !self.prev_probe_too_high {
                self.start_refill(flow);
                return true;
            }
        }
        let too_high = self.is_inflight_too_high(flow, sample.lost, sample.in_flight as u64);
        if !too_high && self.inflight_longterm != INFINITY {
            self.inflight_longterm = self.inflight_longterm.max(sample.in_flight as u64);
            if self.phase == Phase::Up {
                self.probe_inflight_longterm_upward(flow, sample);
            }
        }
        false
    }

    /// SaveProbeRTTCwnd
    pub(super) fn save_probe_rtt_cwnd(&mut self, flow: &Flow) {
        let target = self.bdp_multiple(flow, Phase::ProbeRtt.cwnd_gain());
        self.probe_rtt_cwnd = target.max(MIN_PIPE_CWND * flow.mss as u64);
    }

    /// CheckProbeRTT. Returns true when samples are to count as application-limited.
    pub(super) fn check_probe_rtt(&mut self, flow: &mut Flow, sample: &Sample) -> bool {
        if self.phase != Phase::ProbeRtt && self.min_rtt_expired && !self.idle_restart {
            self.save_cwnd(flow);
            self.phase = Phase::ProbeRtt;
            self.probe_rtt_done_us = 0;
            self.ack_phase = AckPhase::ProbeStopping;
            self.start_round(flow);
        }
        let mark = self.phase == Phase::ProbeRtt;
        if mark {
            self.handle_probe_rtt(flow);
        }
        if sample.delivered > 0 {
            self.idle_restart = false;
        }
        mark
    }

    /// HandleProbeRTT
    fn handle_probe_rtt(&mut self, flow: &mut Flow) {
        if self.probe_rtt_done_us == 0 {
            if flow.in_flight as u64 <= self.probe_rtt_cwnd {
                self.probe_rtt_done_us = flow.now_us + PROBE_RTT_US;
                self.probe_rtt_round_done = false;
                self.start_round(flow);
            }
            return;
        }
        self.probe_rtt_round_done |= self.round_start;
        if self.probe_rtt_round_done {
            self.check_probe_rtt_done(flow);
        }
    }

    /// CheckProbeRTTDone, with ExitProbeRTT.
    pub(super) fn check_probe_rtt_done(&mut self, flow: &mut Flow) {
        if self.probe_rtt_done_us == 0 || flow.now_us <= self.probe_rtt_done_us {
            return;
        }
        self.min_rtt_stamp_us = flow.now_us;
        self.restore_cwnd(flow);
        self.reset_short_term_model();
        if self.full_bw_reached {
            self.start_down(flow);
            self.phase = Phase::Cruise;
        } else {
            self.phase = Phase::Startup;
        }
    }
}
