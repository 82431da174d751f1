//! `[[rule]]`: which programs, ports and peers are Ringway's, on which terms, which are the kernel's, and which are denied. The first
//! rule that fits decides; without one, Ringway serves.
//!
//! A rule names either programs (user, cgroup, unit, program, path), and is looked at when a process attaches and when rules change, or packets
//! (protocol, port, peer port, address, interface, peer), and is looked at when a port is listened on or bound, when a connection is opened, and
//! when rules change; in one network namespace, if it names one. Packets of a listening or
//! UDP port are the kernel's or Ringway's whatever peer they are of: a rule of `kernel` that fits some peers takes the port, and one of
//! `accelerate` or `deny` must fit all of them. Promises: user, cgroup and file are the kernel's word on a process. Does not do: a program that
//! lies (its name is its own choice), or that goes around the library: what is denied is denied to programs that run on Ringway.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;

use ringway_channel::KernelReason;
use ringway_engine::{Allowance, Terms, Transport, Verdict};
use ringway_stack::{Cidr, CongestionControl, SharedRate};
use toml::de::{DeTable, DeValue};

use super::Value;
use super::read::{suggestion, unknown};

/// The section's name.
pub const SECTION: &str = "rule";
/// The names of everything that may stand in a rule.
const NAMES: [&str; 19] = [
    "action",
    "namespace",
    "user",
    "cgroup",
    "unit",
    "program",
    "path",
    "sha256",
    "protocol",
    "port",
    "peer_port",
    "address",
    "interface",
    "peer",
    "congestion_control",
    "rate",
    "total_rate",
    "sockets",
    "processes",
];
/// A name of a program that the kernel keeps has so many letters (proc_pid_comm(5)).
const COMM_LEN: usize = 15;

/// What a rule decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ringway serves.
    Accelerate,
    /// The kernel does.
    Kernel,
    /// Programs get EACCES.
    Deny,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// `FILE:LINE`.
    pub origin: String,
    action: Action,
    /// The network namespace of the services that it is for; `None`: of all.
    namespace: Option<String>,
    subject: Subject,
    /// What a rule of `accelerate` allows.
    allowance: Allowance,
    /// Bytes that all its connections send in a second at most.
    total_rate: Option<u64>,
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
    unit: Option<String>,
    program: Option<String>,
    file: Option<Executable>,
}

/// A file that a rule names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Executable {
    pub(crate) path: PathBuf,
    /// What SHA-256 makes of it; `None`: anything.
    pub(crate) digest: Option<[u8; 32]>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct PacketRule {
    protocol: Option<Transport>,
    port: Option<RangeInclusive<u16>>,
    peer_port: Option<RangeInclusive<u16>>,
    address: Option<Cidr>,
    interface: Option<Interface>,
    peer: Option<Cidr>,
}

/// An interface that a rule names.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Interface {
    name: String,
    /// Its addresses; see [`Rules::at`].
    addresses: Vec<IpAddr>,
}

