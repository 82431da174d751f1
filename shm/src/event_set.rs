//! A set of numbers as bits, which one side puts in and any thread of the other takes out.
//!
//! A word of the summary says which words of the set may have something. Its bit is set after the number is in, and cleared
//! before the last look at the word, so a number that is in is found by any thread that takes after it was put in, unless another
//! thread is just taking. Whether a thread must be woken does not depend on what is in: see `worker::signal` of the crate `channel`.
//!
//! ```text
//!   put:   word |= bit, then summary |= mark
//!   take:  word has something? take it : summary &= !mark, look at the word again, summary |= mark if it has
//! ```

use crate::sync::{AtomicU64, Ordering};

/// The words of a set.
pub struct EventSet<'a> {
    /// A bit for each number.
    pub words: &'a [AtomicU64],
    /// A bit for each word.
    pub summary: &'a [AtomicU64],
}

impl EventSet<'_> {
    /// Puts a number in; one that is in already stays.
    pub fn put(&self, number: u32) {
        let word = number / 64;
        self.words[word as usize].fetch_or(1 << (number % 64), Ordering::SeqCst);
        self.mark(word);
    }

    fn mark(&self, word: u32) {
        let (summary, mark) = (&self.summary[(word / 64) as usize], 1 << (word % 64));
        if summary.load(Ordering::SeqCst) & mark == 0 {
            summary.fetch_or(mark, Ordering::SeqCst);
        }
    }

    /// Takes a number out.
    pub fn take(&self) -> Option<u32> {
        for (at, summary) in self.summary.iter().enumerate() {
            for bit in Bits(summary.load(Ordering::SeqCst)) {
                let word = at as u32 * 64 + bit;
                let taken = self.take_from(word).or_else(|| {
                    summary.fetch_and(!(1 << bit), Ordering::SeqCst);
                    let late = self.take_from(word)?;
                    self.mark(word);
                    Some(late)
                });
                if taken.is_some() {
                    return taken;
                }
            }
        }
        None
    }

    fn take_from(&self, word: u32) -> Option<u32> {
        let bits = self.words.get(word as usize)?;
        loop {
            let bit = Bits(bits.load(Ordering::SeqCst)).next()?;
            if bits.fetch_and(!(1 << bit), Ordering::SeqCst) & 1 << bit != 0 {
                return Some(word * 64 + bit);
            }
        }
    }
}

/// The numbers of the set bits of a word.
pub struct Bits(pub u64);

impl Iterator for Bits {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        if self.0 == 0 {
            return None;
        }
        let bit = self.0.trailing_zeros();
        self.0 &= self.0 - 1;
        Some(bit)
    }
}

#[cfg(test)]
mod tests;
