//! Writes the pcap stream that tcpdump reads: nanosecond timestamps, little-endian.

use ringway_shm::capture::Packet;

/// LINKTYPE_ETHERNET
pub(super) const LINK_ETHERNET: u32 = 1;
/// LINKTYPE_RAW: packets begin with an IP header.
pub(super) const LINK_RAW: u32 = 101;

const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;

/// The header of the stream.
pub(super) fn file_header(link_type: u32, snaplen: usize) -> Vec<u8> {
    let mut header = Vec::with_capacity(24);
    header.extend(MAGIC_NANOSECONDS.to_le_bytes());
    header.extend(2_u16.to_le_bytes());
    header.extend(4_u16.to_le_bytes());
    header.extend([0; 8]);
    header.extend((snaplen as u32).to_le_bytes());
    header.extend(link_type.to_le_bytes());
    header
}

/// Appends one packet; `wall_ns` is its time of day.
pub(super) fn append_packet(stream: &mut Vec<u8>, wall_ns: u64, packet: &Packet) {
    let seconds = (wall_ns / 1_000_000_000) as u32;
    let rest = (wall_ns % 1_000_000_000) as u32;
    for word in [seconds, rest, packet.bytes.len() as u32, packet.original_len] {
        stream.extend(word.to_le_bytes());
    }
    stream.extend(&packet.bytes);
}
