//! BPF programs at netfilter's hooks (BPF_PROG_TYPE_NETFILTER), which stand beside the chains of nf_tables and in none of its lists.
//! Read linux/netfilter/nfnetlink_hook.h first.
//!
//! ```text
//!   list of hooks (NFNL_SUBSYS_HOOK, Linux 6.4, CONFIG_NETFILTER_NETLINK_HOOK) -> of this network namespace, whenever it is asked
//!   list of links (BPF_LINK_GET_NEXT_ID, CAP_SYS_ADMIN)                        -> of all namespaces; the service has the right at
//!                                                                                 its start alone, and remembers what it saw
//! ```
//! What a program does cannot be told, so each is a rule that does something unknown to all packets of its hook. Promises: a kernel without such
//! programs has none. Does not do: where the kernel lists no hooks, programs that come after the start, or with a start without
//! CAP_SYS_ADMIN, are not seen ([`blindness`]).

use std::sync::{Mutex, PoisonError};

use ringway_device::netlink::{Attributes, DUMP, REQUEST, attribute, message, put};
use ringway_device::steering::attached::{HookProgram, netfilter_links};

use super::expression::{Expression, Verdict};
use super::wire::number;
use super::{Chain, Hook, IP, IP6, socket};

/// NFNL_MSG_HOOK_GET of NFNL_SUBSYS_HOOK
pub(super) const HOOK_GET: u16 = 12 << 8;
const NFNLA_HOOK_HOOKNUM: u16 = 1;
const NFNLA_HOOK_PRIORITY: u16 = 2;
const NFNLA_HOOK_CHAIN_INFO: u16 = 6;
const NFNLA_HOOK_INFO_DESC: u16 = 1;
const NFNLA_HOOK_INFO_TYPE: u16 = 2;
/// NFNL_HOOK_TYPE_BPF
const TYPE_BPF: u32 = 2;
const NFNLA_HOOK_BPF_ID: u16 = 1;
/// struct nfgenmsg
const GENERIC_BYTES: usize = 4;
/// NF_INET_*, by number; packets that are forwarded are not taken.
const HOOKS: [(u32, &str); 4] = [(0, "prerouting"), (1, "input"), (3, "output"), (4, "postrouting")];
const DECIDES: &str = "what it does is not known";

/// By links, when they were last looked at with the right to; `None`: never.
static BY_LINKS: Mutex<Option<Vec<HookProgram>>> = Mutex::new(None);

/// Looks at links while this process may, for the time when it may not.
pub(crate) fn remember() {
    if let Ok(found) = netfilter_links() {
        *BY_LINKS.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
    }
}

/// The programs that packets of this network namespace may meet, as far as they can be seen, in order.
///
/// # Blocking
/// While the kernel lists them.
pub(crate) fn programs() -> Vec<HookProgram> {
    let mut found = listed().unwrap_or_else(|| {
        netfilter_links().unwrap_or_else(|_| BY_LINKS.lock().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default())
    });
    found.retain(|found| HOOKS.iter().any(|(hook, _)| *hook == found.hook));
    found.sort_unstable();
    found.dedup();
    found
}

/// Says what is not seen here, if anything is not.
pub(crate) fn blindness() -> Option<&'static str> {
    if !crate::kernel::has_netfilter_programs() || listed().is_some() {
        return None;
    }
    let is_remembered = BY_LINKS.lock().unwrap_or_else(PoisonError::into_inner).is_some();
    Some(match is_remembered || netfilter_links().is_ok() {
        true => {
            "this kernel lists no hooks of netfilter: of BPF programs at them those count that are there at the service's start"
        }
        false => {
            "this kernel lists no hooks of netfilter: BPF programs at them are not seen without CAP_SYS_ADMIN at the service's start"
        }
    })
}

/// `None`: the kernel lists no hooks.
fn listed() -> Option<Vec<HookProgram>> {
    let mut found = Vec::new();
    for family in [IP, IP6] {
        for (hook, _) in HOOKS {
            let add = &mut |kind: u16, body: &[u8]| found.extend(read(kind, body));
            socket::list(&|sequence| request(family, hook, sequence), add).ok()?;
        }
    }
    Some(found)
}

fn request(family: u8, hook: u32, sequence: u32) -> Vec<u8> {
    let mut body = vec![0; GENERIC_BYTES];
    body[0] = family;
    put(&mut body, NFNLA_HOOK_HOOKNUM, &hook.to_be_bytes());
    message(HOOK_GET, REQUEST | DUMP, sequence, &body)
}

/// The program of an answer; `None`: something else is at the hook.
fn read(kind: u16, body: &[u8]) -> Option<HookProgram> {
    let (family, attributes) = (*body.first()?, body.get(GENERIC_BYTES..)?);
    let info = attribute(attributes, NFNLA_HOOK_CHAIN_INFO).filter(|_| kind == HOOK_GET)?;
    if number(attribute(info, NFNLA_HOOK_INFO_TYPE)?)? != TYPE_BPF {
        return None;
    }
    let mut found = HookProgram { family, hook: u32::MAX, priority: 0, program: 0 };
    for (kind, payload) in Attributes(attributes) {
        match kind {
            NFNLA_HOOK_HOOKNUM => found.hook = number(payload)?,
            NFNLA_HOOK_PRIORITY => found.priority = number(payload)?.cast_signed(),
            _ => {}
        }
    }
    let program = attribute(info, NFNLA_HOOK_INFO_DESC).and_then(|info| number(attribute(info, NFNLA_HOOK_BPF_ID)?));
    Some(HookProgram { program: program.unwrap_or(0), ..found })
}

/// As the judge sees it.
pub(super) fn chain(program: &HookProgram) -> Chain {
    let hook = HOOKS.iter().find(|(number, _)| *number == program.hook).map_or("?", |(_, name)| name);
    let family = if program.family == IP { "ip" } else { "ip6" };
    Chain {
        family: program.family,
        name: format!("BPF program {} of netfilter at {family} {hook}", program.program),
        hook: Some(Hook { number: program.hook, priority: program.priority, devices: Vec::new() }),
        rules: vec![vec![Expression::Decide(Verdict::Acts(DECIDES))]],
        ..Chain::default()
    }
}

#[cfg(test)]
pub(super) mod tests;
