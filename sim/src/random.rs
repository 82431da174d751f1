//! Randomness from a seed: SplitMix64. Good for simulation, not for secrets.

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Makes the stream of `seed`.
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// Draws any number.
    pub fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Draws a number from `low` to `high`, both included.
    ///
    /// # Panics
    /// When `low` is above `high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "an empty range");
        match (high - low).checked_add(1) {
            Some(width) => low + self.number() % width,
            None => self.number(),
        }
    }

    /// Returns true once in `times`.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.number().is_multiple_of(times)
    }

    /// Draws a number up to `high` with an even spread of magnitudes: small ones are as likely as large ones.
    pub fn magnitude(&mut self, high: u64) -> u64 {
        let bits = self.between(0, u64::from(u64::BITS - high.leading_zeros()));
        let limit = 1u64.checked_shl(bits as u32).map_or(u64::MAX, |power| power - 1);
        self.between(0, limit.min(high))
    }
}
