//! The mark of urgent data in a socket's stream: one word that the worker writes, and what the application makes of it.
//!
//! ```text
//!   number 16 | unused 7 | byte is there 1 | byte 8 | place in the stream 32
//! ```
//! The place counts received bytes modulo 2^32, as `rx_consumed` does. A mark holds until the application has read beyond
//! it. Unless the application wants the urgent byte in line, reading stops in front of it once and steps over it then
//! (net/ipv4/tcp.c, tcp_recvmsg); the byte itself is fetched on its own (MSG_OOB).

use super::slot::SlotShared;
use ringway_shm::sync::Ordering;

/// A mark, as the worker has set it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Which mark of the connection this is, modulo 2^16, never 0.
    pub number: u16,
    /// Received bytes in front of the urgent one, modulo 2^32.
    pub at: u32,
    /// The urgent byte; `None`: it is on its way.
    pub byte: Option<u8>,
}

/// What an application sees of a mark that it has not read beyond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Urgent {
    /// Bytes that can be read before the urgent one.
    pub distance: u32,
    /// The byte has come and was not taken out of the stream.
    pub fetchable: bool,
}

impl Mark {
    /// The word that says it.
    pub(crate) fn encode(self) -> u64 {
        let byte = self.byte.map_or(0, |byte| PRESENT | u64::from(byte) << 32);
        u64::from(self.number) << 48 | byte | u64::from(self.at)
    }

    /// Reads the word back; `None`: there never was a mark.
    pub(crate) fn decode(word: u64) -> Option<Mark> {
        let byte = (word & PRESENT != 0).then_some((word >> 32) as u8);
        let number = (word >> 48) as u16;
        (number != 0).then_some(Mark { number, at: word as u32, byte })
    }

    /// Grows with every mark, and when its byte comes.
    pub(crate) fn news(self) -> u32 {
        2 * u32::from(self.number) + u32::from(self.byte.is_some())
    }
}

impl SlotShared {
    /// The last mark, read or not.
    pub(crate) fn mark(&self) -> Option<Mark> {
        Mark::decode(self.mark.load(Ordering::Acquire))
    }

    /// The mark, if it is not behind what was read, and how far ahead it is.
    pub(crate) fn mark_ahead(&self) -> Option<(Mark, u32)> {
        let mark = self.mark()?;
        let distance = mark.at.wrapping_sub(self.rx_consumed.load(Ordering::Acquire));
        (distance.cast_signed() >= 0).then_some((mark, distance))
    }

    /// What there is of urgent data.
    pub fn urgent(&self) -> Option<Urgent> {
        let (mark, distance) = self.mark_ahead()?;
        let taken = self.mark_taken.load(Ordering::Acquire) == u32::from(mark.number);
        Some(Urgent { distance, fetchable: mark.byte.is_some() && !taken })
    }

    /// SO_OOBINLINE: the urgent byte is one of the others.
    pub fn is_urgent_in_line(&self) -> bool {
        self.app_flags() & IN_LINE != 0
    }

    /// Sets [`is_urgent_in_line`](Self::is_urgent_in_line).
    pub fn set_urgent_in_line(&self, on: bool) {
        if on { self.change_app_flags(IN_LINE, 0) } else { self.change_app_flags(0, IN_LINE) }
    }
}

/// The bit of a slot's application flags that is SO_OOBINLINE.
pub const IN_LINE: u32 = 1 << 31;
const PRESENT: u64 = 1 << 40;

#[cfg(test)]
mod tests;
