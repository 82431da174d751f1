//! The loads of the workers, and which of them should give flow groups to which.
//!
//! Each tells of itself while it works ([`Loads::told`]); one that has reported nothing for a while sleeps. A worker that is
//! busy for much
//! of its time gives to the least busy one, where the difference is worth it, a part of its groups: half of what would make
//! both equal if all groups were alike, since they are not. Then both are left alone until their figures tell what that
//! has changed. So a worker that one long flow keeps busy gives one part after the other until the short ones are elsewhere,
//! and takes them back when the long one has ended. Does not do: knowing groups.

use ringway_shm::{Duration, Instant};

/// A worker gives nothing unless it is busier than another by more than this part of its load: smaller differences are chance.
const DIFFERENCE: f64 = 1.0 / 3.0;
/// A worker that has reported nothing for this long is not busy.
const SILENCE: Duration = Duration::from_millis(300);
/// The time that the figures need to show the effect of a change.
const REST: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug)]
struct Load {
    busy: f64,
    told_at: Instant,
    rests_until: Instant,
}

/// The known load of each worker.
#[derive(Debug)]
pub(super) struct Loads {
    of: Vec<Load>,
    /// A worker below this load has time for all its flows.
    busy: f64,
}

/// The groups that a worker should give.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Relief {
    pub(super) to: usize,
    /// Which share of its groups, above 0, below 1.
    pub(super) share: f64,
}

impl Loads {
    /// Loads of this many workers; one that is busy for more than `percent` of its time gives some.
    pub(super) fn new(workers: usize, percent: u32) -> Loads {
        let load = Load { busy: 0.0, told_at: Instant::ZERO, rests_until: Instant::ZERO };
        Loads { of: vec![load; workers], busy: f64::from(percent) / 100.0 }
    }

    /// `worker` has been busy for this share of its time lately.
    pub(super) fn told(&mut self, now: Instant, worker: usize, busy: f64) {
        (self.of[worker].busy, self.of[worker].told_at) = (busy, now);
    }

    /// Returns the groups that `worker`, which has just reported, should give, and the receiver.
    pub(super) fn relief(&self, now: Instant, worker: usize) -> Option<Relief> {
        let own = self.busy(now, worker);
        let others = (0..self.of.len()).filter(|&other| other != worker);
        let to = others.min_by(|&one, &other| self.busy(now, one).total_cmp(&self.busy(now, other)))?;
        let difference = own - self.busy(now, to);
        let rests = [worker, to].iter().any(|&one| now < self.of[one].rests_until);
        (own > self.busy && difference > own * DIFFERENCE && !rests).then(|| Relief { to, share: difference / own / 4.0 })
    }

    /// Groups have moved between the two.
    pub(super) fn moved(&mut self, now: Instant, from: usize, to: usize) {
        for worker in [from, to] {
            self.of[worker].rests_until = now + REST;
        }
    }

    fn busy(&self, now: Instant, worker: usize) -> f64 {
        let load = &self.of[worker];
        if now.since(load.told_at) > SILENCE { 0.0 } else { load.busy }
    }
}

#[cfg(test)]
mod tests;
