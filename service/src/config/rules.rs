//! `[[rule]]`: which programs, ports and peers are Ringway's and which are the kernel's. The first rule that fits decides; without one,
//! Ringway serves.
//!
//! A rule names either programs (user, cgroup, program), and is looked at when a process attaches, or packets (protocol, port, peer
//! port, address, peer), and is looked at when a port is listened on or bound, and when a connection is opened. Packets of a listening or
//! UDP port are the kernel's or Ringway's whatever peer they are of: a rule of `kernel` that fits some peers takes the port, and one of
//! `accelerate` must fit all of them. Promises: user and cgroup are the kernel's word on a process. Does not do: a program that lies; its
//! name is its own choice.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

use ringway_engine::Transport;
use ringway_stack::Cidr;
use toml::de::{DeTable, DeValue};

use super::Value;
use super::read::{suggestion, unknown};

/// The section's name.
pub const SECTION: &str = "rule";
/// The names of everything that may stand in a rule.
const NAMES: [&str; 9] = ["action", "user", "cgroup", "program", "protocol", "port", "peer_port", "address", "peer"];
/// A name of a program that the kernel keeps has so many letters (proc_pid_comm(5)).
const COMM_LEN: usize = 15;

/// What a rule decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ringway serves.
    Accelerate,
    /// The kernel does.
    Kernel,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// `FILE:LINE`.
    pub origin: String,
    action: Action,
    subject: Subject,
    /// As it was written: names and TOML texts.
    settings: Vec<(String, String)>,
}

/// What a rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Subject {
    Process(ProcessRule),
    Packets(PacketRule),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ProcessRule {
    user: Option<u32>,
    cgroup: Option<String>,
    program: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct PacketRule {
    protocol: Option<Transport>,
    port: Option<RangeInclusive<u16>>,
    peer_port: Option<RangeInclusive<u16>>,
    address: Option<Cidr>,
    peer: Option<Cidr>,
}

/// A process that wants to attach.
#[derive(Clone, Debug, Default)]
pub(crate) struct Process {
    pub(crate) user: u32,
    /// Its cgroup, from the root of version 2; `None`: not known.
    pub(crate) cgroup: Option<String>,
    /// The name that `ps` shows; `None`: not known.
    pub(crate) program: Option<String>,
}

/// As in a file, on one line.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.settings.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        f.write_str(&words.join(", "))
    }
}

impl Rule {
    /// Its keys and values as TOML writes them.
    pub(super) fn settings(&self) -> impl Iterator<Item = &(String, String)> {
        self.settings.iter()
    }

    /// What is not known of a process makes it the kernel's, where anything could.
    fn fits_process(&self, process: &Process) -> bool {
        let Subject::Process(rule) = &self.subject else { return false };
        let unknown = self.action == Action::Kernel;
        rule.user.is_none_or(|user| user == process.user)
            && rule
                .cgroup
                .as_ref()
                .is_none_or(|wanted| process.cgroup.as_ref().map_or(unknown, |cgroup| is_below(cgroup, wanted)))
            && rule.program.as_ref().is_none_or(|wanted| process.program.as_ref().map_or(unknown, |program| program == wanted))
    }

    /// Whether it fits the packets of a port; where it fits those of some peers only, a rule of `kernel` does.
    fn fits_port(&self, transport: Transport, ip: IpAddr, port: u16) -> bool {
        let Subject::Packets(rule) = &self.subject else { return false };
        let all_peers = rule.peer.is_none() && rule.peer_port.is_none();
        rule.fits(transport, ip, port) && (all_peers || self.action == Action::Kernel)
    }

    fn fits_connection(&self, local: SocketAddr, peer: SocketAddr) -> bool {
        let Subject::Packets(rule) = &self.subject else { return false };
        rule.fits(Transport::Tcp, local.ip(), local.port())
            && rule.peer_port.as_ref().is_none_or(|ports| ports.contains(&peer.port()))
            && rule.peer.as_ref().is_none_or(|peers| peers.contains(peer.ip()))
    }
}

impl PacketRule {
    fn fits(&self, transport: Transport, ip: IpAddr, port: u16) -> bool {
        self.protocol.is_none_or(|protocol| protocol == transport)
            && self.port.as_ref().is_none_or(|ports| ports.contains(&port))
            && self.address.as_ref().is_none_or(|addresses| addresses.contains(ip))
    }
}

/// All rules, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules(Vec<Rule>);

