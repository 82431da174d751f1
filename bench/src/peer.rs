//! A role's process as `ringway bench` sees it.
//!
//! Promises: every wait has a limit; a role that has died, failed or fallen silent is an error with its own words; dropping
//! one ends it and everything it has started.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use ringway_shm::wire::WireEnd;
use rustix::process::{Pid, Signal, kill_process};

use crate::load::order::{Answer, Order, Outcome, Passage};
use crate::measure::cpu;
use crate::pause::{pause, resume};
use crate::wire::memory;

/// A running role.
pub struct Peer {
    child: Child,
    label: String,
    orders: Option<UnixStream>,
    answers: Receiver<String>,
    words: Arc<Mutex<String>>,
    /// Collects them until its standard error ends.
    listening: JoinHandle<()>,
}

impl Peer {
    /// Starts it.
    ///
    /// # Errors
    /// There is no such program.
    pub fn start(label: &str, mut command: Command) -> io::Result<Peer> {
        let (ours, theirs) = UnixStream::pair()?;
        // A group of its own: Ctrl-C comes to us alone, and we end the roles in order.
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().map_err(|error| io::Error::other(format!("{label}: {error}")))?;
        let (sender, answers) = channel();
        let stdout = child.stdout.take().expect("it was asked to be piped");
        std::thread::spawn(move || {
            // The channel's end tells the reader that nothing more comes, and why is in its words.
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let words = Arc::new(Mutex::new(String::new()));
        let (stderr, kept) = (child.stderr.take().expect("it was asked to be piped"), Arc::clone(&words));
        let listening = std::thread::spawn(move || keep_words(stderr, &kept));
        Ok(Peer { child, label: label.to_string(), orders: Some(ours), answers, words, listening })
    }

    /// Its process id; with `ringway run` that of the launcher.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Stops it and everything it has started, where they are.
    pub fn pause(&self) {
        pause(self.pid());
    }

    /// Lets them go on.
    pub fn resume(&self) {
        resume(self.pid());
    }

    /// Gives it an end of a link, before anything else is said.
    ///
    /// # Errors
    /// It has ended.
    pub fn give(&mut self, end: &WireEnd) -> io::Result<()> {
        let stream = self.orders.as_ref().expect("it is taken only by drop");
        memory::give(stream, end).map_err(|_| self.complaint("has ended"))
    }

    /// Waits until it says that it is ready.
    ///
    /// # Errors
    /// It is not within `limit`, or it has failed.
    pub fn wait_ready(&mut self, limit: Duration) -> io::Result<()> {
        match self.answer(limit)? {
            Answer::Ready => Ok(()),
            other => Err(self.complaint(&format!("answered {other:?} instead of Ready"))),
        }
    }

    /// Orders something that is answered by `Ready`.
    ///
    /// # Errors
    /// As `wait_ready`.
    pub fn order(&mut self, order: &Order, limit: Duration) -> io::Result<()> {
        self.tell(order)?;
        self.wait_ready(limit)
    }

    /// Orders a run.
    ///
    /// # Errors
    /// It is not over within `limit`, or it has failed.
    pub fn run(&mut self, order: &Order, limit: Duration) -> io::Result<Outcome> {
        self.tell(order)?;
        match self.answer(limit)? {
            Answer::Done(outcome) => Ok(outcome),
            other => Err(self.complaint(&format!("answered {other:?} instead of Done"))),
        }
    }

    /// Asks a wire what it has done so far.
    ///
    /// # Errors
    /// It does not say so within `limit`, or it has failed.
    pub fn count(&mut self, limit: Duration) -> io::Result<Passage> {
        self.tell(&Order::Count)?;
        match self.answer(limit)? {
            Answer::Counted(passage) => Ok(passage),
            other => Err(self.complaint(&format!("answered {other:?} instead of Counted"))),
        }
    }

    fn tell(&mut self, order: &Order) -> io::Result<()> {
        let mut line = serde_json::to_string(order).expect("orders have text keys and plain values");
        line.push('\n');
        let stream = self.orders.as_mut().expect("it is taken only by drop");
        stream.write_all(line.as_bytes()).map_err(|_| self.complaint("has ended"))
    }

    fn answer(&mut self, limit: Duration) -> io::Result<Answer> {
        let line = match self.answers.recv_timeout(limit) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => return Err(self.complaint(&format!("has not answered within {limit:?}"))),
            Err(RecvTimeoutError::Disconnected) => return Err(self.complaint("has ended")),
        };
        match serde_json::from_str(&line) {
            Ok(Answer::Failed(why)) => Err(io::Error::other(format!("{}: {why}", self.label))),
            Ok(answer) => Ok(answer),
            Err(_) => Err(self.complaint(&format!("said {line:?}"))),
        }
    }

    /// An error with the role's own words.
    fn complaint(&mut self, what: &str) -> io::Error {
        // Its last words may still be under way.
        let patience = Instant::now() + LAST_WORDS;
        let mut goes_on = || self.child.try_wait().is_ok_and(|status| status.is_none()) || !self.listening.is_finished();
        while goes_on() && Instant::now() < patience {
            sleep(STEP);
        }
        let status = match self.child.try_wait() {
            Ok(Some(status)) => format!(" ({status})"),
            _ => String::new(),
        };
        let words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        io::Error::other(format!("{} {what}{status}\n{}", self.label, words.trim_end()))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.orders = None;
        // A process that stands still does not see the end of its standard input.
        self.resume();
        let begun = Instant::now();
        let family = cpu::tree(self.pid());
        while self.child.try_wait().is_ok_and(|status| status.is_none()) {
            let waited = begun.elapsed();
            if waited > PATIENCE {
                let signal = if waited < 2 * PATIENCE { Signal::TERM } else { Signal::KILL };
                for pid in family.iter().filter_map(|pid| Pid::from_raw(i32::try_from(*pid).ok()?)) {
                    // One that is already gone is what is wanted.
                    kill_process(pid, signal).unwrap_or_default();
                }
            }
            sleep(STEP);
        }
    }
}

/// Keeps the last words of a role.
fn keep_words(mut from: impl Read, kept: &Mutex<String>) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let mut words = kept.lock().unwrap_or_else(PoisonError::into_inner);
        words.push_str(&String::from_utf8_lossy(&buffer[..count]));
        if words.len() > WORDS_MAX {
            let cut = (words.len() - WORDS_MAX..words.len()).find(|at| words.is_char_boundary(*at)).unwrap_or(words.len());
            words.drain(..cut);
        }
    }
}

/// Bytes of standard error that are kept.
const WORDS_MAX: usize = 8192;
/// Between two looks.
const STEP: Duration = Duration::from_millis(5);
/// How long a role that was told to end may take before it is made to.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long a failing role may take to end.
const LAST_WORDS: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
