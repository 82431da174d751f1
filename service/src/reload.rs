//! The configuration is read again while the service runs: what can change does, the rest is named.
//!
//! Promises: a configuration that has a mistake changes nothing. A key that needs a restart keeps its value until then, so that
//! what is shown is what holds. Does not do: reading the file; the command does, where its user may.

use ringway_engine::Gone;
use ringway_stack::TcpConfig;

use crate::config::rules::SECTION;
use crate::config::{Config, ConfigError};
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
}

/// Returns true when the key `section.key` can change while the service runs.
pub fn is_live(key: &str) -> bool {
    matches!(key, "service.drain_s" | "service.handover_s" | "log.filter" | "policy.adopt" | SECTION)
        || LIMITS.contains(&key)
        || (key.starts_with("tcp.") && !TCP_AT_START.contains(&key))
}

/// Limits that nothing is made for at the start.
const LIMITS: [&str; 12] = [
    "limits.groups_per_user",
    "limits.sockets_per_group",
    "limits.processes_per_group",
    "limits.requests_per_second",
    "limits.chunk_bytes_per_socket",
    "limits.ports_per_user",
    "limits.shown_sockets",
    "limits.shown_sockets_per_user",
    "limits.wait_contexts",
    "limits.wait_contexts_per_user",
    "limits.attach_connections",
    "limits.silent_connections_per_user",
];

/// Settings of TCP that tables are made for at the start, or that other hosts have been told of.
const TCP_AT_START: [&str; 4] = ["tcp.time_wait_ms", "tcp.ephemeral_port_first", "tcp.ephemeral_port_last", "tcp.fast_open_keys"];

#[cfg(test)]
mod tests;
