//! What a packet says of itself, before anything is verified. Read RFC 791 §3.1, RFC 8200 §3 and RFC 792 first.
//!
//! One reading for all that look at a packet from outside: the stack finds the reader of a packet that waits in a device,
//! and a device finds the worker. The programs of the devices in the kernel take their offsets from the same modules.
//! Promises: never panics on what came from the wire. Does not do: checksums, IPv4 options, IPv6 extension headers.

use core::net::IpAddr;

use crate::{ethernet, icmpv4, icmpv6, ipv4, ipv6};

/// The unit that a link carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// Frames start with an Ethernet header.
    Ethernet,
    /// Frames start with an IP header.
    Ip,
}

impl Medium {
    /// Bytes in front of the IP header.
    #[inline]
    pub const fn header_bytes(self) -> usize {
        match self {
            Medium::Ethernet => ethernet::HEADER_LEN,
            Medium::Ip => 0,
        }
    }
}

/// The payload of an untagged frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload<'a> {
    /// An IP packet.
    Ip(Packet<'a>),
    /// An ARP packet, which begins here.
    Arp(&'a [u8]),
}

/// An IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Source.
    pub source: IpAddr,
    /// Destination.
    pub destination: IpAddr,
    /// Protocol behind the header; in IPv6 possibly that of an extension header.
    pub protocol: u8,
    /// It is a piece of a datagram.
    pub is_fragment: bool,
    /// Length of the IP header, bytes.
    pub header_len: usize,
    /// Length of the packet, bytes.
    pub total_len: usize,
    /// What follows the IP header, as far as it is here.
    pub payload: &'a [u8],
}

/// Reads the frame that begins with `bytes`. `None`: too short, or of another protocol.
#[inline]
pub fn classify(medium: Medium, bytes: &[u8]) -> Option<Payload<'_>> {
    let payload = bytes.get(medium.header_bytes()..)?;
    let ether_type = match medium {
        Medium::Ethernet => ethernet::Header::parse(bytes)?.ether_type,
        Medium::Ip if *payload.first()? >> 4 == 6 => ethernet::TYPE_IPV6,
        Medium::Ip => ethernet::TYPE_IPV4,
    };
    match ether_type {
        ethernet::TYPE_IPV4 => Packet::of_ipv4(payload).map(Payload::Ip),
        ethernet::TYPE_IPV6 => Packet::of_ipv6(payload).map(Payload::Ip),
        ethernet::TYPE_ARP => Some(Payload::Arp(payload)),
        _ => None,
    }
}

impl Packet<'_> {
    fn of_ipv4(bytes: &[u8]) -> Option<Packet<'_>> {
        let header = ipv4::Header::parse_unverified(bytes)?;
        Some(Packet {
            source: header.source.into(),
            destination: header.destination.into(),
            protocol: header.protocol,
            is_fragment: header.is_fragment(),
            header_len: header.header_len.into(),
            total_len: header.total_len.into(),
            payload: bytes.get(header.header_len.into()..)?,
        })
    }

    fn of_ipv6(bytes: &[u8]) -> Option<Packet<'_>> {
        let header = ipv6::Header::parse(bytes)?;
        Some(Packet {
            source: header.source.into(),
            destination: header.destination.into(),
            protocol: header.next_header,
            is_fragment: header.next_header == ipv6::FRAGMENT,
            header_len: ipv6::HEADER_LEN,
            total_len: ipv6::HEADER_LEN + usize::from(header.payload_len),
            payload: &bytes[ipv6::HEADER_LEN..],
        })
    }

    /// Source and destination port of TCP and UDP.
    #[inline]
    pub fn ports(&self) -> Option<(u16, u16)> {
        if !matches!(self.protocol, ipv4::PROTOCOL_TCP | ipv4::PROTOCOL_UDP) {
            return None;
        }
        let [s0, s1, d0, d1] = *self.payload.first_chunk()?;
        Some((u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1])))
    }

    /// Type of an ICMP message of the packet's version.
    pub fn icmp_type(&self) -> Option<u8> {
        let icmp = if self.source.is_ipv4() { ipv4::PROTOCOL_ICMP } else { ipv6::PROTOCOL_ICMP };
        if self.protocol == icmp { self.payload.first().copied() } else { None }
    }

    /// The packet that an ICMP error is about.
    pub fn quoted(&self) -> Option<Packet<'_>> {
        let kind = self.icmp_type()?;
        match self.source {
            IpAddr::V4(_) if icmpv4::ERRORS.contains(&kind) => Packet::of_ipv4(self.payload.get(icmpv4::HEADER_LEN..)?),
            IpAddr::V6(_) if icmpv6::ERRORS.contains(&kind) => Packet::of_ipv6(self.payload.get(icmpv6::HEADER_LEN..)?),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
