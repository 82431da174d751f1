//! Choice of the local port when the caller names none.
//!
//! Read RFC 6056 §3.3.1 and §3.3.4 first. An active open knows its destination: double hash. The start in the ephemeral
//! range is a secret function of both addresses and the remote port; progress is counted in one of a few counters that
//! another secret function chooses. Ports to one destination follow each other, so that none is reused before the range is
//! used up; they reveal little of those to another. Without a destination the start is random.

use super::demux::FlowKey;
use super::isn::{Secrets, mix};

/// RFC 6056 §3.3.4, TABLE_LENGTH.
const COUNTERS: usize = 64;
/// Purposes of the secret functions; see [`Secrets::keyed`].
const OFFSET: u64 = 0x6056_0001;
const COUNTER: u64 = 0x6056_0002;

/// Progress of the searches.
pub(crate) struct PortCounters([u32; COUNTERS]);

/// The ports of a range in the order of the search, each once.
pub(crate) struct Search {
    first: u16,
    count: u32,
    left: u32,
    offset: u32,
    place: usize,
    counter: u32,
}

impl PortCounters {
    /// Counters with different starts, derived from `seed`.
    pub(crate) fn new(seed: u64) -> PortCounters {
        PortCounters(core::array::from_fn(|at| mix(seed ^ OFFSET ^ ((at as u64) << 40)) as u32))
    }

    /// Ports from `first` to `last` for a connection to the remote end of `key`, which has local port 0.
    pub(crate) fn search(&self, secrets: &Secrets, key: &FlowKey, (first, last): (u16, u16)) -> Search {
        let count = if last < first { 0 } else { u32::from(last - first) + 1 };
        let place = secrets.keyed(key, COUNTER) as usize % COUNTERS;
        let offset = (secrets.keyed(key, OFFSET) as u32) % count.max(1);
        Search { first, count, left: count, offset, place, counter: self.0[place] % count.max(1) }
    }

    /// Makes the next search continue where this one has ended.
    pub(crate) fn advance(&mut self, search: &Search) {
        self.0[search.place] = search.counter;
    }
}

impl Iterator for Search {
    type Item = u16;

    fn next(&mut self) -> Option<u16> {
        self.left = self.left.checked_sub(1)?;
        let port = self.first + ((self.offset + self.counter) % self.count) as u16;
        self.counter = (self.counter + 1) % self.count;
        Some(port)
    }
}

/// A port between `first` and `last` for which `is_free` returns true, from a random start; `None` when there is none.
pub(crate) fn choose(random: u64, (first, last): (u16, u16), mut is_free: impl FnMut(u16) -> bool) -> Option<u16> {
    if last < first {
        return None;
    }
    let count = (last - first) as u32 + 1;
    let start = (random % count as u64) as u32;
    (0..count).map(|step| first + ((start + step) % count) as u16).find(|&port| is_free(port))
}

#[cfg(test)]
mod tests;
