//! Ways that were found: what routing has said of hosts lately, so that the segments of a handshake ask once.
//!
//! Promises: a bounded number of entries, each replaced by the next host that falls on its place. What is remembered counts
//! while [`Ip::generation`](super::Ip::generation) stands still: it moves whenever addresses, routes, redirects or neighbors
//! change. Path MTUs change without that, so they are not kept here. Ways to ourselves are not kept either.

use alloc::boxed::Box;
use core::cell::RefCell;
use core::net::IpAddr;

/// Hosts that are remembered at most; a power of two.
const WAYS: usize = 64;

/// Where packets to a host go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub(super) interface: u32,
    pub(super) source: IpAddr,
    pub(super) next_hop: IpAddr,
}

#[derive(Clone, Copy)]
struct Entry {
    remote: IpAddr,
    /// The source address that was asked for.
    local: Option<IpAddr>,
    generation: u32,
    way: Way,
}

/// See the module's text.
pub(super) struct Ways {
    entries: Box<[RefCell<Option<Entry>>; WAYS]>,
}

impl Default for Ways {
    fn default() -> Ways {
        Ways { entries: Box::new([const { RefCell::new(None) }; WAYS]) }
    }
}

/// Where a host is looked for in a small table, modulo its size.
#[inline]
pub(super) fn place(remote: IpAddr) -> usize {
    let bits = match remote {
        IpAddr::V4(ip) => ip.to_bits(),
        IpAddr::V6(ip) => (ip.to_bits() as u32) ^ (ip.to_bits() >> 64) as u32,
    };
    (bits ^ bits >> 6 ^ bits >> 16) as usize
}

impl Ways {
    /// What was found for packets to `remote`, from `local` if that is said.
    #[inline]
    pub(super) fn find(&self, remote: IpAddr, local: Option<IpAddr>, generation: u32) -> Option<Way> {
        let entry = self.entries[place(remote) % WAYS].borrow();
        let entry = entry.as_ref()?;
        (entry.generation == generation && entry.remote == remote && entry.local == local).then_some(entry.way)
    }

    /// As was found just now.
    pub(super) fn remember(&self, remote: IpAddr, local: Option<IpAddr>, generation: u32, way: Way) {
        *self.entries[place(remote) % WAYS].borrow_mut() = Some(Entry { remote, local, generation, way });
    }
}

#[cfg(test)]
mod tests;
