//! The epoll family over sockets of the stack and the kernel's descriptors together (epoll(7)).
//!
//! The program's epoll descriptor is a real kernel epoll instance. It watches kernel descriptors; an [`InterestList`]
//! of ours watches sockets of the stack. The list's wake descriptor (which the service rings), a nudge (an eventfd of this
//! process) and the control connection are in the kernel instance too, edge-triggered, so that ONE kernel wait covers
//! both worlds. Every event has one route, so none is reported twice; only a listener is in both lists, because
//! connections may arrive on both ways. [`ends`] has the exception for an instance that fork shares.
//!
//! A wait harvests the interest list (no system call), asks the kernel only if it watches something there, and sleeps
//! only after { arm, harvest again }.

mod ends;
mod moved;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

use crate::Posix;
use crate::blocking::Sleep;
use crate::channel::{Channel, Context, State as SocketState};
use crate::errno::{Answer, Errno};
use crate::fallback::{Fd, SignalMask};
use crate::fd_table::{Descriptor, Entry, SocketRef};
use crate::first_use::{FirstUse, FirstUses, boxed};
use crate::interest::{InterestError, InterestList, State};
use crate::yield_policy::look_at;
use ends::Ends;
use libc::epoll_event;
use ringway_shm::Duration;

/// All epoll instances of the process.
pub(crate) struct Epolls {
    /// In blocks that are made at first use. They stay as long as the process, so that a thread that forks can hold their
    /// locks ([`hold_all`](Epolls::hold_all)).
    blocks: FirstUse<&'static Blocks>,
    /// Cells from this one on were never used.
    end: AtomicU32,
}

thread_local! {
    /// Locks of all instances, while this thread forks.
    static HELD: RefCell<Vec<MutexGuard<'static, Option<Instance>>>> = const { RefCell::new(Vec::new()) };
}

type Blocks = FirstUses<Block, { INSTANCES / BLOCK }>;
type Block = [Mutex<Option<Instance>>; BLOCK];

/// An epoll instance and the program's descriptor of it.
#[derive(Clone, Copy)]
struct EpollRef {
    number: u32,
    fd: Fd,
}

/// What follows if no socket of the stack is ready.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Harvest {
    /// Nothing: the thread goes on.
    Now,
    /// The thread sleeps.
    BeforeSleep,
}

/// One epoll instance.
#[derive(Default)]
struct Instance {
    list: InterestList,
    /// The wait context and its wake descriptor, once a socket of the stack is watched.
    wake_fd: Option<(Context, Ends)>,
    /// Descriptors that the kernel watches for the program; one closed without DEL stays until its number is reused.
    kernel_members: HashMap<Fd, epoll_event>,
    /// Descriptors that the kernel gets when the program arms their one-shot again.
    dormant: HashSet<Fd>,
    /// The number it was created under.
    fd: Fd,
    /// Numbers that refer to this instance.
    descriptors: u32,
    /// Threads in the kernel's wait.
    sleepers: u32,
    /// Watched by another epoll instance: the wake descriptor must ring even if no thread waits here.
    nested: bool,
    /// Waits with ready stack sockets since the kernel was asked last.
    unasked: u32,
    /// Another process has the kernel instance too (fork).
    is_shared: bool,
    /// An eventfd that all processes of a shared instance have: it rings when one of them changes the common list.
    news: Option<Fd>,
}

impl Epolls {
    pub(crate) fn new() -> Epolls {
        Epolls { blocks: FirstUse::new(), end: AtomicU32::new(0) }
    }

    /// Cells in which an instance may be; few, because each end of a socket scans them.
    fn used(&self) -> std::ops::Range<u32> {
        0..self.end.load(Ordering::Acquire)
    }

