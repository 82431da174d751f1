//! Path MTU cache: maximum packet size by destination. Read RFC 1191 §6, RFC 8201 §4-5, RFC 5927 §7 first.
//!
//! Promises: bounded (when full, the entry that expires first is dropped); an entry never exceeds the link's MTU; it expires
//! ten minutes after it was learnt. The transport decides whether a message is credible: only messages that a live flow
//! believes come here.

use alloc::collections::{BTreeMap, BTreeSet};
use core::net::IpAddr;

use ringway_shm::{Duration, Instant};

/// The cache; see the module's text.
#[derive(Debug)]
pub(crate) struct PathMtus {
    entries: BTreeMap<IpAddr, (u16, Instant)>,
    expiries: BTreeSet<(Instant, IpAddr)>,
    max: usize,
}

impl PathMtus {
    /// Makes an empty cache for `max` destinations; at least one.
    pub(crate) fn new(max: usize) -> PathMtus {
        PathMtus { entries: BTreeMap::new(), expiries: BTreeSet::new(), max: max.max(1) }
    }

    /// Returns the smaller MTU of the link and of the path to `remote`.
    #[inline]
    pub(crate) fn limit(&self, remote: IpAddr, link_mtu: u16) -> u16 {
        if self.entries.is_empty() {
            return link_mtu;
        }
        self.entries.get(&remote).map_or(link_mtu, |&(mtu, _)| mtu.min(link_mtu))
    }

    /// Learns that packets to `remote` must not exceed `told` bytes (0: an old router did not give the MTU) while `current`
    /// were sent. Values above `current` are not believed (RFC 1191 §3).
    pub(crate) fn learn(&mut self, now: Instant, remote: IpAddr, told: u16, current: u16) {
        let told = if told == 0 { next_plateau(current) } else { told };
        let mtu = told.max(minimum(remote));
        if mtu >= current && !self.entries.contains_key(&remote) {
            return;
        }
        let mtu = mtu.min(current);
        if let Some((_, expiry)) = self.entries.remove(&remote) {
            self.expiries.remove(&(expiry, remote));
        } else if self.entries.len() >= self.max
            && let Some((_, oldest)) = self.expiries.pop_first()
        {
            self.entries.remove(&oldest);
        }
        self.entries.insert(remote, (mtu, now + LIFETIME));
        self.expiries.insert((now + LIFETIME, remote));
    }

    /// Drops expired entries, a bounded number per call.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        for _ in 0..EXPIRIES_MAX {
            let Some(&(expiry, remote)) = self.expiries.first().filter(|(expiry, _)| *expiry <= now) else { return };
            self.expiries.remove(&(expiry, remote));
            self.entries.remove(&remote);
        }
    }

    /// Returns the time at which the next entry expires.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.expiries.first().map(|&(expiry, _)| expiry)
    }

    /// Returns the number of destinations in the cache.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

/// Returns the size that every path takes: Linux's min_pmtu, and RFC 8200 §5.
fn minimum(remote: IpAddr) -> u16 {
    if remote.is_ipv4() { MINIMUM_IPV4 } else { MINIMUM_IPV6 }
}

/// RFC 1191 §7.1: returns the next smaller common link MTU.
fn next_plateau(current: u16) -> u16 {
    PLATEAUS.into_iter().find(|&plateau| plateau < current).unwrap_or(MINIMUM_IPV4)
}

const MINIMUM_IPV4: u16 = 552;
const MINIMUM_IPV6: u16 = 1_280;
const PLATEAUS: [u16; 9] = [32_000, 17_914, 8_166, 4_352, 2_002, 1_492, 1_006, 576, 552];
/// RFC 1191 §6.3, Linux mtu_expires.
const LIFETIME: Duration = Duration::from_secs(600);
/// Maximum number of entries dropped in one call.
const EXPIRIES_MAX: usize = 256;

#[cfg(test)]
mod tests;
