//! The verdict of the kernel's packet filters on packets that Ringway takes before they see them.
//!
//! ```text
//!   netlink -> wire -> expression, set -> Ruleset -> judge (a flow, as far as it is known) -> gate (what the workers ask)
//! ```
//! Packets of served ports never reach netfilter. So a port is served, and a connection opened, only where every chain accepts
//! all its packets. Promises: what is not understood, or cannot be read, is an objection with a reason. Does not do: what
//! cannot be judged for single ports (iptables-legacy) keeps the whole interface with the kernel.
//! Changes of nftables (and of iptables-nft, which is the same) are told; those of iptables-legacy are not. BPF programs at netfilter's hooks
//! (`hooks`) are objections to what passes there; time tells when to look for them (`classifiers`).

mod expression;
mod gate;
pub(crate) mod hooks;
mod judge;
mod packet;
mod set;
mod socket;
mod wire;
mod xtables;

use std::collections::{BTreeSet, HashMap};
use std::io;

use crate::config::{Config, DeviceChoice, RuleChoice};
use expression::{Expression, Verdict};
use packet::Way;
use set::{Data, Set};
use wire::{Element, Message, Placed, SetHead};

pub(crate) use gate::{Gate, NamedLink};
pub use judge::Judgment;
pub use packet::{Beginning, Flow, LocalPort};
pub use ringway_engine::Transport;
pub(crate) use socket::Watch;

/// NFPROTO_*: the families of tables whose chains see packets of an interface. Family arp sees none of TCP and UDP.
const FAMILIES: [(u8, &str); 5] = [(INET, "inet"), (IP, "ip"), (NETDEV, "netdev"), (BRIDGE, "bridge"), (IP6, "ip6")];
const INET: u8 = 1;
const IP: u8 = 2;
const NETDEV: u8 = 5;
const BRIDGE: u8 = 7;
const IP6: u8 = 10;

/// One interface, as rules name it.
#[derive(Clone, Copy, Debug)]
pub struct Link<'a> {
    /// Its number.
    pub index: u32,
    /// Its name.
    pub name: &'a str,
}

/// A chain of rules, or a program that stands like one at a hook and is of no table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Chain {
    family: u8,
    table: String,
    name: String,
    /// Where the kernel calls it; `None`: other chains do.
    hook: Option<Hook>,
    /// Packets that no rule has decided are dropped.
    drops: bool,
    rules: Vec<Vec<Expression>>,
}

impl Chain {
    fn place(&self) -> String {
        if self.table.is_empty() {
            return self.name.clone();
        }
        let family = FAMILIES.iter().find(|(number, _)| *number == self.family).map_or("?", |(_, name)| name);
        format!("table {family} {}, chain {}", self.table, self.name)
    }
}

/// Where the kernel calls a chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Hook {
    number: u32,
    priority: i32,
    /// Only for packets of these interfaces; empty: of all.
    devices: Vec<String>,
}

impl Hook {
    /// Which way packets go that the kernel shows there; `None`: those that it forwards, which are not taken from it.
    fn way(&self, family: u8) -> Option<Way> {
        match (family, self.number) {
            // Ingress, egress.
            (NETDEV, 0) => Some(Way::In),
            (NETDEV, 1) => Some(Way::Out),
            // Prerouting, input, and ingress of family inet.
            (_, 0 | 1 | 5) => Some(Way::In),
            // Output, postrouting.
            (_, 3 | 4) => Some(Way::Out),
            _ => None,
        }
    }
}

/// All rules of the network namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ruleset {
    chains: Vec<Chain>,
    sets: Vec<Set>,
    /// The objection to every packet.
    everywhere: Option<String>,
}

impl Ruleset {
    /// Reads what is in force now. A kernel without packet filters has none.
    ///
    /// # Blocking
    /// For as long as the kernel needs to list its rules.
    pub fn read() -> Ruleset {
        let mut ruleset = match socket::read() {
            Ok(ruleset) => ruleset,
            Err(error) => Ruleset { everywhere: Some(unreadable(&error)), ..Ruleset::default() },
        };
        ruleset.everywhere = ruleset.everywhere.or_else(legacy);
        ruleset.chains.extend(hooks::programs().iter().map(hooks::chain));
        ruleset
    }

    /// A ruleset that cannot be read.
    #[cfg(test)]
    pub(crate) fn unreadable_for_tests() -> Ruleset {
        let error = io::Error::from(io::ErrorKind::PermissionDenied);
        Ruleset { everywhere: Some(unreadable(&error)), ..Ruleset::default() }
    }

    /// Why nothing can be judged, and all packets are the kernel's.
    pub(crate) fn objection(&self) -> Option<&str> {
        self.everywhere.as_deref()
    }

    /// Returns true if no chain is called for any packet.
    pub(crate) fn is_empty(&self) -> bool {
        self.chains.iter().all(|chain| chain.hook.is_none())
    }

    /// Returns the verdict of the rules on a flow of a link.
    pub fn judge(&self, link: Link<'_>, flow: Flow) -> Judgment {
        match &self.everywhere {
            Some(why) => Judgment::Unknown(why.clone()),
            None => judge::judge(self, link, flow),
        }
    }
}

/// Says which packet filters are not seen here, if any are looked for.
pub fn blindness(config: &Config) -> Option<&'static str> {
    let is_asked = config.policy.firewall != RuleChoice::Ignore && config.interface.device != DeviceChoice::Tap;
    is_asked.then(hooks::blindness).flatten()
}

