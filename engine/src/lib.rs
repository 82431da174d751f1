//! The engine: one [`Worker`] per core joins a protocol stack, its devices and its applications.
//!
//! A worker owns all of its state and shares none; the service talks to it through a
//! [`WorkerHandle`], applications through channels in shared memory. Only [`clock`] asks the
//! machine for the time; every other function is told.
#![forbid(unsafe_code)]

pub mod clock;
mod command;
mod ports;
mod spawn;
mod worker;

pub use command::{Gone, NewInterface, OpenDevice, RegionId, RegionMemory, RegionRequest, WorkerHandle};
pub use ports::{PortError, Ports, Resolver};
pub use spawn::{WorkerThread, spawn};
pub use worker::{Worker, WorkerConfig};
