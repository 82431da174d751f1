//! Datagrams of sockets of ours, whichever libc function carries them: every call becomes one on a `msghdr`.
//!
//! The kernel's socket underneath fills and reads the very same message, so what it delivers looks as it always does.

use crate::c;
use crate::real;
use crate::shim::posix;
use libc::{c_int, c_void, iovec, msghdr, size_t, sockaddr, socklen_t, ssize_t};
use ringway_posix::channel::Received;
use ringway_posix::fd_table::{Descriptor, SocketRef};
use ringway_posix::{Answer, Arrival, Outgoing, Posix, Receive, Send};

/// A message of one buffer.
pub(crate) fn message_of(piece: &mut iovec) -> msghdr {
    // SAFETY: null pointers and zero lengths are a valid, empty msghdr.
    let mut message: msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = piece;
    message.msg_iovlen = 1;
    message
}

/// The socket of ours that a call with this destination concerns: one that is ours already, or one that has just become so.
///
/// # Errors
/// ENETDOWN in strict mode: it would be the kernel's.
///
/// # Safety
/// `address` points at `len` readable bytes, or is null.
pub(crate) unsafe fn ours_towards(
    fd: c_int,
    address: *const sockaddr,
    len: socklen_t,
) -> Option<Answer<(&'static Posix, SocketRef)>> {
    let posix = posix()?;
    if let Some(socket) = posix.table().socket(fd) {
        return Some(Ok((posix, socket)));
    }
    if address.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let bytes = unsafe { c::address(address, len) }.ok()?;
    posix.datagram_socket_for(fd, bytes).map(|answer| answer.map(|socket| (posix, socket)))
}

/// recvmsg(2) on a datagram socket of ours.
///
/// # Safety
/// `message` and all that it points at are the program's promise, as for recvmsg.
pub(crate) unsafe fn receive(posix: &Posix, at: Descriptor, message: &mut msghdr, flags: c_int) -> Answer<usize> {
    if flags & libc::MSG_ERRQUEUE != 0 {
        // SAFETY: the caller's promise.
        return c::checked_size(unsafe { real::recvmsg(at.fd, message, flags) });
    }
    let count = c::piece_count(message)?;
    // SAFETY: the caller's promise about its vector.
    let mut pieces = unsafe { c::outputs(message.msg_iov, count) }?;
    let raw: *mut msghdr = message;
    let mut shadow = || {
        // SAFETY: the caller's promise. The pieces are not touched meanwhile.
        c::checked_size(unsafe { real::recvmsg(at.fd, raw, flags | libc::MSG_DONTWAIT) })
    };
    match posix.receive_datagram(at, &mut pieces, Receive::from_flags(flags), &mut shadow)? {
        // SAFETY: the caller's promise; nothing else refers to the message now.
        Arrival::Stack(received) => Ok(unsafe { describe(posix, at.socket, &mut *raw, &received, flags) }),
        Arrival::Kernel(bytes) => Ok(bytes),
        Arrival::End => {
            // SAFETY: as above.
            let message = unsafe { &mut *raw };
            (message.msg_namelen, message.msg_controllen, message.msg_flags) = (0, 0, 0);
            Ok(0)
        }
        // SAFETY: the caller's promise.
        Arrival::Surrendered => c::checked_size(unsafe { real::recvmsg(at.fd, raw, flags) }),
    }
}

/// Writes what comes beside the payload; answers what the call answers.
unsafe fn describe(posix: &Posix, socket: SocketRef, message: &mut msghdr, received: &Received, flags: c_int) -> usize {
    let room = if message.msg_control.is_null() { 0 } else { message.msg_controllen };
    let (name, control, cut) = posix.describe_datagram(socket, &received.envelope, room);
    message.msg_flags = if cut { libc::MSG_CTRUNC } else { 0 };
    if received.copied < received.envelope.len {
        message.msg_flags |= libc::MSG_TRUNC;
    }
    let (to, len) = (message.msg_name.cast(), &raw mut message.msg_namelen);
    // SAFETY: the program promises `msg_namelen` bytes at `msg_name`.
    unsafe { c::put_address(&name, to, len) };
    if message.msg_name.is_null() {
        message.msg_namelen = 0;
    }
    if !control.is_empty() {
        // SAFETY: not more than the `msg_controllen` bytes that the program promises at `msg_control`.
        unsafe { std::ptr::copy_nonoverlapping(control.as_ptr(), message.msg_control.cast(), control.len()) };
    }
    message.msg_controllen = control.len();
    if flags & libc::MSG_TRUNC != 0 { received.envelope.len } else { received.copied }
}

/// sendmsg(2) on a datagram socket of ours.
///
/// # Safety
/// `message` and all that it points at are the program's promise, as for sendmsg.
pub(crate) unsafe fn send(posix: &Posix, at: Descriptor, message: &msghdr, flags: c_int) -> Answer<usize> {
    let count = c::piece_count(message)?;
    // SAFETY: the caller's promise about its vector.
    let pieces = unsafe { c::inputs(message.msg_iov, count) }?;
    let to = if message.msg_name.is_null() || message.msg_namelen == 0 {
        None
    } else {
        // SAFETY: the caller's promise about its address.
        Some(unsafe { c::address(message.msg_name.cast(), message.msg_namelen) }?)
    };
    // SAFETY: the caller's promise about its control data.
    let control = unsafe { c::input(message.msg_control, message.msg_controllen) }?;
    match posix.send_datagram(at, Outgoing { to, control, pieces: &pieces }, Send::from_flags(flags)) {
        Some(answer) => answer,
        // SAFETY: the caller's promise. Where the program's at.socket does not block, neither does the kernel's.
        None => c::checked_size(unsafe { real::sendmsg(at.fd, message, flags) }),
    }
}

/// Receives into one buffer.
///
/// # Safety
/// `bytes` points at `len` writable bytes; `address`, if not null, at `*address_len`.
pub(crate) unsafe fn receive_from(
    posix: &Posix,
    at: Descriptor,
    (bytes, len): (*mut c_void, size_t),
    flags: c_int,
    (address, address_len): (*mut sockaddr, *mut socklen_t),
) -> ssize_t {
    // SAFETY: the caller's promise about its room.
    if let Err(error) = unsafe { c::check_room(address, address_len) } {
        return c::size(Err(error));
    }
    let mut piece = iovec { iov_base: bytes, iov_len: len };
    let mut message = message_of(&mut piece);
    if !address.is_null() {
        message.msg_name = address.cast();
        // SAFETY: not null; the program promises that it is valid.
        message.msg_namelen = unsafe { *address_len };
    }
    // SAFETY: the message describes the caller's promise.
    let answer = unsafe { receive(posix, at, &mut message, flags) };
    if answer.is_ok() && !address.is_null() {
        // SAFETY: as above.
        unsafe { *address_len = message.msg_namelen };
    }
    c::size(answer)
}

/// Sends one buffer.
///
/// # Safety
/// `bytes` points at `len` readable bytes; `address`, if not null, at `address_len`.
pub(crate) unsafe fn send_to(
    posix: &Posix,
    at: Descriptor,
    (bytes, len): (*const c_void, size_t),
    flags: c_int,
    (address, address_len): (*const sockaddr, socklen_t),
) -> ssize_t {
    let mut piece = iovec { iov_base: bytes.cast_mut(), iov_len: len };
    let mut message = message_of(&mut piece);
    message.msg_name = address.cast_mut().cast();
    message.msg_namelen = if address.is_null() { 0 } else { address_len };
    // SAFETY: the message describes the caller's promise, and is only read.
    c::size(unsafe { send(posix, at, &message, flags) })
}
