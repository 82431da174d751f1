//! Disturbed rounds are repeated up to `patience` times; the least disturbed are kept, in order.
use super::*;

/// A round of two targets; the hypervisor took the share `steal` of the second one's core.
fn round(number: u32, steal: f64) -> Vec<(u32, Disturbance)> {
    vec![(number, Disturbance::default()), (number, Disturbance { steal, ..Disturbance::default() })]
}

/// Measures rounds with these disturbances until none is missing; returns the kept rounds' numbers and the repetitions.
fn measure(wanted: u32, patience: u32, steal: &[f64]) -> (Vec<u32>, u32) {
    let mut rounds = Rounds::new(wanted, patience);
    while rounds.missing() > 0 {
        let number = rounds.next_number();
        rounds.add(round(number, steal[number as usize - 1]));
    }
    let repeated = rounds.repeated();
    (rounds.keep().iter().map(|round| round[0].0).collect(), repeated)
}

#[test]
fn quiet_rounds_are_not_repeated() {
    assert_eq!(measure(3, 3, &[0.0, 0.01, 0.0]), (vec![1, 2, 3], 0));
}

#[test]
fn a_disturbed_round_is_replaced_by_its_repetition() {
    assert_eq!(measure(3, 3, &[0.0, 0.3, 0.0, 0.0]), (vec![1, 3, 4], 1));
    assert_eq!(measure(2, 3, &[0.3, 0.0, 0.2, 0.0]), (vec![2, 4], 2));
}

#[test]
fn patience_ends_and_the_least_disturbed_remain() {
    assert_eq!(measure(2, 3, &[0.5, 0.2, 0.4, 0.0, 0.3]), (vec![2, 4], 3));
    assert_eq!(measure(2, 0, &[0.5, 0.2]), (vec![1, 2], 0));
}

#[test]
fn what_is_missing_is_known_beforehand() {
    let mut rounds = Rounds::new(2, 1);
    assert_eq!(rounds.missing(), 2);
    rounds.add(round(1, 0.5));
    assert_eq!(rounds.missing(), 2);
    rounds.add(round(2, 0.5));
    assert_eq!(rounds.missing(), 1);
    rounds.add(round(3, 0.5));
    assert_eq!(rounds.missing(), 0);
}
