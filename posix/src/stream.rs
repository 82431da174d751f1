//! Bytes in and out: the common code of all forms of read, recv, write and send.

use crate::Posix;
use crate::blocking::Wait;
use crate::channel::{Channel, Failure, SocketOption, State, Taking, TransferError, UrgentError};
use crate::descriptions::Flag;
use crate::errno::{Answer, Errno};
use crate::fd_table::SocketRef;
use crate::options::receive_low_water;
use std::io::{IoSlice, IoSliceMut};
use std::sync::atomic::Ordering;

/// Writes of at least this many bytes are large.
const LARGE_WRITE: usize = 32 << 10;
/// With this many unsent bytes it pays to let the worker send before more is written (measured:
/// docs/lab/2026-11-23-bulk-portions.md).
const FAR_AHEAD: usize = 128 << 10;

/// Options of a receive. `Receive::default()` is read(2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Receive {
    /// MSG_PEEK: delivered bytes stay in the queue.
    pub peek: bool,
    /// MSG_DONTWAIT.
    pub dont_wait: bool,
    /// MSG_WAITALL: return short only at the end, on an error or a signal.
    pub wait_all: bool,
    /// MSG_TRUNC: the bytes are discarded instead of copied.
    pub discard: bool,
    /// MSG_OOB.
    pub urgent: bool,
    /// MSG_ERRQUEUE.
    pub error_queue: bool,
    /// recv and its relatives check the queue even for zero bytes; read and readv do not.
    pub looks_always: bool,
}

impl Receive {
    /// Translates recv(2)'s flags; unknown ones are ignored, as the kernel does.
    pub fn from_flags(flags: i32) -> Receive {
        Receive {
            peek: flags & libc::MSG_PEEK != 0,
            dont_wait: flags & libc::MSG_DONTWAIT != 0,
            wait_all: flags & libc::MSG_WAITALL != 0,
            discard: flags & libc::MSG_TRUNC != 0,
            urgent: flags & libc::MSG_OOB != 0,
            error_queue: flags & libc::MSG_ERRQUEUE != 0,
            looks_always: true,
        }
    }
}

/// Options of a send. `Send::default()` is write(2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Send {
    /// MSG_DONTWAIT.
    pub dont_wait: bool,
    /// MSG_NOSIGNAL: a broken pipe is only an error.
    pub no_signal: bool,
    /// MSG_OOB.
    pub urgent: bool,
    /// MSG_MORE: more follows, a partial segment may wait for it.
    pub more: bool,
}

impl Send {
    /// Translates send(2)'s flags; unknown ones are ignored, as the kernel does.
    pub fn from_flags(flags: i32) -> Send {
        Send {
            dont_wait: flags & libc::MSG_DONTWAIT != 0,
            no_signal: flags & libc::MSG_NOSIGNAL != 0,
            urgent: flags & libc::MSG_OOB != 0,
            more: flags & libc::MSG_MORE != 0,
        }
    }
}

/// A call that reads: where the bytes go, and how far it is.
struct Reading<'a, 'b> {
    pieces: &'a mut [IoSliceMut<'b>],
    wanted: usize,
    /// Bytes delivered so far.
    done: usize,
    how: Receive,
}

/// A call that writes, and how far it is.
struct Writing<'a> {
    pieces: &'a [IoSlice<'a>],
    wanted: usize,
    /// Bytes queued so far.
    done: usize,
    is_urgent: bool,
}

