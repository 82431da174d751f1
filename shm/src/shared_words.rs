//! Words that a process shares with the children that it forks.
//!
//! Promises: every word is an atomic inside the mapping, zero at first. The kernel keeps the memory until the last
//! process that has it ends, execs or drops it, so no death leaves anything behind. Any process that shares a word may
//! write anything there: what is read must be checked.

use std::io;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// A mapping of words; a forked child has the same memory under the same address.
#[derive(Debug)]
pub struct SharedWords {
    base: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the mapping is reached through atomics only and lives as long as this value.
unsafe impl Send for SharedWords {}
// SAFETY: as above.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// Maps `words` words, which take memory when they are first written.
    ///
    /// # Errors
    /// What the system says.
    pub fn new(words: usize) -> io::Result<SharedWords> {
        let bytes = words.checked_mul(size_of::<u64>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
        // SAFETY: a fresh mapping at an address of the kernel's choice; nothing of ours is replaced.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<AtomicU64>()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(SharedWords { base, words })
    }
}

impl Deref for SharedWords {
    type Target = [AtomicU64];

    #[inline]
    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has so many words, is aligned to pages, and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.words) }
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `new` made; no reference outlives `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.words * size_of::<u64>()) };
    }
}
