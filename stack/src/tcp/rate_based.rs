//! Input and output of a rate-based congestion control: `rate` takes the samples, a [`Controller`] decides, `pacing` and
//! the window follow.
//!
//! Such a connection has no ssthresh and does not use `prr`: the controller sets the window, in recovery too. `rack` decides
//! which data is lost (without SACK: duplicate ACKs). The controller is made when the first data is sent and is part of the cold
//! object; other connections pay a comparison.

use alloc::boxed::Box;

use super::congestion::bbr::{Bbr, Measured};
use super::congestion::{CWND_MAX, Controller, Episode, Flow, Lost, initial_window};
use super::connection::Connection;
use super::output::Plan;
use super::ranges::Ranges;
use super::rate::{Rate, Transmission};
use super::tcb::{Recovery, flag};
use crate::config::CongestionControl;
use crate::wire::sequence::SeqNum;

/// See the module's text.
#[derive(Debug)]
pub(crate) struct RateBased {
    pub(crate) rate: Rate,
    model: Model,
}

#[expect(clippy::large_enum_variant, reason = "the larger one is the usual one, and lies in the box of its connection")]
#[derive(Debug)]
enum Model {
    Bbr(Bbr),
    /// One of the program's own.
    Own(Box<dyn Controller>),
}

impl RateBased {
    fn new(model: Model) -> Box<RateBased> {
        Box::new(RateBased { rate: Rate::default(), model })
    }

    fn controller(&self) -> &dyn Controller {
        match &self.model {
            Model::Bbr(bbr) => bbr,
            Model::Own(own) => &**own,
        }
    }

    fn parts(&mut self) -> (&mut Rate, &mut dyn Controller) {
        match &mut self.model {
            Model::Bbr(bbr) => (&mut self.rate, bbr),
            Model::Own(own) => (&mut self.rate, &mut **own),
        }
    }

    /// The rate at which packets leave, bytes per second.
    pub(crate) fn pacing_rate(&self) -> u64 {
        self.controller().pacing_rate()
    }
}

impl Connection<'_, '_> {
    /// Returns true when the congestion control is rate-based.
    #[inline]
    pub(crate) fn is_rate_based(&self) -> bool {
        self.tcb.congestion().is_rate_based()
    }

    /// State of the connection for the model.
    fn model_view(&self, rate: &Rate) -> Flow {
        let mss = self.tcb.mss() as u32;
        Flow {
            now_us: self.shared.moment.micros,
            mss,
            cwnd: self.tcb.cwnd(),
            initial_cwnd: initial_window(mss, self.shared.config.initial_window),
            in_flight: self.pipe(),
            srtt_us: self.tcb.srtt_us(),
            delivered: rate.delivered,
            cwnd_limited: self.tcb.has(flag::CWND_LIMITED),
            app_limited: rate.is_application_limited(),
            sack: self.tcb.has(flag::SACK),
            in_recovery: self.tcb.recovery() != Recovery::Open,
            is_held_back: false,
        }
    }

    /// Calls `act` with the samples and the controller, if there are some, and takes over the resulting window.
    fn with_rate_based(&mut self, act: impl FnOnce(&mut Rate, &mut dyn Controller, &mut Flow)) {
        if !self.is_rate_based() {
            return;
        }
        let Some(mut rate_based) = self.cold().and_then(|cold| cold.rate_based.take()) else { return };
        let mut view = self.model_view(&rate_based.rate);
        let (rate, controller) = rate_based.parts();
        act(rate, controller, &mut view);
        if view.is_held_back {
            rate.mark_application_limited(view.in_flight);
        }
        self.tcb.set_cwnd(view.cwnd.clamp(view.mss, CWND_MAX));
        self.demand_cold().rate_based = Some(rate_based);
    }

    /// Reports a sent packet.
    #[inline]
    pub(crate) fn model_sent(&mut self, plan: &Plan) {
        if self.is_rate_based() {
            self.remember_sent(plan);
        }
    }

    #[inline(never)]
    fn remember_sent(&mut self, plan: &Plan) {
        self.begin_model();
        self.with_rate_based(|rate, _, view| {
            let sent = Transmission { start: plan.sequence, len: plan.len, again: plan.again };
            rate.sent(view.now_us, view.in_flight, sent);
        });
    }

    /// Makes the controller, unless there is one.
    fn begin_model(&mut self) {
        if self.demand_cold().rate_based.is_some() {
            return;
        }
        let view = self.model_view(&Rate::default());
        let model = match self.tcb.congestion() {
            CongestionControl::Own(own) => match self.shared.own_controls.make(own, &view) {
                Some(own) => Model::Own(own),
                // The options name what this stack does not have.
                None => return self.tcb.set_congestion(CongestionControl::NewReno),
            },
            _ => Model::Bbr(Bbr::new(&view, self.shared.secrets.random())),
        };
        self.demand_cold().rate_based = Some(RateBased::new(model));
    }

