//! `ringway why`: whether the stack or the kernel serves a process, a program or a port, the reason, and what can be done.
//!
//! Promises: the reasons are the words of `ringway ss`. Does not do: predict; `ringway run --dry-run` does.

mod process;
mod reasons;

use std::net::IpAddr;
use std::process::ExitCode;

use clap::Args;
use ringway_shm::stats::{Endpoint, SocketRecord};
use serde_json::json;

use crate::output;
use crate::services::{self, Service};
use crate::ss::{self, describe, state_name};
use process::{Found, Process};

/// Arguments of `ringway why`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  ringway why nginx
  ringway why 4711
  ringway why :443
Exit status: 0: the stack serves all of it; 1: the kernel serves some of it, or nothing was found; 2: wrong arguments.")]
pub(crate) struct Arguments {
    /// A process id, the name of a program, `:PORT`, or `ADDRESS:PORT` of either end
    #[arg(value_parser = Target::read)]
    target: Target,
    /// Print JSON
    #[arg(short, long)]
    json: bool,
}

/// What is asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    Process(u32),
    Program(String),
    Port(Option<IpAddr>, u16),
}

impl Target {
    fn read(text: &str) -> Result<Target, String> {
        if let Some(port) = text.strip_prefix(':') {
            return port.parse().map(|port| Target::Port(None, port)).map_err(|_| format!("{port} is no port"));
        }
        if let Ok(end) = text.parse::<std::net::SocketAddr>() {
            return Ok(Target::Port(Some(end.ip()), end.port()));
        }
        match text.parse::<u32>() {
            Ok(0) => Err("0 is no process".to_owned()),
            Ok(pid) => Ok(Target::Process(pid)),
            Err(_) if text.is_empty() || text.contains('/') => {
                Err("it is no process id, no name of a program and no port".to_owned())
            }
            Err(_) => Ok(Target::Program(text.to_owned())),
        }
    }

    /// Returns true for a socket that has this end.
    fn is_end_of(&self, socket: &SocketRecord) -> bool {
        let Target::Port(ip, port) = self else { return false };
        let ends = [&socket.local, &socket.remote];
        ends.iter().any(|end| end.port == *port && ip.is_none_or(|ip| end.ip == ip || end.ip.is_unspecified()))
    }
}

/// The answer for one process.
struct Answer {
    process: Process,
    found: Found,
    sockets: Vec<SocketRecord>,
}

/// Prints the answer.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let services = services::everywhere();
    let answers = answers(&arguments.target, &services);
    let all_served = !answers.is_empty() && answers.iter().all(Answer::is_served);
    let text = match (answers.as_slice(), arguments.json) {
        (answers, true) => json!(answers.iter().map(Answer::json).collect::<Vec<_>>()).to_string() + "\n",
        ([], false) => "nothing was found; a port without a process is nobody's\n".to_owned(),
        (answers, false) => answers.iter().map(Answer::text).collect(),
    };
    match output::print("why", &text) {
        ExitCode::SUCCESS if all_served => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn answers(target: &Target, services: &[Service]) -> Vec<Answer> {
    let sockets: Vec<SocketRecord> = services.iter().flat_map(Service::sockets).filter(|socket| socket.pid > 0).collect();
    let processes = match target {
        Target::Process(pid) => Process::read(*pid).into_iter().collect(),
        Target::Program(name) => Process::all().into_iter().filter(|process| process.is_called(name)).collect(),
        Target::Port(_, port) => {
            let holders = sockets.iter().filter(|socket| target.is_end_of(socket)).flat_map(ss::processes);
            let pids: std::collections::BTreeSet<u32> = holders.chain(process::listening_at(*port)).collect();
            // A service keeps what programs have shown.
            let is_service = |pid: &u32| services.iter().any(|service| service.stats.pid() == *pid);
            pids.into_iter().filter(|pid| !is_service(pid)).filter_map(Process::read).collect::<Vec<_>>()
        }
    };
    let asked = |socket: &&SocketRecord| !matches!(target, Target::Port(..)) || target.is_end_of(socket);
    let answer = |process: Process| {
        let of_group = sockets.iter().filter(|socket| process.shares_with(socket.pid)).filter(asked);
        let (found, sockets) = (process.find(services), of_group.cloned().collect());
        Answer { process, found, sockets }
    };
    let mut answers: Vec<Answer> = processes.into_iter().map(answer).collect();
    // Of processes that share their sockets the first one speaks for all.
    let mut groups = std::collections::BTreeSet::new();
    answers.retain(|answer| answer.process.group.as_ref().is_none_or(|group| groups.insert(group.clone())));
    answers
}

impl Answer {
    fn is_served(&self) -> bool {
        self.found.is_served() && self.sockets.iter().all(|socket| socket.kernel.is_none())
    }

    fn text(&self) -> String {
        let Process { name, pid, .. } = &self.process;
        let mut text = format!("{name} (pid {pid}): {}\n", self.found.words());
        if let Some(remedy) = self.found.remedy() {
            text += &format!("  remedy: {remedy}\n");
        }
        for socket in &self.sockets {
            text += &format!("  {}: ", describe(socket));
            match socket.kernel {
                None => text += "the stack\n",
                Some(path) => {
                    let (why, remedy) = reasons::of(path.reason);
                    text += &format!("the kernel, {}: {why}\n    remedy: {remedy}\n", path.reason.word());
                }
            }
        }
        if self.found.is_served() && self.sockets.is_empty() {
            text += "  it has no socket that Ringway knows; RINGWAY_LOG=fallback says of each why it stays with the kernel\n";
        }
        text
    }

    fn json(&self) -> serde_json::Value {
        let end = |end: &Endpoint| std::net::SocketAddr::new(end.ip, end.port).to_string();
        let sockets = self.sockets.iter().map(|socket| {
            let kernel = socket.kernel.map(|path| {
                let (why, remedy) = reasons::of(path.reason);
                json!({ "reason": path.reason.word(), "why": why, "remedy": remedy, "count": path.count })
            });
            json!({
                "state": state_name(socket.state), "local": end(&socket.local), "remote": end(&socket.remote),
                "path": if kernel.is_some() { "kernel" } else { "stack" }, "kernel": kernel,
            })
        });
        json!({
            "pid": self.process.pid, "program": self.process.name, "service": self.found.service(),
            "path": if self.found.is_served() { "stack" } else { "kernel" }, "why": self.found.words(), "remedy": self.found.remedy(),
            "sockets": sockets.collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests;
