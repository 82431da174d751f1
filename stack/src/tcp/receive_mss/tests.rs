//! Estimates from segment headers.

use crate::tcp::conn_stats::ConnStats;

/// The timestamps option is in every segment and not part of the size; SACK blocks reduce the payload.
#[test]
fn options() {
    let mut stats = ConnStats::new(0, 0);
    stats.measure_segment(1_448, 12, 12, false);
    stats.measure_segment(1_436, 24, 12, false);
    stats.measure_segment(1_428, 32, 12, false);
    assert_eq!(stats.receive_mss, 1_448);
}
