//! Command-line options common to all scenarios.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, FromArgMatches, ValueEnum};

use crate::bed::layout::PORT;
use crate::distant::Peer;
use crate::load::tuning::Congestion;
use crate::path::{self, Loss, Path};
use crate::scenario::Scenario;
use crate::target::{ClientStack, Target, WireKind};

/// Options of a scenario.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Link between client and server
    #[arg(long, value_enum, default_value_t = WireKind::Veth)]
    pub wire: WireKind,
    /// Servers to measure, in turn; default: linux and all Ringway targets of this wire
    #[arg(long, value_enum, value_delimiter = ',', value_name = "TARGET,…")]
    pub target: Vec<Target>,
    /// Numbers of connections
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1_000_000), value_name = "N,…")]
    pub connections: Vec<u32>,
    /// Bytes of a reply, such as 64, 64K, 2M
    #[arg(long, value_delimiter = ',', value_parser = size, value_name = "BYTES,…")]
    pub size: Vec<u32>,
    /// Requests per second of an open loop
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=100_000_000), value_name = "N,…")]
    pub rate: Vec<u32>,
    /// Measured seconds per round
    #[arg(long, value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Rounds per target; the medians are shown
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
    /// Largest number of extra rounds per point that replace disturbed ones
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(..=100))]
    pub patience: u32,
    /// Stack of the client; default: kernel, over memory ringway
    #[arg(long, value_enum)]
    pub client: Option<ClientStack>,
    /// CPU time that each request costs the server's program, in microseconds
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    pub work_us: u64,
    /// Number of server cores, one worker on each (linux, linux-spin, linux-uring, embedded over veth)
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub workers: Option<u8>,
    /// Core on which the kernel receives; default: the sender's core
    #[arg(long, value_enum, default_value_t = Steering::None)]
    pub rps: Steering,
    /// Numbers of simultaneous copies of a log (replay)
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=100), value_name = "N,…")]
    pub copies: Vec<u32>,
    /// Log to replay, with lines `time_ms size` (replay)
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Round-trip time of an emulated path, such as 20ms (over veth)
    #[arg(long, value_parser = path::time_us, value_name = "TIME")]
    pub rtt: Option<u32>,
    /// Packet loss of the path: 1%, 0.015, or 1/100 for every hundredth packet (over veth)
    #[arg(long, value_delimiter = ',', value_parser = path::loss, value_name = "SHARE,…")]
    pub loss: Vec<Loss>,
    /// Bandwidth of the path's bottleneck, such as 100mbit; default: 1gbit (over veth)
    #[arg(long, value_parser = path::bandwidth, value_name = "RATE")]
    pub bandwidth: Option<u64>,
    /// Queue length of the bottleneck, in packets; default: bandwidth times round-trip time, at least 100
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(path::QUEUE_PACKETS_MAX)), value_name = "PACKETS")]
    pub queue: Option<u32>,
    /// Congestion control of the sockets at both ends
    #[arg(long = "cc", value_enum, value_delimiter = ',', value_name = "NAME,…")]
    pub congestion: Vec<Congestion>,
    /// Servers stand on the machine where `ringway bench agent` runs: HOST:PORT of one that listens, whose token is in
    /// RINGWAY_BENCH_TOKEN, or `ssh:HOST`, `ssh:HOST sudo ringway`
    #[arg(long, value_name = "MACHINE", conflicts_with_all = ["wire", "client", "rtt", "loss", "bandwidth", "queue", "rps"])]
    pub peer: Option<Peer>,
    /// Address (with or without a port) of that machine to which the load goes; default: the one through which the agent is reached
    #[arg(long, value_name = "ADDRESS", requires = "peer", value_parser = address)]
    pub peer_address: Option<SocketAddr>,
    /// A further machine with a client, where `ringway bench agent` runs, named as with --peer; may be given several times. All clients
    /// share each load
    #[arg(long, value_name = "MACHINE", requires = "peer")]
    pub clients: Vec<Peer>,
    /// Print one JSON object per row
    #[arg(short, long)]
    pub json: bool,
    /// Print no progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
}

/// Core of the kernel's receive path (RPS).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Steering {
    /// The sender's core: the kernel's default on veth
    None,
    /// The client receives on its own core
    Client,
    /// Each side receives on its own core
    Both,
}

impl Options {
    /// The stack of the client.
    pub fn client_stack(&self) -> ClientStack {
        self.client.unwrap_or(self.wire.usual_client())
    }

    /// The wire's name in rows.
    pub fn wire_name(&self) -> String {
        if self.peer.is_some() { NETWORK.into() } else { self.wire.name() }
    }

    /// Number of server cores.
    pub fn workers(&self) -> usize {
        usize::from(self.workers.unwrap_or(1))
    }

    /// Number of rounds: the user's, or the scenario's `rounds`.
    pub fn rounds_or(&self, rounds: u32) -> u32 {
        self.rounds.unwrap_or(rounds)
    }

