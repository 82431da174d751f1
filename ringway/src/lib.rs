//! The native API: sockets for programs that run to completion on Ringway.
//!
//! A [`Net`] is a worker on the calling thread: interfaces, a stack and sockets, without a service, a channel, a lock or a
//! second thread. Its names are those of `std::net`, with the `Net` as an argument:
//!
//! ```no_run
//! use ringway::{Event, Net, NetConfig, TcpListener};
//! use std::collections::HashMap;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut net = Net::new(NetConfig::default())?;
//! net.open("tap:ring0=10.7.0.2/24")?;
//! let listener = TcpListener::bind(&mut net, "0.0.0.0:7".parse()?)?;
//! let mut streams = HashMap::new();
//! loop {
//!     net.wait()?;
//!     while let Some(event) = net.next_event() {
//!         match event {
//!             Event::Listener(_) => {
//!                 while let Ok(stream) = listener.accept(&mut net) {
//!                     streams.insert(stream.id(), stream);
//!                 }
//!             }
//!             Event::Stream(id, _) => {
//!                 while let Ok(Some(chunk)) = id.read_chunk(&mut net) {
//!                     id.write_chunk(&mut net, chunk).map_err(|rejected| rejected.error)?;
//!                 }
//!                 if id.readiness(&mut net).peer_closed {
//!                     // Dropping the stream closes it; what was written is still sent.
//!                     streams.remove(&id);
//!                 }
//!             }
//!             _ => {}
//!         }
//!     }
//! }
//! # }
//! ```
//! Promises: only [`Net::wait`] blocks or makes a system call; no call allocates per message. `read_chunk`, `reserve`
//! and `write_chunk` do not copy payload between frames and the application; the copies of the others are counted
//! ([`Net::copied_bytes`]). A socket ([`TcpStream`], [`TcpListener`], [`UdpSocket`]) is owned: dropping it closes it. Its
//! id ([`TcpStreamId`] and others) is a copied number, by which events name the socket; it has all calls, and closes nothing
//! when it is dropped. Does not do: sharing a socket with another thread or process; for several threads with one address, a `Net`
//! each, see [`Nets`]. The text for users is docs/native-api.md.

#![forbid(unsafe_code)]

mod chunk;
mod config;
mod error;
pub mod futures;
mod hook;
mod net;
mod nets;
mod open;
mod owned;
pub mod remote;
mod tcp;
mod udp;

pub use chunk::{Chunk, Reservation};
pub use config::NetConfig;
pub use error::{AcceptError, ReadError, Rejected, WriteError};
pub use hook::{PacketHook, PacketVerdict};
pub use net::{Event, Net, NetHandle, Ready, TimerId};
pub use nets::{Nets, Seat};
pub use owned::{TcpListener, TcpStream, UdpSocket};
pub use ringway_device::Device;
pub use ringway_engine::InterfaceInfo;
pub use ringway_shm::{Arena, ArenaConfig, Content, FlowGroup, Instant};
pub use ringway_stack::congestion;
pub use ringway_stack::{
    BindError, Cidr, CongestionControl, ConnectError, GroupError, ListenError, MacAddress, Readiness, Route, SocketError,
    StackConfig, TcpInfo, TcpOptions, UdpError, UdpInfo, UdpMessage, UdpOptions, UdpSend, UdpSendError, Urgent,
};
pub use tcp::{TcpListenerId, TcpStreamId};
pub use udp::{Datagram, UdpSocketId};

#[cfg(test)]
mod tests;
