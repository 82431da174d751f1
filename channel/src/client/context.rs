//! Waiting: contexts, interest, events, readiness.
//!
//! A context belongs to one epoll instance or one blocking thread. Its event ring names slots whose
//! readiness *may* have changed; events can be spurious (after [`unwatch`](Client::unwatch), or from
//! an earlier owner of the context). Taking events from one context is for one thread at a time, unless it was opened for
//! [several](Usage::Threads).

use std::io;
use std::os::fd::BorrowedFd;

use super::super::ContextIndex;
use super::super::attach::{self, AttachError, WakeFd, WakeFdKey, WakeFdKind};
use super::super::layout::{CONTEXTS, DISTANT_WORDS, FIRST_SHARED, NEAR};
use super::super::lock;
use super::super::slot::{Flags, Readiness, SlotRef, State};
use super::Client;
use ringway_shm::Duration;
use ringway_shm::sync::{AtomicU64, Ordering, fence};
use ringway_shm::{doorbell, list};

/// Whether a slot is watched now; see [`Client::watch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// It is.
    Watching,
    /// The reference is stale.
    Stale,
}

/// The user of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// One thread at a time.
    OneThread,
    /// Any number at a time, each with an edge-triggered epoll instance of its own that watches the wake descriptor, which no thread makes
    /// silent: so a ring wakes all. Each takes some of the events; a thread that has armed does not disarm, since others may sleep.
    Threads,
}

impl Client {
    /// Claims a context, with a wake descriptor that the service makes for it.
    ///
    /// # Errors
    /// `ServiceGone`, `NoContext` when all are in use, or what the service said.
    pub fn open_context(&self, usage: Usage, kind: WakeFdKind) -> Result<(ContextIndex, WakeFd), AttachError> {
        self.open_context_with(usage, |control, context| attach::request_wake_fd(control, context, kind, self.fd_floor))
    }

    /// Claims a context that rings the wake descriptor with this `key`, which another worker's service has given.
    ///
    /// # Errors
    /// As [`open_context`](Self::open_context).
    pub fn share_context(&self, usage: Usage, key: WakeFdKey) -> Result<ContextIndex, AttachError> {
        self.open_context_with(usage, |control, context| attach::share_wake_fd(control, context, key))
            .map(|(context, ())| context)
    }

