//! sendfile(2) and splice(2) with a socket of ours at one end: the kernel reads or writes the file, we move the bytes.
//!
//! The bytes of a file are read into the chunks that are sent; bytes that could not be queued are read again, because
//! only sent bytes move the file position. A pipe cannot be read again, so its bytes pass through a buffer of this
//! call, and all bytes taken from it are sent, waiting if necessary.

use crate::Posix;
use crate::blocking::Wait;
use crate::channel::{Channel, TransferError};
use crate::descriptions::Flag;
use crate::errno::{Answer, Errno};
use crate::fallback::Fd;
use crate::fd_table::{Descriptor, SocketRef};
use crate::stream::{Receive, Send};
use ringway_shm::Duration;
use std::io::{IoSlice, IoSliceMut};
use std::sync::atomic::Ordering;

impl Posix {
    /// sendfile(2) to a socket of ours. `offset`: start, advanced by the call, instead of the file position.
    ///
    /// # Blocking
    /// Like `send`.
    pub fn sendfile(&self, socket: SocketRef, input: Fd, offset: Option<&mut i64>, count: usize) -> Answer<usize> {
        let mut position = match &offset {
            Some(offset) => **offset,
            // fs/splice.c, splice_direct_to_actor: a pipe or socket cannot be read again.
            None => self.kernel.seek_by(input, 0).map_err(|error| if error == Errno::SPIPE { Errno::INVAL } else { error })?,
        };
        if count == 0 {
            // The descriptor is checked even for zero bytes.
            return self.kernel.read_at(input, (&mut [][..]).into(), position);
        }
        let start = position;
        let answer = self.send_from_file(socket, input, &mut position, count.min(COUNT_MAX));
        match offset {
            Some(offset) => *offset = position,
            None => {
                self.kernel.seek_by(input, position - start)?;
            }
        }
        answer
    }

    fn send_from_file(&self, socket: SocketRef, input: Fd, position: &mut i64, count: usize) -> Answer<usize> {
        let channel = self.attached().ok_or(Errno::NOTCONN)?;
        let mut source = Source { input, start: *position, count, done: 0 };
        let mut answer = self.carry(channel, socket, &mut source);
        if answer.is_none() && !channel.nonblocking(socket) {
            let deadline = self.deadline_after(self.descriptions.of(socket).send_timeout.load(Ordering::Acquire));
            let wait = Wait { socket, shadow: None, deadline };
            answer = Some(self.block_on(wait, || self.carry(channel, socket, &mut source)));
        }
        self.release_if_held(socket);
        *position += source.done as i64;
        match answer.unwrap_or(Err(Errno::AGAIN)) {
            _ if source.done > 0 => Ok(source.done),
            Err(Errno::PIPE) => {
                self.kernel.raise_broken_pipe();
                Err(Errno::PIPE)
            }
            answer => answer,
        }
    }

    /// Moves as many bytes as there is space for. `None`: not all of them.
    fn carry(&self, channel: &dyn Channel, socket: SocketRef, source: &mut Source) -> Option<Answer<usize>> {
        if self.descriptions.of(socket).is(Flag::WRITE_SHUT) {
            return Some(Err(self.why_shut(socket)));
        }
        while source.done < source.count {
            let (mut end, mut at) = (None, source.start + source.done as i64);
            let sent = channel.send_in_place(socket, source.count - source.done, &mut |room| {
                let read = self.kernel.read_at(source.input, room, at);
                if matches!(read, Ok(0) | Err(_)) {
                    end = Some(read);
                }
                let count = read.unwrap_or(0);
                at += count as i64;
                count
            });
            match sent {
                Ok(count) => {
                    source.done += count;
                    self.yield_after_write(channel, socket, count);
                }
                Err(TransferError::WouldBlock | TransferError::NotConnected) if self.has_moved(channel, socket) => {
                    return Some(if source.done > 0 { Ok(source.done) } else { Err(Errno::MOVED) });
                }
                Err(TransferError::WouldBlock) => return None,
                Err(error) => return Some(Err(self.send_error(socket, error))),
            }
            match end {
                // A directory, for instance, cannot be spliced.
                Some(Err(Errno::ISDIR)) => return Some(Err(Errno::INVAL)),
                Some(answer) => return Some(answer),
                None => {}
            }
        }
        Some(Ok(source.done))
    }

    /// splice(2) from a pipe to a socket of ours.
    pub fn splice_out(&self, at: Descriptor, pipe: Fd, count: usize, dont_wait: bool) -> Answer<usize> {
        let socket = at.socket;
        let room = self.attached().and_then(|channel| channel.view(socket)).ok_or(Errno::NOTCONN)?.writable;
        if dont_wait && self.is_empty(pipe) {
            return Err(Errno::AGAIN);
        }
        let nonblocking = dont_wait || self.attached().is_some_and(|channel| channel.nonblocking(socket));
        if nonblocking && room == 0 {
            return Err(Errno::AGAIN);
        }
        let take = if nonblocking { room.min(BUFFER) } else { BUFFER }.min(count);
        let mut buffer = vec![0; take];
        let read = self.kernel.read(pipe, &mut [IoSliceMut::new(&mut buffer)])?;
        let mut done = 0;
        while done < read {
            let rest = [IoSlice::new(&buffer[done..read])];
            let sent = match self.send(socket, &rest, Send::default()) {
                answer if self.settled(at, answer).is_none() => self.kernel.write(at.fd, &rest),
                answer => answer,
            };
            match sent {
                Ok(sent) => done += sent,
                Err(Errno::AGAIN | Errno::INTR) => self.kernel.pause(Duration::from_micros(50)),
                Err(error) => return if done > 0 { Ok(done) } else { Err(error) },
            }
        }
        Ok(done)
    }

    /// Returns true for a pipe from which a read would wait.
    fn is_empty(&self, pipe: Fd) -> bool {
        let mut set = [libc::pollfd { fd: pipe, events: libc::POLLIN, revents: 0 }];
        self.kernel.poll(&mut set, Some(Duration::ZERO), None) == Ok(0)
    }

    /// splice(2) from a socket of ours to a pipe.
    pub fn splice_in(&self, at: Descriptor, pipe: Fd, count: usize, dont_wait: bool) -> Answer<usize> {
        let socket = at.socket;
        let mut buffer = vec![0; PIPE_ATOMIC.min(count)];
        let peek = Receive { peek: true, dont_wait, ..Receive::default() };
        let there = self.receive(socket, &mut [IoSliceMut::new(&mut buffer)], peek)?;
        if there == 0 {
            return Ok(0);
        }
        let written = self.kernel.write(pipe, &[IoSlice::new(&buffer[..there])])?;
        let again = Receive { dont_wait: true, ..Receive::default() };
        match self.receive(socket, &mut [IoSliceMut::new(&mut buffer[..written])], again) {
            answer if self.settled(at, answer).is_none() => {
                self.kernel.read(at.fd, &mut [IoSliceMut::new(&mut buffer[..written])])
            }
            answer => answer,
        }
    }
}

/// A part of a file in transfer.
struct Source {
    input: Fd,
    /// Start of the part.
    start: i64,
    count: usize,
    done: usize,
}

/// Bytes of a pipe that one call moves.
const BUFFER: usize = 128 * 1024;
/// Bytes that a pipe takes whole or not at all (PIPE_BUF).
const PIPE_ATOMIC: usize = 4096;
/// Linux moves at most this much in one call (MAX_RW_COUNT).
const COUNT_MAX: usize = 0x7fff_f000;

#[cfg(test)]
mod tests;
