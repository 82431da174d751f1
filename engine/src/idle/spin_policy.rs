//! Judges whether spinning has paid for idle times of one kind.
//!
//! The criterion is success in time: unless three fifths of 64 spins find work, the worker sleeps through the next 64
//! idle times of that kind, and through twice as many after every further failure. For the wire, success must also be
//! predictable. A peer that answers what it was sent does so after about the same time, alone or as one of many in
//! step; a spin then buys its latency for little. A long enough spin also finds requests that come at random, but each
//! for the processor time of the whole gap. What arrives during a sleep is served together: there sleeping costs half
//! (`ringway bench cpuload`).

use ringway_shm::Duration;

/// Number of spins in one judgment.
pub(super) const JUDGED: u32 = 64;
/// Idle times to sleep through after the first failure, and after many.
pub(super) const SKIPPED: u32 = 64;
pub(super) const SKIPPED_MAX: u32 = 4096;
/// The typical time moves by this fraction of itself towards each observation, and so settles at the median.
const STEP: u64 = 8;

/// See the module documentation.
#[derive(Clone, Copy)]
pub(super) struct SpinPolicy {
    judged: u32,
    hits: u32,
    /// Idle times still to be slept through.
    skip: u32,
    /// Value of `skip` after the next failure.
    penalty: u32,
    /// Median time until work is found; zero: not known.
    typical_nanos: u64,
}

impl SpinPolicy {
    pub(super) const fn new() -> SpinPolicy {
        SpinPolicy { judged: 0, hits: 0, skip: 0, penalty: SKIPPED, typical_nanos: 0 }
    }

    /// Returns true if the worker must sleep through the next idle time.
    pub(super) fn skips(&self) -> bool {
        self.skip > 0
    }

    /// Counts an idle time that was slept through.
    pub(super) fn skipped(&mut self) {
        self.skip -= 1;
    }

    /// Judges a spin by whether it found work in time.
    pub(super) fn record(&mut self, hit: bool) {
        self.judged += 1;
        self.hits += u32::from(hit);
        if self.judged < JUDGED {
            return;
        }
        let fresh = SpinPolicy { typical_nanos: self.typical_nanos, ..SpinPolicy::new() };
        *self = if self.hits * 5 >= JUDGED * 3 {
            fresh
        } else {
            SpinPolicy { skip: self.penalty, penalty: (self.penalty * 2).min(SKIPPED_MAX), ..fresh }
        };
    }

    /// Returns true if work found after `gap` came at the expected time: less than twice as soon or as late as usual.
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
