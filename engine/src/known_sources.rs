//! Where connections have come from: sources whose handshakes were completed, which no forged SYN can do.
//!
//! A Bloom filter of two generations. Promises: a source is known from its first accepted connection on until twice
//! [`GENERATION`] others have come, or longer. Does not do: forget by time. Where both generations are full, one unknown source in some forty passes for a known one.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

/// Bits of a generation.
const BITS: usize = 1 << 17;
/// Sources after which the older generation is given up.
const GENERATION: u32 = 8_192;

/// See the module's text.
pub(crate) struct KnownSources {
    /// The younger generation first.
    generations: [Box<[u64]>; 2],
    /// Sources in the younger one.
    count: u32,
    keys: [u64; 2],
}

impl KnownSources {
    pub(crate) fn new() -> KnownSources {
        let random = RandomState::new();
        KnownSources::with_keys([random.hash_one(0), random.hash_one(1)])
    }

    pub(crate) fn with_keys([first, second]: [u64; 2]) -> KnownSources {
        let generation = || vec![0; BITS / 64].into_boxed_slice();
        KnownSources { generations: [generation(), generation()], count: 0, keys: [first | 1, second | 1] }
    }

    /// A connection from there was accepted.
    #[inline]
    pub(crate) fn add(&mut self, source: IpAddr) {
        let places = self.places(source);
        if !has(&self.generations[0], places) {
            self.insert(places);
        }
    }

    fn insert(&mut self, places: [usize; 2]) {
        if self.count >= GENERATION {
            self.generations.swap(0, 1);
            self.generations[0].fill(0);
            self.count = 0;
        }
        self.count += 1;
        places.iter().for_each(|bit| self.generations[0][bit / 64] |= 1 << (bit % 64));
    }

    /// Returns true if a connection from there was accepted.
    pub(crate) fn contains(&self, source: IpAddr) -> bool {
        let places = self.places(source);
        self.generations.iter().any(|generation| has(generation, places))
    }

    /// The source's two bits.
    #[inline]
    fn places(&self, source: IpAddr) -> [usize; 2] {
        let hash = self.hash(source) as usize;
        [hash % BITS, hash / BITS % BITS]
    }

    /// A keyed hash by folded multiplication: no value of it leaves the worker.
    #[inline]
    pub(crate) fn hash(&self, source: IpAddr) -> u64 {
        let [first, second] = self.keys;
        fold(fold(network_of(source) ^ first, second) ^ second, first)
    }
}

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[inline]
fn has(generation: &[u64], places: [usize; 2]) -> bool {
    places.iter().all(|bit| generation[bit / 64] >> (bit % 64) & 1 == 1)
}

/// What one sender may have: an IPv4 address, an IPv6 prefix of 64 bits.
#[inline]
fn network_of(source: IpAddr) -> u64 {
    match source {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => (address.to_bits() >> 64) as u64,
    }
}

#[cfg(test)]
mod tests;
