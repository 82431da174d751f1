//! How a worker waits: spin while that pays, then one kernel wait on everything that can bring work.
//!
//! Spinning is bounded and adaptive: of 64 idle times in a row at least half must have been shorter
//! than the limit, or the next 64 are slept through from their start. Promises: a worker that sleeps
//! wakes only for an event or the time it asked for. Does not do: arming; the caller arms everything
//! and checks it once more before `wait`, or wakes are lost.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration as StdDuration;

use ringway_shm::{Duration, Instant};
use rustix::event::{Timespec, epoll};

/// Idle times over which spinning is judged.
const JUDGED: u32 = 64;
const EVENTS_MAX: usize = 16;

/// What wakes a worker besides time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Readable as long as there is something to read: a device.
    Level,
    /// Every write counts, nobody reads: a doorbell (eventfd).
    Bell,
}

/// Waits for a worker; see the module's text.
pub(crate) struct Idle {
    epoll: OwnedFd,
    spin: Spin,
}

impl Idle {
    pub(crate) fn new(spin_limit: Duration) -> io::Result<Idle> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Idle { epoll, spin: Spin::new(spin_limit) })
    }

    /// From now on `fd` ends a wait.
    pub(crate) fn add(&self, fd: impl AsFd, source: Source) -> io::Result<()> {
        let flags = match source {
            Source::Level => epoll::EventFlags::IN,
            Source::Bell => epoll::EventFlags::IN | epoll::EventFlags::ET,
        };
        Ok(epoll::add(&self.epoll, fd, epoll::EventData::new_u64(0), flags)?)
    }

    /// `fd` ends no wait any more. To be called before it is closed: a doorbell stays open elsewhere.
    pub(crate) fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, fd)?)
    }

    /// The worker had something to do at `now`.
    #[inline]
    pub(crate) fn worked(&mut self, now: Instant) {
        self.spin.worked(now);
    }

    /// Whether to look once more rather than to sleep.
    #[inline]
    pub(crate) fn spins(&mut self, now: Instant) -> bool {
        self.spin.spins(now)
    }

    /// Waits until something happens, at most `most` (`None`: for ever).
    ///
    /// # Blocking
    /// That is its purpose.
    pub(crate) fn wait(&mut self, most: Option<Duration>) -> io::Result<()> {
        let timeout = most.map(|span| {
            let span = StdDuration::from_nanos(span.as_nanos());
            Timespec { tv_sec: span.as_secs() as i64, tv_nsec: i64::from(span.subsec_nanos()) }
        });
        let mut events = [const { std::mem::MaybeUninit::uninit() }; EVENTS_MAX];
        match epoll::wait(&self.epoll, &mut events, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Decides whether to spin.
struct Spin {
    limit: Duration,
    enabled: bool,
    judged: u32,
    short: u32,
    last_work: Instant,
    idle: bool,
}

impl Spin {
    fn new(limit: Duration) -> Spin {
        Spin { limit, enabled: limit > Duration::ZERO, judged: 0, short: 0, last_work: Instant::ZERO, idle: false }
    }

    fn worked(&mut self, now: Instant) {
        if self.idle {
            self.idle = false;
            self.judge(now.since(self.last_work) <= self.limit);
        }
        self.last_work = now;
    }

    fn judge(&mut self, short: bool) {
        self.judged += 1;
        self.short += u32::from(short);
        if self.judged == JUDGED {
            self.enabled = self.limit > Duration::ZERO && self.short * 2 >= JUDGED;
            self.judged = 0;
            self.short = 0;
        }
    }

    fn spins(&mut self, now: Instant) -> bool {
        self.idle = true;
        self.enabled && now.since(self.last_work) < self.limit
    }
}

#[cfg(test)]
mod tests;
