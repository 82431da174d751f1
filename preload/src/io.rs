//! read, write, recv, send and their relatives.

use crate::c::{self, size};
use crate::datagram;
use crate::real;
use crate::shim::{ours, ours_fast, posix};
use libc::{c_int, c_uint, c_void, iovec, off_t, size_t, sockaddr, socklen_t, ssize_t};
use ringway_posix::fd_table::Descriptor;
use ringway_posix::{Answer, Errno, Posix, Receive, Send};
use std::io::{IoSlice, IoSliceMut};
use std::ptr;

/// Receives by a stream of ours; `flags`: those of recv(2). `None`: the kernel has got the socket, and its call decides.
pub(crate) fn take_pieces(
    posix: &Posix,
    at: Descriptor,
    mut pieces: &mut [IoSliceMut<'_>],
    flags: c_int,
) -> Option<Answer<usize>> {
    let wanted: usize = pieces.iter().map(|piece| piece.len()).sum();
    let answer = posix.receive(at.socket, pieces, Receive::from_flags(flags));
    let Ok(done) = posix.settled(at, answer)? else { return Some(answer) };
    let waits_for_all = flags & (libc::MSG_WAITALL | libc::MSG_PEEK | libc::MSG_DONTWAIT) == libc::MSG_WAITALL;
    if done < wanted && waits_for_all && posix.has_left(at.socket) {
        IoSliceMut::advance_slices(&mut pieces, done);
        let mut message = message_of_vector(pieces.as_ptr().cast(), pieces.len());
        // SAFETY: IoSliceMut has the layout of iovec; the pieces outlive the call.
        let more = unsafe { real::recvmsg(at.fd, &raw mut message, flags) };
        return Some(Ok(done + usize::try_from(more).unwrap_or(0)));
    }
    Some(Ok(done))
}

/// Sends by a stream of ours, by the kernel what was left when it got the socket; `flags`: those of send(2). `None`: all of it.
pub(crate) fn give_pieces(posix: &Posix, at: Descriptor, mut pieces: &mut [IoSlice<'_>], flags: c_int) -> Option<Answer<usize>> {
    let wanted: usize = pieces.iter().map(|piece| piece.len()).sum();
    let answer = posix.send(at.socket, pieces, Send::from_flags(flags));
    let Ok(done) = posix.settled(at, answer)? else { return Some(answer) };
    if done < wanted && posix.has_left(at.socket) {
        IoSlice::advance_slices(&mut pieces, done);
        let message = message_of_vector(pieces.as_ptr().cast(), pieces.len());
        // SAFETY: IoSlice has the layout of iovec; the pieces outlive the call.
        let more = unsafe { real::sendmsg(at.fd, &raw const message, flags) };
        return Some(Ok(done + usize::try_from(more).unwrap_or(0)));
    }
    Some(Ok(done))
}

/// `flags`: those of recv(2). `None`: the kernel's call.
unsafe fn take(posix: &Posix, at: Descriptor, bytes: *mut c_void, len: size_t, flags: c_int) -> Option<ssize_t> {
    if posix.is_datagram(at.socket) {
        // SAFETY: the program promises `len` bytes at `bytes`.
        return Some(unsafe { datagram::receive_from(posix, at, (bytes, len), flags, (ptr::null_mut(), ptr::null_mut())) });
    }
    let how = Receive::from_flags(flags);
    if how.discard {
        // Nothing is written: the kernel does not look at the buffer either.
        let answer = posix.discard(at.socket, len.min(c::SIZE_MAX), how);
        return posix.settled(at, answer).map(size);
    }
    // SAFETY: the program promises `len` bytes at `bytes`.
    match unsafe { c::output(bytes, len) } {
        Ok(bytes) => take_pieces(posix, at, &mut [IoSliceMut::new(bytes)], flags).map(size),
        Err(error) => Some(size(Err(error))),
    }
}

/// `flags`: those of send(2). `None`: the kernel's call.
unsafe fn give(posix: &Posix, at: Descriptor, bytes: *const c_void, len: size_t, flags: c_int) -> Option<ssize_t> {
    if posix.is_datagram(at.socket) {
        // SAFETY: the program promises `len` bytes at `bytes`.
        return Some(unsafe { datagram::send_to(posix, at, (bytes, len), flags, (ptr::null(), 0)) });
    }
    // SAFETY: the program promises `len` bytes at `bytes`.
    match unsafe { c::input(bytes, len) } {
        Ok(bytes) => give_pieces(posix, at, &mut [IoSlice::new(bytes)], flags).map(size),
        Err(error) => Some(size(Err(error))),
    }
}

/// net/at.socket.c, sock_read_iter: a read of no bytes takes nothing, not even from a datagram at.socket.
unsafe fn read_some(posix: &Posix, at: Descriptor, bytes: *mut c_void, len: size_t) -> Option<ssize_t> {
    if len == 0 {
        return Some(0);
    }
    // SAFETY: the caller's promise.
    unsafe { take(posix, at, bytes, len, 0) }
}

/// The vector calls that read; `flags`: those of recv(2). `None`: the kernel's call.
///
/// Not inlined, like all that owns memory while it waits: a cancelled thread (pthread_cancel) unwinds from the wait, and where an
/// exported function, which cannot unwind, had something to drop, the program would end.
#[inline(never)]
unsafe fn take_vector(posix: &Posix, at: Descriptor, pieces: *const iovec, count: c_int, flags: c_int) -> Option<ssize_t> {
    // SAFETY: the program's promise about its vector.
    let mut buffers = match unsafe { c::outputs(pieces, count) } {
        Ok(buffers) => buffers,
        Err(error) => return Some(size(Err(error))),
    };
    // fs/read_write.c, vfs_readv: a vector of no bytes takes nothing, a datagram neither.
    if buffers.iter().all(|buffer| buffer.is_empty()) {
        return Some(0);
    }
    if !posix.is_datagram(at.socket) {
        return take_pieces(posix, at, &mut buffers, flags).map(size);
    }
    let mut message = message_of_vector(pieces, buffers.len());
    // SAFETY: the message describes the program's promise; `buffers` is not used any more.
    Some(size(unsafe { datagram::receive(posix, at, &mut message, flags) }))
}

/// The vector calls that write; `flags`: those of send(2). Not inlined for the same reason. `None`: the kernel's call.
#[inline(never)]
unsafe fn give_vector(posix: &Posix, at: Descriptor, pieces: *const iovec, count: c_int, flags: c_int) -> Option<ssize_t> {
    // SAFETY: the program's promise about its vector.
    let mut buffers = match unsafe { c::inputs(pieces, count) } {
        Ok(buffers) => buffers,
        Err(error) => return Some(size(Err(error))),
    };
    // fs/read_write.c, vfs_writev: a vector of no bytes sends nothing, no empty datagram either.
    if buffers.iter().all(|buffer| buffer.is_empty()) {
        return Some(0);
    }
    if !posix.is_datagram(at.socket) {
        return give_pieces(posix, at, &mut buffers, flags).map(size);
    }
    let message = message_of_vector(pieces, buffers.len());
    // SAFETY: the message describes the program's promise.
    Some(size(unsafe { datagram::send(posix, at, &message, flags) }))
}

fn message_of_vector(pieces: *const iovec, count: usize) -> libc::msghdr {
    let mut none = iovec { iov_base: ptr::null_mut(), iov_len: 0 };
    let mut message = datagram::message_of(&mut none);
    (message.msg_iov, message.msg_iovlen) = (pieces.cast_mut(), count);
    message
}

/// What preadv2 and pwritev2 may ask of a socket, in the words of recv(2) and send(2).
fn flags_of_vector(flags: c_int) -> Answer<c_int> {
    match flags {
        // include/linux/fs.h, kiocb_set_rw_flags.
        flags if flags & !RWF_KNOWN != 0 => Err(Errno::OPNOTSUPP),
        flags if flags & libc::RWF_NOWAIT != 0 => Ok(libc::MSG_DONTWAIT),
        _ => Ok(0),
    }
}

/// include/uapi/linux/fs.h: those that a socket takes. RWF_NOAPPEND, RWF_ATOMIC and RWF_DONTCACHE are for files.
const RWF_KNOWN: c_int = libc::RWF_HIPRI | libc::RWF_DSYNC | libc::RWF_SYNC | libc::RWF_NOWAIT | libc::RWF_APPEND;

/// read(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn read(fd: c_int, bytes: *mut c_void, len: size_t) -> ssize_t {
    if let Some((posix, socket)) = ours_fast(fd)
        // SAFETY: the program's promise.
        && let Some(answer) = unsafe { read_some(posix, Descriptor { fd, socket }, bytes, len) }
    {
        return answer;
    }
    // SAFETY: the program's own call.
    unsafe { real::read(fd, bytes, len) }
}

/// read(2) of a fortified program: `room` is what the compiler knows of the buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __read_chk(fd: c_int, bytes: *mut c_void, len: size_t, room: size_t) -> ssize_t {
    if let Some((posix, socket)) = ours_fast(fd)
        && len <= room
        // SAFETY: the program's promise, now checked by its compiler.
        && let Some(answer) = unsafe { read_some(posix, Descriptor { fd, socket }, bytes, len) }
    {
        return answer;
    }
    // SAFETY: the program's own call; libc ends it when the length is too large.
    unsafe { real::__read_chk(fd, bytes, len, room) }
}

