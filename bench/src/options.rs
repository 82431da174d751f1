//! What every scenario can be told on the command line.

use std::path::PathBuf;

use clap::{Args, FromArgMatches, ValueEnum};

use crate::load::tuning::Congestion;
use crate::path::{self, Loss, Path};
use crate::scenario::Scenario;
use crate::target::{ClientStack, Target, WireKind};

/// Options of a scenario.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// What joins client and server
    #[arg(long, value_enum, default_value_t = WireKind::Veth)]
    pub wire: WireKind,
    /// Who serves, in turn; default: linux and all of Ringway that this wire carries
    #[arg(long, value_enum, value_delimiter = ',', value_name = "TARGET,…")]
    pub target: Vec<Target>,
    /// Connections
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1_000_000), value_name = "N,…")]
    pub connections: Vec<u32>,
    /// Bytes of a reply, such as 64, 64K, 2M
    #[arg(long, value_delimiter = ',', value_parser = size, value_name = "BYTES,…")]
    pub size: Vec<u32>,
    /// Requests per second of an open loop
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=100_000_000), value_name = "N,…")]
    pub rate: Vec<u32>,
    /// Seconds that are measured in each round
    #[arg(long, value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Rounds of each target; the medians are shown
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
    /// At each point so many rounds more, where the machine was disturbed
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(..=100))]
    pub patience: u32,
    /// Whose stack the client stands on; default: the kernel's, over memory Ringway's
    #[arg(long, value_enum)]
    pub client: Option<ClientStack>,
    /// Microseconds of work that each request costs the server's program
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    pub work_us: u64,
    /// Cores of the server, each with a worker of its own (linux, linux-spin, linux-uring, embedded over veth)
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub workers: Option<u8>,
    /// On which core the kernel receives; default: on the core that sends
    #[arg(long, value_enum, default_value_t = Steering::None)]
    pub rps: Steering,
    /// Copies of a log at once (replay)
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=100), value_name = "N,…")]
    pub copies: Vec<u32>,
    /// A log to replay: lines of time_ms and size (replay)
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Round-trip time of a path between both ends, such as 20ms (over veth)
    #[arg(long, value_parser = path::time_us, value_name = "TIME")]
    pub rtt: Option<u32>,
    /// Packets that the path loses: 1%, 0.015, or 1/100 for every hundredth (over veth)
    #[arg(long, value_delimiter = ',', value_parser = path::loss, value_name = "SHARE,…")]
    pub loss: Vec<Loss>,
    /// Rate of the path's bottleneck, such as 100mbit; default: 1gbit (over veth)
    #[arg(long, value_parser = path::bandwidth, value_name = "RATE")]
    pub bandwidth: Option<u64>,
    /// Packets that may wait before it; default: bandwidth times round-trip time, at least 100
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(path::QUEUE_PACKETS_MAX)), value_name = "PACKETS")]
    pub queue: Option<u32>,
    /// Congestion control of the sockets of both ends
    #[arg(long = "cc", value_enum, value_delimiter = ',', value_name = "NAME,…")]
    pub congestion: Vec<Congestion>,
    /// One JSON object per row
    #[arg(short, long)]
    pub json: bool,
    /// No progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
}

/// Where the kernel's receive side runs (RPS).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Steering {
    /// On the core of whoever sends: the default of the kernel on veth
    None,
    /// The client's on its own core
    Client,
    /// Each side's on its own core
    Both,
}

impl Options {
    /// Whose stack the client stands on.
    pub fn client_stack(&self) -> ClientStack {
        self.client.unwrap_or(self.wire.usual_client())
    }

    /// Cores of the server.
    pub fn workers(&self) -> usize {
        usize::from(self.workers.unwrap_or(1))
    }

    /// Rounds and the seconds of each, where a scenario has nothing else in mind.
    pub fn rounds_or(&self, rounds: u32) -> u32 {
        self.rounds.unwrap_or(rounds)
    }

    /// The paths that were asked for; empty: no path, but the wire as it is.
    pub fn paths(&self) -> Vec<Path> {
        if self.rtt.is_none() && self.loss.is_empty() && self.bandwidth.is_none() && self.queue.is_none() {
            return Vec::new();
        }
        let losses = if self.loss.is_empty() { &[Loss::None][..] } else { &self.loss };
        losses.iter().map(|loss| Path::new(self.rtt.unwrap_or(0), *loss, self.bandwidth, self.queue)).collect()
    }

    /// The targets for a scenario: the user's; else of two-sided comparisons linux and embedded, of others all.
    ///
    /// # Errors
    /// As `targets`.
    pub fn targets_of(&self, scenario: &Scenario) -> Result<Vec<Target>, String> {
        let two = [Target::Linux, Target::Embedded];
        let two_will_do = self.target.is_empty() && scenario.compares_two && self.wire == WireKind::Veth;
        let target = if two_will_do { two.to_vec() } else { self.target.clone() };
        Options { target, ..self.clone() }.targets()
    }

    /// The targets, without repetitions.
    ///
    /// # Errors
    /// Text for the user: one of them cannot be had over this wire.
    pub fn targets(&self) -> Result<Vec<Target>, String> {
        if self.wire != WireKind::Veth && !self.paths().is_empty() {
            return Err("--rtt, --loss, --bandwidth and --queue need the veth wire".into());
        }
        let possible = self.wire.targets();
        let mut wanted = self.target.clone();
        if wanted.is_empty() {
            wanted = possible.iter().copied().filter(|target| target.is_usual()).collect();
        }
        let mut found = Vec::new();
        for target in wanted {
            if !possible.contains(&target) {
                let names: Vec<String> = possible.iter().map(|target| target.name()).collect();
                let (target, wire) = (target.name(), self.wire.name());
                return Err(format!("{target} is not built for the {wire} wire; it carries {}", names.join(", ")));
            }
            if !found.contains(&target) {
                found.push(target);
            }
        }
        if self.workers() > 1 && self.wire != WireKind::Veth {
            return Err(format!("several workers are built for the veth wire, not for {}", self.wire.name()));
        }
        let client = self.client_stack();
        if !self.wire.clients().contains(&client) {
            return Err(format!("a client on the {} stack cannot stand on the {} wire", client.name(), self.wire.name()));
        }
        Ok(found)
    }
}

impl Options {
    /// What these words on the command line mean.
    ///
    /// # Panics
    /// They are not the program's own; a user's would deserve a message.
    pub(crate) fn parse(words: &[&str]) -> Options {
        let command = Options::augment_args(clap::Command::new("ringway bench").no_binary_name(true));
        let matches = command.try_get_matches_from(words).expect("words of our own");
        Options::from_arg_matches(&matches).expect("the same arguments")
    }
}

/// Bytes with an optional K, M or G (1024).
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
        _ => Err(format!("a message has {smallest} bytes to 1G")),
    }
}

fn factor(text: &str) -> u64 {
    match text.as_bytes().last().map(u8::to_ascii_lowercase) {
        Some(b'k') => 1 << 10,
        Some(b'm') => 1 << 20,
        _ => 1 << 30,
    }
}

/// As people write it: `64 B`, `2 MiB`.
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
        _ => Err("a number from 0.05 to 600".into()),
    }
}

#[cfg(test)]
mod tests;
