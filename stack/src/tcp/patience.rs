//! Whether the ACK of a whole message waits for the application's answer: as long as such waits are mostly worth it.
//!
//! Each wait in vain costs the peer up to the ACK's delay if it had more to send, which nobody can see: PSH says no more than
//! that a write of its program ended, and where the peer's window is full there, it waits for the ACK as the ACK waits for
//! the answer. So a wait in vain makes the next ACKs hasty, and twice as many as the time before where the waits since
//! then were fewer than those. Promises: of the ACKs of a peer that is always kept waiting a part waits that becomes as small as
//! one in [`HASTY_MAX`]; one slow answer among many costs [`HASTY_MIN`] ACKs.

/// ACKs that go at once after a wait in vain, at first.
const HASTY_MIN: u16 = 64;
/// The same at most.
const HASTY_MAX: u16 = 1 << 15;

/// What is remembered of a connection's waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Patience {
    /// ACKs that still go at once.
    hasty: u16,
    /// How many that were after the last wait in vain; 0: there was none.
    period: u16,
    /// Waits since then.
    waits: u16,
}

impl Patience {
    /// Whether the next ACK waits.
    pub(crate) fn waits(&mut self) -> bool {
        if self.hasty > 0 {
            self.hasty -= 1;
            return false;
        }
        self.waits = self.waits.saturating_add(1);
        true
    }

    /// The last one that waited did so for nothing.
    pub(crate) fn was_in_vain(&mut self) {
        self.period = if self.waits < self.period { self.period.saturating_mul(2).min(HASTY_MAX) } else { HASTY_MIN };
        self.hasty = self.period;
        self.waits = 0;
    }
}

#[cfg(test)]
mod tests;
