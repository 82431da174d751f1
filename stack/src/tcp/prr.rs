//! Proportional rate reduction: how fast to send while losses are repaired.
//!
//! Read RFC 9937 §6 (RFC 6937 §3) first; the variables are the RFC's, in bytes. The congestion control
//! algorithm has said where the window ends (ssthresh) and `rack` or `sack` what is lost; PRR moves cwnd
//! from ACK to ACK so that it gets there by the end of recovery, neither silent for half a round trip nor
//! in bursts. Fast recovery uses it, and a reduction for a congestion mark. Without SACK each duplicate ACK
//! stands for a segment that has arrived (RFC 6582 §3.2 (4)). After a timeout there is slow start, and a
//! congestion control with a model says the window itself.

use super::connection::Connection;
use super::tcb::Recovery;

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
}

impl Prr {
    /// Recovery begins with `count` duplicate ACKs, of which the last is yet to be taken; `flight` bytes are unacknowledged.
    pub(crate) fn without_sack(flight: u32, count: u32, mss: u32) -> Prr {
        let recover_fs = flight.saturating_sub(count.saturating_sub(1) * mss).max(mss);
        Prr { recover_fs, duplicates: count * mss, ..Prr::default() }
    }

    /// Without SACK: another duplicate ACK.
    pub(crate) fn duplicate(&mut self, mss: u32) {
        self.duplicates = self.duplicates.saturating_add(mss);
    }

    /// Without SACK: a partial ACK of `acked` bytes. Returns DeliveredData: what duplicate ACKs have not reported before.
    pub(crate) fn acknowledged(&mut self, acked: u32) -> u32 {
        let delivered = acked.saturating_sub(self.duplicates);
        self.duplicates = self.duplicates.saturating_sub(acked);
        delivered
    }

    /// Bytes were sent in recovery, new or again.
    #[inline]
    pub(crate) fn sent(&mut self, bytes: u32) {
        self.out = self.out.saturating_add(bytes);
    }

    /// SndCnt after an ACK that reported `delivered` bytes. `safe`: it has moved SND.UNA and told of no
    /// further loss.
    pub(crate) fn send_count(&mut self, delivered: u32, safe: bool, pipe: u32, ssthresh: u32, mss: u32) -> u32 {
        self.delivered = self.delivered.saturating_add(delivered);
        let count = if pipe > ssthresh {
            // Proportional rate reduction.
            let share = (self.delivered as u64 * ssthresh as u64).div_ceil(self.recover_fs.max(1) as u64);
            (share as u32).saturating_sub(self.out)
        } else {
            // The window has become small enough: slow start towards ssthresh, or packet conservation.
            let conserved = self.delivered.saturating_sub(self.out).max(delivered);
            (conserved + if safe { mss } else { 0 }).min(ssthresh - pipe)
        };
        // The fast retransmission itself.
        if self.out == 0 { count.max(mss) } else { count }
    }
}

impl Connection<'_, '_> {
    /// Whether cwnd is PRR's now.
    #[inline]
    pub(crate) fn uses_prr(&self) -> bool {
        (self.tcb.recovery == Recovery::Fast && !self.is_modelled()) || self.is_reducing()
    }

    /// An ACK in fast recovery (or the event that began it) has reported `delivered` bytes.
    pub(crate) fn reduce_proportionally(&mut self, delivered: u32, safe: bool) {
        if !self.uses_prr() {
            return;
        }
        let (flight, pipe, ssthresh, mss) = (self.tcb.flight(), self.pipe(), self.tcb.ssthresh, self.tcb.mss as u32);
        let cold = self.demand_cold();
        if cold.prr.recover_fs == 0 {
            // What was under way before this ACK.
            cold.prr.recover_fs = (flight + delivered).saturating_sub(cold.scoreboard.sacked()).max(mss);
        }
        let count = cold.prr.send_count(delivered, safe, pipe, ssthresh, mss);
        // With nothing under way no ACK would ever open the window again.
        let count = if pipe == 0 { count.max(mss) } else { count };
        self.tcb.cwnd = pipe.saturating_add(count);
    }
}

#[cfg(test)]
mod tests;
