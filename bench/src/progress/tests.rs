//! The remaining time is estimated from finished steps, before the first from the guess.
use super::*;

#[test]
fn the_remaining_time_is_by_what_was_seen() {
    let second = Duration::from_secs(1);
    let mut progress = Progress::new("conns", true, second);
    progress.begin(10);
    assert_eq!(progress.remaining(Duration::ZERO), 10 * second);
    progress.step();
    progress.step();
    assert_eq!(progress.remaining(6 * second), 24 * second);
    progress.expect(2);
    assert_eq!(progress.remaining(6 * second), 30 * second);
    progress.forget(2);
    assert_eq!(progress.remaining(6 * second), 24 * second);
    (0..20).for_each(|_| progress.step());
    assert_eq!(progress.remaining(6 * second), Duration::ZERO);
}
