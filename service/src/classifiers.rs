//! BPF programs and filters of others where packets of Ringway go around them: at an interface's traffic-control hooks, where
//! the device takes a copy before the hook of arriving packets and may send past the one of packets that leave; and those that
//! choose sockets for the packets that arrive in the network namespace, which the kernel asks after the device has taken its own.
//!
//! Which programs are Ringway's is told by the kernel's numbers of programs, which services write down in their run directory
//! before they attach them. XDP programs run before a packet socket sees a packet: they are obeyed, and named in a note.
//! Promises: what cannot be found out is an objection with its reason. Does not do: reading what a program does.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use ringway_device::steering::attached::{HookProgram, filters_at, programs_at, socket_lookups_in, xdp_at};

use crate::cgroups::REMEDY;
use crate::config::{Config, DeviceChoice, RuleChoice};
use crate::firewall::hooks;
use crate::netlink::{Link, Snapshot};
use crate::plan::is_served;
use crate::rundir::RunDirectory;

/// Number of programs and filters that a line names.
const LISTED_MAX: usize = 4;

/// The programs and filters, in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Classifiers {
    /// At the traffic-control hooks of each link.
    links: BTreeMap<u32, String>,
    /// In the network namespace.
    namespace: Option<String>,
    /// XDP programs at links, which are obeyed.
    obeyed: BTreeMap<u32, u32>,
    /// At hooks of netfilter, where they are rules like others: `firewall::hooks`. Here they tell that rules have changed.
    hooked: Vec<HookProgram>,
}

impl Classifiers {
    /// Those of the links that may be served, and of this network namespace, where it matters.
    ///
    /// # Blocking
    /// While the kernel lists them.
    pub(crate) fn read(config: &Config, kernel: &Snapshot) -> Classifiers {
        if config.policy.firewall == RuleChoice::Ignore || config.interface.device == DeviceChoice::Tap {
            return Classifiers::default();
        }
        let ours = ours();
        let links: Vec<&Link> = kernel.links.values().filter(|link| may_be_served(config, kernel, link)).collect();
        Classifiers {
            links: links.iter().filter_map(|link| Some((link.index, at(link.index, &ours)?))).collect(),
            namespace: in_this_namespace(),
            obeyed: links.iter().filter_map(|link| Some((link.index, program_of_others(link.index, &ours)?))).collect(),
            hooked: hooks::programs(),
        }
    }

    /// The objection to serving a link.
    pub(crate) fn objection(&self, link: u32) -> Option<String> {
        let here = self.links.get(&link);
        let all: Vec<&str> = here.into_iter().chain(&self.namespace).map(String::as_str).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }

    /// A remark for the operator on a link that packet sockets serve.
    pub(crate) fn note(&self, link: u32, name: &str) -> Option<String> {
        let program = self.obeyed.get(&link)?;
        Some(format!("packets that arrive on {name} pass its XDP program {program} before Ringway, as before the kernel"))
    }

    /// Returns true if something would be served but for them.
    pub(crate) fn object(&self) -> bool {
        self.namespace.is_some() || !self.links.is_empty() || !self.hooked.is_empty()
    }
}

/// Links without an address are left out, of which a machine with containers has hundreds.
fn may_be_served(config: &Config, kernel: &Snapshot, link: &Link) -> bool {
    let is_wanted = match &config.interface.names {
        Some(names) => names.contains(&link.name),
        None => link.up && kernel.addresses_of(link.index).iter().any(|cidr| is_served(cidr.ip)),
    };
    is_wanted && link.ethernet && !link.loopback
}

/// The programs of services of this machine, and of this user's.
fn ours() -> impl Fn(u32) -> bool {
    let known = std::cell::OnceCell::<BTreeSet<u32>>::new();
    move |program| {
        let read = || {
            let mut all = RunDirectory::of_this_machine().programs();
            all.extend(RunDirectory::default_of_machines().programs());
            all
        };
        known.get_or_init(read).contains(&program)
    }
}

fn at(link: u32, ours: &dyn Fn(u32) -> bool) -> Option<String> {
    let mut found = match filters_at(link) {
        Ok(filters) => filters,
        Err(error) => return Some(format!("its filters cannot be read: {error}")),
    };
    match programs_at(link) {
        // Ours are read after the kernel's list, so that a program which has come since is known.
        Ok(programs) => {
            found.extend(programs.into_iter().filter(|program| !ours(*program)).map(|program| format!("tcx program {program}")))
        }
        Err(error) => found.push(unread("tcx programs", &error)),
    }
    (!found.is_empty()).then(|| listed(&found))
}

/// The first few, and the number of the others: a hook holds dozens.
fn listed(found: &[String]) -> String {
    match found.len().checked_sub(LISTED_MAX) {
        None | Some(0) => found.join(", "),
        Some(more) => format!("{} and {more} more", found[..LISTED_MAX].join(", ")),
    }
}

/// An interface that has gone meanwhile has none.
fn program_of_others(link: u32, ours: &dyn Fn(u32) -> bool) -> Option<u32> {
    xdp_at(link).ok().flatten().filter(|program| !ours(*program))
}

fn in_this_namespace() -> Option<String> {
    let count = File::open("/proc/thread-self/ns/net").and_then(|namespace| socket_lookups_in(namespace.as_fd()));
    match count {
        Ok(0) => None,
        Ok(count) => Some(format!("{count} sk_lookup program(s) of the network namespace")),
        Err(error) => Some(unread("sk_lookup programs", &error)),
    }
}

fn unread(what: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => format!("{what} cannot be read: {error}; {REMEDY}"),
        _ => format!("{what} cannot be read: {error}"),
    }
}

#[cfg(test)]
mod tests;
