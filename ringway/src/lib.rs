//! The native API: sockets for programs that run to completion on Ringway.
//!
//! A [`Net`] is a worker on the calling thread: interfaces, a stack and sockets, without a service, a channel, a lock or a
//! second thread. Its names are those of `std::net`, with the `Net` as an argument:
//!
//! ```no_run
//! use ringway::{Event, Net, NetConfig, TcpListener};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut net = Net::new(NetConfig::default())?;
//! net.open("tap:ring0=10.7.0.2/24")?;
//! let listener = TcpListener::bind(&mut net, "0.0.0.0:7".parse()?)?;
//! loop {
//!     net.wait()?;
//!     while let Some(event) = net.next_event() {
//!         match event {
//!             Event::Listener(_) => while listener.accept(&mut net).is_ok() {},
//!             Event::Stream(stream, _) => loop {
//!                 match stream.read_chunk(&mut net) {
//!                     Ok(Some(chunk)) => stream.write_chunk(&mut net, chunk).map_err(|rejected| rejected.error)?,
//!                     Ok(None) => break stream.close(&mut net),
//!                     Err(_) => break,
//!                 }
//!             },
//!             _ => {}
//!         }
//!     }
//! }
//! # }
//! ```
//! Promises: only [`Net::wait`] blocks or makes a system call; no call allocates per message. `read_chunk`, `reserve`
//! and `write_chunk` do not copy payload between frames and the application; the copies of the others are counted
//! ([`Net::copied_bytes`]). Handles are small copies of a number; a stale one is refused and never names another
//! socket. Does not do: sharing a socket with another thread or process; for several threads with one address, a `Net`
//! each, see [`Nets`]. The text for users is docs/native-api.md.

#![forbid(unsafe_code)]

mod chunk;
mod config;
mod error;
pub mod futures;
mod net;
mod nets;
mod open;
pub mod remote;
mod tcp;
mod udp;

pub use chunk::{Chunk, Reservation};
pub use config::NetConfig;
pub use error::{AcceptError, ReadError, Rejected, WriteError};
pub use net::{Event, Net, NetHandle, Ready, TimerId};
pub use nets::{Nets, Seat};
pub use ringway_device::Device;
pub use ringway_engine::InterfaceInfo;
pub use ringway_shm::{Arena, ArenaConfig, Content, FlowGroup, Instant};
pub use ringway_stack::{
    BindError, Cidr, ConnectError, GroupError, ListenError, MacAddress, Readiness, Route, SocketError, StackConfig, TcpInfo,
    TcpOptions, UdpError, UdpInfo, UdpMessage, UdpOptions, UdpSend, UdpSendError, Urgent,
};
pub use tcp::{TcpListener, TcpStream};
pub use udp::{Datagram, UdpSocket};

#[cfg(test)]
mod tests;
