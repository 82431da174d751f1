//! The rounds of a point: disturbed ones are repeated, and which are kept.
//!
//! In a round all targets had their turn, so that their ratio is of the same minute. Promises: as many rounds are kept as
//! were wanted, undisturbed ones first, then the least disturbed, in the order in which they were measured; there are not more
//! repetitions than the patience. Does not do: looking at the figures, which must not decide what is kept.

use crate::measure::noise::Disturbance;

/// See the module's text.
#[derive(Debug)]
pub struct Rounds<T> {
    wanted: usize,
    patience: usize,
    /// What each target showed, by round.
    measured: Vec<Vec<(T, Disturbance)>>,
}

impl<T> Rounds<T> {
    /// None yet.
    pub fn new(wanted: u32, patience: u32) -> Rounds<T> {
        Rounds { wanted: wanted as usize, patience: patience as usize, measured: Vec::new() }
    }

    /// Rounds that are still to be measured, as far as is known now.
    pub fn missing(&self) -> usize {
        let quiet = self.measured.iter().filter(|round| severity(round) <= 1.0).count();
        let left = self.wanted + self.patience - self.measured.len();
        self.wanted.saturating_sub(quiet).min(left)
    }

    /// The number of the next one, from 1 on.
    pub fn next_number(&self) -> u32 {
        self.measured.len() as u32 + 1
    }

    /// What each target showed in a round.
    pub fn add(&mut self, round: Vec<(T, Disturbance)>) {
        self.measured.push(round);
    }

    /// How many were measured beyond those that are kept.
    pub fn repeated(&self) -> u32 {
        self.measured.len().saturating_sub(self.wanted) as u32
    }

    /// Those that count, in the order of their measurement.
    pub fn keep(self) -> Vec<Vec<(T, Disturbance)>> {
        let mut order: Vec<(f64, usize)> =
            self.measured.iter().enumerate().map(|(number, round)| (severity(round).max(1.0), number)).collect();
        order.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
        order.truncate(self.wanted);
        let kept: Vec<usize> = order.into_iter().map(|(_, number)| number).collect();
        let numbered = self.measured.into_iter().enumerate();
        numbered.filter(|(number, _)| kept.contains(number)).map(|(_, round)| round).collect()
    }
}

/// How disturbed a round was: that of its most disturbed target.
fn severity<T>(round: &[(T, Disturbance)]) -> f64 {
    round.iter().map(|(_, disturbance)| disturbance.severity()).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests;
