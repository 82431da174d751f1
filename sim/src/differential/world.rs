//! Network namespaces without names, a wire, and who makes calls at its ends.

use ringway::clock;
use ringway_shm::Duration;

use super::agent::Agent;
use super::calls::{Calls, End, Kind, Step};
use super::link::{Forwarder, INTERFACE, Link, join_by_tap, join_by_veth, set_up};
use crate::check::Failure;

/// How long an answer may take to become that of the kernel.
const SETTLES_WITHIN: Duration = Duration::from_secs(10);
/// How long nothing may move before a stream stands still.
const STREAM_WITHIN: Duration = Duration::from_secs(3);
/// The first port of a run; each run takes another.
const PORT_FIRST: u16 = 2_000;
/// Starts a program in a network namespace of its own.
const NAMESPACE: &[&str] = &["unshare", "-n"];

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

/// Who makes the calls of a run.
struct Ends {
    subject: Agent,
    /// On the kernel's stack, whatever the subject is on.
    peer: Agent,
}

/// See the module's text. It ends with its processes.
pub struct World {
    /// The first to go: its interfaces go with the namespaces of the others.
    _forwarder: Option<Forwarder>,
    kernel: Ends,
    ringway: Ends,
    runs: u16,
}

impl World {
    /// Makes the namespaces and starts `ringway` (the path of the built command) in one of them.
    ///
    /// # Errors
    /// Not root, or a program is missing: unshare, nsenter, ip, python3.
    pub fn new(ringway: &str, link: Link) -> Result<World, Failure> {
        let kernel = Ends { subject: Agent::start(NAMESPACE)?, peer: Agent::start(NAMESPACE)? };
        let forwarder = match link {
            Link::Veth => join_by_veth(kernel.subject.pid(), kernel.peer.pid()).map(|()| None)?,
            Link::Tap => Some(join_by_tap(kernel.subject.pid(), kernel.peer.pid())?),
        };
        for (end, agent) in [(End::Subject, &kernel.subject), (End::Peer, &kernel.peer)] {
            set_up(agent.pid(), "lo", &[])?;
            set_up(agent.pid(), INTERFACE, &[network(end, false), network(end, true)])?;
        }
        let strict = [ringway, "run", "-q", "-e", "strict", "--"];
        let ringway = match link {
            // In the namespaces of the others.
            Link::Veth => {
                let [subject, peer] = [&kernel.subject, &kernel.peer].map(|agent| agent.pid().to_string());
                let start = |pid: &str, words: &[&str]| Agent::start(&[&["nsenter", "-t", pid, "-n"], words].concat());
                Ends { subject: start(&subject, &strict)?, peer: start(&peer, &[])? }
            }
            // The kernel's end of Ringway's interface is where Ringway is.
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
    /// An end does not answer.
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
/// stream is. The answer is how far it came, and what stopped it. Who has shut down its reading is told 0 also while bytes are
/// still on their way, held back by Nagle's rule until an ACK that is delayed: 0 is an answer when it stays.
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

/// With its prefix.
fn network(end: End, ipv6: bool) -> String {
    format!("{}/{}", address_of(end, ipv6), if ipv6 { 64 } else { 24 })
}
