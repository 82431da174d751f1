//! A constant rate, whatever the path does. Read "TAS" (Kaufmann et al., EuroSys 2019) §3.2 for its use: a path whose rate is assigned.
//!
//! It does not react to losses: on a path that others share it takes what it was told and leaves them the rest.

use super::{Controller, Flow, Sample};

/// Sends at a rate that never changes.
///
/// ```
/// use ringway_stack::congestion::{ConstantRate, Controller};
///
/// assert_eq!(ConstantRate::new(12_500_000).pacing_rate(), 12_500_000);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ConstantRate {
    rate: u64,
}

impl ConstantRate {
    /// `rate` is in bytes per second.
    pub fn new(rate: u64) -> ConstantRate {
        ConstantRate { rate }
    }
}

impl Controller for ConstantRate {
    fn on_ack(&mut self, flow: &mut Flow, _sample: &Sample) {
        flow.cwnd = flow.window_at(self.rate, flow.srtt_us);
    }

    fn pacing_rate(&self) -> u64 {
        self.rate
    }
}
