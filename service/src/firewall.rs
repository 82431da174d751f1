//! What the kernel's packet filters could say to packets that Ringway takes before they see them.
//!
//! Packets of served ports never reach netfilter. So an interface is served only where no rule could say anything but
//! "accept" to TCP or UDP on it. Promises: what is not understood, or cannot be read, is an objection with a reason. Does not
//! do: evaluate rules for single ports and peers; one rule that refuses some packets keeps the whole interface with the kernel.
//! Changes of nftables (and of iptables-nft, which is the same) are told; those of iptables-legacy are not.

mod rule;
mod socket;
mod wire;

use std::collections::BTreeSet;
use std::io;

use rule::{Rule, Way};
pub(crate) use socket::Watch;

/// NFPROTO_*: the families of tables whose chains see packets of an interface. Family arp sees none of TCP and UDP.
const FAMILIES: [(u8, &str); 5] = [(1, "inet"), (2, "ip"), (5, "netdev"), (7, "bridge"), (10, "ip6")];
const NETDEV: u8 = 5;
const BRIDGE: u8 = 7;
/// NF_INET_LOCAL_OUT and NF_INET_POST_ROUTING, and of netdev tables NF_NETDEV_EGRESS.
const OUTPUTS: [u32; 2] = [3, 4];
const EGRESS: u32 = 1;
/// NF_INET_FORWARD: packets that the kernel forwards are not taken from it. The same number is another hook in netdev tables.
const FORWARD: u32 = 2;

/// One interface, as rules name it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link<'a> {
    pub(crate) index: u32,
    pub(crate) name: &'a str,
}

/// A chain of rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Chain {
    family: u8,
    table: String,
    name: String,
    /// Where the kernel calls it; `None`: other chains do.
    hook: Option<Hook>,
    /// Packets that no rule has decided are dropped.
    drops: bool,
    rules: Vec<Rule>,
}

/// Where the kernel calls a chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Hook {
    number: u32,
    /// Only for packets of these interfaces; empty: of all.
    devices: Vec<String>,
}

impl Hook {
    /// Which way packets go that the kernel shows there.
    fn way(&self, family: u8) -> Way {
        let outputs = if family == NETDEV { &[EGRESS][..] } else { &OUTPUTS };
        match family {
            BRIDGE => Way::Bridged,
            _ if outputs.contains(&self.number) => Way::Out,
            _ => Way::In,
        }
    }
}

/// All rules of the network namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ruleset {
    chains: Vec<Chain>,
    /// What speaks against every interface.
    everywhere: Option<String>,
}

impl Ruleset {
    /// Reads what is in force now. A kernel without packet filters has none.
    ///
    /// # Blocking
    /// For as long as the kernel needs to list its rules.
    pub fn read() -> Ruleset {
        let mut ruleset = match socket::read() {
            Ok(chains) => Ruleset { chains, everywhere: None },
            Err(error) => Ruleset { chains: Vec::new(), everywhere: Some(unreadable(&error)) },
        };
        ruleset.everywhere = ruleset.everywhere.or_else(legacy);
        ruleset
    }

    /// One that nobody may read.
    #[cfg(test)]
    pub(crate) fn unreadable_for_tests() -> Ruleset {
        let error = io::Error::from(io::ErrorKind::PermissionDenied);
        Ruleset { chains: Vec::new(), everywhere: Some(unreadable(&error)) }
    }

    /// Why packets of TCP and UDP on `link` might not be accepted; `None`: no rule could say anything else.
    pub(crate) fn objection(&self, link: Link<'_>) -> Option<String> {
        self.everywhere.clone().or_else(|| self.chains.iter().find_map(|chain| self.objection_of(chain, link)))
    }

    fn objection_of(&self, chain: &Chain, link: Link<'_>) -> Option<String> {
        let hook = chain.hook.as_ref()?;
        let (_, family) = FAMILIES.iter().find(|(number, _)| *number == chain.family)?;
        let is_elsewhere = !hook.devices.is_empty() && !hook.devices.iter().any(|name| name == link.name);
        if is_elsewhere || chain.family != NETDEV && hook.number == FORWARD {
            return None;
        }
        let what = match chain.drops {
            true => "policy drop".to_owned(),
            false => self.objection_in(chain, (link, hook.way(chain.family)), &mut BTreeSet::new())?,
        };
        Some(format!("table {family} {}, chain {}: {what}", chain.table, chain.name))
    }

    /// What a rule of the chain, or of those that it calls, does besides accepting. `seen`: chains that have been looked at.
    fn objection_in<'a>(&'a self, chain: &'a Chain, at: (Link<'_>, Way), seen: &mut BTreeSet<&'a str>) -> Option<String> {
        if !seen.insert(&chain.name) {
            return None;
        }
        for rule in chain.rules.iter().filter(|rule| rule.may_match(at.0, at.1)) {
            if let Some(objection) = &rule.objection {
                return Some(objection.clone());
            }
            let Some(name) = &rule.calls else { continue };
            let is_called = |other: &&Chain| other.family == chain.family && other.table == chain.table && other.name == *name;
            let objection = match self.chains.iter().find(is_called) {
                Some(called) => self.objection_in(called, at, seen),
                None => Some(format!("calls the chain {name}, which was not listed")),
            };
            if objection.is_some() {
                return objection;
            }
        }
        None
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

/// How many messages a datagram of the kernel has that make sense: what fuzzing calls.
pub fn count_messages(datagram: &[u8]) -> usize {
    wire::messages(datagram).len()
}

#[cfg(test)]
mod tests;
