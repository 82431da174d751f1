//! Lists of numbered nodes in shared memory: a hand-over stack (many push, one takes all) and a
//! free list (many push, many pop).
//!
//! A node is named by its index; its link lives wherever the caller says (`link(index)`). Words
//! hold index + 1, so that zeroed memory is an empty list. The hand-over stack cannot suffer from
//! ABA, since single nodes are never popped; the free list carries a tag beside the index. Nothing that
//! is read is trusted here: indices are returned raw and the caller checks them against its own
//! limits, and every loop has a bound.
//!
//! ```text
//!   producer: first -> .. -> last -> old head        consumer: head.swap(0), walk, reverse
//! ```

use crate::sync::{AtomicU32, AtomicU64, Ordering, relax};

/// The word that stands for no node.
pub const EMPTY: u32 = 0;

/// The word that names node `index`.
#[inline]
pub const fn word(index: u32) -> u32 {
    index + 1
}

/// The node that `word` names, when there is one below `limit`.
#[inline]
pub const fn node(word: u32, limit: u32) -> Option<u32> {
    if word == EMPTY || word > limit { None } else { Some(word - 1) }
}

/// Pushes the chain that leads from `first` to `last` (already linked) in front of what is there.
/// `link(last)` is written here. Says whether the stack was empty. Gives up, with `None`, when
/// `attempts` others came between.
#[inline]
pub fn push_chain(head: &AtomicU32, first: u32, last_link: &AtomicU32, attempts: u32) -> Option<bool> {
    let mut seen = head.load(Ordering::Relaxed);
    for _ in 0..attempts {
        last_link.store(seen, Ordering::Relaxed);
        // Release: the taker of the chain sees its links and payload.
        match head.compare_exchange_weak(seen, word(first), Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return Some(seen == EMPTY),
            Err(now) => seen = now,
        }
        relax();
    }
    None
}

/// Takes everything: the word of the newest node.
#[inline]
pub fn take_all(head: &AtomicU32) -> u32 {
    if head.load(Ordering::Relaxed) == EMPTY {
        return EMPTY;
    }
    head.swap(EMPTY, Ordering::AcqRel)
}

/// A free list with a tag against ABA: `tag << 32 | word`.
#[inline]
pub fn push_free(head: &AtomicU64, first: u32, last_link: &AtomicU32, attempts: u32) -> bool {
    let mut seen = head.load(Ordering::Relaxed);
    for _ in 0..attempts {
        last_link.store(seen as u32, Ordering::Relaxed);
        let next = next_tag(seen) | word(first) as u64;
        match head.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(now) => seen = now,
        }
        relax();
    }
    false
}

/// Pops up to `count` nodes as a chain that is linked as it was in the list: the first node and how
/// many. `limit` bounds the indices; an entry past it ends the chain (and drops the rest, which
/// only a broken application can cause).
#[inline]
pub fn pop_free<'a>(
    head: &AtomicU64,
    count: u32,
    limit: u32,
    link: impl Fn(u32) -> &'a AtomicU32,
    attempts: u32,
) -> Option<(u32, u32)> {
    let mut seen = head.load(Ordering::Acquire);
    for _ in 0..attempts {
        let first = node(seen as u32, limit)?;
        let mut taken = 1;
        let mut rest = link(first).load(Ordering::Relaxed);
        while taken < count {
            let Some(next) = node(rest, limit) else { break };
            rest = link(next).load(Ordering::Relaxed);
            taken += 1;
        }
        // The tag proves that nothing moved since `seen` was read, so the walk above was true.
        match head.compare_exchange_weak(seen, next_tag(seen) | rest as u64, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return Some((first, taken)),
            Err(now) => seen = now,
        }
        relax();
    }
    None
}

#[inline]
fn next_tag(seen: u64) -> u64 {
    ((seen >> 32).wrapping_add(1) & 0xFFFF_FFFF) << 32
}

#[cfg(test)]
mod tests;
