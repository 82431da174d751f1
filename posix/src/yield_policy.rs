//! Yielding before sleeping: an idle thread yields its processor a few times and looks again, before it asks the kernel
//! to wait.
//!
//! If the service's worker shares the processor, it runs at once and has often brought something when the call returns:
//! no wake descriptor, no sleep, no wake-up on either side. If the thread is alone, this is a short spin. The worker tells whether
//! yielding can help: while it sleeps, because arrivals are unpredictable or its spin has ended, no thread yields for
//! it; if it goes to sleep meanwhile, yielding has cost a switch to it and back, where a sleep would have been one
//! switch. The worker, which measures the cost of a wake-up, also sets the time limit; it is bounded here, because it
//! is in shared memory. Promises: bounded by time and by the number of looks; if fewer than half of the attempts
//! succeed in time, the next waits sleep at once, twice as many after every further failure. Does not do: arming; that
//! comes after it, before the kernel's wait.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use ringway_shm::Duration;

use crate::channel::{Channel, Context};
use crate::fallback::Kernel;

/// Longest time that a thread yields, whatever the limit.
const LIMIT_MAX: Duration = Duration::from_micros(100);
/// An event found after this many times the limit was found late: another task had the processor for a slice, and a
/// sleeper would have been woken before its end.
const LATE: u64 = 4;
/// Maximum number of looks, whatever the clock shows.
const LOOKS_MAX: u32 = 512;
/// Number of attempts in one judgment.
const JUDGED: u32 = 16;
/// Waits that sleep at once after one bad judgment, and after many.
const SKIPPED: u32 = 64;
const SKIPPED_MAX: u32 = 4096;

/// Result of a look between yields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// An event.
    Found,
    /// Nothing yet.
    Nothing,
    /// Nothing, and the service sleeps: its wake-up takes some time.
    Pointless,
}

/// Looks for events of `context`.
pub(crate) fn look_at(channel: &dyn Channel, context: Context) -> Look {
    match channel.has_event(context) {
        true => Look::Found,
        false if channel.sleeps() => Look::Pointless,
        false => Look::Nothing,
    }
}

/// Yield policy of the process. Threads share it without a lock: a count lost in a race only delays the judgment a
/// little.
#[derive(Debug, Default)]
pub(crate) struct YieldPolicy {
    judged: AtomicU32,
    hits: AtomicU32,
    skip: AtomicU32,
    /// Number of waits skipped after the last judgment; 0: it was good.
    penalty: AtomicU32,
    /// sched_yield(2) may be forbidden here.
    forbidden: AtomicBool,
}

impl YieldPolicy {
    /// Yields until `look` finds an event or reports that yielding is pointless, or `limit` is reached (zero: never
    /// yields). Returns true if it found an event.
    pub(crate) fn yield_now(&self, kernel: &dyn Kernel, limit: Duration, mut look: impl FnMut() -> Look) -> bool {
        let limit = limit.min(LIMIT_MAX);
        if !self.may_give_way(limit) {
            return false;
        }
        let start = kernel.now();
        let (mut seen, mut spent) = (look(), Duration::ZERO);
        if seen == Look::Pointless {
            return false;
        }
        for _ in 0..LOOKS_MAX {
            if seen != Look::Nothing || spent >= limit {
                break;
            }
            kernel.yield_now();
            seen = look();
            spent = kernel.now().since(start);
        }
        self.judge(seen == Look::Found && spent < limit.times(LATE));
        seen == Look::Found
    }

    /// Yields once, without waiting for an event (`limit` zero: not at all). It has paid unless another task had the
    /// processor for a slice.
    pub(crate) fn give_way_once(&self, kernel: &dyn Kernel, limit: Duration) {
        if self.may_give_way(limit) {
            let start = kernel.now();
            kernel.yield_now();
            self.judge(kernel.now().since(start) < LIMIT_MAX.times(LATE));
        }
    }

    fn may_give_way(&self, limit: Duration) -> bool {
        if limit == Duration::ZERO || self.forbidden.load(Ordering::Relaxed) {
            return false;
        }
        let skip = self.skip.load(Ordering::Relaxed);
        if skip > 0 {
            self.skip.store(skip - 1, Ordering::Relaxed);
        }
        skip == 0
    }

    /// Makes every wait sleep at once, because a filter of system calls may kill for an unexpected one.
    pub(crate) fn forbid(&self) {
        self.forbidden.store(true, Ordering::Relaxed);
    }

    fn judge(&self, hit: bool) {
        let hits = self.hits.load(Ordering::Relaxed) + u32::from(hit);
        let judged = self.judged.load(Ordering::Relaxed) + 1;
        let over = judged >= JUDGED;
        if over {
            let penalty = self.penalty.load(Ordering::Relaxed) * 2;
            let penalty = if hits * 2 < judged { penalty.clamp(SKIPPED, SKIPPED_MAX) } else { 0 };
            self.penalty.store(penalty, Ordering::Relaxed);
            self.skip.store(penalty, Ordering::Relaxed);
        }
        self.hits.store(if over { 0 } else { hits }, Ordering::Relaxed);
        self.judged.store(if over { 0 } else { judged }, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
