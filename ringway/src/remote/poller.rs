//! Waiting for many: reports which of the added sources are ready.
//!
//! Promises: level-triggered, and the cost of a wait follows the sources that have changed, not those that were added.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ringway_channel::{Readiness, SlotRef};

use super::session::{Session, gone};
use super::stream::{self, Stream};
use super::wait::{Waiter, deadline, lock};
use super::{Listener, UdpSocket};
use ringway_engine::clock;

/// Conditions to wait for. Errors and hang-ups are always reported.
///
/// ```
/// use ringway::remote::Interest;
///
/// let to_read = Interest { readable: true, writable: false };
/// assert!(!to_read.writable);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    /// Bytes, connections, datagrams, or the end of the stream.
    pub readable: bool,
    /// Space to write.
    pub writable: bool,
}

impl Interest {
    /// Only reading.
    pub const READABLE: Interest = Interest { readable: true, writable: false };
    /// Only writing.
    pub const WRITABLE: Interest = Interest { readable: false, writable: true };
    /// Both.
    pub const BOTH: Interest = Interest { readable: true, writable: true };

    fn concerns(self, readiness: &Readiness) -> bool {
        self.readable && readiness.readable || self.writable && readiness.writable || readiness.error || readiness.hung_up
    }
}

/// A source that is ready.
///
/// ```
/// use ringway::remote::Event;
///
/// /// The tokens of sources that can be read.
/// fn readable(events: &[Event]) -> Vec<u64> {
///     events.iter().filter(|event| event.readiness.readable).map(|event| event.token).collect()
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// Token under which the source was added.
    pub token: u64,
    /// Operations that it can do.
    pub readiness: Readiness,
}

/// An object that can be waited for.
///
/// ```
/// use ringway::remote::{Interest, Poller, Source};
///
/// fn watch(poller: &Poller, source: &impl Source, token: u64) {
///     poller.add(source, token, Interest { readable: true, writable: true });
/// }
/// ```
pub trait Source {
    #[doc(hidden)]
    fn parts(&self) -> Parts;
}

/// State that a [`Poller`] keeps of a source.
#[doc(hidden)]
#[derive(Clone)]
pub struct Parts {
    slot: SlotRef,
    lent: Option<Arc<AtomicU32>>,
}

impl Source for Stream {
    fn parts(&self) -> Parts {
        Parts { slot: self.slot, lent: Some(self.lent.clone()) }
    }
}

impl Source for Listener {
    fn parts(&self) -> Parts {
        Parts { slot: self.slot, lent: None }
    }
}

impl Source for UdpSocket {
    fn parts(&self) -> Parts {
        Parts { slot: self.slot, lent: None }
    }
}

/// Waits for many sources of one session. For one waiting thread at a time; others may add and remove meanwhile.
///
/// In an event loop of the program's own (epoll, mio, tokio) the descriptor of [`AsFd`] stands for all sources: it is readable until
/// [`try_wait`](Poller::try_wait) has returned no event, and may be so once more without one. It stays the poller's: it must not
/// be read, written or changed.
///
/// ```
/// use ringway::remote::{Interest, Poller, Session, Stream};
/// use std::time::Duration;
///
/// fn wait_for_two(session: &Session, streams: [&Stream; 2]) -> std::io::Result<()> {
///     let poller = Poller::new(session)?;
///     for (token, stream) in streams.into_iter().enumerate() {
///         poller.add(stream, token as u64, Interest { readable: true, writable: false });
///     }
///     let mut events = Vec::new();
///     poller.wait(&mut events, Some(Duration::from_secs(1)))?;
///     for event in &events {
///         println!("{}: {:?}", event.token, event.readiness);
///     }
///     Ok(())
/// }
/// ```
pub struct Poller {
    session: Session,
    waiter: Waiter,
    /// Ends a wait of another thread.
    nudge: OwnedFd,
    sources: Mutex<Sources>,
    /// [`notify`](Poller::notify) was called.
    notified: AtomicBool,
}

#[derive(Default)]
struct Sources {
    entries: HashMap<u32, Entry>,
    /// Slots to check: they have changed, or were ready at the last check.
    hot: VecDeque<u32>,
}

struct Entry {
    parts: Parts,
    token: u64,
    interest: Interest,
    is_hot: bool,
}

impl Poller {
    /// Creates a poller without sources.
    ///
    /// # Errors
    /// The service is gone, or all wait contexts of the session are in use.
    pub fn new(session: &Session) -> io::Result<Poller> {
        let (waiter, nudge) = Waiter::open_with_nudge(session.client())?;
        waiter.watch_service(session.client())?;
        Ok(Poller { session: session.clone(), waiter, nudge, sources: Mutex::default(), notified: AtomicBool::new(false) })
    }

    /// Adds `source`, which events name by `token`; adding it again replaces both. The caller must remove it before
    /// dropping it.
    pub fn add(&self, source: &impl Source, token: u64, interest: Interest) {
        let parts = source.parts();
        let mut sources = lock(&self.sources);
        let index = parts.slot.index;
        let was_hot = sources.entries.get(&index).is_some_and(|entry| entry.is_hot);
        self.session.client().watch(parts.slot, self.waiter.context);
        sources.entries.insert(index, Entry { parts, token, interest, is_hot: true });
        if !was_hot {
            sources.hot.push_back(index);
        }
        drop(sources);
        self.ring();
    }

