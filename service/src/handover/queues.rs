//! The queues of a kernel socket: room for them, and what goes in.
//!
//! A queue may be larger than the buffer that the kernel gives a new socket, so buffers are made large enough first. In the end
//! a size that the program has set holds again; without one the kernel goes on to tune what there is.

use std::io;
use std::os::fd::BorrowedFd;

use ringway_device::repair::{self, Number};
use ringway_stack::TcpOptions;
use rustix::io::Errno;
use rustix::net::{SendFlags, send, sockopt};

/// Memory for each byte that is sent, at most: small segments take much more than they carry. What is received is in whole pages, and
/// the kernel doubles what it is told.
const SEND_OVERHEAD: usize = 2;
/// The kernel takes no larger buffer.
const SIZE_MAX: usize = i32::MAX as usize / 2;
/// Room for a few segments, whatever the queues have.
const SPARE_BYTES: usize = 64 << 10;
/// Bits of SO_BUF_LOCK.
const SEND_LOCK: i32 = 1;
const RECEIVE_LOCK: i32 = 2;

/// Whether more bytes follow soon, by what the program has said (MSG_MORE).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum More {
    No,
    Comes,
}

/// The sizes of a socket's buffers, bytes as the kernel counts them, and which of them were set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buffers {
    receive: usize,
    send: usize,
    locks: i32,
}

impl Buffers {
    pub(super) fn of(socket: BorrowedFd<'_>) -> io::Result<Buffers> {
        let receive = sockopt::socket_recv_buffer_size(socket)?;
        let send = sockopt::socket_send_buffer_size(socket)?;
        Ok(Buffers { receive, send, locks: repair::number(socket, Number::BufferLocks)? })
    }

    /// Makes room for so many bytes in each direction.
    pub(super) fn enlarge(&self, socket: BorrowedFd<'_>, receive: usize, send: usize) -> io::Result<()> {
        let size = |bytes: usize, present: usize| (bytes + SPARE_BYTES).max(present / 2).min(SIZE_MAX);
        sockopt::set_socket_recv_buffer_size_force(socket, size(receive, self.receive))?;
        sockopt::set_socket_send_buffer_size_force(socket, size(send * SEND_OVERHEAD, self.send))?;
        Ok(())
    }

    /// Lets the program's sizes hold, or the kernel's tuning. A receive buffer that is tuned does not become smaller: the peer may fill its
    /// window.
    pub(super) fn settle(&self, socket: BorrowedFd<'_>, options: &TcpOptions) {
        let mut locks = self.locks;
        if options.send_buffer_bytes != 0 {
            locks |= SEND_LOCK;
            sockopt::set_socket_send_buffer_size_force(socket, options.send_buffer_bytes as usize).ok();
        } else {
            sockopt::set_socket_send_buffer_size_force(socket, self.send / 2).ok();
        }
        if options.receive_buffer_bytes != 0 {
            locks |= RECEIVE_LOCK;
            sockopt::set_socket_recv_buffer_size_force(socket, options.receive_buffer_bytes as usize).ok();
        }
        // Without SO_BUF_LOCK (before Linux 5.14) the sizes stay as they are.
        repair::set_number(socket, Number::BufferLocks, locks).ok();
    }

    /// Lets the sizes be as they were.
    pub(super) fn restore(&self, socket: BorrowedFd<'_>) {
        sockopt::set_socket_recv_buffer_size_force(socket, self.receive / 2).ok();
        sockopt::set_socket_send_buffer_size_force(socket, self.send / 2).ok();
        repair::set_number(socket, Number::BufferLocks, self.locks).ok();
    }
}

/// Writes all of `bytes`, without waiting.
///
/// # Errors
/// The socket does not take them all.
pub(super) fn write(socket: BorrowedFd<'_>, mut bytes: &[u8], more: More) -> io::Result<()> {
    let flags =
        SendFlags::DONTWAIT | SendFlags::NOSIGNAL | if more == More::Comes { SendFlags::MORE } else { SendFlags::empty() };
    while !bytes.is_empty() {
        match send(socket, bytes, flags) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
