//! The time at which a sleeping worker wakes, kept by the kernel from one sleep to the next.
//!
//! A wait with a time limit of its own sets the processor's timer when it begins, and again when it ends early: two exits to the
//! hypervisor on a virtual machine, for a deadline that moves on with each packet and is seldom reached. So an alarm that
//! was set for an earlier deadline is left as it is while sleeps come often: it wakes the worker once for nothing, and is set
//! anew then. Promises: it goes off at the time that was last asked for, or sooner. Does not do: reading; who watches it
//! does so edge-triggered, and looks at the clock when he wakes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ringway_shm::{Duration, Instant};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime};

/// An alarm that is too early is left where so many sleeps or more are to be expected before it.
const SLEEPS_MIN: u64 = 4;
/// And only so far ahead: probes and retransmissions move on with packets, what is later seldom does, and whoever has come to rest
/// is woken for nothing within this time or not at all.
const LEFT_MAX: Duration = Duration::from_millis(300);

/// See the module's text.
pub(super) struct Alarm {
    timer: OwnedFd,
    set_for: Option<Instant>,
    /// How far ahead that was.
    ahead: Duration,
    /// When the last sleep began.
    last_sleep: Instant,
}

impl Alarm {
    pub(super) fn new() -> io::Result<Alarm> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        Ok(Alarm { timer, set_for: None, ahead: Duration::ZERO, last_sleep: Instant::ZERO })
    }

    /// A sleep begins at `now` that is to end at `until`, which is later (`None`: never).
    pub(super) fn keep(&mut self, now: Instant, until: Option<Instant>) -> io::Result<()> {
        let period = now.since(std::mem::replace(&mut self.last_sleep, now));
        // What was asked for until now has gone off.
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