impl Posix {
    /// Receives into `pieces`; 0 = end of stream (or zero bytes requested).
    ///
    /// # Blocking
    /// Until there is data, unless the socket or the call is non-blocking.
    pub fn receive(&self, socket: SocketRef, pieces: &mut [IoSliceMut<'_>], how: Receive) -> Answer<usize> {
        let wanted = pieces.iter().map(|piece| piece.len()).sum();
        if wanted == 0 && how.looks_always && !how.urgent {
            // net/ipv4/tcp.c, tcp_recvmsg: waits for a byte, which it then cannot copy.
            let look = Receive { peek: true, wait_all: false, discard: false, ..how };
            return self.receive_up_to(socket, &mut [IoSliceMut::new(&mut [0])], 1, look).map(|_| 0);
        }
        self.receive_up_to(socket, pieces, wanted, how)
    }

    /// Discards `wanted` bytes, or with `peek` only counts them (MSG_TRUNC).
    ///
    /// # Blocking
    /// Like `receive`.
    pub fn discard(&self, socket: SocketRef, wanted: usize, how: Receive) -> Answer<usize> {
        if wanted == 0 {
            return self.receive(socket, &mut [], how);
        }
        self.receive_up_to(socket, &mut [], wanted, Receive { discard: true, ..how })
    }

    fn receive_up_to(&self, socket: SocketRef, pieces: &mut [IoSliceMut<'_>], wanted: usize, how: Receive) -> Answer<usize> {
        if how.error_queue {
            return Err(Errno::AGAIN);
        }
        if how.urgent {
            return self.receive_urgent(socket, pieces, how);
        }
        let channel = self.attached().ok_or(Errno::NOTCONN)?;
        if wanted == 0 {
            return Ok(0);
        }
        let mut reading = Reading { pieces, wanted, done: 0, how };
        match self.try_receive(channel, socket, &mut reading) {
            Some(answer) => return answer,
            None if how.dont_wait || channel.nonblocking(socket) => {
                return if reading.done > 0 { Ok(reading.done) } else { Err(Errno::AGAIN) };
            }
            None => {}
        }
        let deadline = self.deadline_after(self.descriptions.of(socket).receive_timeout.load(Ordering::Acquire));
        let wait = Wait { socket, shadow: None, deadline };
        let answer = self.block_on(wait, || self.try_receive(channel, socket, &mut reading));
        if reading.done > 0 { Ok(reading.done) } else { answer }
    }

    /// Checks the queue once. `None`: not enough data yet.
    fn try_receive(&self, channel: &dyn Channel, socket: SocketRef, reading: &mut Reading<'_, '_>) -> Option<Answer<usize>> {
        let how = reading.how;
        // net/core/sock.h, sock_rcvlowat.
        let low_water = receive_low_water(self.descriptions.of(socket));
        let target = if how.wait_all { reading.wanted } else { low_water.min(reading.wanted) };
        loop {
            // A peek begins at the front of the queue each time; a take goes on at its last position.
            let from = if how.peek { 0 } else { reading.done };
            let done = reading.done;
            match receive_once(channel, socket, reading, from) {
                Ok(0) if done > 0 => return Some(Ok(done)),
                // net/ipv4/tcp.c, tcp_disconnect: the failed attempt leaves nothing behind.
                Ok(0) if self.descriptions.of(socket).is(Flag::CONNECT_FAILED) => return Some(Err(Errno::NOTCONN)),
                Ok(0) => return Some(Ok(0)),
                Ok(count) => reading.done = from + count,
                Err(TransferError::WouldBlock | TransferError::NotConnected) if self.has_moved(channel, socket) => {
                    return Some(if done > 0 && !how.peek { Ok(done) } else { Err(Errno::MOVED) });
                }
                Err(TransferError::WouldBlock) if self.descriptions.of(socket).is(Flag::READ_SHUT) => return Some(Ok(done)),
                Err(TransferError::WouldBlock) if done >= target => return Some(Ok(done)),
                Err(TransferError::WouldBlock) => return None,
                Err(_) if done > 0 => return Some(Ok(done)),
                Err(TransferError::Failed(Failure::ServiceGone)) => {
                    let told = self.descriptions.of(socket).mark(Flag::DEATH_REPORTED);
                    return Some(if told { Ok(0) } else { Err(Errno::CONNRESET) });
                }
                Err(error) => return Some(Err(self.transfer_error(socket, error))),
            }
            if reading.done >= target || is_at_mark(channel, socket) {
                return Some(Ok(reading.done));
            }
            if how.peek {
                return None;
            }
        }
    }

    /// net/ipv4/tcp.c, tcp_recv_urg: never waits.
    fn receive_urgent(&self, socket: SocketRef, pieces: &mut [IoSliceMut<'_>], how: Receive) -> Answer<usize> {
        let channel = self.attached().ok_or(Errno::NOTCONN)?;
        if channel.view(socket).is_some_and(|view| view.state == State::Listening) {
            return Err(Errno::NOTCONN);
        }
        let taking = if how.peek { Taking::Peek } else { Taking::Take };
        let byte = match channel.receive_urgent(socket, taking) {
            Ok(Some(byte)) => byte,
            Ok(None) => return Ok(0),
            Err(_) if self.has_moved(channel, socket) => return Err(Errno::MOVED),
            Err(UrgentError::Nothing) => return Err(Errno::INVAL),
            Err(UrgentError::WouldBlock) => return Err(Errno::AGAIN),
            Err(UrgentError::NotConnected) => return Err(Errno::NOTCONN),
        };
        let room = pieces.iter_mut().find_map(|piece| piece.first_mut());
        Ok(match room {
            Some(place) => {
                *place = byte;
                1
            }
            None => usize::from(how.discard),
        })
    }

    /// Sends `pieces`; returns the number of bytes queued. A broken pipe also raises SIGPIPE unless `how` forbids it.
    ///
    /// # Blocking
    /// Until all is queued, unless the socket or the call is non-blocking.
    pub fn send(&self, socket: SocketRef, pieces: &[IoSlice<'_>], how: Send) -> Answer<usize> {
        self.hold_if_more(socket, how.more);
        let answer = self.send_bytes(socket, pieces, how);
        if !how.more {
            self.release_if_held(socket);
        }
        if answer == Err(Errno::PIPE) && !how.no_signal {
            self.kernel.raise_broken_pipe();
        }
        answer
    }

    /// MSG_MORE holds a partial segment until the next send without it, or the peer's next packet: the stack must hear
    /// of each send (net/ipv4/tcp.c, tcp_push).
    fn hold_if_more(&self, socket: SocketRef, more: bool) {
        if more && let Some(channel) = self.attached() {
            self.descriptions.of(socket).mark(Flag::MORE_COMES);
            channel.set_option(socket, SocketOption::More, 1);
        }
    }

    /// Releases held bytes at the first send without MSG_MORE.
    pub(crate) fn release_if_held(&self, socket: SocketRef) {
        let description = self.descriptions.of(socket);
        if description.is(Flag::MORE_COMES)
            && let Some(channel) = self.attached()
        {
            description.unmark(Flag::MORE_COMES);
            channel.set_option(socket, SocketOption::More, 0);
        }
    }

    fn send_bytes(&self, socket: SocketRef, pieces: &[IoSlice<'_>], how: Send) -> Answer<usize> {
        let channel = self.attached().ok_or(Errno::NOTCONN)?;
        let description = self.descriptions.of(socket);
        let wanted = pieces.iter().map(|piece| piece.len()).sum();
        let mut writing = Writing { pieces, wanted, done: 0, is_urgent: how.urgent };
        let sent = self.try_send(channel, socket, &mut writing);
        let is_first = writing.done > 0 && description.is(Flag::OPENS_WITH_DATA);
        if is_first {
            description.unmark(Flag::OPENS_WITH_DATA);
        }
        match sent {
            Some(answer) if !is_first => return answer,
            _ if how.dont_wait || channel.nonblocking(socket) => {
                return if writing.done > 0 { Ok(writing.done) } else { Err(Errno::AGAIN) };
            }
            _ => {}
        }
        let deadline = self.deadline_after(description.send_timeout.load(Ordering::Acquire));
        let wait = Wait { socket, shadow: None, deadline };
        let answer = match sent {
            Some(answer) => answer,
            None => self.block_on(wait, || self.try_send(channel, socket, &mut writing)),
        };
        if is_first {
            self.await_handshake(channel, socket, wait)?;
        }
        if writing.done > 0 { Ok(writing.done) } else { answer }
    }

    /// Waits, after the write whose first bytes go with the SYN, until the handshake is over (RFC 7413 §4.2.1; net/ipv4/tcp.c,
    /// tcp_sendmsg_fastopen). Time that runs out is no failure.
    fn await_handshake(&self, channel: &dyn Channel, socket: SocketRef, wait: Wait) -> Answer<()> {
        let answer = self.block_on(wait, || {
            let view = channel.view(socket)?;
            (!view.is_opening || view.hung_up || view.failure.is_some()).then_some(Ok(()))
        });
        match (answer, self.take_failure(socket)) {
            (_, Some(failure)) => Err(failure),
            (Err(Errno::AGAIN | Errno::MOVED), None) => Ok(()),
            (answer, None) => answer,
        }
    }

    fn try_send(&self, channel: &dyn Channel, socket: SocketRef, writing: &mut Writing<'_>) -> Option<Answer<usize>> {
        let Writing { pieces, wanted, ref mut done, is_urgent } = *writing;
        if self.descriptions.of(socket).is(Flag::WRITE_SHUT) {
            return Some(if *done > 0 { Ok(*done) } else { Err(self.why_shut(socket)) });
        }
        let sent = match *done {
            done if is_urgent => channel.send_urgent(socket, &rest_of(pieces, done)),
            0 => channel.send(socket, pieces),
            done => channel.send(socket, &rest_of(pieces, done)),
        };
        match sent {
            Ok(count) => {
                *done += count;
                self.yield_after_write(channel, socket, count);
            }
            Err(TransferError::WouldBlock | TransferError::NotConnected) if self.has_moved(channel, socket) => {
                return Some(if *done > 0 { Ok(*done) } else { Err(Errno::MOVED) });
            }
            // net/ipv4/tcp.c, tcp_sendmsg_locked: a write of nothing waits for the handshake too.
            Err(TransferError::WouldBlock) if wanted == 0 && is_connecting(channel, socket) => return None,
            Err(TransferError::WouldBlock) => {}
            Err(_) if *done > 0 => return Some(Ok(*done)),
            Err(error) => return Some(Err(self.send_error(socket, error))),
        }
        (*done >= wanted).then_some(Ok(*done))
    }

    /// Errno of writing to a socket after its write side was shut: an unreported failure comes first
    /// (net/core/stream.c, sk_stream_error).
    pub(crate) fn why_shut(&self, socket: SocketRef) -> Errno {
        self.take_failure(socket).unwrap_or(Errno::PIPE)
    }

    /// Reason why nothing could be written.
    pub(crate) fn send_error(&self, socket: SocketRef, error: TransferError) -> Errno {
        match error {
            // net/core/stream.c, sk_stream_wait_connect: neither connected nor connecting.
            TransferError::NotConnected => Errno::PIPE,
            error => self.transfer_error(socket, error),
        }
    }

    /// Yields after a large write of `count` bytes that is far ahead of the stack, so that a worker on the same
    /// processor sends while the cache still has the data. Not while other sockets have events: a program that writes
    /// while there is space would handle them late.
    pub(crate) fn yield_after_write(&self, channel: &dyn Channel, socket: SocketRef, count: usize) {
        if count >= LARGE_WRITE && channel.unacknowledged(socket) >= FAR_AHEAD && !self.epoll_has_news(channel) {
            self.writers_yield_policy.give_way_once(&*self.kernel, channel.spin_limit());
        }
    }

    /// net/core/stream.c, sk_stream_error: the pending failure, else a broken pipe.
    fn transfer_error(&self, socket: SocketRef, error: TransferError) -> Errno {
        match error {
            TransferError::WouldBlock => Errno::AGAIN,
            TransferError::Closed => Errno::PIPE,
            TransferError::NotConnected => Errno::NOTCONN,
            // Reported once, as a reset is; after that writing is a broken pipe.
            TransferError::Failed(Failure::ServiceGone) if self.descriptions.of(socket).mark(Flag::DEATH_REPORTED) => Errno::PIPE,
            TransferError::Failed(failure) => Errno::from(failure),
        }
    }
}

/// Receives what the queue has, behind the `from` bytes that were delivered before.
fn receive_once(
    channel: &dyn Channel,
    socket: SocketRef,
    reading: &mut Reading<'_, '_>,
    from: usize,
) -> Result<usize, TransferError> {
    let Reading { wanted, how, .. } = *reading;
    let taking = if how.peek { Taking::Peek } else { Taking::Take };
    if how.discard {
        return match taking {
            Taking::Take => channel.discard(socket, wanted - from),
            Taking::Peek => channel.view(socket).map_or(Err(TransferError::NotConnected), |view| match view.readable {
                0 => Err(TransferError::WouldBlock),
                there => Ok(there.min(wanted).min(view.urgent.map_or(there, |urgent| urgent.distance.max(1)))),
            }),
        };
    }
    if from == 0 {
        return channel.receive(socket, reading.pieces, taking);
    }
    let mut rest = Vec::with_capacity(reading.pieces.len());
    let mut skip = from;
    for piece in reading.pieces.iter_mut() {
        let start = skip.min(piece.len());
        skip -= start;
        rest.push(IoSliceMut::new(&mut piece[start..]));
    }
    channel.receive(socket, &mut rest, taking)
}

fn is_connecting(channel: &dyn Channel, socket: SocketRef) -> bool {
    channel.view(socket).is_some_and(|view| view.state == State::Connecting)
}

/// Returns true at the urgent mark: earlier bytes that were read are returned first.
fn is_at_mark(channel: &dyn Channel, socket: SocketRef) -> bool {
    channel.view(socket).and_then(|view| view.urgent).is_some_and(|urgent| urgent.distance == 0)
}

/// The pieces without their first `skip` bytes.
fn rest_of<'a>(pieces: &'a [IoSlice<'_>], mut skip: usize) -> Vec<IoSlice<'a>> {
    let mut rest = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let start = skip.min(piece.len());
        skip -= start;
        if start < piece.len() {
            rest.push(IoSlice::new(&piece[start..]));
        }
    }
    rest
}

#[cfg(test)]
mod tests;
