//! The micro threads of one thread of the process: which runs, which may run, what the others wait for.
//!
//! ```text
//!   start --> runnable <--> running --> ended
//!                ^             |
//!                +-- waits  <--+   for a descriptor, a time, a wake-up, or the first of them
//! ```
//! Promises: one runs at a time, and goes on until it calls a function that waits, or has made [`CALLS`] calls that did not wait; those that may run do
//! so in turn, and descriptors and times are looked at at least once in [`TURNS`] switches. A wake-up that comes before the wait is not lost. Does not do: threads of the
//! process; each has micro threads of its own, which never move. No function may be called from a signal handler.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::mem::ManuallyDrop;
use std::ptr;
use std::time::Duration;

use libc::{c_int, c_void, ucontext_t};
use ringway_cabi::{Answer, Errno};

use super::stack::{self, Context, Stack};
use super::watch::{Waiter, Watch};
use crate::waiting::{milliseconds, now};

/// What a micro thread runs.
pub(super) type Entry = extern "C" fn(*mut c_void);

/// The name of a micro thread; one that has ended has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Handle {
    place: u32,
    generation: u32,
}

impl Handle {
    /// As C has it: never null.
    pub(super) fn to_pointer(self) -> *mut c_void {
        ptr::without_provenance_mut((self.generation as usize) << 32 | (self.place as usize + 1))
    }

    pub(super) fn from_pointer(pointer: *mut c_void) -> Option<Handle> {
        let word = pointer.addr();
        let place = (word as u32).checked_sub(1)?;
        Some(Handle { place, generation: (word >> 32) as u32 })
    }
}

/// How a wait has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The descriptor is ready for these.
    Ready(u8),
    Woken,
    TimedOut,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// It runs, may run, or does not exist.
    Active,
    /// For this descriptor.
    Descriptor(c_int),
    Wakeup,
    Time,
}

struct Thread {
    generation: u32,
    context: Context,
    stack: Option<Stack>,
    task: Option<(Entry, *mut c_void)>,
    state: State,
    /// Which of its waits this is; an earlier one's deadline means nothing.
    wait: u64,
    ended: Ended,
    /// A wake-up has come that no wait has taken.
    is_woken: bool,
    private: *mut c_void,
    /// The one whose `private` it has.
    root: u32,
}

/// Threads are few microseconds apart: descriptors are looked at so often while some may run.
const TURNS: u32 = 32;
/// A thread whose calls never wait lets others run after so many.
const CALLS: u32 = 16;
/// Stacks that are kept for the next ones.
const STACKS_KEPT: usize = 1024;
const STACK_BYTES: usize = 128 * 1024;

struct Scheduler {
    threads: Vec<Thread>,
    free: Vec<u32>,
    runnable: VecDeque<u32>,
    /// Time, thread, and which of its waits.
    deadlines: BinaryHeap<Reverse<(Duration, u32, u64)>>,
    running: u32,
    watch: Watch,
    turns: u32,
    /// Calls since a thread has last had to wait.
    calls: u32,
    stacks: Vec<Stack>,
    stack_bytes: usize,
}

thread_local!(
    /// It stays when the thread ends, because exit(3) may be called on one of its stacks.
    static SCHEDULER: RefCell<Option<ManuallyDrop<Box<Scheduler>>>> = const { RefCell::new(None) }
);

/// Does something with this thread's scheduler, which begins with its first use.
fn with<T>(act: impl FnOnce(&mut Scheduler) -> T) -> Answer<T> {
    SCHEDULER.with_borrow_mut(|place| {
        if place.is_none() {
            *place = Some(ManuallyDrop::new(Box::new(Scheduler::new()?)));
        }
        Ok(act(place.as_mut().expect("it has just been made")))
    })
}

impl Scheduler {
    fn new() -> Answer<Scheduler> {
        let first = Thread::new(Context::of_running(), None, None, 0);
        Ok(Scheduler {
            threads: vec![first],
            free: Vec::new(),
            runnable: VecDeque::new(),
            deadlines: BinaryHeap::new(),
            running: 0,
            watch: Watch::new()?,
            turns: 0,
            calls: 0,
            stacks: Vec::new(),
            stack_bytes: STACK_BYTES,
        })
    }

    fn handle(&self, place: u32) -> Handle {
        Handle { place, generation: self.threads[place as usize].generation }
    }

