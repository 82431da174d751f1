//! What each place in the code may log: tokens, of which every line takes one.
//!
//! Promises: what one place logs takes nothing from another. Does not do: bounds in bytes.

use std::collections::HashMap;

use ringway_shm::{Duration, Instant};

/// Lines at once.
const BURST: u64 = 50;
/// Interval between lines after that.
const INTERVAL: Duration = Duration::from_millis(200);

#[derive(Default)]
pub(super) struct Limits {
    places: HashMap<&'static str, Place>,
}

struct Place {
    /// The time at which all tokens are back.
    full_at: Instant,
    left_out: u64,
}

impl Limits {
    /// Decides on a line. `Some`: it may pass, and so many before it were left out.
    pub(super) fn pass(&mut self, place: &'static str, now: Instant) -> Option<u64> {
        let place = self.places.entry(place).or_insert(Place { full_at: now, left_out: 0 });
        let full_at = place.full_at.max(now) + INTERVAL;
        if full_at > now + INTERVAL.times(BURST) {
            place.left_out += 1;
            return None;
        }
        place.full_at = full_at;
        Some(std::mem::take(&mut place.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_and_counted_and_takes_nothing_from_others() {
        let mut limits = Limits::default();
        let start = Instant::ZERO + Duration::from_secs(5);
        let passed = (0..1_000).filter(|_| limits.pass("flood", start).is_some()).count();
        assert_eq!(passed as u64, BURST);
        assert_eq!(limits.pass("other", start), Some(0));
        assert_eq!(limits.pass("flood", start + INTERVAL), Some(1_000 - BURST));
        assert_eq!(limits.pass("flood", start + INTERVAL), None);
        let calm = start + Duration::from_secs(60);
        assert_eq!(limits.pass("flood", calm), Some(1));
        assert_eq!((0..100).filter(|_| limits.pass("flood", calm).is_some()).count() as u64, BURST - 1);
    }
}
