//! One mapping of a sealed memory file that two parties share.
//!
//! Promises that every access lies inside the mapping and that every shared word is an atomic.
//! The other party may change any byte at any time: what is read is copied out once, checked, and
//! the copy used. Does not know what lies where; the crate `channel` does (`layout`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use crate::copy::copy;
use crate::payload::Payload;
use crate::sync::{AtomicU32, AtomicU64};
use crate::sys;

/// Types that may be looked at in place although another process writes to them.
///
/// # Safety
/// The type consists of atomics only (any bit pattern is valid, no padding that matters), and its
/// alignment is at most 64.
pub unsafe trait Shared {}

// SAFETY: an atomic.
unsafe impl Shared for AtomicU32 {}
// SAFETY: an atomic.
unsafe impl Shared for AtomicU64 {}

/// A mapping; unmapped when dropped.
pub struct Region {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping is reachable from any thread; all shared words are atomics, and payload is
// copied by raw pointers, or lent by the crate `channel` (`client::loan`) to the
// one holder of its chunk.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Makes a new memory file of `bytes` bytes and maps it.
    pub fn create(bytes: usize) -> io::Result<(Region, OwnedFd)> {
        let fd = sys::sealed_memory(bytes)?;
        let base = sys::map(fd.as_fd(), bytes)?;
        Ok((Region { base, bytes }, fd))
    }

    /// Maps a memory file of the other party, if it has exactly the size and the seals that were
    /// agreed: then it can neither shrink under us nor be anything but memory.
    pub fn attach(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<Region> {
        if !sys::is_sealed(fd, bytes)? {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the region is not a sealed memory file of the agreed size"));
        }
        Ok(Region { base: sys::map(fd, bytes)?, bytes })
    }

    /// Gives the memory up: zeros of this process alone take its place, and cost nothing until they are written.
    pub fn forget(&self) {
        // SAFETY: the mapping stays, whole. The other party may write anything at any time, zeros too.
        unsafe { sys::replace_by_zeros(self.base, self.bytes) };
    }

    /// The shared value at `offset`.
    ///
    /// # Panics
    /// When it would not lie inside the region or is not aligned: our own mistake.
    #[inline]
    pub fn at<T: Shared>(&self, offset: usize) -> &T {
        assert!(offset.is_multiple_of(align_of::<T>()) && offset <= self.bytes && self.bytes - offset >= size_of::<T>());
        // SAFETY: inside the mapping, aligned (the mapping is page aligned), and `T: Shared`.
        unsafe { self.base.add(offset).cast::<T>().as_ref() }
    }

    /// `count` shared values from `offset` on.
    ///
    /// # Panics
    /// When they would not lie inside the region or are not aligned: our own mistake.
    pub fn slice<T: Shared>(&self, offset: usize, count: usize) -> &[T] {
        assert!(
            offset.is_multiple_of(align_of::<T>()) && offset <= self.bytes && (self.bytes - offset) / size_of::<T>() >= count
        );
        // SAFETY: inside the mapping, aligned (the mapping is page aligned), and `T: Shared`.
        unsafe { std::slice::from_raw_parts(self.base.add(offset).cast::<T>().as_ptr(), count) }
    }

    /// Copies `bytes` to `offset`.
    ///
    /// # Panics
    /// When it would not lie inside the region.
    #[inline]
    pub fn write<'a>(&self, offset: usize, bytes: impl Into<Payload<'a>>) {
        let bytes = bytes.into();
        assert!(offset <= self.bytes && self.bytes - offset >= bytes.len());
        // SAFETY: the target lies inside the mapping. `bytes` is other memory, or of a chunk that a frame of this process stands
        // for, to which nothing is copied while it does: they are apart.
        unsafe { copy(bytes.as_ptr(), self.base.as_ptr().add(offset), bytes.len()) };
    }

    /// As [`read`](Self::read); the ones'-complement sum of what was copied, in the same pass.
    ///
    /// # Panics
    /// When it would not lie inside the region.
    #[inline]
    pub fn read_and_sum(&self, offset: usize, bytes: &mut [u8]) -> u16 {
        assert!(offset <= self.bytes && self.bytes - offset >= bytes.len());
        // SAFETY: as in `read`.
        unsafe { crate::sum::copy_raw(bytes.as_mut_ptr(), self.base.as_ptr().add(offset), bytes.len()) }
    }

    /// Where `count` bytes from `offset` on lie, for callers that lend or fill them in place.
    ///
    /// # Panics
    /// When they would not lie inside the region.
    #[inline]
    pub fn place(&self, offset: usize, count: usize) -> NonNull<u8> {
        assert!(offset <= self.bytes && self.bytes - offset >= count);
        // SAFETY: inside the mapping.
        unsafe { self.base.add(offset) }
    }

    /// Copies from `offset` to `bytes`.
    ///
    /// # Panics
    /// When it would not lie inside the region.
    #[inline]
    pub fn read(&self, offset: usize, bytes: &mut [u8]) {
        assert!(offset <= self.bytes && self.bytes - offset >= bytes.len());
        // SAFETY: the source lies inside the mapping; `bytes` is ordinary memory, so they are apart.
        // A torn read gives wrong bytes of the party that tears, never anything worse.
        unsafe { copy(self.base.as_ptr().add(offset), bytes.as_mut_ptr(), bytes.len()) };
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: every reference that `at` gave borrows this Region, so none is left.
        unsafe { sys::unmap(self.base, self.bytes) }
    }
}
