//! At which worker a connection is opened: they take turns, and a busy one gives most of its turns to the least busy.
//!
//! So the connections of a program that come after a long flow are served elsewhere, and those of all workers' equals are
//! spread evenly. Not every turn is given: what many programs hear at the same time would make them all go to the same worker
//! at once.

/// Who is busy for a smaller part of his time, thousandths, keeps his turns.
const BUSY: u32 = 300;
/// Who is busier than the least busy one by less than this part of what he is keeps his turns.
const DIFFERENCE: u32 = 3;
/// One in so many turns is kept.
const KEPT: u32 = 4;

/// The worker of turn number `turn`, of `workers` whose business is told in thousandths.
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
