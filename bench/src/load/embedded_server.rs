//! The measured server with Ringway's native API: server and stack in one loop.
//!
//! Requests and replies are the same as everywhere. Requests are read in place, small replies are written into outgoing
//! frames, and the common content of large ones is sent without a copy. Promises: a client that breaks the rules loses only
//! its connection; an idle server sleeps.

use std::io;
use std::net::SocketAddr;

use ringway::{Content, Event, Net, ReadError, TcpListener, TcpListenerId, TcpStream, TcpStreamId, WriteError};

use super::exchange::Responder;
use super::message::{self, Outbox};
use super::tuning::{Tuning, add_timely};
use super::work::Work;

/// Largest number of connections waiting for accept.
const BACKLOG: u32 = 4096;

/// The server.
pub struct EmbeddedServer {
    net: Net,
    /// Events name it; it is kept open.
    _listener: TcpListener,
    /// Responders, by the number that the `Net` gives a connection.
    responders: Vec<Responder>,
    content: Content,
    /// CPU time that a request costs the application.
    work: Work,
}

impl EmbeddedServer {
    /// Listens on a stack that has its interfaces.
    ///
    /// # Errors
    /// The address is not the stack's or is in use.
    pub fn listen(mut net: Net, address: SocketAddr, work: Work, tuning: &Tuning) -> io::Result<EmbeddedServer> {
        let timely = add_timely(&mut net);
        let listener = TcpListener::bind_with(&mut net, address, BACKLOG, tuning.options(timely))
            .map_err(|error| io::Error::other(format!("{error:?}")))?;
        Ok(EmbeddedServer { net, _listener: listener, responders: Vec::new(), content: message::content(), work })
    }

    /// Serves until an error.
    ///
    /// # Errors
    /// The system refuses to wait.
    ///
    /// # Blocking
    /// Until an error.
    pub fn serve(&mut self) -> io::Result<()> {
        loop {
            while let Some(event) = self.net.next_event() {
                match event {
                    Event::Listener(listener) => self.accept(listener),
                    Event::Stream(stream, _) => self.turn(stream),
                    _ => {}
                }
            }
            self.net.wait()?;
        }
    }

    fn accept(&mut self, listener: TcpListenerId) {
        while let Ok(stream) = listener.accept(&mut self.net).map(TcpStream::into_id) {
            let index = stream.index();
            if self.responders.len() <= index {
                self.responders.resize_with(index + 1, Responder::default);
            }
            self.responders[index] = Responder::default();
            self.turn(stream);
        }
    }

    fn turn(&mut self, stream: TcpStreamId) {
        let Some(responder) = self.responders.get_mut(stream.index()) else { return };
        let before = responder.answered();
        let alive = read(&mut self.net, stream, |bytes| responder.receive(bytes).is_ok());
        self.work.on(responder.answered() - before);
        // A client that has shut down sending may still wait for replies: closing sends them first.
        let sent = responder.outbox().map_or(Ok(()), |outbox| send(&mut self.net, stream, outbox, &self.content));
        if !alive || sent.is_err() {
            self.responders[stream.index()] = Responder::default();
            stream.close(&mut self.net);
        }
    }
}

/// Reads all available bytes in place; returns false at the end of the connection, or when `take` returns false.
pub(super) fn read(net: &mut Net, stream: TcpStreamId, mut take: impl FnMut(&[u8]) -> bool) -> bool {
    loop {
        match stream.read_chunk(net) {
            Ok(Some(chunk)) => {
                let wanted = take(&chunk);
                stream.release(net, chunk);
                if !wanted {
                    return false;
                }
            }
            Err(ReadError::WouldBlock) => return true,
            Ok(None) | Err(_) => return false,
        }
    }
}

/// Writes as much of `outbox` as fits into outgoing frames.
///
/// # Errors
/// The connection has failed.
pub(super) fn send(net: &mut Net, stream: TcpStreamId, outbox: &mut Outbox, content: &Content) -> Result<(), WriteError> {
    while !outbox.is_empty() {
        if let Some(range) = outbox.next_in_content() {
            match stream.write_content(net, content, range) {
                Ok(count) => outbox.advance(count),
                Err(WriteError::WouldBlock) => return Ok(()),
                Err(error) => return Err(error),
            }
            continue;
        }
        let wanted = outbox.len().min(TcpStream::RESERVE_MAX);
        let mut room = match stream.reserve(net, wanted) {
            Ok(room) => room,
            Err(WriteError::WouldBlock) => return Ok(()),
            Err(error) => return Err(error),
        };
        let count = outbox.copy_to(&mut room);
        match stream.commit(net, room, count) {
            Ok(()) => outbox.advance(count),
            Err(rejected) if rejected.error == WriteError::WouldBlock => return Ok(()),
            Err(rejected) => return Err(rejected.error),
        }
    }
    Ok(())
}
