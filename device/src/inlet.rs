//! Frames that stand ready for the next packet to be read into, up to 64 KiB of them.
//!
//! What a packet did not use stands ready for the next one, so a small packet costs one frame. Very
//! small packets are copied to a small frame and cost none of these.

use ringway_shm::arena::{LARGE_BYTES, LARGE_HEADROOM, SMALL_BYTES};
use ringway_shm::{Arena, Burst, Class, Frame};

/// Packets of at most this many bytes are moved to a small frame.
pub(crate) const COPY_MAX: usize = SMALL_BYTES - COPY_HEADROOM;
const COPY_HEADROOM: usize = 32;

/// See the module's text.
pub(crate) struct Inlet {
    arena: Arena,
    head: Option<Frame>,
    /// Behind `head`, the last one first.
    rest: Vec<Frame>,
    /// How many of `rest` the largest packet needs.
    rest_count: usize,
}

impl Inlet {
    /// Stands ready for packets of at most `packet_bytes`.
    pub(crate) fn new(arena: &Arena, packet_bytes: usize) -> Inlet {
        let behind = packet_bytes.saturating_sub(LARGE_BYTES - LARGE_HEADROOM as usize);
        let rest_count = behind.div_ceil(LARGE_BYTES);
        Inlet { arena: arena.clone(), head: None, rest: Vec::with_capacity(rest_count), rest_count }
    }

    /// The frames for the next packet (the second part in reverse order); `None`: the arena is used up.
    #[inline]
    pub(crate) fn frames(&mut self) -> Option<(&mut Frame, &mut [Frame])> {
        if self.head.is_none() {
            let mut frame = self.arena.alloc(Class::Large)?;
            let room = frame.tailroom();
            frame.extend(room);
            self.head = Some(frame);
        }
        while self.rest.len() < self.rest_count {
            let mut frame = self.arena.alloc(Class::Large)?;
            frame.reserve(0);
            frame.extend(LARGE_BYTES);
            self.rest.push(frame);
        }
        Some((self.head.as_mut()?, &mut self.rest))
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

    fn copy_small(&mut self, len: usize) -> Option<Frame> {
        if len > COPY_MAX {
            return None;
        }
        let mut small = self.arena.alloc(Class::Small)?;
        small.reserve(COPY_HEADROOM);
        small.extend(len).copy_from_slice(&self.head.as_ref()?.bytes()[..len]);
        Some(small)
    }
}

#[cfg(test)]
mod tests;
