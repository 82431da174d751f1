//! The machine that the tool's two threads share.
//!
//! The tool's main thread brings packets and time; its second thread makes the calls that block. Each event that may let a
//! waiting call proceed tries it again at once, so the outcome does not depend on which thread runs first: the answer and
//! its time are fixed then, and the second thread only fetches them.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::IntoRawFd;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread::{self, ThreadId};

use ringway_shm::{Duration, Instant};
use ringway_sim::sockets::{Answer, Call, Machine, Sent, Sysctl};

/// One test.
pub(crate) struct Session {
    main: ThreadId,
    state: Mutex<State>,
    changed: Condvar,
}

pub(crate) struct State {
    machine: Movable,
    local: IpAddr,
    /// As given by the tool; `None`: the interface's.
    mtu: Option<u16>,
    /// System settings and the interface's MTU, as last read.
    settings: (Sysctl, u16),
    /// True once a socket has existed: changed settings then change a running machine.
    begun: bool,
    waiting: Vec<Waiting>,
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

struct Waiting {
    ticket: u64,
    thread: ThreadId,
    call: Call,
    deadline: Option<Instant>,
    answer: Option<Answer>,
}

/// When the system settings are read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// A socket is about to be made.
    FirstSocket,
    /// Before another call.
    Later,
}

