//! The IPv4 header. Read RFC 791 §3.1, RFC 1122 §3.2.1, RFC 6864 first.

use core::net::Ipv4Addr;

use super::checksum;

/// Bytes of a header without options.
pub const HEADER_LEN: usize = 20;
/// ICMP
pub const PROTOCOL_ICMP: u8 = 1;
/// TCP
pub const PROTOCOL_TCP: u8 = 6;
/// UDP
pub const PROTOCOL_UDP: u8 = 17;

/// Where flags and fragment offset stand.
pub const FRAGMENT_AT: usize = 6;
/// Where the protocol stands.
pub const PROTOCOL_AT: usize = 9;
/// Where the source stands.
pub const SOURCE_AT: usize = 12;
/// Where the destination stands.
pub const DESTINATION_AT: usize = 16;
/// First byte of a header without options: version 4, five words.
pub const VERSION_AND_LENGTH: u8 = 0x45;
const DONT_FRAGMENT: u16 = 0x4000;
/// Flag of each fragment but the last.
pub const MORE_FRAGMENTS: u16 = 0x2000;
/// Bits of the fragment offset, in units of eight bytes.
pub const OFFSET_MASK: u16 = 0x1fff;

/// An IPv4 header, options left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// With options, bytes; at least 20.
    pub header_len: u8,
    /// DSCP and ECN.
    pub tos: u8,
    /// Header and data, bytes; at least `header_len`.
    pub total_len: u16,
    /// Only means something in fragments (RFC 6864).
    pub identification: u16,
    /// Must not be cut.
    pub dont_fragment: bool,
    /// Not the last fragment.
    pub more_fragments: bool,
    /// Where the data belongs, bytes.
    pub fragment_offset: u16,
    /// Hops left.
    pub ttl: u8,
    /// Protocol of the payload.
    pub protocol: u8,
    /// Source.
    pub source: Ipv4Addr,
    /// Destination.
    pub destination: Ipv4Addr,
}

impl Header {
    /// The header at the start of `bytes`. `None`: cut off, not version 4, a length that cannot be,
    /// or a bad checksum (RFC 1122 §3.2.1.1, §3.2.1.2). `total_len` is not compared with what follows.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Option<Header> {
        let header = Header::parse_unverified(bytes)?;
        let sum = match bytes.first_chunk() {
            Some(fixed) if usize::from(header.header_len) == HEADER_LEN => checksum::sum_of_header(fixed),
            _ => checksum::sum(bytes.get(..header.header_len.into())?),
        };
        (sum == 0xffff).then_some(header)
    }

    /// Like [`parse`](Header::parse) for a header quoted in an ICMP error, whose checksum routers
    /// need not have kept true and whose options may be cut off.
    #[inline]
    pub fn parse_unverified(bytes: &[u8]) -> Option<Header> {
        let fixed: &[u8; HEADER_LEN] = bytes.first_chunk()?;
        let header_len = (fixed[0] & 0xf) * 4;
        let total_len = u16::from_be_bytes([fixed[2], fixed[3]]);
        if fixed[0] >> 4 != 4 || usize::from(header_len) < HEADER_LEN || total_len < header_len.into() {
            return None;
        }
        let fragment = u16::from_be_bytes([fixed[6], fixed[7]]);
        Some(Header {
            header_len,
            tos: fixed[1],
            total_len,
            identification: u16::from_be_bytes([fixed[4], fixed[5]]),
            dont_fragment: fragment & DONT_FRAGMENT != 0,
            more_fragments: fragment & MORE_FRAGMENTS != 0,
            fragment_offset: (fragment & OFFSET_MASK) * 8,
            ttl: fixed[8],
            protocol: fixed[9],
            source: Ipv4Addr::new(fixed[12], fixed[13], fixed[14], fixed[15]),
            destination: Ipv4Addr::new(fixed[16], fixed[17], fixed[18], fixed[19]),
        })
    }

    /// A header for a packet that is never cut (RFC 6864: identification 0, don't fragment), of the ordinary type of service.
    pub fn atomic(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, ttl: u8, total_len: u16) -> Header {
        Header {
            header_len: HEADER_LEN as u8,
            tos: 0,
            total_len,
            identification: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            ttl,
            protocol,
            source,
            destination,
        }
    }

    /// Returns true when this is a piece of a datagram.
    #[inline]
    pub fn is_fragment(&self) -> bool {
        self.more_fragments || self.fragment_offset != 0
    }

    /// Fills `bytes`, checksum included, without options.
    ///
    /// # Panics
    /// When there are not exactly [`HEADER_LEN`].
    pub fn write(&self, bytes: &mut [u8]) {
        assert_eq!(bytes.len(), HEADER_LEN, "the whole header");
        let dont_fragment = if self.dont_fragment { DONT_FRAGMENT } else { 0 };
        let more_fragments = if self.more_fragments { MORE_FRAGMENTS } else { 0 };
        let fragment = dont_fragment | more_fragments | (self.fragment_offset / 8);
        bytes[0] = VERSION_AND_LENGTH;
        bytes[1] = self.tos;
        bytes[2..4].copy_from_slice(&self.total_len.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.identification.to_be_bytes());
        bytes[6..8].copy_from_slice(&fragment.to_be_bytes());
        bytes[8] = self.ttl;
        bytes[9] = self.protocol;
        bytes[10..12].fill(0);
        bytes[12..16].copy_from_slice(&self.source.octets());
        bytes[16..20].copy_from_slice(&self.destination.octets());
        let checksum = !checksum::sum(bytes);
        bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
    }
}

#[cfg(test)]
mod tests;
