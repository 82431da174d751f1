//! Waiting: one kernel wait that covers the stack, the service's life and kernel descriptors.
//!
//! A `Waiter` is a wait context of the region with its wake descriptor (an eventfd). They are pooled: a call that must block takes
//! one and puts it back, so the process needs as many as it has threads that block at the same moment. The pool takes
//! no lock: it may be used from signal handlers and survives a handler that jumps out of a wait (that context is then
//! lost to the pool).
//!
//! If no context or no wake descriptor is left, threads share one context that each process has in reserve: a ring wakes all of
//! them, and each checks its own socket. A process that has filtered its system calls waits on wake descriptors that are silenced
//! by read(2).
//!
//! The order that loses no wake-up: watch, then in a loop { drop old events, arm, look, sleep }.

use crate::Posix;
use crate::channel::{Channel, Context, Handover, Sleepers};
use crate::descriptions::Flag;
use crate::errno::{Answer, Errno};
use crate::fallback::{Fd, SignalMask};
use crate::fd_table::{Entry, SocketRef};
use crate::first_use::{FirstUse, boxed};
use crate::yield_policy::look_at;
use ringway_shm::{Duration, Instant};
use std::os::fd::IntoRawFd;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// The process's wait contexts.
pub(crate) struct WaitPool {
    /// Made when the process attaches: every program makes the pool at its start, and most never wait here.
    cells: FirstUse<[Cell; CELLS]>,
    /// Cells from this one on were never used.
    end: AtomicU32,
    /// The cell that was put back last; the next search begins there.
    last: AtomicU32,
    /// The context that threads share: its number + 1, and its wake descriptor in the upper half; 0: none yet.
    shared: AtomicU64,
    /// This process will soon be forbidden system calls that its own code does not make.
    confined: AtomicBool,
}

pub(crate) struct Cell {
    state: AtomicU32,
    context: AtomicU32,
    wake_fd: AtomicI32,
    /// Way in which a thread sleeps on it: [`Sleepers`] as a number.
    sleepers: AtomicU32,
    /// Place of the attachment whose context it is.
    attachment: AtomicUsize,
}

impl Cell {
    fn new() -> Cell {
        Cell {
            state: AtomicU32::new(EMPTY),
            context: AtomicU32::new(0),
            wake_fd: AtomicI32::new(-1),
            sleepers: AtomicU32::new(0),
            attachment: AtomicUsize::new(0),
        }
    }

    fn is_for_confined(&self) -> bool {
        self.sleepers.load(Ordering::Relaxed) == Sleepers::Confined as u32
    }
}

impl WaitPool {
    pub(crate) fn new() -> WaitPool {
        WaitPool {
            cells: FirstUse::new(),
            end: AtomicU32::new(0),
            last: AtomicU32::new(0),
            shared: AtomicU64::new(0),
            confined: AtomicBool::new(false),
        }
    }

    /// All cells. The attachment asks first, so that no signal handler has to allocate them.
    pub(crate) fn cells(&self) -> &[Cell] {
        self.cells.get_or_init(|| boxed(Cell::new))
    }

    pub(crate) fn is_confined(&self) -> bool {
        self.confined.load(Ordering::Relaxed)
    }

    fn claim(&self, from: u32) -> Option<usize> {
        let confined = self.confined.load(Ordering::Relaxed);
        let cells = self.cells();
        let fits = |number: &usize| {
            let cell = &cells[*number];
            cell.state.load(Ordering::Relaxed) == from
                && (from == EMPTY || !confined || cell.is_for_confined())
                && cell.state.compare_exchange(from, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        let last = self.last.load(Ordering::Relaxed) as usize;
        if from == FREE {
            return if fits(&last) { Some(last) } else { (0..self.used().len()).find(fits) };
        }
        let cell = (0..CELLS).find(fits)?;
        self.end.fetch_max(cell as u32 + 1, Ordering::AcqRel);
        Some(cell)
    }

    fn used(&self) -> &[Cell] {
        &self.cells()[..self.end.load(Ordering::Acquire) as usize]
    }
}

/// A wait context in use by one thread.
pub struct Waiter<'a> {
    posix: &'a Posix,
    channel: &'a dyn Channel,
    context: Context,
    wake_fd: Fd,
    sleepers: Sleepers,
    cell: usize,
    /// Place of the attachment whose context it is.
    pub(crate) attachment: usize,
}

/// How long a thread sleeps in the kernel, and with which signal mask, as ppoll(2) and epoll_pwait2(2) say it.
#[derive(Clone, Copy)]
pub(crate) struct Sleep {
    /// `None`: for ever.
    pub(crate) deadline: Option<Instant>,
    /// `None`: the thread's own.
    pub(crate) mask: Option<SignalMask>,
}

/// Condition of a blocking call.
#[derive(Clone, Copy)]
pub(crate) struct Wait {
    /// The socket that is watched.
    pub(crate) socket: SocketRef,
    /// The kernel's socket beside it, if it is watched too.
    pub(crate) shadow: Option<Shadow>,
    /// Time after which the call fails with EAGAIN.
    pub(crate) deadline: Option<Instant>,
}

/// What of the kernel's socket beside a socket of the stack ends a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shadow {
    /// What arrives, and errors: it goes on without the service.
    Traffic(Fd),
    /// Errors alone.
    Errors(Fd),
}

