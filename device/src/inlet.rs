//! Frames that stand ready for the next packet to be read into, up to 64 KiB of them.
//!
//! Where packets may be as large as that they are read into one piece of a slab, of which they keep what they need; without
//! one (all slabs hold unread data) into as many frames of the arena as it takes. What a packet did not use stands
//! ready for the next one, so a small packet costs one frame. Very small packets are copied to a small frame and cost none
//! of these; a caller that knows the length before reads them there at once.

use ringway_shm::arena::{LARGE_BYTES, LARGE_HEADROOM, SMALL_BYTES};
use ringway_shm::extent::EXTENT_BYTES_MAX;
use ringway_shm::slab::Slabs;
use ringway_shm::{Arena, Burst, Class, Frame};

/// Packets of at most this many bytes are moved to a small frame.
pub(crate) const COPY_MAX: usize = SMALL_BYTES - COPY_HEADROOM;
const COPY_HEADROOM: usize = 32;
/// Slabs of a device: 16 MiB that are used only as far as packets wait.
const SLABS: usize = 64;
/// Packets of at most this many bytes do without: a few frames hold them.
const FRAMES_MAX: usize = 4 * LARGE_BYTES;

/// See the module's text.
pub(crate) struct Inlet {
    arena: Arena,
    slabs: Option<Slabs>,
    head: Option<Frame>,
    /// Behind `head`, the last one first.
    rest: Vec<Frame>,
}

impl Inlet {
    /// Stands ready for packets of at most `packet_bytes`.
    pub(crate) fn new(arena: &Arena, packet_bytes: usize) -> Inlet {
        let slabs = (packet_bytes > FRAMES_MAX).then(|| Slabs::new(arena, SLABS));
        Inlet { arena: arena.clone(), slabs, head: None, rest: Vec::new() }
    }

    /// The frames for the next packet, of at most `len` bytes (the second part in reverse order); `None`: the arena is used up.
    #[inline]
    pub(crate) fn frames(&mut self, len: usize) -> Option<(&mut Frame, &mut [Frame])> {
        let in_slab = len > FRAMES_MAX && self.slabs.is_some();
        if self.head.as_ref().is_none_or(|head| head.is_in_area() == in_slab) {
            self.head = None;
            self.head = Some(self.new_head(in_slab)?);
        }
        let head = self.head.as_mut()?;
        let behind = len.saturating_sub(head.len()).div_ceil(LARGE_BYTES);
        while self.rest.len() < behind {
            let mut frame = self.arena.alloc(Class::Large)?;
            frame.reserve(0);
            frame.extend(LARGE_BYTES);
            self.rest.push(frame);
        }
        Some((head, &mut self.rest))
    }

    fn new_head(&mut self, in_slab: bool) -> Option<Frame> {
        if let Some(mut frame) = self.slabs.as_mut().filter(|_| in_slab).and_then(|slabs| slabs.take(EXTENT_BYTES_MAX)) {
            frame.pull(usize::from(LARGE_HEADROOM));
            return Some(frame);
        }
        let mut frame = self.arena.alloc(Class::Large)?;
        let room = frame.tailroom();
        frame.extend(room);
        Some(frame)
    }

    /// Appends the packet of `len` bytes that was read to `burst`. `describe` sets its metadata on
    /// the first frame and says whether it is good. `false`: it is not, or was larger than the frames.
    pub(crate) fn deliver(&mut self, mut len: usize, burst: &mut Burst, describe: impl FnOnce(&mut Frame) -> bool) -> bool {
        if let Some(mut small) = self.copy_small(len) {
            let good = describe(&mut small);
            if good {
                burst.push(small);
            }
            return good;
        }
        let Some(mut head) = self.head.take() else { return false };
        let behind = len.saturating_sub(head.len());
        head.truncate(len);
        if let Some(slabs) = self.slabs.as_mut().filter(|_| !head.is_in_area()) {
            slabs.fit(&head);
        }
        if behind > self.rest.len() * LARGE_BYTES || !describe(&mut head) {
            return false;
        }
        head.set_continues(behind > 0);
        burst.push(head);
        len = behind;
        while len > 0 {
            let mut frame = self.rest.pop().expect("checked against the length above");
            frame.truncate(len);
            len -= frame.len();
            frame.set_continues(len > 0);
            burst.push(frame);
        }
        true
    }

    /// For callers that know before the read that a packet is very small: the frame for its `len` bytes. `None`: it is larger, or
    /// there is no small frame.
    #[inline]
    pub(crate) fn small(&self, len: usize) -> Option<Frame> {
        if len > COPY_MAX {
            return None;
        }
        let mut small = self.arena.alloc(Class::Small)?;
        // The one that comes next is most likely what an ACK has freed, and it was not touched for a round trip.
        self.arena.touch_next(Class::Small);
        small.reserve(COPY_HEADROOM);
        small.extend(len);
        Some(small)
    }

    fn copy_small(&mut self, len: usize) -> Option<Frame> {
        let mut small = self.small(len)?;
        small.bytes_mut().copy_from_slice(&self.head.as_ref()?.bytes()[..len]);
        Some(small)
    }
}

#[cfg(test)]
mod tests;
