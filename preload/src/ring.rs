//! io_uring(7): the three system calls of rings, made through libc's syscall(2) or through liburing's functions of their names.
//!
//! A ring is the program's. Before the kernel takes requests from one, this module reads them, and the sockets of ours that they
//! name become the kernel's (`ringway_posix`, `rings`; what a request names: `ring/request.rs`). The requests lie in memory that
//! the program maps, at addresses that it alone knows; so the module maps the same memory for the time of the call, and only in a
//! process that has sockets of ours.
//!
//! Promises: a ring whose requests cannot be read (SQPOLL, memory of the program's, flags of a later kernel, made elsewhere) takes
//! all sockets from the stack. No lock of its own: any thread and any signal handler may call it. Does not do: rings
//! that a program makes by an instruction of its own; of these `liburing.rs` sees what liburing makes for the program.

pub(crate) mod request;

use crate::c::{may_be_memory, said};
use crate::shim::posix;
use crate::{makers, set_errno};
use libc::{c_int, c_long, c_uint, c_void};
use request::{Request, Wide};
use ringway_posix::{Errno, Posix};
use ringway_shm::system_call::system_call;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

/// `struct io_uring_params` of linux/io_uring.h.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Params {
    sq_entries: u32,
    cq_entries: u32,
    pub(crate) flags: u32,
    sq_thread: [u32; 2],
    features: u32,
    wq_fd: u32,
    reserved: [u32; 3],
    /// Where head, tail, mask, entries, flags, dropped and the array of indices lie in the first mapping.
    sq_offsets: [u32; 8],
    sq_address: u64,
    cq_offsets: [u32; 8],
    cq_address: u64,
}

/// A ring of this process that can be read; its number + 1 is 0 in a free place, and [`BUSY`] in one that is about to be taken.
struct Ring {
    number: AtomicI32,
    head: AtomicU32,
    tail: AtomicU32,
    array: AtomicU32,
    entries: AtomicU32,
    flags: AtomicU32,
    features: AtomicU32,
}

impl Ring {
    const fn new() -> Ring {
        Ring {
            number: AtomicI32::new(0),
            head: AtomicU32::new(0),
            tail: AtomicU32::new(0),
            array: AtomicU32::new(0),
            entries: AtomicU32::new(0),
            flags: AtomicU32::new(0),
            features: AtomicU32::new(0),
        }
    }
}

/// A number that is used again gets the place of the ring that had it.
static RINGS: [Ring; RINGS_MAX] = [const { Ring::new() }; RINGS_MAX];

/// io_uring_setup(2).
///
/// # Safety
/// `params` is valid where it may be memory.
pub(crate) unsafe fn setup(entries: c_uint, params: *mut Params) -> c_int {
    if posix().is_some_and(|posix| !posix.allows_rings()) {
        set_errno(Errno::NOSYS.0);
        return -1;
    }
    let arguments = [c_long::from(entries), params as c_long, 0, 0, 0, 0];
    // SAFETY: the program's own call.
    let answer = said(unsafe { system_call(libc::SYS_io_uring_setup, arguments) }) as c_int;
    let Some(posix) = posix().filter(|_| answer >= 0) else { return answer };
    // SAFETY: the kernel has just written there.
    let params = unsafe { params.read_unaligned() };
    if params.flags & REGISTERED_FD_ONLY == 0 {
        makers::fresh(answer);
    }
    if !remember(answer, &params) {
        posix.ring_is_unread();
    }
    answer
}

/// io_uring_enter(2): `to_submit` requests of the ring are the kernel's after this.
pub(crate) fn before_enter(fd: c_int, to_submit: c_uint, flags: c_uint) {
    let Some(posix) = posix().filter(|posix| fd >= 0 && to_submit > 0 && posix.table().has_sockets()) else { return };
    if flags & ENTER_REGISTERED_RING != 0 {
        // By a number of the thread's, which stands for one of those.
        RINGS.iter().filter(|ring| ring.number.load(Ordering::Acquire) > 0).for_each(|ring| look(posix, ring, to_submit));
        return;
    }
    match RINGS.iter().find(|ring| ring.number.load(Ordering::Acquire) == fd + 1) {
        Some(ring) => look(posix, ring, to_submit),
        None => posix.ring_is_unread(),
    }
}

/// io_uring_register(2): what it names is the ring's after this.
///
/// # Safety
/// `argument` is what the operation says, or no memory.
pub(crate) unsafe fn before_register(fd: c_int, operation: c_uint, argument: *const c_void, count: c_uint) {
    let Some(posix) = posix() else { return };
    if operation & !REGISTER_BY_NUMBER == REGISTER_RESIZE_RINGS {
        // Its parts lie elsewhere after it.
        let is_meant = |number: i32| number == fd + 1 || number > 0 && operation & REGISTER_BY_NUMBER != 0;
        RINGS
            .iter()
            .filter(|ring| is_meant(ring.number.load(Ordering::Acquire)))
            .for_each(|ring| ring.number.store(0, Ordering::Release));
        return;
    }
    let word = |at: usize| {
        let place = argument.wrapping_byte_add(at * 8).cast::<u64>();
        // SAFETY: the caller's promise: a structure of that many words.
        if may_be_memory(place.cast(), 8) { unsafe { place.read_unaligned() } } else { 0 }
    };
    let (numbers, count) = match operation & !REGISTER_BY_NUMBER {
        REGISTER_FILES => (argument as u64, count),
        // struct io_uring_files_update: offset, the numbers.
        REGISTER_FILES_UPDATE => (word(1), count),
        // struct io_uring_rsrc_register: count and flags, reserved, the numbers, tags.
        REGISTER_FILES2 => (word(2), word(0) as u32),
        // struct io_uring_rsrc_update2: offset, the numbers, tags, count.
        REGISTER_FILES_UPDATE2 => (word(1), word(3) as u32),
        _ => return,
    };
    // SAFETY: the caller's promise.
    unsafe { request::keeps(posix, numbers as *const c_int, count) };
}

