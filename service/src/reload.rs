//! The configuration is read again while the service runs: what can change does, the rest is named.
//!
//! Promises: a configuration that has a mistake changes nothing. A key that needs a restart keeps its value until then, so that
//! what is shown is what holds. Does not do: reading the file; the command does, where its user may.

use ringway_engine::{Gone, WorkerLimits};
use ringway_stack::TcpConfig;

use crate::config::rules::SECTION;
use crate::config::{Config, ConfigError};
use crate::measured;
use crate::workers::Workers;

/// What a new reading has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// `section.key` of what holds from now on: for connections that are open too, where the key is one of theirs.
    pub applied: Vec<&'static str>,
    /// `section.key` of what holds after a restart.
    pub restart: Vec<&'static str>,
}

impl Config {
    /// Takes over what can change while the service runs from `new`.
    ///
    /// # Errors
    /// The values of both together contradict each other; nothing has changed.
    pub fn reload(&mut self, new: &Config) -> Result<Reloaded, ConfigError> {
        let (applied, restart): (Vec<_>, Vec<_>) = self.differences(new).into_iter().partition(|key| is_live(key));
        let merged = self.with(new, &applied)?;
        *self = merged;
        Ok(Reloaded { applied, restart })
    }
}

impl Workers {
    /// Connections follow these settings from now on.
    pub(crate) fn set_tcp_config(&self, config: &TcpConfig) -> Result<(), Gone> {
        self.each().iter().try_for_each(|worker| worker.set_tcp_config(config.clone()))
    }

    /// What the whole service may have, from now on.
    pub(crate) fn set_limits(&self, config: &Config) -> Result<(), Gone> {
        let limits = WorkerLimits {
            stack: config.stack.clone(),
            regions_max: config.limits.groups,
            orphans_max: config.limits.orphans,
            bulk: measured::bulk(&config.policy),
            multicast_on_stack: config.policy.multicast_on_stack,
        };
        self.each().iter().try_for_each(|worker| worker.set_limits(limits.clone()))
    }
}

/// Returns true when the key `section.key` can change while the service runs.
pub fn is_live(key: &str) -> bool {
    OTHERS.contains(&key) || ["limits.", "tcp."].iter().any(|section| key.starts_with(section)) && !AT_START.contains(&key)
}

/// Keys of other sections.
const OTHERS: [&str; 11] = [
    "service.drain_s",
    "service.handover_s",
    "log.filter",
    "policy.adopt",
    "policy.bulk",
    "policy.bulk_after_mib",
    "policy.firewall",
    "policy.group",
    "policy.multicast",
    "policy.routing",
    SECTION,
];

/// Limits and settings of TCP that tables and memory are made for at the start, or that other hosts have been told of.
const AT_START: [&str; 6] = [
    "limits.ports",
    "limits.memory_per_group_mib",
    "tcp.time_wait_ms",
    "tcp.ephemeral_port_first",
    "tcp.ephemeral_port_last",
    "tcp.fast_open_keys",
];

#[cfg(test)]
mod tests;
