//! The Internet checksum. Read RFC 1071, RFC 1624 first.
//!
//! All sums are one's-complement sums of 16-bit words in network order, folded to 16 bits and *not*
//! complemented; a checksum field holds the complement. Sums of parts combine: [`add`], and
//! [`add_at`] for a part that starts at an odd offset.

use core::net::IpAddr;

use ringway_shm::Payload;

/// The sum of `bytes`, as if a zero byte followed an odd number of them.
#[inline]
pub fn sum(bytes: &[u8]) -> u16 {
    ringway_shm::sum::sum(bytes)
}

#[inline]
fn fold_word(word: u64) -> u16 {
    let (half, carry) = (word as u32).overflowing_add((word >> 32) as u32);
    let half = half + u32::from(carry);
    add(half as u16, (half >> 16) as u16)
}

/// The sum of a header of twenty bytes.
#[inline]
pub fn sum_of_header(header: &[u8; 20]) -> u16 {
    let long = |at: usize| u64::from(u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]));
    u16::from_be(fold_word(long(0) + long(4) + long(8) + long(12) + long(16)))
}

/// The sum of two sums.
#[inline]
pub fn add(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + u16::from(carry)
}

/// The sum of `total` and of a part that starts `offset` bytes into it.
#[inline]
pub fn add_at(total: u16, offset: usize, part: u16) -> u16 {
    add(total, if offset.is_multiple_of(2) { part } else { part.swap_bytes() })
}

/// The sum of the pseudo-header of `len` bytes of transport header and payload (RFC 9293 §3.1,
/// RFC 8200 §8.1). Mixed families have no pseudo-header; their sum is that of the bytes.
#[inline]
pub fn pseudo_header(source: IpAddr, destination: IpAddr, protocol: u8, len: u32) -> u16 {
    if let (IpAddr::V4(source), IpAddr::V4(destination)) = (source, destination) {
        let addresses = u64::from(u32::from(source)) + u64::from(u32::from(destination));
        return fold_word(addresses + u64::from(protocol) + u64::from(len));
    }
    let length = add((len >> 16) as u16, len as u16);
    add(add(address(source), address(destination)), add(protocol.into(), length))
}

#[inline]
fn address(ip: IpAddr) -> u16 {
    match ip {
        IpAddr::V4(ip) => sum(&ip.octets()),
        IpAddr::V6(ip) => sum(&ip.octets()),
    }
}

/// The sum of the parts of a packet, in order.
pub fn sum_of_parts<'a>(parts: impl Iterator<Item = impl Into<Payload<'a>>>) -> u16 {
    let (mut total, mut offset) = (0, 0);
    for part in parts {
        let part = part.into();
        total = add_at(total, offset, part.sum());
        offset += part.len();
    }
    total
}

/// The checksum field after a 16-bit word of the data changed from `old` to `new` (RFC 1624, equation 3).
#[inline]
pub fn update(checksum: u16, old: u16, new: u16) -> u16 {
    !add(add(!checksum, !old), new)
}

#[cfg(test)]
mod tests;
