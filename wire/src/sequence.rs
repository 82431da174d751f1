//! Sequence numbers: arithmetic modulo 2^32 and comparisons that are valid only within a window.
//!
//! Read RFC 9293 §3.4 first. There is no `Ord`: "less than" is not transitive here. Use `before`,
//! `after` and `within`; they are right as long as the two numbers are less than 2^31 apart.

use core::ops::{Add, AddAssign, Sub};

/// A position in a byte stream, modulo 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct SeqNum(pub u32);

impl SeqNum {
    /// Returns true when `self` comes before `other`.
    #[inline]
    pub const fn before(self, other: SeqNum) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }

    /// Returns true when `self` comes after `other`.
    #[inline]
    pub const fn after(self, other: SeqNum) -> bool {
        other.before(self)
    }

    /// Returns true when `self` is `other` or comes before it.
    #[inline]
    pub const fn at_or_before(self, other: SeqNum) -> bool {
        !other.before(self)
    }

    /// Returns true when `self` is `other` or comes after it.
    #[inline]
    pub const fn at_or_after(self, other: SeqNum) -> bool {
        !self.before(other)
    }

    /// Returns true when `start <= self < start + len`.
    #[inline]
    pub const fn within(self, start: SeqNum, len: u32) -> bool {
        self.0.wrapping_sub(start.0) < len
    }

    /// The later of the two.
    #[inline]
    pub const fn latest(self, other: SeqNum) -> SeqNum {
        if self.before(other) { other } else { self }
    }

    /// The earlier of the two.
    #[inline]
    pub const fn earliest(self, other: SeqNum) -> SeqNum {
        if self.before(other) { self } else { other }
    }
}

impl Add<u32> for SeqNum {
    type Output = SeqNum;
    #[inline]
    fn add(self, count: u32) -> SeqNum {
        SeqNum(self.0.wrapping_add(count))
    }
}

impl AddAssign<u32> for SeqNum {
    #[inline]
    fn add_assign(&mut self, count: u32) {
        *self = *self + count;
    }
}

impl Sub<u32> for SeqNum {
    type Output = SeqNum;
    #[inline]
    fn sub(self, count: u32) -> SeqNum {
        SeqNum(self.0.wrapping_sub(count))
    }
}

impl Sub for SeqNum {
    type Output = u32;
    /// Bytes from `earlier` to `self`, modulo 2^32.
    #[inline]
    fn sub(self, earlier: SeqNum) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }
}

#[cfg(test)]
mod tests;
