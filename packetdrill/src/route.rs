//! The MTU of a route: one question to the kernel's routing table (rtnetlink(7)).
//!
//! Promises: no wait; an answer that makes no sense is no MTU.

use std::io;
use std::net::IpAddr;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

/// Returns the MTU that the route to `remote` has of its own, if the route leads through this interface.
pub(crate) fn mtu(remote: IpAddr, interface: u32) -> Option<u32> {
    mtu_of(&ask(remote).ok()?, interface)
}

/// Returns the kernel's answer, which is there when the question is.
fn ask(remote: IpAddr) -> io::Result<Vec<u8>> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    sendto(&socket, &question(remote), SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut answer = vec![0; ANSWER_MAX];
    let (_, len) = recv(&socket, &mut answer[..], RecvFlags::DONTWAIT)?;
    answer.truncate(len);
    Ok(answer)
}

/// Writes `nlmsghdr`, `rtmsg` and RTA_DST.
fn question(remote: IpAddr) -> Vec<u8> {
    let (family, address) = match remote {
        IpAddr::V4(ip) => (libc::AF_INET, ip.octets().to_vec()),
        IpAddr::V6(ip) => (libc::AF_INET6, ip.octets().to_vec()),
    };
    let attribute_len = ATTRIBUTE_HEADER + address.len();
    let mut message = vec![0; HEADERS];
    message[..4].copy_from_slice(&((HEADERS + attribute_len) as u32).to_ne_bytes());
    message[4..6].copy_from_slice(&libc::RTM_GETROUTE.to_ne_bytes());
    message[6..8].copy_from_slice(&(libc::NLM_F_REQUEST as u16).to_ne_bytes());
    message[16] = family as u8;
    message[17] = (address.len() * 8) as u8;
    message.extend((attribute_len as u16).to_ne_bytes());
    message.extend(libc::RTA_DST.to_ne_bytes());
    message.extend(address);
    message
}

/// Reads the answer: RTAX_MTU among the RTA_METRICS of a route whose RTA_OIF is the interface.
fn mtu_of(answer: &[u8], interface: u32) -> Option<u32> {
    let kind = u16::from_ne_bytes(*answer.get(4..)?.first_chunk()?);
    if kind != libc::RTM_NEWROUTE {
        return None;
    }
    let attributes = answer.get(HEADERS..)?;
    let number = |bytes: &[u8]| bytes.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
    let through = find(attributes, libc::RTA_OIF).and_then(number);
    let own = find(attributes, libc::RTA_METRICS).and_then(|metrics| find(metrics, RTAX_MTU)).and_then(number);
    own.filter(|_| through == Some(interface))
}

/// Returns the payload of the first attribute of a kind.
fn find(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let len = usize::from(u16::from_ne_bytes(*attributes.first_chunk()?));
        let kind = u16::from_ne_bytes(*attributes.get(2..)?.first_chunk()?) & NLA_TYPE_MASK;
        let payload = attributes.get(ATTRIBUTE_HEADER..len)?;
        if kind == wanted {
            return Some(payload);
        }
        attributes = attributes.get(len.next_multiple_of(4)..)?;
    }
}

/// `nlmsghdr` and `rtmsg`.
const HEADERS: usize = 16 + 12;
const ATTRIBUTE_HEADER: usize = 4;
const ANSWER_MAX: usize = 4_096;
/// linux/rtnetlink.h
const RTAX_MTU: u16 = 2;
/// linux/netlink.h: without the flags of nested attributes.
const NLA_TYPE_MASK: u16 = 0x3fff;

#[cfg(test)]
mod tests;
