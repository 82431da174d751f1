//! Which interfaces would be served, with which device, and why the others not.
//!
//! Promises: decides from the configuration, the kernel's tables and the process's rights alone;
//! `ringway run --dry-run`, `ringway doctor` and the service itself use the same decision. Does
//! not do: open anything.

use std::net::IpAddr;
use std::sync::Arc;

use ringway_channel::KernelReason;
use ringway_device::packet::Priorities;
use ringway_stack::{Autoconfiguration, Cidr, MacAddress};

use crate::classifiers::Classifiers;
use crate::config::{Config, DeviceChoice, RuleChoice, XdpChoice};
use crate::firewall::{Gate, NamedLink, Ruleset};
use crate::netlink::{Link, Snapshot};
use crate::ports::listeners;

/// A back end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// AF_PACKET with vnet headers.
    Packet,
    /// AF_XDP.
    Xdp,
    /// A TAP interface of its own.
    Tap,
}

impl Backend {
    /// The word of `interface.device`.
    pub fn word(self) -> &'static str {
        match self {
            Backend::Packet => "packet",
            Backend::Xdp => "xdp",
            Backend::Tap => "tap",
        }
    }

    /// In words, for banners.
    pub fn describe(self) -> &'static str {
        match self {
            Backend::Packet => "af_packet, vnet headers",
            Backend::Xdp => "af_xdp",
            Backend::Tap => "tap, vnet headers",
        }
    }
}

/// An interface to serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// The kernel's number; 0: the interface does not exist yet (tap).
    pub link: u32,
    /// Its name.
    pub name: String,
    /// Link address.
    pub mac: MacAddress,
    /// Largest IP packet, bytes.
    pub mtu: u16,
    /// Addresses that can be served.
    pub addresses: Vec<Cidr>,
    /// The kernel lets packets wait in a queueing discipline there, where those of the stack take their turn too.
    pub queued: bool,
    /// Their place there.
    pub priorities: Priorities,
    /// The back end that carries its packets.
    pub backend: Backend,
    /// The way in which it is attached, if it is AF_XDP.
    pub xdp_mode: XdpChoice,
    /// AF_XDP serves only where it passes its self-test: the user has not asked for it.
    pub must_pass: bool,
    /// The exact back end, once it is open.
    pub detail: String,
    /// A note of what is not as asked, from its opening.
    pub note: Option<String>,
    /// Why this back end.
    pub reason: &'static str,
    /// Rules of the kernel that its packets do not obey, a sentence each.
    pub warnings: Vec<String>,
    /// The way in which the stack makes IPv6 addresses for itself.
    pub autoconfiguration: Autoconfiguration,
    /// The VLAN that the stack is on.
    pub vlan: Option<u16>,
    /// Addresses for the kernel's end of a tap device; none on a VLAN, whose interface the operator makes.
    pub kernel_side: Vec<Cidr>,
}

impl Planned {
    /// The back end in words, as exactly as it is known.
    pub fn device(&self) -> &str {
        if self.detail.is_empty() { self.backend.describe() } else { &self.detail }
    }
}

/// An interface that is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Its name.
    pub name: String,
    /// Why not.
    pub reason: String,
    /// The user asked for it by name.
    pub was_named: bool,
    /// It would be served but for rules that packets of Ringway do not obey: which, in a word.
    pub guard: Option<&'static str>,
}

/// The interfaces that would be served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Interfaces to serve.
    pub served: Vec<Planned>,
    /// Interfaces that stay with the kernel.
    pub skipped: Vec<Skipped>,
}

/// A tap device is called this and the first free number, unless the configuration names it.
const TAP_NAME: &str = "ringway";
const TAP_MTU: u16 = 1500;
/// Listening ports that the firewall is asked about for the eyes of an operator.
const PORTS_SHOWN: usize = 24;

/// The facts about the running machine, besides interfaces, that decide.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Its packet filters.
    pub rules: Arc<Ruleset>,
    /// Packet sockets have been tried, and do not work.
    pub lacks_packet: bool,
    /// Programs and filters of others that packets of Ringway would go around.
    pub(crate) classifiers: Classifiers,
}