    fn stack(&mut self) -> Answer<Stack> {
        while let Some(stack) = self.stacks.pop() {
            if stack.has(self.stack_bytes) {
                return Ok(stack);
            }
            // SAFETY: those that are kept have no thread.
            unsafe { stack.unmap() };
        }
        Stack::map(self.stack_bytes)
    }

    fn start(&mut self, entry: Entry, argument: *mut c_void, root: Option<u32>) -> Answer<Handle> {
        let stack = self.stack()?;
        let context = Context::on(&stack, begin)?;
        let place = self.free.last().copied().unwrap_or(self.threads.len() as u32);
        let mut thread = Thread::new(context, Some(stack), Some((entry, argument)), root.unwrap_or(place));
        match self.free.pop() {
            Some(place) => {
                thread.generation = self.threads[place as usize].generation;
                self.threads[place as usize] = thread;
            }
            None => self.threads.push(thread),
        }
        self.runnable.push_back(place);
        Ok(self.handle(place))
    }

    /// The running thread waits.
    fn wait(&mut self, state: State, until: Option<Duration>) {
        let place = self.running;
        let thread = &mut self.threads[place as usize];
        thread.state = state;
        thread.wait += 1;
        if let Some(until) = until {
            self.deadlines.push(Reverse((until, place, thread.wait)));
        }
    }

    /// A thread that waits may run.
    fn ready(&mut self, place: u32, ended: Ended) {
        let thread = &mut self.threads[place as usize];
        if thread.state == State::Active {
            return;
        }
        (thread.state, thread.ended) = (State::Active, ended);
        self.runnable.push_back(place);
    }

    /// Looks at descriptors and times; waits for them where no thread may run.
    fn look(&mut self) {
        self.turns = 0;
        // What has been waited for in vain, and the waits that have ended otherwise.
        let is_over = |threads: &[Thread], place: u32, wait| {
            let thread = &threads[place as usize];
            thread.wait != wait || thread.state == State::Active
        };
        while self.deadlines.peek().is_some_and(|Reverse((_, place, wait))| is_over(&self.threads, *place, *wait)) {
            self.deadlines.pop();
        }
        let next = self.deadlines.peek().map(|Reverse((until, _, _))| *until);
        let timeout = match next {
            _ if !self.runnable.is_empty() => 0,
            Some(until) => milliseconds(until.saturating_sub(now())),
            None => -1,
        };
        let mut ready: Vec<Waiter> = Vec::new();
        self.watch.wait(timeout, |waiter| ready.push(waiter));
        ready.into_iter().for_each(|waiter| self.ready(waiter.thread, Ended::Ready(waiter.events)));
        self.pass_deadlines();
    }

    fn pass_deadlines(&mut self) {
        let now = now();
        while let Some(&Reverse((until, place, wait))) = self.deadlines.peek() {
            if until > now {
                break;
            }
            self.deadlines.pop();
            let thread = &self.threads[place as usize];
            if thread.wait == wait && thread.state != State::Active {
                if let State::Descriptor(fd) = thread.state {
                    self.watch.remove(fd, place);
                }
                self.ready(place, Ended::TimedOut);
            }
        }
    }

    /// The next thread that runs, and the contexts to switch between; `None`: it is the one that runs.
    fn next(&mut self) -> Option<[*mut ucontext_t; 2]> {
        self.turns += 1;
        while self.runnable.is_empty() || self.turns >= TURNS {
            self.look();
        }
        self.calls = 0;
        let from = self.running;
        self.running = self.runnable.pop_front().expect("there is one");
        let is_other = self.running != from;
        is_other.then(|| [from, self.running].map(|place| self.threads[place as usize].context.place()))
    }

    /// The running thread has ended. Its stack is another's as soon as the processor is off it.
    fn end(&mut self) {
        let place = self.running;
        let thread = &mut self.threads[place as usize];
        thread.generation = thread.generation.wrapping_add(1);
        (thread.task, thread.is_woken) = (None, false);
        if self.stacks.len() >= STACKS_KEPT {
            // SAFETY: those that are kept have no thread, and this thread's is not among them yet.
            unsafe { self.stacks.swap_remove(0).unmap() };
        }
        self.stacks.extend(thread.stack.take());
        self.free.push(place);
    }
}

impl Thread {
    fn new(context: Context, stack: Option<Stack>, task: Option<(Entry, *mut c_void)>, root: u32) -> Thread {
        Thread {
            generation: 0,
            context,
            stack,
            task,
            state: State::Active,
            wait: 0,
            ended: Ended::Woken,
            is_woken: false,
            private: ptr::null_mut(),
            root,
        }
    }
}

