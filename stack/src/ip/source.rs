//! Source address selection. Read RFC 6724 §3.1, §5, RFC 1122 §3.3.4.3 first.
//!
//! Candidates are the addresses of the interface through which the packet leaves (RFC 6724 §4). Rules 1 (same address), 2
//! (scope), 3 (deprecated) and 8 (longest matching prefix) are implemented; rules 4 to 7 concern features that this stack
//! lacks.

use core::net::{IpAddr, Ipv6Addr};

use super::InterfaceState;
use crate::address::Cidr;

impl InterfaceState {
    /// Returns our address for packets to `remote`, which is reached through `next_hop`.
    pub(super) fn source_towards(&self, next_hop: IpAddr, remote: IpAddr) -> Option<IpAddr> {
        match remote {
            IpAddr::V4(_) => {
                let same_family = || self.addresses.iter().filter(|cidr| cidr.ip.is_ipv4());
                same_family().find(|cidr| cidr.contains(next_hop)).or_else(|| same_family().next()).map(|cidr| cidr.ip)
            }
            IpAddr::V6(remote) => {
                let candidates = self.addresses.iter().filter_map(|cidr| match cidr.ip {
                    IpAddr::V6(ip) => Some((ip, cidr)),
                    IpAddr::V4(_) => None,
                });
                // Of equals the first one wins, in configured order.
                candidates
                    .rev()
                    .max_by_key(|candidate| rank(*candidate, remote, self.deprecated.contains(&candidate.1.ip)))
                    .map(|(ip, _)| ip.into())
            }
        }
    }
}

/// Rank of a candidate, the highest is best: rules 1, 2, 3 and 8 in order.
fn rank((ip, cidr): (Ipv6Addr, &Cidr), remote: Ipv6Addr, deprecated: bool) -> (bool, i8, bool, u32) {
    let (own, wanted) = (scope(ip) as i8, scope(remote) as i8);
    // Rule 2: the smallest scope that is at least the destination's; without one the largest.
    let fitness = if own >= wanted { i8::MAX - own } else { own };
    let common = (u128::from(ip) ^ u128::from(remote)).leading_zeros().min(u32::from(cidr.prefix_len));
    (ip == remote, fitness, !deprecated, common)
}

/// RFC 6724 §3.1, RFC 4291 §2.7: returns the scope's number.
pub(super) fn scope(ip: Ipv6Addr) -> u8 {
    const LINK: u8 = 2;
    const SITE: u8 = 5;
    const GLOBAL: u8 = 14;
    let segments = ip.segments();
    if ip.is_multicast() {
        (segments[0] & 0xf) as u8
    } else if ip.is_unicast_link_local() || ip.is_loopback() {
        LINK
    } else if segments[0] & 0xffc0 == 0xfec0 {
        SITE
    } else {
        GLOBAL
    }
}

#[cfg(test)]
mod tests;
