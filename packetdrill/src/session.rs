//! The machine that the tool's two threads share.
//!
//! The tool's main thread brings packets and time; its second thread makes the calls that block. Each event that may let a
//! waiting call go on does so at once, so the outcome does not depend on which thread runs first: the answer and its time are
//! fixed then, and the second thread only fetches them. Where the second thread is about to make a call, the main thread lets
//! it (`second`).

mod second;

use std::fs::File;
use std::net::IpAddr;
use std::os::fd::IntoRawFd;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread::{self, ThreadId};

use ringway_shm::{Duration, Instant};
use ringway_sim::machine::{Answer, Call, Machine, Progress, Sent};

use crate::settings::{Settings, Source};
use second::Second;

/// One test.
pub(crate) struct Session {
    main: ThreadId,
    second: Option<Second>,
    source: Source,
    state: Mutex<State>,
    changed: Condvar,
}

pub(crate) struct State {
    machine: Movable,
    /// As last read.
    settings: Settings,
    pub(crate) blocked: Vec<Blocked>,
    next_ticket: u64,
    /// Times at which waiting calls were answered; the thread asks for the time next.
    finished: Vec<(ThreadId, Instant)>,
    /// Number of polls in a row without a packet.
    silent: u32,
}

struct Movable(Machine);

// SAFETY: a machine's counters are not atomic, but all of it stays behind the session's mutex: no reference to a part of
// it leaves `State`, so only one thread at a time touches it.
unsafe impl Send for Movable {}

/// A call that has not returned to its thread.
pub(crate) struct Blocked {
    ticket: u64,
    thread: ThreadId,
    progress: Progress,
}

impl Blocked {
    fn is_answered(&self) -> bool {
        matches!(self.progress, Progress::Done(_))
    }
}

impl Session {
    pub(crate) fn new(flags: &str) -> Session {
        // Before the machine starts threads of its own.
        let second = Second::find();
        let source = Source::of_tool(flags);
        let settings = source.read();
        let machine = machine(source.local(), &settings);
        let (blocked, finished) = (Vec::new(), Vec::new());
        let state = Mutex::new(State { machine, settings, blocked, next_ticket: 0, finished, silent: 0 });
        Session { main: thread::current().id(), second, source, state, changed: Condvar::new() }
    }

    /// Locks like [`lock`](Session::lock); on the main thread, waits first until the second thread has made the call that it is
    /// about to make, and until calls that have ended there have returned. What the main thread does next then comes after
    /// them, whichever thread runs first.
    fn lock_in_order(&self) -> MutexGuard<'_, State> {
        if thread::current().id() != self.main {
            return self.lock();
        }
        self.second.iter().for_each(Second::let_sleep);
        let state = self.lock();
        let returns = |state: &mut State| state.blocked.iter().any(Blocked::is_answered);
        let waited = self.changed.wait_timeout_while(state, RETURN_MAX, returns);
        waited.unwrap_or_else(std::sync::PoisonError::into_inner).0
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that panicked has aborted the process: the lock is never poisoned.
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Makes a call and waits until it ends.
    pub(crate) fn call(&self, call: Call) -> Answer {
        let mut state = self.lock_in_order();
        let begun = state.machine.0.begin(call);
        self.progress(&mut state);
        if let Progress::Done(answer) = begun {
            return answer;
        }
        let (ticket, thread) = (state.next_ticket, thread::current().id());
        state.next_ticket += 1;
        state.blocked.push(Blocked { ticket, thread, progress: begun });
        if thread == self.main {
            return self.wait_on_main(&mut state, ticket);
        }
        loop {
            if let Some(answer) = state.take_answer(ticket) {
                self.changed.notify_all();
                return answer;
            }
            state = self.changed.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }

    /// Waits on the main thread, which alone brings packets and time: only timers can end the wait. The call of the other
    /// thread goes on meanwhile.
    fn wait_on_main(&self, state: &mut State, ticket: u64) -> Answer {
        let limit = state.machine.0.now() + PATIENCE;
        for _ in 0..STEPS_MAX {
            if let Some(answer) = state.take_answer(ticket) {
                return answer;
            }
            if !state.machine.0.advance_to_timer(limit) {
                break;
            }
            self.progress(state);
        }
        state.blocked.retain(|blocked| blocked.ticket != ticket);
        Answer::error(libc::EAGAIN)
    }

    /// Lets waiting calls go on after an event.
    fn progress(&self, state: &mut State) {
        let mut answered = false;
        for mut blocked in std::mem::take(&mut state.blocked) {
            if let Progress::Waits(waiting) = blocked.progress {
                blocked.progress = state.machine.0.go_on(waiting);
                if blocked.is_answered() {
                    answered = true;
                    if blocked.thread != self.main {
                        state.finished.push((blocked.thread, state.machine.0.now()));
                    }
                }
            }
            state.blocked.push(blocked);
        }
        if answered {
            self.changed.notify_all();
        }
    }

    /// Applies `act` to the machine at once.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Machine) -> T) -> T {
        let mut state = self.lock_in_order();
        let result = act(&mut state.machine.0);
        self.progress(&mut state);
        result
    }

