//! A file mapped as words that several processes share: the ground under statistics and capture.
//!
//! Promises: every access is an atomic load or store of one aligned word inside the mapping. Does
//! not do: layout, consistency of several words. A file that its writer cuts short while it is
//! mapped ends the reader (SIGBUS); our writers never do.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

const WORD: usize = size_of::<u64>();

/// A shared mapping of a whole file.
#[derive(Debug)]
pub struct FileMap {
    base: NonNull<AtomicU64>,
    words: usize,
    writable: bool,
    file: File,
}

/// What may be done with a file that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It is read.
    Read,
    /// It is read and written.
    Write,
}

// SAFETY: the mapping is reached through atomics only and lives as long as this value.
unsafe impl Send for FileMap {}
// SAFETY: as above.
unsafe impl Sync for FileMap {}

impl FileMap {
    /// Makes a zeroed file of `words` words with access `mode`, in place of one that is there, and maps it.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(path: &Path, words: usize, mode: u32) -> io::Result<FileMap> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(mode).open(path)?;
        file.set_len((words * WORD) as u64)?;
        FileMap::map(file, words, Mode::Write)
    }

    /// Maps a file that is there.
    ///
    /// # Errors
    /// What the system says; a file that is too large or no multiple of a word.
    pub fn open(path: &Path, mode: Mode) -> io::Result<FileMap> {
        let file = OpenOptions::new().read(true).write(mode == Mode::Write).open(path)?;
        let bytes = usize::try_from(file.metadata()?.len()).map_err(|_| io::ErrorKind::InvalidData)?;
        if bytes == 0 || bytes % WORD != 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        FileMap::map(file, bytes / WORD, mode)
    }

    fn map(file: File, words: usize, mode: Mode) -> io::Result<FileMap> {
        let writable = mode == Mode::Write;
        let protection = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        // SAFETY: a fresh shared mapping at an address of the kernel's choice; nothing of ours is replaced.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), words * WORD, protection, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<AtomicU64>()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(FileMap { base, words, writable, file })
    }

    /// Words in the mapping.
    #[inline]
    pub fn words(&self) -> usize {
        self.words
    }

    /// The file behind it.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Reads word `index`.
    ///
    /// # Panics
    /// When it is outside the mapping.
    #[inline]
    pub fn load(&self, index: usize, ordering: Ordering) -> u64 {
        assert!(index < self.words, "inside the mapping");
        // SAFETY: the index was checked, the mapping is aligned to pages and alive; atomic loads are
        // good on a read-only page.
        unsafe { self.base.add(index).as_ref() }.load(ordering)
    }

    /// The words from `index` on, to be changed.
    ///
    /// # Panics
    /// When they are outside the mapping, or it is mapped read-only.
    #[inline]
    pub fn atomics(&self, index: usize, count: usize) -> &[AtomicU64] {
        assert!(self.writable, "mapped for writing");
        assert!(index <= self.words && count <= self.words - index, "inside the mapping");
        // SAFETY: the range was checked; the mapping is aligned, writable and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.base.add(index).as_ptr(), count) }
    }
}

impl Drop for FileMap {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `map` made; no reference outlives `self`.
        let result = unsafe { libc::munmap(self.base.as_ptr().cast(), self.words * WORD) };
        debug_assert_eq!(result, 0, "the range is a mapping");
    }
}