    fn cell(&self, number: u32) -> &'static Mutex<Option<Instance>> {
        let blocks: &'static Blocks = self.blocks.get_or_init(|| Box::new(Box::leak(Box::new(FirstUses::new()))));
        let block = blocks.get_or_init(number as usize / BLOCK, || boxed(Mutex::default));
        &block[number as usize % BLOCK]
    }

    fn lock(&self, number: u32) -> MutexGuard<'static, Option<Instance>> {
        // A panic under the lock cannot leave a harmful state: lists are at worst marked too much.
        self.cell(number).lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Takes all locks for this thread, before it forks: in the child no other thread would ever release one.
    fn hold_all(&self, pause: impl Fn()) {
        with_held(|held| {
            if held.is_empty() {
                held.extend(self.used().filter_map(|number| {
                    // A signal handler forks on a thread that has the lock: the child will not have the instance.
                    (0..HOLD_ATTEMPTS).find_map(|_| match self.cell(number).try_lock() {
                        Ok(cell) => Some(cell),
                        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
                        Err(TryLockError::WouldBlock) => {
                            pause();
                            None
                        }
                    })
                }));
            }
        });
    }

    /// Releases them, in parent and child.
    fn release_all(&self) {
        with_held(Vec::clear);
    }
}

/// A thread that ends, and has given its own variables back, holds nothing.
fn with_held(act: impl FnOnce(&mut Vec<MutexGuard<'static, Option<Instance>>>)) {
    HELD.try_with(|held| act(&mut held.borrow_mut())).unwrap_or_default();
}

impl Posix {
    /// Follows the creation of a kernel epoll instance as `fd`, which may watch sockets of the stack from now on.
    pub fn epoll_created(&self, fd: Fd) {
        if self.is_outside_table() {
            return;
        }
        let _inside = self.fork_gate.enter();
        for number in 0..INSTANCES as u32 {
            let mut cell = self.epolls.lock(number);
            if cell.is_none() && self.table.fits(fd) {
                *cell = Some(Instance { descriptors: 1, fd, ..Instance::default() });
                self.epolls.end.fetch_max(number + 1, Ordering::AcqRel);
                self.table.set(fd, Entry::Epoll(number));
                return;
            }
        }
    }

    /// Returns true if the process has made an instance.
    pub(crate) fn has_epoll_instances(&self) -> bool {
        !self.epolls.used().is_empty()
    }

    /// Counts another number of the instance (dup, fcntl).
    pub(crate) fn epoll_duplicated(&self, number: u32) {
        if let Some(instance) = self.epolls.lock(number).as_mut() {
            instance.descriptors += 1;
        }
    }

    /// Counts one number less; the last one ends the instance.
    pub(crate) fn epoll_released(&self, number: u32) {
        let mut cell = self.epolls.lock(number);
        let Some(instance) = cell.as_mut() else { return };
        instance.descriptors -= 1;
        if instance.descriptors > 0 {
            return;
        }
        if let (Some((context, ends)), Some(channel)) = (instance.wake_fd, self.attached()) {
            for socket in instance.list.sockets() {
                channel.unwatch(socket, context);
            }
            channel.release_context(context);
            self.discard_ends(ends);
        }
        instance.news.into_iter().for_each(|news| self.discard_internal(news));
        *cell = None;
    }

    /// `epoll_ctl(2)`. `None`: the kernel's call.
    pub fn epoll_control(&self, epoll: Fd, operation: i32, fd: Fd, event: Option<epoll_event>) -> Option<Answer<()>> {
        let Entry::Epoll(number) = self.table.lookup(epoll) else { return None };
        let at = EpollRef { number, fd: epoll };
        match self.entry_of(fd) {
            Entry::Socket(socket) => {
                let key = Descriptor { fd, socket };
                let answer = match (operation, event) {
                    (libc::EPOLL_CTL_ADD, Some(event)) => self.epoll_add(number, epoll, key, event),
                    (libc::EPOLL_CTL_MOD, Some(event)) => self.epoll_modify(number, epoll, key, event),
                    (libc::EPOLL_CTL_DEL, _) => self.epoll_delete(number, epoll, key),
                    (libc::EPOLL_CTL_ADD | libc::EPOLL_CTL_MOD, None) => Err(Errno::FAULT),
                    _ => Err(Errno::INVAL),
                };
                Some(self.control_moved(at, key, (operation, event), answer))
            }
            Entry::Internal => Some(Err(Errno::BADF)),
            Entry::Epoll(inner) => {
                if operation == libc::EPOLL_CTL_ADD {
                    self.note_watched(inner);
                }
                Some(self.epoll_control_kernel(at, operation, fd, event))
            }
            Entry::None => Some(self.epoll_control_kernel(at, operation, fd, event)),
        }
    }

    fn epoll_control_kernel(&self, at: EpollRef, operation: i32, fd: Fd, event: Option<epoll_event>) -> Answer<()> {
        let answer = self.kernel.epoll_control(at.fd, operation, fd, event);
        self.control_dormant(at, (operation, fd), event, answer)?;
        if let Some(instance) = self.epolls.lock(at.number).as_mut() {
            match (operation, event) {
                (libc::EPOLL_CTL_ADD | libc::EPOLL_CTL_MOD, Some(event)) => {
                    instance.kernel_members.insert(fd, event);
                    instance.list.note_kernel_files();
                }
                (libc::EPOLL_CTL_DEL, _) => {
                    instance.kernel_members.remove(&fd);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn epoll_add(&self, number: u32, epoll: Fd, key: Descriptor, event: epoll_event) -> Answer<()> {
        let channel = self.attached().ok_or(Errno::BADF)?;
        let mut cell = self.epolls.lock(number);
        let instance = cell.as_mut().ok_or(Errno::BADF)?;
        self.epoll_follow(instance);
        let context = self.epoll_context(instance, epoll, channel)?;
        if let (true, Some(context)) = (instance.list.add(key, event.events, event.u64).map_err(refusal)?, context) {
            channel.watch(key.socket, context);
        }
        let for_shadow = Some(self.shadow_event(key.socket, event));
        if self.has_shadow(key.socket) && self.kernel.epoll_control(epoll, libc::EPOLL_CTL_ADD, key.fd, for_shadow).is_ok() {
            instance.kernel_members.insert(key.fd, event);
        }
        self.tell_change(instance);
        Ok(())
    }

    fn epoll_modify(&self, number: u32, epoll: Fd, key: Descriptor, event: epoll_event) -> Answer<()> {
        let mut cell = self.epolls.lock(number);
        let instance = cell.as_mut().ok_or(Errno::BADF)?;
        self.epoll_follow(instance);
        instance.list.modify(key, event.events, event.u64).map_err(refusal)?;
        if self.has_shadow(key.socket) {
            let for_shadow = self.shadow_event(key.socket, event);
            self.kernel.epoll_control(epoll, libc::EPOLL_CTL_MOD, key.fd, Some(for_shadow))?;
            instance.kernel_members.insert(key.fd, event);
        }
        self.tell_change(instance);
        Ok(())
    }

    fn epoll_delete(&self, number: u32, epoll: Fd, key: Descriptor) -> Answer<()> {
        let mut cell = self.epolls.lock(number);
        let instance = cell.as_mut().ok_or(Errno::BADF)?;
        self.epoll_follow(instance);
        self.forget_interest(instance, key)?;
        if self.has_shadow(key.socket) && self.kernel.epoll_control(epoll, libc::EPOLL_CTL_DEL, key.fd, None).is_ok() {
            instance.kernel_members.remove(&key.fd);
        }
        Ok(())
    }

    fn forget_interest(&self, instance: &mut Instance, key: Descriptor) -> Answer<()> {
        let last = instance.list.remove(key).map_err(refusal)?;
        if let (true, Some((context, _)), Some(channel)) = (last, instance.wake_fd, self.attached()) {
            channel.unwatch(key.socket, context);
        }
        Ok(())
    }

    /// Forgets, after the last descriptor of `socket` in any process, the socket in every instance (epoll(7)).
    pub(crate) fn epoll_forget(&self, socket: SocketRef) {
        for number in self.epolls.used() {
            let mut cell = self.epolls.lock(number);
            let Some(instance) = cell.as_mut() else { continue };
            for key in instance.list.keys_of_slot(socket.index) {
                // Another process may have been faster.
                if key.socket == socket && self.forget_interest(instance, key).is_err() {
                    continue;
                }
            }
        }
    }

    /// `epoll_pwait2(2)`; `None` as the timeout waits for ever. Returns `None` if the instance is not known here.
    pub fn epoll_wait(
        &self,
        epoll: Fd,
        events: &mut [epoll_event],
        timeout: Option<Duration>,
        mask: Option<SignalMask>,
    ) -> Option<Answer<usize>> {
        let Entry::Epoll(number) = self.table.lookup(epoll) else { return None };
        let deadline = timeout.map(|timeout| self.kernel.now() + timeout);
        let poll_only = timeout == Some(Duration::ZERO);
        if events.is_empty() {
            return Some(Err(Errno::INVAL));
        }
        let at = EpollRef { number, fd: epoll };
        if let Some(answer) = self.epoll_without_stack(at, events, timeout, Sleep { deadline, mask }) {
            return Some(answer);
        }
        self.attached()?;
        Some(loop {
            match self.epoll_turn(at, events, poll_only, Sleep { deadline, mask }) {
                Ok(0) if !poll_only && deadline.is_none_or(|deadline| self.kernel.now() < deadline) => self.before_kernel(),
                answer => break answer,
            }
        })
    }

    /// Waits in an instance that watches no socket of the stack. `None`: it does, or has begun to meanwhile.
    fn epoll_without_stack(
        &self,
        at: EpollRef,
        events: &mut [epoll_event],
        mut left: Option<Duration>,
        Sleep { deadline, mask }: Sleep,
    ) -> Option<Answer<usize>> {
        loop {
            match self.epolls.lock(at.number).as_mut() {
                Some(instance) if instance.wake_fd.is_none() && instance.news.is_none() && instance.list.is_empty() => {
                    instance.sleepers += 1;
                }
                _ => return None,
            }
            let answer = self.epoll_kernel(at, events, left, mask);
            self.epoll_woken(at.number);
            left = deadline.map(|deadline| deadline.since(self.kernel.now()));
            // `Ok(0)` before its time: a first socket of the stack, or what ends the wait of another process.
            if answer != Ok(0) || left == Some(Duration::ZERO) {
                return Some(answer);
            }
        }
    }

    /// Checks everything once, and sleeps once if there is nothing. `Ok(0)`: spurious wake-up or timeout.
    fn epoll_turn(
        &self,
        at: EpollRef,
        events: &mut [epoll_event],
        poll_only: bool,
        Sleep { deadline, mask }: Sleep,
    ) -> Answer<usize> {
        let number = at.number;
        let mut told = 0;
        if self.kernel_is_due(number) {
            // At most half of the space: neither world may hide the other.
            let half = events.len().div_ceil(2);
            told = self.epoll_kernel(at, &mut events[..half], Some(Duration::ZERO), mask)?;
        }
        let ours = self.epoll_harvest(at, &mut events[told..], Harvest::Now)?;
        if ours > 0 && told == 0 && ours < events.len() && self.watches_kernel_files(number) {
            // Both worlds in one result, as expected by a program that has just written to its own pipe.
            let rest = self.epoll_kernel(at, &mut events[ours..], Some(Duration::ZERO), mask);
            return Ok(ours + rest.unwrap_or(0));
        }
        told += ours;
        if told > 0 {
            return Ok(told);
        }
        if poll_only {
            return self.epoll_kernel(at, events, Some(Duration::ZERO), mask);
        }
        if self.epoll_give_way(number) {
            let ready = self.epoll_harvest(at, events, Harvest::Now)?;
            if ready > 0 {
                return Ok(ready);
            }
        }
        let ready = self.epoll_harvest(at, events, Harvest::BeforeSleep)?;
        if ready > 0 {
            // No second harvest: it would report level-triggered events twice in one result.
            self.epoll_woken(number);
            return Ok(ready);
        }
        let timeout = self.until_next_look(deadline.map(|deadline| deadline.since(self.kernel.now())));
        let answer = self.epoll_kernel(at, events, timeout, mask);
        self.epoll_woken(number);
        // Our own socket may have ended the sleep: take it now rather than after another sleep.
        match answer {
            Ok(count) => Ok(count + self.epoll_harvest(at, &mut events[count..], Harvest::Now)?),
            answer => answer,
        }
    }

    /// Yields before a sleep; returns true if a socket of the stack has had an event meanwhile.
    fn epoll_give_way(&self, number: u32) -> bool {
        let wake_fd = self.epolls.lock(number).as_ref().and_then(|instance| instance.wake_fd);
        let (Some((context, _)), Some(channel)) = (wake_fd, self.attached()) else { return false };
        self.yield_policy.yield_now(&*self.kernel, channel.spin_limit(), || look_at(channel, context))
    }

    /// Returns true if there were events since any thread's last check of an epoll instance.
    pub(crate) fn epoll_has_news(&self, channel: &dyn Channel) -> bool {
        let context = self.waited_for.load(Ordering::Relaxed).checked_sub(1);
        context.is_some_and(|context| channel.has_event(Context(context as u16)))
    }

    /// Returns true if ready sockets of the stack have kept waits from asking the kernel for too long.
    fn kernel_is_due(&self, number: u32) -> bool {
        let mut cell = self.epolls.lock(number);
        let Some(instance) = cell.as_mut() else { return false };
        // Other processes of a shared instance may have added some.
        let due =
            instance.unasked >= ASK_KERNEL_EVERY && (instance.list.has_kernel_files() || !instance.kernel_members.is_empty());
        if due {
            instance.unasked = 0;
        }
        due
    }

    /// Returns true if the kernel watches more for this instance than shadows of our sockets.
    fn watches_kernel_files(&self, number: u32) -> bool {
        let cell = self.epolls.lock(number);
        let is_kernels = |fd: &Fd| !matches!(self.table.lookup(*fd), Entry::Socket(_));
        cell.as_ref().is_some_and(|instance| instance.list.has_kernel_files() || instance.kernel_members.keys().any(is_kernels))
    }

    /// Takes ready sockets of the stack; before a sleep, arms the wake descriptor first.
    fn epoll_harvest(&self, at: EpollRef, events: &mut [epoll_event], harvest: Harvest) -> Answer<usize> {
        let EpollRef { number, fd: epoll } = at;
        let channel = self.attached().ok_or(Errno::BADF)?;
        let mut cell = self.epolls.lock(number);
        let instance = cell.as_mut().ok_or(Errno::BADF)?;
        self.epoll_follow(instance);
        let context = match self.epoll_context(instance, epoll, channel) {
            // A shared instance in which no socket of the stack is watched can do without.
            Err(_) if instance.list.is_empty() => None,
            context => context?,
        };
        if harvest == Harvest::BeforeSleep {
            instance.sleepers += 1;
            context.into_iter().for_each(|context| channel.arm(context));
        }
        if self.service_is_dead() {
            instance.list.mark_all();
        }
        while let Some(socket) = context.and_then(|context| channel.next_event(context)) {
            instance.list.mark(socket.index);
        }
        let looked_at = context.map_or(0, |context| u32::from(context.0) + 1);
        // Threads share the word, so it is written only when it changes.
        if self.waited_for.load(Ordering::Relaxed) != looked_at {
            self.waited_for.store(looked_at, Ordering::Relaxed);
        }
        let (mut ready, mut later) = (0, Vec::new());
        instance.list.harvest(
            events.len(),
            |socket| self.state_of_watched(socket, &mut later),
            |bits, data| {
                events[ready] = epoll_event { events: bits, u64: data };
                ready += 1;
            },
        );
        instance.unasked = if ready > 0 { instance.unasked + 1 } else { 0 };
        if !instance.list.has_candidates() {
            if let (true, Some(context)) = (instance.nested, context) {
                channel.arm(context);
            }
        } else if harvest == Harvest::Now {
            // Some did not fit, or a level still holds: the next sleeper may take it, as in the kernel.
            self.wake_sleepers(instance);
        }
        drop(cell);
        self.move_later(number, later);
        self.look_for_wishes(channel);
        Ok(ready)
    }

    /// Ends this thread's sleep; the wake descriptor stays armed for other sleepers.
    fn epoll_woken(&self, number: u32) {
        let mut cell = self.epolls.lock(number);
        let Some(instance) = cell.as_mut() else { return };
        instance.sleepers = instance.sleepers.saturating_sub(1);
        let (Some((context, ends)), Some(channel)) = (instance.wake_fd, self.attached()) else { return };
        if instance.sleepers == 0 && !instance.nested {
            channel.disarm(context);
        } else {
            // The ring that woke this thread disarmed the wake descriptor for all.
            channel.arm(context);
            if instance.list.has_candidates() {
                self.kernel.raise_event(ends.nudge);
            }
        }
    }

    /// Returns true if a socket of the stack is ready in this instance; for poll(2) on the epoll descriptor itself.
    pub(crate) fn epoll_is_ready(&self, number: u32) -> bool {
        let Some(channel) = self.attached() else { return false };
        let mut cell = self.epolls.lock(number);
        let Some(instance) = cell.as_mut() else { return false };
        self.epoll_follow(instance);
        let Some((context, _)) = instance.wake_fd else { return false };
        channel.arm(context);
        while let Some(socket) = channel.next_event(context) {
            instance.list.mark(socket.index);
        }
        let mut later = Vec::new();
        let is_ready = instance.list.is_ready(|socket| self.state_of_watched(socket, &mut later));
        drop(cell);
        self.move_later(number, later);
        is_ready
    }

    /// Wakes the sleepers of a changed list, which may hold something ready.
    fn wake_sleepers(&self, instance: &Instance) {
        if instance.sleepers > 0 || instance.nested {
            self.nudge(instance);
        }
    }

    /// Ends a wait in the instance, or the next one.
    fn nudge(&self, instance: &Instance) {
        if let Some((_, ends)) = instance.wake_fd {
            self.kernel.raise_event(ends.nudge);
        }
    }

    /// Updates the watches of the shadow of a socket of ours after a change.
    pub(crate) fn epoll_refresh(&self, fd: Fd, socket: SocketRef) {
        for number in self.epolls.used() {
            let cell = self.epolls.lock(number);
            let Some(instance) = cell.as_ref() else { continue };
            let Some(&event) = instance.kernel_members.get(&fd) else { continue };
            let event = self.shadow_event(socket, event);
            if self.kernel.epoll_control(instance.fd, libc::EPOLL_CTL_MOD, fd, Some(event)).is_err() {
                self.fall_back("epoll_ctl", &fd, crate::Fallback::WatchLost);
            }
        }
    }

    fn shadow_event(&self, socket: SocketRef, event: epoll_event) -> epoll_event {
        epoll_event { events: self.shadow_events(socket, event.events), u64: event.u64 }
    }

    /// Returns true if a kernel socket (the shadow) serves under the same number too.
    pub(crate) fn has_shadow(&self, socket: SocketRef) -> bool {
        self.is_datagram(socket)
            || self.attached().and_then(|channel| channel.view(socket)).is_some_and(|view| view.state == SocketState::Listening)
    }

    /// The state of a watched socket, of which this process may have no descriptor (any more); `None`: no process has one. `later`:
    /// sockets of which there is more to do.
    fn state_of_watched(&self, socket: SocketRef, later: &mut Vec<SocketRef>) -> Option<State> {
        if !self.is_open_anywhere(socket) {
            return None;
        }
        if self.has_to_move(socket, later) {
            return Some(State::default());
        }
        let readiness = self.readiness(socket);
        Some(State { bits: readiness.events, read_sequence: readiness.receive_sequence, write_sequence: readiness.send_sequence })
    }

    /// Returns true if a process has a descriptor of the socket, or a message to one.
    pub(super) fn is_open_anywhere(&self, socket: SocketRef) -> bool {
        self.descriptions.of(socket).knows(socket) || self.attached().is_some_and(|channel| channel.is_open(socket))
    }
}

fn refusal(error: InterestError) -> Errno {
    match error {
        InterestError::Exists => Errno::EXIST,
        InterestError::Missing => Errno::NOENT,
        InterestError::Invalid => Errno::INVAL,
        InterestError::Full => Errno::NOSPC,
    }
}

/// Maximum number of a process's epoll instances that can watch sockets of the stack; about as many as a region has
/// contexts.
const INSTANCES: usize = 4096;
const BLOCK: usize = 64;
/// Attempts at the lock of an instance before a fork, 50 microseconds apart.
const HOLD_ATTEMPTS: u32 = 20_000;
/// With stack sockets always ready, every so many waits check the kernel's descriptors.
const ASK_KERNEL_EVERY: u32 = 4;

#[cfg(test)]
mod tests;
