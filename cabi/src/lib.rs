//! What the libraries with another stack's C interface share: errno, and the process that they are loaded into.

use std::ffi::CStr;

use libc::{c_int, c_void, iovec, ssize_t};

/// Makes a call of libc with what the caller of the library has given.
#[macro_export]
macro_rules! call {
    ($call:expr) => {
        // SAFETY: as the library's root says: pointers and lengths are the caller's, which the header binds.
        unsafe { $call }
    };
}

/// A result with the errno to set as its error.
pub type Answer<T> = Result<T, Errno>;

/// An errno(3) number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub c_int);

impl Errno {
    /// What the last call of libc has set.
    pub fn last() -> Errno {
        Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
    }

    /// Sets errno of this thread.
    pub fn set(self) {
        // SAFETY: errno is this thread's own.
        unsafe { *libc::__errno_location() = self.0 };
    }
}

/// What a call of libc returns: -1 where it has failed.
pub trait Returned: Copy {
    /// -1
    const FAILED: Self;
    /// Is it negative?
    fn has_failed(self) -> bool;
}

impl Returned for c_int {
    const FAILED: c_int = -1;
    fn has_failed(self) -> bool {
        self < 0
    }
}

impl Returned for ssize_t {
    const FAILED: ssize_t = -1;
    fn has_failed(self) -> bool {
        self < 0
    }
}

/// What a call of libc has returned.
///
/// # Errors
/// Its errno.
pub fn checked<T: Returned>(returned: T) -> Answer<T> {
    if returned.has_failed() { Err(Errno::last()) } else { Ok(returned) }
}

/// Returns a number, or -1 with errno set.
pub fn give<T: Returned>(answer: Answer<T>) -> T {
    answer.unwrap_or_else(|errno| {
        errno.set();
        T::FAILED
    })
}

/// Sets a socket option whose value is an int.
///
/// # Errors
/// As setsockopt(2).
pub fn set_number(fd: c_int, level: c_int, option: c_int, value: c_int) -> Answer<()> {
    let size = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: the value lives until the call returns.
    checked(unsafe { libc::setsockopt(fd, level, option, (&raw const value).cast(), size) }).map(|_| ())
}

/// A server's port: every context or process of a program binds it, and programs are started again while connections of the last one end.
///
/// # Errors
/// As setsockopt(2).
pub fn share_port(fd: c_int) -> Answer<()> {
    set_number(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    set_number(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)
}

/// A client's socket gets its address before connect; connect finds the port.
///
/// # Errors
/// As setsockopt(2).
pub fn bind_without_port(fd: c_int) -> Answer<()> {
    set_number(fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)
}

/// write(2) without SIGPIPE: the stacks whose programs these are have no signals, and their programs do not know of it.
///
/// # Safety
/// As write(2): `buffer` has `len` bytes.
pub unsafe fn write(fd: c_int, buffer: *const c_void, len: usize) -> ssize_t {
    // SAFETY: as the function says.
    unsafe {
        match libc::send(fd, buffer, len, libc::MSG_NOSIGNAL) {
            -1 if Errno::last() == Errno(libc::ENOTSOCK) => libc::write(fd, buffer, len),
            sent => sent,
        }
    }
}

/// writev(2), the same way.
///
/// # Safety
/// As writev(2): there are `count` parts.
pub unsafe fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    const PARTS_MAX: c_int = 1024;
    if !(0..=PARTS_MAX).contains(&count) {
        return give(Err(Errno(libc::EINVAL)));
    }
    // SAFETY: a structure of all zeros is one; as the function says.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        (message.msg_iov, message.msg_iovlen) = (parts.cast_mut(), count as _);
        match libc::sendmsg(fd, &raw const message, libc::MSG_NOSIGNAL) {
            -1 if Errno::last() == Errno(libc::ENOTSOCK) => libc::writev(fd, parts, count),
            sent => sent,
        }
    }
}

/// The name of the library that makes socket calls Ringway's.
const PRELOAD: &[u8] = b"libringway_preload.so";

/// Is socket(2), as the process calls it, the preload library's?
pub fn is_on_ringway() -> bool {
    let mut info = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    // SAFETY: the structure lives until the call returns; the name is the loader's, which keeps it.
    unsafe {
        let is_known = libc::dladdr(libc::socket as *const () as *const libc::c_void, &raw mut info) != 0;
        is_known && !info.dli_fname.is_null() && CStr::from_ptr(info.dli_fname).to_bytes().ends_with(PRELOAD)
    }
}

/// Raises the limit of descriptors as far as the process may; where it may not, it stays.
pub fn raise_descriptors() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure lives until the calls return.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

/// What a program says at its start if its sockets are the kernel's.
pub const NOT_ON_RINGWAY: &str = "the sockets are the kernel's; start the program with `ringway run`";
