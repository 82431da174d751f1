//! Buffers that programs fill or read in place: ff_zc_mbuf_* of F-Stack, z_read and z_write of Z-stack.
//!
//! ff_write gets such a buffer as its `buf`, so a buffer must be known by its address: all lie in one stretch of memory, in blocks whose size is a
//! power of two. A buffer begins with its header; chains link them. Pages that no buffer has used take no memory.

use std::ptr;
use std::sync::{Mutex, OnceLock};

use libc::{c_char, c_int, c_void, iovec, ssize_t};
use ringway_cabi::{Answer, Errno, checked, give};

use crate::run::note_work;
use crate::sockets::lock;

/// The memory of all buffers of a process.
const ALL: usize = 1 << 32;
/// The smallest block and the largest, as powers of two.
const SMALLEST: u32 = 11;
const LARGEST: u32 = 24;

/// Begins a block.
#[repr(C)]
struct Buffer {
    magic: u32,
    /// The block's size, as a power of two.
    class: u32,
    /// Where the bytes begin, from the block's start, and their number.
    start: usize,
    len: usize,
    next: *mut Buffer,
}

const MAGIC: u32 = 0x7a62_7566;
const HEAD: usize = size_of::<Buffer>();

/// The stretch and its free blocks.
struct Memory {
    base: usize,
    free: Mutex<Free>,
}

#[derive(Default)]
struct Free {
    /// By class: addresses.
    lists: [Vec<usize>; (LARGEST - SMALLEST + 1) as usize],
    /// From here on no block was made.
    next: usize,
}

static MEMORY: OnceLock<Option<Memory>> = OnceLock::new();

fn memory() -> Answer<&'static Memory> {
    let map = || {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
        // SAFETY: a new mapping at an address that the kernel chooses; it stays as long as the process.
        let base = unsafe { libc::mmap(ptr::null_mut(), ALL, access, kind, -1, 0) };
        (base != libc::MAP_FAILED).then(|| Memory { base: base as usize, free: Mutex::default() })
    };
    MEMORY.get_or_init(map).as_ref().ok_or(Errno(libc::ENOMEM))
}

impl Memory {
    /// A block for so many bytes behind its header.
    fn take(&self, len: usize) -> Answer<*mut Buffer> {
        let class = (len + HEAD).next_power_of_two().trailing_zeros().max(SMALLEST);
        if class > LARGEST {
            return Err(Errno(libc::EMSGSIZE));
        }
        let mut free = lock(&self.free);
        let place = match free.lists[(class - SMALLEST) as usize].pop() {
            Some(place) => place,
            None if free.next + (1 << class) <= ALL => {
                free.next += 1 << class;
                self.base + free.next - (1 << class)
            }
            None => return Err(Errno(libc::ENOBUFS)),
        };
        let buffer = place as *mut Buffer;
        // SAFETY: the block is this caller's alone, aligned, and larger than a header.
        unsafe { buffer.write(Buffer { magic: MAGIC, class, start: HEAD, len, next: ptr::null_mut() }) };
        Ok(buffer)
    }

    fn has(&self, address: usize) -> bool {
        address.wrapping_sub(self.base) < ALL
    }
}

/// Is this the address of a buffer?
#[inline]
pub(crate) fn is_one(address: *const c_void) -> bool {
    MEMORY.get().and_then(Option::as_ref).is_some_and(|memory| memory.has(address as usize))
}

/// The buffer at an address of a program's; EINVAL where none is.
fn at(address: *const c_void) -> Answer<*mut Buffer> {
    let buffer = address.cast::<Buffer>().cast_mut();
    let is_aligned = (address as usize).is_multiple_of(1 << SMALLEST);
    // SAFETY: the address lies in the stretch, at the start of a block of the smallest size or inside a larger one.
    let is_right = is_one(address) && is_aligned && unsafe { (*buffer).magic } == MAGIC;
    if is_right { Ok(buffer) } else { Err(Errno(libc::EINVAL)) }
}

/// Gives a chain back.
///
/// # Safety
/// The chain is the caller's, and is not used again.
unsafe fn free(mut buffer: *mut Buffer) {
    let Ok(memory) = memory() else { return };
    while !buffer.is_null() {
        // SAFETY: as the function says.
        let (next, class) = unsafe {
            (*buffer).magic = 0;
            ((*buffer).next, (*buffer).class)
        };
        lock(&memory.free).lists[(class - SMALLEST) as usize].push(buffer as usize);
        buffer = next;
    }
}

/// What becomes of a buffer when the socket takes nothing (EAGAIN).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenFull {
    /// It is given back, as FreeBSD does with what is to be sent.
    Gone,
    Kept,
}

