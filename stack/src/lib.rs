//! Sans-IO protocols: frames and time in, frames and events out.
//!
//! Receiving marks; transmitting writes: `receive` changes state and marks connections ready, `transmit` is the only place
//! where headers are written. Nothing here reads a clock, opens a file or calls upward. See ARCHITECTURE.md for the packet's
//! journey.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod address;
mod admission;
pub mod config;
mod destination;
mod env;
pub mod error;
pub mod event;
#[cfg(test)]
mod family;
mod ip;
mod link;
mod source;
mod stack;
pub mod stats;
mod tcp;
mod timer;
mod udp;

pub use address::{BadCidr, Cidr, MacAddress, SocketAddress};
pub use admission::{Backlog, FrameUse};
pub use config::{
    CongestionControl, Ecn, FastOpenConfig, FastOpenKeys, MtuProbing, PathMtuDiscovery, StackConfig, SynCookies, TcpConfig,
    TcpOptions, UdpConfig, UdpOptions,
};
pub use destination::Destination;
pub use error::{AcceptError, BindError, ConnectError, GroupError, ListenError, ReceiveError, SendError, UdpSendError};
pub use event::{AddressChange, Event, Readiness, SocketError, SocketId, Urgent};
pub use ip::{Autoconfiguration, Interface, Medium, Role, Route};
pub use ringway_shm::{Duration, Instant};
pub use ringway_wire as wire;
pub use source::Source;
pub use stack::Stack;
pub use stats::{Counter, Counters};
pub use tcp::congestion;
pub use tcp::handover;
pub use tcp::{
    ActiveOpen, EndedConnection, HEADROOM as TCP_HEADROOM, MarkInfo, Observation, OwnerUse, Protocol, SharedRate, SharedRates,
    SocketSummary, SocketTimer, State, TcpInfo,
};
pub use udp::{HEADROOM as UDP_HEADROOM, UdpError, UdpErrorReport, UdpInfo, UdpMessage, UdpSend};
