//! C's way of answering and passing things, to and from Rust's.

use libc::{c_int, c_long, c_void, iovec, msghdr, size_t, sockaddr, socklen_t, ssize_t};
use ringway_posix::fallback::RawAddress;
use ringway_posix::{Answer, Errno};
use std::io::{IoSlice, IoSliceMut};

/// Sets the calling thread's errno.
pub(crate) fn set_errno(number: c_int) {
    // SAFETY: glibc gives every thread its own errno, valid for the thread's life.
    unsafe { *libc::__errno_location() = number };
}

/// The calling thread's errno.
pub(crate) fn errno() -> Errno {
    // SAFETY: as above.
    Errno(unsafe { *libc::__errno_location() })
}

/// `-1` and errno, or the count.
pub(crate) fn size(answer: Answer<usize>) -> ssize_t {
    match answer {
        Ok(count) => count as ssize_t,
        Err(error) => {
            set_errno(error.0);
            -1
        }
    }
}

/// `-1` and errno, or the number.
pub(crate) fn number(answer: Answer<c_int>) -> c_int {
    match answer {
        Ok(number) => number,
        Err(error) => {
            set_errno(error.0);
            -1
        }
    }
}

/// `-1` and errno, or 0.
pub(crate) fn status(answer: Answer<()>) -> c_int {
    number(answer.map(|()| 0))
}

/// A system call's answer as libc gives it: errno and -1.
pub(crate) fn said(answer: c_long) -> c_long {
    if (-ERRNO_MAX..0).contains(&answer) {
        set_errno(-answer as c_int);
        return -1;
    }
    answer
}

/// What a libc call answered, as Rust says it.
pub(crate) fn checked(answer: c_int) -> Answer<c_int> {
    if answer < 0 { Err(errno()) } else { Ok(answer) }
}

/// The same for counts.
pub(crate) fn checked_size(answer: ssize_t) -> Answer<usize> {
    usize::try_from(answer).map_err(|_| errno())
}

/// Whether `len` bytes at an address could be a program's memory at all: not null or nearly so, and in the half of the
/// address space that programs have. What lies there and is not mapped is not noticed, unlike by the kernel.
pub(crate) fn may_be_memory(address: *const c_void, len: usize) -> bool {
    let start = address as usize;
    start >= LOWEST && start.checked_add(len).is_some_and(|end| end <= HIGHEST)
}

/// A program's buffer to read from.
///
/// # Safety
/// `bytes` points at `len` readable bytes that stay for the call, or is null.
pub(crate) unsafe fn input<'a>(bytes: *const c_void, len: size_t) -> Answer<&'a [u8]> {
    let len = len.min(SIZE_MAX);
    match (may_be_memory(bytes, len), len) {
        (_, 0) => Ok(&[]),
        (false, _) => Err(Errno::FAULT),
        // SAFETY: not null, and the caller promises the rest.
        (true, _) => Ok(unsafe { std::slice::from_raw_parts(bytes.cast(), len) }),
    }
}

/// A program's buffer to write to.
///
/// # Safety
/// `bytes` points at `len` writable bytes that no other thread uses during the call, or is null.
pub(crate) unsafe fn output<'a>(bytes: *mut c_void, len: size_t) -> Answer<&'a mut [u8]> {
    let len = len.min(SIZE_MAX);
    match (may_be_memory(bytes, len), len) {
        (_, 0) => Ok(&mut []),
        (false, _) => Err(Errno::FAULT),
        // SAFETY: not null, and the caller promises the rest.
        (true, _) => Ok(unsafe { std::slice::from_raw_parts_mut(bytes.cast(), len) }),
    }
}

/// A program's vector of buffers to read from.
///
/// # Safety
/// `pieces` points at `count` iovecs, each of them as for `input`.
pub(crate) unsafe fn inputs<'a>(pieces: *const iovec, count: c_int) -> Answer<Vec<IoSlice<'a>>> {
    // SAFETY: the caller's promise.
    let pieces = unsafe { vector(pieces, count) }?;
    // SAFETY: the caller's promise for each piece.
    pieces.iter().map(|piece| unsafe { input(piece.iov_base, piece.iov_len) }.map(IoSlice::new)).collect()
}

