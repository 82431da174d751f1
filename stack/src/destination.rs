//! Finds the connection of a packet before it is received, so that the device can read the payload straight to its reader's
//! memory.
//!
//! Only parses: it uses the headers of [`wire`](crate::wire), counts and changes nothing, and `receive` validates the packet
//! like any other. Returns a result only for simple packets: Ethernet without a tag, no IP options, extension headers or
//! fragments, an existing TCP connection, and exactly the packet's length.

use core::net::IpAddr;

use crate::event::SocketId;
use crate::ip::Medium;
use crate::tcp::FlowKey;
use crate::wire::{ethernet, ipv4, ipv6, tcp};

/// The connection that a packet claims to belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The connection.
    pub socket: SocketId,
    /// Its owner's user token.
    pub user_token: u64,
    /// Length of the packet's headers, bytes; the rest is payload.
    pub header_bytes: usize,
}

/// Returns the flow of a packet of `len` bytes that begins with `head`, and the length of its headers.
pub(crate) fn flow_of(medium: Medium, head: &[u8], len: usize) -> Option<(FlowKey, usize)> {
    let link_len = if medium == Medium::Ethernet { ethernet::HEADER_LEN } else { 0 };
    let packet = head.get(link_len..)?;
    let (local, remote, ip_len, total_len) = match packet.first()? >> 4 {
        4 => ends_of_ipv4(packet)?,
        6 => ends_of_ipv6(packet)?,
        _ => return None,
    };
    let ether_type = if local.is_ipv4() { ethernet::TYPE_IPV4 } else { ethernet::TYPE_IPV6 };
    if medium == Medium::Ethernet && ethernet::Header::parse(head)?.ether_type != ether_type || link_len + total_len != len {
        return None;
    }
    let (header, tcp_len) = tcp::Header::parse(packet.get(ip_len..)?)?;
    let key = FlowKey { local, remote, local_port: header.destination_port, remote_port: header.source_port };
    Some((key, link_len + ip_len + tcp_len))
}

/// Returns destination, source, and the lengths of the header and of the packet.
fn ends_of_ipv4(packet: &[u8]) -> Option<(IpAddr, IpAddr, usize, usize)> {
    let header = ipv4::Header::parse(packet)?;
    let is_plain = usize::from(header.header_len) == ipv4::HEADER_LEN
        && header.protocol == ipv4::PROTOCOL_TCP
        && !header.more_fragments
        && header.fragment_offset == 0;
    is_plain.then(|| (header.destination.into(), header.source.into(), ipv4::HEADER_LEN, header.total_len.into()))
}

/// Returns the same for IPv6.
fn ends_of_ipv6(packet: &[u8]) -> Option<(IpAddr, IpAddr, usize, usize)> {
    let header = ipv6::Header::parse(packet)?;
    let total_len = ipv6::HEADER_LEN + usize::from(header.payload_len);
    (header.next_header == ipv4::PROTOCOL_TCP)
        .then(|| (header.destination.into(), header.source.into(), ipv6::HEADER_LEN, total_len))
}

#[cfg(test)]
mod tests;
