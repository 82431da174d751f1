//! Progress on standard error during a measurement: the present step, the elapsed and the remaining time.
//!
//! Promises: the remaining time is estimated from the finished steps; before the first, from a guess. Does not do:
//! anything with `--quiet`.

use std::io::{self, Write};
use std::time::{Duration, Instant};

/// Progress of a run of steps that take about the same time.
#[derive(Debug)]
pub struct Progress {
    name: String,
    is_quiet: bool,
    /// Time of a step, until one has finished.
    guess: Duration,
    begun: Instant,
    done: u32,
    left: u32,
}

impl Progress {
    /// Creates a progress display; each line begins with `name`.
    pub fn new(name: &str, is_quiet: bool, guess: Duration) -> Progress {
        Progress { name: name.to_string(), is_quiet, guess, begun: Instant::now(), done: 0, left: 0 }
    }

    /// Starts counting time and steps, of which `steps` are expected.
    pub fn begin(&mut self, steps: u32) {
        (self.begun, self.done, self.left) = (Instant::now(), 0, steps);
    }

    /// Counts a finished step.
    pub fn step(&mut self) {
        self.done += 1;
        self.left = self.left.saturating_sub(1);
    }

    /// Adds expected steps.
    pub fn expect(&mut self, more: u32) {
        self.left += more;
    }

    /// Removes expected steps.
    pub fn forget(&mut self, fewer: u32) {
        self.left = self.left.saturating_sub(fewer);
    }

    /// Prints a line.
    pub fn say(&self, words: &str) {
        if !self.is_quiet {
            // A closed standard error is no error.
            writeln!(io::stderr(), "ringway bench {}: {words}", self.name).unwrap_or_default();
        }
    }

    /// Prints the step that begins, and the times.
    pub fn say_step(&self, words: &str) {
        let elapsed = self.begun.elapsed();
        let left = self.remaining(elapsed).as_secs_f64().ceil();
        self.say(&format!("{words}; {} s so far, about {left} s left", elapsed.as_secs()));
    }

    /// Remaining time after `elapsed`.
    fn remaining(&self, elapsed: Duration) -> Duration {
        let each = elapsed.checked_div(self.done).unwrap_or(self.guess);
        each.saturating_mul(self.left)
    }
}

#[cfg(test)]
mod tests;
