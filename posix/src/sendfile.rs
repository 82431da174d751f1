//! sendfile(2) and splice(2) with a socket of ours at one end: the kernel reads or writes the file, we carry the bytes.
//!
//! The bytes pass through a buffer of this call. What was read from the file and could not be queued is put back: a file
//! position is moved only by what was sent; a pipe cannot be put back, so as much as was taken from it is sent, waiting
//! if need be.

use crate::Posix;
use crate::errno::{Answer, Errno};
use crate::fallback::Fd;
use crate::fd_table::SocketRef;
use crate::stream::{Receive, Send};
use std::cell::RefCell;
use std::io::{IoSlice, IoSliceMut};

impl Posix {
    /// sendfile(2) to a socket of ours. `offset`: where to read (and what to advance) instead of the file position.
    ///
    /// # Blocking
    /// As `send`.
    pub fn sendfile(&self, socket: SocketRef, input: Fd, offset: Option<&mut i64>, count: usize) -> Answer<usize> {
        let mut position = match &offset {
            Some(offset) => **offset,
            // fs/splice.c, splice_direct_to_actor: a pipe or socket cannot be read again.
            None => self.kernel.seek_by(input, 0).map_err(|error| if error == Errno::SPIPE { Errno::INVAL } else { error })?,
        };
        if count == 0 {
            // The descriptor is checked all the same.
            return self.kernel.read_at(input, &mut [], position);
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
        let nonblocking = channel.nonblocking(socket);
        with_buffer(BUFFER.min(count), |buffer| self.carry(socket, input, position, count, nonblocking, buffer))
    }

    fn carry(
        &self,
        socket: SocketRef,
        input: Fd,
        position: &mut i64,
        count: usize,
        nonblocking: bool,
        buffer: &mut [u8],
    ) -> Answer<usize> {
        let channel = self.attached().ok_or(Errno::NOTCONN)?;
        let mut done = 0;
        while done < count {
            let mut want = buffer.len().min(count - done);
            if nonblocking {
                // What finds no room now would be read in vain.
                let room = channel.view(socket).map_or(0, |view| view.writable);
                if room == 0 {
                    return if done > 0 { Ok(done) } else { self.why_not_writable(socket) };
                }
                want = want.min(room);
            }
            let read = match self.kernel.read_at(input, &mut buffer[..want], *position) {
                Ok(0) => break,
                Ok(read) => read,
                // A directory, say: nothing that can be spliced.
                Err(error) if done == 0 => return Err(if error == Errno::ISDIR { Errno::INVAL } else { error }),
                Err(_) => break,
            };
            match self.send(socket, &[IoSlice::new(&buffer[..read])], Send::default()) {
                Ok(sent) => {
                    done += sent;
                    *position += sent as i64;
                    if sent < read {
                        break;
                    }
                }
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(done)
    }

    /// What send(2) says of a socket without room: an error that it has, or EAGAIN.
    fn why_not_writable(&self, socket: SocketRef) -> Answer<usize> {
        self.send(socket, &[IoSlice::new(&[])], Send::default()).and(Err(Errno::AGAIN))
    }

    /// splice(2) from a pipe to a socket of ours.
    pub fn splice_out(&self, socket: SocketRef, pipe: Fd, count: usize, dont_wait: bool) -> Answer<usize> {
        let room = self.attached().and_then(|channel| channel.view(socket)).ok_or(Errno::NOTCONN)?.writable;
        let nonblocking = dont_wait || self.attached().is_some_and(|channel| channel.nonblocking(socket));
        if nonblocking && room == 0 {
            return Err(Errno::AGAIN);
        }
        let take = if nonblocking { room.min(BUFFER) } else { BUFFER }.min(count);
        let mut buffer = vec![0; take];
        let read = self.kernel.read(pipe, &mut [IoSliceMut::new(&mut buffer)])?;
        let mut done = 0;
        while done < read {
            match self.send(socket, &[IoSlice::new(&buffer[done..read])], Send::default()) {
                Ok(sent) => done += sent,
                Err(Errno::AGAIN | Errno::INTR) => self.kernel.pause(ringway_shm::Duration::from_micros(50)),
                Err(error) => return if done > 0 { Ok(done) } else { Err(error) },
            }
        }
        Ok(done)
    }

    /// splice(2) from a socket of ours to a pipe.
    pub fn splice_in(&self, socket: SocketRef, pipe: Fd, count: usize, dont_wait: bool) -> Answer<usize> {
        let mut buffer = vec![0; PIPE_ATOMIC.min(count)];
        let peek = Receive { peek: true, dont_wait, ..Receive::default() };
        let there = self.receive(socket, &mut [IoSliceMut::new(&mut buffer)], peek)?;
        if there == 0 {
            return Ok(0);
        }
        let written = self.kernel.write(pipe, &[IoSlice::new(&buffer[..there])])?;
        self.receive(socket, &mut [IoSliceMut::new(&mut buffer[..written])], Receive { dont_wait: true, ..Receive::default() })
    }
}

/// Lends the thread's buffer, cut to `len`: a fresh one would be page faults for every call.
fn with_buffer<T>(len: usize, act: impl FnOnce(&mut [u8]) -> T) -> T {
    thread_local! {
        static KEPT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    // A signal handler that interrupted this very function, or a thread at its end, gets a buffer of its own.
    let mut buffer = KEPT.try_with(RefCell::take).unwrap_or_default();
    if buffer.len() < len {
        buffer.resize(len, 0);
    }
    let answer = act(&mut buffer[..len]);
    // Where there is no thread storage any more, the buffer just goes.
    KEPT.try_with(|kept| kept.replace(buffer)).ok();
    answer
}

/// How much one round carries.
const BUFFER: usize = 128 * 1024;
/// What a pipe takes whole or not at all (PIPE_BUF).
const PIPE_ATOMIC: usize = 4096;
/// Linux moves at most this much in one call (MAX_RW_COUNT).
const COUNT_MAX: usize = 0x7fff_f000;

#[cfg(test)]
mod tests;
