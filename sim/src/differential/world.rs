//! Two network namespaces without names, a veth pair, and who makes calls in them.

use std::process::Command;

use ringway::clock;
use ringway_shm::Duration;

use super::agent::Agent;
use super::calls::{Calls, End, Kind, Step};
use crate::check::{Failure, failure};

/// How long an answer may take to become that of the kernel.
const SETTLES_WITHIN: Duration = Duration::from_secs(10);
/// How long nothing may move before a stream stands still.
const STREAM_WITHIN: Duration = Duration::from_secs(3);
/// The first port of a run; each run takes another.
const PORT_FIRST: u16 = 2_000;

/// Where the subject is, and what its answers are held against.
#[derive(Clone, Copy, Debug)]
pub enum Reference<'a> {
    /// The subject is on the kernel: what changes by itself is believed when it has stayed for so long.
    Make {
        /// Longer than ACKs are delayed, to be sure.
        patience: Duration,
    },
    /// The subject is on Ringway: what takes time is awaited until it is as here.
    Is(&'a [String]),
}

/// See the module's text. It ends with its processes.
pub struct World {
    kernel: Agent,
    ringway: Agent,
    peer: Agent,
    runs: u16,
}

impl World {
    /// Makes the namespaces and starts `ringway` (the path of the built command) in one of them.
    ///
    /// # Errors
    /// Not root, or a program is missing: unshare, nsenter, ip, python3.
    pub fn new(ringway: &str) -> Result<World, Failure> {
        let kernel = Agent::start(&["unshare", "-n"])?;
        let peer = Agent::start(&["unshare", "-n"])?;
        let ends = [kernel.pid().to_string(), peer.pid().to_string()];
        let link = ["ip", "link", "add", "wire0", "netns", &ends[0], "type", "veth", "peer", "name", "wire0", "netns", &ends[1]];
        command(&link)?;
        for (end, pid) in [End::Subject, End::Peer].into_iter().zip(&ends) {
            let inside = |words: &[&str]| command(&[&["nsenter", "-t", pid, "-n", "ip"], words].concat());
            inside(&["address", "add", &format!("{}/24", address(end, false)), "dev", "wire0"])?;
            inside(&["address", "add", &format!("{}/64", address(end, true)), "dev", "wire0", "nodad"])?;
            inside(&["link", "set", "lo", "up"])?;
            inside(&["link", "set", "wire0", "up"])?;
        }
        let ringway = Agent::start(&["nsenter", "-t", &ends[0], "-n", ringway, "run", "-q", "-e", "strict", "--"])?;
        Ok(World { kernel, ringway, peer, runs: 0 })
    }

    /// Makes all calls and returns their answers.
    ///
    /// # Errors
    /// An end does not answer.
    pub fn play(&mut self, calls: &Calls, reference: Reference) -> Result<Vec<String>, Failure> {
        self.runs = (self.runs + 1) % 30_000;
        let port = PORT_FIRST + self.runs;
        let mut answers = Vec::new();
        for (at, step) in calls.steps.iter().enumerate() {
            let server = address(calls.server, calls.ipv6);
            let call = step.call.replace("SERVER", &server).replace("PORT", &port.to_string());
            let agent = match (step.end, reference) {
                (End::Peer, _) => &mut self.peer,
                (End::Subject, Reference::Make { .. }) => &mut self.kernel,
                (End::Subject, Reference::Is(_)) => &mut self.ringway,
            };
            answers.push(answer(agent, step, &call, at, reference)?);
        }
        Ok(answers)
    }
}

fn answer(agent: &mut Agent, step: &Step, call: &str, at: usize, reference: Reference) -> Result<String, Failure> {
    let end = clock::now() + SETTLES_WITHIN;
    match step.kind {
        Kind::Once => agent.ask(call),
        Kind::Waits => loop {
            let answer = agent.ask(call)?;
            if answer != "EAGAIN" || clock::now() >= end {
                return Ok(answer);
            }
        },
        Kind::Stream { from, bytes } => stream(agent, call, from, bytes),
        Kind::Settles => match reference {
            Reference::Is(answers) => loop {
                let answer = agent.ask(call)?;
                if answers.get(at) == Some(&answer) || clock::now() >= end {
                    return Ok(answer);
                }
            },
            Reference::Make { patience } => settled(agent, call, patience),
        },
    }
}

/// What the kernel says for so long.
fn settled(agent: &mut Agent, call: &str, patience: Duration) -> Result<String, Failure> {
    let mut last = agent.ask(call)?;
    let mut since = clock::now();
    while clock::now() < since + patience {
        let answer = agent.ask(call)?;
        if answer != last {
            (last, since) = (answer, clock::now());
        }
    }
    Ok(last)
}

/// Sends or receives `bytes` bytes, however many calls that takes: in `call`, COUNT is what is left and FROM where the
/// stream is. The answer is how far it came, and what stopped it.
fn stream(agent: &mut Agent, call: &str, from: u64, bytes: u64) -> Result<String, Failure> {
    let mut end = clock::now() + STREAM_WITHIN;
    let mut done = 0;
    while done < bytes {
        let call = call.replace("COUNT", &(bytes - done).to_string()).replace("FROM", &(from + done).to_string());
        let answer = agent.ask(&call)?;
        let (count, rest) = answer.split_once(' ').unwrap_or((&answer, ""));
        match count.parse::<u64>() {
            Ok(count) if count > 0 && rest != "OTHER" => (done, end) = (done + count, clock::now() + STREAM_WITHIN),
            _ if answer == "EAGAIN" && clock::now() < end => {}
            _ => return Ok(format!("{done} then {answer}")),
        }
    }
    Ok(format!("{done}"))
}

fn address(end: End, ipv6: bool) -> String {
    let number = if end == End::Subject { 1 } else { 2 };
    if ipv6 { format!("fd78::{number}") } else { format!("10.78.0.{number}") }
}

fn command(words: &[&str]) -> Result<(), Failure> {
    let output = Command::new(words[0]).args(&words[1..]).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => failure(format!("{}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr))),
        Err(error) => failure(format!("{}: {error}", words.join(" "))),
    }
}
