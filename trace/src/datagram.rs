//! IPv4 and IPv6 headers. Read RFC 791 §3.1, RFC 8200 §3, §4 first.
//!
//! Promises: lengths are held against what the packet had on the wire; extension headers are walked with a
//! bound. Does not do: reassembly; fragments are said to be fragments.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The protocol numbers that are looked into.
pub(crate) const ICMP: u8 = 1;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const ICMPV6: u8 = 58;

/// Extension headers that are walked.
const EXTENSIONS_MAX: usize = 8;

/// A datagram as far as it was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// Where from.
    pub source: IpAddr,
    /// Where to.
    pub destination: IpAddr,
    /// What it carries, behind extension headers.
    pub protocol: u8,
    /// The two bits of RFC 3168: 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE.
    pub ecn: u8,
    /// It is a fragment, or the rest of one.
    pub is_fragment: bool,
    /// Whether the header's checksum is right; true for IPv6, and where an interface was to fill it in.
    pub checksum_is_right: bool,
    /// What was captured of the payload.
    pub payload: &'a [u8],
    /// Bytes of payload on the wire.
    pub payload_len: u32,
    /// Bytes of the datagram on the wire.
    pub len: u32,
}

/// Why a header is no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Not enough was captured to know.
    Cut,
    /// The header contradicts itself or the packet.
    Wrong(&'static str),
}

/// Reads the IP header at the start of `bytes`; the packet had `wire_len` bytes from there on.
///
/// # Errors
/// [`Malformed`]
pub fn parse(bytes: &[u8], wire_len: u32) -> Result<Datagram<'_>, Malformed> {
    match bytes.first().map(|byte| byte >> 4) {
        Some(4) => parse_v4(bytes, wire_len),
        Some(6) => parse_v6(bytes, wire_len),
        Some(_) => Err(Malformed::Wrong("the version is neither 4 nor 6")),
        None => Err(Malformed::Cut),
    }
}

fn parse_v4(bytes: &[u8], wire_len: u32) -> Result<Datagram<'_>, Malformed> {
    let fixed: &[u8; 20] = bytes.first_chunk().ok_or(Malformed::Cut)?;
    let header_len = usize::from(fixed[0] & 15) * 4;
    if header_len < 20 {
        return Err(Malformed::Wrong("the header is shorter than 20 bytes"));
    }
    let header = bytes.get(..header_len).ok_or(Malformed::Cut)?;
    let total = u32::from(u16::from_be_bytes([fixed[2], fixed[3]]));
    // Zero is what a segment beyond 64 KiB says that an interface is still to cut.
    let len = if total == 0 { wire_len } else { total };
    if (len as usize) < header_len {
        return Err(Malformed::Wrong("the total length is shorter than the header"));
    }
    if len > wire_len {
        return Err(Malformed::Wrong("the total length is beyond the end of the packet"));
    }
    let fragment = u16::from_be_bytes([fixed[6], fixed[7]]);
    let address = |at: usize| Ipv4Addr::new(fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]).into();
    let end = bytes.len().min(len as usize);
    Ok(Datagram {
        source: address(12),
        destination: address(16),
        protocol: fixed[9],
        ecn: fixed[1] & 3,
        is_fragment: fragment & 0x3fff != 0,
        checksum_is_right: sum(0, header) == 0xffff || fixed[10..12] == [0, 0],
        payload: &bytes[header_len..end],
        payload_len: len - header_len as u32,
        len,
    })
}

fn parse_v6(bytes: &[u8], wire_len: u32) -> Result<Datagram<'_>, Malformed> {
    let fixed: &[u8; 40] = bytes.first_chunk().ok_or(Malformed::Cut)?;
    let stated = u32::from(u16::from_be_bytes([fixed[4], fixed[5]]));
    let len = if stated == 0 { wire_len } else { stated + 40 };
    if len > wire_len || len < 40 {
        return Err(Malformed::Wrong("the payload length is beyond the end of the packet"));
    }
    let address = |at: usize| {
        let bytes: [u8; 16] = fixed[at..at + 16].try_into().expect("sixteen bytes");
        Ipv6Addr::from(bytes).into()
    };
    let (mut protocol, mut at, mut is_fragment) = (fixed[6], 40, false);
    let end = bytes.len().min(len as usize);
    for _ in 0..EXTENSIONS_MAX {
        let next = bytes.get(at..end).and_then(|rest| rest.first_chunk::<8>());
        let (Some(next), 0 | 43 | 44 | 60) = (next, protocol) else { break };
        at += if protocol == 44 { 8 } else { (usize::from(next[1]) + 1) * 8 };
        // Offset zero and no more to come: an atomic fragment (RFC 6946).
        is_fragment |= protocol == 44 && u16::from_be_bytes([next[2], next[3]]) & 0xfff9 != 0;
        protocol = next[0];
    }
    if at as u32 > len {
        return Err(Malformed::Wrong("extension headers are longer than the payload"));
    }
    Ok(Datagram {
        source: address(8),
        destination: address(24),
        protocol,
        ecn: (fixed[1] >> 4) & 3,
        is_fragment,
        checksum_is_right: true,
        payload: bytes.get(at..end).unwrap_or_default(),
        payload_len: len - at as u32,
        len,
    })
}

/// Adds bytes to a ones' complement sum (RFC 1071).
pub(crate) fn sum(start: u16, bytes: &[u8]) -> u16 {
    let mut total = u64::from(start);
    let mut pairs = bytes.chunks_exact(2);
    for pair in &mut pairs {
        total += u64::from(u16::from_be_bytes([pair[0], pair[1]]));
    }
    if let [last] = pairs.remainder() {
        total += u64::from(*last) << 8;
    }
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}

/// What a transport's checksum turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sum {
    /// It is right.
    Right,
    /// It covers the pseudo header alone: an interface was, or is, to do the rest.
    Partial,
    /// UDP over IPv4 without one.
    Absent,
    /// It is wrong.
    Wrong,
    /// Not all of the segment was captured.
    Unknown,
}

impl Datagram<'_> {
    /// The sum over the pseudo header (RFC 9293 §3.1, RFC 8200 §8.1).
    fn pseudo(&self, len: u32) -> u16 {
        let start = sum(0, &len.to_be_bytes());
        let start = sum(start, &[0, self.protocol]);
        match (self.source, self.destination) {
            (IpAddr::V4(a), IpAddr::V4(b)) => sum(sum(start, &a.octets()), &b.octets()),
            (IpAddr::V6(a), IpAddr::V6(b)) => sum(sum(start, &a.octets()), &b.octets()),
            _ => start,
        }
    }

    /// Looks at the transport's checksum, whose field is at `field` in the payload.
    pub fn checksum(&self, field: usize) -> Sum {
        let Some(stated) = self.payload.get(field..field + 2) else { return Sum::Unknown };
        let stated = u16::from_be_bytes([stated[0], stated[1]]);
        if self.protocol == UDP && stated == 0 {
            return Sum::Absent;
        }
        let whole = self.payload.len() as u32 == self.payload_len;
        if whole && sum(self.pseudo(self.payload_len), self.payload) == 0xffff {
            return Sum::Right;
        }
        if stated == self.pseudo(self.payload_len) || stated == self.pseudo(0) {
            return Sum::Partial;
        }
        if whole { Sum::Wrong } else { Sum::Unknown }
    }
}

#[cfg(test)]
mod tests;
