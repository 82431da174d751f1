//! Packets of a script as bytes: built for the machine, read from it. IPv4 or IPv6 by the addresses of the ends. Numbers are
//! live ones.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ringway_stack::wire::checksum;

use super::packet::{ACK, Choice, Icmp, Line};

/// Both ends of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) from: (IpAddr, u16),
    pub(super) to: (IpAddr, u16),
}

const TCP: u8 = 6;
const ICMPV4: u8 = 1;
const ICMPV6: u8 = 58;
/// Option of RFC 7413, and its experimental form (RFC 6994).
const FAST_OPEN: u8 = 34;
const EXPERIMENT: u8 = 254;
const FAST_OPEN_EXPERIMENT: [u8; 2] = [0xf9, 0x89];
/// RFC 9768
const ACCURATE_ECN: [u8; 2] = [172, 174];

fn option_bytes(options: &[Choice]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let long = |bytes: &mut Vec<u8>, kind: u8, data: &[u8]| bytes.extend([kind, 2 + data.len() as u8].iter().chain(data));
    for option in options {
        match option {
            Choice::Mss(size) => long(&mut bytes, 2, &size.to_be_bytes()),
            Choice::SackPermitted => long(&mut bytes, 4, &[]),
            Choice::WindowScale(shift) => long(&mut bytes, 3, &[*shift]),
            Choice::Timestamp(value, echo) => long(&mut bytes, 8, &[value.to_be_bytes(), echo.to_be_bytes()].concat()),
            Choice::Nop => bytes.push(1),
            Choice::End => bytes.push(0),
            Choice::Sack(blocks) => {
                let edges: Vec<u8> =
                    blocks.iter().flat_map(|(left, right)| [left.to_be_bytes(), right.to_be_bytes()].concat()).collect();
                long(&mut bytes, 5, &edges);
            }
            Choice::FastOpen(cookie) => long(&mut bytes, FAST_OPEN, cookie),
            Choice::FastOpenExperiment(cookie) => long(&mut bytes, EXPERIMENT, &[&FAST_OPEN_EXPERIMENT[..], cookie].concat()),
            Choice::AccurateEcn(zero_first, counters) => {
                let three: Vec<u8> = counters.iter().flat_map(|count| count.to_be_bytes()[1..].to_vec()).collect();
                long(&mut bytes, ACCURATE_ECN[usize::from(!zero_first)], &three);
            }
            Choice::Other(kind, data) => long(&mut bytes, *kind, data),
        }
    }
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Builds a TCP segment from live numbers.
pub(super) fn build(ends: Ends, line: &Line) -> Vec<u8> {
    let options = option_bytes(line.options.as_deref().unwrap_or(&[]));
    let mut segment = Vec::new();
    segment.extend(ends.from.1.to_be_bytes());
    segment.extend(ends.to.1.to_be_bytes());
    segment.extend(line.sequence.to_be_bytes());
    segment.extend(line.acknowledgment.unwrap_or(0).to_be_bytes());
    segment.push((5 + options.len() as u8 / 4) << 4 | (line.flags >> 8) as u8);
    segment.push(line.flags as u8);
    segment.extend(line.window.unwrap_or(0).to_be_bytes());
    segment.extend([0, 0]);
    segment.extend(line.urgent.to_be_bytes());
    segment.extend(&options);
    segment.resize(segment.len() + line.payload, 0);
    let pseudo = checksum::pseudo_header(ends.from.0, ends.to.0, TCP, segment.len() as u32);
    let sum = !checksum::add(pseudo, checksum::sum(&segment));
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    let tos = line.tos.unwrap_or(line.ecn.unwrap_or(0));
    with_header(ends, TCP, tos, line.ttl.unwrap_or(255), &segment)
}

fn with_header(ends: Ends, protocol: u8, tos: u8, ttl: u8, body: &[u8]) -> Vec<u8> {
    let mut header;
    match (ends.from.0, ends.to.0) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            header = vec![0x45, tos];
            header.extend(((20 + body.len()) as u16).to_be_bytes());
            header.extend([0, 0, 0, 0, ttl, protocol, 0, 0]);
            header.extend(from.octets().iter().chain(&to.octets()));
            let sum = !checksum::sum(&header);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        (from, to) => {
            header = vec![0x60 | tos >> 4, tos << 4, 0, 0];
            header.extend((body.len() as u16).to_be_bytes());
            header.extend([protocol, ttl]);
            header.extend(wide(from).octets().iter().chain(&wide(to).octets()));
        }
    }
    header.extend(body);
    header
}

fn wide(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    }
}

