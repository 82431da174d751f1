//! Wake time of a sleeping worker, kept in the kernel from one sleep to the next.
//!
//! A wait with its own time limit sets the processor's timer when it begins, and again if it ends early: two exits to
//! the hypervisor on a virtual machine, for a deadline that moves with each packet and is seldom reached. So an alarm
//! set for an earlier deadline stays while sleeps are frequent; it wakes the worker once for nothing and is then set
//! anew. Promises: it goes off at the last requested time or earlier. Does not do: reading. The caller must watch it
//! edge-triggered and look at the clock when it wakes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ringway_shm::{Duration, Instant};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime};

/// An alarm that is too early stays if at least this many sleeps are expected before it.
const SLEEPS_MIN: u64 = 4;
/// Furthest alarm that stays. Probes and retransmissions move with packets; later deadlines seldom do, and a worker
/// that has come to rest is woken for nothing within this time or not at all.
const LEFT_MAX: Duration = Duration::from_millis(300);

/// See the module documentation.
pub(super) struct Alarm {
    timer: OwnedFd,
    set_for: Option<Instant>,
    /// Time from the setting to the alarm.
    ahead: Duration,
    /// Start of the last sleep.
    last_sleep: Instant,
}

impl Alarm {
    pub(super) fn new() -> io::Result<Alarm> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        Ok(Alarm { timer, set_for: None, ahead: Duration::ZERO, last_sleep: Instant::ZERO })
    }

    /// Begins a sleep at `now` that must end at `until`, which is later (`None`: never).
    pub(super) fn keep(&mut self, now: Instant, until: Option<Instant>) -> io::Result<()> {
        let period = now.since(std::mem::replace(&mut self.last_sleep, now));
        // An earlier setting has gone off.
        let set_for = self.set_for.filter(|&at| at > now);
        let is_early = set_for.is_some_and(|at| at.since(now) <= LEFT_MAX && until.is_none_or(|until| at < until));
        let is_left = is_early && period.times(SLEEPS_MIN) <= self.ahead;
        if set_for == until || is_left { Ok(()) } else { self.set(now, until) }
    }

    fn set(&mut self, now: Instant, until: Option<Instant>) -> io::Result<()> {
        let nanos = until.map_or(0, Instant::as_nanos);
        let at = Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 };
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &Itimerspec { it_interval: never, it_value: at })?;
        (self.set_for, self.ahead) = (until, until.map_or(Duration::ZERO, |at| at.since(now)));
        Ok(())
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}

#[cfg(test)]
mod tests;
