//! The arena: fixed slots of packet memory in two size classes, handed out as [`Frame`]s.
//!
//! All memory is taken at start. A slot is named by a `u32`; its bookkeeping (`SlotMeta`) lives in
//! a side array so that allocating or freeing never dirties a payload line. One thread owns an
//! arena and everything taken from it (`Arena` and `Frame` are `!Send`); references are counted
//! without atomics. The large slots come first, page aligned, so that the whole area can be
//! registered as the UMEM of an AF_XDP socket. Slot numbers behind those of the arena's own memory stand for bytes elsewhere:
//! see [`extent`](crate::extent).

use alloc::alloc::{alloc_zeroed, dealloc, handle_alloc_error};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::alloc::Layout;
use core::cell::Cell;
use core::ptr::NonNull;

use crate::extent::{Extent, extents_for};
use crate::frame::{Frame, SegmentationKind};
use crate::payload::Payload;
use crate::prefetch;
use crate::queue::Note;

/// Bytes in a large slot: one MTU-sized packet with headroom.
pub const LARGE_BYTES: usize = 2048;
/// Bytes in a small slot: headers, pure ACKs, small messages.
pub const SMALL_BYTES: usize = 256;
/// Headroom of a fresh large slot.
pub const LARGE_HEADROOM: u16 = 128;
/// Headroom of a fresh small slot.
pub const SMALL_HEADROOM: u16 = 128;
/// No slot.
pub(crate) const NIL: u32 = u32::MAX;

const ALIGNMENT: usize = 4096;
/// Bytes of a huge page: a large arena starts at one, so that the first slots, which are used most, share one.
const HUGE_ALIGNMENT: usize = 2 << 20;
/// Bytes of a cache line, and how many of a slot's are asked for ahead.
const LINE_BYTES: usize = 64;
const TOUCHED_LINES: usize = 3;
/// What the allocator aligns to without being asked: only then does it leave fresh memory untouched
/// instead of writing zeros, so that frames cost memory and time when they are first used.
const ALLOCATION_ALIGNMENT: usize = 16;

/// The two slot sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// [`SMALL_BYTES`]
    Small,
    /// [`LARGE_BYTES`]
    Large,
}

/// How many slots of each class to take.
#[derive(Clone, Copy, Debug)]
pub struct ArenaConfig {
    /// Slots of [`LARGE_BYTES`].
    pub large: u32,
    /// Slots of [`SMALL_BYTES`].
    pub small: u32,
}

/// What the arena knows of one slot: 32 bytes.
#[derive(Default)]
pub(crate) struct SlotMeta {
    pub(crate) next: Cell<u32>,
    pub(crate) offset: Cell<u16>,
    pub(crate) len: Cell<u16>,
    pub(crate) refs: Cell<u16>,
    /// How many of `refs` a device holds (AF_XDP rings).
    pub(crate) loans: Cell<u16>,
    pub(crate) segment_size: Cell<u16>,
    pub(crate) checksum_start: Cell<u16>,
    pub(crate) checksum_offset: Cell<u16>,
    pub(crate) segmentation: Cell<SegmentationKind>,
    pub(crate) flags: Cell<u8>,
    pub(crate) note: Cell<Note>,
}

/// The slot is linked in a `FrameQueue`, which owns one reference.
pub(crate) const FLAG_QUEUED: u8 = 1;
/// The checksum field holds only the pseudo-header sum; see `checksum_start`.
pub(crate) const FLAG_CHECKSUM_PARTIAL: u8 = 2;
/// The device vouches for the checksum.
pub(crate) const FLAG_CHECKSUM_VERIFIED: u8 = 4;
/// The bytes are read-only: they are outside the arena.
pub(crate) const FLAG_READ_ONLY: u8 = 8;
/// Another process may write to the bytes at any time, so they are never borrowed. Such bytes are `FLAG_READ_ONLY` too.
pub(crate) const FLAG_FOREIGN: u8 = 16;

