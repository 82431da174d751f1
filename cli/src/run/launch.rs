//! Forwards signals to the program and waits for its end.
//!
//! Promises: SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH and SIGCONT that another process sends to this
//! one reach the program; those that the terminal sends to its whole foreground group are not doubled. The program inherits
//! the signals that were ignored at the start (nohup; SIGINT and SIGQUIT of a script's `&` command) as ignored; they are
//! forwarded, too, and do not end this process. Does not do: follow the program's children, or go on serving while job
//! control stops this process together with the program.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, ExitStatus};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::origin::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Origin};

const FORWARDED: [i32; 8] = [SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT];
/// Signals that end a process by default.
const ENDING: [i32; 4] = [SIGTERM, SIGHUP, SIGINT, SIGQUIT];

/// Receives the signals sent to this process.
pub(crate) struct Signals {
    delivery: SignalDelivery<UnixStream, WithOrigin>,
    /// Signals that were ignored when this process started.
    ignored: Vec<i32>,
}

/// What a signal asks a service to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// End.
    End,
    /// Read the configuration again: a SIGHUP that a process has sent, and not the terminal that is gone.
    Reload,
}

impl Told {
    fn by(origin: &Origin) -> Told {
        let hung_up = origin.signal == SIGHUP && origin.cause != Cause::Kernel;
        if hung_up { Told::Reload } else { Told::End }
    }
}

impl Signals {
    /// Takes over the signals that are not ignored.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn take() -> io::Result<Signals> {
        let mask = ignored_signals(&std::fs::read_to_string("/proc/self/status")?);
        let (ignored, wanted): (Vec<i32>, Vec<i32>) = FORWARDED.into_iter().partition(|signal| mask & (1 << (signal - 1)) != 0);
        let (read, write) = UnixStream::pair()?;
        let wanted = wanted.into_iter().chain([SIGCHLD]);
        Ok(Signals { delivery: SignalDelivery::with_pipe(read, write, WithOrigin::default(), wanted)?, ignored })
    }

    /// Waits for the end of `child` and forwards signals meanwhile.
    ///
    /// # Errors
    /// The wait fails, or signal handlers cannot be installed.
    ///
    /// # Blocking
    /// Until the child has ended.
    pub(crate) fn accompany(&mut self, child: &mut Child) -> io::Result<ExitStatus> {
        // After the child's start, which inherits them as ignored.
        for signal in &self.ignored {
            self.delivery.handle().add_signal(*signal)?;
        }
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            self.wait(None)?;
            for origin in self.delivery.pending() {
                forward(&origin, child)?;
            }
        }
    }

    /// Waits until `fd` is readable; returns true when a signal asks this process to end.
    ///
    /// # Errors
    /// The system refuses to wait.
    ///
    /// # Blocking
    /// Until one of the two.
    pub(crate) fn wait_for(&mut self, fd: BorrowedFd<'_>) -> io::Result<bool> {
        Ok(self.wait_for_told(fd)?.is_some())
    }

    /// As [`wait_for`](Signals::wait_for); returns what the signal asks for.
    ///
    /// # Errors
    /// The system refuses to wait.
    ///
    /// # Blocking
    /// Until one of the two.
    pub(crate) fn wait_for_told(&mut self, fd: BorrowedFd<'_>) -> io::Result<Option<Told>> {
        loop {
            let readable = self.wait(Some(fd))?;
            let ends = |origin: &Origin| ENDING.contains(&origin.signal) && !self.ignored.contains(&origin.signal);
            let told: Vec<Told> = self.delivery.pending().filter(ends).map(|origin| Told::by(&origin)).collect();
            if told.contains(&Told::End) {
                return Ok(Some(Told::End));
            }
            if !told.is_empty() {
                return Ok(Some(Told::Reload));
            }
            if readable {
                return Ok(None);
            }
        }
    }

    /// Waits for a signal or for `fd`; returns true when `fd` is readable.
    fn wait(&self, fd: Option<BorrowedFd<'_>>) -> io::Result<bool> {
        let signals = self.delivery.get_read().as_fd();
        let other = fd.unwrap_or(signals);
        let mut fds = [PollFd::new(&signals, PollFlags::IN), PollFd::new(&other, PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) => Ok(fd.is_some() && !fds[1].revents().is_empty()),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// Forwards a signal, unless the terminal or the kernel has sent it to the program as well.
fn forward(origin: &Origin, child: &Child) -> io::Result<()> {
    let from_terminal = origin.cause == Cause::Kernel;
    let from_child = origin.process.is_some_and(|process| process.pid.cast_unsigned() == child.id());
    if origin.signal == SIGCHLD || from_terminal || from_child {
        return Ok(());
    }
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a child's id is positive");
    let signal = Signal::from_named_raw(origin.signal).expect("only named signals are taken");
    match kill_process(pid, signal) {
        // The program has ended, or it runs as another user now: the sender could not have reached it either.
        Ok(()) | Err(Errno::SRCH | Errno::PERM) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Ends this process by `signal`, as the program ended; when that fails, returns a shell's status, 128 + `signal`.
pub(crate) fn die_by(signal: i32) -> std::process::ExitCode {
    // No core file: the useful one is the program's.
    let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    if rustix::process::setrlimit(rustix::process::Resource::Core, none).is_ok() {
        let failure = signal_hook::low_level::emulate_default_handler(signal);
        eprintln!("ringway run: cannot end by signal {signal}: {failure:?}");
    }
    std::process::ExitCode::from(128u8.saturating_add(signal.unsigned_abs() as u8))
}

/// The SigIgn mask of /proc/PID/status: bit n is signal n + 1.
fn ignored_signals(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests;
