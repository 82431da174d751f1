//! The header cache: recent header templates. Connections to a recent peer, and segments without a connection, copy one
//! instead of consulting routes and neighbors.
//!
//! Promises: a bounded number of entries, each overwritten by the next one with the same index. A template is valid while
//! [`Ip::generation`](super::Ip::generation) is unchanged, like those of connections, and for at most a second: the neighbor
//! table must learn which neighbors are in use, so that it probes one that was silent for long (RFC 4861 §7.3.3). IPv4 only:
//! IPv6 packets have a flow label.

use alloc::boxed::Box;

use ringway_shm::{Duration, Instant};

use super::route_cache::place;
use super::{Flow, Template};

/// Number of entries; a power of two.
const HEADERS_CACHED: usize = 64;
/// Validity of a template.
const LIFETIME: Duration = Duration::from_secs(1);

struct Entry {
    template: Template,
    protocol: u8,
    tos: u8,
    ttl: u8,
    made_at: Instant,
}

/// The header cache; see the module's text.
pub(super) struct HeaderCache {
    entries: Box<[Option<Entry>; HEADERS_CACHED]>,
}

impl Default for HeaderCache {
    fn default() -> HeaderCache {
        HeaderCache { entries: Box::new([const { None }; HEADERS_CACHED]) }
    }
}

impl HeaderCache {
    /// Returns the template for packets of `flow`, whatever its ports.
    #[inline]
    pub(super) fn find(&self, now: Instant, flow: &Flow, generation: u32) -> Option<&Template> {
        let entry = self.entries[place(flow.remote) % HEADERS_CACHED].as_ref()?;
        let is_of = (entry.protocol, entry.tos, entry.ttl) == (flow.protocol, flow.tos, flow.ttl)
            && entry.template.generation == generation
            && entry.template.is_between(flow.local, flow.remote)
            && now < entry.made_at + LIFETIME;
        is_of.then_some(&entry.template)
    }

    /// Stores a new template.
    pub(super) fn remember(&mut self, now: Instant, flow: &Flow, template: Template) {
        if flow.remote.is_ipv4() {
            let Flow { protocol, tos, ttl, .. } = *flow;
            self.entries[place(flow.remote) % HEADERS_CACHED] = Some(Entry { template, protocol, tos, ttl, made_at: now });
        }
    }
}

#[cfg(test)]
mod tests;
