//! The system calls of this crate: memory files, mappings, event descriptors. Thin, owned types in and out; no policy.
//!
//! What is done to descriptors that the program must not touch (the doorbell) goes straight to the kernel ([`system_call`]), not by
//! libc's names for it: inside a preloaded program libc's names are ours, and they protect those descriptors.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;

use libc::c_long;

use crate::system_call::system_call;

const SEALS: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

/// What a call of libc answers: minus one says that errno has the error.
pub fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The descriptor that a call of libc has made, or its error.
pub fn own(result: libc::c_int) -> io::Result<OwnedFd> {
    let fd = check(result)?;
    // SAFETY: the kernel has just made this descriptor for us; nothing else refers to it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The name by which a region stands among a process's mappings (`/memfd:NAME`).
pub const REGION_FILE: &CStr = c"ringway-region";

/// A memory file of exactly `bytes` zero bytes that can never change its size.
pub fn sealed_memory(bytes: usize) -> io::Result<OwnedFd> {
    // SAFETY: the name is a terminated string.
    let fd = own(unsafe { libc::memfd_create(REGION_FILE.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) })?;
    // SAFETY: plain calls on a descriptor that we own.
    check(unsafe { libc::ftruncate(fd.as_raw_fd(), bytes as libc::off_t) })?;
    // SAFETY: as above.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, SEALS) })?;
    Ok(fd)
}

/// Whether `fd` is a memory file of `bytes` bytes whose size is sealed.
pub fn is_sealed(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<bool> {
    // SAFETY: F_GET_SEALS has no argument.
    let seals = check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) })?;
    // SAFETY: all-zero is a valid stat buffer.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes into the buffer that we own.
    check(unsafe { libc::fstat(fd.as_raw_fd(), &mut status) })?;
    Ok(seals & SEALS == SEALS && status.st_size == bytes as libc::off_t)
}

/// Maps `bytes` of `fd` shared, readable and writable.
pub fn map(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<NonNull<u8>> {
    // SAFETY: a fresh mapping at an address that the kernel chooses touches nothing of ours.
    let address = unsafe {
        libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, fd.as_raw_fd(), 0)
    };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(address.cast()).ok_or_else(|| io::Error::other("a mapping at address zero"))
}

/// Ends a mapping of [`map`].
///
/// # Safety
/// Nothing may refer to the mapping any more.
pub unsafe fn unmap(base: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller promises that this is a whole, unused mapping.
    unsafe { libc::munmap(base.as_ptr().cast(), bytes) };
}

/// Puts zeros of this process alone in the place of a mapping of [`map`]. If the kernel has no memory for that, the mapping stays.
///
/// # Safety
/// Users of the mapping must be prepared for zeros.
pub unsafe fn replace_by_zeros(base: NonNull<u8>, bytes: usize) {
    let (protection, at) = (libc::PROT_READ | libc::PROT_WRITE, base.as_ptr().cast());
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    // SAFETY: the caller promises that this is a whole mapping, and that its bytes may change.
    unsafe { libc::mmap(at, bytes, protection, kind, -1, 0) };
}

/// Asks for huge pages behind whole pages of memory of ours: packets spread over more small pages than the processor
/// remembers the places of. A kernel that has none goes on with small ones.
pub fn prefer_huge_pages(base: NonNull<u8>, bytes: usize) {
    // SAFETY: advice about memory of the caller's; it changes no byte.
    unsafe { libc::madvise(base.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
}

/// A fresh event descriptor, non-blocking, closed on exec.
pub fn event_descriptor() -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    own(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })
}

/// Adds one to an event descriptor. A full counter means that the sleeper is already signalled.
pub fn ring(fd: RawFd) {
    let one = 1u64;
    // SAFETY: write(2) of eight bytes of a local.
    unsafe { system_call(libc::SYS_write, [fd.into(), &raw const one as c_long, 8, 0, 0, 0]) };
}

/// Empties an event descriptor; says whether it was signalled.
pub fn silence(fd: RawFd) -> bool {
    let mut count = 0u64;
    // SAFETY: read(2) of eight bytes into a local.
    let got = unsafe { system_call(libc::SYS_read, [fd.into(), &raw mut count as c_long, 8, 0, 0, 0]) };
    got == 8
}