    /// Reads the system's settings, which a script's commands change between its calls.
    pub(crate) fn read_settings(&self) {
        let mut state = self.lock_in_order();
        let settings = self.source.read();
        if settings != state.settings {
            state.machine.0.reconfigure(settings.mtu, &settings.sysctl);
            state.settings = settings;
            self.progress(&mut state);
        }
    }

    /// Advances the time; each timer runs at its time.
    pub(crate) fn advance(&self, span: Duration) {
        let mut state = self.lock_in_order();
        let until = state.machine.0.now() + span;
        self.advance_to(&mut state, until);
    }

    /// Advances the time; waiting calls go on at each timer.
    fn advance_to(&self, state: &mut State, until: Instant) {
        for _ in 0..STEPS_MAX {
            if !state.machine.0.advance_to_timer(until) {
                break;
            }
            self.progress(state);
        }
        state.machine.0.advance(until);
        self.progress(state);
    }

    /// Returns the time for the tool. A thread whose call has just ended gets the time at which it ended.
    pub(crate) fn time(&self) -> Instant {
        let mut state = self.lock_in_order();
        let me = thread::current().id();
        if let Some(found) = state.finished.iter().position(|(thread, _)| *thread == me) {
            return state.finished.swap_remove(found).1;
        }
        let creep = state.machine.0.now() + Duration::from_micros(1);
        self.advance_to(&mut state, creep);
        state.machine.0.now()
    }

    /// Returns the next packet, advancing to later timers until there is one.
    ///
    /// # Errors
    /// No packet will ever come: how many times in a row.
    pub(crate) fn next_packet(&self) -> Result<Sent, u32> {
        let mut state = self.lock_in_order();
        let limit = state.machine.0.now() + PATIENCE;
        for _ in 0..STEPS_MAX {
            if let Some(sent) = state.machine.0.next_sent() {
                state.silent = 0;
                return Ok(sent);
            }
            if !state.machine.0.advance_to_timer(limit) {
                break;
            }
            self.progress(&mut state);
        }
        state.silent += 1;
        Err(state.silent)
    }
}

impl State {
    /// Takes a call out that was answered.
    fn take_answer(&mut self, ticket: u64) -> Option<Answer> {
        let found = self.blocked.iter().position(|blocked| blocked.ticket == ticket && blocked.is_answered())?;
        match self.blocked.swap_remove(found).progress {
            Progress::Done(answer) => Some(answer),
            Progress::Waits(_) => None,
        }
    }
}

/// Makes a machine with these settings. Its descriptors are numbers of the process, so that the tool closes what a script
/// leaves open, and other files that it opens get other numbers.
fn machine(local: IpAddr, settings: &Settings) -> Movable {
    let mut machine = Machine::new(local, settings.mtu, &settings.sysctl);
    machine.number_by(|| Some(File::open("/dev/null").ok()?.into_raw_fd()));
    Movable(machine)
}

/// Longest virtual time that a call waits.
const PATIENCE: Duration = Duration::from_secs(48 * 3_600);
const STEPS_MAX: usize = 1_000_000;
/// Longest time that the main thread waits for an ended call to return; a thread that never comes back must not stop the
/// tool.
const RETURN_MAX: std::time::Duration = std::time::Duration::from_secs(60);

#[cfg(test)]
mod tests;
