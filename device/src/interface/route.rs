//! What only rtnetlink tells of one interface, and does with it; single questions to it. Read rtnetlink(7), linux/if_link.h and linux/if_addr.h first.
//!
//! Promises: a message of the kernel that makes no sense is an error, never a panic. Does not do: dumps and changes (the
//! service's mirror follows those).

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, sendto, socket_with};

use super::Trouble;

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// Datagrams of one list.
const ANSWERS_MAX: usize = 256;
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
/// NLM_F_REQUEST, of every order.
pub(crate) const REQUEST: u16 = 0x001;
/// NLM_F_ACK: the answer is an error message, whose code is zero when all went well.
pub(crate) const ACK: u16 = 0x004;
/// NLM_F_REPLACE
pub(crate) const REPLACE: u16 = 0x100;
/// NLM_F_EXCL: it must not be there yet.
pub(crate) const EXCLUSIVE: u16 = 0x200;
/// NLM_F_CREATE
pub(crate) const CREATE: u16 = 0x400;
/// NLM_F_DUMP: all that there are.
pub(crate) const DUMP: u16 = 0x300;
const IFLA_STATS64: u16 = 23;
const IFLA_GSO_MAX_SEGS: u16 = 40;
const IFLA_GSO_MAX_SIZE: u16 = 41;
const IFLA_GSO_IPV4_MAX_SIZE: u16 = 63;
const IFLA_XDP: u16 = 43;
const IFLA_XDP_PROG_ID: u16 = 4;
/// NLA_F_NESTED
const NESTED: u16 = 1 << 15;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_FLAGS: u16 = 8;
/// The other end is this process: no other host can have the address.
const IFA_F_NODAD: u32 = 0x02;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

const HEADER_BYTES: usize = 16;
/// The carrier is there.
const IFF_LOWER_UP: u32 = 1 << 16;
/// `struct ifinfomsg`
const LINK_BYTES: usize = 16;
/// The kernel never sends more at once.
const ANSWER_BYTES: usize = 64 << 10;

/// What of a super-segment an interface takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// The kernel cuts what has as many bytes, link header counted, or more.
    pub(super) bytes: u32,
    pub(super) segments: u32,
}

/// The limits of the interface with this number.
pub(super) fn limits(index: u32) -> io::Result<Limits> {
    Ok(limits_of(link(index)?.get(HEADER_BYTES + LINK_BYTES..).unwrap_or_default()))
}

/// What the kernel says of the interface with this number.
fn link(index: u32) -> io::Result<Vec<u8>> {
    let mut body = [0; LINK_BYTES];
    body[4..8].copy_from_slice(&index.to_ne_bytes());
    let answer = ask(RTM_GETLINK, REQUEST, &body)?;
    if kind(&answer) == RTM_NEWLINK { Ok(answer) } else { Err(error_of(&answer)) }
}

/// The number of the XDP program of the interface with this number.
pub(crate) fn xdp_program(index: u32) -> io::Result<Option<u32>> {
    Ok(xdp_program_of(link(index)?.get(HEADER_BYTES + LINK_BYTES..).unwrap_or_default()))
}

/// Among a link's attributes.
fn xdp_program_of(bytes: &[u8]) -> Option<u32> {
    let inside = |outer, wanted: u16| attributes(outer).find(|(kind, _)| *kind & !NESTED == wanted).map(|(_, inner)| inner);
    let number = inside(inside(bytes, IFLA_XDP)?, IFLA_XDP_PROG_ID)?;
    number.try_into().ok().map(u32::from_ne_bytes).filter(|number| *number != 0)
}

/// See [`super::health`].
pub(super) fn health(index: u32) -> io::Result<(bool, Trouble)> {
    let answer = link(index)?;
    let flags = answer.get(HEADER_BYTES + 8..HEADER_BYTES + 12).map_or(0, u32_of);
    let attributes = answer.get(HEADER_BYTES + LINK_BYTES..).unwrap_or_default();
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
        attribute(&mut body, kind, payload);
    }
    let answer = ask(RTM_NEWADDR, REQUEST | ACK | CREATE | REPLACE, &body)?;
    match errno(&answer) {
        Some(0) => Ok(()),
        _ => Err(error_of(&answer)),
    }
}

