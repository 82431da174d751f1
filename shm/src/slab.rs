//! Slabs: room for packets of up to 64 KiB in one piece, handed out as frames one behind the other.
//!
//! A slab is used again from its start when the last frame in it is gone; the lowest free one first, because the processor's
//! cache still has it. All memory is taken at start and touched when it is first used. Promises: frames never overlap, and
//! each is its only holder's to write. A small frame that is kept keeps its whole slab: when all are kept there are no more
//! frames, and the caller needs another way.

use alloc::alloc::{alloc_zeroed, dealloc, handle_alloc_error};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::arena::Arena;
use crate::extent::{Access, Backing, EXTENT_BYTES_MAX};
use crate::frame::Frame;

/// Bytes of a slab: several of the largest packets.
const SLAB_BYTES: usize = 256 << 10;
/// Frames begin at multiples of this: no two on one cache line.
const ALIGNMENT: usize = 64;
const ALLOCATION_ALIGNMENT: usize = 16;

/// See the module's text.
pub struct Slabs {
    arena: Arena,
    memory: Arc<Memory>,
    current: usize,
    /// Where the next frame begins in the current slab.
    at: usize,
}

struct Memory {
    allocation: NonNull<u8>,
    layout: Layout,
    /// Frames in each slab.
    frames: Box<[AtomicU32]>,
}

// SAFETY: the memory is reached only through frames, each of which is its bytes' only one; the counts are atomics.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Backing for Memory {
    fn release(&self, slab: u32) {
        self.frames[slab as usize].fetch_sub(1, Ordering::Release);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated with exactly this layout in `Slabs::new`; frames keep the memory alive, so none is left.
        unsafe { dealloc(self.allocation.as_ptr(), self.layout) };
    }
}

impl Slabs {
    /// Takes memory for `count` slabs, whose frames are of `arena`.
    ///
    /// # Panics
    /// When there is no memory, or `count` is zero.
    pub fn new(arena: &Arena, count: usize) -> Slabs {
        assert!(count > 0, "at least one slab");
        let layout = Layout::from_size_align(count * SLAB_BYTES + ALIGNMENT, ALLOCATION_ALIGNMENT).expect("size in range");
        // SAFETY: the layout has a non-zero size, since there is at least one slab.
        let allocation = NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap_or_else(|| handle_alloc_error(layout));
        let frames = (0..count).map(|_| AtomicU32::new(0)).collect();
        Slabs { arena: arena.clone(), memory: Arc::new(Memory { allocation, layout, frames }), current: 0, at: 0 }
    }

    /// A frame of `len` bytes, to be written; what they are now is of no meaning. `None`: no slab or no extent is free.
    /// When it is known how many of them are needed, [`fit`](Self::fit) gives the rest back.
    ///
    /// # Panics
    /// When `len` is more than an extent holds.
    pub fn take(&mut self, len: usize) -> Option<Frame> {
        assert!(len <= EXTENT_BYTES_MAX, "a frame counts in 16 bits");
        let frames = &self.memory.frames;
        if frames[self.current].load(Ordering::Acquire) == 0 {
            self.at = 0;
        }
        if self.at + len > SLAB_BYTES {
            self.current = frames.iter().position(|count| count.load(Ordering::Acquire) == 0)?;
            self.at = 0;
        }
        let base = self.memory.allocation;
        let start = base.as_ptr().align_offset(ALIGNMENT) + self.current * SLAB_BYTES + self.at;
        // SAFETY: the slab has `len` bytes from `at` on, and there is room for the alignment in the allocation.
        let bytes = NonNull::slice_from_raw_parts(unsafe { base.add(start) }, len);
        frames[self.current].fetch_add(1, Ordering::Relaxed);
        // SAFETY: `at` is behind all frames that live in this slab, so the bytes are this one's; the memory is kept alive.
        let frame = unsafe { self.arena.extent_over(bytes, Access::Write, self.memory.clone(), self.current as u32) };
        match frame {
            Some(_) => self.at = (self.at + len).next_multiple_of(ALIGNMENT),
            None => self.memory.release(self.current as u32),
        }
        frame
    }

    /// Takes back what the frame that was taken last does not cover any more.
    ///
    /// # Panics
    /// When it is not a frame of the current slab.
    pub fn fit(&mut self, last: &Frame) {
        let base = self.memory.allocation;
        let slab = base.as_ptr() as usize + base.as_ptr().align_offset(ALIGNMENT) + self.current * SLAB_BYTES;
        let end = (last.payload().as_ptr() as usize + last.len()).checked_sub(slab).filter(|&end| end <= self.at);
        let end = end.expect("a frame of the current slab");
        self.arena.end_extent_behind(last);
        self.at = end.next_multiple_of(ALIGNMENT);
    }
}

#[cfg(test)]
mod tests;
