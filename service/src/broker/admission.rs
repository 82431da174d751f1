//! Admission: which processes may attach, and to which group.

use ringway_channel::attach::{Credentials, Peer};
use ringway_engine::Allowance;

use super::members::program_name;
use crate::cgroups;
use crate::config::rules::{Action, Process, Rules};
use crate::executables::Executables;

/// The relation of a process to an existing group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    /// The user whose first process made the group.
    pub(super) owner: u32,
    /// A process of the group is its ancestor, or has reserved a number for it.
    pub(super) is_kin: bool,
}

/// Processes that may make a new group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Only the group with this token exists: a private service.
    Private([u8; 16]),
    /// Root, the service's own user, and the members of a group: the system service.
    Users {
        /// The service's own user.
        uid: u32,
        /// Members of it may attach; `None`: there is no such group.
        gid: Option<u32>,
        /// Its name, for refusals.
        group: String,
    },
}

impl Admission {
    /// The system service's: members of `group` and the service's own user.
    pub fn of_group(group: &str) -> Admission {
        Admission::Users { uid: rustix::process::getuid().as_raw(), gid: group_number(group), group: group.to_owned() }
    }

    /// Returns true if one program alone is served.
    pub(crate) fn is_private(&self) -> bool {
        matches!(self, Admission::Private(_))
    }

    /// Decides on a `peer` with the supplementary groups `groups` that shows `token`; `standing` is its relation to the token's
    /// group, if there is one.
    ///
    /// # Errors
    /// The reason for which it may not attach.
    pub(super) fn decide(
        &self,
        token: &[u8; 16],
        standing: Option<Standing>,
        peer: Credentials,
        groups: &[u32],
    ) -> Result<(), String> {
        if let Some(Standing { owner, is_kin }) = standing {
            // The token says which group is meant; it is no right. Servers give up their rights, and their children go on.
            return if owner == peer.uid || peer.uid == 0 || is_kin {
                Ok(())
            } else {
                Err(format!("this application group belongs to user {owner}, not {}, and is not your parents'", peer.uid))
            };
        }
        match self {
            Admission::Private(only) if only == token => Ok(()),
            Admission::Private(_) => Err("this service is private to one program".to_owned()),
            Admission::Users { uid, gid, .. }
                if peer.uid == 0 || peer.uid == *uid || gid.is_some_and(|gid| peer.gid == gid || groups.contains(&gid)) =>
            {
                Ok(())
            }
            Admission::Users { group, .. } => {
                Err(format!("user {} may not use this service: join group {group} (policy.group)", peer.uid))
            }
        }
    }
}

/// Why a process gets nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Its sockets are the kernel's.
    Kernel(String),
    /// It is to have none.
    Denied(String),
}

impl From<String> for Refusal {
    fn from(text: String) -> Refusal {
        Refusal::Kernel(text)
    }
}

/// What the rules of the configuration allow a process.
///
/// # Errors
/// One leaves it to the kernel, or denies it.
pub(super) fn obey_rules(rules: &Rules, executables: &Executables, peer: Credentials) -> Result<Allowance, Refusal> {
    if !rules.names_processes() {
        return Ok(Allowance::default());
    }
    let program = Some(program_name(peer.pid)).filter(|name| !name.is_empty() && !Peer::is_foreign(peer.pid));
    let runs = |file: &_| executables.runs(peer.pid, file);
    let process = Process { user: peer.uid, cgroup: cgroups::name_of(peer.pid), program, runs: &runs };
    let Some(rule) = rules.on_process(&process) else { return Ok(Allowance::default()) };
    match rule.action() {
        Action::Accelerate => Ok(rule.allowance()),
        Action::Kernel => {
            Err(Refusal::Kernel(format!("a rule of the configuration leaves it to the kernel ({rule}; {})", rule.origin)))
        }
        Action::Deny => Err(Refusal::Denied(format!("a rule of the configuration ({rule}; {})", rule.origin))),
    }
}

fn group_number(name: &str) -> Option<u32> {
    let groups = std::fs::read_to_string("/etc/group").ok()?;
    let line = groups.lines().find(|line| line.split(':').next() == Some(name))?;
    line.split(':').nth(2)?.parse().ok()
}
