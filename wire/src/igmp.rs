//! Messages of group membership. Read RFC 3376 §4, RFC 3810 §5 first.
//!
//! Queries are read as far as hosts without source filters need them; reports name groups without sources.

use core::net::{Ipv4Addr, Ipv6Addr};

use super::icmpv6::{MLD_QUERY, MLD_REPORT};
use super::ipv6::address_at;

/// IGMP
pub const PROTOCOL_IGMP: u8 = 2;
/// RFC 3376 §4.2.14: every router that listens to reports.
pub const ALL_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 22);
/// The group that every host is in.
pub const ALL_SYSTEMS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);

const IGMP_QUERY: u8 = 0x11;
const IGMP_REPORT: u8 = 0x22;

/// Statement about a group (RFC 3376 §4.2.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// We are in it.
    IsExclude = 2,
    /// We have left it.
    ToInclude = 3,
    /// We have joined it.
    ToExclude = 4,
}

/// A query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query<A> {
    /// About which group; `None`: about all.
    pub group: Option<A>,
    /// Within which time to answer, milliseconds.
    pub response_ms: u32,
}

/// The IGMP query in `bytes`, whose checksum is the caller's to verify; `None`: something else. Queries of all three versions
/// are understood.
pub fn parse_query(bytes: &[u8]) -> Option<Query<Ipv4Addr>> {
    let fixed: &[u8; 8] = bytes.first_chunk()?;
    if fixed[0] != IGMP_QUERY || !(bytes.len() == 8 || bytes.len() >= 12) {
        return None;
    }
    let tenths = match fixed[1] {
        // RFC 3376 §7.1: version 1 does not say; ten seconds.
        0 => 100,
        code if bytes.len() >= 12 => exponential(code.into(), 7, 4),
        code => code.into(),
    };
    let group = Ipv4Addr::new(fixed[4], fixed[5], fixed[6], fixed[7]);
    let about = Some(group).filter(|group| group.is_multicast());
    (about.is_some() || group.is_unspecified()).then_some(Query { group: about, response_ms: tenths * 100 })
}

/// The MLD query in `bytes`, from the ICMPv6 header on; `None`: something else. Both versions are understood.
pub fn parse_mld_query(bytes: &[u8]) -> Option<Query<Ipv6Addr>> {
    if bytes.first() != Some(&MLD_QUERY) || !(bytes.len() == 24 || bytes.len() >= 28) {
        return None;
    }
    let code = u16::from_be_bytes([bytes[4], bytes[5]]);
    let response_ms = if bytes.len() >= 28 { exponential(code.into(), 15, 12) } else { code.into() };
    let group = address_at(bytes, 8);
    let about = Some(group).filter(|group| group.is_multicast());
    (about.is_some() || group.is_unspecified()).then_some(Query { group: about, response_ms })
}

/// RFC 3376 §4.1.1, RFC 3810 §5.1.3: from `1 << top` on a floating-point number with a mantissa of `mantissa_bits`.
fn exponential(code: u32, top: u32, mantissa_bits: u32) -> u32 {
    if code < 1 << top {
        return code;
    }
    let mantissa = code & ((1 << mantissa_bits) - 1);
    let exponent = (code >> mantissa_bits) & 7;
    (mantissa | 1 << mantissa_bits) << (exponent + 3)
}

/// Bytes of an IGMP report about so many groups.
pub const fn report_len(records: usize) -> usize {
    8 + 8 * records
}

/// Fills `bytes` with an IGMP report; the checksum is zero and the caller's to make.
///
/// # Panics
/// When there are not exactly [`report_len`].
pub fn write_report(records: &[(Record, Ipv4Addr)], bytes: &mut [u8]) {
    assert_eq!(bytes.len(), report_len(records.len()), "the whole report");
    bytes.fill(0);
    bytes[0] = IGMP_REPORT;
    bytes[6..8].copy_from_slice(&(records.len() as u16).to_be_bytes());
    for (chunk, (record, group)) in bytes[8..].chunks_exact_mut(8).zip(records) {
        chunk[0] = *record as u8;
        chunk[4..].copy_from_slice(&group.octets());
    }
}

/// Bytes of an MLD report about so many groups.
pub const fn mld_report_len(records: usize) -> usize {
    8 + 20 * records
}

/// Fills `bytes` with an MLD report, from the ICMPv6 header on; the checksum is zero and the caller's to make.
///
/// # Panics
/// When there are not exactly [`mld_report_len`].
pub fn write_mld_report(records: &[(Record, Ipv6Addr)], bytes: &mut [u8]) {
    assert_eq!(bytes.len(), mld_report_len(records.len()), "the whole report");
    bytes.fill(0);
    bytes[0] = MLD_REPORT;
    bytes[6..8].copy_from_slice(&(records.len() as u16).to_be_bytes());
    for (chunk, (record, group)) in bytes[8..].chunks_exact_mut(20).zip(records) {
        chunk[0] = *record as u8;
        chunk[4..].copy_from_slice(&group.octets());
    }
}

#[cfg(test)]
mod tests;
