//! The measured server on the kernel's stack: one thread, edge-triggered epoll, through libc.
//!
//! Under `ringway run` the same program is the `preload` target. Promises: a client that breaks the
//! rules loses only its connection; temporary errors of accept(2) are ignored. Does not do: more than
//! one thread; a second server on the same port is another process.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use mio::event::Event;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use socket2::{Domain, Protocol, Socket, Type};

use super::exchange::Responder;
use super::tuning::Tuning;
use super::work::Work;

/// Events per wait.
const EVENTS: usize = 1024;
/// Bytes per read, and largest piece copied for a write.
const READ_BYTES: usize = 256 << 10;
const SCRATCH_BYTES: usize = 8 << 10;
const BACKLOG: i32 = 4096;
const LISTENER: Token = Token(usize::MAX);

/// The server.
pub struct KernelServer {
    poll: Poll,
    listener: TcpListener,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    buffer: Vec<u8>,
    scratch: Vec<u8>,
    /// Polls for events without sleeping.
    spins: bool,
    /// CPU time that a request costs the application.
    work: Work,
}

struct Connection {
    stream: TcpStream,
    responder: Responder,
}

impl KernelServer {
    /// Listens with SO_REUSEADDR and SO_REUSEPORT.
    ///
    /// # Errors
    /// The address is in use or not local.
    pub fn listen(address: SocketAddr, spins: bool, work: Work, tuning: &Tuning) -> io::Result<KernelServer> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.set_reuse_port(true)?;
        socket.set_nonblocking(true)?;
        // Accepted connections inherit the options.
        tuning.apply(&socket)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        let mut listener = TcpListener::from_std(socket.into());
        let poll = Poll::new()?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let (buffer, scratch) = (vec![0; READ_BYTES], vec![0; SCRATCH_BYTES]);
        Ok(KernelServer { poll, listener, connections: Vec::new(), free: Vec::new(), buffer, scratch, spins, work })
    }

    /// Serves until an error.
    ///
    /// # Errors
    /// The system refuses to wait or to accept.
    ///
    /// # Blocking
    /// Until an error.
    pub fn serve(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        let patience = self.spins.then_some(Duration::ZERO);
        loop {
            match self.poll.poll(&mut events, patience) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                other => other?,
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.accept()?,
                    Token(index) => self.turn(index, event),
                }
            }
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            let mut stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => continue,
                Err(error) => return Err(error),
            };
            // Fails on a closed connection; its next read reports that.
            stream.set_nodelay(true).unwrap_or_default();
            let index = self.free.pop().unwrap_or_else(|| {
                self.connections.push(None);
                self.connections.len() - 1
            });
            self.poll.registry().register(&mut stream, Token(index), Interest::READABLE | Interest::WRITABLE)?;
            self.connections[index] = Some(Connection { stream, responder: Responder::default() });
        }
    }

    fn turn(&mut self, index: usize, event: &Event) {
        let Some(Some(connection)) = self.connections.get_mut(index) else { return };
        let ends = event.is_read_closed() || event.is_error();
        let before = connection.responder.answered();
        let mut alive = !event.is_readable() && !ends || connection.read(&mut self.buffer, ends);
        self.work.on(connection.responder.answered() - before);
        alive = alive && connection.write(&mut self.scratch);
        if !alive {
            self.connections[index] = None;
            self.free.push(index);
        }
    }
}

impl Connection {
    /// Reads all available bytes; returns false at the end of the connection.
    fn read(&mut self, buffer: &mut [u8], to_the_end: bool) -> bool {
        loop {
            match self.stream.read(buffer) {
                Ok(0) => return false,
                Ok(count) => {
                    if self.responder.receive(&buffer[..count]).is_err() {
                        return false;
                    }
                    // Bytes that arrive after a short read cause another event (epoll(7)).
                    if count < buffer.len() && !to_the_end {
                        return true;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
    }

    /// Sends all bytes that fit; returns false when the connection has failed.
    fn write(&mut self, scratch: &mut [u8]) -> bool {
        self.responder.outbox().is_none_or(|outbox| send(&mut self.stream, outbox, scratch).is_ok())
    }
}

/// Writes as much of `outbox` to a socket as it accepts.
///
/// # Errors
/// The connection has failed.
pub(super) fn send(stream: &mut TcpStream, outbox: &mut super::message::Outbox, scratch: &mut [u8]) -> io::Result<()> {
    while !outbox.is_empty() {
        match stream.write(outbox.next(scratch)) {
            Ok(count) => outbox.advance(count),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
