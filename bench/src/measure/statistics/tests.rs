//! Medians of odd and even numbers, and of pairs.
use super::*;

#[test]
fn the_median_is_in_the_middle() {
    assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(median([4.0, 1.0, 2.0, 3.0]), Some(2.5));
    assert_eq!(median([]), None);
}

#[test]
fn ratios_are_taken_pair_by_pair() {
    // Both are slower in the second round: the ratio does not change.
    assert_eq!(median_ratio(&[20.0, 10.0, 22.0], &[10.0, 5.0, 11.0]), Some(2.0));
    assert_eq!(median_ratio(&[1.0], &[0.0]), None);
}
