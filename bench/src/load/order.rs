//! Orders to roles and their answers: lines of JSON between `ringway bench` and its roles.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::log::Source;
use super::tuning::Tuning;

/// Connections to open and requests to send on them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Address of the server.
    pub server: SocketAddr,
    /// Local addresses, used in turn; empty: the system chooses.
    pub sources: Vec<IpAddr>,
    /// Number of open connections.
    pub connections: u32,
    /// Bytes of a request.
    pub request: u32,
    /// Bytes of a reply.
    pub reply: u32,
    /// Requests in flight on each connection.
    pub depth: u32,
    /// Times at which requests begin.
    pub pace: Pace,
    /// Sends HTTP's fixed request instead of messages; `request` and `reply` are ignored.
    pub http: bool,
    /// Number of connections, the first ones, that are endless streams to the client instead; closed pace only.
    pub streams: u32,
    /// The log of `Pace::Log`, and the number of simultaneous copies.
    pub log: Option<(Source, u32)>,
    /// Socket options.
    pub tuning: Tuning,
}

/// Times at which requests begin.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Pace {
    /// Each after a reply.
    Closed,
    /// At random (Poisson) with this rate per second, independent of replies; latency counts from the intended time.
    Poisson(f64),
    /// At equal intervals with this rate per second, otherwise as `Poisson`.
    Fixed(f64),
    /// Each after a reply. The connection ends after this number of replies; the next request opens a new connection, and
    /// its latency includes the opening.
    Short(u32),
    /// At the times and with the sizes of the plan's log, each on its own connection; latency counts from the intended time.
    Log,
}

/// A line to a role.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Order {
    /// Open connections; answered by `Ready`.
    Prepare(Plan),
    /// Send; answered by `Done`.
    Run {
        /// Warm-up, not measured, microseconds.
        warmup_us: u64,
        /// Measured time, microseconds.
        measure_us: u64,
        /// Seed of the intended times.
        seed: u64,
    },
    /// Close all connections; answered by `Ready`.
    Release,
    /// Report packet counts, for a wire; answered by `Counted`.
    Count,
}

impl Order {
    /// The order of a run.
    pub fn run(warmup: Duration, measure: Duration, seed: u64) -> Order {
        Order::Run { warmup_us: warmup.as_micros() as u64, measure_us: measure.as_micros() as u64, seed }
    }
}

/// A line from a role.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// The role serves, or has opened or closed its connections.
    Ready,
    /// A run is over.
    Done(Outcome),
    /// Packet counts of a wire so far.
    Counted(Passage),
    /// The role has failed and ends.
    Failed(String),
}

/// Packet counts of a wire so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passage {
    /// Packets forwarded.
    pub forwarded: u64,
    /// Packets lost by the configured loss.
    pub lost: u64,
    /// Packets lost because the queue of the bottleneck was full.
    pub overflowed: u64,
}

impl Passage {
    /// The counts since `before`.
    pub fn since(&self, before: &Passage) -> Passage {
        Passage {
            forwarded: self.forwarded - before.forwarded,
            lost: self.lost - before.lost,
            overflowed: self.overflowed - before.overflowed,
        }
    }
}

/// Result of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Replies in the measured time.
    pub replies: u64,
    /// Replies including those of the warm-up and pieces of streams: the divisor of CPU time.
    pub replies_in_all: u64,
    /// Bytes received on streams in the measured time.
    pub stream_bytes: u64,
    /// The measured time, seconds.
    pub seconds: f64,
    /// Median latency, microseconds.
    pub p50_us: f64,
    /// 99th percentile, microseconds.
    pub p99_us: f64,
    /// 99.9th percentile, microseconds.
    pub p999_us: f64,
    /// Mean, microseconds.
    pub mean_us: f64,
    /// Maximum, microseconds.
    pub max_us: f64,
    /// Number of opened connections.
    pub opened: u64,
    /// Requests that found every connection busy at their intended time: the load exceeded the capacity.
    pub late: u64,
    /// Replies of the connection with the most, and of the one with the fewest.
    pub most: u64,
    /// See `most`.
    pub fewest: u64,
    /// Jain's index over the connections' replies: 1 is fair.
    pub fairness: f64,
    /// The latencies, nanoseconds to three digits, each with the number of replies that had it.
    pub latencies: Vec<(u64, u64)>,
}
