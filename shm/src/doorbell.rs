//! The need-wake word: a sleeper says that it is about to sleep, a ringer asks whether a wake-up is
//! due. No wake-up is lost and at most one is sent per sleep.
//!
//! ```text
//!   sleeper: arm (word = 1, fence) .. look for work .. none: sleep     found: disarm, go on
//!   ringer:  publish work .. fence .. word == 1 and I change it to 0: write the eventfd
//! ```
//! One of the two fences comes first: either the sleeper sees the work or the ringer sees the word.

use crate::sync::{AtomicU32, Ordering, fence};

/// Says that the caller will sleep unless it finds work now. Look for work after this call.
#[inline]
pub fn arm(word: &AtomicU32) {
    word.store(1, Ordering::Relaxed);
    fence(Ordering::SeqCst);
}

/// Takes the announcement back.
#[inline]
pub fn disarm(word: &AtomicU32) {
    word.store(0, Ordering::Relaxed);
}

/// Returns true if the sleeper has announced its sleep, and no ring came since. A hint: it may be awake by now.
#[inline]
pub fn is_armed(word: &AtomicU32) -> bool {
    word.load(Ordering::Relaxed) == 1
}

/// Whether the sleeper must be woken for work that was published before this call. The caller that
/// gets `true` owes the wake-up.
#[inline]
pub fn must_ring(word: &AtomicU32) -> bool {
    fence(Ordering::SeqCst);
    word.load(Ordering::Relaxed) == 1 && word.swap(0, Ordering::AcqRel) == 1
}

#[cfg(test)]
mod tests;
