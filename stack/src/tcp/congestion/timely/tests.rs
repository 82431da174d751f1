//! Algorithm 1 of the paper, round by round: what the rate becomes for each round-trip time.

use alloc::vec::Vec;

use super::*;

const MSS: u32 = 1_000;
const LOW_US: u32 = 100;
const HIGH_US: u32 = 1_000;
const STEP: u64 = 100_000;
const PARAMETERS: TimelyParameters = TimelyParameters {
    rtt_low: Duration::from_micros(LOW_US as u64),
    rtt_high: Duration::from_micros(HIGH_US as u64),
    rtt_min: Duration::from_micros(50),
    step: STEP,
    weight: 875,
};

/// A flow whose rounds are acknowledged as the test says.
struct Rounds {
    timely: Timely,
    flow: Flow,
}

impl Rounds {
    fn new() -> Rounds {
        let mut flow = Flow { mss: MSS, cwnd: 10 * MSS, initial_cwnd: 10 * MSS, srtt_us: 200, ..Flow::default() };
        let mut timely = Timely::new(&flow, PARAMETERS);
        (flow.delivered, timely.round.delivered) = (u64::from(MSS), u64::from(MSS));
        Rounds { timely, flow }
    }

    /// One after slow start, at `rate`, whose last round-trip time was `rtt_us`.
    fn at(rate: u64, rtt_us: u32) -> Rounds {
        let mut rounds = Rounds::new();
        (rounds.timely.in_slow_start, rounds.timely.rate, rounds.timely.prev_rtt_us) = (false, rate, rtt_us.into());
        rounds
    }

    /// A round with these round-trip times; returns the rate after it.
    fn round(&mut self, round_trips_us: &[u32]) -> u64 {
        self.round_of(round_trips_us, Sample::default())
    }

    /// The sample at its end says what `last` says.
    fn round_of(&mut self, round_trips_us: &[u32], last: Sample) -> u64 {
        let begun = self.flow.delivered;
        for (at, &rtt_us) in round_trips_us.iter().enumerate() {
            let is_last = at + 1 == round_trips_us.len();
            self.flow.delivered += u64::from(MSS);
            let mut sample = last;
            (sample.has_data, sample.newly_acked, sample.rtt_us) = (true, MSS, rtt_us);
            sample.prior_delivered = if is_last { begun } else { begun - 1 };
            self.timely.on_ack(&mut self.flow, &sample);
        }
        self.timely.pacing_rate()
    }
}

/// Between T_low and T_high, with a gradient that is not positive: a step, and five steps from the fifth such round on.
#[test]
fn the_rate_grows_by_steps_and_then_faster() {
    let mut rounds = Rounds::at(100_000_000, 500);
    let rates: Vec<u64> = (0..7).map(|_| rounds.round(&[500])).collect();
    let steps: Vec<u64> = rates.windows(2).map(|two| (two[1] - two[0]) / STEP).collect();
    assert_eq!(rates[0], 100_000_000 + STEP);
    assert_eq!(steps, [1, 1, 1, 5, 5, 5]);
}

/// A growing round-trip time lowers the rate by β times the gradient: 20 us more, α of which count, of a minimum of 50 us.
#[test]
fn a_positive_gradient_lowers_the_rate() {
    let mut rounds = Rounds::at(100_000_000, 500);
    let gradient = 875 * 20 / 50;
    assert_eq!(rounds.round(&[520]), 100_000_000 * (1_000 - 800 * gradient / 1_000) / 1_000);
    // The same time again: an eighth of the old difference is left, so the rate still falls a little.
    let before = rounds.timely.pacing_rate();
    let after = rounds.round(&[520]);
    assert!(after < before && after > before * 95 / 100, "{before} {after}");
}

