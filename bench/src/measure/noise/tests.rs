//! The verdict names exactly the disturbances above their limits.
use super::*;

#[test]
fn little_of_everything_is_quiet() {
    let little = Disturbance { calibration: 0.05, steal: 0.01, others: 0.05 };
    assert!(little.is_quiet());
    assert_eq!(little.verdict(), "quiet");
}

#[test]
fn what_is_too_much_is_named() {
    let calibration = Disturbance { calibration: 0.124, ..Disturbance::default() };
    assert_eq!(calibration.verdict(), "noisy: calibration moved 12 %");
    let both = calibration.worse(Disturbance { steal: 0.02, others: 0.3, ..Disturbance::default() });
    assert_eq!(both.verdict(), "noisy: calibration moved 12 %, 2 % stolen, others used 30 % of a core");
    assert!(!both.is_quiet());
}