impl Rules {
    /// The rules.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.0.iter()
    }

    pub(super) fn push(&mut self, rule: Rule) {
        self.0.push(rule);
    }

    /// The rule that makes this process the kernel's.
    pub(crate) fn against_process(&self, process: &Process) -> Option<&Rule> {
        self.first(|rule| rule.fits_process(process))
    }

    /// The rule that makes this port of the machine's the kernel's.
    pub(crate) fn against_port(&self, transport: Transport, ip: IpAddr, port: u16) -> Option<&Rule> {
        self.first(|rule| rule.fits_port(transport, ip, port))
    }

    /// The rule that makes a connection of TCP to `peer` the kernel's.
    pub(crate) fn against_connection(&self, local: SocketAddr, peer: SocketAddr) -> Option<&Rule> {
        self.first(|rule| rule.fits_connection(local, peer))
    }

    /// Returns true if a rule is about processes.
    pub(crate) fn names_processes(&self) -> bool {
        self.0.iter().any(|rule| matches!(rule.subject, Subject::Process(_)))
    }

    fn first(&self, fits: impl Fn(&Rule) -> bool) -> Option<&Rule> {
        self.0.iter().find(|rule| fits(rule)).filter(|rule| rule.action == Action::Kernel)
    }
}

/// Reads a rule.
///
/// # Errors
/// The mistake, in words.
pub(super) fn read(table: &DeTable<'_>, origin: String) -> Result<Rule, String> {
    let (mut process, mut packets) = (ProcessRule::default(), PacketRule::default());
    let (mut action, mut settings) = (None, Vec::new());
    for (name, value) in table {
        let name: &str = name.get_ref();
        let value = text(value.get_ref()).ok_or_else(|| format!("rule.{name}: a text is wanted"))?;
        let wrong = |wanted: &str| format!("rule.{name}: {value:?} is not {wanted}");
        match name {
            "action" => action = Some(read_action(&value).ok_or_else(|| wrong("\"accelerate\" or \"kernel\""))?),
            "user" => process.user = Some(user_number(&value).ok_or_else(|| wrong("a user of this machine"))?),
            "cgroup" => process.cgroup = Some(value.clone()),
            "program" if value.is_empty() || value.contains('/') => return Err(wrong("the name of a program, without a path")),
            "program" => process.program = Some(value.chars().take(COMM_LEN).collect()),
            "protocol" => packets.protocol = Some(read_protocol(&value).ok_or_else(|| wrong("\"tcp\" or \"udp\""))?),
            "port" => packets.port = Some(read_ports(&value).ok_or_else(|| wrong("a port or \"FIRST-LAST\""))?),
            "peer_port" => packets.peer_port = Some(read_ports(&value).ok_or_else(|| wrong("a port or \"FIRST-LAST\""))?),
            "address" => packets.address = Some(read_prefix(&value).ok_or_else(|| wrong("an address or ADDRESS/LENGTH"))?),
            "peer" => packets.peer = Some(read_prefix(&value).ok_or_else(|| wrong("an address or ADDRESS/LENGTH"))?),
            _ => {
                return Err(unknown(
                    "key",
                    &format!("rule.{name}"),
                    suggestion(name, NAMES.into_iter()).map(|name| format!("rule.{name}")),
                ));
            }
        }
        settings.push((name.to_owned(), Value::Text(value).to_string()));
    }
    let action = action.ok_or("rule: it has no action")?;
    let subject = match (process == ProcessRule::default(), packets == PacketRule::default()) {
        (false, false) => return Err("rule: it names a program and packets; write two rules".to_owned()),
        (false, true) => Subject::Process(process),
        (true, _) => Subject::Packets(packets),
    };
    Ok(Rule { origin, action, subject, settings })
}

fn text(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.as_str().to_owned()),
        _ => None,
    }
}

fn read_action(text: &str) -> Option<Action> {
    match text {
        "accelerate" => Some(Action::Accelerate),
        "kernel" => Some(Action::Kernel),
        _ => None,
    }
}

fn read_protocol(text: &str) -> Option<Transport> {
    match text {
        "tcp" => Some(Transport::Tcp),
        "udp" => Some(Transport::Udp),
        _ => None,
    }
}

fn read_ports(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (first > 0 && first <= last).then_some(first..=last)
}

fn read_prefix(text: &str) -> Option<Cidr> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Some(Cidr { ip, prefix_len: if ip.is_ipv4() { 32 } else { 128 } });
    }
    text.parse().ok()
}

fn is_below(cgroup: &str, wanted: &str) -> bool {
    let rest = cgroup.trim_start_matches('/').strip_prefix(wanted.trim_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The number of a user, by name in the machine's own list or as a number.
fn user_number(text: &str) -> Option<u32> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let line = users.lines().find(|line| line.split(':').next() == Some(text))?;
    line.split(':').nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests;
