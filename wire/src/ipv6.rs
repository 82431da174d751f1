//! The IPv6 header and the fragment header. Read RFC 8200 §3, §4.5, RFC 6437 first.

use core::net::Ipv6Addr;

/// Bytes of the header; extension headers are not part of it.
pub const HEADER_LEN: usize = 40;
/// Where the protocol of the next header stands.
pub const NEXT_HEADER_AT: usize = 6;
/// Where the source stands.
pub const SOURCE_AT: usize = 8;
/// Where the destination stands.
pub const DESTINATION_AT: usize = 24;
/// Where the offset stands in a fragment header.
pub const FRAGMENT_OFFSET_AT: usize = 2;
/// Bits of the offset in a fragment header, in bytes.
pub const FRAGMENT_OFFSET_MASK: u16 = 0xfff8;
/// Bytes of a fragment header.
pub const FRAGMENT_LEN: usize = 8;
/// MTU that every link has at least (RFC 8200 §5).
pub const MTU_MIN: u16 = 1280;

/// Hop-by-hop options
pub const HOP_BY_HOP: u8 = 0;
/// TCP
pub const PROTOCOL_TCP: u8 = 6;
/// UDP
pub const PROTOCOL_UDP: u8 = 17;
/// Routing header
pub const ROUTING: u8 = 43;
/// Fragment header
pub const FRAGMENT: u8 = 44;
/// Encapsulating security payload (RFC 4303)
pub const ENCRYPTED: u8 = 50;
/// Authentication header (RFC 4302)
pub const AUTHENTICATION: u8 = 51;
/// ICMPv6
pub const PROTOCOL_ICMP: u8 = 58;
/// Nothing follows.
pub const NO_NEXT_HEADER: u8 = 59;
/// Destination options
pub const DESTINATION_OPTIONS: u8 = 60;

/// Bits of the flow label.
pub const FLOW_LABEL_MASK: u32 = 0xf_ffff;

/// An IPv6 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// 20 bits (RFC 6437); 0: none.
    pub flow_label: u32,
    /// Bytes behind this header, extension headers included.
    pub payload_len: u16,
    /// Protocol of the next header.
    pub next_header: u8,
    /// Hops left.
    pub hop_limit: u8,
    /// Source.
    pub source: Ipv6Addr,
    /// Destination.
    pub destination: Ipv6Addr,
}

impl Header {
    /// The header at the start of `bytes`; `None`: too short, or another version. Whether the payload is there
    /// is the caller's to check.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Option<Header> {
        let fixed: &[u8; HEADER_LEN] = bytes.first_chunk()?;
        let word = u32::from_be_bytes([fixed[0], fixed[1], fixed[2], fixed[3]]);
        if word >> 28 != 6 {
            return None;
        }
        Some(Header {
            traffic_class: (word >> 20) as u8,
            flow_label: word & FLOW_LABEL_MASK,
            payload_len: u16::from_be_bytes([fixed[4], fixed[5]]),
            next_header: fixed[6],
            hop_limit: fixed[7],
            source: address_at(fixed, 8),
            destination: address_at(fixed, 24),
        })
    }

    /// Fills `bytes`.
    ///
    /// # Panics
    /// When there are not exactly [`HEADER_LEN`].
    pub fn write(&self, bytes: &mut [u8]) {
        assert_eq!(bytes.len(), HEADER_LEN, "the whole header");
        let word = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label & FLOW_LABEL_MASK;
        bytes[..4].copy_from_slice(&word.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.payload_len.to_be_bytes());
        bytes[6] = self.next_header;
        bytes[7] = self.hop_limit;
        bytes[8..24].copy_from_slice(&self.source.octets());
        bytes[24..].copy_from_slice(&self.destination.octets());
    }
}

/// A fragment header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Protocol of the datagram behind this header.
    pub next_header: u8,
    /// Where the data belongs, bytes; a multiple of 8.
    pub offset: u16,
    /// Not the last fragment.
    pub more: bool,
    /// Names the datagram, with source and destination.
    pub identification: u32,
}

impl Fragment {
    /// The header at the start of `bytes`; `None`: too short. Reserved bits are ignored.
    pub fn parse(bytes: &[u8]) -> Option<Fragment> {
        let bytes: &[u8; FRAGMENT_LEN] = bytes.first_chunk()?;
        let word = u16::from_be_bytes([bytes[2], bytes[3]]);
        Some(Fragment {
            next_header: bytes[0],
            offset: word & !7,
            more: word & 1 != 0,
            identification: u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
        })
    }

    /// Fills `bytes`.
    ///
    /// # Panics
    /// When there are not exactly [`FRAGMENT_LEN`].
    pub fn write(&self, bytes: &mut [u8]) {
        assert_eq!(bytes.len(), FRAGMENT_LEN, "the whole header");
        bytes[0] = self.next_header;
        bytes[1] = 0;
        bytes[2..4].copy_from_slice(&(self.offset & !7 | u16::from(self.more)).to_be_bytes());
        bytes[4..].copy_from_slice(&self.identification.to_be_bytes());
    }

    /// RFC 6946: a whole datagram with a fragment header.
    pub fn is_atomic(&self) -> bool {
        self.offset == 0 && !self.more
    }
}

/// The address at byte `at`.
///
/// # Panics
/// When `bytes` ends before its 16 bytes do.
#[inline]
pub(crate) fn address_at(bytes: &[u8], at: usize) -> Ipv6Addr {
    let octets: [u8; 16] = bytes[at..at + 16].try_into().expect("sixteen bytes");
    Ipv6Addr::from(octets)
}

/// RFC 4291 §2.7.1: the group in which the owner of `ip` is asked for its link address.
pub fn solicited_node(ip: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = ip.octets();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(a), u16::from_be_bytes([b, c]))
}

/// RFC 4291 §2.7.1: every node on the link.
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// RFC 4291 §2.7.1: every router on the link.
pub const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
/// RFC 3810 §5.2.14: every router that listens to MLDv2 reports.
pub const ALL_MLD_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);

#[cfg(test)]
mod tests;
