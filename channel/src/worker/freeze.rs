//! A slot stands still while the worker takes its connection elsewhere: programs wait at the locks, and the worker reads what lies
//! in the slot without taking it.
//!
//! The locks are those of reading and writing threads, so a slot is frozen only between two calls of the program. A program that
//! keeps a lock keeps its own socket from being frozen; one that breaks it gets what bytes it then finds. Does not do: keeping
//! requests from coming; the engine puts them off.

use super::super::layout::PROCESSES;
use super::super::lock::{owner_word, try_acquire};
use super::super::slot::SlotShared;
use super::Attachment;
use ringway_shm::list::{self, node};
use ringway_shm::sync::{AtomicU32, Ordering};

/// No process has this number, so no death breaks the lock.
const WORKER: u32 = PROCESSES;

/// Why what lies in a slot cannot go elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotWhole {
    /// Urgent data is announced and not passed by reading: another queue has no place for its mark.
    Urgent,
    /// The chunks do not hold what was put there: the application has changed the lists.
    Spoilt,
}

impl Attachment {
    /// Takes both locks of the slot. Returns false, and takes none, if a thread of the application has one.
    pub fn freeze(&mut self, index: u32) -> bool {
        let shared = self.map.slot(index);
        let owner = owner_word(WORKER, 0);
        let Some(reading) = try_acquire(&shared.rx_lock, owner) else { return false };
        let Some(writing) = try_acquire(&shared.tx_lock, owner) else { return false };
        std::mem::forget((reading, writing));
        true
    }

    /// Frees the locks that [`freeze`](Self::freeze) has taken.
    pub fn thaw(&mut self, index: u32) {
        let SlotShared { rx_lock, tx_lock, .. } = self.map.slot(index);
        let release = |lock: &AtomicU32| lock.compare_exchange(owner_word(WORKER, 0), 0, Ordering::Release, Ordering::Relaxed);
        // The application may have broken a lock; then there is nothing to release.
        release(tx_lock).ok();
        release(rx_lock).ok();
    }

    /// Takes back all chunks of the slot: its bytes are elsewhere now. The slot is frozen.
    pub fn empty(&mut self, index: u32) {
        self.reclaim();
        self.drop_tx(index);
        self.drop_rx(index);
        let private = self.slots.of(index);
        private.rx_consumed = private.rx_pushed;
        private.tx_released = private.tx_taken;
        let (read, released) = (private.rx_consumed, private.tx_released);
        let shared = self.map.slot(index);
        for list in [&shared.rx_head, &shared.rx_stack, &shared.rx_offset] {
            list.store(list::EMPTY, Ordering::Relaxed);
        }
        shared.rx_consumed.store(read, Ordering::Release);
        shared.tx_queued.store(released, Ordering::Release);
        shared.tx_released.store(released, Ordering::Release);
    }

    /// A copy of the bytes that were pushed and not read. The slot is frozen.
    ///
    /// # Errors
    /// See [`NotWhole`].
    pub fn copy_unread(&mut self, index: u32) -> Result<Vec<u8>, NotWhole> {
        self.publish_rx(index);
        let unread = self.unread(index) as usize;
        let shared = self.map.slot(index);
        if shared.mark_ahead().is_some() {
            return Err(NotWhole::Urgent);
        }
        let head = shared.rx_head.load(Ordering::Relaxed);
        let mut chunks = self.chain(head);
        let mut stacked = self.chain(shared.rx_stack.load(Ordering::Acquire));
        stacked.reverse();
        chunks.append(&mut stacked);
        let mut skipped = if head == list::EMPTY { 0 } else { shared.rx_offset.load(Ordering::Relaxed) as usize };
        let mut bytes = Vec::with_capacity(unread);
        for chunk in chunks {
            let len = (self.map.rx_record(chunk).len.load(Ordering::Relaxed) as usize).min(self.map.rx_capacity(chunk));
            let offset = std::mem::take(&mut skipped).min(len);
            let start = bytes.len();
            if !self.rx.is_of(chunk, index) || start + len - offset > unread {
                return Err(NotWhole::Spoilt);
            }
            bytes.resize(start + len - offset, 0);
            self.map.read_rx(chunk, offset, &mut bytes[start..]);
        }
        if bytes.len() == unread { Ok(bytes) } else { Err(NotWhole::Spoilt) }
    }

    /// The receive chunks of a chain, at most as many as there are.
    fn chain(&self, mut at: u32) -> Vec<u32> {
        let mut chunks = Vec::new();
        while let Some(chunk) = node(at, self.rx.count)
            && chunks.len() < self.rx.count as usize
        {
            chunks.push(chunk);
            at = self.map.rx_record(chunk).next.load(Ordering::Relaxed);
        }
        chunks
    }

    /// A copy of the bytes that the application has written and the worker has not taken. The slot is frozen.
    pub fn copy_unsent(&mut self, index: u32) -> Vec<u8> {
        self.take_pushed(index);
        let slot = self.slots.peek(index);
        let mut bytes = Vec::with_capacity(slot.tx_bytes as usize);
        let (mut at, mut offset) = (slot.tx_first, slot.tx_offset as usize);
        // The links and lengths are the worker's own.
        while let Some(chunk) = node(at, self.tx.count) {
            let (start, len) = (bytes.len(), self.tx.len_of(chunk));
            bytes.resize(start + len - offset, 0);
            self.map.read_tx(chunk, offset, &mut bytes[start..]);
            (at, offset) = (self.tx.next_of(chunk), 0);
        }
        bytes
    }
}

#[cfg(test)]
mod tests;
