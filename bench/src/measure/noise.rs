//! Disturbances of a measurement that make its figures unreliable.

use crate::row::QUIET;

/// Largest accepted slowdown of the calibration loop.
const CALIBRATION_MAX: f64 = 0.05;
/// Largest accepted share of a core taken by the hypervisor.
const STEAL_MAX: f64 = 0.01;
/// Largest accepted share of a core used by unrelated processes.
const OTHERS_MAX: f64 = 0.05;

/// Disturbances of one or several rounds; the worst of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Disturbance {
    /// Slowdown of the calibration loop against its fastest run on the core: 0.05 is 5 %.
    pub calibration: f64,
    /// Share of a core's time taken by the hypervisor.
    pub steal: f64,
    /// Share of a core's time used by processes of neither side.
    pub others: f64,
}

impl Disturbance {
    /// The worse of two, separately for each kind.
    pub fn worse(self, other: Disturbance) -> Disturbance {
        Disturbance {
            calibration: self.calibration.max(other.calibration),
            steal: self.steal.max(other.steal),
            others: self.others.max(other.others),
        }
    }

    /// Returns true when the figures are reliable.
    pub fn is_quiet(&self) -> bool {
        self.severity() <= 1.0
    }

    /// The worst disturbance relative to its limit; above 1 the figures are unreliable.
    pub fn severity(&self) -> f64 {
        (self.calibration / CALIBRATION_MAX).max(self.steal / STEAL_MAX).max(self.others / OTHERS_MAX)
    }

    /// `quiet`, or `noisy: ` and the disturbances.
    pub fn verdict(&self) -> String {
        let percent = |value: f64| (value * 100.0).round();
        let seen = [
            (self.calibration > CALIBRATION_MAX).then(|| format!("calibration moved {} %", percent(self.calibration))),
            (self.steal > STEAL_MAX).then(|| format!("{} % stolen", percent(self.steal))),
            (self.others > OTHERS_MAX).then(|| format!("others used {} % of a core", percent(self.others))),
        ];
        let seen: Vec<String> = seen.into_iter().flatten().collect();
        if seen.is_empty() { QUIET.to_string() } else { format!("noisy: {}", seen.join(", ")) }
    }
}

#[cfg(test)]
mod tests;
