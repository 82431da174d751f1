//! Waiting: one kernel wait that covers the stack, the service's life and kernel descriptors.
//!
//! A `Waiter` is a wait context of the region with its bell (an eventfd). They are pooled: a call that must block takes
//! one, uses it and puts it back, so the process needs as many as it has threads that block at the same moment. The
//! pool takes no lock: it may be used from signal handlers and does not break when a handler jumps out of a wait (that
//! context is then lost to the pool).
//!
//! The order that loses no wake-up: watch, then in a loop { drop old events, arm, look, sleep }.

use crate::Posix;
use crate::channel::{Channel, Context};
use crate::courtesy::look_at;
use crate::descriptions::Flag;
use crate::errno::{Answer, Errno};
use crate::fallback::{Fd, SignalMask};
use crate::fd_table::{Entry, SocketRef};
use ringway_shm::{Duration, Instant};
use std::os::fd::IntoRawFd;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

/// The process's wait contexts.
pub(crate) struct WaitPool {
    cells: Box<[Cell]>,
    /// This process will soon be forbidden system calls that its own code does not make.
    confined: AtomicBool,
}

struct Cell {
    state: AtomicU32,
    context: AtomicU32,
    bell: AtomicI32,
}

impl WaitPool {
    pub(crate) fn new() -> WaitPool {
        let cell = || Cell { state: AtomicU32::new(EMPTY), context: AtomicU32::new(0), bell: AtomicI32::new(-1) };
        WaitPool { cells: (0..CELLS).map(|_| cell()).collect(), confined: AtomicBool::new(false) }
    }

    pub(crate) fn is_confined(&self) -> bool {
        self.confined.load(Ordering::Relaxed)
    }

    fn claim(&self, from: u32) -> Option<usize> {
        self.cells.iter().position(|cell| {
            cell.state.load(Ordering::Relaxed) == from
                && cell.state.compare_exchange(from, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok()
        })
    }
}

/// A wait context in use by one thread.
pub struct Waiter<'a> {
    posix: &'a Posix,
    channel: &'a dyn Channel,
    context: Context,
    bell: Fd,
    cell: usize,
}

/// What a blocking call waits for.
#[derive(Clone, Copy)]
pub(crate) struct Wait {
    /// The socket whose changes matter.
    pub(crate) socket: SocketRef,
    /// A kernel descriptor that matters too (a listener's twin).
    pub(crate) twin: Option<Fd>,
    /// When to give up with EAGAIN.
    pub(crate) deadline: Option<Instant>,
}

impl<'a> Waiter<'a> {
    /// The context, for `watch` and events.
    pub fn context(&self) -> Context {
        self.context
    }

    /// The bell that the service rings.
    pub fn bell(&self) -> Fd {
        self.bell
    }

    /// Announces the wish to sleep: forgets old events and asks for a ring. Look at your sockets after this.
    pub fn prepare(&self) {
        self.forget_events();
        self.channel.arm(self.context);
    }

    pub(crate) fn forget_events(&self) {
        while self.channel.next_event(self.context).is_some() {}
    }

    /// Gives way before a sleep; whether an event has come meanwhile. Only those after `forget_events` count.
    pub(crate) fn give_way(&self) -> bool {
        let look = || look_at(self.channel, self.context);
        self.posix.courtesy.give_way(&*self.posix.kernel, self.channel.spin_limit(), look)
    }

    /// The one kernel wait. `set[0]` and `set[1]` are filled in here (bell, control connection); the caller's own kernel
    /// descriptors follow, and their `revents` are valid after `Ok`.
    ///
    /// # Errors
    /// EINTR when a signal handler ran; what ppoll(2) says else.
    pub fn sleep(&self, set: &mut [libc::pollfd], deadline: Option<Instant>, mask: Option<SignalMask>) -> Answer<usize> {
        // What makes a bell silent again may be forbidden, and kill: a confined process looks again every millisecond.
        let confined = self.posix.waits.confined.load(Ordering::Relaxed);
        let bell = if confined { -1 } else { self.bell };
        set[0] = libc::pollfd { fd: bell, events: libc::POLLIN, revents: 0 };
        // Once the death is known, the hung-up connection would end every wait at once.
        let control = if self.posix.service_is_dead() { -1 } else { self.channel.control_descriptor() };
        set[1] = libc::pollfd { fd: control, events: libc::POLLIN, revents: 0 };
        let timeout = self.posix.until_next_look(deadline.map(|deadline| deadline.since(self.posix.kernel.now())));
        let look = Duration::from_millis(1);
        let timeout = if confined { Some(timeout.map_or(look, |timeout| timeout.min(look))) } else { timeout };
        let mut ready = self.posix.kernel.poll(set, timeout, mask)?;
        if set[0].revents != 0 {
            self.posix.silence(self.bell);
            ready -= 1;
        }
        if set[1].revents & (libc::POLLHUP | libc::POLLERR) != 0 {
            self.posix.note_service_death();
        }
        ready -= usize::from(set[1].revents != 0);
        Ok(ready)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.channel.disarm(self.context);
        self.posix.waits.cells[self.cell].state.store(FREE, Ordering::Release);
    }
}