impl Shadow {
    fn polled(self) -> libc::pollfd {
        let (fd, events) = match self {
            Shadow::Traffic(fd) => (fd, libc::POLLIN),
            Shadow::Errors(fd) => (fd, 0),
        };
        libc::pollfd { fd, events, revents: 0 }
    }
}

impl<'a> Waiter<'a> {
    /// The context, for `watch` and events.
    pub fn context(&self) -> Context {
        self.context
    }

    /// The wake descriptor that the service rings.
    pub fn wake_fd(&self) -> Fd {
        self.wake_fd
    }

    /// Prepares a sleep: drops old events and requests a ring. The caller must check its sockets after this.
    pub fn prepare(&self) {
        self.forget_events();
        self.channel.arm(self.context);
    }

    pub(crate) fn forget_events(&self) {
        while self.channel.next_event(self.context).is_some() {}
    }

    /// Yields before a sleep; returns true if an event has come meanwhile. Only events after `forget_events` count.
    pub(crate) fn yield_now(&self) -> bool {
        let look = || look_at(self.channel, self.context);
        self.posix.yield_policy.yield_now(&*self.posix.kernel, self.channel.spin_limit(), look)
    }

    /// The one kernel wait. It fills `set[0]` and `set[1]` (wake descriptor, control connection); the caller's kernel descriptors
    /// follow, and their `revents` are valid after `Ok`.
    ///
    /// # Errors
    /// EINTR if a signal handler ran; others of ppoll(2).
    pub fn sleep(&self, set: &mut [libc::pollfd], deadline: Option<Instant>, mask: Option<SignalMask>) -> Answer<usize> {
        set[0] = libc::pollfd { fd: self.wake_fd, events: libc::POLLIN, revents: 0 };
        // After the death the hung-up connection would end every wait at once.
        let control = if self.posix.service_is_dead() { -1 } else { self.channel.control_descriptor() };
        set[1] = libc::pollfd { fd: control, events: libc::POLLIN, revents: 0 };
        let timeout = self.posix.until_next_look(deadline.map(|deadline| deadline.since(self.posix.kernel.now())));
        let mut ready = self.posix.kernel.poll(set, timeout, mask)?;
        if set[0].revents != 0 {
            self.posix.silence(self.wake_fd, self.sleepers);
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
        if self.sleepers != Sleepers::Several {
            self.channel.disarm(self.context);
        }
        if self.attachment != self.posix.attachment.present().0 {
            return self.posix.empty_cell(&self.posix.waits.cells()[self.cell]);
        }
        self.posix.waits.last.store(self.cell as u32, Ordering::Relaxed);
        self.posix.waits.cells()[self.cell].state.store(FREE, Ordering::Release);
    }
}

impl Posix {
    /// Takes a wait context for the calling thread; `None` if this process is not attached, or if no context or no
    /// descriptor is left.
    pub fn waiter(&self) -> Option<Waiter<'_>> {
        let (attachment, channel) = self.attachment.present();
        let channel = channel?;
        let waiter = |cell: usize| {
            let held = &self.waits.cells()[cell];
            let context = Context(held.context.load(Ordering::Relaxed) as u16);
            let sleepers = match held.sleepers.load(Ordering::Relaxed) {
                sleepers if sleepers == Sleepers::One as u32 => Sleepers::One,
                sleepers if sleepers == Sleepers::Several as u32 => Sleepers::Several,
                _ => Sleepers::Confined,
            };
            Waiter { posix: self, channel, context, wake_fd: held.wake_fd.load(Ordering::Relaxed), sleepers, cell, attachment }
        };
        while let Some(cell) = self.waits.claim(FREE) {
            let held = &self.waits.cells()[cell];
            if held.attachment.load(Ordering::Relaxed) == attachment {
                return Some(waiter(cell));
            }
            // An earlier service's.
            self.empty_cell(held);
        }
        let cell = self.waits.claim(EMPTY)?;
        let held = &self.waits.cells()[cell];
        let confined = self.waits.confined.load(Ordering::Relaxed);
        let sleepers = if confined { Sleepers::Confined } else { Sleepers::One };
        let own = self.new_context(channel, sleepers).map(|(context, wake_fd)| (context, wake_fd, sleepers));
        let Some((context, wake_fd, sleepers)) = own.or_else(|| self.shared_wake_fd(channel).filter(|_| !confined)) else {
            held.state.store(EMPTY, Ordering::Release);
            return None;
        };
        held.attachment.store(attachment, Ordering::Relaxed);
        held.context.store(u32::from(context.0), Ordering::Relaxed);
        held.wake_fd.store(wake_fd, Ordering::Relaxed);
        held.sleepers.store(sleepers as u32, Ordering::Relaxed);
        Some(waiter(cell))
    }