/// Sends `len` bytes of a chain. What was sent goes out of it; a chain that is sent, or that cannot be, is given back. One of which a part was sent
/// stays, and the next call goes on with the rest.
///
/// # Safety
/// As the crate says; `address` is one of which [`is_one`] holds.
pub(crate) unsafe fn send(fd: c_int, address: *const c_void, len: usize, when_full: WhenFull) -> ssize_t {
    give(at(address).and_then(|first| {
        // SAFETY: the chain is the program's, and in this call.
        unsafe {
            if length(first) < len {
                return Err(Errno(libc::EINVAL));
            }
            let sent = checked(write_chain(fd, first, len));
            match sent {
                Ok(part) if (part as usize) < len => drop_front(first, part as usize),
                Err(Errno(libc::EAGAIN)) if when_full == WhenFull::Kept => {}
                _ => free(first),
            }
            sent
        }
    }))
}

/// Bytes of a chain.
///
/// # Safety
/// The chain is the caller's.
unsafe fn length(mut buffer: *const Buffer) -> usize {
    let mut total = 0;
    while !buffer.is_null() {
        // SAFETY: as the function says.
        unsafe {
            total += (*buffer).len;
            buffer = (*buffer).next;
        }
    }
    total
}

/// # Safety
/// The chain is the caller's.
unsafe fn write_chain(fd: c_int, first: *mut Buffer, len: usize) -> ssize_t {
    const PARTS_MAX: usize = 64;
    let (mut parts, mut left, mut buffer) = (Vec::with_capacity(1), len, first);
    while !buffer.is_null() && left > 0 && parts.len() < PARTS_MAX {
        // SAFETY: as the function says: the bytes lie in the block.
        unsafe {
            let part = (*buffer).len.min(left);
            parts.push(iovec { iov_base: buffer.cast::<u8>().add((*buffer).start).cast(), iov_len: part });
            left -= part;
            buffer = (*buffer).next;
        }
    }
    // SAFETY: the parts live until the call returns.
    unsafe { ringway_cabi::writev(fd, parts.as_ptr(), parts.len() as c_int) }
}

/// # Safety
/// The chain is the caller's.
unsafe fn drop_front(mut buffer: *mut Buffer, mut count: usize) {
    while !buffer.is_null() && count > 0 {
        // SAFETY: as the function says.
        unsafe {
            let part = (*buffer).len.min(count);
            (*buffer).start += part;
            (*buffer).len -= part;
            count -= part;
            buffer = (*buffer).next;
        }
    }
}

