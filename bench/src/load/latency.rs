//! The latencies of a run: from a nanosecond to minutes with three digits, in fixed memory.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::order::Outcome;

/// Longest recorded latency, nanoseconds; longer ones count as this.
const LONGEST_NS: u64 = 600_000_000_000;

/// Histogram of latencies.
#[derive(Debug)]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies(Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("the bounds are in order and three digits are allowed"))
    }
}

impl Latencies {
    /// Counts one reply.
    pub fn add(&mut self, taken: Duration) {
        self.0.saturating_record(u64::try_from(taken.as_nanos()).unwrap_or(u64::MAX).max(1));
    }

    /// Removes all latencies.
    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// Number of counted replies.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Latency not exceeded by `percent` of the replies, microseconds.
    pub fn percentile_us(&self, percent: f64) -> f64 {
        self.0.value_at_percentile(percent) as f64 / 1e3
    }

    /// Counts the replies of another run, as it has told them.
    pub fn add_all(&mut self, told: &[(u64, u64)]) {
        told.iter().for_each(|&(ns, count)| self.0.saturating_record_n(ns.max(1), count));
    }

    /// Writes all of them, quantiles, mean and maximum into `outcome`.
    pub fn tell(&self, outcome: &mut Outcome) {
        outcome.p50_us = self.percentile_us(50.0);
        outcome.p99_us = self.percentile_us(99.0);
        outcome.p999_us = self.percentile_us(99.9);
        outcome.mean_us = self.0.mean() / 1e3;
        outcome.max_us = self.0.max() as f64 / 1e3;
        outcome.latencies = self.0.iter_recorded().map(|at| (at.value_iterated_to(), at.count_since_last_iteration())).collect();
    }
}

#[cfg(test)]
mod tests;
