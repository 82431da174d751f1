//! Netlink messages and attributes as bytes: the only code that walks and makes them. Read netlink(7) first.
//!
//! Headers are in host order; what a payload is, its reader knows. Promises: bytes that make no sense end the walk, never
//! with a panic. Does not do: open sockets, and the meaning of any kind of message or attribute.

use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, recvfrom};

/// Length of a message's header: length u32, kind u16, flags u16, sequence u32, sender u32.
pub const HEADER_BYTES: usize = 16;

/// NLMSG_ERROR: the body is a negative errno, or zero for done.
pub const ERROR: u16 = 2;
/// NLMSG_DONE: a dump is complete.
pub const DONE: u16 = 3;

/// NLM_F_REQUEST, of every request.
pub const REQUEST: u16 = 0x001;
/// NLM_F_ACK: the answer is an error message, whose code is zero when all went well.
pub const ACK: u16 = 0x004;
/// NLM_F_DUMP_INTR: the tables changed while they were dumped.
pub const DUMP_INTERRUPTED: u16 = 0x010;
/// NLM_F_REPLACE
pub const REPLACE: u16 = 0x100;
/// NLM_F_EXCL: it must not be there yet.
pub const EXCLUSIVE: u16 = 0x200;
/// NLM_F_DUMP: all that there are.
pub const DUMP: u16 = 0x300;
/// NLM_F_CREATE
pub const CREATE: u16 = 0x400;

/// Notifications that are forgotten at once.
const FORGOTTEN_MAX: usize = 1_024;

/// Forgets the notifications that have come to a socket, which must not block.
pub fn forget(socket: impl AsFd) {
    let mut buffer = [0; 4096];
    // Lost ones (ENOBUFS) are told once; whatever hears of a change reads everything again. What comes all the time waits for the next turn.
    for _ in 0..FORGOTTEN_MAX {
        if !matches!(recvfrom(&socket, &mut buffer, RecvFlags::empty()), Ok(_) | Err(Errno::NOBUFS | Errno::INTR)) {
            break;
        }
    }
}

/// One message of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Its type.
    pub kind: u16,
    /// NLM_F_*
    pub flags: u16,
    /// That of the request which it answers.
    pub sequence: u32,
    /// The bytes after the header.
    pub body: &'a [u8],
}

impl Message<'_> {
    /// Returns the code of an error message: a negative errno, or zero for done as asked.
    pub fn error(&self) -> Option<i32> {
        u32_at(self.body, 0).filter(|_| self.kind == ERROR).map(u32::cast_signed)
    }
}

/// The messages of a datagram; stops at one that does not fit.
#[derive(Clone, Debug)]
pub struct Messages<'a>(pub &'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let len = u32_at(self.0, 0)? as usize;
        let body = self.0.get(HEADER_BYTES..len)?;
        let (kind, flags, sequence) = (u16_at(self.0, 4)?, u16_at(self.0, 6)?, u32_at(self.0, 8)?);
        self.0 = self.0.get(len.next_multiple_of(4)..).unwrap_or(&[]);
        Some(Message { kind, flags, sequence, body })
    }
}

/// Kind and payload of each attribute; stops at one that does not fit.
#[derive(Clone, Debug)]
pub struct Attributes<'a>(pub &'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<(u16, &'a [u8])> {
        let len = usize::from(u16_at(self.0, 0)?);
        // The two upper bits are flags (NLA_F_NESTED, NLA_F_NET_BYTEORDER).
        let kind = u16_at(self.0, 2)? & 0x3fff;
        let payload = self.0.get(4..len)?;
        self.0 = self.0.get(len.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, payload))
    }
}

/// Returns the payload of the first attribute of this kind.
pub fn attribute(attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    Attributes(attributes).find(|(kind, _)| *kind == wanted).map(|(_, payload)| payload)
}

/// Makes a message.
pub fn message(kind: u16, flags: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
    bytes.extend(((HEADER_BYTES + body.len()) as u32).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(body);
    bytes
}

/// Appends an attribute, padded to whole words.
pub fn put(body: &mut Vec<u8>, kind: u16, payload: &[u8]) {
    body.extend((4 + payload.len() as u16).to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(payload);
    body.resize(body.len().next_multiple_of(4), 0);
}

/// Reads a text that ends with a zero byte or with the payload.
pub fn text(payload: &[u8]) -> String {
    let end = payload.iter().position(|byte| *byte == 0).unwrap_or(payload.len());
    String::from_utf8_lossy(&payload[..end]).into_owned()
}

/// Reads a number in host order.
pub fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(offset..offset + 2)?.try_into().ok()?))
}

/// Reads a number in host order.
pub fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(offset..offset + 4)?.try_into().ok()?))
}

/// Reads a number in host order.
pub fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(offset..offset + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests;
