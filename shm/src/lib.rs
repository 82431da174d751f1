//! Memory that two parties share: frames and their arena inside a worker, mapped regions between
//! processes, statistics and capture for tools.
//!
//! `unsafe` may stand here, in `channel`, in the files of system calls and in the crates of C functions.
//! The part that protocols need (`arena`, `frame`, `queue`, `burst`, `fifo`, `time`) is `no_std + alloc`;
//! the part that needs an operating system is compiled on Linux only.
#![cfg_attr(not(target_os = "linux"), no_std)]

extern crate alloc;

pub mod arena;
pub mod burst;
#[cfg(all(target_os = "linux", not(loom)))]
pub mod capture;
#[cfg(all(target_os = "linux", not(loom)))]
mod copy;
pub mod doorbell;
#[cfg(any(target_os = "linux", loom))]
pub mod event_set;
pub mod extent;
pub mod fifo;
#[cfg(all(target_os = "linux", not(loom)))]
pub mod file_map;
pub mod flow_group;
pub mod frame;
mod histogram;
pub mod list;
pub mod payload;
mod prefetch;
pub mod queue;
#[cfg(all(target_os = "linux", not(loom)))]
pub mod reason;
#[cfg(all(target_os = "linux", not(loom)))]
pub mod region;
pub mod ring;
#[cfg(all(target_os = "linux", not(loom)))]
pub mod shared_words;
pub mod slab;
#[cfg(all(target_os = "linux", not(loom)))]
pub mod stats;
pub mod sum;
pub mod sync;
#[cfg(all(target_os = "linux", not(loom)))]
pub mod sys;
#[cfg(all(target_os = "linux", not(loom)))]
pub mod system_call;
pub mod time;
mod waits_for;
#[cfg(all(target_os = "linux", not(loom)))]
pub mod wire;

pub use arena::{Arena, ArenaConfig, Class};
pub use burst::Burst;
pub use extent::Content;
pub use fifo::Fifo;
pub use flow_group::{Flow, FlowGroup, GroupSet};
pub use frame::{Checksum, Frame, Segmentation, SegmentationKind};
pub use histogram::Histogram;
pub use payload::{Payload, PayloadMut, Room};
pub use prefetch::prefetch;
pub use queue::{FrameQueue, Note, Slot};
pub use time::{Duration, Instant};
pub use waits_for::WaitsFor;
