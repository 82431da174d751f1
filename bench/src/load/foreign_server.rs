//! The measured server with another stack's interface: mTCP's contexts, or F-Stack's kqueue.
//!
//! The same requests, replies and turns as [`KernelServer`](super::kernel_server::KernelServer), edge-triggered as that. Promises: a client that breaks the
//! rules loses only its connection.

mod ffi;

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, SocketAddrV4};

pub(crate) use ffi::{Fstack, Mtcp};

use super::exchange::Responder;
use super::work::Work;

/// Bytes per read, and largest piece copied for a write.
const READ_BYTES: usize = 256 << 10;
const SCRATCH_BYTES: usize = 8 << 10;
const BACKLOG: i32 = 4096;

/// What a wait has told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// Connections wait.
    Listener,
    /// A connection can be read or written, or has ended.
    Connection { id: usize, is_readable: bool, has_ended: bool },
}

/// The calls of an interface. Sockets are its numbers, which are small.
pub(crate) trait Calls: Sized {
    /// Listens, and waits for connections from then on.
    ///
    /// # Errors
    /// Those of bind(2) and listen(2).
    fn listen(address: SocketAddrV4, backlog: i32) -> io::Result<Self>;
    /// Waits until something can be told, and writes it to `told`.
    ///
    /// # Errors
    /// Those of epoll_wait(2).
    fn wait(&mut self, told: &mut Vec<Told>) -> io::Result<()>;
    /// Accepts a connection without Nagle's algorithm, and tells of it from then on.
    ///
    /// # Errors
    /// Those of accept(2).
    fn accept(&mut self) -> io::Result<usize>;
    /// As read(2).
    ///
    /// # Errors
    /// The same.
    fn read(&mut self, id: usize, buffer: &mut [u8]) -> io::Result<usize>;
    /// As write(2).
    ///
    /// # Errors
    /// The same.
    fn write(&mut self, id: usize, bytes: &[u8]) -> io::Result<usize>;
    /// Closes a connection.
    fn close(&mut self, id: usize);
}

/// The server.
pub(crate) struct ForeignServer<C> {
    calls: C,
    /// By number.
    connections: Vec<Option<Responder>>,
    buffer: Vec<u8>,
    scratch: Vec<u8>,
    work: Work,
}

impl<C: Calls> ForeignServer<C> {
    /// Listens.
    ///
    /// # Errors
    /// The address is in use, not local, or not of IPv4.
    pub(crate) fn listen(address: SocketAddr, work: Work) -> io::Result<ForeignServer<C>> {
        let SocketAddr::V4(address) = address else {
            return Err(io::Error::new(ErrorKind::Unsupported, "these interfaces are measured over IPv4"));
        };
        let calls = C::listen(address, BACKLOG)?;
        let (buffer, scratch) = (vec![0; READ_BYTES], vec![0; SCRATCH_BYTES]);
        Ok(ForeignServer { calls, connections: Vec::new(), buffer, scratch, work })
    }

    /// Serves until an error.
    ///
    /// # Errors
    /// The interface refuses to wait or to accept.
    ///
    /// # Blocking
    /// Until an error.
    pub(crate) fn serve(&mut self) -> io::Result<()> {
        let mut told = Vec::new();
        loop {
            match self.calls.wait(&mut told) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                other => other?,
            }
            for told in told.drain(..) {
                match told {
                    Told::Listener => self.accept()?,
                    Told::Connection { id, is_readable, has_ended } => self.turn(id, is_readable, has_ended),
                }
            }
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            let id = match self.calls.accept() {
                Ok(id) => id,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => continue,
                Err(error) => return Err(error),
            };
            self.connections.resize_with(self.connections.len().max(id + 1), || None);
            self.connections[id] = Some(Responder::default());
        }
    }

    fn turn(&mut self, id: usize, is_readable: bool, has_ended: bool) {
        let Some(Some(responder)) = self.connections.get_mut(id) else { return };
        let before = responder.answered();
        let reads = !is_readable && !has_ended || read(&mut self.calls, (id, has_ended), responder, &mut self.buffer);
        self.work.on(responder.answered() - before);
        if !(reads && write(&mut self.calls, id, responder, &mut self.scratch)) {
            self.connections[id] = None;
            self.calls.close(id);
        }
    }
}

/// Reads all available bytes; returns false at the end of the connection.
fn read(calls: &mut impl Calls, (id, to_the_end): (usize, bool), responder: &mut Responder, buffer: &mut [u8]) -> bool {
    loop {
        match calls.read(id, buffer) {
            Ok(0) => return false,
            Ok(count) if responder.receive(&buffer[..count]).is_err() => return false,
            // Bytes that arrive after a short read cause another event.
            Ok(count) if count < buffer.len() && !to_the_end => return true,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
}

/// Sends all bytes that fit; returns false when the connection has failed.
fn write(calls: &mut impl Calls, id: usize, responder: &mut Responder, scratch: &mut [u8]) -> bool {
    let Some(outbox) = responder.outbox() else { return true };
    while !outbox.is_empty() {
        match calls.write(id, outbox.next(scratch)) {
            Ok(count) => outbox.advance(count),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
    true
}
