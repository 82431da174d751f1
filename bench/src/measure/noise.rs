//! Whether something disturbed a measurement, so that its figures may not be believed.

use crate::row::QUIET;

/// The calibration loop may move by so much.
const CALIBRATION_MAX: f64 = 0.05;
/// Share of a core that the hypervisor may take.
const STEAL_MAX: f64 = 0.01;
/// Share of a core that strangers may use.
const OTHERS_MAX: f64 = 0.05;

/// What was seen around one or several rounds; the worst of each.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Disturbance {
    /// How much slower the calibration loop was than the fastest ever seen on the core: 0.05 is 5 %.
    pub calibration: f64,
    /// Share of a core's time that the hypervisor took.
    pub steal: f64,
    /// Share of a core's time that processes had which belong to neither side.
    pub others: f64,
}

impl Disturbance {
    /// The worse of two, each by itself.
    pub fn worse(self, other: Disturbance) -> Disturbance {
        Disturbance {
            calibration: self.calibration.max(other.calibration),
            steal: self.steal.max(other.steal),
            others: self.others.max(other.others),
        }
    }

    /// Whether figures may be believed.
    pub fn is_quiet(&self) -> bool {
        self.severity() <= 1.0
    }

    /// How much was seen, by what may be: above 1 figures may not be believed.
    pub fn severity(&self) -> f64 {
        (self.calibration / CALIBRATION_MAX).max(self.steal / STEAL_MAX).max(self.others / OTHERS_MAX)
    }

    /// `quiet`, or `noisy: ` and what was seen.
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
