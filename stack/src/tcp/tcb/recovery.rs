//! Congestion window and loss recovery.
//!
//! Read RFC 5681 §3 and RFC 6675 §5 first. The algorithms decide (`congestion`, `prr`, `rate_based`, `undo`); what they have
//! decided is kept here, as output reads it for every packet.

use super::{Tcb, flag};
use crate::tcp::congestion::SSTHRESH_INITIAL;
use crate::tcp::fast_path::WordCondition;
use crate::wire::sequence::SeqNum;

/// State of loss recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Recovery {
    /// Nothing is known to be lost.
    #[default]
    Open,
    /// RFC 6582 or RFC 6675: since three duplicate ACKs, until `recover` is acknowledged.
    Fast,
    /// RFC 6298 (5.4-5.6): since a timeout, until `recover` is acknowledged.
    Loss,
}

impl Recovery {
    /// Linux's number of it (tcpi_ca_state).
    pub(crate) const fn linux(self) -> u8 {
        match self {
            Recovery::Open => 0,
            Recovery::Fast => 3,
            Recovery::Loss => 4,
        }
    }
}

/// See the module's text.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Congestion {
    cwnd: u32,
    ssthresh: u32,
    mss: u16,
    dup_acks: WordCondition<u8>,
    recovery: WordCondition<Recovery>,
}

impl Congestion {
    /// RFC 9293 §3.7.1: the MSS of a peer that names none.
    pub(super) fn new() -> Congestion {
        Congestion {
            cwnd: 0,
            ssthresh: SSTHRESH_INITIAL,
            mss: 536,
            dup_acks: WordCondition::new(0),
            recovery: WordCondition::new(Recovery::Open),
        }
    }
}

impl Tcb {
    /// Congestion window, bytes.
    #[inline(always)]
    pub(crate) fn cwnd(&self) -> u32 {
        self.congestion.cwnd
    }

    /// Slow start threshold, bytes.
    #[inline(always)]
    pub(crate) fn ssthresh(&self) -> u32 {
        self.congestion.ssthresh
    }

    /// Payload bytes of a full segment: SMSS of RFC 5681, without the options of every segment.
    #[inline(always)]
    pub(crate) fn mss(&self) -> u16 {
        self.congestion.mss
    }

    /// State of loss recovery.
    #[inline(always)]
    pub(crate) fn recovery(&self) -> Recovery {
        self.congestion.recovery.get()
    }

    /// RFC 6582, RFC 6675: recovery ends when this is acknowledged.
    #[inline(always)]
    pub(crate) fn recover(&self) -> SeqNum {
        self.recover
    }

    /// Duplicate ACKs since the last new one.
    #[inline(always)]
    pub(crate) fn dup_acks(&self) -> u8 {
        self.congestion.dup_acks.get()
    }

    /// Sets the congestion window to an algorithm's decision.
    #[inline(always)]
    pub(crate) fn set_cwnd(&mut self, bytes: u32) {
        self.congestion.cwnd = bytes;
    }

    /// Sets the slow start threshold to an algorithm's decision.
    #[inline(always)]
    pub(crate) fn set_ssthresh(&mut self, bytes: u32) {
        self.congestion.ssthresh = bytes;
    }

    /// Ends a reduction: the window is ssthresh.
    pub(crate) fn deflate_window(&mut self) {
        self.congestion.cwnd = self.congestion.ssthresh;
    }

    /// RFC 5681 §3.1: the loss window is one segment.
    pub(crate) fn begin_loss_window(&mut self) {
        self.congestion.cwnd = u32::from(self.congestion.mss);
    }

    /// Sets the size of a full segment.
    pub(crate) fn set_mss(&mut self, bytes: u16) {
        self.congestion.mss = bytes;
    }

    /// Counts a duplicate ACK.
    pub(crate) fn count_duplicate_ack(&mut self) {
        let count = self.dup_acks().saturating_add(1);
        self.congestion.dup_acks.set(count, &mut self.prediction);
    }

    /// A new ACK, or a timeout, ends the count of duplicate ACKs.
    #[inline(always)]
    pub(crate) fn forget_duplicate_acks(&mut self) {
        self.congestion.dup_acks.set(0, &mut self.prediction);
    }

    /// Enters a recovery, which lasts until all that has been sent is acknowledged.
    pub(crate) fn enter_recovery(&mut self, recovery: Recovery) {
        let (before, after) = (self.recovery().linux(), recovery.linux());
        ringway_probes::tcp_set_congestion_state(|| (self.key().ends(), before, after));
        self.congestion.recovery.set(recovery, &mut self.prediction);
        self.recover = self.snd_nxt();
    }

    /// Goes on with an episode of another stack, in a block that nothing predicts yet.
    pub(crate) fn resume_recovery(&mut self, recovery: Recovery, recover: SeqNum, dup_acks: u8) {
        self.congestion.recovery.set(recovery, &mut self.prediction);
        self.congestion.dup_acks.set(dup_acks, &mut self.prediction);
        self.recover = recover;
    }

    /// Ends a recovery.
    pub(crate) fn leave_recovery(&mut self) {
        let (before, after) = (self.recovery().linux(), Recovery::Open.linux());
        ringway_probes::tcp_set_congestion_state(|| (self.key().ends(), before, after));
        self.congestion.recovery.set(Recovery::Open, &mut self.prediction);
        self.forget_duplicate_acks();
        self.clear(flag::RETRANSMIT);
    }
}
