//! Which frames the kernel holds: every loan is written down, so that only what was lent comes back
//! and everything comes back in the end.

use ringway_shm::arena::SMALL_BYTES;
use ringway_shm::{Arena, Frame};

pub(super) struct FrameAccounting {
    arena: Arena,
    /// Loans per 256 bytes of the arena; only the place where a slot starts is used for large slots.
    lent: Vec<u16>,
}

/// Where a slot's loans are counted. Large slots are counted at their first 256 bytes.
fn place(address: u64, large_end: u64) -> usize {
    let start = if address < large_end { address & !(super::CHUNK_BYTES as u64 - 1) } else { address };
    (start / SMALL_BYTES as u64) as usize
}

impl FrameAccounting {
    pub(super) fn new(arena: &Arena) -> FrameAccounting {
        FrameAccounting { arena: arena.clone(), lent: vec![0; arena.area().1 / SMALL_BYTES + 1] }
    }

    fn large_end(&self) -> u64 {
        u64::from(self.arena.capacity(ringway_shm::Class::Large)) * super::CHUNK_BYTES as u64
    }

    /// Lends `frame`: its address in the arena and its length.
    #[inline]
    pub(super) fn lend(&mut self, frame: Frame) -> (u64, u32) {
        let (address, len) = frame.into_device();
        let place = place(address, self.large_end());
        self.lent[place] += 1;
        (address, len)
    }

    /// Takes back the loan at `address` as a frame of `len` bytes there. `None`: it was not lent, or
    /// the bytes do not lie in one slot.
    #[inline]
    pub(super) fn take_back(&mut self, address: u64, len: u32) -> Option<Frame> {
        let place = place(address, self.large_end());
        let count = self.lent.get_mut(place).filter(|count| **count > 0)?;
        let frame = self.arena.from_device(address, len)?;
        *count -= 1;
        Some(frame)
    }

    /// Takes everything back. Only when the kernel no longer touches any of it.
    pub(super) fn take_back_all(&mut self) {
        for place in 0..self.lent.len() {
            while self.take_back((place * SMALL_BYTES) as u64, 0).is_some() {}
        }
    }
}
