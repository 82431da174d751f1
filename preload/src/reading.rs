//! Files and their paths, read past libc and onto the stack: before exec in a child of `fork`, and before the program's own code.

use libc::{c_char, c_int, c_long};
use ringway_posix::Errno;
use ringway_shm::system_call::system_call;
use std::mem::MaybeUninit;

const PATH_BYTES: usize = 4096;

/// A path on the stack, with the NUL behind it.
pub(crate) struct PathBuffer {
    pub(crate) bytes: [u8; PATH_BYTES],
    pub(crate) len: usize,
}

impl PathBuffer {
    pub(crate) const fn new() -> PathBuffer {
        PathBuffer { bytes: [0; PATH_BYTES], len: 0 }
    }

    /// `None`: too long.
    pub(crate) fn push(&mut self, part: &[u8]) -> Option<()> {
        let end = self.len.checked_add(part.len()).filter(|end| *end < PATH_BYTES)?;
        self.bytes[self.len..end].copy_from_slice(part);
        self.bytes[end] = 0;
        self.len = end;
        Some(())
    }

    pub(crate) fn as_ptr(&self) -> *const c_char {
        self.bytes.as_ptr().cast()
    }
}

/// A descriptor that is closed at the end.
pub(crate) struct File(c_long);

impl File {
    /// # Errors
    /// Why it cannot be read.
    pub(crate) fn open(directory: c_int, path: *const c_char) -> Result<File, Errno> {
        let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK;
        // SAFETY: the caller's C string; the kernel says EFAULT where it is none.
        let fd = unsafe { system_call(libc::SYS_openat, [directory.into(), path as c_long, flags.into(), 0, 0, 0]) };
        if fd < 0 { Err(Errno(-fd as c_int)) } else { Ok(File(fd)) }
    }

    /// The bytes at `offset`, as many as there are.
    pub(crate) fn read<'a>(&self, offset: u64, room: &'a mut [MaybeUninit<u8>]) -> &'a [u8] {
        let Ok(offset) = c_long::try_from(offset) else { return &[] };
        let (at, len) = (room.as_mut_ptr(), room.len());
        // SAFETY: `room` is a local of the caller's.
        let count = unsafe { system_call(libc::SYS_pread64, [self.0, at as c_long, len as c_long, offset, 0, 0]) };
        // SAFETY: the kernel has written so many bytes.
        usize::try_from(count).map_or(&[], |count| unsafe { std::slice::from_raw_parts(at.cast(), count.min(len)) })
    }

    /// What fstat(2) says; `None`: nothing.
    pub(crate) fn status(&self) -> Option<libc::stat> {
        let mut status = MaybeUninit::<libc::stat>::uninit();
        // Which system call this is depends on libc, and so does a filter of system calls that lets programs start.
        // SAFETY: a local.
        if unsafe { libc::fstat(self.0 as c_int, status.as_mut_ptr()) } != 0 {
            return None;
        }
        // SAFETY: the kernel has filled it.
        Some(unsafe { status.assume_init() })
    }

    /// Are there capabilities on the file?
    pub(crate) fn has_capabilities(&self) -> bool {
        let name = c"security.capability".as_ptr() as c_long;
        // SAFETY: asks for the length only.
        unsafe { system_call(libc::SYS_fgetxattr, [self.0, name, 0, 0, 0, 0]) > 0 }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: it is this value's own.
        unsafe { system_call(libc::SYS_close, [self.0, 0, 0, 0, 0, 0]) };
    }
}
