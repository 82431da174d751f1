//! Effect of losses on BBR's model, and its undoing after a spurious episode. Read draft-ietf-ccwg-bbr §5.5.10, §5.5.11,
//! §5.3.1.3 first.

use super::{BETA, Bbr, Flow, INFINITY, Lost, Phase, Sample, Undo};

/// BBR.LossThresh, as the divisor of 1: 2 percent.
const LOSS_THRESH: u64 = 50;
/// BBR.StartupFullLossCnt. The draft says 6: with 250 packets a round and 1 percent of random loss, one round in 25 has as
/// many, and a flow that leaves Startup that early needs 10 s and more to reach the path's rate. An overflowing queue loses
/// more at once.
const STARTUP_FULL_LOSS_COUNT: u32 = 10;

impl Bbr {
    /// HandleLostPacket
    pub(super) fn handle_lost_packet(&mut self, flow: &Flow, packet: &Lost) {
        // NoteLoss
        if !self.loss_in_round {
            self.loss_round_delivered = flow.delivered;
            self.save_state_upon_loss(flow);
        }
        self.loss_in_round = true;
        self.loss_ranges += 1;
        if self.is_bw_probe_sample && self.is_inflight_too_high(flow, packet.lost, packet.in_flight as u64) {
            self.handle_inflight_too_high(flow, inflight_at_loss(packet), packet.app_limited);
        }
    }

    /// IsInflightTooHigh
    pub(super) fn is_inflight_too_high(&self, flow: &Flow, lost: u64, in_flight: u64) -> bool {
        lost * LOSS_THRESH > in_flight || (lost > 0 && !flow.sack)
    }

    /// HandleInflightTooHigh
    fn handle_inflight_too_high(&mut self, flow: &Flow, in_flight: u64, app_limited: bool) {
        self.prev_probe_too_high = true;
        self.is_bw_probe_sample = false;
        if !app_limited {
            self.inflight_longterm = in_flight.max(self.target_inflight(flow) * BETA / 100);
        }
        if self.phase == Phase::Up {
            self.undo.phase = Some(Phase::Up);
            self.start_down(flow);
        }
    }

    /// CheckStartupHighLoss
    pub(super) fn check_startup_high_loss(&mut self, flow: &Flow, sample: &Sample) {
        let enough = self.loss_ranges >= STARTUP_FULL_LOSS_COUNT || (!flow.sack && self.loss_ranges > 0);
        let at_end_of_round = self.loss_round_start && flow.in_recovery;
        if self.phase == Phase::Startup
            && !self.full_bw_reached
            && at_end_of_round
            && enough
            && (!flow.sack || self.is_inflight_too_high(flow, sample.lost, sample.in_flight as u64))
        {
            self.undo.phase = Some(Phase::Startup);
            self.full_bw_reached = true;
            self.inflight_longterm = self.bdp().max(self.inflight_latest);
        }
        if self.loss_round_start {
            self.loss_ranges = 0;
        }
    }

    /// UpdateLatestDeliverySignals
    pub(super) fn update_latest_delivery_signals(&mut self, flow: &Flow, sample: &Sample) {
        self.bw_latest = self.bw_latest.max(sample.delivery_rate);
        self.inflight_latest = self.inflight_latest.max(sample.delivered);
        self.loss_round_start = sample.has_data && sample.prior_delivered >= self.loss_round_delivered;
        if self.loss_round_start {
            self.loss_round_delivered = flow.delivered;
        }
    }

    /// AdvanceLatestDeliverySignals
    pub(super) fn advance_latest_delivery_signals(&mut self, sample: &Sample) {
        if self.loss_round_start {
            self.bw_latest = sample.delivery_rate;
            self.inflight_latest = sample.delivered;
        }
    }

    /// ResetCongestionSignals
    pub(super) fn reset_congestion_signals(&mut self) {
        self.loss_in_round = false;
        self.bw_latest = 0;
        self.inflight_latest = 0;
    }

    /// UpdateCongestionSignals
    pub(super) fn update_congestion_signals(&mut self, flow: &Flow, sample: &Sample) {
        self.update_max_bw(flow, sample);
        if !self.loss_round_start {
            return;
        }
        // AdaptLowerBoundsFromCongestion
        if self.loss_in_round && !self.phase.accelerates() {
            self.lower_bounds(flow);
        }
        self.loss_in_round = false;
    }

    /// InitLowerBounds, LossLowerBounds
    fn lower_bounds(&mut self, flow: &Flow) {
        if self.bw_shortterm == INFINITY {
            self.bw_shortterm = self.max_bw();
        }
        if self.inflight_shortterm == INFINITY {
            self.inflight_shortterm = flow.cwnd as u64;
        }
        self.bw_shortterm = self.bw_latest.max(self.bw_shortterm / 100 * BETA);
        self.inflight_shortterm = self.inflight_latest.max(self.inflight_shortterm * BETA / 100);
    }

    /// SaveStateUponLoss
    pub(super) fn save_state_upon_loss(&mut self, flow: &Flow) {
        self.save_cwnd(flow);
        self.undo = Undo {
            phase: None,
            bw_shortterm: self.bw_shortterm,
            inflight_shortterm: self.inflight_shortterm,
            inflight_longterm: self.inflight_longterm,
        };
    }

    /// HandleSpuriousLossDetection
    pub(super) fn handle_spurious_loss_detection(&mut self, flow: &mut Flow) {
        self.restore_cwnd(flow);
        self.loss_in_round = false;
        self.reset_full_bw();
        self.bw_shortterm = self.bw_shortterm.max(self.undo.bw_shortterm);
        self.inflight_shortterm = self.inflight_shortterm.max(self.undo.inflight_shortterm);
        self.inflight_longterm = self.inflight_longterm.max(self.undo.inflight_longterm);
        match self.undo.phase.take() {
            Some(Phase::Startup) if self.phase != Phase::Startup => {
                self.full_bw_reached = false;
                if self.phase != Phase::ProbeRtt {
                    self.phase = Phase::Startup;
                }
            }
            Some(Phase::Up) if !matches!(self.phase, Phase::Up | Phase::ProbeRtt) => self.start_refill(flow),
            _ => {}
        }
    }
}

/// InflightAtLoss: bytes in flight when losses became too many, perhaps in the middle of the packet.
fn inflight_at_loss(packet: &Lost) -> u64 {
    let len = packet.len as u64;
    let inflight_prev = (packet.in_flight as u64).saturating_sub(len);
    let lost_prev = packet.lost.saturating_sub(len);
    let lost_prefix = (inflight_prev / LOSS_THRESH).saturating_sub(lost_prev) * LOSS_THRESH / (LOSS_THRESH - 1);
    inflight_prev + lost_prefix
}