/// A program's vector of buffers to write to.
///
/// # Safety
/// `pieces` points at `count` iovecs, each of them as for `output`.
pub(crate) unsafe fn outputs<'a>(pieces: *const iovec, count: c_int) -> Answer<Vec<IoSliceMut<'a>>> {
    // SAFETY: the caller's promise.
    let pieces = unsafe { vector(pieces, count) }?;
    // SAFETY: the caller's promise for each piece.
    pieces.iter().map(|piece| unsafe { output(piece.iov_base, piece.iov_len) }.map(IoSliceMut::new)).collect()
}

unsafe fn vector<'a>(pieces: *const iovec, count: c_int) -> Answer<&'a [iovec]> {
    let bytes = usize::try_from(count).unwrap_or(0) * size_of::<iovec>();
    match (usize::try_from(count), may_be_memory(pieces.cast(), bytes)) {
        (Ok(0), _) => Ok(&[]),
        (Ok(count), true) if count <= IOV_MAX => {
            // SAFETY: not null; the caller of the libc function promises `count` entries.
            let pieces = unsafe { std::slice::from_raw_parts(pieces, count) };
            // lib/iov_iter.c: a length that is negative as ssize_t is refused before anything is touched.
            if pieces.iter().all(|piece| isize::try_from(piece.iov_len).is_ok()) { Ok(pieces) } else { Err(Errno::INVAL) }
        }
        (Ok(count), false) if count <= IOV_MAX => Err(Errno::FAULT),
        _ => Err(Errno::INVAL),
    }
}

/// How many buffers a message has.
///
/// # Errors
/// EMSGSIZE: more than Linux takes (net/socket.c, copy_msghdr_from_user).
pub(crate) fn piece_count(message: &msghdr) -> Answer<c_int> {
    if message.msg_iovlen > IOV_MAX { Err(Errno::MSGSIZE) } else { Ok(message.msg_iovlen as c_int) }
}

/// Whether a program's room for an address could be one: net/socket.c, move_addr_to_user. Null: no address is wanted.
///
/// # Safety
/// `len` is valid where it may be memory.
pub(crate) unsafe fn check_room(address: *const sockaddr, len: *const socklen_t) -> Answer<()> {
    if address.is_null() {
        return Ok(());
    }
    if !may_be_memory(address.cast(), 0) || !may_be_memory(len.cast(), size_of::<socklen_t>()) {
        return Err(Errno::FAULT);
    }
    // SAFETY: the caller's promise.
    if unsafe { *len } as c_int <= -1 { Err(Errno::INVAL) } else { Ok(()) }
}

/// A program's `sockaddr`.
///
/// # Safety
/// `address` points at `len` readable bytes, or is null.
pub(crate) unsafe fn address<'a>(address: *const sockaddr, len: socklen_t) -> Answer<&'a [u8]> {
    if len as usize > ADDRESS_MAX {
        return Err(Errno::INVAL);
    }
    // SAFETY: the caller's promise.
    unsafe { input(address.cast(), len as usize) }
}

/// Writes an address where the program wants it: cut to its room, with the true length.
///
/// # Safety
/// `to` is null or points at `*len` writable bytes; `len` is then valid.
pub(crate) unsafe fn put_address(name: &RawAddress, to: *mut sockaddr, len: *mut socklen_t) {
    if to.is_null() || len.is_null() {
        return;
    }
    let bytes = name.as_slice();
    // SAFETY: the caller promises that `len` is valid.
    let room = unsafe { *len } as usize;
    // SAFETY: `to` has `room` bytes, and no more are written.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast(), room.min(bytes.len())) };
    // SAFETY: as above.
    unsafe { *len = bytes.len() as socklen_t };
}

/// Answers of the kernel that are errors: include/linux/err.h.
const ERRNO_MAX: c_long = 4095;
/// No single call moves more than this (MAX_RW_COUNT).
pub(crate) const SIZE_MAX: usize = 0x7fff_f000;
/// The first page that a program can have (vm.mmap_min_addr is at least this).
const LOWEST: usize = 4_096;
/// The end of a program's half of the address space, with five levels of page tables.
#[cfg(target_arch = "x86_64")]
const HIGHEST: usize = 1 << 56;
/// Addresses may carry tags in their upper bits.
#[cfg(not(target_arch = "x86_64"))]
const HIGHEST: usize = usize::MAX;
pub(crate) const IOV_MAX: usize = 1024;
const ADDRESS_MAX: usize = 128;
