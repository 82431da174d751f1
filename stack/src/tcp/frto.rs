//! F-RTO: detection of unnecessary timeouts. Read RFC 5682 §3 (the SACK-enhanced version) first.
//!
//! After a timeout only the first segment is retransmitted. When its ACK comes, new data goes out instead of data that may
//! be lost (step 2b). If bytes then arrive that were never retransmitted, the timeout was spurious, and `undo` restores the
//! windows. Otherwise, or without new data, recovery goes on as usual. Needs RACK, which records the retransmissions.

use super::connection::Connection;

/// State of the algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Frto {
    /// Not running.
    #[default]
    Off,
    /// Step 1: the first segment was retransmitted.
    Retransmitted,
    /// Step 2b: only new data may be sent.
    NewData,
}

impl Connection<'_, '_> {
    /// Step 1. `is_first`: no recovery was in progress.
    pub(crate) fn begin_frto(&mut self, is_first: bool) {
        let on = is_first && self.uses_rack() && self.shared.config.f_rto;
        self.demand_cold().frto = if on { Frto::Retransmitted } else { Frto::Off };
    }

    /// Returns true while lost segments wait for F-RTO's result.
    #[inline]
    pub(crate) fn is_frto_waiting(&self) -> bool {
        self.shared.cold.get(self.tcb.cold()).is_some_and(|cold| cold.frto == Frto::NewData)
    }

    /// Steps 2 and 3, for an ACK after a timeout that has not shown the timeout to be spurious.
    pub(crate) fn frto_acknowledged(&mut self, advanced: bool, sacked: bool) {
        let Some(step) = self.shared.cold.get(self.tcb.cold()).map(|cold| cold.frto) else { return };
        if step == Frto::Off {
            return;
        }
        let room = self.tcb.snd_wnd() > self.tcb.flight();
        let next = match step {
            // Step 2b: forward progress, and there is new data to send.
            Frto::Retransmitted if advanced && self.tcb.unsent() > 0 && room => Frto::NewData,
            Frto::NewData if !sacked && !advanced => Frto::NewData,
            // Steps 2a and 3a: the loss was real.
            _ => Frto::Off,
        };
        self.demand_cold().frto = next;
        self.mark_data();
    }
}

super::handover::part::choices!(Frto { Off, Retransmitted, NewData });
