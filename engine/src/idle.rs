//! Waiting of a worker: spin while that pays, then one kernel wait on everything that can bring work.
//!
//! Between two looks a spinning worker yields its processor. If it shares the processor with its program, that mostly
//! passes the turn without a doorbell, a sleep or a wake-up on either side; if it is alone, the call returns at once.
//! The scheduler may also refuse (EEVDF does not run a task beyond its share) or run another task for a whole slice. So
//! the criterion is success in time, per kind of idle time (see [`Awaited`] and `judge`): at a low load the worker
//! spins for the program's answer and for a peer that answers at once, but not for requests at random times. A spin is
//! bounded by the configuration, or by the cost of a wake-up (`wakeup_cost`). Promises: a sleeping worker wakes only
//! for an event, or for the time that it asks for or asked for shortly before (`alarm`). Does not do: arming. The
//! caller must arm everything and check it once more before `wait`, or wakes are lost.

mod alarm;
mod spin_policy;
mod wakeup_cost;

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ringway_shm::{Duration, Instant};
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::Errno;

use crate::metrics::{Metrics, Work};
use alarm::Alarm;
use spin_policy::SpinPolicy;
use wakeup_cost::WakeupCost;

const EVENTS_MAX: usize = 16;
/// Number of sources of a wait that needs no allocation.
const FEW: usize = 8;
/// User data of the epoll entries.
const BELL: u64 = 0;
const ALARM: u64 = 1;
/// Each ring wakes once, although the descriptor is never read.
const EDGE: epoll::EventFlags = epoll::EventFlags::IN.union(epoll::EventFlags::ET);
const NO_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
/// Work found after this many times the limit was found by a look that came late: other tasks had the processor for a
/// slice, and a sleeper would have been woken earlier.
const LATE: u64 = 4;

/// The party that an idle time waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// Peers: the applications have nothing new to answer.
    Wire,
    /// Applications: they have just received something to answer.
    Application,
}

/// Waits for a worker; see the module documentation.
pub(crate) struct Idle {
    /// Epoll instance of all doorbells and the alarm.
    wake_fds: OwnedFd,
    alarm: Alarm,
    spin: Spin,
    /// Measured cost that sets the spin limit; `None`: the configuration sets it.
    cost: Option<WakeupCost>,
    /// For an event loop of the program's own: an epoll instance of everything that a wait here would wait for.
    exposed: Option<OwnedFd>,
}

impl Idle {
    /// Creates the wait. `spin_limit` `None`: the measured cost of wake-ups sets the limit.
    pub(crate) fn new(spin_limit: Option<Duration>) -> io::Result<Idle> {
        let wake_fds = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let cost = spin_limit.is_none().then(WakeupCost::default);
        let limit = spin_limit.unwrap_or_else(|| WakeupCost::default().spin_limit());
        let alarm = Alarm::new()?;
        epoll::add(&wake_fds, &alarm, epoll::EventData::new_u64(ALARM), EDGE)?;
        Ok(Idle { wake_fds, alarm, spin: Spin::new(limit), cost, exposed: None })
    }

