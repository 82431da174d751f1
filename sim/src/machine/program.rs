//! The program of a machine: threads that make its calls, one at a time and only while the machine waits for them.
//!
//! ```text
//!   machine                          thread of the program
//!   begin(call)         ->           the call runs; it comes to a wait of the kernel
//!   None                <- Waits     the thread sleeps
//!   (events, time)
//!   go_on()             ->           the wait looks again: it sleeps again, or the call returns
//!   Some(answer)        <- Done
//! ```
//! Promises: a thread of the program runs only between `begin` or `go_on` and their return. Does not do: deciding what
//! ends a wait; the simulated kernel does.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use ringway_posix::Posix;
use ringway_shm::Instant;

use crate::sockets::Answer;

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
    /// The end of its wait, while its call waits.
    waits: Option<Option<Instant>>,
    thread: JoinHandle<()>,
}

/// All threads; the last one makes the next call.
pub(super) struct Program {
    posix: Arc<Posix>,
    threads: Vec<Thread>,
}

impl Program {
    pub(super) fn new(posix: Arc<Posix>) -> Program {
        Program { posix, threads: Vec::new() }
    }

    /// Begins a call in a thread that has none; `go_on` runs it.
    pub(super) fn begin(&mut self, job: Job) {
        if self.threads.last().is_none_or(|thread| thread.waits.is_some()) {
            self.threads.push(start(self.posix.clone()));
        }
        let thread = self.threads.last_mut().expect("just made");
        thread.jobs.send(job).expect("the thread waits for calls");
        thread.waits = None;
    }

    /// Runs the last thread until its call returns or waits. `None`: it waits.
    pub(super) fn go_on(&mut self) -> Option<Answer> {
        let thread = self.threads.last_mut()?;
        if thread.waits.take().is_some() {
            thread.resume.send(()).expect("the thread waits for this");
        }
        match thread.reports.recv().expect("a call of the program does not panic") {
            Report::Done(answer) => {
                if self.threads.len() > 1 {
                    // It was needed because an earlier call waits; that one goes on now.
                    self.threads.pop().into_iter().for_each(end);
                }
                Some(answer)
            }
            Report::Waits(until) => {
                thread.waits = Some(until);
                None
            }
        }
    }

    /// Time at which the wait of a call ends.
    pub(super) fn wait_ends(&self) -> Option<Instant> {
        self.threads.iter().filter_map(|thread| thread.waits.flatten()).min()
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
    Thread { jobs, reports: reported, resume, waits: None, thread }
}

/// Ends a thread; a call that waits fails.
fn end(Thread { jobs, reports, resume, thread, .. }: Thread) {
    drop((jobs, reports, resume));
    // A panic in a call has been reported by `go_on`.
    thread.join().ok();
}

impl Drop for Program {
    fn drop(&mut self) {
        self.threads.drain(..).for_each(end);
    }
}
