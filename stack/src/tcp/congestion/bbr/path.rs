//! BBR's model of the path: rounds, bandwidth, round trip, aggregation. Read draft-ietf-ccwg-bbr §5.5 first.

use super::{Bbr, Flow, INFINITY, MIN_RTT_FILTER_US, Phase, Sample};

/// BBR.ExtraAckedFilterLen, rounds; kept as two halves.
const EXTRA_ACKED_ROUNDS: u64 = 10;

impl Bbr {
    /// BBR.max_bw
    pub(super) fn max_bw(&self) -> u64 {
        self.max_bw_filter[0].max(self.max_bw_filter[1])
    }

    /// BBR.extra_acked
    pub(super) fn extra_acked(&self) -> u64 {
        self.extra_acked_filter[0].max(self.extra_acked_filter[1])
    }

    /// UpdateMaxBw, with UpdateRound.
    pub(super) fn update_max_bw(&mut self, flow: &Flow, sample: &Sample) {
        self.round_start = sample.has_data && sample.prior_delivered >= self.next_round_delivered;
        if self.round_start {
            self.start_round(flow);
            self.round_count += 1;
            self.rounds_since_probe_up += 1;
        }
        if sample.delivery_rate > 0 && (sample.delivery_rate >= self.max_bw() || !sample.app_limited) {
            self.max_bw_filter[0] = self.max_bw_filter[0].max(sample.delivery_rate);
        }
    }

    /// StartRound
    pub(super) fn start_round(&mut self, flow: &Flow) {
        self.next_round_delivered = flow.delivered;
    }

    /// AdvanceMaxBwFilter
    pub(super) fn advance_max_bw_filter(&mut self) {
        if self.max_bw_filter[0] > 0 {
            self.max_bw_filter = [0, self.max_bw_filter[0]];
        }
    }

    /// BoundBWForModel
    pub(super) fn bound_bw_for_model(&mut self) {
        self.bw = self.max_bw().min(self.bw_shortterm);
    }

    /// UpdateACKAggregation
    pub(super) fn update_ack_aggregation(&mut self, flow: &Flow, sample: &Sample) {
        let interval_us = flow.now_us - self.extra_acked_start_us;
        let mut expected = (self.bw as u128 * interval_us as u128 / 1_000_000) as u64;
        if self.extra_acked_delivered <= expected {
            self.extra_acked_delivered = 0;
            self.extra_acked_start_us = flow.now_us;
            expected = 0;
        }
        self.extra_acked_delivered += sample.newly_acked as u64;
        let extra = (self.extra_acked_delivered - expected).min(flow.cwnd as u64);
        let half = if self.full_bw_reached { EXTRA_ACKED_ROUNDS / 2 } else { 1 };
        if self.round_count >= self.extra_acked_round + half {
            self.extra_acked_filter = [0, if self.full_bw_reached { self.extra_acked_filter[0] } else { 0 }];
            self.extra_acked_round = self.round_count;
        }
        self.extra_acked_filter[0] = self.extra_acked_filter[0].max(extra);
    }

    /// UpdateMinRTT
    pub(super) fn update_min_rtt(&mut self, flow: &Flow, sample: &Sample) {
        self.min_rtt_expired = flow.now_us > self.min_rtt_stamp_us + MIN_RTT_FILTER_US;
        if self.min_rtt_expired && self.phase != Phase::ProbeRtt {
            self.save_probe_rtt_cwnd(flow);
        }
        if sample.rtt_us != 0 && ((sample.rtt_us as u64) < self.min_rtt_us || self.min_rtt_expired) {
            self.min_rtt_us = sample.rtt_us as u64;
            self.min_rtt_stamp_us = flow.now_us;
        }
    }

    /// ResetShortTermModel
    pub(super) fn reset_short_term_model(&mut self) {
        self.bw_shortterm = INFINITY;
        self.inflight_shortterm = INFINITY;
    }
}