/// Appends an attribute, padded to whole words.
pub(crate) fn attribute(body: &mut Vec<u8>, kind: u16, payload: &[u8]) {
    body.extend((4 + payload.len() as u16).to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(payload);
    body.resize(body.len().next_multiple_of(4), 0);
}

/// Sends a request and takes the first message of the answer.
pub(crate) fn ask(kind: u16, flags: u16, body: &[u8]) -> io::Result<Vec<u8>> {
    let mut answer = receive(&request(kind, flags, body)?)?;
    let said = answer.get(..4).map_or(0, |word| u32_of(word) as usize);
    answer.truncate(said);
    Ok(answer)
}

/// Sends a request for a list and takes its messages, those of a list that ends.
pub(crate) fn ask_all(kind_asked: u16, body: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let socket = request(kind_asked, REQUEST | DUMP, body)?;
    let mut messages = Vec::new();
    for _ in 0..ANSWERS_MAX {
        let answer = receive(&socket)?;
        let mut rest = &answer[..];
        while let Some(said) = rest.get(..HEADER_BYTES).map(|header| u32_of(&header[..4]) as usize) {
            let Some(message) = rest.get(..said).filter(|message| message.len() >= HEADER_BYTES) else {
                return Err(io::Error::other("the kernel's answer makes no sense"));
            };
            match (kind(message), errno(message)) {
                (NLMSG_DONE, _) | (_, Some(0)) => return Ok(messages),
                (_, Some(code)) => return Err(io::Error::from_raw_os_error(code)),
                _ => messages.push(message.to_vec()),
            }
            rest = rest.get(said.next_multiple_of(4)..).unwrap_or_default();
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
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    bind(&socket, &SocketAddrNetlink::new(0, 0))?;
    let mut request = ((HEADER_BYTES + body.len()) as u32).to_ne_bytes().to_vec();
    request.extend(kind.to_ne_bytes());
    request.extend(flags.to_ne_bytes());
    // Sequence number and sender: there is only one request, and its answer comes to this socket.
    request.extend([0; 8]);
    request.extend(body);
    sendto(&socket, &request, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    Ok(socket)
}

/// Its type; 0: it makes no sense.
pub(crate) fn kind(message: &[u8]) -> u16 {
    message.get(4..6).map_or(0, |bytes| u16::from_ne_bytes([bytes[0], bytes[1]]))
}

/// What an error message says; zero: done as asked.
pub(crate) fn errno(message: &[u8]) -> Option<i32> {
    let code = message.get(HEADER_BYTES..HEADER_BYTES + 4).filter(|_| kind(message) == NLMSG_ERROR)?;
    Some(-(u32_of(code) as i32))
}

fn error_of(message: &[u8]) -> io::Error {
    errno(message).map_or_else(|| io::Error::other("the kernel's answer makes no sense"), io::Error::from_raw_os_error)
}

fn u32_of(bytes: &[u8]) -> u32 {
    bytes.try_into().map_or(0, u32::from_ne_bytes)
}

/// The attributes of a message, until one makes no sense.
pub(crate) fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let header = rest.get(..4)?;
        let len = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let (kind, payload) = (u16::from_ne_bytes([header[2], header[3]]), rest.get(4..len)?);
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, payload))
    })
}

/// Of `struct rtnl_link_stats64` the 64-bit words 4 to 7.
fn trouble_of(bytes: &[u8]) -> Trouble {
    let Some((_, words)) = attributes(bytes).find(|(kind, _)| *kind == IFLA_STATS64) else { return Trouble::default() };
    let word = |at: usize| words.get(8 * at..8 * at + 8).and_then(|word| word.try_into().ok()).map_or(0, u64::from_ne_bytes);
    Trouble { receive_errors: word(4), transmit_errors: word(5), receive_dropped: word(6), transmit_dropped: word(7) }
}

/// The limits among a link's attributes. Kernels before 6.3 have one size for both families.
fn limits_of(bytes: &[u8]) -> Limits {
    let mut limits = Limits { bytes: u32::MAX, segments: u32::MAX };
    for (kind, payload) in attributes(bytes) {
        match kind {
            IFLA_GSO_MAX_SIZE | IFLA_GSO_IPV4_MAX_SIZE if payload.len() == 4 => limits.bytes = limits.bytes.min(u32_of(payload)),
            IFLA_GSO_MAX_SEGS if payload.len() == 4 => limits.segments = u32_of(payload),
            _ => {}
        }
    }
    limits
}

#[cfg(test)]
mod tests;