/// The lists of the kernel.
#[derive(Default)]
struct Listed {
    chains: Vec<Chain>,
    rules: Vec<Placed>,
    /// With their elements; `None`: too many, or nothing looks into them.
    sets: Vec<(SetHead, Option<Vec<Element>>)>,
}

/// The place of a chain or set by family, table and name.
type Places = HashMap<(u8, String, String), usize>;

impl Listed {
    fn take(&mut self, message: Message) {
        match message {
            Message::Chain(chain) => self.chains.push(chain),
            Message::Rule(rule) => self.rules.push(rule),
            Message::Set(head) => self.sets.push((head, None)),
            Message::Elements(of, elements) => {
                let is = |head: &SetHead| (head.family, &head.table, &head.name) == (of.0, &of.1, &of.2);
                if let Some((_, known)) = self.sets.iter_mut().find(|(head, _)| is(head)) {
                    known.get_or_insert_default().extend(elements);
                }
            }
            Message::Generation(_) | Message::Done(_) | Message::Error(_) => {}
        }
    }

    /// The places of sets that rules look into.
    fn wanted_sets(&self) -> Vec<usize> {
        let mut names = BTreeSet::new();
        for rule in &self.rules {
            for expression in &rule.rule {
                if let Expression::Lookup { name, .. } = expression {
                    names.insert((rule.family, &rule.table, name));
                }
            }
        }
        let wanted = |(head, _): &(SetHead, _)| names.contains(&(head.family, &head.table, &head.name));
        self.sets.iter().enumerate().filter(|(_, set)| wanted(set)).map(|(place, _)| place).collect()
    }

    /// Puts rules into their chains, and places for names. `None`: a rule has no chain.
    fn assemble(self) -> Option<Ruleset> {
        let key = |family, table: &str, name: &str| (family, table.to_owned(), name.to_owned());
        let mut chains = self.chains;
        let chain_places: Places =
            chains.iter().enumerate().map(|(place, chain)| (key(chain.family, &chain.table, &chain.name), place)).collect();
        let set_places: Places =
            self.sets.iter().enumerate().map(|(place, (head, _))| (key(head.family, &head.table, &head.name), place)).collect();
        let tables: Vec<(u8, String)> = self.sets.iter().map(|(head, _)| (head.family, head.table.clone())).collect();
        let mut sets: Vec<Set> = self.sets.into_iter().map(|(head, elements)| Set::new(&head, elements)).collect();
        let settle = |family, table: &str, verdict: &mut Verdict| {
            if let Verdict::Call(call) = verdict {
                call.chain = chain_places.get(&key(family, table, &call.name)).copied();
            }
        };
        for ((family, table), set) in tables.iter().zip(&mut sets) {
            for data in set.data_mut() {
                if let Data::Verdict(verdict) = data {
                    settle(*family, table, verdict);
                }
            }
        }
        for Placed { family, table, chain, mut rule } in self.rules {
            for expression in &mut rule {
                match expression {
                    Expression::Decide(verdict) => settle(family, &table, verdict),
                    Expression::Lookup { name, set, .. } => *set = set_places.get(&key(family, &table, name)).copied(),
                    _ => {}
                }
            }
            chains[*chain_places.get(&(family, table, chain))?].rules.push(rule);
        }
        Some(Ruleset { chains, sets, everywhere: None })
    }
}

fn unreadable(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "the rules cannot be read without CAP_NET_ADMIN".to_owned(),
        _ => format!("the rules cannot be read: {error}"),
    }
}

/// Tables of iptables-legacy, which nf_tables does not list. What is in them is not looked at.
fn legacy() -> Option<String> {
    ["ip_tables_names", "ip6_tables_names"].into_iter().find_map(|file| {
        let tables = match std::fs::read_to_string(format!("/proc/thread-self/net/{file}")) {
            Ok(tables) => tables,
            // Only root may read it: whether a module with a table is there, everyone may.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => legacy_modules(),
            Err(_) => return None,
        };
        let tables: Vec<&str> = tables.split_whitespace().collect();
        (!tables.is_empty()).then(|| format!("iptables-legacy has tables ({})", tables.join(" ")))
    })
}

fn legacy_modules() -> String {
    let modules = std::fs::read_to_string("/proc/modules").unwrap_or_default();
    let names = modules.lines().filter_map(|line| line.split(' ').next());
    names.filter(|name| name.starts_with("iptable_") || name.starts_with("ip6table_")).collect::<Vec<_>>().join(" ")
}

/// Returns the verdict of the rules in a datagram of the kernel on `flow` on interface 2, eth0, if they fit together; for
/// fuzzing. `accepts_last`: each chain has one rule more behind its own, which accepts.
pub fn judge_messages(datagram: &[u8], flow: Flow, accepts_last: bool) -> Option<Judgment> {
    let mut ruleset = listed_in(datagram)?;
    if accepts_last {
        ruleset.chains.iter_mut().for_each(|chain| chain.rules.push(vec![Expression::Decide(Verdict::Accept)]));
    }
    Some(ruleset.judge(Link { index: 2, name: "eth0" }, flow))
}

fn listed_in(datagram: &[u8]) -> Option<Ruleset> {
    let mut listed = Listed::default();
    wire::messages(datagram).into_iter().for_each(|received| listed.take(received.message));
    listed.assemble()
}

/// Counts the messages of a datagram of the kernel that make sense, for fuzzing.
pub fn count_messages(datagram: &[u8]) -> usize {
    wire::messages(datagram).len()
}

#[cfg(test)]
mod tests;
