//! recvmsg and sendmsg: the same bytes with metadata, and descriptors in control data.
//!
//! Control data on a stream of the stack is ignored on sending; a received message says how much is left to read, where
//! TCP_INQ is set. On the kernel's AF_UNIX sockets it may carry descriptors of ours, which are prepared before they
//! leave and looked up when they arrive.

use crate::Posix;
use crate::datagram::control;
use crate::fallback::Fd;
use crate::fd_table::SocketRef;
use crate::options::{TCP_INQ, tells_unread};

impl Posix {
    /// The control data of a message that was received from a stream, cut to `room` bytes; also returns true if something is
    /// missing. With TCP_INQ (net/ipv4/tcp.c, tcp_inq_hint): the number of bytes left to read, to which the peer's end adds one.
    pub fn describe_stream(&self, socket: SocketRef, room: usize) -> (Vec<u8>, bool) {
        let mut items = Vec::new();
        if tells_unread(self.descriptions.of(socket))
            && let Some(view) = self.attached().and_then(|channel| channel.view(socket))
        {
            let left = i32::try_from(view.readable).unwrap_or(i32::MAX).saturating_add(i32::from(view.peer_closed));
            control::put(&mut items, libc::IPPROTO_TCP, TCP_INQ, &left.to_ne_bytes());
        }
        control::cut(items, room)
    }
}

/// The descriptors in the control data of a message (SCM_RIGHTS, cmsg(3)), in order. An invalid length ends the list.
pub fn ancillary_descriptors(control: &[u8]) -> Vec<Fd> {
    let mut found = Vec::new();
    let mut rest = control;
    while let Some(header) = rest.first_chunk::<HEADER>() {
        let len = usize::from_ne_bytes(header[..8].try_into().expect("eight bytes"));
        let level = i32::from_ne_bytes(header[8..12].try_into().expect("four bytes"));
        let kind = i32::from_ne_bytes(header[12..16].try_into().expect("four bytes"));
        if len < HEADER || len > rest.len() {
            break;
        }
        if level == libc::SOL_SOCKET && kind == libc::SCM_RIGHTS {
            found.extend(rest[HEADER..len].chunks_exact(4).map(|fd| Fd::from_ne_bytes([fd[0], fd[1], fd[2], fd[3]])));
        }
        rest = rest.get(len.next_multiple_of(8)..).unwrap_or(&[]);
    }
    found
}

/// `struct cmsghdr` on 64-bit Linux: length, level, type.
const HEADER: usize = 16;

#[cfg(test)]
mod tests;
