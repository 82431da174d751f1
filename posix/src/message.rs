//! recvmsg and sendmsg: the same bytes with metadata, and descriptors in control data.
//!
//! Control data on a stream of the stack carries nothing (no timestamps, no error queue): it is ignored on sending and
//! empty on receiving. On the kernel's AF_UNIX sockets it may carry descriptors of ours, which are prepared before they
//! leave and looked up when they arrive.

use crate::errno::Answer;
use crate::fallback::Fd;

/// Results of recvmsg besides the bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceivedMessage {
    /// Bytes received.
    pub bytes: usize,
    /// `msg_flags` of the result.
    pub flags: i32,
}

impl ReceivedMessage {
    /// Makes the message of a stream: no flags, no control data, no address.
    pub fn of_stream(answer: Answer<usize>) -> Answer<ReceivedMessage> {
        answer.map(|bytes| ReceivedMessage { bytes, flags: 0 })
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