/// Lets others run. Returns when the running thread is the next.
fn switch_away() -> Answer<()> {
    if let Some([from, to]) = with(Scheduler::next)? {
        // SAFETY: the contexts are in boxes of threads that have not ended, or that are this one; they are of this thread.
        unsafe { stack::switch(from, to) };
    }
    Ok(())
}

/// The bottom of each stack.
extern "C" fn begin() {
    let task = with(|all| all.threads[all.running as usize].task);
    if let Ok(Some((entry, argument))) = task {
        entry(argument);
    }
    with(Scheduler::end).ok();
    // It is not runnable, so this does not return.
    switch_away().ok();
    std::process::abort();
}

/// Begins the scheduler of this thread, if it has not begun.
pub(super) fn init() -> Answer<()> {
    with(|_| ())
}

/// The size of the stacks of threads that start from now on.
pub(super) fn set_stack_bytes(bytes: usize) -> Answer<()> {
    with(|all| all.stack_bytes = stack::rounded(bytes))
}

/// Whose private pointer a new thread has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Private {
    Own,
    Starters,
}

/// Starts a micro thread, which runs when others wait.
pub(super) fn start(entry: Entry, argument: *mut c_void, private: Private) -> Answer<Handle> {
    with(|all| {
        let root = (private == Private::Starters).then(|| all.threads[all.running as usize].root);
        all.start(entry, argument, root)
    })?
}

pub(super) fn running() -> Answer<Handle> {
    with(|all| all.handle(all.running))
}

/// Lets all others run that may.
pub(super) fn yields() -> Answer<()> {
    with(|all| all.runnable.push_back(all.running))?;
    switch_away()
}

/// After a call that has not waited: lets others run, if this thread has kept them waiting for long enough.
pub(super) fn yield_if_due() -> Answer<()> {
    let is_due = with(|all| {
        all.calls += 1;
        let is_due = all.calls >= CALLS;
        if is_due {
            all.runnable.push_back(all.running);
            all.look();
        }
        is_due
    })?;
    if is_due { switch_away() } else { Ok(()) }
}

fn sleep_as(state: State, until: Option<Duration>) -> Answer<Ended> {
    with(|all| all.wait(state, until))?;
    switch_away()?;
    with(|all| all.threads[all.running as usize].ended)
}

/// Sleeps until a time; `None`: for ever.
pub(super) fn sleep(until: Option<Duration>) -> Answer<()> {
    sleep_as(State::Time, until).map(|_| ())
}

/// Waits until another thread wakes this one, or until a time.
pub(super) fn wait_for_wakeup(until: Option<Duration>) -> Answer<Ended> {
    if with(|all| std::mem::take(&mut all.threads[all.running as usize].is_woken))? {
        return Ok(Ended::Woken);
    }
    sleep_as(State::Wakeup, until)
}

/// Wakes a thread. Returns false if it has ended.
pub(super) fn wake(handle: Handle) -> Answer<bool> {
    with(|all| {
        let thread = all.threads.get_mut(handle.place as usize).filter(|thread| thread.generation == handle.generation);
        match thread {
            Some(thread) if thread.state == State::Wakeup => all.ready(handle.place, Ended::Woken),
            Some(thread) => thread.is_woken = true,
            None => return false,
        }
        true
    })
}

/// Waits until a descriptor is ready for one of `events`, or until a time. Returns for which it is ready; none: the time is over.
///
/// # Errors
/// As epoll_ctl(2): EBADF.
pub(super) fn wait_for(fd: c_int, events: u8, until: Option<Duration>) -> Answer<u8> {
    let added = with(|all| {
        let waiter = Waiter { thread: all.running, events };
        all.watch.add(fd, waiter)
    })?;
    match added {
        // A file, which is always ready.
        Err(Errno(libc::EPERM)) => return Ok(events),
        other => other?,
    }
    match sleep_as(State::Descriptor(fd), until)? {
        Ended::Ready(events) => Ok(events),
        _ => Ok(0),
    }
}

/// Sets the private pointer of the running thread's root.
pub(super) fn set_private(data: *mut c_void) -> Answer<()> {
    with(|all| {
        let root = all.threads[all.running as usize].root;
        all.threads[root as usize].private = data;
    })
}

pub(super) fn private() -> Answer<*mut c_void> {
    with(|all| {
        let root = all.threads[all.running as usize].root;
        all.threads[root as usize].private
    })
}
