//! Whose half-open connections are in the SYN queue: all listeners of one owner share a bound, so that one owner's flood leaves
//! the others their places. Read RFC 4987 §3 first.
//!
//! Promises: an owner is counted from its first listener on, and never forgotten: there are as many as users. Does not do:
//! choosing which record goes; see `passive`.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Owners at most; the listeners of further ones are bounded by the queue alone.
const OWNERS_MAX: usize = 65_536;

/// Use of the SYN queue by an owner of listeners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerUse {
    /// As [`Stack::set_owner`](crate::Stack::set_owner) named it.
    pub owner: u32,
    /// Half-open connections.
    pub half_open: u32,
    /// SYNs that met the bound.
    pub hits: u64,
}

/// The counts of all owners.
#[derive(Debug)]
pub(crate) struct Owners {
    counts: BTreeMap<u32, OwnerUse>,
    max: u32,
}

impl Owners {
    /// Each may have `max` half-open connections.
    pub(crate) fn new(max: u32) -> Owners {
        Owners { counts: BTreeMap::new(), max }
    }

    pub(crate) fn max(&self) -> u32 {
        self.max
    }

    pub(crate) fn set_max(&mut self, max: u32) {
        self.max = max;
    }

    pub(crate) fn add(&mut self, owner: u32) {
        if self.counts.len() < OWNERS_MAX {
            self.counts.entry(owner).or_insert(OwnerUse { owner, half_open: 0, hits: 0 });
        }
    }

    /// Returns true when the owner has as many as it may have.
    pub(crate) fn is_full(&self, owner: Option<u32>) -> bool {
        owner.and_then(|owner| self.counts.get(&owner)).is_some_and(|count| count.half_open >= self.max)
    }

    /// A SYN has met the bound.
    pub(crate) fn hit(&mut self, owner: Option<u32>) {
        if let Some(count) = self.of(owner) {
            count.hits += 1;
        }
    }

    pub(crate) fn inserted(&mut self, owner: Option<u32>) {
        if let Some(count) = self.of(owner) {
            count.half_open += 1;
        }
    }

    pub(crate) fn removed(&mut self, owner: Option<u32>) {
        if let Some(count) = self.of(owner) {
            count.half_open -= 1;
        }
    }

    pub(crate) fn list(&self) -> Vec<OwnerUse> {
        self.counts.values().copied().collect()
    }

    fn of(&mut self, owner: Option<u32>) -> Option<&mut OwnerUse> {
        self.counts.get_mut(&owner?)
    }
}
