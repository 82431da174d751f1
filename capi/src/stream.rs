//! ringway_connect and the calls on a connection.

use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::net::Shutdown;
use std::slice;

use libc::{c_int, c_void, iovec, sockaddr, socklen_t, ssize_t};
use ringway::remote::{Session, Stream};

use crate::address;
use crate::answer::{Answer, Errno, borrow, count, handle, status, take};

/// IOV_MAX
const PARTS_MAX: c_int = 1024;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringway_connect(session: *const Session, remote: *const sockaddr, len: socklen_t) -> *mut Stream {
    // SAFETY: as the crate says.
    let answer = unsafe { borrow(session).and_then(|session| Ok((session, address::read(remote, len)?))) };
    handle(answer.and_then(|(session, remote)| Ok(session.connect(remote)?)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringway_local_address(stream: *const Stream, to: *mut sockaddr, len: *mut socklen_t) -> c_int {
    // SAFETY: as the crate says.
    status(unsafe { borrow(stream).and_then(|stream| address::write(stream.local_addr(), to, len)) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringway_peer_address(stream: *const Stream, to: *mut sockaddr, len: *mut socklen_t) -> c_int {
    // SAFETY: as the crate says.
    status(unsafe { borrow(stream).and_then(|stream| address::write(stream.peer_addr(), to, len)) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringway_set_nonblocking(stream: *const Stream, on: c_int) -> c_int {
    // SAFETY: as the crate says.
    status(unsafe { borrow(stream) }.map(|stream| stream.set_nonblocking(on != 0)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringway_read(stream: *const Stream, buffer: *mut c_void, len: usize) -> ssize_t {
    // SAFETY: as the crate says.
    count(unsafe { borrow(stream).and_then(|mut stream| Ok(stream.read(bytes_mut(buffer, len)?)?)) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringway_write(stream: *const Stream, buffer: *const c_void, len: usize) -> ssize_t {
    // SAFETY: as the crate says.
    count(unsafe { borrow(stream).and_then(|mut stream| Ok(stream.write(bytes(buffer, len)?)?)) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringway_readv(stream: *const Stream, parts: *const iovec, number: c_int) -> ssize_t {
    // SAFETY: as the crate says.
    let answer = unsafe { borrow(stream).and_then(|stream| Ok((stream, vector(parts, number)?))) };
    count(answer.and_then(|(mut stream, parts)| {
        let mut slices = Vec::with_capacity(parts.len());
        for part in parts {
            // SAFETY: as the crate says.
            slices.push(IoSliceMut::new(unsafe { bytes_mut(part.iov_base, part.iov_len) }?));
        }
        Ok(stream.read_vectored(&mut slices)?)
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringway_writev(stream: *const Stream, parts: *const iovec, number: c_int) -> ssize_t {
    // SAFETY: as the crate says.
    let answer = unsafe { borrow(stream).and_then(|stream| Ok((stream, vector(parts, number)?))) };
    count(answer.and_then(|(mut stream, parts)| {
        let mut slices = Vec::with_capacity(parts.len());
        for part in parts {
            // SAFETY: as the crate says.
            slices.push(IoSlice::new(unsafe { bytes(part.iov_base, part.iov_len) }?));
        }
        Ok(stream.write_vectored(&slices)?)
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringway_shutdown(stream: *const Stream) -> c_int {
    // SAFETY: as the crate says.
    status(unsafe { borrow(stream) }.and_then(|stream| Ok(stream.shutdown(Shutdown::Write)?)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringway_close(stream: *mut Stream) {
    // SAFETY: as the crate says.
    drop(unsafe { take(stream) });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringway_abort(stream: *mut Stream) {
    // SAFETY: as the crate says.
    if let Some(stream) = unsafe { take(stream) } {
        stream.abort();
    }
}

/// Returns a buffer to read from; EFAULT when it is null and not empty.
pub(crate) unsafe fn bytes<'a>(start: *const c_void, len: usize) -> Answer<&'a [u8]> {
    match (len, start.is_null()) {
        (0, _) => Ok(&[]),
        (_, true) => Err(Errno(libc::EFAULT)),
        // SAFETY: as the crate says.
        _ => Ok(unsafe { slice::from_raw_parts(start.cast(), len) }),
    }
}

/// Returns a buffer to write to; EFAULT when it is null and not empty.
pub(crate) unsafe fn bytes_mut<'a>(start: *mut c_void, len: usize) -> Answer<&'a mut [u8]> {
    match (len, start.is_null()) {
        (0, _) => Ok(&mut []),
        (_, true) => Err(Errno(libc::EFAULT)),
        // SAFETY: as the crate says; the bytes are only written to.
        _ => Ok(unsafe { slice::from_raw_parts_mut(start.cast(), len) }),
    }
}

/// Returns the parts of a vector; EINVAL when there are too many.
unsafe fn vector<'a>(parts: *const iovec, number: c_int) -> Answer<&'a [iovec]> {
    match (number, parts.is_null()) {
        (0, _) => Ok(&[]),
        (1..=PARTS_MAX, false) => {
            // SAFETY: as the crate says.
            Ok(unsafe { slice::from_raw_parts(parts, number as usize) })
        }
        (1..=PARTS_MAX, true) => Err(Errno(libc::EFAULT)),
        _ => Err(Errno(libc::EINVAL)),
    }
}
