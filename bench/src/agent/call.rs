//! What `ringway bench --peer` asks an agent, and its answers: one JSON value a line, each call answered by one reply.
//!
//! Promises: a longer line than [`LINE_MAX`] is an error and takes no more memory. Does not do: hide anything from the network; over one
//! that is not trusted the lines go through ssh.

use std::io::{self, BufRead, Read, Write};
use std::net::{IpAddr, SocketAddr};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::bed::Counts;
use crate::bed::layout::ServerPlan;
use crate::load::order::{Answer, Order};
use crate::measure::calibration::Calibration;
use crate::measure::cpu::Used;
use crate::measure::machine::Facts;

/// Number of this form of calls and replies.
pub(crate) const PROTOCOL: u32 = 2;
/// Longest line, bytes.
const LINE_MAX: u64 = 1 << 20;

/// A call.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Call {
    /// The first one; answered by `Welcome`.
    Hello {
        /// The caller's form.
        protocol: u32,
        /// What the agent has printed; empty where the line itself is proof, as with ssh.
        token: String,
    },
    /// What the machine is, and its interface with this address; answered by `Facts`.
    Facts(IpAddr),
    /// The time; answered by `Clock`.
    Clock,
    /// A turn of the calibration loop on the server's core; answered by `Calibrated`.
    Calibrate,
    /// Start a server at an address; answered by `Started`.
    Start(ServerPlan, SocketAddr),
    /// Start a client of servers at an address; answered by `Facts` about this machine and its interface to there.
    Client(SocketAddr),
    /// What the client is to do; answered by `Answer`.
    Order(Order),
    /// CPU time of the server's side, or the client's where there is no server; answered by `Used`.
    Used,
    /// What kernel and services have counted; answered by `Counted`.
    Counts,
    /// End the server; answered by `Stopped`.
    Stop {
        /// So many connections the client had.
        connections: u64,
    },
}

/// An answer.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// The caller may go on.
    Welcome {
        /// Commit that the agent was built from.
        commit: String,
        /// Cores that servers may use.
        cores: usize,
    },
    /// See `Call::Facts`.
    Facts(Facts),
    /// Nanoseconds since 1970.
    Clock(u64),
    /// See `Call::Calibrate`.
    Calibrated(Calibration),
    /// The server serves.
    Started,
    /// See `Call::Order`.
    Answer(Answer),
    /// See `Call::Used`.
    Used(Used),
    /// See `Call::Counts`.
    Counted(Counts),
    /// The server has ended.
    Stopped {
        /// Connections that Ringway's services have accepted; `None`: none should.
        accepted: Option<u64>,
    },
    /// The call could not be done.
    Failed(String),
}

/// Writes a value as a line.
///
/// # Errors
/// The other side is gone.
pub(crate) fn put(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value).expect("calls have text keys and plain values");
    line.push(b'\n');
    out.write_all(&line)?;
    out.flush()
}

/// Reads a line's value; `None`: there are no more.
///
/// # Errors
/// The line is too long or has something else, or cannot be read.
pub(crate) fn take<T: DeserializeOwned>(from: &mut dyn BufRead) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    let count = from.take(LINE_MAX).read_until(b'\n', &mut line)?;
    if count == 0 {
        return Ok(None);
    }
    if line.last() != Some(&b'\n') {
        let text = if count as u64 == LINE_MAX { "a line is too long" } else { "a line has no end" };
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok(Some(serde_json::from_slice(&line)?))
}
