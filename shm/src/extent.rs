//! Extents: frames over bytes that are not the arena's: a program's chunk, content that is sent many times, one large read.
//!
//! An extent is a slot without memory of its own. Its frames are like all others: shared, queued, noted, dropped; with the last
//! of them the bytes go back to their lender (`Backing`), which is kept alive until then. At most 65,535 bytes each,
//! since a frame counts in 16 bits. Promises: no frame writes to bytes that were lent for reading; bytes that
//! another process may change (`Access::Foreign`) are copied, summed or shown to the kernel, and never borrowed. Does not
//! promise that such bytes keep still: a program may change its own chunk while it is sent, and so spoil its own stream
//! (as with MSG_ZEROCOPY); nothing is decided by what they say.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::cell::Cell;
use core::ops::{Deref, Range};
use core::ptr::{NonNull, null_mut};

use crate::arena::{Arena, FLAG_FOREIGN, FLAG_READ_ONLY, Inner, NIL};
use crate::frame::{Frame, SegmentationKind};
use crate::payload::Payload;

/// Bytes of an extent, at most.
pub const EXTENT_BYTES_MAX: usize = u16::MAX as usize;
/// Extents of an arena, at most; it has as many as large slots up to this.
const EXTENTS_MAX: u32 = 4096;

/// A lender of bytes to extents.
pub trait Backing: Send + Sync {
    /// The last frame over the bytes that `token` names is gone.
    fn release(&self, token: u32);
}

/// What an arena knows of one extent.
pub(crate) struct Extent {
    pub(crate) place: Cell<*mut u8>,
    pub(crate) len: Cell<u16>,
    /// As `FLAG_FOREIGN`.
    pub(crate) is_foreign: Cell<bool>,
    token: Cell<u32>,
    backing: Cell<Option<Arc<dyn Backing>>>,
}

impl Default for Extent {
    fn default() -> Extent {
        Extent {
            place: Cell::new(null_mut()),
            len: Cell::new(0),
            is_foreign: Cell::new(false),
            token: Cell::new(0),
            backing: Cell::new(None),
        }
    }
}

/// What may be done with the bytes of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// They never change while a frame is left.
    Read,
    /// They are the only frame's alone, as in a slot of the arena.
    Write,
    /// Another process may write to them at any time. Frames read them; to be written they need a [`Room`](crate::Room).
    Foreign,
}

impl Access {
    fn flags(self) -> u8 {
        match self {
            Access::Read => FLAG_READ_ONLY,
            Access::Write => 0,
            Access::Foreign => FLAG_READ_ONLY | FLAG_FOREIGN,
        }
    }
}

/// How many extents an arena with `large` large slots has.
pub(crate) fn extents_for(large: u32) -> u32 {
    large.min(EXTENTS_MAX)
}

impl Arena {
    /// A frame over `bytes`. `None`: all extents are in use, or it would be too long.
    ///
    /// # Safety
    /// The bytes are readable until `backing` is told of `token`, and what `access` says of others is true until then; the
    /// backing keeps their memory alive.
    pub unsafe fn extent_over(
        &self,
        bytes: NonNull<[u8]>,
        access: Access,
        backing: Arc<dyn Backing>,
        token: u32,
    ) -> Option<Frame> {
        let len = u16::try_from(bytes.len()).ok()?;
        let inner = self.inner();
        let slot = inner.take_free_extent()?;
        let extent = inner.extent(slot);
        extent.place.set(bytes.cast().as_ptr());
        extent.len.set(len);
        extent.is_foreign.set(access == Access::Foreign);
        extent.token.set(token);
        extent.backing.set(Some(backing));
        let meta = &inner.meta[slot as usize];
        meta.refs.set(1);
        meta.loans.set(0);
        meta.flags.set(access.flags());
        meta.segmentation.set(SegmentationKind::None);
        inner.owners.set(inner.owners.get() + 1);
        Some(Frame::from_parts(self.inner_pointer(), slot, 0, len))
    }