    /// The requested paths; empty: the plain wire.
    pub fn paths(&self) -> Vec<Path> {
        if self.rtt.is_none() && self.loss.is_empty() && self.bandwidth.is_none() && self.queue.is_none() {
            return Vec::new();
        }
        let losses = if self.loss.is_empty() { &[Loss::None][..] } else { &self.loss };
        losses.iter().map(|loss| Path::new(self.rtt.unwrap_or(0), *loss, self.bandwidth, self.queue)).collect()
    }

    /// The targets for a scenario: the user's, else linux and embedded for two-sided comparisons, else all.
    ///
    /// # Errors
    /// Those of `targets`.
    pub fn targets_of(&self, scenario: &Scenario) -> Result<Vec<Target>, String> {
        let two = [Target::Linux, Target::Embedded];
        let two_will_do = self.target.is_empty() && scenario.compares_two && self.wire == WireKind::Veth && self.peer.is_none();
        let target = if two_will_do { two.to_vec() } else { self.target.clone() };
        Options { target, ..self.clone() }.targets()
    }

    /// The targets, without duplicates.
    ///
    /// # Errors
    /// Text for the user: this wire does not support one of them.
    pub fn targets(&self) -> Result<Vec<Target>, String> {
        if self.wire != WireKind::Veth && !self.paths().is_empty() {
            return Err("--rtt, --loss, --bandwidth and --queue need the veth wire".into());
        }
        let is_distant = self.peer.is_some();
        let possible: Vec<Target> =
            self.wire.targets().iter().copied().filter(|target| !is_distant || target.can_be_distant()).collect();
        let mut wanted = self.target.clone();
        if wanted.is_empty() {
            wanted = possible.iter().copied().filter(|target| target.is_usual()).collect();
        }
        let mut found = Vec::new();
        for target in wanted {
            if !possible.contains(&target) {
                let names: Vec<String> = possible.iter().map(|target| target.name()).collect();
                let (target, wire) = (target.name(), self.wire_name());
                return Err(format!("{target} cannot use the {wire} wire; it carries {}", names.join(", ")));
            }
            if !found.contains(&target) {
                found.push(target);
            }
        }
        if self.workers() > 1 && self.wire != WireKind::Veth {
            return Err(format!("several workers need the veth wire, not {}", self.wire.name()));
        }
        let client = self.client_stack();
        if !self.wire.clients().contains(&client) {
            return Err(format!("a client on the {} stack cannot stand on the {} wire", client.name(), self.wire.name()));
        }
        Ok(found)
    }
}

impl Options {
    /// Parses words of the program's own.
    ///
    /// # Panics
    /// When they are wrong: these are never a user's words.
    pub(crate) fn parse(words: &[&str]) -> Options {
        let command = Options::augment_args(clap::Command::new("ringway bench").no_binary_name(true));
        let matches = command.try_get_matches_from(words).expect("words of our own");
        Options::from_arg_matches(&matches).expect("the same arguments")
    }
}

/// The wire of rows between two machines.
pub(crate) const NETWORK: &str = "network";

/// Parses an address, or one with a port.
fn address(text: &str) -> Result<SocketAddr, String> {
    let alone = text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, PORT));
    alone.or_else(|_| text.parse()).map_err(|_| "expected an address, such as 192.0.2.1 or [2001:db8::1]:8080".into())
}

/// Parses bytes with an optional K, M or G (1024).
pub fn size(text: &str) -> Result<u32, String> {
    let (number, factor) = match text.trim_end_matches(['k', 'K', 'm', 'M', 'g', 'G']) {
        number if number.len() == text.len() => (number, 1),
        number if number.len() + 1 == text.len() => (number, factor(text)),
        _ => return Err("not a number of bytes".into()),
    };
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor)).ok_or("not a number of bytes")?;
    let smallest = crate::load::message::HEADER_BYTES as u64;
    match u32::try_from(bytes) {
        Ok(bytes) if u64::from(bytes) >= smallest && bytes <= crate::load::message::MESSAGE_MAX => Ok(bytes),
        _ => Err(format!("expected a size from {smallest} to 1G: a message has {smallest} bytes at least")),
    }
}

fn factor(text: &str) -> u64 {
    match text.as_bytes().last().map(u8::to_ascii_lowercase) {
        Some(b'k') => 1 << 10,
        Some(b'm') => 1 << 20,
        _ => 1 << 30,
    }
}

/// Formats a size: `64 B`, `2 MiB`.
pub fn size_name(bytes: u32) -> String {
    match bytes {
        bytes if bytes >= 1 << 20 && bytes % (1 << 20) == 0 => format!("{} MiB", bytes >> 20),
        bytes if bytes >= 1 << 10 && bytes % (1 << 10) == 0 => format!("{} KiB", bytes >> 10),
        bytes => format!("{bytes} B"),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.05..=600.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected a number from 0.05 to 600".into()),
    }
}

#[cfg(test)]
mod tests;
