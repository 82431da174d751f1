//! The program of a machine: threads that make its calls, one at a time and only while the machine waits for them.
//!
//! ```text
//!   machine                          thread of the program
//!   begin(call)         ->           takes the call
//!   go_on(thread)       ->           the call runs; it comes to a wait of the kernel
//!   None                <- Waits     the thread sleeps
//!   (events, time, calls of other threads)
//!   go_on(thread)       ->           the wait looks again: it sleeps again, or the call returns
//!   Some(answer)        <- Done
//! ```
//! Promises: a thread of the program runs only between a `go_on` that names it and its return; calls that wait go on in any
//! order. Does not do: deciding what ends a wait; the simulated kernel does.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use ringway_posix::Posix;
use ringway_shm::Instant;

use super::call::Answer;

/// A call of the program.
pub(super) type Job = Box<dyn FnOnce(&Posix) -> Answer + Send>;

/// Report of a thread to the machine.
enum Report {
    /// The call has returned.
    Done(Answer),
    /// It waits for an event, or for this time.
    Waits(Option<Instant>),
}

/// A thread's end of the exchange with the machine.
struct Turn {
    reports: Sender<Report>,
    resume: Receiver<()>,
}

thread_local! {
    static TURN: RefCell<Option<Turn>> = const { RefCell::new(None) };
}

/// The machine has ended, and the call must too.
pub(super) struct Ended;

/// Gives the machine a turn; the calling thread of a program looks again afterwards. Other threads cannot wait.
pub(super) fn wait(until: Option<Instant>) -> Result<(), Ended> {
    TURN.with_borrow(|turn| {
        let turn = turn.as_ref().ok_or(Ended)?;
        turn.reports.send(Report::Waits(until)).map_err(|_| Ended)?;
        turn.resume.recv().map_err(|_| Ended)
    })
}

/// One thread.
struct Thread {
    jobs: Sender<Job>,
    reports: Receiver<Report>,
    resume: Sender<()>,
    state: State,
    thread: JoinHandle<()>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// No call.
    Idle,
    /// A call that was begun and has not come to a wait.
    Runs,
    /// A call that waits for an event, or for this time.
    Waits(Option<Instant>),
}

/// All threads. There are as many as calls have waited at the same time, and one more.
pub(super) struct Program {
    posix: Arc<Posix>,
    threads: Vec<Thread>,
}

impl Program {
    pub(super) fn new(posix: Arc<Posix>) -> Program {
        Program { posix, threads: Vec::new() }
    }

    /// Begins a call in the first thread that has none, and returns its number; `go_on` runs it.
    pub(super) fn begin(&mut self, job: Job) -> usize {
        let idle = self.threads.iter().position(|thread| thread.state == State::Idle);
        let number = idle.unwrap_or_else(|| {
            self.threads.push(start(self.posix.clone()));
            self.threads.len() - 1
        });
        let thread = &mut self.threads[number];
        thread.jobs.send(job).expect("the thread waits for calls");
        thread.state = State::Runs;
        number
    }

    /// Runs a thread that has a call until the call returns or waits. `None`: it waits.
    pub(super) fn go_on(&mut self, number: usize) -> Option<Answer> {
        let thread = &mut self.threads[number];
        assert!(thread.state != State::Idle, "the thread has a call");
        if matches!(thread.state, State::Waits(_)) {
            thread.resume.send(()).expect("the thread waits for this");
        }
        match thread.reports.recv().expect("a call of the program does not panic") {
            Report::Done(answer) => {
                thread.state = State::Idle;
                Some(answer)
            }
            Report::Waits(until) => {
                thread.state = State::Waits(until);
                None
            }
        }
    }

    /// Times at which waits of calls end.
    pub(super) fn wait_ends(&self) -> impl Iterator<Item = Instant> {
        self.threads.iter().filter_map(|thread| match thread.state {
            State::Waits(until) => until,
            State::Idle | State::Runs => None,
        })
    }
}

fn start(posix: Arc<Posix>) -> Thread {
    let (jobs, calls) = channel::<Job>();
    let (reports, reported) = channel();
    let (resume, resumed) = channel();
    let thread = thread::spawn(move || {
        TURN.set(Some(Turn { reports: reports.clone(), resume: resumed }));
        for call in calls {
            if reports.send(Report::Done(call(&posix))).is_err() {
                return;
            }
        }
    });
    Thread { jobs, reports: reported, resume, state: State::Idle, thread }
}

/// Ends a thread; a call that waits fails.
fn end(Thread { jobs, reports, resume, thread, .. }: Thread) {
    drop((jobs, reports, resume));
    // A panic in a call has been reported by `Program::go_on`.
    thread.join().ok();
}

impl Drop for Program {
    fn drop(&mut self) {
        self.threads.drain(..).for_each(end);
    }
}