    /// Makes a wake descriptor and its context, for the pool or for an epoll instance.
    pub(crate) fn new_context(&self, channel: &dyn Channel, sleepers: Sleepers) -> Option<(Context, Fd)> {
        let (context, wake_fd) = channel.claim_context(sleepers)?;
        let wake_fd = wake_fd.into_raw_fd();
        self.table.set(wake_fd, Entry::Internal);
        Some((context, wake_fd))
    }

    /// Makes a wake descriptor for this thread that rings with the context in reserve.
    fn shared_wake_fd(&self, channel: &dyn Channel) -> Option<(Context, Fd, Sleepers)> {
        let (context, wake_fd) = self.shared_context(channel)?;
        let own = self.park(self.kernel.epoll_create(libc::EPOLL_CLOEXEC).ok()?);
        let ring = libc::epoll_event { events: (libc::EPOLLIN | libc::EPOLLET) as u32, u64: 0 };
        if self.kernel.epoll_control(own, libc::EPOLL_CTL_ADD, wake_fd, Some(ring)).is_err() {
            self.discard_internal(own);
            return None;
        }
        Some((context, own, Sleepers::Several))
    }

    fn shared_context(&self, channel: &dyn Channel) -> Option<(Context, Fd)> {
        let parts = |word: u64| (Context((word as u16).wrapping_sub(1)), (word >> 32) as Fd);
        let known = self.waits.shared.load(Ordering::Acquire);
        if known != 0 {
            return Some(parts(known));
        }
        let (context, wake_fd) = self.new_context(channel, Sleepers::Several)?;
        let word = u64::from(wake_fd as u32) << 32 | u64::from(context.0 + 1);
        match self.waits.shared.compare_exchange(0, word, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Some((context, wake_fd)),
            Err(known) => {
                channel.release_context(context);
                self.discard_internal(wake_fd);
                Some(parts(known))
            }
        }
    }

    /// Takes the event of a wake descriptor.
    fn silence(&self, wake_fd: Fd, sleepers: Sleepers) {
        if sleepers == Sleepers::Confined {
            ringway_channel::sys::silence_socket(wake_fd);
            return;
        }
        let mut event = [libc::epoll_event { events: 0, u64: 0 }];
        // An error means that the wake descriptor has not rung.
        self.kernel.epoll_wait(wake_fd, &mut event, Some(Duration::ZERO), None).ok();
    }

    /// Closes one of our own descriptors.
    pub(crate) fn discard_internal(&self, fd: Fd) {
        self.table.take(fd);
        // A number that cannot be closed stays open; nothing else depends on it.
        self.kernel.close(fd).ok();
    }

    /// Prepares for a filter of system calls.
    pub(crate) fn confine_waits(&self) {
        self.waits.confined.store(true, Ordering::Relaxed);
    }

    /// Makes wait contexts for a process that will soon be forbidden to make them: as many as threads have waited at a
    /// time, but at least one and at most a few.
    pub fn provide_waiter(&self) {
        let used = self.waits.used().iter().filter(|cell| cell.state.load(Ordering::Relaxed) != EMPTY).count();
        drop((0..used.clamp(1, 8)).map(|_| self.waiter()).collect::<Vec<_>>());
    }

    /// Gives up the wake descriptor of a cell that no other thread uses.
    fn empty_cell(&self, cell: &Cell) {
        let wake_fd = cell.wake_fd.swap(-1, Ordering::Relaxed);
        if wake_fd >= 0 {
            self.discard_internal(wake_fd);
        }
        cell.state.store(EMPTY, Ordering::Release);
    }

    /// After the attachment to another service: drops the contexts of the one before. Those that threads wait on go when they return.
    pub(crate) fn renew_waiters(&self) {
        while let Some(cell) = self.waits.claim(FREE) {
            self.empty_cell(&self.waits.cells()[cell]);
        }
        self.waited_for.store(0, Ordering::Relaxed);
        self.forget_shared_context();
    }

