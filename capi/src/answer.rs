//! Converts results to C's return values and errno.

use std::io;

/// A result with the errno to set as its error.
pub(crate) type Answer<T> = Result<T, Errno>;

/// An errno(3) number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Errno(pub(crate) i32);

impl From<io::Error> for Errno {
    fn from(error: io::Error) -> Errno {
        Errno(error.raw_os_error().unwrap_or(match error.kind() {
            io::ErrorKind::NotFound => libc::ENOENT,
            io::ErrorKind::NotConnected => libc::ECONNREFUSED,
            io::ErrorKind::InvalidInput => libc::EINVAL,
            _ => libc::EIO,
        }))
    }
}

fn fail(errno: Errno) {
    // SAFETY: errno is this thread's own.
    unsafe { *libc::__errno_location() = errno.0 };
}

/// Returns 0, or -1 with errno set.
pub(crate) fn status(answer: Answer<()>) -> libc::c_int {
    answer.map_or_else(|errno| (fail(errno), -1).1, |()| 0)
}

/// Returns a small number, or -1 with errno set.
pub(crate) fn number(answer: Answer<libc::c_int>) -> libc::c_int {
    answer.unwrap_or_else(|errno| (fail(errno), -1).1)
}

/// Returns a count, or -1 with errno set.
pub(crate) fn count(answer: Answer<usize>) -> libc::ssize_t {
    answer.map_or_else(|errno| (fail(errno), -1).1, |count| count as libc::ssize_t)
}

/// Returns a handle, or null with errno set.
pub(crate) fn handle<T>(answer: Answer<T>) -> *mut T {
    answer.map_or_else(|errno| (fail(errno), std::ptr::null_mut()).1, |value| Box::into_raw(Box::new(value)))
}

/// The object behind a handle; EFAULT for null.
pub(crate) unsafe fn borrow<'a, T>(handle: *const T) -> Answer<&'a T> {
    // SAFETY: as the crate says.
    unsafe { handle.as_ref() }.ok_or(Errno(libc::EFAULT))
}

/// Takes back ownership of the object behind a handle; `None` for null.
pub(crate) unsafe fn take<T>(handle: *mut T) -> Option<Box<T>> {
    // SAFETY: as the crate says; it was made by `handle`.
    (!handle.is_null()).then(|| unsafe { Box::from_raw(handle) })
}
