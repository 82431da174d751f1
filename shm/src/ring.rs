//! A ring of fixed entries with one producer at a time and one consumer, and the dirty bitmap that
//! tells the consumer which of many rings to look at.
//!
//! The cursors count for ever (wrapping) and live in shared memory; each side trusts only its own
//! copy. The consumer clears the bitmap before it looks into a ring; the producer sets the bit
//! after it has published: an entry is found now, or its bit is still set.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// The place for the next entry, when one of `capacity` is free.
#[inline]
pub fn vacancy(head: &AtomicU32, tail: u32, capacity: u32) -> Option<u32> {
    let used = tail.wrapping_sub(head.load(Ordering::Acquire));
    (used < capacity).then_some(tail % capacity)
}

/// Makes the entry that was written at the vacancy visible.
#[inline]
pub fn publish(tail: &AtomicU32, old: u32) {
    tail.store(old.wrapping_add(1), Ordering::Release);
}

/// How many entries wait behind the consumer's own `head`; `None` when the producer claims more
/// than `capacity`.
#[inline]
pub fn waiting(tail: &AtomicU32, head: u32, capacity: u32) -> Option<u32> {
    let count = tail.load(Ordering::Acquire).wrapping_sub(head);
    (count <= capacity).then_some(count)
}

/// Marks ring `number` (of 64 in `word`) as having something.
#[inline]
pub fn mark(word: &AtomicU64, number: u32) {
    word.fetch_or(1 << number, Ordering::SeqCst);
}

/// Takes all marks of a word.
#[inline]
pub fn take_marks(word: &AtomicU64) -> u64 {
    if word.load(Ordering::Relaxed) == 0 {
        return 0;
    }
    word.swap(0, Ordering::SeqCst)
}

#[cfg(test)]
mod tests;
