//! The rate limit of requests of an application group.
//!
//! Each request costs a time, and a group may be ahead of the clock by a tenth of a second: so many it may make at once. Requests
//! beyond that stay in their rings until half of the tenth has passed; none is lost. Promises: while they wait, the worker
//! sleeps. Does not do: weighing requests; what is dear counts more in the turn's own budget.

use ringway_shm::{Duration, Instant};

/// The time by which a group may be ahead.
const BURST: Duration = Duration::from_millis(100);

/// See the module's text.
pub(super) struct Rate {
    /// The cost of one request.
    cost: Duration,
    /// The time that may be ahead: one request at least.
    burst: Duration,
    /// So many requests that is.
    requests: u64,
    /// Until then what was asked for has taken all that may be asked for.
    spent: Instant,
    /// Nothing is served before.
    resumes: Option<Instant>,
}

impl Rate {
    pub(super) fn new(per_second: u32) -> Rate {
        let cost = Duration::from_nanos((1_000_000_000 / u64::from(per_second.max(1))).max(1));
        let burst = BURST.max(cost);
        Rate { cost, burst, requests: burst.as_nanos() / cost.as_nanos(), spent: Instant::ZERO, resumes: None }
    }

    /// Returns the number of requests that may be served now.
    #[inline]
    pub(super) fn room(&mut self, now: Instant) -> u64 {
        if self.spent <= now && self.resumes.is_none() { self.requests } else { self.room_of_busy(now) }
    }

    #[inline(never)]
    fn room_of_busy(&mut self, now: Instant) -> u64 {
        if self.resumes.is_some_and(|at| now < at) {
            return 0;
        }
        self.resumes = None;
        let ahead = self.spent.since(now).as_nanos();
        self.burst.as_nanos().saturating_sub(ahead) / self.cost.as_nanos()
    }

    /// So many were served.
    #[inline]
    pub(super) fn spend(&mut self, now: Instant, requests: u64) {
        self.spent = self.spent.max(now) + self.cost.times(requests);
    }

    /// There may be more; they wait.
    #[cold]
    pub(super) fn wait(&mut self) {
        let (burst, cost) = (self.burst.as_nanos(), self.cost.as_nanos());
        // Not before there is room for one.
        self.resumes = Some(self.spent - Duration::from_nanos((burst / 2).min(burst - cost)));
    }

    /// When those that wait are served.
    pub(super) fn resumes(&self) -> Option<Instant> {
        self.resumes
    }
}

#[cfg(test)]
mod tests;
