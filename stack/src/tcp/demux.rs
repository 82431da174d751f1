//! Demultiplexing of segments to connections: an open-addressed table of 64-byte buckets.
//!
//! A bucket holds 8 x {tag, target}; the tag is the whole 32-bit hash and its low bits choose the bucket, so growing moves
//! entries without touching a control block. Lookups come in phases so that a burst's cache misses overlap: hash all and
//! prefetch their buckets ([`FlowTable::touch`]), prefetch the connections that they name ([`FlowTable::likely`]), then
//! verify each against its key ([`FlowTable::find`]). A miss costs one line. The load stays at or below one half; growing
//! moves a few buckets with each insertion. The hash is keyed: see [`FlowHasher`].

use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;

use ringway_probes::Ends;
use ringway_shm::prefetch;

use crate::ip::Pair;

const SLOTS: usize = 8;
const EMPTY: u32 = u32::MAX;
const KIND_SHIFT: u32 = 30;
const INDEX_MASK: u32 = (1 << KIND_SHIFT) - 1;
/// Old buckets moved with each insertion while the table grows.
const MOVED_PER_INSERT: usize = 8;
const BUCKETS_MIN: usize = 64;

/// A flow as the local end sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FlowKey {
    pub(crate) local: IpAddr,
    pub(crate) remote: IpAddr,
    pub(crate) local_port: u16,
    pub(crate) remote_port: u16,
}

impl FlowKey {
    /// The flow as probes name it.
    pub(crate) fn ends(&self) -> Ends {
        Ends::of((self.local, self.local_port), (self.remote, self.remote_port))
    }
}

/// The current record of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Index of a control block.
    Connection(u32),
    /// Index of a SYN-queue record.
    HalfOpen(u32),
    /// Index of a TIME-WAIT record.
    TimeWait(u32),
}

/// A keyed hash: no remote host can choose flows that collide.
pub(crate) struct FlowHasher {
    keys: [u64; 2],
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Bucket {
    slots: [(u32, u32); SLOTS],
}

const _: () = assert!(size_of::<Bucket>() == 64);

struct Table {
    buckets: Vec<Bucket>,
    /// Per bucket: number of entries that started at or probed past it and lie in a later one.
    overflow: Vec<u16>,
    mask: usize,
}

/// The table.
pub(crate) struct FlowTable {
    current: Table,
    /// While growing: the smaller table and its first bucket that has not been moved.
    old: Option<(Table, usize)>,
    entries: usize,
}

impl Target {
    fn pack(self) -> u32 {
        let (kind, index) = match self {
            Target::Connection(index) => (0, index),
            Target::HalfOpen(index) => (1, index),
            Target::TimeWait(index) => (2, index),
        };
        debug_assert!(index <= INDEX_MASK);
        (kind << KIND_SHIFT) | index
    }

    fn unpack(packed: u32) -> Target {
        let index = packed & INDEX_MASK;
        match packed >> KIND_SHIFT {
            0 => Target::Connection(index),
            1 => Target::HalfOpen(index),
            _ => Target::TimeWait(index),
        }
    }
}

impl FlowHasher {
    /// A hasher with keys derived from `seed`.
    pub(crate) fn new(seed: u64) -> FlowHasher {
        FlowHasher { keys: [super::isn::mix(seed ^ 0x9e37_79b9_7f4a_7c15), super::isn::mix(seed ^ 0xc2b2_ae3d_27d4_eb4f)] }
    }

    /// The hash of a flow: folded multiplication. The function can be replaced without other changes.
    #[inline]
    pub(crate) fn hash(&self, key: &FlowKey) -> u32 {
        let ports = u32::from(key.remote_port) << 16 | u32::from(key.local_port);
        self.hash_pair(&Pair::of(key.local, key.remote), ports)
    }

    /// Like [`hash`](FlowHasher::hash), of the two addresses and the first word of a received header.
    #[inline]
    pub(crate) fn hash_pair(&self, pair: &Pair, ports: u32) -> u32 {
        match *pair {
            Pair::V4(pair) => self.finish(pair, u64::from(ports) | 4 << 32),
            Pair::V6(local, remote) => self.hash_ipv6(local.to_bits(), remote.to_bits(), ports),
        }
    }

    fn hash_ipv6(&self, local: u128, remote: u128, ports: u32) -> u32 {
        let high = fold((local >> 64) as u64 ^ self.keys[1], (remote >> 64) as u64 ^ self.keys[0]);
        let addresses = fold(local as u64 ^ self.keys[0] ^ high, remote as u64 ^ self.keys[1]);
        self.finish(addresses, u64::from(ports) | 6 << 32)
    }

    #[inline]
    fn finish(&self, addresses: u64, rest: u64) -> u32 {
        let hash = fold(addresses ^ self.keys[0], rest ^ self.keys[1]);
        fold(hash ^ self.keys[1], self.keys[0] | 1) as u32
    }
}

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}

impl Table {
    fn new(buckets: usize) -> Table {
        let empty = Bucket { slots: [(0, EMPTY); SLOTS] };
        Table { buckets: vec![empty; buckets], overflow: vec![0; buckets], mask: buckets - 1 }
    }