impl SlotMeta {
    /// Returns true if the slot has one reference, and its holder may write to it.
    #[inline(always)]
    pub(crate) fn is_exclusive(&self) -> bool {
        self.refs.get() == 1 && self.flags.get() & FLAG_READ_ONLY == 0
    }
}

pub(crate) struct Inner {
    /// The first slot, page aligned, inside `allocation`.
    base: NonNull<u8>,
    /// Bytes from `base`, whole pages.
    bytes: usize,
    allocation: NonNull<u8>,
    layout: Layout,
    large: u32,
    /// Where a small slot with number 0 would be: so much more do the large ones take.
    small_skew: usize,
    /// Slots with memory of the arena's own.
    pub(crate) slots: u32,
    /// Of these and of the extents, which follow.
    pub(crate) meta: Box<[SlotMeta]>,
    pub(crate) extents: Box<[Extent]>,
    pub(crate) free_extents: Cell<u32>,
    pub(crate) free_extents_count: Cell<u32>,
    free_large: Cell<u32>,
    free_small: Cell<u32>,
    free_large_count: Cell<u32>,
    free_small_count: Cell<u32>,
    /// Numbers of free slots above which they are plenty; see [`Arena::set_plenty`].
    plenty_large: Cell<u32>,
    plenty_small: Cell<u32>,
    /// `Arena` handles plus frames alive; the memory goes when it reaches zero.
    pub(crate) owners: Cell<u64>,
}

/// A handle to the arena; cloning it shares the same memory on the same thread.
pub struct Arena {
    inner: NonNull<Inner>,
}

impl Arena {
    /// Takes the memory of all slots. It is zeroed and touched lazily by the operating system.
    ///
    /// # Panics
    /// When there is no memory, or more than 2^31 slots are asked for.
    pub fn new(config: ArenaConfig) -> Arena {
        let slots = config.large.checked_add(config.small).filter(|&n| n > 0 && n < 1 << 31).expect("slot count in range");
        let bytes = config.large as usize * LARGE_BYTES + config.small as usize * SMALL_BYTES;
        let bytes = bytes.next_multiple_of(ALIGNMENT);
        let alignment = if bytes >= HUGE_ALIGNMENT { HUGE_ALIGNMENT } else { ALIGNMENT };
        let layout = Layout::from_size_align(bytes + alignment, ALLOCATION_ALIGNMENT).expect("size in range");
        // SAFETY: the layout has a non-zero size, since there is at least one slot.
        let allocation = NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap_or_else(|| handle_alloc_error(layout));
        // SAFETY: the next boundary is less than `alignment` away, and there is that much more than `bytes`.
        let base = unsafe { allocation.add(allocation.as_ptr().align_offset(alignment)) };
        #[cfg(all(target_os = "linux", not(loom), not(miri)))]
        if alignment == HUGE_ALIGNMENT {
            crate::sys::prefer_huge_pages(base, bytes);
        }
        let extents = extents_for(config.large);
        let meta: Vec<SlotMeta> = (0..slots + extents).map(|_| SlotMeta::default()).collect();
        let extents: Vec<Extent> = (0..extents).map(|_| Extent::default()).collect();
        let inner = Inner {
            base,
            bytes,
            allocation,
            layout,
            large: config.large,
            small_skew: config.large as usize * (LARGE_BYTES - SMALL_BYTES),
            slots,
            meta: meta.into_boxed_slice(),
            extents: extents.into_boxed_slice(),
            free_extents: Cell::new(NIL),
            free_extents_count: Cell::new(0),
            free_large: Cell::new(NIL),
            free_small: Cell::new(NIL),
            free_large_count: Cell::new(0),
            free_small_count: Cell::new(0),
            plenty_large: Cell::new(0),
            plenty_small: Cell::new(0),
            owners: Cell::new(1),
        };
        for slot in (0..inner.meta.len() as u32).rev() {
            inner.put_free(slot);
        }
        Arena { inner: NonNull::from(Box::leak(Box::new(inner))) }
    }

