use super::*;

#[test]
fn timestamps_are_known_in_any_order_and_across_the_wrap() {
    let mut clock = Clock::default();
    for value in [u32::MAX - 1, u32::MAX, 3, 1] {
        clock.sent(value);
    }
    assert_eq!(clock.latest(), Some(3));
    assert!(clock.knows(1) && clock.knows(u32::MAX));
    assert!(!clock.knows(2) && !clock.knows(u32::MAX - 2));
}

#[test]
fn old_timestamps_are_forgotten_in_favour_of_the_sender() {
    let mut clock = Clock::default();
    (0..40_000).for_each(|value| clock.sent(value * 2));
    assert!(clock.values.len() <= VALUES_MAX);
    assert!(clock.knows(3), "so long ago that nobody remembers");
    assert!(!clock.knows(79_999));
}
