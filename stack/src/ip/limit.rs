//! A token bucket for replies to other hosts (RFC 1122 §3.2.2, RFC 1812 §4.3.2.8).

use ringway_shm::{Duration, Instant};

/// Allows `per_second` replies per second, and a burst of as many after a quiet second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateLimit {
    /// Time at which the bucket would be empty if it had been filling since then.
    empty_at: Instant,
    cost: Duration,
}

const FULL: Duration = Duration::from_secs(1);

impl RateLimit {
    pub(crate) fn new(per_second: u32) -> RateLimit {
        RateLimit { empty_at: Instant::ZERO, cost: cost(per_second) }
    }

    /// From now on it fills at this rate.
    pub(crate) fn set_rate(&mut self, per_second: u32) {
        self.cost = cost(per_second);
    }

    /// Returns true when one more reply may be sent now, and counts it.
    pub(crate) fn allow(&mut self, now: Instant) -> bool {
        let level = now.since(self.empty_at).min(FULL);
        if level < self.cost {
            return false;
        }
        let left = level.as_nanos() - self.cost.as_nanos();
        self.empty_at = Instant::from_nanos(now.as_nanos() - left);
        true
    }
}

fn cost(per_second: u32) -> Duration {
    Duration::from_nanos(FULL.as_nanos() / u64::from(per_second.max(1)))
}

#[cfg(test)]
mod tests;
