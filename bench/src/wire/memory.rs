//! A shared-memory link between the two roles; its descriptors are passed over their standard inputs, which are sockets.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use ringway_device::memory::link::CAPACITY;
use ringway_shm::wire::{WireEnd, wire};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

/// Descriptors of an end: the memory, its eventfd, the peer's eventfd.
const DESCRIPTORS: usize = 3;

/// An end of the link; the first sends in the first direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The server's end.
    First,
    /// The client's end.
    Second,
}

/// Creates a link.
///
/// # Errors
/// Memory or descriptors are exhausted.
pub fn link() -> io::Result<(WireEnd, WireEnd)> {
    wire(CAPACITY)
}

/// Sends an end over `stream` to its peer.
///
/// # Errors
/// The peer has closed.
pub fn give(stream: &UnixStream, end: &WireEnd) -> io::Result<()> {
    let descriptors = [end.memory.as_fd(), end.wake_fd.as_fd(), end.peer_wake_fd.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)), "the space was made for them");
    sendmsg(stream, &[IoSlice::new(b"w")], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives an end from `stream`, as the first read from it.
///
/// # Errors
/// Something else arrived.
///
/// # Blocking
/// Until it arrives.
pub fn take(stream: impl AsFd, end: End) -> io::Result<WireEnd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let message = recvmsg(stream, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let rights = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let descriptors: Vec<OwnedFd> = rights.flatten().collect();
    let is_whole = message.bytes == 1 && !message.flags.contains(ReturnFlags::CTRUNC);
    match <[OwnedFd; DESCRIPTORS]>::try_from(descriptors) {
        Ok([memory, wake_fd, peer_wake_fd]) if is_whole => {
            Ok(WireEnd { memory, wake_fd, peer_wake_fd, capacity: CAPACITY, first: end == End::First })
        }
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "expected an end of a link over standard input")),
    }
}

#[cfg(test)]
mod tests;