/// Notes a ring that can be read; false: it cannot.
fn remember(fd: c_int, params: &Params) -> bool {
    if params.flags & !READABLE != 0 {
        return false;
    }
    // The place of an earlier ring of this number, or a free one; another thread may look for one too.
    let takes = |ring: &&Ring, number| ring.number.compare_exchange(number, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok();
    let place = RINGS.iter().find(|ring| takes(ring, fd + 1)).or_else(|| RINGS.iter().find(|ring| takes(ring, 0)));
    let Some(ring) = place else { return false };
    let [head, tail, .., array, _] = params.sq_offsets;
    ring.head.store(head, Ordering::Relaxed);
    ring.tail.store(tail, Ordering::Relaxed);
    ring.array.store(array, Ordering::Relaxed);
    ring.entries.store(params.sq_entries, Ordering::Relaxed);
    ring.flags.store(params.flags, Ordering::Relaxed);
    ring.features.store(params.features, Ordering::Relaxed);
    ring.number.store(fd + 1, Ordering::Release);
    true
}

/// Looks at the next `to_submit` requests.
fn look(posix: &Posix, ring: &Ring, to_submit: c_uint) {
    let load = |field: &AtomicU32| field.load(Ordering::Relaxed);
    let (fd, entries, flags) = (ring.number.load(Ordering::Relaxed) - 1, load(&ring.entries), load(&ring.flags));
    let [head, tail, array] = [&ring.head, &ring.tail, &ring.array].map(|field| load(field) as usize);
    let has_array = flags & NO_SQARRAY == 0;
    let end = if has_array { array + entries as usize * size_of::<u32>() } else { 0 };
    let wide = if flags & SQE128 == 0 { Wide::No } else { Wide::Yes };
    let len = entries as usize * wide.size();
    let Some(indices) = Mapping::new(fd, end.max(head + 4).max(tail + 4), 0) else { return posix.ring_is_unread() };
    let Some(requests) = Mapping::new(fd, len, OFFSET_SQES) else { return posix.ring_is_unread() };
    let number = |at: usize| {
        // SAFETY: inside of the mapping by its length; the kernel's offsets are those of aligned words.
        unsafe { AtomicU32::from_ptr(indices.at.byte_add(at).cast()) }.load(Ordering::Acquire)
    };
    let first = number(head);
    let waiting = number(tail).wrapping_sub(first).min(to_submit).min(entries);
    for place in (0..waiting).map(|count| first.wrapping_add(count) & (entries - 1)) {
        let index = if has_array { number(array + place as usize * size_of::<u32>()) } else { place };
        // The kernel drops what is outside.
        if index < entries {
            let at = requests.at.wrapping_byte_add(index as usize * wide.size()).cast::<Request>();
            // SAFETY: inside of the mapping by the check.
            unsafe { request::before(posix, at, ring.features.load(Ordering::Relaxed)) };
        }
    }
}

/// A part of a ring's memory, as long as this lives.
struct Mapping {
    at: *mut c_void,
    len: usize,
}

impl Mapping {
    /// `None`: it is no ring, or has no so large part there.
    fn new(fd: c_int, len: usize, offset: i64) -> Option<Mapping> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: new memory at an address of the kernel's choice.
        let at = unsafe { libc::mmap(ptr::null_mut(), len, access, libc::MAP_SHARED | libc::MAP_POPULATE, fd, offset) };
        (at != libc::MAP_FAILED).then_some(Mapping { at, len })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and no pointer outlives this.
        unsafe { libc::munmap(self.at, self.len) };
    }
}

const BUSY: i32 = -1;
/// Rings of a process beyond these are not read.
const RINGS_MAX: usize = 64;
// linux/io_uring.h
const SQPOLL: u32 = 1 << 1;
pub(crate) const SQE128: u32 = 1 << 10;
const NO_MMAP: u32 = 1 << 14;
const REGISTERED_FD_ONLY: u32 = 1 << 15;
const NO_SQARRAY: u32 = 1 << 16;
/// Flags of which the meaning is known, and with which the requests can be read before the kernel does.
const READABLE: u32 = ((1 << 19) - 1) & !(SQPOLL | NO_MMAP | REGISTERED_FD_ONLY);
/// The same where the ring's memory is known, as in liburing's own structure.
pub(crate) const READABLE_IN_PLACE: u32 = READABLE | NO_MMAP;
const OFFSET_SQES: i64 = 0x1000_0000;
const ENTER_REGISTERED_RING: c_uint = 1 << 4;
const REGISTER_FILES: c_uint = 2;
const REGISTER_FILES_UPDATE: c_uint = 6;
const REGISTER_FILES2: c_uint = 13;
const REGISTER_FILES_UPDATE2: c_uint = 14;
const REGISTER_RESIZE_RINGS: c_uint = 33;
const REGISTER_BY_NUMBER: c_uint = 1 << 31;

#[cfg(test)]
mod tests;