impl Session {
    pub(crate) fn new(flags: &str) -> Session {
        let command = std::fs::read("/proc/self/cmdline").unwrap_or_default();
        let command = String::from_utf8_lossy(&command).into_owned();
        let (local, mtu) = told(&command.split('\0').collect::<Vec<_>>(), flags);
        let settings = (Sysctl::default(), mtu.unwrap_or(MTU_DEFAULT));
        let machine = machine(local, &settings);
        let (waiting, finished) = (Vec::new(), Vec::new());
        let state = State { machine, local, mtu, settings, begun: false, waiting, next_ticket: 0, finished, silent: 0 };
        Session { main: thread::current().id(), state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Locks like [`lock`](Session::lock); on the main thread, waits first until calls that have ended on the other thread
    /// have returned. What the main thread does next then comes after them, whichever thread runs first.
    fn lock_in_order(&self) -> MutexGuard<'_, State> {
        let state = self.lock();
        if thread::current().id() != self.main {
            return state;
        }
        let returns = |state: &mut State| state.waiting.iter().any(|waiting| waiting.answer.is_some());
        let waited = self.changed.wait_timeout_while(state, RETURN_MAX, returns);
        waited.unwrap_or_else(std::sync::PoisonError::into_inner).0
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that panicked has aborted the process: the lock is never poisoned.
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Makes a call and waits until it ends.
    pub(crate) fn call(&self, mut call: Call, deadline: Option<Instant>) -> Answer {
        let mut state = self.lock_in_order();
        if let Some(answer) = state.machine.0.attempt(&mut call) {
            self.progress(&mut state);
            return answer;
        }
        if thread::current().id() == self.main {
            return self.call_on_main(&mut state, call, deadline);
        }
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.waiting.push(Waiting { ticket, thread: thread::current().id(), call, deadline, answer: None });
        loop {
            let found = state.waiting.iter().position(|waiting| waiting.ticket == ticket).expect("only this thread takes it out");
            if state.waiting[found].answer.is_some() {
                let done = state.waiting.swap_remove(found);
                self.changed.notify_all();
                return done.answer.expect("just seen");
            }
            state = self.changed.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }

    /// Waits on the main thread, which alone brings packets and time: only timers can end the wait.
    fn call_on_main(&self, state: &mut State, mut call: Call, deadline: Option<Instant>) -> Answer {
        let limit = state.machine.0.now() + PATIENCE;
        loop {
            let next = [state.machine.0.next_timer(), deadline].into_iter().flatten().min().filter(|at| *at <= limit);
            let Some(at) = next else { return Answer::error(libc::EAGAIN) };
            state.machine.0.advance(at);
            self.progress(state);
            if let Some(answer) = state.machine.0.attempt(&mut call) {
                return answer;
            }
            if deadline.is_some_and(|deadline| deadline <= state.machine.0.now()) {
                return given_up(&call);
            }
        }
    }

    /// Retries waiting calls after an event.
    fn progress(&self, state: &mut State) {
        let State { machine, waiting, finished, .. } = state;
        let mut answered = false;
        for waiting in waiting.iter_mut().filter(|waiting| waiting.answer.is_none()) {
            let now = machine.0.now();
            let late = waiting.deadline.is_some_and(|deadline| deadline <= now);
            waiting.answer = machine.0.attempt(&mut waiting.call).or_else(|| late.then(|| given_up(&waiting.call)));
            if waiting.answer.is_some() {
                finished.push((waiting.thread, now));
                answered = true;
            }
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

    /// Reads the system settings, which a script's commands change between its calls. Before the first socket the machine is made
    /// anew with them.
    pub(crate) fn read_settings(&self, moment: Moment) {
        let mut state = self.lock_in_order();
        let mut sysctl = Sysctl::default();
        for name in Sysctl::names() {
            if let Ok(value) = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")) {
                sysctl.set(name, &value);
            }
        }
        let settings = (sysctl, state.mtu.unwrap_or_else(interface_mtu));
        if !state.begun {
            let mut fresh = machine(state.local, &settings);
            fresh.0.advance(state.machine.0.now());
            state.machine = fresh;
            state.begun = moment == Moment::FirstSocket;
        } else if settings != state.settings {
            state.machine.0.reconfigure(settings.1, &settings.0);
            self.progress(&mut state);
        }
        state.settings = settings;
    }

    /// Advances the time; each timer runs at its time.
    pub(crate) fn advance(&self, span: Duration) {
        let mut state = self.lock_in_order();
        let until = state.machine.0.now() + span;
        for _ in 0..STEPS_MAX {
            let Some(at) = state.next_due().filter(|at| *at <= until) else { break };
            state.machine.0.advance(at);
            self.progress(&mut state);
        }
        state.machine.0.advance(until);
        self.progress(&mut state);
    }

    /// Returns the time for the tool. A thread whose call has just ended gets the time at which it ended.
    pub(crate) fn time(&self) -> Instant {
        let mut state = self.lock_in_order();
        let me = thread::current().id();
        if let Some(found) = state.finished.iter().position(|(thread, _)| *thread == me) {
            return state.finished.swap_remove(found).1;
        }
        let creep = state.machine.0.now() + Duration::from_micros(1);
        state.machine.0.advance(creep);
        self.progress(&mut state);
        state.machine.0.now()
    }

    /// Returns the next packet, advancing to later timers until there is one. `None`: no packet will ever come.
    pub(crate) fn next_packet(&self) -> Result<Sent, u32> {
        let mut state = self.lock_in_order();
        let limit = state.machine.0.now() + PATIENCE;
        for _ in 0..STEPS_MAX {
            if let Some(sent) = state.machine.0.next_sent() {
                state.silent = 0;
                return Ok(sent);
            }
            let Some(at) = state.next_due().filter(|at| *at <= limit) else { break };
            state.machine.0.advance(at);
            self.progress(&mut state);
        }
        state.silent += 1;
        Err(state.silent)
    }
}

impl State {
    /// Returns the time of the stack's next timer or of the next deadline of a call.
    fn next_due(&self) -> Option<Instant> {
        let unanswered = self.waiting.iter().filter(|waiting| waiting.answer.is_none());
        unanswered.filter_map(|waiting| waiting.deadline).chain(self.machine.0.next_timer()).min()
    }
}

/// Returns the answer of a call whose deadline has passed.
fn given_up(call: &Call) -> Answer {
    match call {
        Call::Send { done, .. } if *done > 0 => Answer::value(*done as i64),
        Call::Connect { .. } => Answer::error(libc::EINPROGRESS),
        Call::Poll { set, .. } => Answer { reported: vec![0; set.len()], ..Answer::default() },
        Call::EpollWait { .. } => Answer::default(),
        _ => Answer::error(libc::EAGAIN),
    }
}

/// Makes a machine with these settings and MTU. Its descriptors are numbers of the process, so that the tool closes what a
/// script leaves open, and other files that it opens get other numbers.
fn machine(local: IpAddr, (sysctl, mtu): &(Sysctl, u16)) -> Movable {
    let mut machine = Machine::new(local, *mtu, sysctl);
    machine.number_by(|| Some(File::open("/dev/null").ok()?.into_raw_fd()));
    Movable(machine)
}

/// Returns the machine's address and MTU as given by the tool: its own options, `--name=value` or `--name value`, or words
/// `name=value` of its flags; the last one counts.
fn told(options: &[&str], flags: &str) -> (IpAddr, Option<u16>) {
    let value = |name: &str| {
        let of = |word: &'_ str| Some(word.strip_prefix(name)?.strip_prefix('=')?.to_string());
        let flag = flags.split([',', ' ']).filter_map(of).next_back();
        flag.or_else(|| {
            let mut own = options.iter().enumerate().filter_map(|(at, option)| {
                let option = option.strip_prefix("--")?;
                if option == name { options.get(at + 1).map(|value| value.to_string()) } else { of(option) }
            });
            own.next_back()
        })
    };
    let local = value("local_ip").and_then(|text| text.parse().ok()).unwrap_or(IpAddr::V4(Ipv4Addr::new(192, 168, 0, 1)));
    (local, value("mtu").and_then(|text| text.parse().ok()).filter(|mtu| *mtu >= MTU_MIN))
}

/// Returns the MTU of the interface that the tool's scripts name, if it exists.
fn interface_mtu() -> u16 {
    let text = std::fs::read_to_string("/sys/class/net/tun0/mtu").unwrap_or_default();
    text.trim().parse().ok().filter(|mtu| *mtu >= MTU_MIN).unwrap_or(MTU_DEFAULT)
}

const MTU_DEFAULT: u16 = 1_500;
const MTU_MIN: u16 = 576;

/// Longest virtual time that a call waits.
const PATIENCE: Duration = Duration::from_secs(48 * 3_600);
const STEPS_MAX: usize = 1_000_000;
/// Longest time that the main thread waits for an ended call to return; a thread that never comes back must not stop the
/// tool.
const RETURN_MAX: std::time::Duration = std::time::Duration::from_secs(60);

#[cfg(test)]
mod tests;
