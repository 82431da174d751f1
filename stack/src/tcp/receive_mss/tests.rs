//! Estimates from segment headers.

use crate::tcp::tally::Tally;

/// The timestamps option is in every segment and not part of the size; SACK blocks reduce the payload.
#[test]
fn options() {
    let mut tally = Tally::new(0, 0);
    tally.measure_segment(1_448, 12, 12, false);
    tally.measure_segment(1_436, 24, 12, false);
    tally.measure_segment(1_428, 32, 12, false);
    assert_eq!(tally.receive_mss, 1_448);
}
