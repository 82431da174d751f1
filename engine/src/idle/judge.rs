//! Whether spinning has paid for idle times of one kind.
//!
//! What counts is success in time: of 64 spins three fifths must find work, or the next 64 idle times of that kind are slept through
//! from their start, and twice as many after every further failure. For the wire, success is also to be foreseen: a peer that
//! answers what it was sent does so after much the same time, be it one or one of many in step, and then a spin buys its latency
//! for little. Requests that come when they come are found by a long enough spin too, but each for the processor time of the whole
//! gap, and what waits while the worker sleeps is served together: there sleeping costs half (`ringway bench cpuload`).

use ringway_shm::Duration;

/// Spins over which spinning is judged.
pub(super) const JUDGED: u32 = 64;
/// Idle times that are slept through after the first failure, and after many.
pub(super) const SKIPPED: u32 = 64;
pub(super) const SKIPPED_MAX: u32 = 4096;
/// The typical time moves by this part of itself towards each one that was seen: it ends where half are shorter.
const STEP: u64 = 8;

/// See the module's text.
#[derive(Clone, Copy)]
pub(super) struct Judge {
    judged: u32,
    hits: u32,
    /// Idle times that are still to be slept through.
    skip: u32,
    /// How many that will be after the next failure.
    penalty: u32,
    /// After what time work is found, the median; zero: not known.
    typical_nanos: u64,
}

impl Judge {
    pub(super) const fn new() -> Judge {
        Judge { judged: 0, hits: 0, skip: 0, penalty: SKIPPED, typical_nanos: 0 }
    }

    /// Whether the next idle time is slept through from its start.
    pub(super) fn skips(&self) -> bool {
        self.skip > 0
    }

    /// One that was is over.
    pub(super) fn skipped(&mut self) {
        self.skip -= 1;
    }

    /// A spin is over: it has found work in time, or not.
    pub(super) fn judge(&mut self, hit: bool) {
        self.judged += 1;
        self.hits += u32::from(hit);
        if self.judged < JUDGED {
            return;
        }
        let fresh = Judge { typical_nanos: self.typical_nanos, ..Judge::new() };
        *self = if self.hits * 5 >= JUDGED * 3 {
            fresh
        } else {
            Judge { skip: self.penalty, penalty: (self.penalty * 2).min(SKIPPED_MAX), ..fresh }
        };
    }

    /// Whether work that was found after `gap` came when it was to be expected: neither twice as soon nor twice as late as
    /// usual.
    pub(super) fn is_regular(&mut self, gap: Duration) -> bool {
        let gap = gap.as_nanos();
        if self.typical_nanos == 0 {
            self.typical_nanos = gap.max(STEP);
        }
        let typical = self.typical_nanos;
        let step = typical / STEP;
        self.typical_nanos = if gap > typical { typical + step } else { (typical - step).max(STEP) };
        (typical / 2..=typical * 2).contains(&gap)
    }
}
