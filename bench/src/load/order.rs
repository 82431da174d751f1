//! What a client is told to do and what it answers; lines of JSON between `ringway bench` and its roles.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use super::log::Source;
use super::tuning::Tuning;

/// Connections to open and what to send on them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Where the server is.
    pub server: SocketAddr,
    /// Local addresses, used in turn; empty: the system chooses.
    pub sources: Vec<IpAddr>,
    /// Connections open at a time.
    pub connections: u32,
    /// Bytes of a request.
    pub request: u32,
    /// Bytes of a reply.
    pub reply: u32,
    /// Requests under way on each connection.
    pub depth: u32,
    /// When requests begin.
    pub pace: Pace,
    /// HTTP's fixed request instead of messages; `request` and `reply` mean nothing then.
    pub http: bool,
    /// So many of the connections, the first ones, are streams without end towards the client instead; closed pace only.
    pub streams: u32,
    /// The log of the pace of that name, and how many copies of it at once.
    pub log: Option<(Source, u32)>,
    /// What the sockets are told.
    pub tuning: Tuning,
}

/// When requests begin.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Pace {
    /// Each when a reply has come.
    Closed,
    /// At random (Poisson) so often per second, whether or not replies have come; latency counts from then.
    Poisson(f64),
    /// As `Poisson`, at equal distances.
    Fixed(f64),
    /// As `Closed`, and the connection ends after so many replies; the next request begins with a new connection, and its
    /// latency with the beginning of that.
    Short(u32),
    /// When and of the size that the plan's log says, each on a connection of its own; latency counts from then.
    Log,
}

/// A line to a role.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Order {
    /// Open connections; answered by `Ready`.
    Prepare(Plan),
    /// Send; answered by `Done`.
    Run {
        /// Not measured, microseconds.
        warmup_us: u64,
        /// Measured, microseconds.
        measure_us: u64,
        /// For the intended times.
        seed: u64,
    },
    /// Close all connections; answered by `Ready`.
    Release,
    /// To a wire: what has become of packets; answered by `Counted`.
    Count,
}

/// A line from a role.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// It serves, or it has all its connections.
    Ready,
    /// A run is over.
    Done(Outcome),
    /// What a wire has done so far.
    Counted(Passage),
    /// It cannot go on; it ends.
    Failed(String),
}

/// What a wire has done with packets so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passage {
    /// Given to the other end.
    pub forwarded: u64,
    /// Lost because the wire shall lose some.
    pub lost: u64,
    /// Lost because the queue before the bottleneck was full.
    pub overflowed: u64,
}

impl Passage {
    /// What has been done since `before`.
    pub fn since(&self, before: &Passage) -> Passage {
        Passage {
            forwarded: self.forwarded - before.forwarded,
            lost: self.lost - before.lost,
            overflowed: self.overflowed - before.overflowed,
        }
    }
}

/// What one run gave.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Replies in the measured time.
    pub replies: u64,
    /// Replies with those of the warm-up and with the pieces of streams: what CPU is divided by.
    pub replies_in_all: u64,
    /// Bytes that streams have brought in the measured time.
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
    /// The slowest, microseconds.
    pub max_us: f64,
    /// Connections that were opened.
    pub opened: u64,
    /// Intended times at which every connection was still busy: the load was beyond capacity.
    pub late: u64,
    /// Replies of the connection that got most and of the one that got fewest.
    pub most: u64,
    /// See `most`.
    pub fewest: u64,
    /// Jain's index over the connections' replies: 1 is fair.
    pub fairness: f64,
}
