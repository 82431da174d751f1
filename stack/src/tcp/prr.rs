//! Proportional rate reduction: the sending rate while losses are repaired.
//!
//! Read RFC 9937 §6 (RFC 6937 §3) first; the variables are the RFC's, in bytes. The congestion control algorithm has set the
//! end of the window (ssthresh), and `rack` or `sack` the lost data. PRR moves cwnd from ACK to ACK so that it gets there by
//! the end of recovery, neither silent for half a round trip nor in bursts. Fast recovery uses it, and a reduction for a
//! congestion mark. Without SACK each duplicate ACK stands for a segment that has arrived (RFC 6582 §3.2 (4)). After a
//! timeout there is slow start; a rate-based congestion control sets the window itself.
//!
//! In RFC 6675 §5 each ACK is followed by the transmissions that it allows: new segments by limited transmit (step 3), and
//! only then recovery. Here all ACKs of a burst are processed before anything is sent. Segments that the window allowed when
//! the ACK came that began recovery are therefore still to be sent, outside PRR's count, and count as in flight before it.

use super::connection::Connection;
use super::tcb::{Recovery, flag};

/// See the module's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Prr {
    /// prr_delivered
    delivered: u32,
    /// prr_out
    out: u32,
    /// RecoverFS; 0: recovery has just begun.
    recover_fs: u32,
    /// Without SACK: bytes that duplicate ACKs have reported and no ACK has covered since.
    pub(crate) duplicates: u32,
    /// New bytes that the window allowed before recovery began, and that have not been sent since.
    withheld: u32,
}

/// RFC 9937: an ACK that has advanced SND.UNA and reports no further loss is safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SafeAck {
    Yes,
    No,
}

/// The bytes in the network, the number that they are reduced to, and a segment's.
#[derive(Clone, Copy)]
pub(crate) struct Flight {
    pub(crate) pipe: u32,
    pub(crate) ssthresh: u32,
    pub(crate) mss: u32,
}

impl Prr {
    /// State at the start of recovery with `count` duplicate ACKs.
    pub(crate) fn without_sack(count: u32, mss: u32) -> Prr {
        Prr { duplicates: count * mss, ..Prr::default() }
    }

    /// Without SACK: counts another duplicate ACK.
    pub(crate) fn duplicate(&mut self, mss: u32) {
        self.duplicates = self.duplicates.saturating_add(mss);
    }

    /// Without SACK: a partial ACK of `acked` bytes. Returns DeliveredData: the bytes that duplicate ACKs have not reported
    /// before.
    pub(crate) fn acknowledged(&mut self, acked: u32) -> u32 {
        let delivered = acked.saturating_sub(self.duplicates);
        self.duplicates = self.duplicates.saturating_sub(acked);
        delivered
    }

    /// Notes that before recovery `room` bytes more could have been in flight.
    pub(crate) fn withhold(&mut self, room: u32) {
        self.withheld = room;
        self.recover_fs = self.recover_fs.saturating_add(room);
    }

    /// Counts new bytes sent in recovery.
    #[inline]
    pub(crate) fn sent(&mut self, bytes: u32) {
        let before_recovery = bytes.min(self.withheld);
        self.withheld -= before_recovery;
        self.sent_again(bytes - before_recovery);
    }

    /// Counts bytes retransmitted in recovery.
    #[inline]
    pub(crate) fn sent_again(&mut self, bytes: u32) {
        self.out = self.out.saturating_add(bytes);
    }

    /// SndCnt after an ACK that reported `delivered` bytes.
    pub(crate) fn send_count(&mut self, delivered: u32, safe: SafeAck, flight: Flight) -> u32 {
        let Flight { pipe, ssthresh, mss } = flight;
        self.delivered = self.delivered.saturating_add(delivered);
        let count = if pipe > ssthresh {
            // Proportional rate reduction.
            let share = (self.delivered as u64 * ssthresh as u64).div_ceil(self.recover_fs.max(1) as u64);
            (share as u32).saturating_sub(self.out)
        } else {
            // The window has become small enough: slow start towards ssthresh, or packet conservation.
            let conserved = self.delivered.saturating_sub(self.out).max(delivered);
            conserved.saturating_add(if safe == SafeAck::Yes { mss } else { 0 }).min(ssthresh - pipe)
        };
        // The fast retransmission itself.
        if self.out == 0 { count.max(mss) } else { count }
    }
}

impl Connection<'_, '_> {
    /// Returns true while PRR controls cwnd.
    #[inline]
    pub(crate) fn uses_prr(&self) -> bool {
        (self.tcb.recovery() == Recovery::Fast && !self.is_rate_based()) || self.is_reducing()
    }

    /// Handles an ACK in fast recovery (or the event that began it) that has reported `delivered` bytes.
    pub(crate) fn reduce_proportionally(&mut self, delivered: u32, safe: SafeAck) {
        if !self.uses_prr() {
            return;
        }
        let (flight, pipe, ssthresh, mss) = (self.tcb.flight(), self.pipe(), self.tcb.ssthresh(), self.tcb.mss() as u32);
        if self.demand_cold().prr.recover_fs == 0 {
            // The bytes in flight before this ACK.
            let sacked = self.demand_cold().scoreboard.sacked();
            self.begin_reduction_from((flight + delivered).saturating_sub(sacked));
        }
        let cold = self.demand_cold();
        let pipe = pipe.saturating_add(cold.prr.withheld);
        let count = cold.prr.send_count(delivered, safe, Flight { pipe, ssthresh, mss });
        // With nothing in flight no ACK would open the window again.
        let count = if pipe == 0 { count.max(mss) } else { count };
        self.tcb.set_cwnd(pipe.saturating_add(count));
    }

    /// Starts the reduction with `under_way` bytes in the network; the window, not reduced yet, may have allowed more.
    pub(crate) fn begin_reduction_from(&mut self, under_way: u32) {
        let tcb = &*self.tcb;
        let (offered, mss) = (tcb.snd_wnd().saturating_sub(tcb.flight()), tcb.mss() as u32);
        // Data that did not wait for the window waits for something else.
        let waiting = if tcb.has(flag::CWND_LIMITED) { tcb.unsent().min(offered) } else { 0 };
        let room = tcb.cwnd().saturating_sub(under_way).min(waiting);
        let prr = &mut self.demand_cold().prr;
        prr.recover_fs = under_way.max(mss);
        prr.withhold(room - room % mss);
    }
}

super::handover::part::parts!(Prr { delivered, out, recover_fs, duplicates, withheld });

#[cfg(test)]
mod tests;
