//! Decision to delay the ACK of a whole message until the application's answer: as long as such delays are mostly useful.
//!
//! A useless delay costs the peer up to the ACK's delay if it had more to send, which the receiver cannot see: PSH says only
//! that a write of its program ended. If the peer's window is full at that point, it waits for the ACK as the ACK waits for
//! the answer. After a useless delay the next N ACKs go at once; N doubles when fewer than N delays have come since the last
//! useless one. Promises: if every delay is useless, the share of delayed ACKs falls to one in [`QUICK_MAX`]; one slow
//! answer among many costs [`QUICK_MIN`] ACKs.

/// Number of ACKs that go at once after a useless delay, at first.
const QUICK_MIN: u16 = 64;
/// The same, at most.
const QUICK_MAX: u16 = 1 << 15;

/// Record of a connection's delays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interactive {
    /// Remaining ACKs that go at once.
    quick_acks: u16,
    /// Their number after the last useless delay; 0: there was none.
    period: u16,
    /// Delays since then.
    waits: u16,
}

impl Interactive {
    /// Returns true when the next ACK is delayed.
    pub(crate) fn waits(&mut self) -> bool {
        if self.quick_acks > 0 {
            self.quick_acks -= 1;
            return false;
        }
        self.waits = self.waits.saturating_add(1);
        true
    }

    /// Notes that the last delay was useless.
    pub(crate) fn was_in_vain(&mut self) {
        self.period = if self.waits < self.period { self.period.saturating_mul(2).min(QUICK_MAX) } else { QUICK_MIN };
        self.quick_acks = self.period;
        self.waits = 0;
    }
}

super::handover::part::parts!(Interactive { quick_acks, period, waits });

#[cfg(test)]
mod tests;
