//! The frequency is computed from the fastest run.
use super::*;

#[test]
fn the_frequency_is_that_of_the_fastest_run() {
    let calibration = Calibration { fastest_ns: 80_000.0, median_ns: 90_000.0 };
    assert_eq!(calibration.frequency_ghz(), 3.0);
}

#[test]
fn a_core_can_be_calibrated_and_a_missing_one_is_an_error() {
    let allowed = sched_getaffinity(None).expect("our own affinity");
    let core = (0..CpuSet::MAX_CPU).find(|core| allowed.is_set(*core)).expect("we run somewhere");
    let found = Calibration::of_core(core).expect("an allowed core");
    assert!(found.fastest_ns > 0.0 && found.median_ns >= found.fastest_ns);
    assert!(Calibration::of_core(CpuSet::MAX_CPU - 1).is_err());
    assert_eq!(sched_getaffinity(None).expect("our own affinity"), allowed);
}