/// readv(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn readv(fd: c_int, pieces: *const iovec, count: c_int) -> ssize_t {
    if let Some((posix, socket)) = ours_fast(fd)
        // SAFETY: the program's promise about its vector.
        && let Some(answer) = unsafe { take_vector(posix, Descriptor { fd, socket }, pieces, count, 0) }
    {
        return answer;
    }
    // SAFETY: the program's own call.
    unsafe { real::readv(fd, pieces, count) }
}

/// preadv2(2): on a socket only with offset -1, which is readv.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn preadv2(fd: c_int, pieces: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t {
    match (ours_fast(fd), flags_of_vector(flags)) {
        (Some(_), _) if offset != -1 => return size(Err(Errno::SPIPE)),
        (Some(_), Err(error)) => return size(Err(error)),
        (Some((posix, socket)), Ok(asked)) => {
            // SAFETY: the program's promise about its vector.
            if let Some(answer) = unsafe { take_vector(posix, Descriptor { fd, socket }, pieces, count, asked) } {
                return answer;
            }
        }
        (None, _) => {}
    }
    // SAFETY: the program's own call.
    unsafe { real::preadv2(fd, pieces, count, offset, flags) }
}

/// preadv2(2) under its name in programs with 64-bit file offsets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn preadv64v2(fd: c_int, pieces: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t {
    // SAFETY: the same contract.
    unsafe { preadv2(fd, pieces, count, offset, flags) }
}