impl Machine {
    /// This one, now.
    ///
    /// # Blocking
    /// While the kernel lists the rules of its packet filters.
    pub fn now(config: &Config, kernel: &Snapshot) -> Machine {
        let is_asked = config.policy.firewall != RuleChoice::Ignore && config.interface.device != DeviceChoice::Tap;
        let rules = Arc::new(if is_asked { Ruleset::read() } else { Ruleset::default() });
        Machine { rules, lacks_packet: false, classifiers: Classifiers::read(config, kernel) }
    }
}

/// Describes the firewall's verdict on connections and on the ports that the kernel listens on now, a line each.
pub fn firewall_lines(config: &Config, machine: &Machine, plan: &Plan) -> Vec<String> {
    let mut ports = listeners::listening();
    while ports.len() > PORTS_SHOWN {
        ports.pop_last();
    }
    Gate::new(config.policy.firewall, machine.rules.clone(), named_links(plan)).describe(&ports)
}

/// The links whose packets the firewall is asked about.
pub(crate) fn named_links(plan: &Plan) -> Vec<NamedLink> {
    let shared = plan.served.iter().filter(|planned| planned.backend != Backend::Tap);
    shared.map(|planned| (planned.link, planned.name.clone())).collect()
}

impl Plan {
    fn add(&mut self, considered: Result<Planned, Skipped>) {
        match considered {
            Ok(planned) => self.served.push(planned),
            Err(skipped) => self.skipped.push(skipped),
        }
    }
}

/// Decides for a machine.
pub fn plan(config: &Config, kernel: &Snapshot, machine: &Machine) -> Plan {
    if config.interface.device == DeviceChoice::Tap {
        return Plan { served: vec![tap(config, kernel)], skipped: Vec::new() };
    }
    let mut plan = Plan::default();
    match &config.interface.names {
        None => {
            for link in kernel.links.values() {
                plan.add(consider(config, kernel, link, machine));
            }
        }
        Some(names) => {
            for name in names {
                match kernel.link_named(name) {
                    Some(link) => plan.add(consider(config, kernel, link, machine)),
                    None => {
                        let reason = "does not exist".to_owned();
                        plan.skipped.push(Skipped { name: name.clone(), reason, was_named: true, guard: None });
                    }
                }
            }
        }
    }
    plan
}

/// Returns true if an address can be the stack's. Link-local ones mean something on one link only and stay with the kernel.
pub fn is_served(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(_) => true,
        IpAddr::V6(ip) => !ip.is_unicast_link_local() && !ip.is_multicast() && !ip.is_loopback(),
    }
}

/// Returns true if packets of the stack may be sent to this neighbor: routers are named by their link-local addresses.
pub(crate) fn is_neighbor(ip: IpAddr) -> bool {
    !ip.is_multicast()
}

/// A rule of the kernel that packets of Ringway would not obey.
struct Objection {
    choice: RuleChoice,
    /// Its kind, for `ringway ss`.
    word: &'static str,
    /// Why the interface is the kernel's.
    guard: String,
    /// Its meaning where it is served.
    warning: String,
}

fn objections(config: &Config, kernel: &Snapshot, link: &Link, machine: &Machine) -> Vec<Objection> {
    let (name, policy) = (&link.name, &config.policy);
    let firewall = machine.rules.objection().map(|rule| Objection {
        choice: policy.firewall,
        word: KernelReason::Firewall.word(),
        guard: format!("has firewall rules that cannot be judged ({rule}): see policy.firewall"),
        warning: format!("packets of Ringway on {name} do not pass the firewall ({rule})"),
    });
    let classifiers = machine.classifiers.objection(link.index).map(|what| Objection {
        choice: policy.firewall,
        word: "interface-bpf",
        guard: format!("has BPF programs or filters that packets of Ringway would go around ({what}): see policy.firewall"),
        warning: format!("packets of Ringway on {name} go around its BPF programs or filters ({what})"),
    });
    let routing = other_table(kernel, link).map(|rule| Objection {
        choice: policy.routing,
        word: "routing",
        guard: format!("has routes that Ringway does not know ({rule}): see policy.routing"),
        warning: format!("packets of Ringway on {name} follow the main routing table alone ({rule})"),
    });
    firewall.into_iter().chain(classifiers).chain(routing).filter(|objection| objection.choice != RuleChoice::Ignore).collect()
}

