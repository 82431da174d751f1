//! The engine: one [`Worker`] per core joins a protocol stack, its devices and its applications.
//!
//! A worker owns all of its state and shares none. The service talks to it through a [`WorkerHandle`], applications
//! through channels in shared memory. Only [`clock`] reads the machine's time; every other function takes it as an
//! argument. The native API of the crate `ringway` runs a worker on its caller's thread; [`native`] has that part of a
//! worker's state. Only Ringway's own crates use this one: its interface changes with any version.
#![forbid(unsafe_code)]

mod attach;
mod balance;
mod claim;
pub mod clock;
mod command;
mod core;
mod guard;
mod handover;
mod idle;
mod info_record;
mod interface;
mod known_sources;
mod metrics;
pub mod native;
mod port_table;
mod ports;
pub mod quota;
mod spawn;
mod verdict;
mod worker;

pub use crate::core::Core;
pub use attach::BulkPolicy;
pub use claim::{Claim, Purpose, Rights};
pub use command::{Gone, InterfaceInfo, OpenDevice, RegionId, RegionMemory, RegionRequest, WorkerHandle, WorkerLimits};
pub use guard::Guard;
pub use handover::{Departure, Late, Left, NotAdopted, Stays, Unmoved, Wanted};
pub use metrics::{CounterInfo, HistogramInfo, Part, counter_info, histogram_of};
pub use ports::{Division, Host, Leave, PortError, Ports, Transport};
pub use quota::{GroupQuotas, QUOTAS, Quota, Scope, Usage, UsageSource, UserQuotas};
pub use spawn::{WorkerThread, spawn};
pub use verdict::{Allowance, Ruling, Terms, Verdict};
pub use worker::{Worker, WorkerConfig};
