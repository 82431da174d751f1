//! tcpdump's filter expressions for a file that is written here: `tcpdump -ddd` compiles them to a classic BPF program,
//! the kernel runs it on a socket to ourselves.
//!
//! Does not do: interpreting the program, or the expression.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Write};
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};

use ringway_device::Medium;
use ringway_device::pcap::{Interface, SNAPLEN_MAX, Writer};
use socket2::{SockFilter, SockRef};

/// A filter in the kernel.
pub(super) struct Filter {
    to: UnixDatagram,
    from: UnixDatagram,
}

impl Filter {
    /// Compiles `expression`, with tcpdump's options for it, for packets of `medium`.
    ///
    /// # Errors
    /// tcpdump is not installed or does not understand the expression, or the kernel refuses the program.
    pub(super) fn compile(expression: &[OsString], medium: Medium) -> io::Result<Filter> {
        let (to, from) = UnixDatagram::pair()?;
        SockRef::from(&from).attach_filter(&program(expression, medium)?)?;
        to.set_nonblocking(true)?;
        from.set_nonblocking(true)?;
        Ok(Filter { to, from })
    }

    /// Returns true if the expression holds for the packet.
    ///
    /// # Errors
    /// An error of the system.
    pub(super) fn accepts(&self, packet: &[u8]) -> io::Result<bool> {
        self.to.send(packet)?;
        match self.from.recv(&mut [0]) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Compiles an expression. tcpdump takes the link type from an empty capture on its standard input.
fn program(expression: &[OsString], medium: Medium) -> io::Result<Vec<SockFilter>> {
    let mut empty = Vec::new();
    Writer::new(&mut empty, &[Interface { name: "any", medium }], SNAPLEN_MAX)?;
    let mut command = Command::new("tcpdump");
    command.args(["-r", "-", "-ddd"]).args(expression).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| super::cannot_start(&error))?;
    let written = child.stdin.take().expect("the pipe was asked for").write_all(&empty);
    let output = child.wait_with_output()?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("reading from")).collect();
        return Err(io::Error::other(lines.join("\n")));
    }
    written?;
    // The first line is the number of instructions.
    let text = String::from_utf8_lossy(&output.stdout);
    let program: Option<Vec<SockFilter>> = text.lines().skip(1).map(instruction).collect();
    program.filter(|program| !program.is_empty()).ok_or_else(|| io::Error::other("tcpdump -ddd prints no program"))
}

/// Reads one line of `tcpdump -ddd`: code, both jumps, operand.
fn instruction(line: &str) -> Option<SockFilter> {
    let mut words = line.split_ascii_whitespace();
    let code = words.next()?.parse().ok()?;
    let (on_true, on_false) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some(SockFilter::new(code, on_true, on_false, words.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests;
