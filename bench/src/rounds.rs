//! The rounds of a point: repeats disturbed rounds and selects those to keep.
//!
//! Each round measures all targets, so that their ratios compare the same minute. Promises: the wanted number of rounds is
//! kept, undisturbed ones first, then the least disturbed, in the order of their measurement; there are at most `patience`
//! repetitions. Does not do: look at the figures, which must not influence the selection.

use crate::measure::noise::Disturbance;

/// The rounds of a point; see the module's documentation.
#[derive(Debug)]
pub struct Rounds<T> {
    wanted: usize,
    patience: usize,
    /// Results of each target, by round.
    measured: Vec<Vec<(T, Disturbance)>>,
}

impl<T> Rounds<T> {
    /// Creates an empty list.
    pub fn new(wanted: u32, patience: u32) -> Rounds<T> {
        Rounds { wanted: wanted as usize, patience: patience as usize, measured: Vec::new() }
    }

    /// Number of rounds still to measure, as known now.
    pub fn missing(&self) -> usize {
        let quiet = self.measured.iter().filter(|round| severity(round) <= 1.0).count();
        let left = self.wanted + self.patience - self.measured.len();
        self.wanted.saturating_sub(quiet).min(left)
    }

    /// Number of the next round, from 1.
    pub fn next_number(&self) -> u32 {
        self.measured.len() as u32 + 1
    }

    /// Adds the results of a round, by target.
    pub fn add(&mut self, round: Vec<(T, Disturbance)>) {
        self.measured.push(round);
    }

    /// Number of rounds measured beyond the kept ones.
    pub fn repeated(&self) -> u32 {
        self.measured.len().saturating_sub(self.wanted) as u32
    }

    /// The kept rounds, in the order of their measurement.
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

/// Severity of a round: that of its most disturbed target.
fn severity<T>(round: &[(T, Disturbance)]) -> f64 {
    round.iter().map(|(_, disturbance)| disturbance.severity()).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests;