    #[inline]
    pub(crate) fn inner(&self) -> &Inner {
        // SAFETY: `owners` counts this handle, so the Inner is alive.
        unsafe { self.inner.as_ref() }
    }

    /// An empty frame of `class` with the class's headroom, or `None` when the class is used up.
    #[inline]
    pub fn alloc(&self, class: Class) -> Option<Frame> {
        self.take(class)
    }

    /// As [`alloc`](Arena::alloc), where it is called.
    #[inline(always)]
    fn take(&self, class: Class) -> Option<Frame> {
        let inner = self.inner();
        let slot = inner.take_free(class)?;
        let meta = &inner.meta[slot as usize];
        meta.refs.set(1);
        meta.loans.set(0);
        meta.flags.set(0);
        meta.segmentation.set(SegmentationKind::None);
        let headroom = match class {
            Class::Large => LARGE_HEADROOM,
            Class::Small => SMALL_HEADROOM,
        };
        inner.owners.set(inner.owners.get() + 1);
        Some(Frame::from_parts(self.inner, slot, headroom, 0))
    }

    /// Asks for the memory of the frame that `alloc` would give next: its bookkeeping, and the lines that a small packet has.
    #[inline]
    pub fn touch_next(&self, class: Class) {
        let inner = self.inner();
        let slot = match class {
            Class::Large => inner.free_large.get(),
            Class::Small => inner.free_small.get(),
        };
        let Some(meta) = inner.meta.get(slot as usize) else { return };
        prefetch(meta);
        let start = inner.slot_pointer(slot);
        for line in 0..TOUCHED_LINES {
            // SAFETY: every slot of the arena's own memory has so many bytes, and a free one is not written to.
            prefetch(unsafe { &*start.add(line * LINE_BYTES) });
        }
    }

    /// A frame of `class` over `len` bytes behind the class's headroom, which `fill` writes; with what that returns. `None`
    /// when the class is used up.
    ///
    /// # Panics
    /// When a slot of the class has no such room.
    #[inline(always)]
    pub fn alloc_filled<R>(&self, class: Class, len: usize, fill: impl FnOnce(&mut [u8]) -> R) -> Option<(Frame, R)> {
        let mut frame = self.take(class)?;
        let slot = frame.slot() as usize;
        // As `slot_offset`, without asking for the class.
        let (bytes, offset) = match class {
            Class::Large => (LARGE_BYTES, slot * LARGE_BYTES),
            Class::Small => (SMALL_BYTES, self.inner().small_skew + slot * SMALL_BYTES),
        };
        debug_assert_eq!(offset, self.inner().slot_offset(frame.slot()));
        assert!(frame.headroom() + len <= bytes, "room for the bytes");
        frame.grow(len);
        // SAFETY: a frame that was just allocated is the only one of its slot, which is of the arena's own memory, and its
        // bytes end inside the slot as asserted.
        let result = fill(unsafe {
            let start = self.inner().base.as_ptr().add(offset + frame.headroom());
            core::slice::from_raw_parts_mut(start, len)
        });
        Some((frame, result))
    }

