//! The limit by which the copies of large writes may go ahead of transmission.
//!
//! Bytes that an application copies into frames are read once more when they leave, and that is cheap while the processor's cache has them. Many
//! sockets that each copy a send buffer full, megabytes, push each other's out. So between two transmissions they copy [`TURN_BYTES`]
//! together; a socket that finds them used up is told when a transmission is over. A socket that writes alone is not limited: its copies
//! wait for the window and not for others. Does not do: bytes that are written in place or lie in a content; those are not copied.

use std::collections::VecDeque;

/// Twice what one transmission writes (`stack/src/tcp/scheduler.rs`). Measured: docs/lab/2026-11-25-copied-bulk.md.
pub const TURN_BYTES: usize = 1 << 20;
/// Writes up to this never wait, and do not count.
const SMALL_BYTES: usize = 2 << 10;

/// The bytes copied since the last transmission, and the sockets that wait for the next.
#[derive(Default)]
pub struct Ahead {
    copied: usize,
    /// The socket that copied last.
    writer: u32,
    waiting: VecDeque<u32>,
}

impl Ahead {
    /// Bytes of a write of `wanted` bytes that the socket `index` may copy now; 0: it has to wait.
    #[inline]
    pub fn allows(&self, index: u32, wanted: usize) -> usize {
        let is_alone = self.waiting.is_empty() && (self.copied == 0 || self.writer == index);
        if wanted <= SMALL_BYTES || is_alone { wanted } else { wanted.min(TURN_BYTES.saturating_sub(self.copied)) }
    }

    /// The socket `index` has copied `count` bytes.
    #[inline]
    pub fn note(&mut self, index: u32, count: usize) {
        if count > SMALL_BYTES {
            (self.copied, self.writer) = (self.copied + count, index);
        }
    }

    /// The socket `index` is to hear when the next transmission is over.
    #[cold]
    pub(crate) fn wait(&mut self, index: u32) {
        self.waiting.push_back(index);
    }

    /// Returns true if anything was copied since the last transmission; else no socket waits.
    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        self.copied != 0
    }

    /// A transmission is over.
    pub(crate) fn start_again(&mut self) {
        self.copied = 0;
    }

    /// The next socket that has waited for it.
    pub(crate) fn next_waiting(&mut self) -> Option<u32> {
        self.waiting.pop_front()
    }
}