    fn open_context_with<T>(
        &self,
        usage: Usage,
        ask: impl FnOnce(BorrowedFd<'_>, ContextIndex) -> Result<T, AttachError>,
    ) -> Result<(ContextIndex, T), AttachError> {
        let context = self.claim_context(usage).ok_or(AttachError::NoContext)?;
        match self.exchange(|control| ask(control, context)) {
            Ok(answer) => Ok((context, answer)),
            Err(error) => {
                self.close_context(context);
                Err(error)
            }
        }
    }

    fn claim_context(&self, usage: Usage) -> Option<ContextIndex> {
        let process = self.process.load(Ordering::Relaxed);
        let first_shared = (FIRST_SHARED / 64) as usize;
        let context = self.map.contexts().claim_among(match usage {
            Usage::OneThread => 0..first_shared,
            Usage::Threads => first_shared..(CONTEXTS / 64) as usize,
        })?;
        let shared = self.map.context(context);
        shared.owner.0.store(process + 1, Ordering::Release);
        doorbell::disarm(&shared.armed.0);
        // What an earlier owner left there; its pending bits must go, or we would miss events.
        while self.next_event(context).is_some() {}
        Some(context)
    }

    /// Gives a context back. Unwatch its slots first.
    pub fn close_context(&self, context: ContextIndex) {
        doorbell::disarm(&self.map.context(context).armed.0);
        self.map.context(context).owner.0.store(0, Ordering::Release);
        self.map.contexts().give_back(context);
    }

    /// Makes changes of the slot come as events of the context. Look at the readiness after this call:
    /// only later changes are events.
    pub fn watch(&self, slot: SlotRef, context: ContextIndex) -> Watch {
        if !self.is_current(slot) {
            return Watch::Stale;
        }
        self.interest(slot.index, context).fetch_or(1 << (context % 64), Ordering::SeqCst);
        if let Some(distant) = context.checked_sub(NEAR) {
            self.slot(slot.index).distant.fetch_or(1 << (distant / 64 / DISTANT_WORDS), Ordering::SeqCst);
        }
        fence(Ordering::SeqCst);
        if self.is_current(slot) { Watch::Watching } else { Watch::Stale }
    }

    /// Ends that.
    pub fn unwatch(&self, slot: SlotRef, context: ContextIndex) {
        if self.is_current(slot) {
            self.interest(slot.index, context).fetch_and(!(1 << (context % 64)), Ordering::SeqCst);
        }
    }

    /// The word that has the context's bit for a slot; NEAR is a multiple of 64.
    fn interest(&self, index: u32, context: ContextIndex) -> &AtomicU64 {
        match context.checked_sub(NEAR) {
            None => &self.slot(index).interest[(context / 64) as usize],
            Some(distant) => &self.map.distant_interest(index)[(distant / 64) as usize],
        }
    }

    /// The next slot whose readiness may have changed since this was last told.
    pub fn next_event(&self, context: ContextIndex) -> Option<u32> {
        let shared = self.map.context(context);
        let head = shared.head.0.load(Ordering::Relaxed);
        let tail = shared.tail.0.load(Ordering::Acquire);
        if tail == head {
            return None;
        }
        if context >= NEAR {
            let index = self.map.distant_events(context).take();
            if index.is_none() {
                shared.head.0.store(tail, Ordering::Release);
            }
            // Taken before the caller looks at the slot: a change after that is a new event.
            fence(Ordering::SeqCst);
            return index;
        }
        let index = list::node(self.map.event(context, head).load(Ordering::Relaxed), self.slots());
        if let Some(index) = index {
            // Cleared before the caller looks at the slot: a change after that is a new event.
            self.slot(index).pending[(context / 64) as usize].fetch_and(!(1 << (context % 64)), Ordering::SeqCst);
            fence(Ordering::SeqCst);
        }
        shared.head.0.store(head.wrapping_add(1), Ordering::Release);
        Some(index.unwrap_or(0))
    }

    /// Whether an event waits.
    pub fn has_event(&self, context: ContextIndex) -> bool {
        let shared = self.map.context(context);
        shared.tail.0.load(Ordering::Acquire) != shared.head.0.load(Ordering::Relaxed)
    }

    /// How long looking for events may last before a sleep, as the worker thinks; zero: it has not slept itself yet, or
    /// none should. The word is shared with others: bound it.
    pub fn spin_limit(&self) -> Duration {
        Duration::from_nanos(self.map.header().spin_limit_ns.0.load(Ordering::Relaxed).into())
    }

    /// How often the worker has wished for kernel sockets: after a change some slots have the flag [`WANTED`](super::super::Flags::WANTED).
    pub fn wishes(&self) -> u32 {
        self.map.header().wishes.0.load(Ordering::Acquire)
    }

    /// How often the worker has asked for connections back that this service has handed over.
    pub fn recalls(&self) -> u32 {
        self.map.header().recalls.0.load(Ordering::Acquire)
    }

    /// Which part of its time the worker has been busy lately, thousandths; none when it sleeps. A hint.
    pub fn busy(&self) -> u32 {
        if self.worker_sleeps() { 0 } else { self.map.header().busy_per_mille.0.load(Ordering::Relaxed).min(1_000) }
    }

    /// Whether the worker sleeps, so that nothing comes before the network or an application wakes it. A hint.
    pub fn worker_sleeps(&self) -> bool {
        doorbell::is_armed(&self.map.header().worker_need_wake.0)
    }

    /// Says that the caller will sleep on the context's event descriptor. Look for events and at the
    /// readiness of what is waited for after this call, and before sleeping.
    pub fn arm(&self, context: ContextIndex) {
        doorbell::arm(&self.map.context(context).armed.0);
    }

    /// Says that the caller is awake.
    pub fn disarm(&self, context: ContextIndex) {
        doorbell::disarm(&self.map.context(context).armed.0);
    }

    /// What can be done with the slot now. Asking about a slot that is not writable also asks the
    /// worker to signal when it is. A stale reference, or a dead service, is ready for everything and
    /// in error.
    pub fn readiness(&self, slot: SlotRef) -> Readiness {
        if !self.is_current(slot) || self.known_dead() {
            return Readiness { readable: true, writable: true, error: true, hung_up: true, peer_closed: true };
        }
        let shared = self.slot(slot.index);
        let (state, flags, error) = (shared.state(), shared.flags(), shared.error().is_some());
        let hung_up = flags.has(Flags::HUNG_UP) || state == State::Free;
        let peer_closed = flags.has(Flags::PEER_CLOSED) || hung_up;
        let readable = match state {
            State::Listening => shared.unaccepted() > 0,
            State::Connecting => false,
            State::Free | State::Closed => true,
            State::Connected => shared.unread() > 0 || peer_closed,
        };
        let over = hung_up || flags.has(Flags::WRITE_CLOSED) || state == State::Closed;
        let writable = match state {
            State::Listening | State::Connecting => false,
            _ if over => true,
            _ => self.is_writable(slot.index),
        };
        Readiness { readable: readable || error, writable: writable || error, error, hung_up, peer_closed }
    }

    pub(super) fn is_writable(&self, index: u32) -> bool {
        let shared = self.slot(index);
        if !shared.has_write_room() {
            shared.tx_waiting.store(1, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            if !shared.has_write_room() {
                return false;
            }
        }
        if !self.has_tx_chunk(shared) {
            // When nothing of the slot waits any more, a small chunk may do.
            shared.tx_waiting.store(1, Ordering::SeqCst);
            self.note_starved(index);
            return self.has_tx_chunk(shared);
        }
        true
    }

    /// Takes the control connection for this thread. Its holder waits for the service, which answers or dies.
    pub(super) fn lock_control(&self) -> Result<lock::Held<'_>, AttachError> {
        lock::acquire(&self.control_lock, self.owner(), || true).map_err(|_| AttachError::ServiceGone)
    }

    /// Exchanges one message with the service while no other thread does.
    pub(super) fn exchange<T>(&self, exchange: impl FnOnce(BorrowedFd<'_>) -> Result<T, AttachError>) -> Result<T, AttachError> {
        let _lock = self.lock_control()?;
        if self.known_dead() {
            return Err(AttachError::ServiceGone);
        }
        let result = crate::sys::with_fd(self.control_fd(), exchange);
        if let Err(AttachError::System(error)) = &result
            && matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
        {
            return Err(AttachError::ServiceGone);
        }
        result
    }
}
