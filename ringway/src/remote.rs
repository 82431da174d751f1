//! The native API for programs beside the worker: other threads, other processes. It talks to a running service through
//! a channel, as unmodified programs do, but without descriptors.
//!
//! ```no_run
//! use std::io::Write;
//! # fn main() -> std::io::Result<()> {
//! let session = ringway::remote::Session::from_environment()?;
//! let listener = session.listen("0.0.0.0:7".parse().expect("an address"), 1024)?;
//! let (stream, _peer) = listener.accept()?;
//! while let Some(chunk) = stream.read_chunk()? {
//!     (&stream).write_all(&chunk)?;
//! }
//! # Ok(()) }
//! ```
//! Several threads may use each handle. Calls block unless the handle was made non-blocking; [`Poller`] waits for many,
//! and every operation has a `Future` that needs no particular runtime ([`future`]). Received bytes can be read in
//! place ([`Stream::read_chunk`]), and bytes to send written in place ([`Stream::reserve`]).
//!
//! Errors are those of Linux's socket calls, as `io::Error` with the errno; when the service dies, every connection
//! fails with ECONNRESET. Does not do: destinations that no interface of Ringway reaches (ENETUNREACH), loopback (the
//! kernel's), handles that survive fork.

mod control;
mod datagram;
pub mod future;
#[cfg(feature = "futures-io")]
mod io;
mod listener;
mod poller;
mod session;
mod stream;
mod wait;

pub use datagram::UdpSocket;
pub use listener::Listener;
pub use poller::{Event, Interest, Poller, Source};
pub use ringway_channel::{Envelope, Readiness, SocketOption};
pub use ringway_shm::stats::InfoRecord;
pub use session::Session;
pub use stream::{Chunk, Held, HeldRoom, Room, Stream};

#[cfg(test)]
mod tests;
