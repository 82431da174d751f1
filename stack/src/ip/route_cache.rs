//! The route cache: recent routes to hosts, so that the segments of a handshake need one lookup.
//!
//! Promises: a bounded number of entries, each overwritten by the next host with the same index. An entry is valid while
//! [`Ip::generation`](super::Ip::generation) is unchanged: it changes with addresses, routes, redirects and neighbors. Path
//! MTUs change without it, so they are not cached here. Paths to our own addresses are not cached either.

use alloc::boxed::Box;
use core::cell::RefCell;
use core::net::IpAddr;

/// Number of entries; a power of two.
const WAYS: usize = 64;

/// A cached route to a host.
#[derive(Clone, Copy, Debug)]
pub(super) struct CachedRoute {
    pub(super) interface: u32,
    pub(super) source: IpAddr,
    pub(super) next_hop: IpAddr,
}

#[derive(Clone, Copy)]
struct Entry {
    remote: IpAddr,
    /// The requested source address.
    local: Option<IpAddr>,
    generation: u32,
    way: CachedRoute,
}

/// The route cache; see the module's text.
pub(super) struct RouteCache {
    entries: Box<[RefCell<Option<Entry>>; WAYS]>,
}

impl Default for RouteCache {
    fn default() -> RouteCache {
        RouteCache { entries: Box::new([const { RefCell::new(None) }; WAYS]) }
    }
}

/// Returns the index of a host in a small table, modulo its size.
#[inline]
pub(super) fn place(remote: IpAddr) -> usize {
    let bits = match remote {
        IpAddr::V4(ip) => ip.to_bits(),
        IpAddr::V6(ip) => (ip.to_bits() as u32) ^ (ip.to_bits() >> 64) as u32,
    };
    (bits ^ bits >> 6 ^ bits >> 16) as usize
}

impl RouteCache {
    /// Returns the cached route to `remote`, from `local` if given.
    #[inline]
    pub(super) fn find(&self, remote: IpAddr, local: Option<IpAddr>, generation: u32) -> Option<CachedRoute> {
        let entry = self.entries[place(remote) % WAYS].borrow();
        let entry = entry.as_ref()?;
        (entry.generation == generation && entry.remote == remote && entry.local == local).then_some(entry.way)
    }

    /// Stores a route.
    pub(super) fn remember(&self, remote: IpAddr, local: Option<IpAddr>, generation: u32, way: CachedRoute) {
        *self.entries[place(remote) % WAYS].borrow_mut() = Some(Entry { remote, local, generation, way });
    }
}

#[cfg(test)]
mod tests;
