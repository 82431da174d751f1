//! Progress on standard error during a measurement: the present step, the elapsed and the remaining time.
//!
//! On a terminal it is a bar, elsewhere a line for each step. Promises: the remaining time is estimated from the finished steps; before
//! the first, from a guess; rows that are printed meanwhile stand above the bar. Does not do: anything with `--quiet`.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Progress of a run of steps that take about the same time.
#[derive(Debug)]
pub struct Progress {
    name: String,
    form: Form,
    /// Time of a step, until one has finished.
    guess: Duration,
    begun: Instant,
    done: u32,
    left: u32,
}

#[derive(Debug)]
enum Form {
    Quiet,
    Lines,
    Bar(ProgressBar),
}

/// What the bar looks like: the scenario, the steps, and the words of the present one.
const STYLE: &str = "{prefix} {bar:24} {pos}/{len} {wide_msg}";

impl Progress {
    /// Creates a progress display; each line begins with `name`.
    pub fn new(name: &str, is_quiet: bool, guess: Duration) -> Progress {
        let form = match (is_quiet, io::stderr().is_terminal()) {
            (true, _) => Form::Quiet,
            (false, false) => Form::Lines,
            (false, true) => Form::Bar(bar(name, ProgressDrawTarget::stderr())),
        };
        Progress { name: name.to_string(), form, guess, begun: Instant::now(), done: 0, left: 0 }
    }

    /// Starts counting time and steps, of which `steps` are expected.
    pub fn begin(&mut self, steps: u32) {
        (self.begun, self.done, self.left) = (Instant::now(), 0, steps);
    }

    /// Counts a finished step.
    pub fn step(&mut self) {
        self.done += 1;
        self.left = self.left.saturating_sub(1);
        if let Form::Bar(bar) = &self.form {
            bar.set_position(self.done.into());
        }
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
        let line = format!("ringway bench {}: {words}", self.name);
        match &self.form {
            Form::Quiet => {}
            // A closed standard error is no error.
            Form::Lines => writeln!(io::stderr(), "{line}").unwrap_or_default(),
            Form::Bar(bar) => bar.println(line),
        }
    }

    /// Shows the step that begins, and the times.
    pub fn say_step(&self, words: &str) {
        let elapsed = self.begun.elapsed();
        let left = self.remaining(elapsed).as_secs_f64().ceil();
        match &self.form {
            Form::Bar(bar) => {
                bar.set_length((self.done + self.left).into());
                bar.set_message(format!("{words}; about {left} s left"));
            }
            _ => self.say(&format!("{words}; {} s so far, about {left} s left", elapsed.as_secs())),
        }
    }

    /// Prints to standard output without the bar in between.
    pub fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        match &self.form {
            Form::Bar(bar) => bar.suspend(print),
            _ => print(),
        }
    }

    /// Remaining time after `elapsed`.
    fn remaining(&self, elapsed: Duration) -> Duration {
        let each = elapsed.checked_div(self.done).unwrap_or(self.guess);
        each.saturating_mul(self.left)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Form::Bar(bar) = &self.form {
            bar.finish_and_clear();
        }
    }
}

/// A bar that is drawn to `target`.
fn bar(name: &str, target: ProgressDrawTarget) -> ProgressBar {
    let style = ProgressStyle::with_template(STYLE).expect("a template of our own");
    ProgressBar::with_draw_target(Some(0), target).with_style(style).with_prefix(name.to_string())
}

#[cfg(test)]
mod tests;
