//! Choice of the worker for a connection: round-robin, but a busy worker passes most of its share to the least busy
//! one.
//!
//! So connections that a program opens after a long flow are served elsewhere, and connections among equally busy
//! workers are spread evenly. A busy worker keeps a part of its share: many programs read the same load at the same
//! time and would otherwise all choose the same worker.

/// A worker below this load, in thousandths, keeps its share.
const BUSY: u32 = 300;
/// Keep the round-robin choice unless it is more than a third busier than the least busy worker.
const DIFFERENCE: u32 = 3;
/// A busy worker keeps one in this many of its connections.
const KEPT: u32 = 4;

/// The worker of connection number `turn`, of `workers` with loads in thousandths.
pub(super) fn choose(turn: u32, workers: u32, busy: impl Fn(u32) -> u32) -> u32 {
    let next = turn % workers;
    let own = busy(next);
    if own < BUSY || (turn / workers).is_multiple_of(KEPT) {
        return next;
    }
    let least = (0..workers).min_by_key(|&worker| busy(worker)).unwrap_or(next);
    if own.saturating_sub(busy(least)) * DIFFERENCE > own { least } else { next }
}

#[cfg(test)]
mod tests;
