//! Which numbers of processes or contexts are in use: a bit for each, and a summary, so that cost follows those in use.
//!
//! A bit of the summary is set before the first of its word is, and stays. Everything here is the application's to
//! change: the worker's loops are bounded by the words there are.

use core::ops::Range;

use ringway_shm::event_set::Bits;
use ringway_shm::sync::{AtomicU64, Ordering};

/// Numbers up to `64 * WORDS`.
#[repr(C)]
pub(crate) struct Numbers<const WORDS: usize> {
    summary: [AtomicU64; 3],
    words: [AtomicU64; WORDS],
}

impl<const WORDS: usize> Numbers<WORDS> {
    /// Takes the lowest free number.
    pub(crate) fn claim(&self) -> Option<u32> {
        self.claim_among(0..WORDS)
    }

    /// Takes the lowest free number of these words.
    pub(crate) fn claim_among(&self, mut words: Range<usize>) -> Option<u32> {
        words.find_map(|at| {
            let word = &self.words[at];
            Bits(!word.load(Ordering::Relaxed)).find_map(|bit| {
                self.summary[at / 64].fetch_or(1 << (at % 64), Ordering::SeqCst);
                (word.fetch_or(1 << bit, Ordering::SeqCst) & 1 << bit == 0).then_some(at as u32 * 64 + bit)
            })
        })
    }

    /// Gives a number back.
    pub(crate) fn give_back(&self, number: u32) {
        self.words[(number / 64) as usize].fetch_and(!(1 << (number % 64)), Ordering::SeqCst);
    }

    /// The numbers in use.
    pub(crate) fn used(&self) -> impl Iterator<Item = u32> + '_ {
        self.used_of(u64::MAX)
    }

    /// The numbers in use whose remainder by 64 is a bit of `columns`.
    #[inline]
    pub(crate) fn used_of(&self, columns: u64) -> impl Iterator<Item = u32> + '_ {
        let summary = self.summary.iter().zip(0u32..);
        let words = summary.flat_map(|(word, at)| Bits(word.load(Ordering::SeqCst)).map(move |bit| at * 64 + bit));
        words.filter(|&word| (word as usize) < WORDS).flat_map(move |word| {
            let bits = self.words[word as usize].load(Ordering::SeqCst) & columns;
            Bits(bits).map(move |bit| word * 64 + bit)
        })
    }
}

#[cfg(test)]
mod tests;
