//! `ringway run --detach`: the run goes on in a session of its own.
//!
//! The caller starts the same command once more, with a socket as its standard input, and waits there for the number of the
//! program's process. Promises: what fails before the program starts is said to the caller, with its exit status; the program's
//! output goes on only where a file was given for it, so that neither a terminal nor a pipe stays open. Does not do: start
//! the program again when it ends; a unit of systemd does.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use rustix::fs::{FileType, fstat};

const OPTION: &str = "--detach";
/// The option of the process that goes on.
const DETACHED: &str = "--detached";

/// Starts what goes on; prints the number of the program's process when it has started.
pub(super) fn start() -> ExitCode {
    match begin() {
        Ok(Ok(pid)) => crate::output::print("run", &format!("{pid}\n")),
        Ok(Err(status)) => super::end_as(status),
        Err(error) => super::fail(&format!("cannot start itself once more: {error}")),
    }
}

/// Returns the number of the program's process, or how the other run has ended.
fn begin() -> io::Result<Result<u32, ExitStatus>> {
    let (mut ours, theirs) = UnixStream::pair()?;
    let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    // The first is the option: those of the program stand behind it.
    if let Some(option) = arguments.iter_mut().find(|argument| *argument == OPTION) {
        *option = DETACHED.into();
    }
    let mut other = Command::new(std::env::current_exe()?).args(arguments).stdin(OwnedFd::from(theirs)).spawn()?;
    let mut text = String::new();
    ours.read_to_string(&mut text)?;
    match text.trim().parse() {
        Ok(pid) => Ok(Ok(pid)),
        Err(_) => Ok(Err(other.wait()?)),
    }
}

/// Leaves the caller's session.
///
/// # Errors
/// This process leads a group: it was not started by [`start`].
pub(super) fn leave_session() -> io::Result<()> {
    rustix::process::setsid()?;
    Ok(())
}

/// Keeps the program away from the caller's terminal and pipes.
pub(super) fn separate(program: &mut Command) {
    program.stdin(Stdio::null());
    if !is_file(io::stdout()) {
        program.stdout(Stdio::null());
    }
    if !is_file(io::stderr()) {
        program.stderr(Stdio::null());
    }
}

/// Tells the caller that the program runs, and lets go of what is the caller's.
///
/// # Errors
/// What the system says.
pub(super) fn tell(pid: u32) -> io::Result<()> {
    let mut caller = File::from(rustix::io::fcntl_dupfd_cloexec(io::stdin(), super::DESCRIPTORS_FROM)?);
    let nowhere = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nowhere)?;
    if !is_file(io::stdout()) {
        rustix::stdio::dup2_stdout(&nowhere)?;
    }
    if !is_file(io::stderr()) {
        rustix::stdio::dup2_stderr(&nowhere)?;
    }
    match writeln!(caller, "{pid}") {
        // A caller that was interrupted is not there to be told.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        told => told,
    }
}

fn is_file(stream: impl AsFd) -> bool {
    fstat(stream).is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::RegularFile)
}
