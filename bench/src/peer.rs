//! A role's process, controlled by `ringway bench`.
//!
//! Promises: every wait has a limit; a role that died, failed or does not answer is an error with its stderr; dropping
//! a role ends it and its descendants.

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
    /// Thread that reads the role's standard error into `words`.
    listening: JoinHandle<()>,
}

impl Peer {
    /// Starts a role.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(label: &str, mut command: Command) -> io::Result<Peer> {
        let (ours, theirs) = UnixStream::pair()?;
        // Its own process group: Ctrl-C reaches only this process, which ends the roles in order.
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().map_err(|error| io::Error::other(format!("{label}: {error}")))?;
        let (sender, answers) = channel();
        let stdout = child.stdout.take().expect("it was asked to be piped");
        std::thread::spawn(move || {
            // At the end of output the channel closes; the reason is in the role's stderr.
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

    /// The role's process id; with `ringway run`, the launcher's.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Stops the role and its descendants.
    pub fn pause(&self) {
        pause(self.pid());
    }

    /// Continues the role and its descendants.
    pub fn resume(&self) {
        resume(self.pid());
    }

    /// Sends an end of a link to the role, before any order.
    ///
    /// # Errors
    /// The role has ended.
    pub fn give(&mut self, end: &WireEnd) -> io::Result<()> {
        let stream = self.orders.as_ref().expect("it is taken only by drop");
        memory::give(stream, end).map_err(|_| self.failure("has ended"))
    }

    /// Waits until the role reports ready.
    ///
    /// # Errors
    /// The role is not ready within `limit`, or has failed.
    pub fn wait_ready(&mut self, limit: Duration) -> io::Result<()> {
        match self.answer(limit)? {
            Answer::Ready => Ok(()),
            other => Err(self.failure(&format!("answered {other:?} instead of Ready"))),
        }
    }

    /// Sends an order and waits for the answer `Ready`.
    ///
    /// # Errors
    /// Those of `wait_ready`.
    pub fn order(&mut self, order: &Order, limit: Duration) -> io::Result<()> {
        self.tell(order)?;
        self.wait_ready(limit)
    }

    /// Orders a run and waits for its result.
    ///
    /// # Errors
    /// The run is not over within `limit`, or the role has failed.
    pub fn run(&mut self, order: &Order, limit: Duration) -> io::Result<Outcome> {
        self.tell(order)?;
        match self.answer(limit)? {
            Answer::Done(outcome) => Ok(outcome),
            other => Err(self.failure(&format!("answered {other:?} instead of Done"))),
        }
    }

    /// Asks a wire for its packet counts so far.
    ///
    /// # Errors
    /// There is no answer within `limit`, or the role has failed.
    pub fn count(&mut self, limit: Duration) -> io::Result<Passage> {
        self.tell(&Order::Count)?;
        match self.answer(limit)? {
            Answer::Counted(passage) => Ok(passage),
            other => Err(self.failure(&format!("answered {other:?} instead of Counted"))),
        }
    }

    fn tell(&mut self, order: &Order) -> io::Result<()> {
        let mut line = serde_json::to_string(order).expect("orders have text keys and plain values");
        line.push('\n');
        let stream = self.orders.as_mut().expect("it is taken only by drop");
        stream.write_all(line.as_bytes()).map_err(|_| self.failure("has ended"))
    }

    fn answer(&mut self, limit: Duration) -> io::Result<Answer> {
        let line = match self.answers.recv_timeout(limit) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => return Err(self.failure(&format!("has not answered within {limit:?}"))),
            Err(RecvTimeoutError::Disconnected) => return Err(self.failure("has ended")),
        };
        match serde_json::from_str(&line) {
            Ok(Answer::Failed(why)) => Err(io::Error::other(format!("{}: {why}", self.label))),
            Ok(answer) => Ok(answer),
            Err(_) => Err(self.failure(&format!("said {line:?}"))),
        }
    }

    /// Makes an error that contains the role's stderr.
    fn failure(&mut self, what: &str) -> io::Error {
        // The end of its stderr may still arrive.
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
        // A stopped process does not see the end of its standard input.
        self.resume();
        let begun = Instant::now();
        let family = cpu::tree(self.pid());
        while self.child.try_wait().is_ok_and(|status| status.is_none()) {
            let waited = begun.elapsed();
            if waited > PATIENCE {
                let signal = if waited < 2 * PATIENCE { Signal::TERM } else { Signal::KILL };
                for pid in family.iter().filter_map(|pid| Pid::from_raw(i32::try_from(*pid).ok()?)) {
                    // A process that has ended needs no signal.
                    kill_process(pid, signal).unwrap_or_default();
                }
            }
            sleep(STEP);
        }
    }
}

/// Keeps the last `WORDS_MAX` bytes of a role's stderr.
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

/// Largest number of bytes of standard error kept.
const WORDS_MAX: usize = 8192;
/// Polling interval.
const STEP: Duration = Duration::from_millis(5);
/// Time for a role to end by itself before it gets SIGTERM, and then SIGKILL.
const PATIENCE: Duration = Duration::from_secs(3);
/// Time for a failing role to end.
const LAST_WORDS: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
