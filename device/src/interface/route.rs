//! Single questions and orders of rtnetlink to one interface, and questions of generic netlink. Read rtnetlink(7), linux/if_link.h and linux/if_addr.h first.
//!
//! Promises: a message of the kernel that makes no sense is an error, never a panic. Does not do: dumps and changes (the
//! service's mirror follows those).

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, sendto, socket_with};

use super::Trouble;
use crate::netlink::{
    ACK, Attributes, CREATE, DONE, DUMP, Message, Messages, REPLACE, REQUEST, attribute, message, put, u16_at, u32_at, u64_at,
};

/// Datagrams of one list.
const ANSWERS_MAX: usize = 256;
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
const IFLA_STATS64: u16 = 23;
const IFLA_GSO_MAX_SEGS: u16 = 40;
const IFLA_GSO_MAX_SIZE: u16 = 41;
const IFLA_GSO_IPV4_MAX_SIZE: u16 = 63;
const IFLA_XDP: u16 = 43;
const IFLA_XDP_PROG_ID: u16 = 4;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_FLAGS: u16 = 8;
/// The other end is this process: no other host can have the address.
const IFA_F_NODAD: u32 = 0x02;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

/// The carrier is there.
const IFF_LOWER_UP: u32 = 1 << 16;
/// Netlink's family of families (linux/genetlink.h).
const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
/// `struct genlmsghdr`
const GENERIC_BYTES: usize = 4;
/// `struct ifinfomsg`
const LINK_BYTES: usize = 16;
/// The kernel never sends more at once.
const ANSWER_BYTES: usize = 64 << 10;

/// The largest super-segment that an interface takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// The kernel cuts what has as many bytes, link header counted, or more.
    pub(super) bytes: u32,
    pub(super) segments: u32,
}

/// The limits of the interface with this number.
pub(super) fn limits(index: u32) -> io::Result<Limits> {
    Ok(limits_of(link(index)?.body.get(LINK_BYTES..).unwrap_or_default()))
}

/// Asks the kernel about the interface with this number.
fn link(index: u32) -> io::Result<Answer> {
    let mut body = [0; LINK_BYTES];
    body[4..8].copy_from_slice(&index.to_ne_bytes());
    let answer = ask(RTM_GETLINK, REQUEST, &body)?;
    if answer.kind == RTM_NEWLINK { Ok(answer) } else { Err(answer.failure()) }
}

/// The number of the XDP program of the interface with this number.
pub(crate) fn xdp_program(index: u32) -> io::Result<Option<u32>> {
    Ok(xdp_program_of(link(index)?.body.get(LINK_BYTES..).unwrap_or_default()))
}

/// Among a link's attributes.
fn xdp_program_of(bytes: &[u8]) -> Option<u32> {
    let number = attribute(attribute(bytes, IFLA_XDP)?, IFLA_XDP_PROG_ID)?;
    u32_at(number, 0).filter(|number| *number != 0)
}

/// See [`super::health`].
pub(super) fn health(index: u32) -> io::Result<(bool, Trouble)> {
    let answer = link(index)?;
    let flags = u32_at(&answer.body, 8).unwrap_or(0);
    let attributes = answer.body.get(LINK_BYTES..).unwrap_or_default();
    Ok((flags & IFF_LOWER_UP != 0, trouble_of(attributes)))
}

/// Adds an address to the interface with this number, for use at once.
pub(super) fn add_address(index: u32, ip: IpAddr, prefix_len: u8) -> io::Result<()> {
    let (family, bytes) = match ip {
        IpAddr::V4(ip) => (AF_INET, ip.octets().to_vec()),
        IpAddr::V6(ip) => (AF_INET6, ip.octets().to_vec()),
    };
    let mut body = vec![family, prefix_len, 0, 0];
    body.extend(index.to_ne_bytes());
    for (kind, payload) in [(IFA_LOCAL, &bytes[..]), (IFA_ADDRESS, &bytes), (IFA_FLAGS, &IFA_F_NODAD.to_ne_bytes())] {
        put(&mut body, kind, payload);
    }
    done(RTM_NEWADDR, ACK | CREATE | REPLACE, &body)
}

/// The first message of an answer.
pub(crate) struct Answer {
    /// Its type; 0: it makes no sense.
    pub(crate) kind: u16,
    pub(crate) body: Vec<u8>,
    /// The code of an error message; zero: done as asked.
    error: Option<i32>,
}

impl From<Message<'_>> for Answer {
    fn from(message: Message<'_>) -> Answer {
        Answer { kind: message.kind, body: message.body.to_vec(), error: message.error() }
    }
}

impl Answer {
    fn failure(&self) -> io::Error {
        let code = self.error.map(i32::saturating_neg);
        code.map_or_else(|| io::Error::other("the kernel's answer makes no sense"), io::Error::from_raw_os_error)
    }
}

