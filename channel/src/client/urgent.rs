//! Urgent data (MSG_OOB): the byte that is fetched beside the stream, and bytes that are sent as urgent.

use std::io::IoSlice;

use super::super::lock::LockError;
use super::super::request::Operation;
use super::super::slot::{Flags, SlotRef};
use super::{Client, SendError};
use ringway_shm::sync::Ordering;

/// Why there is no urgent byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrgentError {
    /// None was announced, it was fetched, or read over, or it is in line (EINVAL).
    Nothing,
    /// It is announced and has not come.
    WouldBlock,
    /// It is announced, and the connection has ended without it.
    Over,
    /// The reference is no longer good.
    Stale,
}

impl From<LockError> for UrgentError {
    fn from(error: LockError) -> UrgentError {
        match error {
            LockError::Reentered => UrgentError::WouldBlock,
            LockError::ServiceGone => UrgentError::Over,
        }
    }
}

impl Client {
    /// The urgent byte; unless it is only looked at (MSG_PEEK), it can be had once.
    ///
    /// # Errors
    /// See [`UrgentError`].
    pub fn receive_urgent(&self, slot: SlotRef, peek: bool) -> Result<u8, UrgentError> {
        let shared = self.slot(slot.index);
        let _lock = self.lock(&shared.rx_lock)?;
        if !self.is_current(slot) {
            return Err(UrgentError::Stale);
        }
        let ahead = shared.mark_ahead().filter(|_| !shared.is_urgent_in_line());
        let (mark, _) = ahead.ok_or(UrgentError::Nothing)?;
        if shared.mark_taken.load(Ordering::Relaxed) == u32::from(mark.number) {
            return Err(UrgentError::Nothing);
        }
        match mark.byte {
            Some(byte) => {
                if !peek {
                    shared.mark_taken.store(mark.number.into(), Ordering::Release);
                }
                Ok(byte)
            }
            None if shared.flags().has(Flags::PEER_CLOSED) || shared.flags().has(Flags::HUNG_UP) => Err(UrgentError::Over),
            None => Err(UrgentError::WouldBlock),
        }
    }

    /// As [`send`](Self::send); the last byte is urgent. The worker learns where that is before it sees the bytes.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_urgent(&self, slot: SlotRef, parts: &[IoSlice<'_>]) -> Result<usize, SendError> {
        let shared = self.slot(slot.index);
        let total: usize = parts.iter().map(|part| part.len()).sum();
        let room = total.min(shared.send_space() as usize);
        if room > 0 {
            let position = shared.tx_queued.load(Ordering::Acquire).wrapping_add(room as u32);
            self.announce(slot, Operation::Urgent { position });
        }
        self.send(slot, parts)
    }
}
