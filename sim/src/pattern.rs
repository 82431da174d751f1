//! The bytes of a stream: any range of it can be written or checked without the bytes before it.

use std::sync::LazyLock;

use crate::random::Random;

/// A prime, so that no power-of-two displacement maps the table onto itself.
const TABLE_BYTES: usize = 1_048_573;

/// Shared by all seeds: a run takes less time than making a table of its own.
static TABLE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut random = Random::new(0);
    (0..TABLE_BYTES).map(|_| random.number() as u8).collect()
});

/// An endless stream of bytes: a random table, repeated, entered at the stream's own offset.
#[derive(Clone, Debug)]
pub struct Pattern {
    table: &'static [u8],
    seed: u64,
    start: usize,
}

impl Pattern {
    /// Returns the first stream of `seed`.
    pub fn new(seed: u64) -> Pattern {
        Pattern { table: &TABLE, seed, start: 0 }.stream(0)
    }

    /// Returns another stream of the same seed.
    pub fn stream(&self, number: u64) -> Pattern {
        let number = Random::new(self.seed ^ Random::new(number).number()).number();
        Pattern { start: (number % TABLE_BYTES as u64) as usize, ..*self }
    }

    /// Writes the bytes from `offset` on.
    pub fn fill(&self, offset: u64, bytes: &mut [u8]) {
        let mut at = self.place(offset);
        let mut rest = bytes;
        while !rest.is_empty() {
            let count = rest.len().min(TABLE_BYTES - at);
            let (now, later) = rest.split_at_mut(count);
            now.copy_from_slice(&self.table[at..at + count]);
            rest = later;
            at = 0;
        }
    }

    /// Returns how many of `bytes` equal the stream from `offset` on, up to the first difference.
    pub fn matching(&self, offset: u64, bytes: &[u8]) -> usize {
        let mut at = self.place(offset);
        let mut done = 0;
        while done < bytes.len() {
            let count = (bytes.len() - done).min(TABLE_BYTES - at);
            let (is, should) = (&bytes[done..done + count], &self.table[at..at + count]);
            if is != should {
                return done + is.iter().zip(should).take_while(|(a, b)| a == b).count();
            }
            done += count;
            at = 0;
        }
        done
    }

    fn place(&self, offset: u64) -> usize {
        ((self.start as u64 + offset) % TABLE_BYTES as u64) as usize
    }
}

#[cfg(test)]
mod tests;
