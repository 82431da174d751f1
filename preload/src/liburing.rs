//! liburing, where a program is linked to it dynamically: it makes the system calls of rings by instructions of its own, past libc.
//!
//! Promises: the functions that submit requests and register files have the sockets of ours in them handed over first, as `ring`
//! does for the system calls; errors come as liburing gives them (negative). Reads a ring as liburing.so.2 lays it out, which is a
//! promise of its soname. Does not do: liburing linked into the program (`cli/src/run/program.rs` finds it).

use crate::real;
use crate::ring::request::{self, Request, Wide};
use crate::ring::{self, Params, READABLE_IN_PLACE, SQE128};
use crate::shim::posix;
use libc::{c_int, c_uint, c_void, sigset_t, size_t};
use ringway_posix::Errno;

/// `struct io_uring` of liburing.h: the queue of requests, that of completions, what the ring is.
#[repr(C)]
pub struct Ring {
    head: *mut c_uint,
    tail: *mut c_uint,
    mask: *const c_uint,
    entries: *const c_uint,
    others: [*mut c_uint; 3],
    requests: *mut Request,
    /// The first request that was not submitted, and the one behind the last.
    first: c_uint,
    end: c_uint,
    rest: [u64; 4],
    completions: [u64; 11],
    flags: c_uint,
    fd: c_int,
    features: c_uint,
}

#[cfg(test)]
impl Ring {
    /// A ring in which the third of eight requests waits to be submitted.
    pub(crate) fn of(requests: &mut [Request; 8]) -> Ring {
        static MASK: c_uint = 7;
        // SAFETY: numbers and pointers, for which zeros are right.
        Ring { mask: &raw const MASK, requests: requests.as_mut_ptr(), first: 10, end: 11, ..unsafe { std::mem::zeroed() } }
    }
}

/// The answer to a ring that may not be; `None`: it may.
fn refusal() -> Option<c_int> {
    let refuses = posix().is_some_and(|posix| !posix.allows_rings());
    refuses.then_some(-Errno::NOSYS.0)
}

/// After a ring was made with these flags.
fn made(answer: c_int, flags: c_uint) -> c_int {
    if let Some(posix) = posix().filter(|_| answer >= 0 && flags & !READABLE_IN_PLACE != 0) {
        posix.ring_is_unread();
    }
    answer
}

/// Before what is in the ring is submitted.
///
/// # Safety
/// `ring` is one that liburing has made.
unsafe fn before_submit(ring: *const Ring) {
    let Some(posix) = posix().filter(|posix| posix.table().has_sockets()) else { return };
    // SAFETY: the caller's promise.
    let (ring, mask) = unsafe { (&*ring, *(*ring).mask) };
    let wide = if ring.flags & SQE128 == 0 { Wide::No } else { Wide::Yes };
    let count = ring.end.wrapping_sub(ring.first).min(mask + 1);
    for place in (0..count).map(|count| ring.first.wrapping_add(count) & mask) {
        let at = ring.requests.wrapping_byte_add(place as usize * wide.size());
        // SAFETY: a request of the ring's.
        unsafe { request::before(posix, at, ring.features) };
    }
}

/// # Safety
/// As liburing asks; `numbers` are `count`.
unsafe fn keeps(numbers: *const c_int, count: c_uint) {
    if let Some(posix) = posix() {
        // SAFETY: the caller's promise.
        unsafe { request::keeps(posix, numbers, count) };
    }
}

/// io_uring_queue_init(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn io_uring_queue_init(entries: c_uint, ring: *mut Ring, flags: c_uint) -> c_int {
    // SAFETY: the program's own call.
    refusal().unwrap_or_else(|| made(unsafe { real::io_uring_queue_init(entries, ring, flags) }, flags))
}

/// io_uring_queue_init_params(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn io_uring_queue_init_params(entries: c_uint, ring: *mut Ring, params: *mut Params) -> c_int {
    // SAFETY: the program's own call.
    refusal().unwrap_or_else(|| unsafe { made(real::io_uring_queue_init_params(entries, ring, params), (*params).flags) })
}

/// io_uring_queue_init_mem(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn io_uring_queue_init_mem(
    entries: c_uint,
    ring: *mut Ring,
    params: *mut Params,
    memory: *mut c_void,
    len: size_t,
) -> c_int {
    // SAFETY: the program's own call.
    let make = || unsafe { made(real::io_uring_queue_init_mem(entries, ring, params, memory, len), (*params).flags) };
    refusal().unwrap_or_else(make)
}