impl Posix {
    /// A wait context for the calling thread; `None` when this process is not attached or no context is left.
    pub fn waiter(&self) -> Option<Waiter<'_>> {
        let channel = self.attached()?;
        if let Some(cell) = self.waits.claim(FREE) {
            let held = &self.waits.cells[cell];
            let context = Context(held.context.load(Ordering::Relaxed) as u16);
            return Some(Waiter { posix: self, channel, context, bell: held.bell.load(Ordering::Relaxed), cell });
        }
        let cell = self.waits.claim(EMPTY)?;
        match self.new_context(channel) {
            Some((context, bell)) => {
                self.waits.cells[cell].context.store(u32::from(context.0), Ordering::Relaxed);
                self.waits.cells[cell].bell.store(bell, Ordering::Relaxed);
                Some(Waiter { posix: self, channel, context, bell, cell })
            }
            None => {
                self.waits.cells[cell].state.store(EMPTY, Ordering::Release);
                None
            }
        }
    }

    /// A new bell and its context, for the pool or for an epoll instance.
    pub(crate) fn new_context(&self, channel: &dyn Channel) -> Option<(Context, Fd)> {
        let (context, bell) = channel.claim_context()?;
        let bell = bell.into_raw_fd();
        self.table.set(bell, Entry::Internal);
        Some((context, bell))
    }

    /// Takes the event of a bell.
    fn silence(&self, bell: Fd) {
        let mut event = [libc::epoll_event { events: 0, u64: 0 }];
        // A bell that has not rung is silent.
        self.kernel.epoll_wait(bell, &mut event, Some(Duration::ZERO), None).ok();
    }

    /// Closes a descriptor of our own.
    pub(crate) fn discard_internal(&self, fd: Fd) {
        self.table.take(fd);
        if self.kernel.close(fd).is_err() {
            self.counters.count(crate::Fallback::CloseFailed);
        }
    }

    /// System calls are about to be filtered.
    pub(crate) fn confine_waits(&self) {
        self.waits.confined.store(true, Ordering::Relaxed);
    }

    /// Makes one wait context now, for a process that will soon be forbidden to.
    pub fn provide_waiter(&self) {
        drop(self.waiter());
    }

    /// In a forked child: the parent's contexts are not ours.
    pub(crate) fn forget_waiters(&self) {
        for cell in &self.waits.cells {
            let bell = cell.bell.swap(-1, Ordering::Relaxed);
            cell.state.store(EMPTY, Ordering::Relaxed);
            if bell >= 0 {
                self.discard_internal(bell);
            }
        }
    }

    /// Blocks until `attempt` answers, the deadline passes (EAGAIN), a signal handler runs that does not want calls taken
    /// up again (EINTR), or the service dies (ECONNRESET).
    pub(crate) fn block_on<T>(&self, wait: Wait, mut attempt: impl FnMut() -> Option<Answer<T>>) -> Answer<T> {
        let Some(waiter) = self.waiter() else { return self.block_without_context(wait, attempt) };
        waiter.channel.watch(wait.socket, waiter.context);
        let answer = self.block_with(&waiter, wait, &mut attempt);
        waiter.channel.unwatch(wait.socket, waiter.context);
        answer
    }

    fn block_with<T>(&self, waiter: &Waiter<'_>, wait: Wait, attempt: &mut dyn FnMut() -> Option<Answer<T>>) -> Answer<T> {
        let unused = libc::pollfd { fd: -1, events: 0, revents: 0 };
        loop {
            waiter.forget_events();
            if let Some(answer) = attempt() {
                return answer;
            }
            self.still_worth_waiting(wait)?;
            if waiter.give_way() {
                continue;
            }
            waiter.prepare();
            if let Some(answer) = attempt() {
                return answer;
            }
            self.still_worth_waiting(wait)?;
            let twin = wait.twin.map_or(unused, |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
            match waiter.sleep(&mut [unused, unused, twin], wait.deadline, None) {
                Err(Errno::INTR) if wait.deadline.is_none() && self.kernel.restarts_after_signal() => {}
                Err(error) => return attempt().unwrap_or(Err(error)),
                Ok(_) => {}
            }
        }
    }

    /// Every context of the region is taken: look again every millisecond.
    fn block_without_context<T>(&self, wait: Wait, mut attempt: impl FnMut() -> Option<Answer<T>>) -> Answer<T> {
        loop {
            if let Some(answer) = attempt() {
                return answer;
            }
            self.look_at_service();
            self.still_worth_waiting(wait)?;
            self.kernel.pause(Duration::from_millis(1));
        }
    }

    /// A listener goes on without the service: its kernel twin then gets all the traffic.
    fn still_worth_waiting(&self, wait: Wait) -> Answer<()> {
        if wait.twin.is_none() && self.service_is_dead() {
            self.descriptions.of(wait.socket).mark(Flag::DEATH_REPORTED);
            return Err(Errno::CONNRESET);
        }
        match wait.deadline {
            Some(deadline) if self.kernel.now() >= deadline => Err(Errno::AGAIN),
            _ => Ok(()),
        }
    }

    /// The deadline that a timeout option means, counted from now; 0 = none.
    pub(crate) fn deadline_after(&self, timeout_nanos: u64) -> Option<Instant> {
        (timeout_nanos != 0).then(|| self.kernel.now() + Duration::from_nanos(timeout_nanos))
    }
}

const CELLS: usize = 256;
const EMPTY: u32 = 0;
const FREE: u32 = 1;
const BUSY: u32 = 2;
