//! One request of a ring: the descriptors that it names.
//!
//! Promises: a request is copied once, and its copy is looked at; the program may write to the original meanwhile, which harms it
//! alone. A request to accept from a listener (or to wait for it) that is on its way to the kernel, and for which the stack has
//! accepted connections before, is answered with them: the request becomes one that does nothing and says this result
//! (IORING_OP_NOP with IORING_NOP_INJECT_RESULT). Where the kernel knows none, or the new connection is to have a place in the ring's own table, they
//! go into the accept queue of the kernel's listener. An operation that is not known is taken to name a descriptor.

use crate::c::{self, may_be_memory};
use libc::{c_int, msghdr, socklen_t};
use ringway_posix::{Posix, ancillary_descriptors};

/// `struct io_uring_sqe` of linux/io_uring.h; the fields have other names for other operations.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Request {
    pub(crate) operation: u8,
    pub(crate) flags: u8,
    pub(crate) priority: u16,
    pub(crate) fd: i32,
    /// Also a second address, or the descriptor of an epoll_ctl.
    pub(crate) offset: u64,
    pub(crate) address: u64,
    pub(crate) len: u32,
    /// Flags of the operation.
    pub(crate) how: u32,
    pub(crate) user_data: u64,
    pub(crate) buffer: u16,
    pub(crate) personality: u16,
    /// Also the other descriptor of a splice, or the place of a new one in the ring's table, + 1.
    pub(crate) file: u32,
    pub(crate) rest: [u64; 2],
}

/// Requests of twice the size (IORING_SETUP_SQE128).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wide {
    No,
    Yes,
}

impl Wide {
    pub(crate) fn size(self) -> usize {
        size_of::<Request>() << u32::from(self == Wide::Yes)
    }
}

/// Before the kernel gets the request; `features` are the ring's.
///
/// # Safety
/// `at` points at a request that may be written, and its pointers are what its operation says.
pub(crate) unsafe fn before(posix: &Posix, at: *mut Request, features: u32) {
    // SAFETY: the caller's promise.
    let request = unsafe { at.read_volatile() };
    if request.flags & FIXED_FILE == 0 && !NAME_NONE.contains(&request.operation) {
        match request.operation {
            CLOSE if request.file == 0 => posix.forget_stale(request.fd),
            CLOSE => {}
            _ => posix.before_ring_use(request.fd),
        }
        if features & SAYS_RESULTS == 0 || request.operation == ACCEPT && request.file != 0 {
            posix.take_waiting_along(request.fd);
        }
        // SAFETY: the caller's promise.
        if let Some(result) = unsafe { answer(posix, &request, features) } {
            // SAFETY: the caller's promise.
            unsafe { at.write_volatile(request.that_says(result)) };
            return;
        }
    }
    match request.operation {
        SPLICE | TEE if request.how & SPLICE_FIXED == 0 => posix.before_ring_use(request.file as c_int),
        EPOLL_CTL => posix.before_ring_use(request.offset as c_int),
        // SAFETY: the caller's promise.
        FILES_UPDATE => unsafe { keeps(posix, request.address as *const c_int, request.len) },
        // SAFETY: the caller's promise.
        SENDMSG | SENDMSG_ZC => unsafe { passes(posix, request.address as *const msghdr) },
        _ => {}
    }
}

/// The result of a request on a listener for which the stack has accepted a connection; `None`: the kernel has it.
///
/// # Safety
/// As for `before`.
unsafe fn answer(posix: &Posix, request: &Request, features: u32) -> Option<i32> {
    let is_asked = match request.operation {
        ACCEPT => request.file == 0,
        POLL_ADD => request.how & READS != 0 && request.len & POLL_UPDATES == 0,
        _ => false,
    };
    if !is_asked || features & SAYS_RESULTS == 0 || !posix.has_accepted(request.fd) {
        return None;
    }
    if request.operation == POLL_ADD {
        return Some((request.how & READS) as i32);
    }
    match posix.accept_for_ring(request.fd, request.how as c_int)? {
        Ok((new, name)) => {
            let (address, len) = (request.address as *mut _, request.offset as *mut socklen_t);
            // SAFETY: the caller's promise.
            if unsafe { c::check_room(address, len) }.is_ok() {
                // SAFETY: the same.
                unsafe { c::put_address(&name, address, len) };
            }
            Some(new)
        }
        Err(error) => Some(-error.0),
    }
}

impl Request {
    /// A request that does nothing, and of which the completion says this.
    fn that_says(&self, result: i32) -> Request {
        Request {
            operation: NOP,
            flags: self.flags & !(FIXED_FILE | BUFFER_SELECT),
            fd: -1,
            len: result as u32,
            how: INJECT_RESULT,
            user_data: self.user_data,
            personality: self.personality,
            ..Request::default()
        }
    }
}

/// The ring keeps these descriptors.
///
/// # Safety
/// `count` numbers are at `numbers`, if it may be memory.
pub(crate) unsafe fn keeps(posix: &Posix, numbers: *const c_int, count: u32) {
    if !may_be_memory(numbers.cast(), count as usize * size_of::<c_int>()) {
        return;
    }
    for place in 0..count as usize {
        // SAFETY: the caller's promise.
        posix.before_ring_keeps(unsafe { numbers.add(place).read_unaligned() });
    }
}

/// A message with descriptors: the process that gets them may not have this library.
///
/// # Safety
/// `message` is valid, if it may be memory.
unsafe fn passes(posix: &Posix, message: *const msghdr) {
    if !may_be_memory(message.cast(), size_of::<msghdr>()) {
        return;
    }
    // SAFETY: the caller's promise.
    let message = unsafe { message.read_unaligned() };
    // SAFETY: the same, for what the message points at.
    let control = unsafe { c::input(message.msg_control, message.msg_controllen) }.unwrap_or_default();
    ancillary_descriptors(control).into_iter().for_each(|fd| posix.before_ring_use(fd));
}

// linux/io_uring.h: flags of a request, and operations.
pub(crate) const FIXED_FILE: u8 = 1 << 0;
const BUFFER_SELECT: u8 = 1 << 5;
pub(crate) const NOP: u8 = 0;
const POLL_ADD: u8 = 6;
pub(crate) const SENDMSG: u8 = 9;
pub(crate) const ACCEPT: u8 = 13;
pub(crate) const CLOSE: u8 = 19;
pub(crate) const FILES_UPDATE: u8 = 20;
pub(crate) const EPOLL_CTL: u8 = 29;
pub(crate) const SPLICE: u8 = 30;
const TEE: u8 = 33;
const SENDMSG_ZC: u8 = 48;
/// The field of the descriptor has none, or something else: nothing (0, 7, 11, 12, 14, 15, 20, 53), memory (25), a count of buffers
/// (31, 32), a family (45), a process (50), flags (51, 52).
const NAME_NONE: [u8; 15] = [NOP, 7, 11, 12, 14, 15, FILES_UPDATE, 25, 31, 32, 45, 50, 51, 52, 53];
const SPLICE_FIXED: u32 = 1 << 31;
/// POLLIN and POLLRDNORM.
const READS: u32 = 0x41;
/// IORING_POLL_UPDATE_EVENTS and IORING_POLL_UPDATE_USER_DATA: it names another request.
const POLL_UPDATES: u32 = 0b110;
const INJECT_RESULT: u32 = 1;
/// IORING_FEAT_MIN_TIMEOUT: Linux 6.12, later than IORING_NOP_INJECT_RESULT, which no feature tells of.
pub(crate) const SAYS_RESULTS: u32 = 1 << 15;
