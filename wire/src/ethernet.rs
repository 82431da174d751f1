//! The Ethernet II header (IEEE 802.3 §3.1.1) and the VLAN tag (IEEE 802.1Q §9.6).

use crate::address::MacAddress;

/// Bytes of the header.
pub const HEADER_LEN: usize = 14;
/// IPv4 (RFC 894).
pub const TYPE_IPV4: u16 = 0x0800;
/// ARP (RFC 826).
pub const TYPE_ARP: u16 = 0x0806;
/// IPv6 (RFC 2464).
pub const TYPE_IPV6: u16 = 0x86dd;

/// A VLAN tag instead of the type; the type follows it.
pub const TYPE_VLAN: u16 = 0x8100;
/// Bytes of a tag.
pub const TAG_LEN: usize = 4;
/// Where the type, or a tag, is.
pub const TYPE_AT: usize = 12;

/// The VLAN that a tag of this control information names; 0: none, the tag has only a priority.
pub const fn vlan_of(control: u16) -> u16 {
    control & 0xfff
}

/// An Ethernet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Destination.
    pub destination: MacAddress,
    /// Source.
    pub source: MacAddress,
    /// Type of the payload.
    pub ether_type: u16,
}

impl Header {
    /// The header at the start of `bytes`; `None`: too short.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Option<Header> {
        let bytes: &[u8; HEADER_LEN] = bytes.first_chunk()?;
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1] = *bytes;
        Some(Header {
            destination: MacAddress([d0, d1, d2, d3, d4, d5]),
            source: MacAddress([s0, s1, s2, s3, s4, s5]),
            ether_type: u16::from_be_bytes([t0, t1]),
        })
    }

    /// Fills `bytes`.
    ///
    /// # Panics
    /// When there are not exactly [`HEADER_LEN`].
    #[inline]
    pub fn write(&self, bytes: &mut [u8]) {
        assert_eq!(bytes.len(), HEADER_LEN, "the whole header");
        bytes[..6].copy_from_slice(&self.destination.0);
        bytes[6..12].copy_from_slice(&self.source.0);
        bytes[12..].copy_from_slice(&self.ether_type.to_be_bytes());
    }
}

#[cfg(test)]
mod tests;
