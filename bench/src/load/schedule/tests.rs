//! Intended times depend only on the rate and the seed.
use super::*;

fn times(pace: Pace, seed: u64, count: usize) -> Vec<u64> {
    let mut schedule = Schedule::of(pace, seed).expect("an open pace");
    let mut take = || {
        let at = schedule.next().as_nanos() as u64;
        schedule.step();
        at
    };
    (0..count).map(|_| take()).collect()
}

#[test]
fn a_fixed_pace_has_equal_distances() {
    assert_eq!(times(Pace::Fixed(1e6), 1, 3), [1000, 2000, 3000]);
}

#[test]
fn a_random_pace_has_the_rate_and_the_spread_of_poisson() {
    let count = 100_000;
    let all = times(Pace::Poisson(50_000.0), 7, count);
    let gaps: Vec<f64> = all.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
    assert!((mean / 20_000.0 - 1.0).abs() < 0.02, "mean {mean}");
    assert!((deviation / mean - 1.0).abs() < 0.03, "an exponential's deviation is its mean: {deviation}");
}

#[test]
fn the_same_seed_gives_the_same_times() {
    assert_eq!(times(Pace::Poisson(10.0), 3, 50), times(Pace::Poisson(10.0), 3, 50));
    assert_ne!(times(Pace::Poisson(10.0), 3, 50), times(Pace::Poisson(10.0), 4, 50));
    assert!(Schedule::of(Pace::Closed, 0).is_none());
}
