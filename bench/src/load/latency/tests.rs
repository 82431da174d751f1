//! Quantiles are those of the recorded numbers, within three digits.
use super::*;

#[test]
fn quantiles_are_those_of_what_was_counted() {
    let mut latencies = Latencies::default();
    for us in 1..=10_000 {
        latencies.add(Duration::from_micros(us));
    }
    let mut outcome = Outcome::default();
    latencies.tell(&mut outcome);
    for (found, right) in
        [(outcome.p50_us, 5000.0), (outcome.p99_us, 9900.0), (outcome.p999_us, 9990.0), (outcome.mean_us, 5000.5)]
    {
        assert!((found / right - 1.0).abs() < 0.002, "{found} for {right}");
    }
    assert_eq!(latencies.count(), 10_000);
    latencies.clear();
    assert_eq!(latencies.count(), 0);
}

#[test]
fn the_impossible_is_counted_at_the_bounds() {
    let mut latencies = Latencies::default();
    latencies.add(Duration::ZERO);
    latencies.add(Duration::from_secs(1 << 40));
    assert_eq!(latencies.count(), 2);
    assert!(latencies.percentile_us(100.0) >= 6e8);
}
