//! Reading and writing. What is written may stand in a buffer of `buffers.rs`, which is known by its address. No call raises SIGPIPE: F-Stack has no
//! signals.

use libc::{c_int, c_void, iovec, msghdr, sockaddr, socklen_t, ssize_t};
use ringway_cabi::call;

use crate::buffers::{self, WhenFull};
use crate::run::note_work;

/// Notes what a call has read: the loop had something to do.
fn noted(moved: ssize_t) -> ssize_t {
    note_work(moved > 0);
    moved
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_read(fd: c_int, buffer: *mut c_void, len: usize) -> ssize_t {
    noted(call!(libc::read(fd, buffer, len)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    noted(call!(libc::readv(fd, parts, count)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_recv(fd: c_int, buffer: *mut c_void, len: usize, flags: c_int) -> ssize_t {
    noted(call!(libc::recv(fd, buffer, len, flags)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_recvfrom(
    fd: c_int,
    buffer: *mut c_void,
    len: usize,
    flags: c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
) -> ssize_t {
    noted(call!(libc::recvfrom(fd, buffer, len, flags, from, from_len)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    noted(call!(libc::recvmsg(fd, message, flags)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_write(fd: c_int, buffer: *const c_void, len: usize) -> ssize_t {
    if buffers::is_one(buffer) {
        return call!(buffers::send(fd, buffer, len, WhenFull::Gone));
    }
    call!(ringway_cabi::write(fd, buffer, len))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    call!(ringway_cabi::writev(fd, parts, count))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_send(fd: c_int, buffer: *const c_void, len: usize, flags: c_int) -> ssize_t {
    call!(libc::send(fd, buffer, len, flags | libc::MSG_NOSIGNAL))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_sendto(
    fd: c_int,
    buffer: *const c_void,
    len: usize,
    flags: c_int,
    to: *const sockaddr,
    to_len: socklen_t,
) -> ssize_t {
    call!(libc::sendto(fd, buffer, len, flags | libc::MSG_NOSIGNAL, to, to_len))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    call!(libc::sendmsg(fd, message, flags | libc::MSG_NOSIGNAL))
}