    /// A frame that holds a copy of `bytes`, in the smallest class that fits; `None` when it is used
    /// up or the bytes do not fit a large slot.
    pub fn alloc_from<'a>(&self, bytes: impl Into<Payload<'a>>) -> Option<Frame> {
        self.alloc_copy(bytes.into())
    }

    fn alloc_copy(&self, bytes: Payload<'_>) -> Option<Frame> {
        let small = bytes.len() <= SMALL_BYTES - SMALL_HEADROOM as usize;
        let mut frame = self.alloc(if small { Class::Small } else { Class::Large })?;
        if bytes.len() > frame.tailroom() {
            return None;
        }
        bytes.copy_to(frame.extend(bytes.len()));
        Some(frame)
    }

    /// Whether a frame is one of this arena's.
    #[inline]
    pub fn owns(&self, frame: &Frame) -> bool {
        self.inner == frame.arena_pointer()
    }

    #[inline]
    pub(crate) fn inner_pointer(&self) -> NonNull<Inner> {
        self.inner
    }

    /// Slots of `class` that are free now.
    #[inline]
    pub fn free(&self, class: Class) -> u32 {
        match class {
            Class::Large => self.inner().free_large_count.get(),
            Class::Small => self.inner().free_small_count.get(),
        }
    }

    /// Sets the numbers of free slots, large and small, above which they are [plenty](Arena::is_plenty).
    pub fn set_plenty(&self, large: u32, small: u32) {
        self.inner().plenty_large.set(large);
        self.inner().plenty_small.set(small);
    }

    /// Returns true when more slots of both classes are free than [`set_plenty`](Arena::set_plenty) has said.
    #[inline(always)]
    pub fn is_plenty(&self) -> bool {
        let inner = self.inner();
        inner.free_large_count.get() > inner.plenty_large.get() && inner.free_small_count.get() > inner.plenty_small.get()
    }

    /// Slots of `class` in all.
    pub fn capacity(&self, class: Class) -> u32 {
        match class {
            Class::Large => self.inner().large,
            Class::Small => self.inner().slots - self.inner().large,
        }
    }

    /// Start and length of the whole memory, for registration as UMEM. The area stays mapped until
    /// the last `Arena` and `Frame` are gone.
    pub fn area(&self) -> (*mut u8, usize) {
        (self.inner().base.as_ptr(), self.inner().bytes)
    }

    /// Takes back one reference that [`Frame::into_device`] lent, as the frame that covers `len`
    /// bytes at `address`. `None` when the address is outside the arena, the range does not lie in
    /// one slot, or nothing of that slot is lent.
    pub fn from_device(&self, address: u64, len: u32) -> Option<Frame> {
        let inner = self.inner();
        let (slot, offset) = inner.locate(address)?;
        let meta = &inner.meta[slot as usize];
        if meta.loans.get() == 0 || offset as usize + len as usize > inner.slot_bytes(slot) {
            return None;
        }
        meta.loans.set(meta.loans.get() - 1);
        Some(Frame::from_parts(self.inner, slot, offset, len as u16))
    }
}

impl Inner {
    #[inline(always)]
    pub(crate) fn slot_bytes(&self, slot: u32) -> usize {
        if slot < self.large {
            LARGE_BYTES
        } else if slot < self.slots {
            SMALL_BYTES
        } else {
            self.extent(slot).len.get() as usize
        }
    }

    #[inline]
    pub(crate) fn slot_offset(&self, slot: u32) -> usize {
        // Small slots are numbered behind the large ones, and lie behind them.
        if slot < self.large { slot as usize * LARGE_BYTES } else { self.small_skew + slot as usize * SMALL_BYTES }
    }

    #[inline]
    pub(crate) fn slot_pointer(&self, slot: u32) -> *mut u8 {
        let offset = match slot {
            slot if slot < self.large => slot as usize * LARGE_BYTES,
            slot if slot < self.slots => self.small_skew + slot as usize * SMALL_BYTES,
            slot => return self.extent(slot).place.get(),
        };
        // SAFETY: every slot below `slots` lies inside the allocation.
        unsafe { self.base.as_ptr().add(offset) }
    }

    /// As [`slot_pointer`](Inner::slot_pointer), of memory that is this process's alone.
    ///
    /// # Panics
    /// When another process may write to it: our own mistake, since such bytes are to be had as [`Payload`] only.
    #[inline]
    pub(crate) fn own_pointer(&self, slot: u32) -> *mut u8 {
        let offset = match slot {
            slot if slot < self.large => slot as usize * LARGE_BYTES,
            slot if slot < self.slots => self.small_skew + slot as usize * SMALL_BYTES,
            slot => {
                let extent = self.extent(slot);
                assert!(!extent.is_foreign.get(), "bytes that another process may change are not borrowed");
                return extent.place.get();
            }
        };
        // SAFETY: every slot below `slots` lies inside the allocation.
        unsafe { self.base.as_ptr().add(offset) }
    }