// The functions that submit what is in a ring, which is their first argument.
macro_rules! submitters {
    ($($(#[$doc:meta])* fn $name:ident($($argument:ident: $kind:ty),*);)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(ring: *mut Ring, $($argument: $kind),*) -> c_int {
            // SAFETY: the program's own call.
            unsafe {
                before_submit(ring);
                real::$name(ring, $($argument),*)
            }
        }
    )*};
}

submitters! {
    /// io_uring_submit(3).
    fn io_uring_submit();
    /// io_uring_submit_and_wait(3).
    fn io_uring_submit_and_wait(count: c_uint);
    /// io_uring_submit_and_wait_timeout(3).
    fn io_uring_submit_and_wait_timeout(completion: *mut c_void, count: c_uint, time: *mut c_void, mask: *const sigset_t);
    /// io_uring_submit_and_wait_min_timeout(3).
    fn io_uring_submit_and_wait_min_timeout(completion: *mut c_void, count: c_uint, time: *mut c_void, least: c_uint, mask: *const sigset_t);
    /// io_uring_submit_and_wait_reg(3).
    fn io_uring_submit_and_wait_reg(completion: *mut c_void, count: c_uint, place: c_int);
    /// io_uring_submit_and_get_events(3).
    fn io_uring_submit_and_get_events();
}

/// io_uring_register_files(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn io_uring_register_files(ring: *mut Ring, numbers: *const c_int, count: c_uint) -> c_int {
    // SAFETY: the program's own call.
    unsafe {
        keeps(numbers, count);
        real::io_uring_register_files(ring, numbers, count)
    }
}

/// io_uring_register_files_tags(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn io_uring_register_files_tags(
    ring: *mut Ring,
    numbers: *const c_int,
    tags: *const c_void,
    count: c_uint,
) -> c_int {
    // SAFETY: the program's own call.
    unsafe {
        keeps(numbers, count);
        real::io_uring_register_files_tags(ring, numbers, tags, count)
    }
}

/// io_uring_register_files_update(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn io_uring_register_files_update(
    ring: *mut Ring,
    offset: c_uint,
    numbers: *const c_int,
    count: c_uint,
) -> c_int {
    // SAFETY: the program's own call.
    unsafe {
        keeps(numbers, count);
        real::io_uring_register_files_update(ring, offset, numbers, count)
    }
}

/// io_uring_register_files_update_tag(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn io_uring_register_files_update_tag(
    ring: *mut Ring,
    offset: c_uint,
    numbers: *const c_int,
    tags: *const c_void,
    count: c_uint,
) -> c_int {
    // SAFETY: the program's own call.
    unsafe {
        keeps(numbers, count);
        real::io_uring_register_files_update_tag(ring, offset, numbers, tags, count)
    }
}

/// io_uring_setup(2) as liburing has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn io_uring_setup(entries: c_uint, params: *mut Params) -> c_int {
    // SAFETY: the program's own call.
    match unsafe { ring::setup(entries, params) } {
        fd if fd >= 0 => fd,
        _ => -crate::c::errno().0,
    }
}

/// io_uring_enter(2) as liburing has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn io_uring_enter(
    fd: c_uint,
    to_submit: c_uint,
    least: c_uint,
    flags: c_uint,
    mask: *mut sigset_t,
) -> c_int {
    ring::before_enter(fd as c_int, to_submit, flags);
    // SAFETY: the program's own call.
    unsafe { real::io_uring_enter(fd, to_submit, least, flags, mask) }
}

/// io_uring_enter(2) with an argument of any size, as liburing has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn io_uring_enter2(
    fd: c_uint,
    to_submit: c_uint,
    least: c_uint,
    flags: c_uint,
    argument: *mut c_void,
    len: size_t,
) -> c_int {
    ring::before_enter(fd as c_int, to_submit, flags);
    // SAFETY: the program's own call.
    unsafe { real::io_uring_enter2(fd, to_submit, least, flags, argument, len) }
}

/// io_uring_register(2) as liburing has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn io_uring_register(fd: c_uint, operation: c_uint, argument: *const c_void, count: c_uint) -> c_int {
    // SAFETY: the program's own call.
    unsafe {
        ring::before_register(fd as c_int, operation, argument, count);
        real::io_uring_register(fd, operation, argument, count)
    }
}

/// The function of a liburing that the loader does not find behind this library: a module of the program's has brought it.
pub(crate) fn look_up(name: &'static [u8]) -> usize {
    if !name.starts_with(b"io_uring_") {
        return 0;
    }
    // SAFETY: C strings; the library is not loaded by this, only found.
    unsafe {
        let library = libc::dlopen(c"liburing.so.2".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if library.is_null() { 0 } else { libc::dlsym(library, name.as_ptr().cast()) as usize }
    }
}
