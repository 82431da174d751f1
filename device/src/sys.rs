//! System calls that several back ends need: vectored reads and writes over frames, and what an error means.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use ringway_shm::{Frame, Payload, PayloadMut, Room};

/// Room for the pieces of one packet, kept between calls.
#[derive(Default)]
pub(crate) struct Pieces(Vec<libc::iovec>);

/// The consequence for a packet that the system refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Keep it and try again later.
    Later,
    /// Drop it; others may pass.
    Packet,
    /// Drop it; the link itself is down or gone.
    Link,
}

/// Sorts an error of a transmit call.
pub(crate) fn refusal(error: &io::Error) -> Refusal {
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR | libc::ENOMEM | libc::EBUSY) => Refusal::Later,
        Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV | libc::EIO | libc::EBADFD | libc::EBADF) => Refusal::Link,
        _ => Refusal::Packet,
    }
}

/// `result` of a system call that says -1 for an error.
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A piece to read from.
#[inline]
pub(crate) fn piece(bytes: Payload<'_>) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
}

/// Where the bytes of a packet go that the first frame does not hold.
pub(crate) enum Rest<'a> {
    /// From the last frame to the first.
    Frames(&'a mut [Frame]),
    Room(&'a mut Room),
}

/// Reads one packet into `header`, then `head`, then `rest`.
pub(crate) fn read_packet(
    fd: BorrowedFd<'_>,
    header: &mut [u8],
    head: &mut Frame,
    rest: &mut Rest<'_>,
    pieces: &mut Pieces,
) -> io::Result<usize> {
    let writable = |mut bytes: PayloadMut<'_>| libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    pieces.0.clear();
    pieces.0.push(writable(header.into()));
    pieces.0.push(writable(head.bytes_mut().into()));
    match rest {
        Rest::Frames(frames) => pieces.0.extend(frames.iter_mut().rev().map(|frame| writable(frame.bytes_mut().into()))),
        Rest::Room(room) => pieces.0.push(writable(room.payload_mut())),
    }
    // SAFETY: every piece points to bytes of what this call borrows mutably, all of them disjoint.
    let count = unsafe { libc::readv(fd.as_raw_fd(), pieces.0.as_ptr(), pieces.0.len() as libc::c_int) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// Writes `header` and the frames as one packet.
pub(crate) fn write_packet<'a>(
    fd: BorrowedFd<'_>,
    header: &[u8],
    frames: impl Iterator<Item = &'a Frame>,
    pieces: &mut Pieces,
) -> io::Result<usize> {
    pieces.0.clear();
    pieces.0.push(piece(header.into()));
    pieces.0.extend(frames.map(|frame| piece(frame.payload())));
    // SAFETY: every piece points to bytes of what this call borrows; writev only reads them.
    let count = unsafe { libc::writev(fd.as_raw_fd(), pieces.0.as_ptr(), pieces.0.len() as libc::c_int) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}
