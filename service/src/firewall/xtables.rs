//! Matches of iptables in their own form, which iptables-nft (and with it ufw) puts between the expressions of nf_tables.
//! Read linux/netfilter/x_tables.h, xt_tcpudp.h, xt_multiport.h, xt_conntrack.h and xt_addrtype.h first.
//!
//! Promises: a match says what its kernel module compares, or that it may hold or not. Numbers are in the machine's order.

use ringway_device::netlink::{attribute, text, u16_at, u32_at};

use super::expression::{Expression, Source, TRANSPORT_HEADER};
use super::judge::CT_STATE;
use super::wire::number;

/// Registers that no expression of iptables-nft uses.
const SCRATCH: usize = 60;

/// XT_TCP_INV_*, XT_UDP_INV_*
const INVERTS_SOURCE: u8 = 1;
const INVERTS_DESTINATION: u8 = 2;
const INVERTS_FLAGS: u8 = 4;
/// Byte 13 of a TCP header.
const FLAGS_AT: usize = 13;

/// struct xt_multiport_v1 has so many ports.
const MULTIPORT_MAX: usize = 15;

/// Of struct xt_conntrack_mtinfo3.
const CONNTRACK_FLAGS_AT: usize = 146;
const CONNTRACK_INVERTS_AT: usize = 148;
const CONNTRACK_STATES_AT: usize = 150;
/// XT_CONNTRACK_STATE
const BY_STATE: u16 = 1;
/// Invalid, established, related, new: as nf_tables numbers them. Others say what NAT has done.
const PLAIN_STATES: u16 = 0xf;

/// XT_ADDRTYPE_INVERT_SOURCE, XT_ADDRTYPE_INVERT_DEST; others ask for addresses of one interface.
const TYPE_INVERTS_SOURCE: u32 = 1;
const TYPE_INVERTS_DESTINATION: u32 = 2;

/// Reads the comparisons of a match.
pub(super) fn read(data: &[u8]) -> Vec<Expression> {
    let name = attribute(data, 1).map(text).unwrap_or_default();
    let revision = attribute(data, 2).and_then(number).unwrap_or(0);
    let info = attribute(data, 3).unwrap_or(&[]);
    let read = match (name.as_str(), revision) {
        ("comment", _) => Some(Vec::new()),
        ("tcp", 0) => tcp(info),
        ("udp", 0) => info.get(8).and_then(|inverts| ports(info, *inverts)),
        ("multiport", 1) => multiport(info),
        ("conntrack", 3) => conntrack(info),
        ("addrtype", 1) => addrtype(info),
        _ => None,
    };
    read.unwrap_or_else(|| vec![Expression::Unknown("a match of iptables")])
}

/// struct xt_tcp {u16 spts[2], u16 dpts[2], u8 option, u8 flg_mask, u8 flg_cmp, u8 invflags}
fn tcp(info: &[u8]) -> Option<Vec<Expression>> {
    let [option, mask, flags, inverts] = *info.get(8..)?.first_chunk()?;
    if option != 0 {
        return None;
    }
    let mut read = ports(info, inverts)?;
    if mask != 0 || flags != 0 {
        read.push(load(Source::Payload { base: TRANSPORT_HEADER, offset: FLAGS_AT, len: 1 }));
        read.push(Expression::Mask { from: SCRATCH, to: SCRATCH, mask: vec![mask], xor: vec![0] });
        read.push(among(vec![vec![flags]], inverts & INVERTS_FLAGS != 0));
    }
    Some(read)
}

/// The ranges of source and destination ports with which the structures for TCP and UDP begin.
fn ports(info: &[u8], inverts: u8) -> Option<Vec<Expression>> {
    let mut read = Vec::new();
    for (at, offset, inverted) in [(0, 0, INVERTS_SOURCE), (4, 2, INVERTS_DESTINATION)] {
        let (low, high, outside) = (u16_at(info, at)?, u16_at(info, at + 2)?, inverts & inverted != 0);
        if (low, high, outside) != (0, u16::MAX, false) {
            read.push(load(Source::Payload { base: TRANSPORT_HEADER, offset, len: 2 }));
            read.push(Expression::Ranges { at: SCRATCH, outside, ranges: vec![port_range(low, high)] });
        }
    }
    Some(read)
}

fn port_range(low: u16, high: u16) -> (Vec<u8>, Vec<u8>) {
    (low.to_be_bytes().to_vec(), high.to_be_bytes().to_vec())
}

/// struct xt_multiport_v1 {u8 flags, u8 count, u16 ports[15], u8 pflags[15], u8 invert}
fn multiport(info: &[u8]) -> Option<Vec<Expression>> {
    let [flags, count] = *info.first_chunk()?;
    let (pflags, outside) = (info.get(32..47)?, *info.get(47)? != 0);
    let offset = match flags {
        0 => 0,
        1 => 2,
        // Either.
        _ => return None,
    };
    let (mut ranges, mut place, count) = (Vec::new(), 0, usize::from(count));
    while place < count.min(MULTIPORT_MAX) {
        let low = u16_at(info, 2 + 2 * place)?;
        // A port with the flag is the first of a range.
        place += usize::from(pflags[place] != 0);
        if place >= MULTIPORT_MAX {
            return None;
        }
        ranges.push(port_range(low, u16_at(info, 2 + 2 * place)?));
        place += 1;
    }
    Some(vec![
        load(Source::Payload { base: TRANSPORT_HEADER, offset, len: 2 }),
        Expression::Ranges { at: SCRATCH, outside, ranges },
    ])
}

fn conntrack(info: &[u8]) -> Option<Vec<Expression>> {
    let [flags, inverts, states] = [CONNTRACK_FLAGS_AT, CONNTRACK_INVERTS_AT, CONNTRACK_STATES_AT].map(|at| u16_at(info, at));
    let (states, inverted) = (states?, inverts? & BY_STATE != 0);
    if flags? != BY_STATE || states & !PLAIN_STATES != 0 {
        return None;
    }
    let mask = u32::from(states).to_ne_bytes().to_vec();
    Some(vec![
        load(Source::Connection(CT_STATE)),
        Expression::Mask { from: SCRATCH, to: SCRATCH, xor: vec![0; mask.len()], mask },
        among(vec![vec![0; 4]], !inverted),
    ])
}

/// struct xt_addrtype_info_v1 {u16 source, u16 dest, u32 flags}: bits are those of the types in routes.
fn addrtype(info: &[u8]) -> Option<Vec<Expression>> {
    let (source, destination, flags) = (u16_at(info, 0)?, u16_at(info, 2)?, u32_at(info, 4)?);
    if flags & !(TYPE_INVERTS_SOURCE | TYPE_INVERTS_DESTINATION) != 0 {
        return None;
    }
    let mut read = Vec::new();
    for (types, of_source, inverts) in [(source, true, TYPE_INVERTS_SOURCE), (destination, false, TYPE_INVERTS_DESTINATION)] {
        if types != 0 {
            let types = (0..u16::BITS).filter(|bit| types & 1 << bit != 0);
            read.push(load(Source::AddressType { of_source }));
            read.push(among(types.map(|number| number.to_ne_bytes().to_vec()).collect(), flags & inverts != 0));
        }
    }
    Some(read)
}

fn load(source: Source) -> Expression {
    Expression::Load { to: SCRATCH, source }
}

/// The loaded value is one of these (or, `outside`, none).
fn among(values: Vec<Vec<u8>>, outside: bool) -> Expression {
    let ranges = values.into_iter().map(|value| (value.clone(), value)).collect();
    Expression::Ranges { at: SCRATCH, outside, ranges }
}
