//! A wire between two processes: one ring of bytes per direction in shared memory, and a doorbell each.
//!
//! ```text
//!   0        64         128     4096                 4096 + capacity
//!   | tail   | head     | armed | bytes of direction 0 | the same again for direction 1
//!     sender   receiver   receiver: 1 = about to sleep
//! ```
//! A record is a length word of 8 bytes and the bytes, up to the next multiple of 8; records wrap
//! round the end. Cursors count bytes for ever. Promises: records arrive whole, in order, and a
//! sleeper is woken once. Trusts nothing of the other party: cursors and lengths are copied out once
//! and checked, and a party that breaks the rules harms only this wire. The other's cursor is looked at
//! only when what it said last is used up: its cache line moves between the processors once a burst.
//! Does not do: more than one sender or receiver per direction.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::doorbell;
use crate::payload::Payload;
use crate::region::Region;
use crate::sys;

const TAIL: usize = 0;
const HEAD: usize = 64;
const ARMED: usize = 128;
const HEADER_BYTES: usize = 4096;
const LENGTH_BYTES: usize = 8;

/// One end of a wire that is not in use yet: it can be moved to another thread, or its descriptors to
/// another process.
#[derive(Debug)]
pub struct WireEnd {
    /// The memory file.
    pub memory: OwnedFd,
    /// Rung when something arrives at this end.
    pub wake_fd: OwnedFd,
    /// Rung when something arrives at the other end.
    pub peer_wake_fd: OwnedFd,
    /// Bytes of the ring of each direction; a power of two.
    pub capacity: u32,
    /// Which end it is: the first sends in direction 0.
    pub first: bool,
}

/// One end of a wire in use.
pub struct Wire {
    region: Region,
    wake_fd: OwnedFd,
    peer_wake_fd: OwnedFd,
    capacity: u32,
    send_base: usize,
    receive_base: usize,
    /// Our own cursors; what stands in shared memory is only told to the peer.
    tail: u32,
    head: u32,
    /// The peer's cursors as they were seen last: how far it has read, and how far it has written.
    peer_head: u32,
    peer_tail: u32,
    /// Bytes that have not yet been shown to the peer.
    unpublished: bool,
}

/// The peer has broken the rules of the wire; nothing more can be received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

fn direction_bytes(capacity: u32) -> usize {
    HEADER_BYTES + capacity as usize
}

/// A new wire with rings of `capacity` bytes, rounded up to a power of two between 4 KiB and 1 GiB.
///
/// # Errors
/// No memory or no descriptors.
pub fn wire(capacity: u32) -> io::Result<(WireEnd, WireEnd)> {
    let capacity = capacity.clamp(1 << 12, 1 << 30).next_power_of_two();
    let (_, memory) = Region::create(2 * direction_bytes(capacity))?;
    let wake_fds = (sys::event_descriptor()?, sys::event_descriptor()?);
    let other_memory = memory.try_clone()?;
    let other_wake_fds = (wake_fds.0.try_clone()?, wake_fds.1.try_clone()?);
    let first = WireEnd { memory, wake_fd: wake_fds.0, peer_wake_fd: wake_fds.1, capacity, first: true };
    let second =
        WireEnd { memory: other_memory, wake_fd: other_wake_fds.1, peer_wake_fd: other_wake_fds.0, capacity, first: false };
    Ok((first, second))
}

