//! ICMP and ICMPv6 errors as a router would send them. Read RFC 792, RFC 4443 §2.4, RFC 1191 §4 first.

use std::net::{Ipv4Addr, Ipv6Addr};

use ringway_stack::wire::{checksum, icmpv4, icmpv6, ipv4, ipv6};

/// Content of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its type.
    pub kind: u8,
    /// Its code.
    pub code: u8,
    /// The MTU, for the types that have one.
    pub mtu: u16,
}

/// Makes a "too large" message in the family of `quoted`, with the hop's MTU.
pub fn too_big(quoted: &[u8], mtu: u16) -> Message {
    if is_ipv6(quoted) {
        Message { kind: icmpv6::PACKET_TOO_BIG, code: 0, mtu }
    } else {
        Message { kind: icmpv4::UNREACHABLE, code: icmpv4::code::FRAGMENTATION_NEEDED, mtu }
    }
}

/// Makes the packet that carries `message` to the sender of `quoted` (from its IP header on). `None`: not IP.
pub fn error(quoted: &[u8], message: Message) -> Option<Vec<u8>> {
    if is_ipv6(quoted) { error_ipv6(quoted, message) } else { error_ipv4(quoted, message) }
}

fn is_ipv6(packet: &[u8]) -> bool {
    packet.first().is_some_and(|byte| byte >> 4 == 6)
}

fn error_ipv4(quoted: &[u8], message: Message) -> Option<Vec<u8>> {
    let about = ipv4::Header::parse_unverified(quoted)?;
    let quoted = &quoted[..quoted.len().min(usize::from(about.header_len) + QUOTED_IPV4)];
    let len = icmpv4::HEADER_LEN + quoted.len();
    let mut packet = vec![0; ipv4::HEADER_LEN];
    let total_len = (ipv4::HEADER_LEN + len) as u16;
    ipv4::Header::atomic(ROUTER, about.source, ipv4::PROTOCOL_ICMP, 64, total_len).write(&mut packet);
    let mut body = vec![0; icmpv4::HEADER_LEN];
    icmpv4::Header { kind: message.kind, code: message.code, low: message.mtu }.write(&mut body);
    body.extend_from_slice(quoted);
    let sum = !checksum::sum(&body);
    body[2..4].copy_from_slice(&sum.to_be_bytes());
    packet.extend_from_slice(&body);
    Some(packet)
}

fn error_ipv6(quoted: &[u8], message: Message) -> Option<Vec<u8>> {
    let about = ipv6::Header::parse(quoted)?;
    // RFC 4443 §2.4 (c): as much as fits into the smallest MTU.
    let room = usize::from(ipv6::MTU_MIN) - ipv6::HEADER_LEN - icmpv6::HEADER_LEN;
    let quoted = &quoted[..quoted.len().min(room)];
    let len = icmpv6::HEADER_LEN + quoted.len();
    let mut packet = vec![0; ipv6::HEADER_LEN];
    let (next_header, payload_len) = (ipv6::PROTOCOL_ICMP, len as u16);
    let (source, destination) = (ROUTER_IPV6, about.source);
    ipv6::Header { traffic_class: 0, flow_label: 0, payload_len, next_header, hop_limit: 64, source, destination }
        .write(&mut packet);
    let mut body = vec![0; icmpv6::HEADER_LEN];
    icmpv6::Header { kind: message.kind, code: message.code, word: message.mtu.into() }.write(&mut body);
    body.extend_from_slice(quoted);
    let pseudo = checksum::pseudo_header(source.into(), destination.into(), next_header, len as u32);
    let sum = !checksum::add(pseudo, checksum::sum(&body));
    body[2..4].copy_from_slice(&sum.to_be_bytes());
    packet.extend_from_slice(&body);
    Some(packet)
}

/// RFC 792: eight bytes after the header.
const QUOTED_IPV4: usize = 8;
const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 254);
const ROUTER_IPV6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0xfe);
