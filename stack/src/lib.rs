//! Sans-IO protocols: frames and time in, frames and events out.
//!
//! Receiving marks; transmitting writes: `receive` changes state and marks connections ready,
//! `transmit` is the only place where headers are written. Nothing here asks a clock, opens a file
//! or calls upward. See ARCHITECTURE.md for the packet's journey.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod address;
pub mod config;
pub mod error;
pub mod event;
mod ip;
mod link;
mod stack;
pub mod stats;
mod tcp;
mod timer;
pub mod wire;

pub use address::{Cidr, MacAddress, SocketAddress};
pub use config::{CongestionControl, Ecn, StackConfig, SynCookies, TcpConfig, TcpOptions};
pub use error::{AcceptError, ConnectError, ListenError, ReceiveError, SendError};
pub use event::{Event, Readiness, SocketError, SocketId};
pub use ip::{Interface, Medium, Role, Route};
pub use ringway_shm::{Duration, Instant};
pub use stack::Stack;
pub use stats::{Counter, Counters};
pub use tcp::{SocketSummary, SocketTimer, State, TcpInfo};
