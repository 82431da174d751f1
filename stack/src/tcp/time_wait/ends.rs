//! Pairs of addresses that several records share: each pair is kept once, with the number of its records.
//!
//! Promises: no more pairs than records; a pair is freed with its last record. An index is valid while a record holds it.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;

/// One pair.
#[derive(Debug)]
struct Pair {
    local: IpAddr,
    remote: IpAddr,
    records: u32,
}

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Ends {
    pairs: Vec<Pair>,
    places: BTreeMap<(IpAddr, IpAddr), u32>,
    free: Vec<u32>,
}

impl Ends {
    /// Index of a pair, for one record more.
    pub(super) fn hold(&mut self, local: IpAddr, remote: IpAddr) -> u32 {
        if let Some(&place) = self.places.get(&(local, remote)) {
            self.pairs[place as usize].records += 1;
            return place;
        }
        let pair = Pair { local, remote, records: 1 };
        let place = match self.free.pop() {
            Some(place) => {
                self.pairs[place as usize] = pair;
                place
            }
            None => {
                self.pairs.push(pair);
                self.pairs.len() as u32 - 1
            }
        };
        self.places.insert((local, remote), place);
        place
    }

    /// Local and remote address at an index.
    pub(super) fn of(&self, place: u32) -> (IpAddr, IpAddr) {
        let pair = &self.pairs[place as usize];
        (pair.local, pair.remote)
    }

    /// Counts one record less.
    pub(super) fn release(&mut self, place: u32) {
        let pair = &mut self.pairs[place as usize];
        pair.records -= 1;
        if pair.records == 0 {
            self.places.remove(&(pair.local, pair.remote));
            self.free.push(place);
        }
    }

    /// Size of the pairs in bytes.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        self.pairs.capacity() * size_of::<Pair>() + self.places.len() * size_of::<((IpAddr, IpAddr), u32)>()
    }

    /// Number of pairs held.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }
}
