//! Runs the program as if it had been started directly: signals go to it, its end is our end.
//!
//! Promises: SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH and SIGCONT that somebody
//! sends to us reach the program; those that the terminal sends to its whole foreground group are
//! not doubled. Signals that were ignored when we started stay ignored (nohup). Does not do:
//! follow children of the program.

use std::io;
use std::process::{Child, Command, ExitStatus};

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::origin::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Origin};

const FORWARDED: [i32; 8] = [SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT];

/// The signals that reach this process, from now on.
pub(super) struct Signals {
    signals: SignalsInfo<WithOrigin>,
}

impl Signals {
    /// Takes over the signals that are not ignored.
    ///
    /// # Errors
    /// The system refuses.
    pub(super) fn take() -> io::Result<Signals> {
        let ignored = ignored_signals(&std::fs::read_to_string("/proc/self/status")?);
        let wanted = FORWARDED.into_iter().filter(|signal| ignored & (1 << (signal - 1)) == 0).chain([SIGCHLD]);
        Ok(Signals { signals: SignalsInfo::with_exfiltrator(wanted, WithOrigin::default())? })
    }

    /// Waits for the end of `child` and passes signals on meanwhile.
    ///
    /// # Errors
    /// The child cannot be waited for.
    ///
    /// # Blocking
    /// Until the child has ended.
    pub(super) fn accompany(&mut self, child: &mut Child) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            for origin in self.signals.wait() {
                forward(&origin, child)?;
            }
        }
    }

    /// Waits until `over` says so (asked after every signal) or somebody wants us to end.
    /// `wake` makes it ask again.
    pub(super) fn linger(&mut self, over: impl Fn() -> bool) {
        while !over() {
            let ends = |origin: Origin| matches!(origin.signal, SIGTERM | SIGINT | SIGHUP | SIGQUIT);
            if self.signals.wait().any(ends) {
                return;
            }
        }
    }
}

/// Starts the program.
///
/// # Errors
/// As for `execve`.
pub(super) fn start(command: &mut Command) -> io::Result<Child> {
    command.spawn()
}

/// Passes a signal on, unless the terminal or the kernel has given it to the program as well.
fn forward(origin: &Origin, child: &Child) -> io::Result<()> {
    let from_terminal = origin.cause == Cause::Kernel;
    let from_child = origin.process.is_some_and(|process| process.pid.cast_unsigned() == child.id());
    if origin.signal == SIGCHLD || from_terminal || from_child {
        return Ok(());
    }
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a child's id is positive");
    let signal = Signal::from_named_raw(origin.signal).expect("only named signals are taken");
    match kill_process(pid, signal) {
        // It has ended, or it is another user's now: then the sender could not have reached it either.
        Ok(()) | Err(rustix::io::Errno::SRCH | rustix::io::Errno::PERM) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The SigIgn mask of /proc/PID/status: bit n is signal n + 1.
fn ignored_signals(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests;
