//! Redirects to better first hops. Read RFC 4861 §8.1, §8.3, RFC 1122 §3.2.2.2 first.
//!
//! A redirect is believed when it comes from the current router of the destination and names a host on the same link. It
//! applies to one destination, for ten minutes; the number is bounded. On shared interfaces the kernel's routes apply, and
//! redirects are the kernel's.

use alloc::collections::BTreeMap;
use core::net::IpAddr;

use ringway_shm::{Duration, Instant};

use super::{Ip, is_host};
use crate::link::neighbor::Key;

/// Destinations with a redirected first hop.
#[derive(Debug, Default)]
pub(super) struct Redirects {
    entries: BTreeMap<IpAddr, (Key, Instant)>,
}

impl Redirects {
    /// Returns the first hop of a destination: interface and neighbor.
    #[inline]
    pub(super) fn find(&self, destination: IpAddr) -> Option<Key> {
        if self.entries.is_empty() {
            return None;
        }
        self.entries.get(&destination).map(|(key, _)| *key)
    }

    fn insert(&mut self, now: Instant, destination: IpAddr, hop: Key) -> bool {
        if self.entries.len() >= REDIRECTS_MAX && !self.entries.contains_key(&destination) {
            return false;
        }
        let before = self.entries.insert(destination, (hop, now + LIFETIME));
        before.is_none_or(|(key, _)| key != hop)
    }

    /// Drops expired entries, or those of a lost neighbor. Returns true when it dropped any.
    pub(super) fn forget(&mut self, now: Instant, gone: Option<Key>) -> bool {
        let before = self.entries.len();
        self.entries.retain(|_, (key, until)| *until > now && Some(*key) != gone);
        before != self.entries.len()
    }

    /// Drops all: routes or addresses have changed.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.entries.values().map(|(_, until)| *until).min()
    }
}

impl Ip {
    /// Handles a redirect of `router`: packets to `destination` should go to `hop`. Returns true when it is believed.
    pub(super) fn receive_redirect(&mut self, now: Instant, (interface, router): Key, destination: IpAddr, hop: IpAddr) -> bool {
        let current = self.route(destination, None).map(|path| (path.interface, path.next_hop));
        // RFC 1122 §3.2.2.2, RFC 4861 §8.1: from the current first hop, and on the same link. An IPv6 router is named by its
        // link-local address; any other hop must be the destination itself.
        let believable = match hop {
            IpAddr::V4(_) => self.is_on_link(interface, hop),
            IpAddr::V6(ip) => hop == destination || ip.is_unicast_link_local(),
        };
        if current != Some((interface, router)) || !believable || !is_host(hop) || self.owns(hop) || hop == router {
            return false;
        }
        if self.redirects.insert(now, destination, (interface, hop)) {
            self.bump_generation();
        }
        self.reschedule();
        true
    }
}

/// Maximum number of destinations.
const REDIRECTS_MAX: usize = 256;
/// Linux's gc_timeout.
const LIFETIME: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests;
