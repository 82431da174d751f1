//! The control plane: configuration, what the kernel knows (links, addresses, routes, neighbors),
//! ports shared with it, and the applications that attach.
//!
//! Promises: the kernel keeps serving whatever Ringway does not, and everything changed in it
//! vanishes with the process. Does not do: packets. Those are the worker's.
#![forbid(unsafe_code)]

pub mod config;
pub mod netlink;
pub mod plan;
pub mod ports;
pub mod rundir;

pub use config::{Config, ConfigError};