/// Builds an ICMP error about a segment that was sent from `ends.to` (live numbers). A script names IPv4's kinds in both
/// families.
pub(super) fn build_icmp(ends: Ends, line: &Line, icmp: Icmp) -> Vec<u8> {
    let about = Ends { from: ends.to, to: ends.from };
    let original = build(about, &Line { options: Some(Vec::new()), icmp: None, flags: ACK, ..line.clone() });
    let v4 = ends.to.0.is_ipv4();
    // RFC 4443 §3
    let (kind, code) = match (icmp.kind, icmp.code) {
        both if v4 => both,
        (3, 4) => (2, 0),
        (3, 3) => (1, 4),
        (3, 1) => (1, 3),
        (3, 9 | 10 | 13) => (1, 1),
        (3, 2) => (4, 1),
        (11, code) => (3, code),
        _ => (1, 0),
    };
    let mut body = vec![kind, code, 0, 0, 0, 0];
    body.extend(icmp.mtu.to_be_bytes());
    body.extend(&original[..if v4 { 28 } else { 60 }]);
    let protocol = if v4 { ICMPV4 } else { ICMPV6 };
    let pseudo = if v4 { 0 } else { checksum::pseudo_header(ends.from.0, ends.to.0, protocol, body.len() as u32) };
    let sum = !checksum::add(pseudo, checksum::sum(&body));
    body[2..4].copy_from_slice(&sum.to_be_bytes());
    with_header(ends, protocol, 0, 255, &body)
}

/// Reads a sent packet, with live numbers. `None`: not TCP.
pub(super) fn parse(packet: &[u8]) -> Option<(Ends, Line)> {
    let v4 = packet.first()? >> 4 == 4;
    let (header, segment) = packet.split_at_checked(if v4 { 20 } else { 40 })?;
    let protocol = header[if v4 { 9 } else { 6 }];
    if protocol != TCP || segment.len() < 20 {
        return None;
    }
    let (from, to): (IpAddr, IpAddr) = match v4 {
        true => {
            let ip = |at: usize| Some(Ipv4Addr::from(*header[at..].first_chunk::<4>()?).into());
            (ip(12)?, ip(16)?)
        }
        false => {
            let ip = |at: usize| Some(Ipv6Addr::from(*header[at..].first_chunk::<16>()?).into());
            (ip(8)?, ip(24)?)
        }
    };
    let word = |at: usize| u16::from_be_bytes([segment[at], segment[at + 1]]);
    let long = |at: usize| u32::from(word(at)) << 16 | u32::from(word(at + 2));
    let data = usize::from(segment[12] >> 4) * 4;
    let tos = if v4 { header[1] } else { header[0] << 4 | header[1] >> 4 };
    let flags = u16::from(segment[13]) | u16::from(segment[12] & 1) << 8;
    let line = Line {
        icmp: None,
        ecn: Some(tos & 3),
        tos: Some(tos),
        ttl: Some(header[if v4 { 8 } else { 7 }]),
        flags,
        sequence: long(4),
        payload: segment.len().checked_sub(data)?,
        acknowledgment: (flags & ACK != 0).then(|| long(8)),
        window: Some(word(14)),
        urgent: word(18),
        options: Some(parse_options(segment.get(20..data)?)?),
    };
    Some((Ends { from: (from, word(0)), to: (to, word(2)) }, line))
}

fn parse_options(mut bytes: &[u8]) -> Option<Vec<Choice>> {
    let mut options = Vec::new();
    while let [kind, rest @ ..] = bytes {
        if *kind <= 1 {
            options.push(if *kind == 1 { Choice::Nop } else { Choice::End });
            bytes = rest;
            continue;
        }
        let len = usize::from(*rest.first()?);
        options.push(parse_option(*kind, bytes.get(2..len)?)?);
        bytes = &bytes[len..];
    }
    Some(options)
}

fn parse_option(kind: u8, data: &[u8]) -> Option<Choice> {
    let long = |at: usize| data.get(at..at + 4).map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]));
    Some(match (kind, data) {
        (2, [high, low]) => Choice::Mss(u16::from_be_bytes([*high, *low])),
        (3, [shift]) => Choice::WindowScale(*shift),
        (4, []) => Choice::SackPermitted,
        (5, _) => Choice::Sack((0..data.len() / 8).map(|i| Some((long(i * 8)?, long(i * 8 + 4)?))).collect::<Option<_>>()?),
        (8, _) => Choice::Timestamp(long(0)?, long(4)?),
        (FAST_OPEN, cookie) => Choice::FastOpen(cookie.to_vec()),
        (EXPERIMENT, [0xf9, 0x89, cookie @ ..]) => Choice::FastOpenExperiment(cookie.to_vec()),
        (172 | 174, _) => {
            let counters = data.chunks_exact(3).map(|b| u32::from_be_bytes([0, b[0], b[1], b[2]])).collect();
            Choice::AccurateEcn(kind == ACCURATE_ECN[0], counters)
        }
        _ => Choice::Other(kind, data.to_vec()),
    })
}
