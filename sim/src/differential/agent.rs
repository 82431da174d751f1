//! A process that makes socket calls: `agent.py`, on the kernel or on Ringway.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use crate::check::{Failure, failure};

/// Program of the process.
const SCRIPT: &str = include_str!("agent.py");
/// Maximum time of one call; none of them blocks.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// One process; dropping it ends the process.
pub(super) struct Agent {
    child: Child,
    calls: Option<ChildStdin>,
    answers: Receiver<String>,
}

impl Agent {
    /// Starts the process behind `prefix`: a program that runs the program in its arguments.
    ///
    /// # Errors
    /// When it cannot be started or does not answer.
    pub(super) fn start(prefix: &[&str]) -> Result<Agent, Failure> {
        let mut words = prefix.iter().copied().chain(["python3", "-c", SCRIPT]);
        let mut command = Command::new(words.next().expect("the script's words are always there"));
        let command = command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| Failure(format!("{prefix:?}: {error}")))?;
        let (calls, output) = (child.stdin.take(), child.stdout.take());
        let (sender, answers) = channel();
        if let Some(output) = output {
            thread::spawn(move || {
                // Ends with the process, or when the receiver of the answers is gone.
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        let mut agent = Agent { child, calls, answers };
        match agent.ask("state nobody")?.as_str() {
            "NONE" => Ok(agent),
            other => failure(format!("{prefix:?}: {other}")),
        }
    }

    /// Returns the process's id.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Makes one call.
    ///
    /// # Errors
    /// When the process has ended or does not answer.
    pub(super) fn ask(&mut self, call: &str) -> Result<String, Failure> {
        let written = self.calls.as_mut().map(|calls| writeln!(calls, "{call}").and_then(|()| calls.flush()));
        if !matches!(written, Some(Ok(()))) {
            return failure(format!("{call}: the process that makes the calls has ended"));
        }
        self.answers.recv_timeout(ANSWER_WITHIN).map_err(|error| Failure(format!("{call}: {error}")))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // The process ends with its input; `ringway run` ends with it.
        drop(self.calls.take());
        if let Err(error) = self.child.wait() {
            eprintln!("waiting for a process: {error}");
        }
    }
}
