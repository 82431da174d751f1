//! TIMELY: the rate follows the gradient of the round-trip time. Read Mittal et al., "TIMELY: RTT-based Congestion Control for the
//! Datacenter" (SIGCOMM 2015), §4.3 and Algorithm 1 first; names and parameters are the paper's.
//!
//! The paper has the hardware's time of each segment of 16 KB and more, and no losses. Here the round-trip time is the shortest of a round,
//! so that a peer that delays its ACKs does not count as a queue; the rate changes once a round; and a loss episode halves it, as in
//! TAS (Kaufmann et al., EuroSys 2019). The paper begins at the line rate over the number of flows, which a stack does not know: here the
//! rate doubles each round until the round-trip time is above T_low once. It stays below twice what was delivered.
//!
//! Does not do: sharing a queue with flows that fill it. They get all of it.

use super::{Controller, Episode, Flow, Sample};
use crate::Duration;

/// The additive step is taken so many times where the gradient was not positive for [`HYPER_ROUNDS`] rounds (hyperactive increase).
const N: u64 = 5;
const HYPER_ROUNDS: u8 = 5;
/// β, the multiplicative decrease, in thousandths.
const BETA: i64 = 800;
const ALL: i64 = 1_000;
/// Two segments in a round trip are the least.
const SEGMENTS_MIN: u64 = 2;

/// The parameters that depend on the network.
///
/// ```
/// use ringway_stack::Duration;
/// use ringway_stack::congestion::TimelyParameters;
///
/// /// For a path of 20 ms to another site.
/// const SITE: TimelyParameters = TimelyParameters {
///     rtt_low: Duration::from_millis(22),
///     rtt_high: Duration::from_millis(40),
///     rtt_min: Duration::from_millis(20),
///     step: 125_000,
///     weight: 875,
/// };
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimelyParameters {
    /// T_low: below it the rate grows whatever the gradient is.
    pub rtt_low: Duration,
    /// T_high: above it the rate falls whatever the gradient is.
    pub rtt_high: Duration,
    /// minRTT: the round-trip time of the empty network, by which the gradient is divided.
    pub rtt_min: Duration,
    /// δ, the additive step, bytes per second.
    pub step: u64,
    /// α, the weight of the newest difference of round-trip times, thousandths: less where the times are software's and noisy.
    pub weight: u16,
}

impl Default for TimelyParameters {
    /// The paper's for 10 Gbit/s and times that the hardware takes: 50, 500 and 20 us, 10 Mbit/s, 0.875.
    fn default() -> TimelyParameters {
        TimelyParameters {
            rtt_low: Duration::from_micros(50),
            rtt_high: Duration::from_micros(500),
            rtt_min: Duration::from_micros(20),
            step: 1_250_000,
            weight: 875,
        }
    }
}

impl TimelyParameters {
    /// Before the first measurement: the longest that is expected.
    fn round_trip_us(&self, flow: &Flow) -> u64 {
        if flow.srtt_us == 0 { self.rtt_high.as_micros().max(1) } else { flow.srtt_us.into() }
    }
}

/// TIMELY: the rate follows the gradient of the round-trip time (Mittal et al., SIGCOMM 2015). The rate changes once a round trip, by the
/// shortest time of the round; a loss episode halves it. It leaves a queue to flows that fill it.
///
/// ```
/// use ringway_stack::congestion::{Controller, Flow, Timely, TimelyParameters};
///
/// let mut flow = Flow::default();
/// (flow.mss, flow.initial_cwnd, flow.srtt_us) = (1_460, 14_600, 100);
/// let timely = Timely::new(&flow, TimelyParameters::default());
/// assert_eq!(timely.pacing_rate(), 146_000_000);
/// ```
#[derive(Clone, Debug)]
pub struct Timely {
    parameters: TimelyParameters,
    /// Bytes per second.
    rate: u64,
    /// prev_rtt, microseconds; 0: none.
    prev_rtt_us: i64,
    /// rtt_diff, thousandths of a microsecond.
    rtt_diff: i64,
    /// Rounds in a row in which the gradient was not positive.
    falling_rounds: u8,
    in_slow_start: bool,
    /// `rate` before the loss episode.
    rate_before: u64,
    round: Round,
}

/// What was seen in this round: it ends when data is acknowledged that was sent after its beginning.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    /// C.delivered at its beginning.
    delivered: u64,
    /// The shortest round-trip time, microseconds; 0: none.
    rtt_us: u32,
    /// The best delivery rate.
    delivery_rate: u64,
    is_app_limited: bool,
}