/// Sends a request and takes the first message of the answer.
pub(crate) fn ask(kind: u16, flags: u16, body: &[u8]) -> io::Result<Answer> {
    let answer = receive(&request(kind, flags, body)?)?;
    let first = Messages(&answer).next();
    Ok(first.map_or(Answer { kind: 0, body: Vec::new(), error: None }, Answer::from))
}

/// The number of a family of generic netlink, by its name, which ends with a zero.
pub(crate) fn family_of(name: &[u8]) -> io::Result<u16> {
    let mut body = vec![CTRL_CMD_GETFAMILY, 1, 0, 0];
    put(&mut body, CTRL_ATTR_FAMILY_NAME, name);
    let number = attribute_of(&ask_generic(GENL_ID_CTRL, &body)?, CTRL_ATTR_FAMILY_ID);
    number.and_then(|number| u16_at(&number, 0)).ok_or_else(|| io::Error::other("the kernel does not say"))
}

/// An attribute of generic netlink's answer.
pub(crate) fn attribute_of(body: &[u8], kind: u16) -> Option<Vec<u8>> {
    attribute(body.get(GENERIC_BYTES..)?, kind).map(<[u8]>::to_vec)
}

/// The body of the answer to a question of generic netlink.
pub(crate) fn ask_generic(family: u16, body: &[u8]) -> io::Result<Vec<u8>> {
    let answer = receive(&request_of(Some(netlink::GENERIC), family, REQUEST, body)?)?;
    let first = Messages(&answer).next().map(Answer::from);
    match first {
        Some(answer) if answer.kind == family => Ok(answer.body),
        Some(answer) => Err(answer.failure()),
        None => Err(io::Error::other("the kernel's answer makes no sense")),
    }
}

/// Sends an order and takes the kernel's confirmation.
pub(crate) fn done(order: u16, flags: u16, body: &[u8]) -> io::Result<()> {
    let answer = ask(order, REQUEST | ACK | flags, body)?;
    if answer.error == Some(0) { Ok(()) } else { Err(answer.failure()) }
}

/// Sends a request for a list and takes its messages, those of a list that ends.
pub(crate) fn ask_all(kind: u16, body: &[u8]) -> io::Result<Vec<Answer>> {
    let socket = request(kind, REQUEST | DUMP, body)?;
    let mut messages = Vec::new();
    for _ in 0..ANSWERS_MAX {
        let datagram = receive(&socket)?;
        let before = messages.len();
        for message in Messages(&datagram) {
            let answer = Answer::from(message);
            match (answer.kind, answer.error) {
                (DONE, _) | (_, Some(0)) => return Ok(messages),
                (_, Some(_)) => return Err(answer.failure()),
                _ => messages.push(answer),
            }
        }
        if messages.len() == before {
            return Err(io::Error::other("the kernel's answer makes no sense"));
        }
    }
    Err(io::Error::other("the kernel's answer does not end"))
}

fn receive(socket: &OwnedFd) -> io::Result<Vec<u8>> {
    let mut answer = vec![0; ANSWER_BYTES];
    let (len, _) = recv(socket, answer.as_mut_slice(), RecvFlags::empty())?;
    answer.truncate(len);
    Ok(answer)
}

fn request(kind: u16, flags: u16, body: &[u8]) -> io::Result<OwnedFd> {
    request_of(None, kind, flags, body)
}

/// `None`: of rtnetlink.
fn request_of(protocol: Option<Protocol>, kind: u16, flags: u16, body: &[u8]) -> io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
    bind(&socket, &SocketAddrNetlink::new(0, 0))?;
    // Sequence number 0: there is only one request, and its answer comes to this socket.
    sendto(&socket, &message(kind, flags, 0, body), SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    Ok(socket)
}

/// Of `struct rtnl_link_stats64` the 64-bit words 4 to 7.
fn trouble_of(attributes: &[u8]) -> Trouble {
    let words = attribute(attributes, IFLA_STATS64).unwrap_or_default();
    let word = |at: usize| u64_at(words, 8 * at).unwrap_or(0);
    Trouble { receive_errors: word(4), transmit_errors: word(5), receive_dropped: word(6), transmit_dropped: word(7) }
}

/// The limits among a link's attributes. Kernels before 6.3 have one size for both families.
fn limits_of(bytes: &[u8]) -> Limits {
    let mut limits = Limits { bytes: u32::MAX, segments: u32::MAX };
    for (kind, payload) in Attributes(bytes) {
        match kind {
            IFLA_GSO_MAX_SIZE | IFLA_GSO_IPV4_MAX_SIZE => limits.bytes = u32_at(payload, 0).unwrap_or(u32::MAX).min(limits.bytes),
            IFLA_GSO_MAX_SEGS => limits.segments = u32_at(payload, 0).unwrap_or(u32::MAX),
            _ => {}
        }
    }
    limits
}

#[cfg(test)]
mod tests;
