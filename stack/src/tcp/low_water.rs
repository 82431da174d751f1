//! TCP_NOTSENT_LOWAT: the limit of queued bytes that have not been sent.
//!
//! A socket with that much unsent data is not writable (Linux), and becomes writable when half of it has been sent. The
//! send buffer bounds all queued data, sent or not; this limit bounds the age of data when it is sent.

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
            // Linux, which counts in segments.
            low => room.min((low - tcb.unsent()).max(tcb.mss() as u32) as usize),
        }
    }

    /// Returns true when a `send` would not block.
    pub(crate) fn is_writable(&self, tcb: &Tcb) -> bool {
        let low = self.low_water(tcb);
        tcb.is_writable() && (low == 0 || tcb.unsent().saturating_mul(2) < low || !tcb.state().accepts_data())
    }

    #[inline]
    fn low_water(&self, tcb: &Tcb) -> u32 {
        self.cold.get(tcb.cold()).map_or(0, |cold| cold.timeouts.not_sent_low_water)
    }
}

impl Connection<'_, '_> {
    /// Data has been sent: signals an application that waits for that.
    #[inline]
    pub(crate) fn tell_of_sending(&mut self) {
        if self.tcb.cold() != super::cold::NONE && self.shared.low_water(self.tcb) != 0 {
            self.tell_if_low();
        }
    }

    #[inline(never)]
    fn tell_if_low(&mut self) {
        if self.shared.is_writable(self.tcb) && self.stats().clock.writer_goes_on() {
            self.tcb.clear(flag::SIGNALLED);
            self.signal();
        }
    }
}
