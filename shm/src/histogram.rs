//! Counts of values in classes whose bounds double, with the sum of the values.
//!
//! Adding costs no search. Does not do: quantiles; readers of the counts do.

/// `N - 1` classes and the sum. The first class ends at 2^FIRST, each further one at twice that of the one before; the last has
/// no end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Histogram<const FIRST: u32, const N: usize> {
    values: [u64; N],
}

impl<const FIRST: u32, const N: usize> Histogram<FIRST, N> {
    /// The number of its classes.
    pub const CLASSES: usize = N - 1;

    /// Counts a value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        let bits = u64::BITS - value.saturating_sub(1).leading_zeros();
        let class = (bits.saturating_sub(FIRST) as usize).min(Self::CLASSES - 1);
        self.values[class] += 1;
        self.values[N - 1] += value;
    }

    /// The counts of all classes, then the sum.
    pub fn values(&self) -> &[u64; N] {
        &self.values
    }
}

impl<const FIRST: u32, const N: usize> Default for Histogram<FIRST, N> {
    fn default() -> Histogram<FIRST, N> {
        Histogram { values: [0; N] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_ends_with_its_bound() {
        // Up to 4, up to 8, more.
        let mut histogram = Histogram::<2, 4>::default();
        for value in [0, 1, 4, 5, 8, 9, 1 << 40] {
            histogram.add(value);
        }
        assert_eq!(histogram.values(), &[3, 2, 2, 27 + (1 << 40)]);
    }
}
