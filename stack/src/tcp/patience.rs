//! Decision to delay the ACK of a whole message until the application's answer: as long as such delays are mostly useful.
//!
//! A useless delay costs the peer up to the ACK's delay if it had more to send, which the receiver cannot see: PSH says only
//! that a write of its program ended. If the peer's window is full at that point, it waits for the ACK as the ACK waits for
//! the answer. After a useless delay the next N ACKs go at once; N doubles when fewer than N delays have come since the last
//! useless one. Promises: if every delay is useless, the share of delayed ACKs falls to one in [`HASTY_MAX`]; one slow
//! answer among many costs [`HASTY_MIN`] ACKs.

/// Number of ACKs that go at once after a useless delay, at first.
const HASTY_MIN: u16 = 64;
/// The same, at most.
const HASTY_MAX: u16 = 1 << 15;

/// Record of a connection's delays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Patience {
    /// Remaining ACKs that go at once.
    hasty: u16,
    /// Their number after the last useless delay; 0: there was none.
    period: u16,
    /// Delays since then.
    waits: u16,
}

impl Patience {
    /// Returns true when the next ACK is delayed.
    pub(crate) fn waits(&mut self) -> bool {
        if self.hasty > 0 {
            self.hasty -= 1;
            return false;
        }
        self.waits = self.waits.saturating_add(1);
        true
    }

    /// Notes that the last delay was useless.
    pub(crate) fn was_in_vain(&mut self) {
        self.period = if self.waits < self.period { self.period.saturating_mul(2).min(HASTY_MAX) } else { HASTY_MIN };
        self.hasty = self.period;
        self.waits = 0;
    }
}

#[cfg(test)]
mod tests;
