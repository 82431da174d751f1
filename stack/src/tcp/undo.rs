//! Undoing a window reduction that was unnecessary.
//!
//! Read RFC 3522 and RFC 4015 (Eifel) and RFC 5682 first. When an episode of loss begins, the earlier windows are saved. An
//! episode is shown to be spurious by an ACK that echoes a timestamp older than the first retransmission (Eifel), by DSACKs
//! for every retransmitted byte (RFC 2883, as RFC 3708 uses them), or by `frto`. Then the windows are restored and all loss
//! marks are cleared.

use crate::stats::Counter;
use crate::wire::tcp::SackBlock;

use super::acknowledged::Una;
use super::congestion::cubic::Cubic;
use super::connection::Connection;
use super::frto::Frto;
use super::handover::{Rebase, part::parts};
use super::segment::Segment;
use super::tcb::{Recovery, flag};
use crate::wire::sequence::SeqNum;

/// State before an episode of loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Undo {
    cwnd: u32,
    ssthresh: u32,
    cubic: Cubic,
    /// SND.UNA when the episode began.
    una: SeqNum,
    /// SND.NXT when it ended.
    end: Option<SeqNum>,
    /// RetransmitTS: our timestamp of the first retransmission; `None`: there was none yet.
    retransmit_ts: Option<u32>,
    /// Retransmitted bytes that no DSACK has reported.
    unreported: u32,
}

impl Undo {
    /// Notes the end of the episode; reports about it come until `nxt` is acknowledged.
    pub(crate) fn until(&mut self, nxt: SeqNum) {
        self.end = Some(nxt);
    }

    /// Retransmitted bytes that no DSACK has reported.
    pub(crate) fn sent_again(&self) -> u32 {
        self.unreported
    }

    /// Returns true when no more reports about the episode can come.
    pub(crate) fn is_over(&self, ack: SeqNum) -> bool {
        self.end.is_some_and(|end| ack.after(end))
    }
}

impl Connection<'_, '_> {
    /// Saves the windows when an episode begins (when one becomes a timeout, those before its first part count).
    pub(crate) fn remember_windows(&mut self) {
        let is_first = self.tcb.recovery() == Recovery::Open;
        let (cwnd, ssthresh, una) = (self.tcb.cwnd(), self.tcb.ssthresh(), self.tcb.snd_una());
        let cold = self.demand_cold();
        if is_first {
            let cubic = cold.cubic;
            cold.undo = Some(Undo { cwnd, ssthresh, cubic, una, end: None, retransmit_ts: None, unreported: 0 });
        }
    }

    /// Records `bytes` retransmitted in an episode.
    pub(crate) fn remember_retransmission(&mut self, bytes: u32) {
        let timestamp = self.shared.secrets.timestamp(self.now);
        if let Some(undo) = self.cold().and_then(|cold| cold.undo.as_mut()) {
            undo.retransmit_ts.get_or_insert(timestamp);
            undo.unreported = undo.unreported.saturating_add(bytes);
        }
    }

    /// RFC 3522 §3.2 (5): returns true when the ACK was caused by a segment from before the first retransmission.
    fn is_echo_older_than_retransmission(&self, segment: &Segment) -> bool {
        let undo = self.shared.cold.get(self.tcb.cold()).and_then(|cold| cold.undo);
        let Some(retransmit_ts) = undo.and_then(|undo| undo.retransmit_ts) else { return false };
        let echo = segment.header.options.timestamps.filter(|_| self.tcb.has(flag::TIMESTAMPS)).map_or(0, |t| t.echo);
        echo != 0 && echo.wrapping_sub(retransmit_ts).cast_signed() < 0
    }

    /// Checks an arrival in an episode before the rest of its processing: the tests of F-RTO (RFC 5682
    /// §3, step 3b) and Eifel. The latter is for ACKs that advance SND.UNA: others echo a timestamp from before
    /// the gap.
    pub(crate) fn undo_if_spurious(&mut self, segment: &Segment, una: Una) {
        let Some(cold) = self.shared.cold.get_mut(self.tcb.cold()) else { return };
        let original = cold.rack.take_original_delivered();
        let is_frto = cold.frto != Frto::Off;
        match self.tcb.recovery() {
            Recovery::Open => {}
            Recovery::Loss if is_frto && original => self.undo(Counter::TcpSpuriousRtos),
            _ if una == Una::Unchanged || !self.is_echo_older_than_retransmission(segment) => {}
            Recovery::Loss => self.undo(Counter::TcpLossUndo),
            Recovery::Fast => self.undo(Counter::TcpFullUndo),
        }
    }

    /// Takes a report of duplicates: when it completes the retransmitted bytes, the episode was spurious.
    pub(crate) fn undo_if_all_reported(&mut self, block: SackBlock) {
        let Some(undo) = self.cold().and_then(|cold| cold.undo.as_mut()) else { return };
        if undo.unreported == 0 || block.left.before(undo.una) {
            return;
        }
        undo.unreported = undo.unreported.saturating_sub(block.right - block.left);
        if undo.unreported == 0 {
            self.undo(Counter::TcpDsackUndo);
        }
    }

    /// RFC 4015 §3.2, §3.3: restores the windows and ends the episode.
    pub(crate) fn undo(&mut self, reason: Counter) {
        let Some(undo) = self.cold().and_then(|cold| cold.undo.take()) else { return };
        self.env.counters.count(reason);
        self.tcb.set_cwnd(self.tcb.cwnd().max(undo.cwnd));
        self.tcb.set_ssthresh(self.tcb.ssthresh().max(undo.ssthresh));
        let cold = self.demand_cold();
        cold.cubic = undo.cubic;
        cold.rack.nothing_lost();
        self.model_undo();
        if self.tcb.recovery() != Recovery::Open {
            self.leave_recovery();
        }
        self.mark_data_if_any();
    }
}

impl Undo {
    /// Moves its times to another clock.
    pub(crate) fn rebase(&mut self, by: Rebase) {
        self.cubic.rebase(by);
        self.retransmit_ts = self.retransmit_ts.map(|at| by.timestamp(at));
    }

    /// Returns true when the windows to go back to are possible ones.
    pub(crate) fn is_sound(&self, cwnd_max: u32) -> bool {
        (1..=cwnd_max).contains(&self.cwnd)
    }
}

parts!(Undo { cwnd, ssthresh, cubic, una, end, retransmit_ts, unreported });