/// write(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(fd: c_int, bytes: *const c_void, len: size_t) -> ssize_t {
    if let Some((posix, socket)) = ours_fast(fd)
        // SAFETY: the program's promise.
        && let Some(answer) = unsafe { give(posix, Descriptor { fd, socket }, bytes, len, 0) }
    {
        return answer;
    }
    // SAFETY: the program's own call.
    unsafe { real::write(fd, bytes, len) }
}

/// writev(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn writev(fd: c_int, pieces: *const iovec, count: c_int) -> ssize_t {
    if let Some((posix, socket)) = ours_fast(fd)
        // SAFETY: the program's promise about its vector.
        && let Some(answer) = unsafe { give_vector(posix, Descriptor { fd, socket }, pieces, count, 0) }
    {
        return answer;
    }
    // SAFETY: the program's own call.
    unsafe { real::writev(fd, pieces, count) }
}

/// pwritev2(2): on a socket only with offset -1, which is writev.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwritev2(fd: c_int, pieces: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t {
    match (ours_fast(fd), flags_of_vector(flags)) {
        (Some(_), _) if offset != -1 => return size(Err(Errno::SPIPE)),
        (Some(_), Err(error)) => return size(Err(error)),
        (Some((posix, socket)), Ok(asked)) => {
            // SAFETY: the program's promise about its vector.
            if let Some(answer) = unsafe { give_vector(posix, Descriptor { fd, socket }, pieces, count, asked) } {
                return answer;
            }
        }
        (None, _) => {}
    }
    // SAFETY: the program's own call.
    unsafe { real::pwritev2(fd, pieces, count, offset, flags) }
}

/// pwritev2(2) under its name in programs with 64-bit file offsets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwritev64v2(fd: c_int, pieces: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t {
    // SAFETY: the same contract.
    unsafe { pwritev2(fd, pieces, count, offset, flags) }
}