    #[inline]
    fn home(&self, tag: u32) -> usize {
        tag as usize & self.mask
    }

    #[inline]
    fn find(&self, tag: u32, mut matches: impl FnMut(Target) -> bool) -> Option<Target> {
        let mut bucket = self.home(tag);
        loop {
            for &(slot_tag, packed) in &self.buckets[bucket].slots {
                if slot_tag == tag && packed != EMPTY && matches(Target::unpack(packed)) {
                    return Some(Target::unpack(packed));
                }
            }
            if self.overflow[bucket] == 0 {
                return None;
            }
            bucket = (bucket + 1) & self.mask;
        }
    }

    fn insert(&mut self, tag: u32, packed: u32) {
        let mut bucket = self.home(tag);
        loop {
            if let Some(slot) = self.buckets[bucket].slots.iter_mut().find(|slot| slot.1 == EMPTY) {
                *slot = (tag, packed);
                return;
            }
            self.overflow[bucket] += 1;
            bucket = (bucket + 1) & self.mask;
        }
    }

    fn replace(&mut self, tag: u32, from: u32, to: u32) -> bool {
        let mut bucket = self.home(tag);
        loop {
            if let Some(slot) = self.buckets[bucket].slots.iter_mut().find(|slot| **slot == (tag, from)) {
                slot.1 = to;
                return true;
            }
            if self.overflow[bucket] == 0 {
                return false;
            }
            bucket = (bucket + 1) & self.mask;
        }
    }

    fn remove(&mut self, tag: u32, packed: u32) -> bool {
        let home = self.home(tag);
        let mut bucket = home;
        loop {
            if let Some(slot) = self.buckets[bucket].slots.iter_mut().find(|slot| **slot == (tag, packed)) {
                *slot = (0, EMPTY);
                break;
            }
            if self.overflow[bucket] == 0 {
                return false;
            }
            bucket = (bucket + 1) & self.mask;
        }
        let mut passed = home;
        while passed != bucket {
            self.overflow[passed] -= 1;
            passed = (passed + 1) & self.mask;
        }
        true
    }
}

impl FlowTable {
    /// An empty table.
    pub(crate) fn new() -> FlowTable {
        FlowTable { current: Table::new(BUCKETS_MIN), old: None, entries: 0 }
    }

    /// Prefetches the bucket of `hash`.
    #[inline]
    pub(crate) fn touch(&self, hash: u32) {
        prefetch(&self.current.buckets[self.current.home(hash)]);
    }

    /// The likely connection of the flow with this hash; the caller compares keys.
    #[inline]
    pub(crate) fn likely(&self, hash: u32) -> Option<u32> {
        let bucket = &self.current.buckets[self.current.home(hash)];
        let (_, packed) = bucket.slots.iter().find(|(tag, packed)| *tag == hash && *packed <= INDEX_MASK)?;
        Some(*packed)
    }

    /// The flow with this hash for which `matches` returns true.
    #[inline]
    pub(crate) fn find(&self, hash: u32, mut matches: impl FnMut(Target) -> bool) -> Option<Target> {
        let found = self.current.find(hash, &mut matches);
        match &self.old {
            Some((old, _)) if found.is_none() => old.find(hash, &mut matches),
            _ => found,
        }
    }

    /// Adds a flow, which must not be in the table.
    pub(crate) fn insert(&mut self, hash: u32, target: Target) {
        self.grow();
        self.current.insert(hash, target.pack());
        self.entries += 1;
    }

    /// Changes the target of a flow. Returns true when the flow was there.
    pub(crate) fn replace(&mut self, hash: u32, from: Target, to: Target) -> bool {
        let (from, to) = (from.pack(), to.pack());
        self.current.replace(hash, from, to) || self.old.as_mut().is_some_and(|(old, _)| old.replace(hash, from, to))
    }

    /// Removes a flow. Returns true when it was there.
    pub(crate) fn remove(&mut self, hash: u32, target: Target) -> bool {
        let packed = target.pack();
        let removed = self.current.remove(hash, packed) || self.old.as_mut().is_some_and(|(old, _)| old.remove(hash, packed));
        self.entries -= removed as usize;
        removed
    }

    /// Number of flows in the table.
    pub(crate) fn len(&self) -> usize {
        self.entries
    }

    /// Size of all buckets in bytes.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> usize {
        let old = self.old.as_ref().map_or(0, |(old, _)| old.buckets.len());
        (self.current.buckets.len() + old) * (size_of::<Bucket>() + size_of::<u16>())
    }

    fn grow(&mut self) {
        if self.old.is_none() && self.entries >= self.current.buckets.len() * SLOTS / 2 {
            let larger = Table::new(self.current.buckets.len() * 2);
            self.old = Some((core::mem::replace(&mut self.current, larger), 0));
        }
        let Some((old, next)) = &mut self.old else { return };
        for _ in 0..MOVED_PER_INSERT {
            for slot in 0..SLOTS {
                let (tag, packed) = old.buckets[*next].slots[slot];
                if packed != EMPTY {
                    old.remove(tag, packed);
                    self.current.insert(tag, packed);
                }
            }
            *next += 1;
            if *next == old.buckets.len() {
                self.old = None;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
