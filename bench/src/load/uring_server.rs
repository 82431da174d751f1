//! The measured server on the kernel's stack with io_uring, which saves system calls: one thread.
//!
//! A multishot accept and a multishot receive per connection complete repeatedly, into buffers that the kernel chooses;
//! requests to send replies are submitted together with the wait for completions, so an iteration is one system call.
//! Promises: a client that breaks the rules loses only its connection. Does not do: more than one thread; where io_uring is
//! forbidden, `listen` fails.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::Shutdown;
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::exchange::Responder;
use super::tuning::Tuning;
use super::work::Work;

mod sys;

use sys::{Completion, Kind, Ring};

const BACKLOG: i32 = 4096;
/// Bytes copied for one send.
const COPY_BYTES: usize = 8 << 10;

/// The server.
pub struct UringServer {
    ring: Ring,
    listener: Socket,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    /// CPU time that a request costs the application.
    work: Work,
}

struct Connection {
    socket: OwnedFd,
    responder: Responder,
    /// The kernel has a receive request of this connection.
    is_receiving: bool,
    /// The kernel has a send request of this connection.
    is_sending: bool,
    /// The connection is shut down, and freed when the kernel has neither.
    is_ending: bool,
}

impl UringServer {
    /// Listens with SO_REUSEADDR and SO_REUSEPORT.
    ///
    /// # Errors
    /// The address is in use or not local; the system has no io_uring or forbids it.
    pub fn listen(address: SocketAddr, work: Work, tuning: &Tuning) -> io::Result<UringServer> {
        let ring = Ring::new().map_err(|error| io::Error::new(error.kind(), format!("io_uring: {error}")))?;
        let listener = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        listener.set_reuse_address(true)?;
        listener.set_reuse_port(true)?;
        tuning.apply(&listener)?;
        listener.bind(&address.into())?;
        listener.listen(BACKLOG)?;
        Ok(UringServer { ring, listener, connections: Vec::new(), free: Vec::new(), work })
    }

    /// Serves until an error.
    ///
    /// # Errors
    /// The system refuses to wait or to accept.
    ///
    /// # Blocking
    /// Until an error.
    pub fn serve(&mut self) -> io::Result<()> {
        let mut completions = Vec::new();
        self.ring.accept(self.listener.as_fd())?;
        loop {
            self.ring.wait(&mut completions)?;
            for completion in completions.drain(..) {
                match completion.kind {
                    Kind::Accept => self.accepted(completion)?,
                    Kind::Receive => self.received(completion)?,
                    Kind::Send => self.sent(completion)?,
                }
            }
        }
    }

    fn accepted(&mut self, completion: Completion) -> io::Result<()> {
        if !completion.goes_on {
            self.ring.accept(self.listener.as_fd())?;
        }
        let socket = match self.ring.accepted(completion) {
            Ok(socket) => socket,
            Err(Errno::CONNABORTED | Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        // Fails on a closed connection; its next receive reports that.
        SockRef::from(&socket).set_tcp_nodelay(true).unwrap_or_default();
        let index = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        self.ring.receive(socket.as_fd(), index)?;
        let responder = Responder::default();
        self.connections[index] = Some(Connection { socket, responder, is_receiving: true, is_sending: false, is_ending: false });
        Ok(())
    }

    fn received(&mut self, completion: Completion) -> io::Result<()> {
        let index = completion.index;
        let Some(connection) = &mut self.connections[index] else { return Ok(()) };
        connection.is_receiving = completion.goes_on;
        let before = connection.responder.answered();
        let is_well = match self.ring.bytes(&completion) {
            // The end of the stream.
            Ok([]) => false,
            Ok(bytes) => connection.responder.receive(bytes).is_ok(),
            // All buffers were full: request it again below.
            Err(Errno::NOBUFS) => true,
            Err(_) => false,
        };
        self.ring.release(completion);
        self.work.on(connection.responder.answered() - before);
        if !is_well {
            connection.end();
        } else if !connection.is_receiving && !connection.is_ending {
            self.ring.receive(connection.socket.as_fd(), index)?;
            connection.is_receiving = true;
        }
        self.go_on(index)
    }

    fn sent(&mut self, completion: Completion) -> io::Result<()> {
        let Some(connection) = &mut self.connections[completion.index] else { return Ok(()) };
        connection.is_sending = false;
        if !completion.is_whole {
            connection.end();
        }
        self.go_on(completion.index)
    }

    /// Sends the outbox, or frees a connection that is ending and has no request in the kernel.
    fn go_on(&mut self, index: usize) -> io::Result<()> {
        let Some(connection) = &mut self.connections[index] else { return Ok(()) };
        if connection.is_sending {
            return Ok(());
        }
        if connection.is_ending {
            if !connection.is_receiving {
                self.connections[index] = None;
                self.free.push(index);
            }
            return Ok(());
        }
        let Some(outbox) = connection.responder.outbox() else { return Ok(()) };
        let count = match outbox.next_static() {
            Some(bytes) => self.ring.send_static(connection.socket.as_fd(), index, bytes)?,
            None => {
                let fill = |buffer: &mut Vec<u8>| {
                    buffer.resize(outbox.len().min(COPY_BYTES), 0);
                    outbox.copy_to(buffer);
                };
                self.ring.send_copy(connection.socket.as_fd(), index, fill)?
            }
        };
        outbox.advance(count);
        connection.is_sending = true;
        Ok(())
    }
}

impl Connection {
    /// Shuts down both directions, so that the kernel completes its requests.
    fn end(&mut self) {
        self.is_ending = true;
        // Fails when the peer has ended the connection, which is fine.
        rustix::net::shutdown(&self.socket, Shutdown::Both).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests;
