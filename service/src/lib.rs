//! The control plane: configuration, what the kernel knows (links, addresses, routes, neighbors),
//! ports shared with it, and the applications that attach.
//!
//! Promises: the kernel keeps serving whatever Ringway does not, and everything changed in it
//! vanishes with the process. Does not do: packets. Those are the worker's.
#![forbid(unsafe_code)]

mod broker;
pub mod cgroups;
mod classifiers;
pub mod config;
mod devices;
pub mod executables;
pub mod firewall;
mod follow;
pub mod handover;
mod host;
mod interfaces;
mod kept;
pub mod kernel;
mod leaving;
mod live;
pub mod log;
mod lost_offloads;
pub mod measured;
pub mod netlink;
pub mod plan;
mod policy;
pub mod ports;
mod printable;
mod privileges;
pub mod published;
mod readiness;
mod reload;
mod rights;
pub mod rundir;
mod secret;
pub mod selftest;
mod supervise;
mod system_calls;
mod watchdog;
mod workers;

pub use broker::{Admission, BrokerStatus};
pub use config::{Config, ConfigError};
pub use kept::Kept;
pub use leaving::HandingOver;
pub use printable::printable;
pub use readiness::Opening;
pub use reload::Reloaded;
pub use reload::is_live;
pub use rights::{missing_rights, raise_descriptor_limit};
pub use rundir::{ClaimError, DEFAULT_NAME, RunDirectory};
pub use supervise::{Service, StartError};
