//! Reading and writing.

use libc::{c_char, c_int, iovec, size_t, ssize_t};

use crate::context::Context;
use ringway_cabi::{call, checked, give};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_read(context: *const Context, id: c_int, buffer: *mut c_char, len: size_t) -> ssize_t {
    give(call!(Context::fd(context, id)).and_then(|fd| checked(call!(libc::read(fd, buffer.cast(), len)))))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_recv(
    context: *const Context,
    id: c_int,
    buffer: *mut c_char,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    give(call!(Context::fd(context, id)).and_then(|fd| checked(call!(libc::recv(fd, buffer.cast(), len, flags)))))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_readv(context: *const Context, id: c_int, parts: *const iovec, count: c_int) -> c_int {
    // A call moves at most INT_MAX bytes where its result is an int.
    let moved = call!(Context::fd(context, id)).and_then(|fd| checked(call!(libc::readv(fd, parts, count))));
    give(moved.map(|moved| moved as c_int))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_write(context: *const Context, id: c_int, buffer: *const c_char, len: size_t) -> ssize_t {
    give(call!(Context::fd(context, id)).and_then(|fd| checked(call!(ringway_cabi::write(fd, buffer.cast(), len)))))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_writev(context: *const Context, id: c_int, parts: *const iovec, count: c_int) -> c_int {
    let moved = call!(Context::fd(context, id)).and_then(|fd| checked(call!(ringway_cabi::writev(fd, parts, count))));
    give(moved.map(|moved| moved as c_int))
}
