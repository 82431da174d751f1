//! Header templates that were made lately: connections between two hosts that have had one, and segments that belong to no
//! connection, take a copy instead of asking routing and neighbors anew.
//!
//! Promises: a bounded number of entries, each replaced by the next one that falls on its place. A template counts while
//! [`Ip::generation`](super::Ip::generation) stands still, as those of connections do, and no longer than a second: the
//! neighbor table has to hear of who is in use, or it would not look whether a neighbor that was silent for long is still
//! there (RFC 4861 §7.3.3). Of IPv4 only: packets of IPv6 bear a label of their flow.

use alloc::boxed::Box;

use ringway_shm::{Duration, Instant};

use super::ways::place;
use super::{Flow, Template};

/// Entries; a power of two.
const TEMPLATES: usize = 64;
/// How long a template counts.
const LIFETIME: Duration = Duration::from_secs(1);

struct Entry {
    template: Template,
    protocol: u8,
    tos: u8,
    ttl: u8,
    made_at: Instant,
}

/// See the module's text.
pub(super) struct Templates {
    entries: Box<[Option<Entry>; TEMPLATES]>,
}

impl Default for Templates {
    fn default() -> Templates {
        Templates { entries: Box::new([const { None }; TEMPLATES]) }
    }
}

impl Templates {
    /// That of the packets of `flow`, ports aside.
    #[inline]
    pub(super) fn find(&self, now: Instant, flow: &Flow, generation: u32) -> Option<&Template> {
        let entry = self.entries[place(flow.remote) % TEMPLATES].as_ref()?;
        let is_of = (entry.protocol, entry.tos, entry.ttl) == (flow.protocol, flow.tos, flow.ttl)
            && entry.template.generation == generation
            && entry.template.is_between(flow.local, flow.remote)
            && now < entry.made_at + LIFETIME;
        is_of.then_some(&entry.template)
    }

    /// As was made just now.
    pub(super) fn remember(&mut self, now: Instant, flow: &Flow, template: Template) {
        if flow.remote.is_ipv4() {
            let Flow { protocol, tos, ttl, .. } = *flow;
            self.entries[place(flow.remote) % TEMPLATES] = Some(Entry { template, protocol, tos, ttl, made_at: now });
        }
    }
}

#[cfg(test)]
mod tests;
