//! Bulk send chunks that leave without a copy: frames over them, and their remaining users.
//!
//! The application has filled such a chunk and pushed it; frames stand for its bytes in the send queue and on the way to the
//! device, and when the last of them is gone, because the peer has acknowledged the bytes or the connection is over, the
//! chunk goes back to the application's free list. Promises: the region stays mapped while a frame is left, whatever has
//! become of the application; a chunk that is needed here is not taken a second time. Does not promise that its bytes keep still:
//! an application that writes to what it has pushed spoils its own stream, and nothing else is decided by those bytes. So the
//! frames are foreign: their bytes are copied, summed or shown to the kernel, never borrowed.

use std::ptr::NonNull;
use std::sync::Arc;

use super::super::layout::{Map, TxClass};
use super::Attachment;
use ringway_shm::arena::Arena;
use ringway_shm::extent::{Access, Backing};
use ringway_shm::frame::Frame;
use ringway_shm::list::node;
use ringway_shm::sync::{AtomicU32, AtomicU64, Ordering};

/// The bulk chunks of a region.
pub(super) struct Lender {
    map: Arc<Map>,
    first: u32,
    /// For each bulk chunk: frames over it, and one for the slot's queue while it is there.
    holders: Box<[AtomicU32]>,
    /// Chunks with holders.
    held: AtomicU32,
    /// Chunks that an application has kept from being given back, by changing the list all the time.
    lost: AtomicU64,
}

impl Lender {
    pub(super) fn new(map: &Arc<Map>) -> Lender {
        let holders = (0..map.shape().tx_bulk).map(|_| AtomicU32::new(0)).collect();
        Lender { map: map.clone(), first: map.shape().first_bulk(), holders, held: AtomicU32::new(0), lost: AtomicU64::new(0) }
    }

    /// The count of a chunk, if it is a bulk chunk.
    fn holders(&self, chunk: u32) -> Option<&AtomicU32> {
        self.holders.get(chunk.checked_sub(self.first)? as usize)
    }

    /// Returns true if the worker still needs the chunk.
    pub(super) fn is_held(&self, chunk: u32) -> bool {
        self.holders(chunk).is_some_and(|holders| holders.load(Ordering::Relaxed) > 0)
    }

    /// One more needs the chunk; nothing for one of another class.
    pub(super) fn hold(&self, chunk: u32) {
        if let Some(holders) = self.holders(chunk)
            && holders.fetch_add(1, Ordering::Relaxed) == 0
        {
            self.held.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Chunks that could not be given back.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl Backing for Lender {
    /// One less needs the chunk; the last one gives it back.
    fn release(&self, chunk: u32) {
        let Some(holders) = self.holders(chunk) else { return };
        if holders.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.held.fetch_sub(1, Ordering::Relaxed);
            let (list, _, first) = self.map.tx_free(TxClass::Bulk);
            if !list.give_bounded(chunk - first, &self.map.tx_record(chunk).next) {
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl Attachment {
    /// A frame over the next bytes of the slot's stream, `most` at most, where they lie. `None`: they are not in a bulk chunk,
    /// or no extent is free; [`copy_tx`](Self::copy_tx) takes them then.
    pub fn lend_tx(&mut self, index: u32, arena: &Arena, most: usize) -> Option<Frame> {
        let slot = self.slots.of(index);
        let chunk = node(slot.tx_first, self.tx.count).filter(|&chunk| self.map.tx_class(chunk) == TxClass::Bulk)?;
        let offset = slot.tx_offset as usize;
        let part = (self.tx.len[chunk as usize] as usize - offset).min(most);
        if part == 0 {
            return None;
        }
        let bytes = NonNull::slice_from_raw_parts(self.map.tx_place(chunk, offset, part), part);
        self.lender.hold(chunk);
        // SAFETY: inside the mapping, which the lender keeps; it hears of `chunk` when the last frame is gone. The application may
        // write there, as `Foreign` says.
        let frame = unsafe { arena.extent_over(bytes, Access::Foreign, self.lender.clone(), chunk) };
        match frame {
            Some(_) => self.advance_tx(index, part),
            // The queue still holds it, so this gives nothing back.
            None => self.lender.release(chunk),
        }
        frame
    }

    /// Bulk chunks that are in a queue or under a frame now.
    pub fn lent_tx(&self) -> u32 {
        self.lender.held.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