    /// A frame over a part of `content`, without a copy. `None`: all extents are in use.
    ///
    /// # Panics
    /// When the range is not inside the content, or longer than [`EXTENT_BYTES_MAX`].
    pub fn frame_of(&self, content: &Content, range: Range<usize>) -> Option<Frame> {
        let bytes = &content.0.0[range];
        assert!(bytes.len() <= EXTENT_BYTES_MAX, "a frame counts in 16 bits");
        // SAFETY: the bytes are never written while the content exists, and the extent holds a reference to it.
        unsafe { self.extent_over(NonNull::from(bytes), Access::Read, content.0.clone(), 0) }
    }

    /// Extents that are free now.
    #[inline]
    pub fn free_extents(&self) -> u32 {
        self.inner().free_extents_count.get()
    }

    /// Extents in all.
    pub fn extents(&self) -> u32 {
        self.inner().extents.len() as u32
    }

    /// Gives up what lies behind the bytes of an extent's frame: there is no tailroom any more.
    pub(crate) fn end_extent_behind(&self, frame: &Frame) {
        if !frame.is_in_area() {
            self.inner().extent(frame.slot()).len.set((frame.headroom() + frame.len()) as u16);
        }
    }
}

impl Frame {
    /// The frame, over a copy of its bytes in memory of this process if they were [foreign](Frame::is_foreign).
    ///
    /// # Errors
    /// The frame: its bytes are foreign, and other frames share them.
    pub fn into_own(self) -> Result<Frame, Frame> {
        if !self.is_foreign() {
            return Ok(self);
        }
        if !self.is_alone() {
            return Err(self);
        }
        let extent = self.inner().extent(self.slot());
        let Some(place) = NonNull::new(extent.place.get()) else { return Err(self) };
        // SAFETY: the extent's bytes are there until its backing is told, below.
        let copy = Arc::new(Bytes(unsafe { Payload::new(place, extent.len.get().into()) }.to_vec().into()));
        // This frame is the only one over the extent, and not borrowed: nothing in this process points to its old bytes.
        extent.place.set(copy.0.as_ptr().cast_mut());
        extent.is_foreign.set(false);
        let lender = extent.backing.replace(Some(copy));
        let token = extent.token.replace(0);
        self.meta().flags.set(self.meta().flags.get() & !FLAG_FOREIGN);
        if let Some(lender) = lender {
            lender.release(token);
        }
        Ok(self)
    }
}

impl Inner {
    #[inline]
    pub(crate) fn extent(&self, slot: u32) -> &Extent {
        &self.extents[(slot - self.slots) as usize]
    }

    fn take_free_extent(&self) -> Option<u32> {
        let slot = self.free_extents.get();
        if slot == NIL {
            return None;
        }
        self.free_extents.set(self.meta[slot as usize].next.get());
        self.free_extents_count.set(self.free_extents_count.get() - 1);
        Some(slot)
    }

    /// Gives the bytes of an extent back to their lender.
    #[cold]
    #[inline(never)]
    pub(crate) fn end_extent(&self, slot: u32) {
        let extent = self.extent(slot);
        if let Some(backing) = extent.backing.take() {
            backing.release(extent.token.get());
        }
    }
}

/// Bytes that are filled once, never change, and are sent as often as one likes without a copy. Cloning it shares them.
#[derive(Clone)]
pub struct Content(Arc<Bytes>);

struct Bytes(Box<[u8]>);

impl Backing for Bytes {
    fn release(&self, _: u32) {}
}

impl Content {
    /// Takes the bytes.
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Content {
        Content(Arc::new(Bytes(bytes.into())))
    }

    /// How many share it: clones of it, and frames that are queued or on their way.
    pub fn references(&self) -> usize {
        Arc::strong_count(&self.0)
    }
}

impl Deref for Content {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0.0
    }
}

impl core::fmt::Debug for Content {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Content({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests;