    /// In a forked child: drops the parent's contexts.
    pub(crate) fn forget_waiters(&self) {
        for cell in self.waits.used() {
            if cell.state.load(Ordering::Relaxed) != EMPTY {
                self.empty_cell(cell);
            }
        }
        self.forget_shared_context();
    }

    fn forget_shared_context(&self) {
        let shared = self.waits.shared.swap(0, Ordering::Relaxed);
        if shared != 0 {
            self.discard_internal((shared >> 32) as Fd);
        }
    }

    /// Blocks until `attempt` returns a result, the deadline passes (EAGAIN), a signal handler without SA_RESTART runs
    /// (EINTR), or the service dies (ECONNRESET; [`Errno::MOVED`] if the kernel has the socket).
    pub(crate) fn block_on<T>(&self, wait: Wait, mut attempt: impl FnMut() -> Option<Answer<T>>) -> Answer<T> {
        let Some(waiter) = self.waiter() else { return self.block_without_context(wait, attempt) };
        waiter.channel.watch(wait.socket, waiter.context);
        let answer = self.block_with(&waiter, wait, &mut attempt);
        waiter.channel.unwatch(wait.socket, waiter.context);
        answer
    }

    fn block_with<T>(&self, waiter: &Waiter<'_>, wait: Wait, attempt: &mut dyn FnMut() -> Option<Answer<T>>) -> Answer<T> {
        let unused = libc::pollfd { fd: -1, events: 0, revents: 0 };
        let (mut in_vain, mut nap) = (false, LookAgain::default());
        loop {
            waiter.forget_events();
            if let Some(answer) = attempt() {
                return answer;
            }
            self.still_worth_waiting(wait)?;
            if waiter.yield_now() {
                continue;
            }
            waiter.prepare();
            if let Some(answer) = attempt() {
                return answer;
            }
            self.still_worth_waiting(wait)?;
            // A queue of errors that the program does not read keeps POLLERR, though there is no error to return (IP_RECVERR).
            let look = in_vain.then(|| self.kernel.now() + nap.next_span());
            let shadow = wait.shadow.filter(|_| !in_vain).map_or(unused, Shadow::polled);
            let until = [wait.deadline, look].into_iter().flatten().min();
            let mut set = [unused, unused, shadow];
            match waiter.sleep(&mut set, until, None) {
                Err(Errno::INTR) if wait.deadline.is_none() && self.kernel.restarts_after_signal() => {}
                Err(error) => return attempt().unwrap_or(Err(error)),
                Ok(_) => in_vain |= set[2].revents & libc::POLLERR != 0,
            }
        }
    }

    /// Polls with growing pauses, because no context or no descriptor is left that could wake the thread.
    fn block_without_context<T>(&self, wait: Wait, mut attempt: impl FnMut() -> Option<Answer<T>>) -> Answer<T> {
        let mut nap = LookAgain::default();
        loop {
            if let Some(answer) = attempt() {
                return answer;
            }
            self.look_at_service();
            self.still_worth_waiting(wait)?;
            self.kernel.pause(nap.next_span());
        }
    }

    /// Fails if waiting is pointless. A listener goes on without the service: its shadow then gets all the traffic.
    fn still_worth_waiting(&self, wait: Wait) -> Answer<()> {
        if !matches!(wait.shadow, Some(Shadow::Traffic(_))) && self.service_is_dead() {
            // The last that it did may have been to hand the socket over.
            if self.attached().is_some_and(|channel| channel.handover(wait.socket) == Some(Handover::Moved)) {
                return Err(Errno::MOVED);
            }
            self.descriptions.of(wait.socket).mark(Flag::DEATH_REPORTED);
            return Err(Errno::CONNRESET);
        }
        match wait.deadline {
            Some(deadline) if self.kernel.now() >= deadline => Err(Errno::AGAIN),
            _ => Ok(()),
        }
    }

    /// Deadline of a timeout option, from now; 0 = none.
    pub(crate) fn deadline_after(&self, timeout_nanos: u64) -> Option<Instant> {
        (timeout_nanos != 0).then(|| self.kernel.now() + Duration::from_nanos(timeout_nanos))
    }
}

/// Pauses of a thread that nothing can wake: 1 ms at first, 100 ms in the end.
#[derive(Default)]
pub(crate) struct LookAgain(u32);

impl LookAgain {
    pub(crate) fn next_span(&mut self) -> Duration {
        self.0 += 1;
        Duration::from_millis(u64::from(self.0.min(100)))
    }
}

/// Maximum number of threads of a process that wait at the same moment.
const CELLS: usize = 4096;
const EMPTY: u32 = 0;
const FREE: u32 = 1;
const BUSY: u32 = 2;

#[cfg(test)]
mod tests;
