//! TCP_NOTSENT_LOWAT: how much may be queued that was not sent yet.
//!
//! As Linux: who has that much waiting may not write, and is told that it may again when half of it has gone. The send buffer
//! bounds what is queued in all, sent or not; this bounds how old data is when it leaves.

use super::connection::{Connection, Shared};
use super::tcb::{Tcb, flag};

impl Shared {
    /// Bytes that may be queued now.
    #[inline]
    pub(crate) fn room(&self, tcb: &Tcb) -> usize {
        let room = tcb.send_space();
        match self.low_water(tcb) {
            0 => room,
            low if tcb.unsent() >= low => 0,
            // As Linux, whose measure are segments.
            low => room.min((low - tcb.unsent()).max(tcb.mss as u32) as usize),
        }
    }

    /// Whether a `send` would not block.
    pub(crate) fn is_writable(&self, tcb: &Tcb) -> bool {
        let low = self.low_water(tcb);
        tcb.is_writable() && (low == 0 || tcb.unsent().saturating_mul(2) < low || !tcb.state.accepts_data())
    }

    #[inline]
    fn low_water(&self, tcb: &Tcb) -> u32 {
        self.cold.get(tcb.cold).map_or(0, |cold| cold.timeouts.not_sent_low_water)
    }
}

impl Connection<'_, '_> {
    /// Data has left: who waits for that is told.
    #[inline]
    pub(crate) fn tell_of_sending(&mut self) {
        if self.tcb.cold != super::cold::NONE && self.shared.low_water(self.tcb) != 0 {
            self.tell_if_low();
        }
    }

    #[inline(never)]
    fn tell_if_low(&mut self) {
        if self.shared.is_writable(self.tcb) && self.tally().clock.writer_goes_on() {
            self.tcb.clear(flag::SIGNALLED);
            self.signal();
        }
    }
}