    /// Adds an eventfd that is never read; every write to it ends a wait.
    pub(crate) fn add(&self, wake_fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::add(&self.wake_fds, wake_fd, epoll::EventData::new_u64(BELL), EDGE)?)
    }

    /// Removes `wake_fd`. The caller must do so before closing it, because it stays open elsewhere.
    pub(crate) fn remove(&self, wake_fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.wake_fds, wake_fd)?)
    }

    /// Notes that the worker had something to do at `now` and waits for `awaited` from now on.
    #[inline]
    pub(crate) fn worked(&mut self, now: Instant, awaited: Awaited) {
        self.spin.worked(now, awaited);
    }

    /// Returns true to look once more, false to sleep.
    #[inline]
    pub(crate) fn spins(&mut self, now: Instant) -> bool {
        self.spin.spins(now)
    }

    /// Longest spin.
    pub(crate) fn spin_limit(&self) -> Duration {
        self.spin.limit
    }

    /// Notes that a packet which arrived at `arrival` ended a wait and the worker runs since `now`; both on the same
    /// clock.
    pub(crate) fn woken_by(&mut self, arrival: Duration, now: Duration) {
        if let Some(cost) = &mut self.cost {
            cost.measured(Duration::from_nanos(now.as_nanos().saturating_sub(arrival.as_nanos())));
            self.spin.limit = cost.spin_limit();
        }
    }

    /// Writes the figures of the spin policy.
    pub(crate) fn write_metrics(&self, metrics: &mut Metrics) {
        let cost = self.cost.as_ref().and_then(WakeupCost::median);
        metrics.set(Work::WakeupCostNanos, cost.map_or(0, Duration::as_nanos));
        metrics.set(Work::SpinLimitNanos, self.spin.limit.as_nanos());
        metrics.set(Work::Spins, self.spin.spins);
        metrics.set(Work::SpinsInVain, self.spin.in_vain);
    }

    /// Yields the processor before the next look.
    #[inline]
    pub(crate) fn yield_now(&self) {
        std::thread::yield_now();
    }

    /// Waits from `now` until a wake descriptor rings or one of `devices` is readable, but not beyond `until` (`None`: for ever).
    /// Returns false if the alarm, which may go off early, or a signal ended the wait.
    ///
    /// Devices are waited for with poll(2), which stands in their wait queues only during a sleep. An epoll instance
    /// would stand there for good, and the kernel would call it for every packet that arrives or has left, however busy
    /// the worker is.
    ///
    /// # Blocking
    /// Until then.
    pub(crate) fn wait(&mut self, now: Instant, until: Option<Instant>, devices: &[BorrowedFd<'_>]) -> io::Result<bool> {
        let at_once = until.is_some_and(|at| at <= now);
        if !at_once {
            self.alarm.keep(now, until)?;
        }
        let mut few: [PollFd<'_>; FEW] =
            std::array::from_fn(|source| match source.checked_sub(1).and_then(|index| devices.get(index)) {
                Some(device) => PollFd::new(device, PollFlags::IN),
                None => PollFd::new(&self.wake_fds, PollFlags::IN),
            });
        let mut many = Vec::new();
        let sources = if devices.len() < FEW {
            &mut few[..=devices.len()]
        } else {
            many.push(PollFd::new(&self.wake_fds, PollFlags::IN));
            many.extend(devices.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
            &mut many[..]
        };
        let ready = match poll(sources, at_once.then_some(&NO_TIME)) {
            Ok(ready) => ready,
            Err(Errno::INTR) => 0,
            Err(error) => return Err(error.into()),
        };
        let is_called = ready > usize::from(!sources[0].revents().is_empty());
        if sources[0].revents().is_empty() {
            return Ok(is_called);
        }
        Ok(self.take_rings()? || is_called)
    }

    /// Opens the descriptor of [`exposed`](Self::exposed).
    pub(crate) fn open_exposed(&mut self) -> io::Result<()> {
        let exposed = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&exposed, &self.wake_fds, epoll::EventData::new_u64(BELL), epoll::EventFlags::IN)?;
        self.exposed = Some(exposed);
        Ok(())
    }

    /// Readable when the worker has something to do after [`expose`](Self::expose).
    pub(crate) fn exposed(&self) -> Option<BorrowedFd<'_>> {
        self.exposed.as_ref().map(AsFd::as_fd)
    }

    /// Prepares for a wait at the exposed descriptor instead of in [`wait`](Self::wait): takes the rings so far, sets the
    /// alarm, and adds the devices that are new. The kernel removes those that are closed.
    pub(crate) fn expose(&mut self, now: Instant, until: Option<Instant>, devices: &[BorrowedFd<'_>]) -> io::Result<()> {
        let Some(exposed) = &self.exposed else { return Ok(()) };
        self.take_rings()?;
        for device in devices {
            match epoll::add(exposed, device, epoll::EventData::new_u64(BELL), epoll::EventFlags::IN) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.alarm.keep(now, until)
    }

    /// Notes which wake descriptors rang, so that the next wait does not end for the same rings. Says whether one did, rather than the alarm.
    fn take_rings(&self) -> io::Result<bool> {
        let mut events = [const { MaybeUninit::uninit() }; EVENTS_MAX];
        match epoll::wait(&self.wake_fds, &mut events, Some(&NO_TIME)) {
            Ok((events, _)) => Ok(events.iter().any(|event| event.data.u64() == BELL)),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// Decides whether to spin.
struct Spin {
    limit: Duration,
    /// One judge for each kind of idle time.
    policies: [SpinPolicy; 2],
    awaited: Awaited,
    last_work: Instant,
    /// Start of the idle time.
    since: Instant,
    /// State of the idle time in progress.
    idle: Option<Idling>,
    /// Idle times that began with spinning, and those of them that found nothing in time.
    spins: u64,
    in_vain: u64,
}

/// State of an idle time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Idling {
    Spins,
    /// The limit was reached.
    InVain,
    /// Sleeps from its start.
    Sleeps,
}

impl Spin {
    fn new(limit: Duration) -> Spin {
        Spin {
            limit,
            policies: [SpinPolicy::new(); 2],
            awaited: Awaited::Wire,
            last_work: Instant::ZERO,
            since: Instant::ZERO,
            idle: None,
            spins: 0,
            in_vain: 0,
        }
    }

    fn worked(&mut self, now: Instant, awaited: Awaited) {
        let policy = &mut self.policies[self.awaited as usize];
        match self.idle.take() {
            Some(Idling::Sleeps) => policy.skipped(),
            Some(idling) => {
                let in_time = idling == Idling::Spins && now.since(self.last_work) < self.limit.times(LATE);
                let is_foreseen = in_time && (self.awaited == Awaited::Application || policy.is_regular(now.since(self.since)));
                policy.record(is_foreseen);
                self.spins += 1;
                self.in_vain += u64::from(!in_time);
            }
            None => {}
        }
        self.last_work = now;
        self.awaited = awaited;
    }

    fn spins(&mut self, now: Instant) -> bool {
        if self.idle.is_none() {
            self.since = now;
        }
        let skips = self.policies[self.awaited as usize].skips();
        let idling = match self.idle.unwrap_or(if skips { Idling::Sleeps } else { Idling::Spins }) {
            Idling::Spins if now.since(self.last_work) >= self.limit => Idling::InVain,
            idling => idling,
        };
        self.idle = Some(idling);
        idling == Idling::Spins
    }
}

#[cfg(test)]
mod tests;
