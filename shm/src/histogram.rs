//! Counts of values in classes whose bounds double, with the sum of the values.
//!
//! Adding costs no search. Does not do: quantiles; readers of the counts do.

/// `N - 1` classes and the sum. The first class ends at 2^FIRST, each further one at twice that of the one before; the last has
/// no end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Histogram<const FIRST: u32, const N: usize> {
    /// By the bits that the value less one has: place n counts those up to 2^n.
    places: [u64; PLACES],
    sum: u64,
}

const PLACES: usize = u64::BITS as usize;

impl<const FIRST: u32, const N: usize> Histogram<FIRST, N> {
    /// The number of its classes.
    pub const CLASSES: usize = N - 1;

    /// Counts a value below 2^63.
    #[inline]
    pub fn add(&mut self, value: u64) {
        // Twice the value less one, and one: a logarithm that needs no look at zero.
        let bits = ((value << 1).saturating_sub(1) | 1).ilog2();
        self.places[bits as usize] += 1;
        self.sum += value;
    }

    /// The counts of all classes, then the sum.
    pub fn values(&self) -> [u64; N] {
        let mut values = [0; N];
        for (bits, count) in self.places.iter().enumerate() {
            values[bits.saturating_sub(FIRST as usize).min(Self::CLASSES - 1)] += count;
        }
        values[N - 1] = self.sum;
        values
    }
}

impl<const FIRST: u32, const N: usize> Default for Histogram<FIRST, N> {
    fn default() -> Histogram<FIRST, N> {
        Histogram { places: [0; PLACES], sum: 0 }
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
        assert_eq!(histogram.values(), [3, 2, 2, 27 + (1 << 40)]);
    }
}
