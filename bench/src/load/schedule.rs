//! The intended times of an open loop's requests.
//!
//! The times depend only on a seed and a rate. A late client sends at once and still counts from the
//! intended time, so that a slow server's delays are not hidden (coordinated omission).

use std::time::Duration;

use super::order::Pace;
use crate::random::Random;

/// Endless sequence of intended times, from zero.
#[derive(Clone, Debug)]
pub struct Schedule {
    mean_ns: f64,
    is_random: bool,
    random: Random,
    at_ns: f64,
}

impl Schedule {
    /// Creates the schedule of an open pace; `None` for the others.
    pub fn of(pace: Pace, seed: u64) -> Option<Schedule> {
        let (rate, is_random) = match pace {
            Pace::Poisson(rate) => (rate, true),
            Pace::Fixed(rate) => (rate, false),
            Pace::Closed | Pace::Short(_) | Pace::Log => return None,
        };
        let mut schedule = Schedule { mean_ns: 1e9 / rate.max(1e-3), is_random, random: Random(seed), at_ns: 0.0 };
        schedule.step();
        Some(schedule)
    }

    /// The next intended time, after the beginning.
    pub fn next(&self) -> Duration {
        Duration::from_nanos(self.at_ns as u64)
    }

    /// Advances to the following time.
    pub fn step(&mut self) {
        // The exponential distribution by inversion.
        let uniform = self.random.part();
        self.at_ns += if self.is_random { -uniform.ln() * self.mean_ns } else { self.mean_ns };
    }
}

#[cfg(test)]
mod tests;