/// recv(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recv(fd: c_int, bytes: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
    if let Some((posix, socket)) = ours_fast(fd)
        // SAFETY: the program's promise.
        && let Some(answer) = unsafe { take(posix, Descriptor { fd, socket }, bytes, len, flags) }
    {
        return answer;
    }
    // SAFETY: the program's own call.
    unsafe { real::recv(fd, bytes, len, flags) }
}

/// recv(2) of a fortified program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __recv_chk(fd: c_int, bytes: *mut c_void, len: size_t, room: size_t, flags: c_int) -> ssize_t {
    if let Some((posix, socket)) = ours_fast(fd)
        && len <= room
        // SAFETY: the program's promise, now checked by its compiler.
        && let Some(answer) = unsafe { take(posix, Descriptor { fd, socket }, bytes, len, flags) }
    {
        return answer;
    }
    // SAFETY: the program's own call; libc ends it when the length is too large.
    unsafe { real::__recv_chk(fd, bytes, len, room, flags) }
}

/// recvfrom(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvfrom(
    fd: c_int,
    bytes: *mut c_void,
    len: size_t,
    flags: c_int,
    address: *mut sockaddr,
    address_len: *mut socklen_t,
) -> ssize_t {
    if let Some((posix, socket)) = ours_fast(fd)
        // SAFETY: the program's promise.
        && let Some(answer) = unsafe { take_from(posix, Descriptor { fd, socket }, (bytes, len), flags, (address, address_len)) }
    {
        return answer;
    }
    // SAFETY: the program's own call.
    unsafe { real::recvfrom(fd, bytes, len, flags, address, address_len) }
}

/// recvfrom(2) of a fortified program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __recvfrom_chk(
    fd: c_int,
    bytes: *mut c_void,
    len: size_t,
    room: size_t,
    flags: c_int,
    address: *mut sockaddr,
    address_len: *mut socklen_t,
) -> ssize_t {
    if let Some((posix, socket)) = ours_fast(fd)
        && len <= room
        // SAFETY: the program's promise, now checked by its compiler.
        && let Some(answer) = unsafe { take_from(posix, Descriptor { fd, socket }, (bytes, len), flags, (address, address_len)) }
    {
        return answer;
    }
    // SAFETY: the program's own call; libc ends it when the length is too large.
    unsafe { real::__recvfrom_chk(fd, bytes, len, room, flags, address, address_len) }
}

unsafe fn take_from(
    posix: &Posix,
    at: Descriptor,
    (bytes, len): (*mut c_void, size_t),
    flags: c_int,
    (address, address_len): (*mut sockaddr, *mut socklen_t),
) -> Option<ssize_t> {
    if posix.is_datagram(at.socket) {
        // SAFETY: the program's promise.
        return Some(unsafe { datagram::receive_from(posix, at, (bytes, len), flags, (address, address_len)) });
    }
    // SAFETY: the program's promise about its room.
    if let Err(error) = unsafe { c::check_room(address, address_len) } {
        return Some(size(Err(error)));
    }
    // SAFETY: the program's promise.
    let answer = unsafe { take(posix, at, bytes, len, flags) }?;
    if answer >= 0 && !address.is_null() {
        // SAFETY: checked; the program promises it is valid. A stream names no sender.
        unsafe { *address_len = 0 };
    }
    Some(answer)
}

/// send(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn send(fd: c_int, bytes: *const c_void, len: size_t, flags: c_int) -> ssize_t {
    if let Some((posix, socket)) = ours_fast(fd)
        // SAFETY: the program's promise.
        && let Some(answer) = unsafe { give(posix, Descriptor { fd, socket }, bytes, len, flags) }
    {
        return answer;
    }
    // SAFETY: the program's own call.
    unsafe { real::send(fd, bytes, len, flags) }
}

/// sendto(2). A connected stream ignores the address, as the kernel does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendto(
    fd: c_int,
    bytes: *const c_void,
    len: size_t,
    flags: c_int,
    address: *const sockaddr,
    address_len: socklen_t,
) -> ssize_t {
    // SAFETY: the program's promise about its address.
    match unsafe { datagram::ours_towards(fd, address, address_len) } {
        Some(Err(error)) => c::size(Err(error)),
        Some(Ok((posix, socket))) if posix.is_datagram(socket) => {
            // SAFETY: the program's promise.
            unsafe { datagram::send_to(posix, Descriptor { fd, socket }, (bytes, len), flags, (address, address_len)) }
        }
        Some(Ok((posix, socket))) => {
            // SAFETY: the program's promise.
            let answer = unsafe { give(posix, Descriptor { fd, socket }, bytes, len, flags) };
            // SAFETY: the program's own call, on a connection now.
            answer.unwrap_or_else(|| unsafe { real::send(fd, bytes, len, flags) })
        }
        None => {
            let fast = if flags & libc::MSG_FASTOPEN == 0 {
                None
            } else {
                // SAFETY: the program's promise.
                unsafe { give_fast(fd, (bytes, len), flags, (address, address_len)) }
            };
            // SAFETY: the program's own call.
            fast.unwrap_or_else(|| unsafe { real::sendto(fd, bytes, len, flags, address, address_len) })
        }
    }
}