    /// Removes `source`.
    pub fn remove(&self, source: &impl Source) {
        let parts = source.parts();
        self.session.client().unwatch(parts.slot, self.waiter.context);
        let mut sources = lock(&self.sources);
        if sources.entries.remove(&parts.slot.index).is_some_and(|entry| entry.is_hot) {
            sources.hot.retain(|&index| index != parts.slot.index);
        }
    }

    /// Ends a wait in progress, or the next one.
    pub fn notify(&self) {
        self.notified.store(true, Ordering::Release);
        self.ring();
    }

    fn ring(&self) {
        // A full counter rings already.
        rustix::io::write(&self.nudge, &1u64.to_ne_bytes()).unwrap_or_default();
    }

    /// Fills `events` (after clearing it) with up to 1024 ready sources; with none after `timeout` or
    /// [`notify`](Self::notify).
    ///
    /// # Errors
    /// ECONNRESET if the service has died; the errors of poll(2).
    ///
    /// # Blocking
    /// Until a source is ready, at most for `timeout`.
    pub fn wait(&self, events: &mut Vec<Event>, timeout: Option<Duration>) -> io::Result<()> {
        self.wait_for(events, EVENTS_MAX, timeout)
    }

    /// Like [`wait`](Self::wait), for up to `max` sources; the others come first the next time.
    ///
    /// # Errors
    /// The errors of `wait`.
    pub fn wait_for(&self, events: &mut Vec<Event>, max: usize, timeout: Option<Duration>) -> io::Result<()> {
        events.clear();
        if self.collect(events, max) {
            return Ok(());
        }
        let deadline = timeout.map(deadline);
        let client = self.session.client();
        let answer = loop {
            client.arm(self.waiter.context);
            if self.collect(events, max) || self.notified.swap(false, Ordering::AcqRel) {
                break Ok(());
            }
            if client.known_dead() {
                break Err(gone());
            }
            if deadline.is_some_and(|at| at <= clock::now()) {
                break Ok(());
            }
            if let Err(error) = self.waiter.sleep(client, None, deadline) {
                break Err(error);
            }
        };
        client.disarm(self.waiter.context);
        answer
    }

    /// Fills `events` (after clearing it) with up to 1024 sources that can do something, without waiting.
    ///
    /// When there are none, the poller's descriptor becomes readable as soon as one can do something, or after
    /// [`notify`](Self::notify). When there are some, it stays readable.
    ///
    /// # Errors
    /// ECONNRESET when the service has died.
    ///
    /// # Blocking
    /// Never.
    pub fn try_wait(&self, events: &mut Vec<Event>) -> io::Result<()> {
        self.try_wait_for(events, EVENTS_MAX)
    }

    /// Like [`try_wait`](Self::try_wait), for up to `max` sources; the others come first the next time.
    ///
    /// # Errors
    /// As `try_wait`.
    pub fn try_wait_for(&self, events: &mut Vec<Event>, max: usize) -> io::Result<()> {
        events.clear();
        let client = self.session.client();
        self.waiter.silence();
        client.arm(self.waiter.context);
        if self.collect(events, max) {
            client.disarm(self.waiter.context);
            self.ring();
            return Ok(());
        }
        self.notified.store(false, Ordering::Release);
        if client.service_alive() { Ok(()) } else { Err(gone()) }
    }

    /// Looks at what is hot; whether anything can be done.
    fn collect(&self, events: &mut Vec<Event>, max: usize) -> bool {
        let mut sources = lock(&self.sources);
        while let Some(index) = self.session.client().next_event(self.waiter.context) {
            if let Some(entry) = sources.entries.get_mut(&index)
                && !std::mem::replace(&mut entry.is_hot, true)
            {
                sources.hot.push_back(index);
            }
        }
        // Slots beyond the limit come first the next time.
        for _ in 0..sources.hot.len().min(max) {
            let Some(index) = sources.hot.pop_front() else { break };
            let Some(entry) = sources.entries.get_mut(&index) else { continue };
            let readiness = self.readiness(&entry.parts);
            entry.is_hot = entry.interest.concerns(&readiness);
            if entry.is_hot {
                events.push(Event { token: entry.token, readiness });
                sources.hot.push_back(index);
            }
        }
        !events.is_empty()
    }

    fn readiness(&self, parts: &Parts) -> Readiness {
        match &parts.lent {
            Some(lent) => stream::readiness(&self.session, parts.slot, lent),
            None => self.session.client().readiness(parts.slot),
        }
    }
}

/// Most sources that one wait reports.
const EVENTS_MAX: usize = 1024;

impl AsFd for Poller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.waiter.wake_fd.as_fd()
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        let client = self.session.client();
        for entry in lock(&self.sources).entries.values() {
            client.unwatch(entry.parts.slot, self.waiter.context);
        }
        client.close_context(self.waiter.context);
    }
}