/// A process that wants to attach.
pub(crate) struct Process<'a> {
    pub(crate) user: u32,
    /// Its cgroup, from the root of version 2; `None`: not known.
    pub(crate) cgroup: Option<String>,
    /// The name that `ps` shows; `None`: not known.
    pub(crate) program: Option<String>,
    /// Whether it runs a file; `None`: not known. May wait for the kernel.
    pub(crate) runs: &'a dyn Fn(&Executable) -> Option<bool>,
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

    /// What it decides.
    pub(crate) fn action(&self) -> Action {
        self.action
    }

    /// What it allows a process, if it is one of `accelerate`.
    pub(crate) fn allowance(&self) -> Allowance {
        self.allowance
    }

    /// What is not known of a process makes it the kernel's, or denied, where anything could.
    fn fits_process(&self, process: &Process<'_>) -> bool {
        let Subject::Process(rule) = &self.subject else { return false };
        let unknown = self.action != Action::Accelerate;
        let is_in = |is_there: &dyn Fn(&str) -> bool| process.cgroup.as_ref().map_or(unknown, |cgroup| is_there(cgroup));
        rule.user.is_none_or(|user| user == process.user)
            && rule.cgroup.as_ref().is_none_or(|wanted| is_in(&|cgroup| is_below(cgroup, wanted)))
            && rule.unit.as_ref().is_none_or(|unit| is_in(&|cgroup| cgroup.split('/').any(|part| part == unit)))
            && rule.program.as_ref().is_none_or(|wanted| process.program.as_ref().map_or(unknown, |program| program == wanted))
            && rule.file.as_ref().is_none_or(|file| (process.runs)(file).unwrap_or(unknown))
    }

    /// Whether it fits the packets of a port; where it fits those of some peers only, a rule of `kernel` does.
    fn fits_port(&self, transport: Transport, ip: IpAddr, port: u16) -> bool {
        let Subject::Packets(rule) = &self.subject else { return false };
        rule.fits(transport, ip, port) && (!rule.names_peers() || self.action == Action::Kernel)
    }

    fn fits_connection(&self, local: SocketAddr, peer: SocketAddr) -> bool {
        let Subject::Packets(rule) = &self.subject else { return false };
        rule.fits(Transport::Tcp, local.ip(), local.port())
            && rule.peer_port.as_ref().is_none_or(|ports| ports.contains(&peer.port()))
            && rule.peer.as_ref().is_none_or(|peers| peers.contains(peer.ip()))
    }
}

impl Rule {
    /// What makes no sense in it.
    fn check(&self) -> Option<&'static str> {
        let has_terms = self.allowance.terms != Terms::default() || self.total_rate.is_some();
        let allows = self.allowance != Allowance::default() || has_terms;
        match &self.subject {
            _ if allows && self.action != Action::Accelerate => Some("only one that accelerates has terms and limits"),
            Subject::Packets(_) if self.allowance.sockets != u32::MAX || self.allowance.processes != u32::MAX => {
                Some("sockets and processes are of programs; name a user, cgroup, unit, program or path")
            }
            Subject::Process(ProcessRule { file: Some(Executable { path, .. }), .. }) if path.as_os_str().is_empty() => {
                Some("sha256 is of the file that path names")
            }
            Subject::Packets(PacketRule { protocol: Some(Transport::Udp), .. })
                if self.allowance.terms.congestion_control.is_some() =>
            {
                Some("congestion_control is of TCP")
            }
            Subject::Packets(packets) if self.action == Action::Deny && packets.names_peers() => (packets.protocol
                != Some(Transport::Tcp))
            .then_some("peers are denied to connections that programs open: protocol = \"tcp\""),
            _ => None,
        }
    }
}

impl PacketRule {
    fn names_peers(&self) -> bool {
        self.peer.is_some() || self.peer_port.is_some()
    }