/// Below T_low the rate grows although the round-trip time does; above T_high it falls although that falls.
#[test]
fn the_thresholds_come_first() {
    assert_eq!(Rounds::at(100_000_000, 50).round(&[90]), 100_000_000 + STEP);
    // 1 - β (1 - T_high / rtt) = 1 - 0.8 * 0.5
    assert_eq!(Rounds::at(100_000_000, 5_000).round(&[2 * HIGH_US]), 60_000_000);
}

/// The shortest round-trip time of a round counts: a peer that delays an ACK has no queue.
#[test]
fn a_delayed_acknowledgment_is_no_queue() {
    let mut rounds = Rounds::at(100_000_000, 500);
    assert_eq!(rounds.round(&[40_000, 500, 40_000]), 100_000_000 + STEP);
}

/// The rate doubles each round until T_low is passed once, to twice of what was delivered at most; an application that does not use it
/// does not raise it.
#[test]
fn slow_start() {
    let mut rounds = Rounds::new();
    let first = rounds.timely.pacing_rate();
    assert_eq!(first, 50_000_000, "ten segments in a round trip");
    assert_eq!(rounds.round(&[60]), 2 * first);
    let mut limited = Sample::default();
    limited.app_limited = true;
    assert_eq!(rounds.round_of(&[60], limited), 2 * first);
    let mut slow = Sample::default();
    slow.delivery_rate = 3 * first / 2;
    assert_eq!(rounds.round_of(&[60], slow), 3 * first);
    assert_eq!(rounds.round(&[LOW_US]), 3 * first * (1_000 - 800 * (875 * 40 / 50) / 1_000) / 1_000, "slow start is over");
    rounds.timely.prev_rtt_us = 60;
    rounds.timely.rtt_diff = 0;
    let before = rounds.timely.pacing_rate();
    assert_eq!(rounds.round(&[60]), before + STEP);
}

/// A loss episode halves the rate; a spurious one gives it back.
#[test]
fn losses() {
    let mut rounds = Rounds::at(80_000_000, 500);
    rounds.timely.on_episode(&mut rounds.flow, Episode::Loss);
    assert_eq!(rounds.timely.pacing_rate(), 40_000_000);
    rounds.flow.in_recovery = true;
    rounds.timely.on_episode(&mut rounds.flow, Episode::Timeout);
    assert_eq!(rounds.timely.pacing_rate(), 20_000_000);
    rounds.timely.on_undo(&mut rounds.flow);
    assert_eq!(rounds.timely.pacing_rate(), 80_000_000);
}

/// Without a measured round-trip time a flow begins as on a path whose queue is full, and an ACK that measures nothing changes nothing.
#[test]
fn before_the_first_round_trip() {
    let mut flow = Flow { mss: MSS, cwnd: 10 * MSS, initial_cwnd: 10 * MSS, ..Flow::default() };
    let mut timely = Timely::new(&flow, PARAMETERS);
    assert_eq!(timely.pacing_rate(), 10_000_000, "ten segments in a millisecond");
    timely.on_ack(&mut flow, &Sample::default());
    assert_eq!((timely.pacing_rate(), flow.cwnd), (10_000_000, 10 * MSS));
}

/// Whatever the samples say: the rate is at least two segments in a round trip, and the window does not limit it.
#[test]
fn bounds() {
    let mut rounds = Rounds::at(u64::MAX, 1);
    rounds.round(&[u32::MAX]);
    for rtt_us in [u32::MAX, 1, 600, u32::MAX].repeat(20) {
        rounds.flow.srtt_us = rtt_us.min(1_000_000);
        let rate = rounds.round(&[rtt_us]);
        let least = 2 * u64::from(MSS) * 1_000_000 / u64::from(rounds.flow.srtt_us);
        assert!(rate >= least, "{rate} at {rtt_us}");
        let under_way = u128::from(rate) * u128::from(rounds.flow.srtt_us) / 1_000_000;
        assert!(u128::from(rounds.flow.cwnd) >= under_way.min(1 << 30), "{rate} at {rtt_us}");
    }
}
