//! Read virtio 1.2 §5.1.6 and Documentation/networking/tuntap first. The header that tells the kernel
//! and us about checksums and segmentation, in its 10-byte form.
//!
//! Nothing in it is trusted: what does not fit the packet is refused.

use ringway_shm::{Checksum, Frame, Segmentation, SegmentationKind};

/// Bytes of the header.
pub(crate) const BYTES: usize = 10;

const NEEDS_CHECKSUM: u8 = 1;
const DATA_VALID: u8 = 2;
const GSO_NONE: u8 = 0;
const GSO_TCP_IPV4: u8 = 1;
const GSO_TCP_IPV6: u8 = 4;
const GSO_UDP: u8 = 5;
const GSO_ECN: u8 = 0x80;
const CWR: u8 = 0x80;

/// The header that describes the packet whose first frame is `first`.
#[inline]
pub(crate) fn encode(first: &Frame) -> [u8; BYTES] {
    let Checksum::Partial { start, offset } = first.checksum() else { return [0; BYTES] };
    let segmentation = first.segmentation();
    if segmentation.kind == SegmentationKind::None {
        return header([NEEDS_CHECKSUM, GSO_NONE], 0, 0, start, offset);
    }
    encode_segmented(first, segmentation, start, offset)
}

fn encode_segmented(first: &Frame, segmentation: Segmentation, start: u16, offset: u16) -> [u8; BYTES] {
    let bytes = first.bytes();
    let transport = usize::from(start);
    let (kind, headers) = match segmentation.kind {
        SegmentationKind::None => (GSO_NONE, 0),
        SegmentationKind::TcpIpv4 => (GSO_TCP_IPV4, tcp_header_bytes(bytes, transport)),
        SegmentationKind::TcpIpv6 => (GSO_TCP_IPV6, tcp_header_bytes(bytes, transport)),
        SegmentationKind::Udp => (GSO_UDP, 8),
    };
    let congestion = kind != GSO_UDP && bytes.get(transport + 13).is_some_and(|flags| flags & CWR != 0);
    let kind = kind | if congestion { GSO_ECN } else { 0 };
    header([NEEDS_CHECKSUM, kind], (transport + headers) as u16, segmentation.size, start, offset)
}

/// Puts a header together in whole words, as it is read next: a load of bytes that were stored one by one has to wait.
#[inline]
fn header(kind: [u8; 2], headers: u16, size: u16, start: u16, offset: u16) -> [u8; BYTES] {
    let words = [u16::from_ne_bytes(kind), headers, size, start].map(|word| u64::from(u16::from_le_bytes(word.to_ne_bytes())));
    let first = words[0] | words[1] << 16 | words[2] << 32 | words[3] << 48;
    let mut header = [0; BYTES];
    header[..8].copy_from_slice(&first.to_le_bytes());
    header[8..].copy_from_slice(&offset.to_ne_bytes());
    header
}

fn tcp_header_bytes(bytes: &[u8], transport: usize) -> usize {
    bytes.get(transport + 12).map_or(20, |byte| usize::from(byte >> 4) * 4)
}

/// Sets what `header` says on `first`. `false`: it does not fit the packet, which must be dropped.
#[inline]
pub(crate) fn decode(header: [u8; BYTES], first: &mut Frame) -> bool {
    let word = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
    let (start, offset, size) = (word(6), word(8), word(4));
    let checksum = if header[0] & NEEDS_CHECKSUM != 0 {
        if usize::from(start) + usize::from(offset) + 2 > first.len() {
            return false;
        }
        Checksum::Partial { start, offset }
    } else if header[0] & DATA_VALID != 0 {
        Checksum::Verified
    } else {
        Checksum::Complete
    };
    let kind = match header[1] & !GSO_ECN {
        GSO_NONE => SegmentationKind::None,
        GSO_TCP_IPV4 => SegmentationKind::TcpIpv4,
        GSO_TCP_IPV6 => SegmentationKind::TcpIpv6,
        GSO_UDP => SegmentationKind::Udp,
        _ => return false,
    };
    if kind != SegmentationKind::None && size == 0 {
        return false;
    }
    first.set_checksum(checksum);
    first.set_segmentation(Segmentation { kind, size: if kind == SegmentationKind::None { 0 } else { size } });
    true
}

#[cfg(test)]
mod tests;
