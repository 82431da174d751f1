//! Unnamed network namespaces, a wire, and the processes that make calls at its ends.

use ringway_engine::clock;
use ringway_shm::Duration;

use super::agent::Agent;
use super::calls::{Calls, End, Kind, Step};
use super::link::{Forwarder, INTERFACE, Link, join_by_tap, join_by_veth, set_up};
use crate::check::Failure;

/// Longest time that an answer may take to become equal to the kernel's.
const SETTLES_WITHIN: Duration = Duration::from_secs(10);
/// Longest time without progress before a stream counts as stalled.
const STREAM_WITHIN: Duration = Duration::from_secs(3);
/// The first port; each run uses the next one.
const PORT_FIRST: u16 = 2_000;
/// Starts a program in a network namespace of its own.
const NAMESPACE: &[&str] = &["unshare", "-n"];

/// Where the subject runs, and the reference for its answers.
#[derive(Clone, Copy, Debug)]
pub enum Reference<'a> {
    /// The subject is on the kernel: an answer that may change by itself counts when it has stayed for this long.
    Make {
        /// Longer than any ACK delay.
        patience: Duration,
    },
    /// The subject is on Ringway: answers are repeated until they equal these.
    Is(&'a [String]),
}

/// The processes that make the calls of a run.
struct Ends {
    subject: Agent,
    /// On the kernel's stack, wherever the subject is.
    peer: Agent,
}

/// See the module's text. It ends with its processes.
pub struct World {
    /// Dropped first: its interfaces are in the namespaces of the others.
    _forwarder: Option<Forwarder>,
    kernel: Ends,
    ringway: Ends,
    runs: u16,
}

impl World {
    /// Makes the namespaces and starts `ringway` (the path of the built command) in one of them.
    ///
    /// # Errors
    /// When not root, or when a program is missing: unshare, nsenter, ip, python3.
    pub fn new(ringway: &str, link: Link) -> Result<World, Failure> {
        let kernel = Ends { subject: Agent::start(NAMESPACE)?, peer: Agent::start(NAMESPACE)? };
        let forwarder = match link {
            Link::Veth => join_by_veth(kernel.subject.pid(), kernel.peer.pid()).map(|()| None)?,
            Link::Tap => Some(join_by_tap(kernel.subject.pid(), kernel.peer.pid())?),
        };
        for (end, agent) in [(End::Subject, &kernel.subject), (End::Peer, &kernel.peer)] {
            set_up(agent.pid(), "lo", &[])?;
            set_up(agent.pid(), INTERFACE, &[false, true].map(|ipv6| network(end, ipv6)))?;
        }
        let strict = [ringway, "run", "-q", "-e", "strict", "--"];
        let ringway = match link {
            // The wire is between the namespaces of the two processes.
            Link::Veth => {
                let [subject, peer] = [&kernel.subject, &kernel.peer].map(|agent| agent.pid().to_string());
                let start = |pid: &str, words: &[&str]| Agent::start(&[&["nsenter", "-t", pid, "-n"], words].concat());
                Ends { subject: start(&subject, &strict)?, peer: start(&peer, &[])? }
            }
            // The kernel's end of Ringway's interface is in Ringway's namespace.
            Link::Tap => {
                let peer = Agent::start(NAMESPACE)?;
                set_up(peer.pid(), "lo", &[])?;
                let pid = peer.pid().to_string();
                let mut variables = vec!["RINGWAY_INTERFACE_DEVICE=tap".to_owned()];
                for (family, ipv6) in [("", false), ("6", true)] {
                    variables.push(format!("RINGWAY_INTERFACE_ADDRESS{family}={}", network(End::Subject, ipv6)));
                    variables.push(format!("RINGWAY_INTERFACE_GATEWAY{family}={}", address_of(End::Peer, ipv6)));
                }
                let variables = variables.iter().map(String::as_str);
                let words = ["nsenter", "-t", &pid, "-n", "env"].into_iter().chain(variables).chain(strict);
                Ends { subject: Agent::start(&words.collect::<Vec<_>>())?, peer }
            }
        };
        Ok(World { _forwarder: forwarder, kernel, ringway, runs: 0 })
    }

    /// Makes all calls and returns their answers.
    ///
    /// # Errors
    /// When an end does not answer.
    pub fn play(&mut self, calls: &Calls, reference: Reference) -> Result<Vec<String>, Failure> {
        self.runs = (self.runs + 1) % 30_000;
        let port = PORT_FIRST + self.runs;
        let mut answers = Vec::new();
        for (at, step) in calls.steps.iter().enumerate() {
            let server = address_of(calls.server, calls.ipv6);
            let call = step.call.replace("SERVER", &server).replace("PORT", &port.to_string());
            let ends = match reference {
                Reference::Make { .. } => &mut self.kernel,
                Reference::Is(_) => &mut self.ringway,
            };
            let agent = if step.end == End::Subject { &mut ends.subject } else { &mut ends.peer };
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

/// Repeats the call until its answer has stayed the same for `patience`.
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

/// Sends or receives `bytes` bytes in as many calls as needed: in `call`, COUNT is the remaining count and FROM the position
/// in the stream. Returns the bytes moved, and what stopped it. An end that has shut down reading gets 0 even while bytes
/// are under way (Nagle's rule holds them back until a delayed ACK): 0 counts only when it stays.
fn stream(agent: &mut Agent, call: &str, from: u64, bytes: u64) -> Result<String, Failure> {
    let mut end = clock::now() + STREAM_WITHIN;
    let mut done = 0;
    while done < bytes {
        let call = call.replace("COUNT", &(bytes - done).to_string()).replace("FROM", &(from + done).to_string());
        let answer = agent.ask(&call)?;
        let (count, rest) = answer.split_once(' ').unwrap_or((&answer, ""));
        match count.parse::<u64>() {
            Ok(count) if count > 0 && rest != "OTHER" => (done, end) = (done + count, clock::now() + STREAM_WITHIN),
            Ok(0) if clock::now() < end => {}
            _ if answer == "EAGAIN" && clock::now() < end => {}
            _ => return Ok(format!("{done} then {answer}")),
        }
    }
    Ok(format!("{done}"))
}

fn address_of(end: End, ipv6: bool) -> String {
    let number = if end == End::Subject { 1 } else { 2 };
    if ipv6 { format!("fd78::{number}") } else { format!("10.78.0.{number}") }
}

/// Returns the end's address with its prefix length.
fn network(end: End, ipv6: bool) -> String {
    format!("{}/{}", address_of(end, ipv6), if ipv6 { 64 } else { 24 })
}
