//! Blocking: one kernel wait on a context's wake descriptor and on the service's life.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ringway_channel::attach::{AttachError, WakeFdKind};
use ringway_channel::{Client, ContextIndex, SlotRef, Usage};
use ringway_shm::Instant;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};
use rustix::io::Errno;

use super::session::{Session, gone};
use ringway_engine::clock;

/// Nanoseconds in a second.
const NANOS: u64 = 1_000_000_000;

/// Contexts on which no call waits at present.
#[derive(Default)]
pub(super) struct Waiters(Mutex<Vec<Waiter>>);

/// A context and the descriptor by which the worker wakes the thread that sleeps on it.
pub(super) struct Waiter {
    pub(super) context: ContextIndex,
    pub(super) wake_fd: OwnedFd,
}

impl Waiter {
    pub(super) fn open(client: &Client) -> io::Result<Waiter> {
        let (context, wake_fd) = client.open_context(Usage::OneThread, WakeFdKind::Epoll).map_err(|error| match error {
            AttachError::ServiceGone => gone(),
            AttachError::System(error) => error,
            other => io::Error::other(other.to_string()),
        })?;
        Ok(Waiter { context, wake_fd: wake_fd.fd })
    }

    /// Like `open`, with an eventfd by which this program can end the wait; only the service rings the wake descriptor itself.
    pub(super) fn open_with_nudge(client: &Client) -> io::Result<(Waiter, OwnedFd)> {
        let nudge = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let waiter = Waiter::open(client)?;
        epoll::add(&waiter.wake_fd, &nudge, epoll::EventData::new_u64(0), epoll::EventFlags::IN | epoll::EventFlags::ET)?;
        Ok((waiter, nudge))
    }

    /// The end of the service makes the wake descriptor readable too.
    pub(super) fn watch_service(&self, client: &Client) -> io::Result<()> {
        let ends = epoll::EventFlags::HUP | epoll::EventFlags::ERR | epoll::EventFlags::ET;
        Ok(client.with_control(|control| epoll::add(&self.wake_fd, control, epoll::EventData::new_u64(0), ends))?)
    }

    /// Takes what has made the wake descriptor readable.
    pub(super) fn silence(&self) {
        while ringway_channel::sys::silence_wake_fd(self.wake_fd.as_raw_fd()) {}
    }

    /// Sleeps until the wake descriptor rings, the service dies, `other` can be read, or the deadline has passed.
    pub(super) fn sleep(&self, client: &Client, other: Option<BorrowedFd<'_>>, deadline: Option<Instant>) -> io::Result<()> {
        let left = deadline.map(|at| at.since(clock::now()).as_nanos());
        let timeout = left.map(|nanos| Timespec { tv_sec: (nanos / NANOS) as i64, tv_nsec: (nanos % NANOS) as i64 });
        let answer = client.with_control(|control| {
            let fds = [self.wake_fd.as_fd(), control, other.unwrap_or(control)];
            let mut set = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            let answer = poll(&mut set, timeout.as_ref());
            (answer, set[1].revents().intersects(PollFlags::HUP | PollFlags::ERR))
        });
        match answer {
            (Err(error), _) if error != Errno::INTR => return Err(error.into()),
            (_, true) => {
                client.service_alive();
            }
            _ => {}
        }
        ringway_channel::sys::silence_wake_fd(self.wake_fd.as_raw_fd());
        Ok(())
    }
}

impl Session {
    /// Calls `attempt` until its result is not EAGAIN; between two calls the thread sleeps until the slot has changed
    /// or `other` is readable. Fails with EAGAIN after the deadline.
    pub(super) fn block_on<T>(
        &self,
        slot: SlotRef,
        other: Option<BorrowedFd<'_>>,
        deadline: Option<Instant>,
        mut attempt: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        match attempt() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            other => return other,
        }
        let idle = lock(&self.0.waiters.0).pop();
        let waiter = idle.map_or_else(|| Waiter::open(self.client()), Ok)?;
        let client = self.client();
        client.watch(slot, waiter.context);
        let answer = loop {
            while client.next_event(waiter.context).is_some() {}
            client.arm(waiter.context);
            match attempt() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => break other,
            }
            if deadline.is_some_and(|at| at <= clock::now()) {
                break Err(Errno::AGAIN.into());
            }
            if let Err(error) = waiter.sleep(client, other, deadline) {
                break Err(error);
            }
        };
        client.disarm(waiter.context);
        client.unwatch(slot, waiter.context);
        lock(&self.0.waiters.0).push(waiter);
        answer
    }
}

/// The time at which `timeout` has passed; centuries count as never.
pub(super) fn deadline(timeout: Duration) -> Instant {
    let nanos = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX).min(u64::MAX / 2);
    clock::now() + ringway_shm::Duration::from_nanos(nanos)
}

/// Locks a mutex. The state behind these locks is consistent after every statement, so another thread's panic does no
/// harm.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