impl Round {
    fn note(&mut self, sample: &Sample) {
        if sample.rtt_us != 0 && (self.rtt_us == 0 || sample.rtt_us < self.rtt_us) {
            self.rtt_us = sample.rtt_us;
        }
        self.delivery_rate = self.delivery_rate.max(sample.delivery_rate);
        self.is_app_limited |= sample.app_limited;
    }
}

impl Timely {
    /// Makes the state of the connection `flow`.
    pub fn new(flow: &Flow, parameters: TimelyParameters) -> Timely {
        let rate = u64::from(flow.initial_cwnd) * 1_000_000 / parameters.round_trip_us(flow);
        Timely {
            parameters,
            rate,
            prev_rtt_us: 0,
            rtt_diff: 0,
            falling_rounds: 0,
            in_slow_start: true,
            rate_before: rate,
            round: Round::default(),
        }
    }

    /// Algorithm 1, with the round-trip time of the last round.
    fn take(&mut self, round: &Round) {
        let (new_rtt, low) = (i64::from(round.rtt_us), micros(self.parameters.rtt_low));
        let high = micros(self.parameters.rtt_high).max(low);
        let new_rtt_diff = if self.prev_rtt_us == 0 { 0 } else { new_rtt - self.prev_rtt_us };
        self.prev_rtt_us = new_rtt;
        let alpha = i64::from(self.parameters.weight).min(ALL);
        self.rtt_diff = ((ALL - alpha) * self.rtt_diff + alpha * new_rtt_diff * ALL) / ALL;
        // normalized_gradient, in thousandths.
        let gradient = self.rtt_diff / micros(self.parameters.rtt_min).max(1);
        self.falling_rounds = if gradient <= 0 { self.falling_rounds.saturating_add(1) } else { 0 };
        self.in_slow_start &= new_rtt < low;
        if new_rtt < low {
            self.grow(round, 1);
        } else if new_rtt > high {
            self.shrink(ALL - ALL * high / new_rtt);
        } else if gradient <= 0 {
            self.grow(round, if self.falling_rounds >= HYPER_ROUNDS { N } else { 1 });
        } else {
            self.shrink(gradient.min(ALL));
        }
    }

    /// A rate that the application has not used says nothing of the path.
    fn grow(&mut self, round: &Round, steps: u64) {
        if round.is_app_limited {
            return;
        }
        let grown = if self.in_slow_start { self.rate.saturating_mul(2) } else { self.rate + steps * self.parameters.step };
        let most = if round.delivery_rate == 0 { grown } else { round.delivery_rate.saturating_mul(2) };
        self.rate = grown.min(most.max(self.rate));
    }

    /// rate * (1 - β * `by`), `by` in thousandths.
    fn shrink(&mut self, by: i64) {
        let left = ALL - BETA * by.clamp(0, ALL) / ALL;
        self.rate = (u128::from(self.rate) * left.unsigned_abs() as u128 / ALL as u128) as u64;
    }

    /// The rate stays above the least, and the window above what the rate puts on the path.
    fn bound(&mut self, flow: &mut Flow) {
        let least = SEGMENTS_MIN * u64::from(flow.mss) * 1_000_000 / self.parameters.round_trip_us(flow);
        self.rate = self.rate.max(least);
        flow.cwnd = flow.window_at(self.rate, flow.srtt_us);
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX / (ALL * ALL)).min(i64::MAX / (ALL * ALL))
}

impl Controller for Timely {
    fn on_ack(&mut self, flow: &mut Flow, sample: &Sample) {
        self.round.note(sample);
        if sample.has_data && sample.prior_delivered >= self.round.delivered {
            let round = core::mem::replace(&mut self.round, Round { delivered: flow.delivered, ..Round::default() });
            if round.rtt_us != 0 {
                self.take(&round);
            }
        }
        self.bound(flow);
    }

    fn pacing_rate(&self) -> u64 {
        self.rate
    }

    fn on_episode(&mut self, flow: &mut Flow, _episode: Episode) {
        if !flow.in_recovery {
            self.rate_before = self.rate;
        }
        self.in_slow_start = false;
        self.rate /= 2;
        self.bound(flow);
    }

    fn on_undo(&mut self, flow: &mut Flow) {
        self.rate = self.rate.max(self.rate_before);
        self.bound(flow);
    }
}

#[cfg(test)]
mod tests;