    fn locate(&self, address: u64) -> Option<(u32, u16)> {
        let large_bytes = self.large as u64 * LARGE_BYTES as u64;
        if address < large_bytes {
            return Some(((address / LARGE_BYTES as u64) as u32, (address % LARGE_BYTES as u64) as u16));
        }
        let past = address - large_bytes;
        let slot = self.large as u64 + past / SMALL_BYTES as u64;
        (slot < self.slots as u64).then(|| (slot as u32, (past % SMALL_BYTES as u64) as u16))
    }

    #[inline(always)]
    fn take_free(&self, class: Class) -> Option<u32> {
        let (head, count) = match class {
            Class::Large => (&self.free_large, &self.free_large_count),
            Class::Small => (&self.free_small, &self.free_small_count),
        };
        let slot = head.get();
        if slot == NIL {
            return None;
        }
        head.set(self.meta[slot as usize].next.get());
        count.set(count.get() - 1);
        Some(slot)
    }

    #[inline]
    pub(crate) fn put_free(&self, slot: u32) {
        self.put_free_slot(slot, &self.meta[slot as usize]);
    }

    /// As [`put_free`](Inner::put_free) for callers that have the slot's bookkeeping at hand.
    #[inline]
    pub(crate) fn put_free_slot(&self, slot: u32, meta: &SlotMeta) {
        let (head, count) = if slot < self.large {
            (&self.free_large, &self.free_large_count)
        } else if slot < self.slots {
            (&self.free_small, &self.free_small_count)
        } else {
            self.end_extent(slot);
            (&self.free_extents, &self.free_extents_count)
        };
        meta.next.set(head.get());
        head.set(slot);
        count.set(count.get() + 1);
    }

    /// One owner less; frees everything with the last.
    ///
    /// # Safety
    /// `this` came from `Arena::new`, and the caller gives up one counted owner.
    #[inline]
    pub(crate) unsafe fn release_owner(this: NonNull<Inner>) {
        // SAFETY: the caller still counts as an owner, so the Inner is alive.
        let inner = unsafe { this.as_ref() };
        let owners = inner.owners.get() - 1;
        inner.owners.set(owners);
        if owners == 0 {
            // SAFETY: the caller was the last owner.
            unsafe { Inner::end(this) };
        }
    }

    /// Gives the memory back.
    ///
    /// # Safety
    /// `this` came from `Arena::new`, and has no owner any more.
    #[cold]
    #[inline(never)]
    unsafe fn end(this: NonNull<Inner>) {
        // SAFETY: no owner is left; `this` came from Box::leak in `Arena::new`.
        let inner = unsafe { Box::from_raw(this.as_ptr()) };
        // SAFETY: allocated with exactly this layout in `Arena::new`.
        unsafe { dealloc(inner.allocation.as_ptr(), inner.layout) };
    }

    /// A reference to `slot` and the ownership that it stood for are given up; the caller holds another one, so that the
    /// arena lives on.
    #[inline]
    pub(crate) fn release_reference(&self, slot: u32, meta: &SlotMeta) {
        let refs = meta.refs.get() - 1;
        meta.refs.set(refs);
        if refs == 0 {
            self.put_free_slot(slot, meta);
        }
        self.owners.set(self.owners.get() - 1);
    }
}

impl Clone for Arena {
    fn clone(&self) -> Arena {
        self.inner().owners.set(self.inner().owners.get() + 1);
        Arena { inner: self.inner }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: this handle was counted and is gone after this line.
        unsafe { Inner::release_owner(self.inner) }
    }
}

#[cfg(test)]
mod tests;
