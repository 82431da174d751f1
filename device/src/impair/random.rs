//! A small seeded generator (splitmix64): same seed, same numbers. Not for secrets.

pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// An even choice below `bound`; zero when `bound` is zero.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns true if an event of this probability happens. Draws a number only when it could.
    pub(super) fn chance(&mut self, parts_per_million: u32) -> bool {
        parts_per_million != 0 && self.below(1_000_000) < u64::from(parts_per_million)
    }
}