    fn fits(&self, transport: Transport, ip: IpAddr, port: u16) -> bool {
        self.protocol.is_none_or(|protocol| protocol == transport)
            && self.port.as_ref().is_none_or(|ports| ports.contains(&port))
            && self.address.as_ref().is_none_or(|addresses| addresses.contains(ip))
            && self.interface.as_ref().is_none_or(|interface| interface.addresses.contains(&ip))
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

    /// The rule that decides on this process.
    pub(crate) fn on_process(&self, process: &Process<'_>) -> Option<&Rule> {
        self.0.iter().find(|rule| rule.fits_process(process))
    }

    /// Judges a port of the machine's.
    pub(crate) fn judge_port(&self, transport: Transport, ip: IpAddr, port: u16) -> Verdict {
        self.judge(|rule| rule.fits_port(transport, ip, port))
    }

    /// Judges a connection of TCP to `peer`.
    pub(crate) fn judge_connection(&self, local: SocketAddr, peer: SocketAddr) -> Verdict {
        self.judge(|rule| rule.fits_connection(local, peer))
    }

    /// Those of them that are for a network namespace of which `is_here` is true.
    pub(crate) fn of(&self, is_here: impl Fn(&str) -> bool) -> Rules {
        Rules(self.0.iter().filter(|rule| rule.namespace.as_deref().is_none_or(&is_here)).cloned().collect())
    }

    /// The same where interfaces have these `addresses`.
    pub(crate) fn at(&self, addresses: &BTreeMap<String, Vec<IpAddr>>) -> Rules {
        let mut rules = self.clone();
        for rule in &mut rules.0 {
            if let Subject::Packets(PacketRule { interface: Some(interface), .. }) = &mut rule.subject {
                interface.addresses = addresses.get(&interface.name).cloned().unwrap_or_default();
            }
        }
        rules
    }

    /// Those of them that have a rate for all their connections share it: `shared` finds it by the rule, in words, and the rate.
    pub(crate) fn sharing(mut self, mut shared: impl FnMut(&str, u64) -> &'static SharedRate) -> Rules {
        for rule in &mut self.0 {
            if let Some(rate) = rule.total_rate {
                rule.allowance.terms.shared_rates = [Some(shared(&rule.to_string(), rate)), None];
            }
        }
        self
    }

    /// Returns true if a rule is about ports or connections.
    pub(crate) fn names_packets(&self) -> bool {
        self.0.iter().any(|rule| matches!(rule.subject, Subject::Packets(_)))
    }

    /// Returns true if a rule is about processes.
    pub(crate) fn names_processes(&self) -> bool {
        self.0.iter().any(|rule| matches!(rule.subject, Subject::Process(_)))
    }

    /// Returns true if a rule names a file.
    pub fn names_files(&self) -> bool {
        self.0.iter().any(|rule| matches!(rule.subject, Subject::Process(ProcessRule { file: Some(_), .. })))
    }

    fn judge(&self, fits: impl Fn(&Rule) -> bool) -> Verdict {
        match self.0.iter().find(|rule| fits(rule)) {
            None => Verdict::default(),
            Some(rule) => match rule.action {
                Action::Accelerate => Verdict::Serve(rule.allowance.terms),
                Action::Kernel => Verdict::Kernel(KernelReason::Rule),
                Action::Deny => Verdict::Deny,
            },
        }
    }
}

/// Reads a rule.
///
/// # Errors
/// The mistake, in words.
pub(super) fn read(table: &DeTable<'_>, origin: String) -> Result<Rule, String> {
    let (mut process, mut packets) = (ProcessRule::default(), PacketRule::default());
    let (mut action, mut namespace, mut total_rate) = (None, None, None);
    let (mut allowance, mut settings) = (Allowance::default(), Vec::new());
    for (name, value) in table {
        let name: &str = name.get_ref();
        let value = text(value.get_ref()).ok_or_else(|| format!("rule.{name}: a text is wanted"))?;
        let wrong = |wanted: &str| format!("rule.{name}: {value:?} is not {wanted}");
        match name {
            "action" => action = Some(read_action(&value).ok_or_else(|| wrong("\"accelerate\", \"kernel\" or \"deny\""))?),
            "namespace" if !is_namespace(&value) => {
                return Err(wrong("the name of a network namespace, or the path of its file"));
            }
            "namespace" => namespace = Some(value.clone()),
            "user" => process.user = Some(user_number(&value).ok_or_else(|| wrong("a user of this machine"))?),
            "cgroup" => process.cgroup = Some(value.clone()),
            "unit" if !is_unit(&value) => return Err(wrong("a unit of systemd, such as \"nginx.service\"")),
            "unit" => process.unit = Some(value.clone()),
            "program" if value.is_empty() || value.contains('/') => return Err(wrong("the name of a program, without a path")),
            "program" => process.program = Some(value.chars().take(COMM_LEN).collect()),
            "path" if !is_path(&value) => return Err(wrong("the path of a file, from the root")),
            "path" => process.file.get_or_insert_default().path = PathBuf::from(&value),
            "sha256" => {
                let digest = read_digest(&value).ok_or_else(|| wrong("what sha256sum(1) prints, 64 digits"))?;
                process.file.get_or_insert_default().digest = Some(digest);
            }
            "protocol" => packets.protocol = Some(read_protocol(&value).ok_or_else(|| wrong("\"tcp\" or \"udp\""))?),
            "port" => packets.port = Some(read_ports(&value).ok_or_else(|| wrong("a port or \"FIRST-LAST\""))?),
            "peer_port" => packets.peer_port = Some(read_ports(&value).ok_or_else(|| wrong("a port or \"FIRST-LAST\""))?),
            "address" => packets.address = Some(read_prefix(&value).ok_or_else(|| wrong("an address or ADDRESS/LENGTH"))?),
            "interface" if value.is_empty() || value.contains('/') => return Err(wrong("the name of an interface")),
            "interface" => packets.interface = Some(Interface { name: value.clone(), addresses: Vec::new() }),
            "peer" => packets.peer = Some(read_prefix(&value).ok_or_else(|| wrong("an address or ADDRESS/LENGTH"))?),
            "congestion_control" => {
                let algorithm = read_congestion_control(&value).ok_or_else(|| wrong(CONGESTION_CONTROLS))?;
                allowance.terms.congestion_control = Some(algorithm);
            }
            "rate" => allowance.terms.rate_max = read_rate(&value).ok_or_else(|| wrong("a rate, such as \"100mbit\""))?,
            "total_rate" => total_rate = Some(read_rate(&value).ok_or_else(|| wrong("a rate, such as \"100mbit\""))?),
            "sockets" => allowance.sockets = read_count(&value).ok_or_else(|| wrong("a number from 1 on"))?,
            "processes" => allowance.processes = read_count(&value).ok_or_else(|| wrong("a number from 1 on"))?,
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
    let rule = Rule { origin, action, namespace, subject, allowance, total_rate, settings };
    rule.check().map_or(Ok(rule), |mistake| Err(format!("rule: {mistake}")))
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
        "deny" => Some(Action::Deny),
        _ => None,
    }
}

/// What [`read_congestion_control`] takes.
const CONGESTION_CONTROLS: &str = "\"cubic\", \"reno\" or \"bbr\"";

fn read_congestion_control(text: &str) -> Option<CongestionControl> {
    CongestionControl::ALL.into_iter().find(|algorithm| algorithm.name() == text)
}

/// A rate as tc(8) writes it, in bits per second; returns bytes per second, of which there is one at least.
fn read_rate(text: &str) -> Option<u64> {
    let text = text.to_ascii_lowercase();
    let number = text.strip_suffix("bit")?;
    let (number, bits) = match number.as_bytes().last()? {
        b'k' => (&number[..number.len() - 1], 1_000),
        b'm' => (&number[..number.len() - 1], 1_000_000),
        b'g' => (&number[..number.len() - 1], 1_000_000_000),
        _ => (number, 1),
    };
    let rate = number.trim().parse::<u64>().ok()?.checked_mul(bits)? / 8;
    (rate > 0).then_some(rate)
}

fn read_count(text: &str) -> Option<u32> {
    text.parse().ok().filter(|number| *number > 0)
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

fn is_path(text: &str) -> bool {
    text.starts_with('/') && !text.ends_with('/')
}

fn read_digest(text: &str) -> Option<[u8; 32]> {
    let digits: Vec<u8> = text.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect::<Option<_>>()?;
    let bytes: Vec<u8> = digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
    bytes.try_into().ok().filter(|_| digits.len() == 64)
}

fn is_below(cgroup: &str, wanted: &str) -> bool {
    let rest = cgroup.trim_start_matches('/').strip_prefix(wanted.trim_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether it may be the name of a unit or slice, which is the name of a cgroup (systemd.unit(5)).
fn is_unit(text: &str) -> bool {
    let kinds = ["service", "scope", "slice", "socket", "mount", "swap"];
    !text.contains('/') && text.rsplit_once('.').is_some_and(|(name, kind)| !name.is_empty() && kinds.contains(&kind))
}

/// Whether it may be a name as ip-netns(8) gives it, or the path of a file.
fn is_namespace(text: &str) -> bool {
    text.starts_with('/') || !(text.is_empty() || text.contains('/') || [".", ".."].contains(&text))
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
