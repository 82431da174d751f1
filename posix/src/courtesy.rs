//! Giving way before sleeping: a thread that has nothing to do lets others have its processor a few times
//! and looks again, before it asks the kernel to wait.
//!
//! Where the service's worker shares the processor, it runs at once and has often brought something when
//! the call returns: no bell, no sleep, no wake-up on either side. Where the thread is alone, this is a
//! short spin. Whether there is anything to wait for the worker says: while it sleeps, because what the wire brings is not to be
//! foreseen, or because its spin has ended, nobody gives way for it; when it goes to sleep meanwhile, giving way has brought
//! nothing but a switch to it and back, where a sleep would have been one switch. How long it may be the worker says too, which
//! measures what a wake-up costs; it is bounded here, because the word that says it is shared. Promises: bounded by time and by
//! the number of looks; when fewer than half of the attempts bring something in time, the next waits sleep at once, twice as
//! many after every further failure. Does not do: arming; that comes after it, before the kernel's wait.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use ringway_shm::Duration;

use crate::channel::{Channel, Context};
use crate::fallback::Kernel;

/// How long a thread gives way at most, whatever it is told.
const LIMIT_MAX: Duration = Duration::from_micros(100);
/// What is found after so many times the limit was found late: a stranger had the processor for a slice, and a sleeper
/// would have been woken before its end.
const LATE: u64 = 4;
/// How often at most, whatever the clock says.
const LOOKS_MAX: u32 = 512;
/// Attempts over which giving way is judged.
const JUDGED: u32 = 16;
/// Waits that sleep at once after a bad judgement, and after many.
const SKIPPED: u32 = 64;
const SKIPPED_MAX: u32 = 4096;

/// What a thread that gives way sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// What it waits for.
    Found,
    /// Nothing yet.
    Nothing,
    /// Nothing, and the service sleeps: who wakes it will be some time.
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

/// Whether giving way pays in this process. Threads share it without a lock: a count that is lost in a
/// race only judges a little later.
#[derive(Debug, Default)]
pub(crate) struct Courtesy {
    judged: AtomicU32,
    hits: AtomicU32,
    skip: AtomicU32,
    /// How many waits were skipped after the last judgement; 0: it was good.
    penalty: AtomicU32,
    /// sched_yield(2) may be forbidden here.
    forbidden: AtomicBool,
}

impl Courtesy {
    /// Gives way until `look` finds something or says that there is nothing to wait for, or `limit` is reached (zero: not at
    /// all). Says whether it has found something.
    pub(crate) fn give_way(&self, kernel: &dyn Kernel, limit: Duration, mut look: impl FnMut() -> Look) -> bool {
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
            kernel.give_way();
            seen = look();
            spent = kernel.now().since(start);
        }
        self.judge(seen == Look::Found && spent < limit.times(LATE));
        seen == Look::Found
    }

    /// Gives way once, with nothing to wait for (`limit` zero: not at all). It has paid unless somebody else had the processor for
    /// a slice.
    pub(crate) fn give_way_once(&self, kernel: &dyn Kernel, limit: Duration) {
        if self.may_give_way(limit) {
            let start = kernel.now();
            kernel.give_way();
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

    /// From now on every wait sleeps at once: who filters system calls kills for one that nobody expects.
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
