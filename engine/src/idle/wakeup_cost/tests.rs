use super::*;

fn after(costs: impl IntoIterator<Item = u64>) -> Duration {
    let mut cost = WakeupCost::default();
    costs.into_iter().for_each(|micros| cost.measured(Duration::from_micros(micros)));
    cost.spin_limit()
}

/// The first measurements are not trusted alone; after them the limit is twice the median.
#[test]
fn a_spin_lasts_twice_the_median() {
    assert_eq!(after([]), LIMIT_AT_FIRST);
    assert_eq!(after([30, 30]), LIMIT_AT_FIRST);
    assert_eq!(after([30, 22, 26]), Duration::from_micros(52));
}

/// Occasional slices of other tasks and a clock that was set back are outweighed.
#[test]
fn wrong_measurements_are_outweighed() {
    let cost = |number: u64| match number % 5 {
        0 => 3_000,
        1 => 0,
        _ => 22,
    };
    assert_eq!(after((0..200).map(cost)), Duration::from_micros(44));
}

/// The limit stays within its bounds, whatever is measured.
#[test]
fn the_limit_is_bounded() {
    assert_eq!(after([0; KEPT]), COST_MIN.times(2));
    assert_eq!(after([1_000_000_000; KEPT]), COST_MAX.times(2));
}

/// When a machine's wake-ups become faster, half of the kept measurements suffice to follow.
#[test]
fn the_limit_follows_the_machine() {
    let mut cost = WakeupCost::default();
    (0..100).for_each(|_| cost.measured(Duration::from_micros(40)));
    (0..KEPT / 2).for_each(|_| cost.measured(Duration::from_micros(8)));
    assert_eq!(cost.spin_limit(), Duration::from_micros(80));
    cost.measured(Duration::from_micros(8));
    assert_eq!(cost.spin_limit(), Duration::from_micros(16));
}