impl Wire {
    /// Begins to use `end`. An end is used once.
    ///
    /// # Errors
    /// The memory file is not the sealed one of the size that `end` says.
    pub fn open(end: WireEnd) -> io::Result<Wire> {
        if !end.capacity.is_power_of_two() || !(1 << 12..=1 << 30).contains(&end.capacity) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a wire of no valid capacity"));
        }
        let one = direction_bytes(end.capacity);
        let region = Region::attach(end.memory.as_fd(), 2 * one)?;
        let (send_base, receive_base) = if end.first { (0, one) } else { (one, 0) };
        let (wake_fd, peer_wake_fd, capacity) = (end.wake_fd, end.peer_wake_fd, end.capacity);
        Ok(Wire {
            region,
            wake_fd,
            peer_wake_fd,
            capacity,
            send_base,
            receive_base,
            tail: 0,
            head: 0,
            peer_head: 0,
            peer_tail: 0,
            unpublished: false,
        })
    }

    fn word(&self, base: usize, offset: usize) -> &AtomicU32 {
        self.region.at(base + offset)
    }

    /// Copies `bytes` to the ring at cursor `at`.
    #[inline]
    fn put<'a>(&self, at: u32, bytes: impl Into<Payload<'a>>) {
        let bytes = bytes.into();
        let start = (at & (self.capacity - 1)) as usize;
        let base = self.send_base + HEADER_BYTES;
        if start + bytes.len() <= self.capacity as usize {
            return self.region.write(base + start, bytes);
        }
        let (here, wrapped) = bytes.split_at(self.capacity as usize - start);
        self.region.write(base + start, here);
        self.region.write(base, wrapped);
    }

    /// Copies from the ring at cursor `at`.
    #[inline]
    fn get(&self, at: u32, bytes: &mut [u8]) {
        let start = (at & (self.capacity - 1)) as usize;
        let base = self.receive_base + HEADER_BYTES;
        if start + bytes.len() <= self.capacity as usize {
            return self.region.read(base + start, bytes);
        }
        let (here, wrapped) = bytes.split_at_mut(self.capacity as usize - start);
        self.region.read(base + start, here);
        self.region.read(base, wrapped);
    }

    /// Whether so many bytes of the ring are free.
    #[inline]
    fn has_room(&mut self, needed: usize) -> bool {
        // A peer that lies about its cursor overwrites only what it has not read.
        let free = |head: u32| (self.capacity - self.tail.wrapping_sub(head).min(self.capacity)) as usize;
        if free(self.peer_head) >= needed {
            return true;
        }
        let head = self.word(self.send_base, HEAD).load(Ordering::Acquire);
        let has_room = free(head) >= needed;
        self.peer_head = head;
        has_room
    }

    /// Appends one record of `len` bytes, which `parts` are; the peer sees it after `flush`. `false`:
    /// there is no room now.
    ///
    /// # Panics
    /// When the parts are longer than `len`, or the record is larger than the ring: our own mistake.
    #[inline]
    pub fn send<'a>(&mut self, len: usize, parts: impl Iterator<Item = impl Into<Payload<'a>>>) -> bool {
        let needed = LENGTH_BYTES + len.next_multiple_of(LENGTH_BYTES);
        assert!(needed <= self.capacity as usize, "a record fits the ring");
        if !self.has_room(needed) {
            return false;
        }
        self.put(self.tail, &(len as u64).to_ne_bytes());
        let mut at = LENGTH_BYTES;
        for part in parts {
            let part = part.into();
            assert!(at + part.len() <= LENGTH_BYTES + len, "parts are as long as was said");
            self.put(self.tail.wrapping_add(at as u32), part);
            at += part.len();
        }
        self.tail = self.tail.wrapping_add(needed as u32);
        self.unpublished = true;
        true
    }

    /// Shows what was sent to the peer and wakes it if it sleeps. Says whether a wake descriptor was rung.
    pub fn flush(&mut self) -> bool {
        if !std::mem::take(&mut self.unpublished) {
            return false;
        }
        self.word(self.send_base, TAIL).store(self.tail, Ordering::Release);
        let wakes = doorbell::must_ring(self.word(self.send_base, ARMED));
        if wakes {
            sys::ring(self.peer_wake_fd.as_raw_fd());
        }
        wakes
    }

    /// Bytes of the next record, if one waits.
    ///
    /// # Errors
    /// The peer has broken the rules.
    #[inline]
    pub fn front(&mut self) -> Result<Option<usize>, Broken> {
        let waiting = if self.peer_tail == self.head { self.look() } else { self.waiting() };
        if waiting == 0 {
            return Ok(None);
        }
        let mut length = [0; LENGTH_BYTES];
        self.get(self.head, &mut length);
        let len = u64::from_ne_bytes(length);
        let fits = len <= u64::from(self.capacity) && waiting <= self.capacity;
        if !fits || LENGTH_BYTES + (len as usize).next_multiple_of(LENGTH_BYTES) > waiting as usize {
            // What the peer says next may be better.
            self.peer_tail = self.head;
            return Err(Broken);
        }
        Ok(Some(len as usize))
    }

    /// Looks how far the peer has written, and returns the bytes that wait; [`front`](Self::front) does so when it must.
    #[inline]
    pub fn look(&mut self) -> u32 {
        self.peer_tail = self.word(self.receive_base, TAIL).load(Ordering::Acquire);
        self.waiting()
    }

    /// Bytes that wait, as far as was seen.
    #[inline]
    pub fn waiting(&self) -> u32 {
        self.peer_tail.wrapping_sub(self.head)
    }

    /// Copies bytes of the next record, from its byte `from` on. What the peer changes meanwhile
    /// arrives changed.
    #[inline]
    pub fn copy(&self, from: usize, to: &mut [u8]) {
        self.get(self.head.wrapping_add((LENGTH_BYTES + from) as u32), to);
    }

    /// Gives back the room of the next record, whose length `front` said.
    #[inline]
    pub fn release(&mut self, len: usize) {
        self.head = self.head.wrapping_add((LENGTH_BYTES + len.next_multiple_of(LENGTH_BYTES)) as u32);
        self.word(self.receive_base, HEAD).store(self.head, Ordering::Release);
    }

    /// Asks to be woken by [`wake_fd`](Self::wake_fd); look at `front` after this.
    pub fn arm(&self) {
        sys::silence(self.wake_fd.as_raw_fd());
        doorbell::arm(self.word(self.receive_base, ARMED));
    }

    /// Readable when something arrives at this end after `arm`.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.wake_fd.as_fd()
    }
}

#[cfg(test)]
mod tests;
