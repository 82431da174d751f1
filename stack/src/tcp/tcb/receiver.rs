//! The receive sequence space: what comes next, and what the peer may send.
//!
//! Read RFC 9293 §3.3.1 and §3.8.6 first. The right edge of the advertised window never moves left.
//!
//! ```text
//!   last_ack_sent     RCV.NXT          rcv_adv
//! --------|--------------|----------------|------->
//!         | not yet      | advertised     |
//!         | acknowledged | window         |
//! ```

use super::Tcb;
use crate::wire::sequence::SeqNum;

/// See the module's text.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Receiver {
    /// RCV.NXT
    nxt: SeqNum,
    /// Right edge of the advertised window.
    adv: SeqNum,
    /// RFC 7323: Last.ACK.sent
    last_ack_sent: SeqNum,
    /// RFC 7323: TS.Recent
    ts_recent: u32,
}

impl Tcb {
    /// RCV.NXT
    #[inline(always)]
    pub(crate) fn rcv_nxt(&self) -> SeqNum {
        self.receiver.nxt
    }

    /// Right edge of the advertised window.
    #[inline(always)]
    pub(crate) fn rcv_adv(&self) -> SeqNum {
        self.receiver.adv
    }

    /// RFC 7323: Last.ACK.sent
    #[inline(always)]
    pub(crate) fn last_ack_sent(&self) -> SeqNum {
        self.receiver.last_ack_sent
    }

    /// RFC 7323: TS.Recent
    #[inline(always)]
    pub(crate) fn ts_recent(&self) -> u32 {
        self.receiver.ts_recent
    }

    /// Bytes that the peer may still send: the window as advertised.
    #[inline]
    pub(crate) fn receive_window(&self) -> u32 {
        let receiver = &self.receiver;
        if receiver.nxt.before(receiver.adv) { receiver.adv - receiver.nxt } else { 0 }
    }

    /// Received bytes that no ACK has covered yet.
    #[inline(always)]
    pub(crate) fn unacknowledged(&self) -> u32 {
        self.receiver.nxt - self.receiver.last_ack_sent
    }

    /// Takes the peer's SYN: RCV.NXT = IRS + 1. `window` was advertised, or is about to be.
    pub(crate) fn begin_receiving(&mut self, irs: SeqNum, window: u32) {
        let nxt = irs + 1;
        self.receiver = Receiver { nxt, adv: nxt + window, last_ack_sent: nxt, ..self.receiver };
    }

    /// Goes on with a sequence space of another stack, in a block that nothing predicts yet.
    pub(crate) fn resume_receiving(&mut self, nxt: SeqNum, adv: SeqNum, last_ack_sent: SeqNum) {
        self.prediction.close();
        self.receiver = Receiver { nxt, adv, last_ack_sent, ..self.receiver };
    }

    /// Moves RCV.NXT over `len` bytes that came in order, or over a FIN.
    #[inline(always)]
    pub(crate) fn receive_next(&mut self, len: u32) {
        self.receiver.nxt += len;
    }

    /// Notes that a segment lets the peer send up to `edge`.
    #[inline(always)]
    pub(crate) fn advertise(&mut self, edge: SeqNum) {
        self.receiver.adv = self.receiver.adv.latest(edge);
    }

    /// Notes that a segment with SEG.ACK = RCV.NXT goes out.
    #[inline(always)]
    pub(crate) fn acknowledge_received(&mut self) {
        self.receiver.last_ack_sent = self.receiver.nxt;
    }

    /// Sets TS.Recent; `timestamps` decides which time that is.
    #[inline(always)]
    pub(crate) fn set_ts_recent(&mut self, value: u32) {
        self.receiver.ts_recent = value;
    }
}