/// `struct ff_zc_mbuf`
#[repr(C)]
pub struct ZeroCopy {
    /// The buffer, and the same again: F-Stack has the place in the chain here.
    buffer: *mut Buffer,
    at: *mut Buffer,
    /// Bytes that were written, and that there is room for.
    off: c_int,
    len: c_int,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_zc_mbuf_get(to: *mut ZeroCopy, len: c_int) -> c_int {
    give(usize::try_from(len).map_err(|_| Errno(libc::EINVAL)).and_then(|bytes| {
        if to.is_null() {
            return Err(Errno(libc::EINVAL));
        }
        let buffer = memory()?.take(bytes)?;
        // SAFETY: the structure is the caller's.
        unsafe { to.write(ZeroCopy { buffer, at: buffer, off: 0, len }) };
        Ok(0)
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_zc_mbuf_write(to: *mut ZeroCopy, data: *const c_char, len: c_int) -> c_int {
    // SAFETY: the structure is null or the caller's.
    give(unsafe { to.as_mut() }.ok_or(Errno(libc::EINVAL)).and_then(|to| {
        let buffer = at(to.buffer.cast())?;
        // SAFETY: the buffer is the program's.
        let room = unsafe { (*buffer).len };
        let (off, count) = (usize::try_from(to.off), usize::try_from(len));
        let (Ok(off), Ok(count)) = (off, count) else { return Err(Errno(libc::EINVAL)) };
        if data.is_null() || off.checked_add(count).is_none_or(|end| end > room) {
            return Err(Errno(libc::EINVAL));
        }
        // SAFETY: the bytes are the caller's; the buffer has room for them behind those before.
        unsafe { data.cast::<u8>().copy_to_nonoverlapping(buffer.cast::<u8>().add((*buffer).start + off), count) };
        to.off += len;
        Ok(len)
    }))
}

/// Copies the bytes of a buffer out, from those that were read before on. F-Stack declares it and has none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_zc_mbuf_read(from: *mut ZeroCopy, data: *mut c_char, len: c_int) -> c_int {
    // SAFETY: the structure is null or the caller's.
    give(unsafe { from.as_mut() }.ok_or(Errno(libc::EINVAL)).and_then(|from| {
        let buffer = at(from.buffer.cast())?;
        let (Ok(off), Ok(count)) = (usize::try_from(from.off), usize::try_from(len)) else { return Err(Errno(libc::EINVAL)) };
        if data.is_null() {
            return Err(Errno(libc::EINVAL));
        }
        // SAFETY: the buffer is the program's; no more than it has is copied.
        let part = unsafe {
            let part = (*buffer).len.saturating_sub(off).min(count);
            buffer.cast::<u8>().add((*buffer).start + off).copy_to_nonoverlapping(data.cast(), part);
            part
        };
        from.off += part as c_int;
        Ok(part as c_int)
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn z_read(fd: c_int, to: *mut *mut c_void, max: usize) -> ssize_t {
    /// What Z-stack reads at once at most.
    const MOST: usize = 256 << 10;
    give(memory().and_then(|memory| {
        if to.is_null() {
            return Err(Errno(libc::EFAULT));
        }
        let buffer = memory.take(max.min(MOST))?;
        // SAFETY: the buffer is this call's, until it is the caller's.
        unsafe {
            let got = checked(libc::read(fd, buffer.cast::<u8>().add(HEAD).cast(), (*buffer).len));
            match got {
                Ok(got) if got > 0 => {
                    (*buffer).len = got as usize;
                    to.write(buffer.cast());
                }
                _ => {
                    free(buffer);
                    to.write(ptr::null_mut());
                }
            }
            note_work(got.is_ok_and(|got| got > 0));
            got
        }
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn z_write(fd: c_int, buffer: *const c_void, len: usize) -> ssize_t {
    if !is_one(buffer) {
        return give(Err(Errno(libc::EINVAL)));
    }
    // SAFETY: as the crate says.
    unsafe { send(fd, buffer, len, WhenFull::Kept) }
}

/// A buffer with a copy of `data`, behind `previous` if there is one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_mbuf_get(previous: *mut c_void, _card: *mut c_void, data: *const c_void, len: u16) -> *mut c_void {
    let made = memory().and_then(|memory| {
        let previous = if previous.is_null() { None } else { Some(at(previous)?) };
        let buffer = memory.take(len.into())?;
        // SAFETY: the buffer is this call's; the bytes and the chain are the caller's.
        unsafe {
            if !data.is_null() {
                data.cast::<u8>().copy_to_nonoverlapping(buffer.cast::<u8>().add(HEAD), len.into());
            }
            if let Some(previous) = previous {
                (*previous).next = buffer;
            }
        }
        Ok(buffer)
    });
    made.map_or_else(
        |errno| {
            errno.set();
            ptr::null_mut()
        },
        |buffer| buffer.cast(),
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_mbuf_free(buffer: *mut c_void) {
    if let Ok(buffer) = at(buffer) {
        // SAFETY: as the crate says.
        unsafe { free(buffer) };
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_mbuf_mtod(buffer: *mut c_void) -> *mut c_void {
    // SAFETY: the buffer is the caller's.
    at(buffer).map_or(ptr::null_mut(), |buffer| unsafe { buffer.cast::<u8>().add((*buffer).start).cast() })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_mbuf_copydata(buffer: *mut c_void, data: *mut c_void, off: c_int, len: c_int) -> c_int {
    give(at(buffer).and_then(|mut buffer| {
        let (Ok(mut off), Ok(mut left)) = (usize::try_from(off), usize::try_from(len)) else { return Err(Errno(libc::EINVAL)) };
        let mut to = data.cast::<u8>();
        while left > 0 {
            if buffer.is_null() {
                return Err(Errno(libc::EINVAL));
            }
            // SAFETY: the chain is the caller's, and there is room for so much.
            unsafe {
                let part = (*buffer).len.saturating_sub(off).min(left);
                buffer.cast::<u8>().add((*buffer).start + off.min((*buffer).len)).copy_to_nonoverlapping(to, part);
                off = off.saturating_sub((*buffer).len);
                (to, left) = (to.add(part), left - part);
                buffer = (*buffer).next;
            }
        }
        Ok(0)
    }))
}

/// Gives the bytes of the buffer at `at_buffer` and goes to the next one; -1 where there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_next_mbuf(at_buffer: *mut *mut c_void, data: *mut *mut c_void, len: *mut u32) -> c_int {
    // SAFETY: the pointers and the chain are the caller's.
    unsafe {
        let Ok(buffer) = at(at_buffer.read()) else { return -1 };
        data.write(buffer.cast::<u8>().add((*buffer).start).cast());
        len.write((*buffer).len as u32);
        at_buffer.write((*buffer).next.cast());
    }
    0
}

/// A card's own buffer is never under one of these: nothing is to be taken out.
#[unsafe(no_mangle)]
pub extern "C" fn ff_mbuf_detach_rte(_: *mut c_void) -> *mut c_void {
    ptr::null_mut()
}

#[unsafe(no_mangle)]
pub extern "C" fn ff_rte_frm_extcl(_: *mut c_void) -> *mut c_void {
    ptr::null_mut()
}

#[cfg(test)]
mod tests;