/// sendto(2) with MSG_FASTOPEN on a socket that is not ours yet. `None`: the kernel's call.
unsafe fn give_fast(
    fd: c_int,
    (bytes, len): (*const c_void, size_t),
    flags: c_int,
    (address, address_len): (*const sockaddr, socklen_t),
) -> Option<ssize_t> {
    let posix = posix()?;
    // SAFETY: the program's promise about `address` and its length.
    let to = unsafe { c::address(address, address_len) }.ok()?;
    // SAFETY: the program's promise about `bytes` and `len`.
    let piece = unsafe { c::input(bytes, len) }.ok()?;
    posix.send_fast(fd, to, &[IoSlice::new(piece)], Send::from_flags(flags)).map(size)
}

/// sendfile(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendfile(out: c_int, input: c_int, offset: *mut off_t, count: size_t) -> ssize_t {
    let Some((posix, socket)) = ours(out) else {
        // SAFETY: the program's own call.
        return unsafe { real::sendfile(out, input, offset, count) };
    };
    if !offset.is_null() && !c::may_be_memory(offset.cast(), size_of::<off_t>()) {
        return size(Err(Errno::FAULT));
    }
    let at = Descriptor { fd: out, socket };
    // SAFETY: null, or the program promises that it is valid.
    let answer = posix.sendfile(socket, input, unsafe { offset.as_mut() }, count);
    let done = match posix.settled(at, answer) {
        Some(Ok(done)) if done == count || !posix.has_left(at.socket) => return done as ssize_t,
        Some(Ok(done)) => done,
        Some(Err(error)) => return size(Err(error)),
        None => 0,
    };
    // SAFETY: the program's own call, for what is left of it.
    let more = unsafe { real::sendfile(out, input, offset, count - done) };
    if done > 0 { done as ssize_t + more.max(0) } else { more }
}

/// sendfile(2) under its name in programs with 64-bit file offsets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendfile64(out: c_int, input: c_int, offset: *mut off_t, count: size_t) -> ssize_t {
    // SAFETY: the same contract.
    unsafe { sendfile(out, input, offset, count) }
}

/// splice(2). Between a pipe and a socket of ours the bytes are copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn splice(
    input: c_int,
    input_offset: *mut i64,
    out: c_int,
    out_offset: *mut i64,
    len: size_t,
    flags: c_uint,
) -> ssize_t {
    let dont_wait = flags & libc::SPLICE_F_NONBLOCK != 0;
    match (ours(input), ours(out)) {
        (None, None) => {
            // SAFETY: the program's own call.
            unsafe { real::splice(input, input_offset, out, out_offset, len, flags) }
        }
        (Some(_), Some(_)) => size(Err(Errno::INVAL)),
        (None, Some(_)) if !out_offset.is_null() => size(Err(Errno::SPIPE)),
        (Some(_), None) if !input_offset.is_null() => size(Err(Errno::SPIPE)),
        (None, Some((posix, socket))) => {
            let at = Descriptor { fd: out, socket };
            let answer = posix.splice_out(at, input, len, dont_wait);
            // SAFETY: the program's own call.
            posix
                .settled(at, answer)
                .map_or_else(|| unsafe { real::splice(input, input_offset, out, out_offset, len, flags) }, size)
        }
        (Some((posix, socket)), None) => {
            let at = Descriptor { fd: input, socket };
            let answer = posix.splice_in(at, out, len, dont_wait);
            // SAFETY: the program's own call.
            posix
                .settled(at, answer)
                .map_or_else(|| unsafe { real::splice(input, input_offset, out, out_offset, len, flags) }, size)
        }
    }
}
