//! Better first hops. Read RFC 4861 §8.1, §8.3, RFC 1122 §3.2.2.2 first.
//!
//! A redirect is believed when it comes from the router that packets to the destination go to now, and names
//! somebody on the same link. It counts for one destination, for ten minutes; only so many are kept. On shared
//! interfaces the kernel's routes are followed, and redirects are the kernel's.

use alloc::collections::BTreeMap;
use core::net::IpAddr;

use ringway_shm::{Duration, Instant};

use super::{Ip, is_host};
use crate::link::neighbor::Key;

/// Destinations with a first hop of their own.
#[derive(Debug, Default)]
pub(super) struct Redirects {
    entries: BTreeMap<IpAddr, (Key, Instant)>,
}

impl Redirects {
    /// The first hop of a destination: interface and neighbor.
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

    /// Forgets what is too old, or a neighbor that is gone. Returns whether there was any.
    pub(super) fn forget(&mut self, now: Instant, gone: Option<Key>) -> bool {
        let before = self.entries.len();
        self.entries.retain(|_, (key, until)| *until > now && Some(*key) != gone);
        before != self.entries.len()
    }

    /// Forgets everything: routes or addresses have changed.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.entries.values().map(|(_, until)| *until).min()
    }
}

impl Ip {
    /// `router` says that packets to `destination` had better go to `hop`. Returns whether it is believed.
    pub(super) fn receive_redirect(
        &mut self,
        now: Instant,
        interface: u32,
        router: IpAddr,
        destination: IpAddr,
        hop: IpAddr,
    ) -> bool {
        let current = self.route(destination, None).map(|path| (path.interface, path.next_hop));
        // RFC 1122 §3.2.2.2, RFC 4861 §8.1: from the current first hop, and on the same link. In IPv6 a router goes by its
        // link-local address, and who is named otherwise is the destination itself.
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

/// Destinations at most.
const REDIRECTS_MAX: usize = 256;
/// As Linux's gc_timeout has it.
const LIFETIME: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests;
