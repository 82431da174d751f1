use super::*;

/// The first sample sets both; then 7/8 and 3/4 of the old remain.
#[test]
fn rfc_6298_section_2() {
    let (srtt, rttvar) = measure(0, 0, 100_000);
    assert_eq!((srtt, rttvar), (100_000, 50_000));
    assert_eq!(measure(srtt, rttvar, 180_000), (110_000, 57_500));
    assert_eq!(measure(srtt, rttvar, 20_000), (90_000, 57_500));
}

/// The timeout starts at 1 s, is never below srtt + 200 ms, doubles, and ends at 120 s.
#[test]
fn timeout_bounds() {
    let timing = Timing::of(&TcpConfig::default());
    assert_eq!(timeout_us(&timing, 0, 0), 1_000_000);
    assert_eq!(timeout_us(&timing, 1_000, 0), 201_000);
    assert_eq!(timeout_us(&timing, 100_000, 100_000), 500_000);
    assert_eq!(backed_off_us(&timing, 100_000, 100_000, 3), 4_000_000);
    assert_eq!(backed_off_us(&timing, 100_000, 100_000, 30), 120_000_000);
}
