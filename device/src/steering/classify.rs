//! Read RFC 791 §3.1, RFC 8200 §3 and RFC 792 first. The receiver of a packet, found in software.
//!
//! Says of a flow what the program in `fanout` says. Promises: never panics on what came from the wire. Does not do: walking
//! IPv6 extension headers; what has others than a fragment's is worker 0's.

use ringway_shm::FlowGroup;

use crate::Medium;

/// For which worker a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressee {
    /// The one that has this group: it belongs to a flow, or is an ICMP error about one.
    Flow(FlowGroup),
    /// All of them: it teaches a link address or a route, or is a fragment, of which only the first has ports.
    Everyone,
    /// Worker 0, which answers for the address.
    First,
}

const ETHERTYPE_ARP: u16 = 0x0806;
const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ARP_OPERATION: usize = 6;
const ARP_REPLY: u16 = 2;
/// More fragments, or an offset.
const FRAGMENT_MASK: u16 = 0x3fff;
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const FRAGMENT: u8 = 44;
const ICMPV6: u8 = 58;
const V6_HEADER: usize = 40;
const ICMP_HEADER: usize = 8;
/// Router and neighbor advertisements and redirects (RFC 4861 §4).
const TEACHING: [u8; 3] = [134, 136, 137];

/// The receiver of the packet that begins with `bytes`: at least its headers.
#[inline]
pub fn addressee(medium: Medium, bytes: &[u8]) -> Addressee {
    find(medium, bytes).unwrap_or(Addressee::First)
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).and_then(|two| two.try_into().ok()).map(u16::from_be_bytes)
}

/// The exclusive or of the words in `bytes`.
fn combine(bytes: &[u8]) -> u32 {
    bytes.chunks_exact(4).fold(0, |word, four| word ^ four.iter().fold(0, |number, &byte| number << 8 | u32::from(byte)))
}

fn find(medium: Medium, bytes: &[u8]) -> Option<Addressee> {
    let ip = bytes.get(medium.header_bytes()..)?;
    let kind = match medium {
        Medium::Ethernet => half(bytes, 12)?,
        Medium::Ip if *ip.first()? >> 4 == 6 => ETHERTYPE_IPV6,
        Medium::Ip => ETHERTYPE_IPV4,
    };
    match kind {
        ETHERTYPE_IPV4 => find_v4(ip),
        ETHERTYPE_IPV6 => find_v6(ip),
        ETHERTYPE_ARP if half(ip, ARP_OPERATION)? == ARP_REPLY => Some(Addressee::Everyone),
        _ => None,
    }
}

fn find_v4(ip: &[u8]) -> Option<Addressee> {
    if half(ip, 6)? & FRAGMENT_MASK != 0 {
        return Some(Addressee::Everyone);
    }
    if *ip.get(9)? != ICMP {
        return flow_v4(ip);
    }
    let message = ip.get(usize::from(ip.first()? & 0xf) * 4..)?;
    if !matches!(message.first()?, 3 | 11 | 12) {
        return None;
    }
    flow_v4(message.get(ICMP_HEADER..)?)
}

fn flow_v4(ip: &[u8]) -> Option<Addressee> {
    if !matches!(*ip.get(9)?, TCP | UDP) {
        return None;
    }
    flow(ip.get(12..20)?, ip.get(usize::from(ip.first()? & 0xf) * 4..)?)
}

fn find_v6(ip: &[u8]) -> Option<Addressee> {
    match *ip.get(6)? {
        FRAGMENT => Some(Addressee::Everyone),
        ICMPV6 => match *ip.get(V6_HEADER)? {
            1..=4 => flow_v6(ip.get(V6_HEADER + ICMP_HEADER..)?),
            kind if TEACHING.contains(&kind) => Some(Addressee::Everyone),
            _ => None,
        },
        _ => flow_v6(ip),
    }
}

fn flow_v6(ip: &[u8]) -> Option<Addressee> {
    if !matches!(*ip.get(6)?, TCP | UDP) {
        return None;
    }
    flow(ip.get(8..V6_HEADER)?, ip.get(V6_HEADER..)?)
}

fn flow(addresses: &[u8], ports: &[u8]) -> Option<Addressee> {
    let ports = half(ports, 0)? ^ half(ports, 2)?;
    Some(Addressee::Flow(FlowGroup::of_word(combine(addresses) ^ u32::from(ports))))
}
