//! The measured server with Ringway's native API through a channel, in another process than the worker.
//!
//! Requests and replies are the same as everywhere; both are read and written in place. Promises: a client that breaks the
//! rules loses only its connection; an idle server sleeps.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::Path;

use ringway::remote::{Interest, Listener, Poller, Session, Stream};

use super::exchange::Responder;
use super::work::Work;

const BACKLOG: u32 = 4096;
/// Largest reservation, bytes.
const ROOM_MAX: usize = 32 << 10;
const LISTENER: u64 = u64::MAX;

/// The server.
pub struct ChannelServer {
    session: Session,
    poller: Poller,
    listener: Listener,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    /// CPU time that a request costs the application.
    work: Work,
}

struct Connection {
    stream: Stream,
    responder: Responder,
    /// The poller also waits for send space.
    is_blocked: bool,
}

impl ChannelServer {
    /// Listens at the service named by `ringway run`'s environment.
    ///
    /// # Errors
    /// There is no service, or the address is not one of its addresses or is in use.
    pub fn listen(address: SocketAddr, work: Work) -> io::Result<ChannelServer> {
        let session = attach()?;
        let listener = session.listen(address, BACKLOG)?;
        listener.set_nonblocking(true);
        let poller = Poller::new(&session)?;
        poller.add(&listener, LISTENER, Interest::READABLE);
        Ok(ChannelServer { session, poller, listener, connections: Vec::new(), free: Vec::new(), work })
    }

    /// Serves until the service ends.
    ///
    /// # Errors
    /// The service has ended.
    ///
    /// # Blocking
    /// Until the service ends.
    pub fn serve(&mut self) -> io::Result<()> {
        let mut events = Vec::new();
        while self.session.is_alive() {
            self.poller.wait(&mut events, None)?;
            for event in &events {
                match event.token {
                    LISTENER => self.accept()?,
                    token => self.turn(token as usize),
                }
            }
        }
        Err(io::Error::other("the service has ended"))
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            stream.set_nonblocking(true);
            // Fails on a closed connection; its next read reports that.
            stream.set_nodelay(true).unwrap_or_default();
            let index = self.free.pop().unwrap_or_else(|| {
                self.connections.push(None);
                self.connections.len() - 1
            });
            self.poller.add(&stream, index as u64, Interest::READABLE);
            self.connections[index] = Some(Connection { stream, responder: Responder::default(), is_blocked: false });
        }
    }

    fn turn(&mut self, index: usize) {
        let Some(Some(connection)) = self.connections.get_mut(index) else { return };
        let before = connection.responder.answered();
        let reads = connection.read();
        self.work.on(connection.responder.answered() - before);
        let alive = reads && connection.write();
        let blocked = connection.responder.outbox().is_some();
        if !alive {
            self.poller.remove(&connection.stream);
            self.connections[index] = None;
            self.free.push(index);
        } else if blocked != connection.is_blocked {
            connection.is_blocked = blocked;
            let interest = if blocked { Interest::BOTH } else { Interest::READABLE };
            self.poller.add(&connection.stream, index as u64, interest);
        }
    }
}

/// Attaches as the program started by `ringway run`, to which its service is private.
fn attach() -> io::Result<Session> {
    let variable = |name: &str| {
        std::env::var(name).map_err(|_| io::Error::other(format!("{name} is not set: start this with `ringway run`")))
    };
    let (path, group) = (variable("RINGWAY_SOCKET")?, variable("RINGWAY_GROUP")?);
    let token = u128::from_str_radix(&group, 16).map_err(|_| io::Error::other("RINGWAY_GROUP is not a valid token"))?;
    Session::attach_as(Path::new(&path), token.to_be_bytes())
}

impl Connection {
    /// Reads all available bytes; returns false at the end of the connection.
    fn read(&mut self) -> bool {
        loop {
            match self.stream.read_chunk() {
                Ok(Some(chunk)) => {
                    if self.responder.receive(&chunk).is_err() {
                        return false;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Ok(None) | Err(_) => return false,
            }
        }
    }

    /// Sends all bytes that fit; returns false when the connection has failed.
    fn write(&mut self) -> bool {
        let Some(outbox) = self.responder.outbox() else { return true };
        while !outbox.is_empty() {
            let mut room = match self.stream.reserve(outbox.len().min(ROOM_MAX)) {
                Ok(room) => room,
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            };
            let count = outbox.copy_to(&mut room);
            match room.commit(count) {
                Ok(()) => outbox.advance(count),
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
        true
    }
}
