//! Receive chunks that packets are read to: a larger packet's payload goes straight into the memory of its reader.
//!
//! A device that knows a packet's receiver reads it to a frame over such a chunk; the frame goes through the stack like all
//! others, and what comes out in order is pushed by its number, without a copy. Whatever the stack drops, or the frame's end
//! elsewhere, gives the chunk back. There are two sizes: chunks of 64 KiB for what would fill a quarter of one, and of 16 KiB
//! for what no large chunk holds. Promises: a chunk under a frame has no other user; the region stays mapped while one is
//! left. The application may write to the chunk meanwhile: nothing is decided by payload, and the frames are foreign, so it only
//! changes what it reads.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use super::super::layout::{LARGE_CHUNK, MIDDLE_CHUNK, Map, ROOM_CHUNK};
use super::Attachment;
use ringway_shm::arena::Arena;
use ringway_shm::extent::{Access, Backing, EXTENT_BYTES_MAX};
use ringway_shm::frame::Frame;
use ringway_shm::payload::Room;
use ringway_shm::sync::{AtomicU32, Ordering};

/// Smaller payloads are copied: one large frame holds them, and one large chunk.
const ROOM_MIN: usize = LARGE_CHUNK + 1;

/// The receive chunks of a region that packets are read to.
pub(super) struct Rooms {
    map: Arc<Map>,
    bulk: Class,
    middle: Class,
    /// 1: its frame has been pushed, and the end of the frame gives nothing back. By number, from the first bulk chunk on.
    pushed: Box<[AtomicU32]>,
}

/// Chunks of one size.
struct Class {
    first: u32,
    end: u32,
    chunk_bytes: usize,
    /// The last one that came back is the first to go: the processor's cache may still have it.
    free: Mutex<Vec<u32>>,
}

impl Class {
    fn new(first: u32, end: u32, chunk_bytes: usize) -> Class {
        Class { first, end, chunk_bytes, free: Mutex::new((first..end).rev().collect()) }
    }

    fn put(&self, chunk: u32) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(chunk);
    }

    fn take(&self) -> Option<u32> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn free(&self) -> u32 {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).len() as u32
    }

    /// The chunk that begins at an address.
    fn chunk_at(&self, map: &Map, address: usize) -> Option<u32> {
        if self.first == self.end {
            return None;
        }
        let distance = address.checked_sub(map.rx_place(self.first, 0, 0).as_ptr() as usize)?;
        let number = distance / self.chunk_bytes;
        (distance % self.chunk_bytes == 0 && number < (self.end - self.first) as usize).then(|| self.first + number as u32)
    }
}

impl Rooms {
    pub(super) fn new(map: &Arc<Map>) -> Rooms {
        let shape = map.shape();
        let (first, middle, end) = (shape.first_room(), shape.first_middle(), shape.rx_chunks());
        let pushed = (first..end).map(|_| AtomicU32::new(0)).collect();
        let (bulk, middle) = (Class::new(first, middle, ROOM_CHUNK), Class::new(middle, end, MIDDLE_CHUNK));
        Rooms { map: map.clone(), bulk, middle, pushed }
    }

    /// Gives a chunk back.
    pub(super) fn put(&self, chunk: u32) {
        if chunk < self.bulk.end { self.bulk.put(chunk) } else { self.middle.put(chunk) }
    }

    /// A chunk that is made for `len` bytes.
    fn take(&self, len: usize) -> Option<u32> {
        if len > MIDDLE_CHUNK { self.bulk.take() } else { self.middle.take() }
    }

    /// How many are free, of both sizes.
    pub(super) fn free(&self) -> u32 {
        self.bulk.free() + self.middle.free()
    }

    /// How many are free: bulk, middle.
    pub(super) fn free_of_each(&self) -> (u32, u32) {
        (self.bulk.free(), self.middle.free())
    }

    /// The chunk at whose start the frame's bytes lie, if no other frame shares them.
    fn chunk_under(&self, frame: &Frame) -> Option<u32> {
        if !frame.is_foreign() || frame.is_empty() || !frame.is_alone() {
            return None;
        }
        let address = frame.payload().as_ptr() as usize;
        self.bulk.chunk_at(&self.map, address).or_else(|| self.middle.chunk_at(&self.map, address))
    }

    fn pushed(&self, chunk: u32) -> Option<&AtomicU32> {
        self.pushed.get(chunk.checked_sub(self.bulk.first)? as usize)
    }
}

impl Backing for Rooms {
    fn release(&self, chunk: u32) {
        if self.pushed(chunk).is_none_or(|pushed| pushed.swap(0, Ordering::AcqRel) == 0) {
            self.put(chunk);
        }
    }
}

impl Attachment {
    /// Room for `len` bytes in a receive chunk of such a size. `None`: it would be too small or too large to be worth it, or no
    /// chunk or extent is free.
    pub fn room_rx(&mut self, arena: &Arena, len: usize) -> Option<Room> {
        if !(ROOM_MIN..=EXTENT_BYTES_MAX).contains(&len) {
            return None;
        }
        let chunk = self.rooms.take(len).or_else(|| {
            self.reclaim();
            self.rooms.take(len)
        })?;
        let bytes = NonNull::slice_from_raw_parts(self.map.rx_place(chunk, 0, len), len);
        // SAFETY: inside the mapping, which the rooms keep until `release` is told. The application may write there, as `Foreign` says.
        let frame = unsafe { arena.extent_over(bytes, Access::Foreign, self.rooms.clone(), chunk) };
        if frame.is_none() {
            self.rooms.put(chunk);
        }
        // SAFETY: the chunk was free, so no other frame is over it; a mapping of a region can be written.
        frame.map(|frame| unsafe { Room::over(frame) })
    }

    /// Gives the slot the bytes of a frame of [`room_rx`](Self::room_rx), where they lie; they become visible as those of
    /// [`push_rx`](Self::push_rx). How many there were; else the frame comes back, to be copied: it is over no such chunk, was
    /// cut at its front, or is shared.
    ///
    /// # Errors
    /// The frame.
    pub fn push_room(&mut self, index: u32, frame: Frame) -> Result<usize, Frame> {
        let Some(chunk) = self.rooms.chunk_under(&frame) else { return Err(frame) };
        let len = frame.len();
        if let Some(pushed) = self.rooms.pushed(chunk) {
            pushed.store(1, Ordering::Release);
        }
        drop(frame);
        self.lease_chunk(index, chunk);
        self.open_chunk(index, chunk, len);
        let slot = self.slots.of(index);
        slot.rx_pushed = slot.rx_pushed.wrapping_add(len as u32);
        Ok(len)
    }

    /// Bulk receive chunks that a frame or the application has.
    pub fn used_rooms(&self) -> u32 {
        (self.rooms.bulk.end - self.rooms.bulk.first) - self.rooms.bulk.free()
    }

    /// Receive chunks for packets that are free.
    pub fn free_rooms(&self) -> u32 {
        self.rooms.free()
    }
}

#[cfg(test)]
mod tests;
