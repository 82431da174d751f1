//! A loop of known cycles, timed on a core: gives its frequency, and shows other load on it.

use std::hint::black_box;
use std::io;
use std::time::Instant;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};

/// Steps of the loop; about a tenth of a millisecond.
const STEPS: u64 = 48_000;
/// Each step depends on the one before it: a shift and an exclusive or of one cycle each, a multiplication of three. A
/// compiler cannot merge several steps, as it can for a linear generator.
const CYCLES_PER_STEP: f64 = 5.0;
/// Runs of the loop per calibration; the fastest is the least disturbed, the median shows the disturbance.
const TIMES: usize = 9;

/// Result of the loop on one core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// The fastest run, nanoseconds.
    pub fastest_ns: f64,
    /// The median, nanoseconds.
    pub median_ns: f64,
}

impl Calibration {
    /// Runs the loop on a core, which this process must be allowed to use.
    ///
    /// # Errors
    /// The process is not allowed to use it.
    ///
    /// # Blocking
    /// About a millisecond.
    pub fn of_core(core: usize) -> io::Result<Calibration> {
        let before = sched_getaffinity(None)?;
        let mut only = CpuSet::new();
        only.set(core);
        sched_setaffinity(None, &only)?;
        let mut times: Vec<f64> = (0..TIMES).map(|_| run()).collect();
        sched_setaffinity(None, &before)?;
        times.sort_by(f64::total_cmp);
        Ok(Calibration { fastest_ns: times[0], median_ns: times[TIMES / 2] })
    }

    /// Cycles per nanosecond of the fastest run.
    pub fn frequency_ghz(&self) -> f64 {
        STEPS as f64 * CYCLES_PER_STEP / self.fastest_ns
    }
}

fn run() -> f64 {
    let begun = Instant::now();
    let mut value = black_box(1_u64);
    for _ in 0..STEPS {
        value = (value ^ (value >> 29)).wrapping_mul(0x5851_f42d_4c95_7f2d);
    }
    black_box(value);
    begun.elapsed().as_nanos() as f64
}

#[cfg(test)]
mod tests;
