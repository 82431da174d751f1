//! Measured cost of a wake-up, and the spin limit that follows from it.
//!
//! The cost depends on the processor, the hypervisor and the day: 6 us, or 35. So it is measured: devices know when the
//! packet that ended a wait arrived, and the worker knows when it ran. The cost is the bounded median of the last
//! measurements. A spin may last twice as long: the other side has mostly gone to sleep too and pays for a wake-up
//! before it can answer, so a spin as long as one wake-up would end just before the answer. Promises: a few wrong
//! measurements (a clock that was set, a processor that other tasks had) change nothing; the limit lies between twice
//! the bounds. Does not do: deciding whether to spin; hits and failures do (`super::Spin`).

use ringway_shm::Duration;

/// Measurements of which the median is taken; odd.
const KEPT: usize = 15;
/// With fewer measurements than this, the cost is a guess.
const KNOWN: usize = 3;
/// Bounds of the cost.
const COST_MIN: Duration = Duration::from_micros(5);
const COST_MAX: Duration = Duration::from_micros(50);
/// Limit until the cost is known: for wake-ups of up to 30 us.
const LIMIT_AT_FIRST: Duration = Duration::from_micros(60);
/// Length of a spin, in wake-ups.
const SPIN_COSTS: u64 = 2;

/// The last measurements.
#[derive(Clone, Debug, Default)]
pub(super) struct WakeupCost {
    nanos: [u64; KEPT],
    /// Number of measurements so far.
    count: usize,
}

impl WakeupCost {
    /// Records a measurement.
    pub(super) fn measured(&mut self, cost: Duration) {
        self.nanos[self.count % KEPT] = cost.as_nanos();
        self.count += 1;
    }

    /// Median cost within the bounds; `None`: not known yet.
    pub(super) fn median(&self) -> Option<Duration> {
        if self.count < KNOWN {
            return None;
        }
        let kept = self.count.min(KEPT);
        let mut sorted = self.nanos;
        sorted[..kept].sort_unstable();
        Some(Duration::from_nanos(sorted[kept / 2]).max(COST_MIN).min(COST_MAX))
    }

    /// Longest useful spin.
    pub(super) fn spin_limit(&self) -> Duration {
        self.median().map_or(LIMIT_AT_FIRST, |cost| cost.times(SPIN_COSTS))
    }
}

#[cfg(test)]
mod tests;
