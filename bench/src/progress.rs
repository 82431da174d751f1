//! What is said on standard error during a measurement: what is done now, for how long already, for how long still.
//!
//! Promises: the remaining time is by what the steps have taken so far; before the first, by a guess. Does not do: anything
//! when the user wants quiet.

use std::io::{self, Write};
use std::time::{Duration, Instant};

/// Of a run of steps that take about the same time.
#[derive(Debug)]
pub struct Progress {
    name: String,
    is_quiet: bool,
    /// What a step takes, before one was seen.
    guess: Duration,
    begun: Instant,
    done: u32,
    left: u32,
}

impl Progress {
    /// `name` stands before all that is said.
    pub fn new(name: &str, is_quiet: bool, guess: Duration) -> Progress {
        Progress { name: name.to_string(), is_quiet, guess, begun: Instant::now(), done: 0, left: 0 }
    }

    /// Time and steps count from now on, of which there will be so many.
    pub fn begin(&mut self, steps: u32) {
        (self.begun, self.done, self.left) = (Instant::now(), 0, steps);
    }

    /// A step is done.
    pub fn step(&mut self) {
        self.done += 1;
        self.left = self.left.saturating_sub(1);
    }

    /// There will be more steps than was known.
    pub fn expect(&mut self, more: u32) {
        self.left += more;
    }

    /// There will be fewer.
    pub fn forget(&mut self, fewer: u32) {
        self.left = self.left.saturating_sub(fewer);
    }

    /// Says something.
    pub fn say(&self, words: &str) {
        if !self.is_quiet {
            // Progress is a courtesy: nobody may be listening.
            writeln!(io::stderr(), "ringway bench {}: {words}", self.name).unwrap_or_default();
        }
    }

    /// Says which step begins, and the times.
    pub fn say_step(&self, words: &str) {
        let elapsed = self.begun.elapsed();
        let left = self.remaining(elapsed).as_secs_f64().ceil();
        self.say(&format!("{words}; {} s so far, about {left} s left", elapsed.as_secs()));
    }

    /// What remains when so much has passed.
    fn remaining(&self, elapsed: Duration) -> Duration {
        let each = elapsed.checked_div(self.done).unwrap_or(self.guess);
        each.saturating_mul(self.left)
    }
}

#[cfg(test)]
mod tests;