    /// Another congestion control begins: it makes its own model. Data in flight is not sampled.
    pub(crate) fn forget_rate_based(&mut self) {
        if let Some(cold) = self.cold() {
            cold.rate_based = None;
        }
    }

    /// What the model has measured, for a stack that goes on with the connection.
    pub(crate) fn measured(&self) -> Option<Measured> {
        match &self.shared.cold.get(self.tcb.cold())?.rate_based.as_ref()?.model {
            Model::Bbr(bbr) => bbr.measured(),
            Model::Own(_) => None,
        }
    }

    /// Begins a model with what an earlier one has measured. Data in flight is not sampled.
    pub(crate) fn begin_measured(&mut self, measured: &Measured) {
        let bbr = Bbr::again(&self.model_view(&Rate::default()), self.shared.secrets.random(), measured);
        self.demand_cold().rate_based = Some(RateBased::new(Model::Bbr(bbr)));
    }

    /// CheckIfApplicationLimited: runs before the application queues data, and before an ACK is processed.
    #[inline]
    pub(crate) fn check_application_limited(&mut self) {
        if self.is_rate_based() && self.tcb.unsent() == 0 {
            self.reborrow().mark_application_limited();
        }
    }

    #[inline(never)]
    fn mark_application_limited(&mut self) {
        if self.pipe() >= self.tcb.cwnd() {
            return;
        }
        let Some(cold) = self.shared.cold.get_mut(self.tcb.cold()).filter(|cold| cold.rack.lost.is_empty()) else { return };
        let in_flight = self.tcb.flight().saturating_sub(cold.scoreboard.sacked());
        if let Some(rate_based) = cold.rate_based.as_mut() {
            rate_based.rate.mark_application_limited(in_flight);
        }
    }

    /// Reports that everything before `una` has arrived.
    #[inline(never)]
    pub(crate) fn model_delivered(&mut self, una: SeqNum) {
        let data_end = una.earliest(self.tcb.snd_end());
        self.check_application_limited();
        self.with_rate_based(|rate, _, view| rate.acknowledged(view.now_us, data_end));
    }

    /// Reports ranges that were SACKed for the first time.
    #[inline(never)]
    pub(crate) fn model_sacked(&mut self, news: &Ranges<()>) {
        self.with_rate_based(|rate, _, view| news.iter().for_each(|range| rate.sacked(view.now_us, range.start, range.end)));
    }

    /// Reports losses that RACK has newly marked.
    #[inline(never)]
    pub(crate) fn model_losses(&mut self) {
        if !self.is_rate_based() {
            return;
        }
        let Some(lost) = self.cold().map(|cold| core::mem::take(&mut cold.rack.lost)) else { return };
        lost.iter().for_each(|range| self.model_lost(range.start, range.end));
        self.demand_cold().rack.lost = lost;
    }

    /// Reports that `start..end` is marked lost.
    #[inline(never)]
    pub(crate) fn model_lost(&mut self, start: SeqNum, end: SeqNum) {
        self.with_rate_based(|rate, controller, view| {
            rate.lost(start, end, &mut |packet, lost| {
                let (len, in_flight, app_limited) = (packet.len, packet.in_flight, packet.app_limited);
                controller.on_lost(view, &Lost { len, in_flight, lost: lost - packet.lost, app_limited });
            });
        });
    }

    /// Takes a sample after an ACK has been processed.
    #[inline]
    pub(crate) fn model_acknowledged(&mut self) {
        if self.is_rate_based() {
            self.take_model_sample();
        }
    }

    #[inline(never)]
    fn take_model_sample(&mut self) {
        let min_rtt_us = self.tcb.min_rtt_us();
        self.with_rate_based(|rate, controller, view| {
            let sample = rate.take_sample(min_rtt_us);
            view.delivered = rate.delivered;
            controller.on_ack(view, &sample);
        });
    }

    /// Reports the start of a loss episode.
    #[inline(never)]
    pub(crate) fn model_episode(&mut self, episode: Episode) {
        self.with_rate_based(|_, controller, view| controller.on_episode(view, episode));
    }

    /// Reports the end of a loss episode.
    #[inline(never)]
    pub(crate) fn model_recovered(&mut self) {
        self.with_rate_based(|_, controller, view| controller.on_recovered(view));
    }

    /// Reports that a loss episode was spurious.
    #[inline(never)]
    pub(crate) fn model_undo(&mut self) {
        self.with_rate_based(|rate, controller, view| {
            rate.nothing_lost();
            controller.on_undo(view);
        });
    }

    /// Reports that data is about to be sent while nothing is in flight. The first time the controller is made: its rate counts from the
    /// first packet on.
    #[inline(never)]
    pub(crate) fn model_restart(&mut self) {
        if self.demand_cold().rate_based.is_none() {
            return self.begin_model();
        }
        self.with_rate_based(|_, controller, view| controller.on_idle_restart(view));
    }
}
