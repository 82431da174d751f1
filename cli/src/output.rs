//! Standard output of the commands. A reader that has gone has seen enough and ends a command quietly; a full disk is a failure.

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

/// Prints a text for `ringway COMMAND`, and returns the exit status.
pub(crate) fn print(command: &str, text: &str) -> ExitCode {
    end(command, write(text))
}

/// Writes all of it, or as much as a reader takes that goes away.
pub(crate) fn write(text: &str) -> io::Result<()> {
    match stream(text) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// Writes a part of what goes on: that a reader has gone is an error too, which [`end`] takes for an end.
pub(crate) fn stream(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}

/// The exit status of `ringway COMMAND`; says what failed.
pub(crate) fn end(command: &str, done: io::Result<()>) -> ExitCode {
    match done {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            eprintln!("ringway {command}: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}