/// Returns the cause for which packets of a link may leave by another table than the main one.
fn other_table(kernel: &Snapshot, link: &Link) -> Option<String> {
    if link.is_in_vrf {
        return Some("of its VRF".to_owned());
    }
    let policy = kernel.policies.iter().min_by_key(|policy| policy.priority)?;
    let family = if policy.is_ipv4 { "-4" } else { "-6" };
    let what = policy.table.map_or("not a lookup".to_owned(), |table| format!("lookup {table}"));
    Some(format!("ip {family} rule {}: {what}", policy.priority))
}

fn consider(config: &Config, kernel: &Snapshot, link: &Link, machine: &Machine) -> Result<Planned, Skipped> {
    let was_named = config.interface.names.is_some();
    let addresses: Vec<Cidr> = kernel.addresses_of(link.index).into_iter().filter(|cidr| is_served(cidr.ip)).collect();
    let mtu = config.interface.mtu.map_or(link.mtu, |mtu| u32::from(mtu).min(link.mtu));
    let refusal = match () {
        () if link.loopback => Some("is the loopback, which the kernel serves"),
        () if !link.ethernet => Some("is not an Ethernet interface"),
        () if !link.up && !was_named => Some("is down"),
        () if addresses.is_empty() && !was_named => Some("has no address that can be served"),
        () => None,
    };
    let objections = if refusal.is_none() { objections(config, kernel, link, machine) } else { Vec::new() };
    let guard = objections.iter().find(|objection| objection.choice == RuleChoice::Respect);
    let word = guard.map(|objection| objection.word);
    match refusal.map(str::to_owned).or(guard.map(|objection| objection.guard.clone())) {
        Some(reason) => Err(Skipped { name: link.name.clone(), reason, was_named, guard: word }),
        None => {
            let (backend, reason) = backend(config, machine);
            let mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
            Ok(Planned {
                link: link.index,
                name: link.name.clone(),
                mac: link.mac,
                mtu,
                addresses,
                queued: link.queued,
                priorities: config.interface.priorities,
                backend,
                xdp_mode: config.interface.xdp_mode,
                must_pass: config.interface.device == DeviceChoice::Auto,
                reason,
                warnings: objections.into_iter().map(|objection| objection.warning).collect(),
                autoconfiguration: Autoconfiguration::Off,
                vlan: None,
                kernel_side: Vec::new(),
                detail: String::new(),
                note: machine.classifiers.note(link.index, &link.name).filter(|_| backend == Backend::Packet),
            })
        }
    }
}

fn backend(config: &Config, machine: &Machine) -> (Backend, &'static str) {
    match config.interface.device {
        DeviceChoice::Auto if machine.lacks_packet => (Backend::Xdp, "packet sockets do not work here"),
        DeviceChoice::Auto => (Backend::Packet, "works with every driver and carries segments up to 64 KiB"),
        DeviceChoice::Packet => (Backend::Packet, "chosen by interface.device"),
        DeviceChoice::Xdp => (Backend::Xdp, "chosen by interface.device"),
        DeviceChoice::Tap => (Backend::Tap, "chosen by interface.device"),
    }
}

/// An interface of our own: the configured addresses are the stack's, the kernel gets the gateways'.
fn tap(config: &Config, kernel: &Snapshot) -> Planned {
    let free = || {
        let mut names = (0u32..).map(|number| format!("{TAP_NAME}{number}"));
        names.find(|name| kernel.link_named(name).is_none()).expect("the kernel has fewer links than there are numbers")
    };
    let name = config.interface.names.as_ref().and_then(|names| names.first().cloned()).unwrap_or_else(free);
    let kernels = |(own, gateway): (Cidr, IpAddr)| Cidr { ip: gateway, prefix_len: own.prefix_len };
    let untagged = config.interface.vlan.is_none();
    Planned {
        link: 0,
        name,
        mac: MacAddress::default(),
        mtu: config.interface.mtu.unwrap_or(TAP_MTU),
        addresses: config.interface.networks().map(|(own, _)| own).collect(),
        queued: false,
        priorities: Priorities::default(),
        backend: Backend::Tap,
        xdp_mode: XdpChoice::Auto,
        must_pass: false,
        reason: "chosen by interface.device",
        warnings: Vec::new(),
        autoconfiguration: config.interface.autoconfiguration,
        vlan: config.interface.vlan,
        kernel_side: config.interface.networks().filter(|_| untagged).map(kernels).collect(),
        detail: String::new(),
        note: None,
    }
}

#[cfg(test)]
pub(crate) mod tests;
