//! A TCP connection.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ringway_channel::{
    Lent, Loan, Operation, Readiness, ReceiveError, Reservation, Reserved, SendError, SlotRef, SocketOption, State,
};
use ringway_shm::Instant;
use ringway_shm::stats::InfoRecord;
use rustix::io::Errno;

use super::session::{Session, error_of, gone};
use super::wait::{deadline, lock};

/// A TCP connection. Dropping it closes it: written data is still sent, unless received bytes are unread, which resets
/// it as in the kernel.
///
/// ```
/// use ringway::remote::{SocketOption, Stream};
/// use std::io::{Read, Write};
///
/// fn ask(stream: &mut Stream, question: &[u8]) -> std::io::Result<String> {
///     stream.set_option(SocketOption::NoDelay, 1)?;
///     stream.write_all(question)?;
///     let mut answer = String::new();
///     stream.read_to_string(&mut answer)?;
///     Ok(answer)
/// }
/// ```
pub struct Stream {
    pub(super) session: Session,
    pub(super) slot: SlotRef,
    /// Bytes that are lent and not given back; the slot still counts them as unread.
    pub(super) lent: Arc<AtomicU32>,
    nonblocking: AtomicBool,
    timeouts: Mutex<Timeouts>,
}

#[derive(Clone, Copy, Default)]
struct Timeouts {
    read: Option<Duration>,
    write: Option<Duration>,
}

/// Received bytes, in place. Dropping it gives them back, and only then the window opens by as many.
///
/// ```
/// use ringway::remote::Stream;
///
/// /// Counts the bytes up to the end of the stream, without a copy.
/// fn count(stream: &Stream) -> std::io::Result<usize> {
///     let mut total = 0;
///     while let Some(chunk) = stream.read_chunk()? {
///         total += chunk.len();
///     }
///     Ok(total)
/// }
/// ```
pub struct Chunk<'a> {
    lent: Lent<'a>,
    account: Account<'a>,
}

/// A chunk without its borrow ([`Chunk::hold`]); its stream takes it back.
///
/// ```
/// use ringway::remote::{Held, Stream};
///
/// /// Keeps a chunk beside its stream.
/// fn keep(stream: &Stream) -> std::io::Result<Option<Held>> {
///     Ok(stream.read_chunk()?.map(|chunk| chunk.hold()))
/// }
///
/// fn print(stream: &Stream, held: Held) {
///     println!("{:?}", stream.bytes(&held));
///     stream.give_back(held);
/// }
/// ```
pub struct Held(Loan);

/// Space for bytes to send, in place. [`commit`](Room::commit) sends the written bytes; dropping it sends nothing.
///
/// ```
/// use ringway::remote::Stream;
///
/// fn greet(stream: &Stream) -> std::io::Result<()> {
///     let mut room = stream.reserve(6)?;
///     room[..6].copy_from_slice(b"hello\n");
///     room.commit(6)
/// }
/// ```
pub struct Room<'a>(Reserved<'a>);

/// A [`Room`] without its borrow ([`Room::hold`]); its stream sends it or takes it back.
///
/// ```
/// use ringway::remote::{HeldRoom, Stream};
///
/// fn send(stream: &Stream, mut held: HeldRoom, byte: u8) -> std::io::Result<()> {
///     stream.room_bytes(&mut held)[0] = byte;
///     stream.commit(held, 1)
/// }
/// ```
pub struct HeldRoom(Reservation);

/// Counts the bytes of a chunk as lent while it lives.
struct Account<'a>(&'a AtomicU32, u32);

impl Drop for Account<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::AcqRel);
    }
}

impl Stream {
    pub(super) fn over(session: &Session, slot: SlotRef) -> Stream {
        Stream {
            session: session.clone(),
            slot,
            lent: Arc::default(),
            nonblocking: AtomicBool::new(false),
            timeouts: Mutex::default(),
        }
    }

    pub(super) fn start(session: &Session, remote: SocketAddr) -> io::Result<Stream> {
        let stream = Stream::over(session, session.open_slot()?);
        session.command(stream.slot, Operation::Connect { remote }, Errno::NETUNREACH)?;
        Ok(stream)
    }

    pub(super) fn finish_connect(&self) -> io::Result<()> {
        self.session.block_on(self.slot, None, self.write_deadline(), || self.is_open())
    }

    /// Fails with EAGAIN during the handshake.
    pub(super) fn is_open(&self) -> io::Result<()> {
        let client = self.session.client();
        if client.known_dead() {
            return Err(gone());
        }
        let shared = client.slot(self.slot.index);
        match (shared.take_error(), shared.state()) {
            (Some(failure), _) => Err(error_of(failure)),
            (None, State::Connecting | State::Free) => Err(Errno::AGAIN.into()),
            (None, _) => Ok(()),
        }
    }

    /// The local address.
    pub fn local_addr(&self) -> SocketAddr {
        self.session.client().slot(self.slot.index).local()
    }

    /// The peer's address.
    pub fn peer_addr(&self) -> SocketAddr {
        self.session.client().slot(self.slot.index).remote()
    }

    /// Sets whether calls fail with EAGAIN instead of waiting.
    pub fn set_nonblocking(&self, on: bool) {
        self.nonblocking.store(on, Ordering::Relaxed);
    }

    /// Sets the time after which a waiting read fails with EAGAIN; `None`: never.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) {
        lock(&self.timeouts).read = timeout;
    }

    /// Sets the time after which a waiting write (or connect) fails with EAGAIN; `None`: never.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) {
        lock(&self.timeouts).write = timeout;
    }

    /// Sets TCP_NODELAY.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn set_nodelay(&self, on: bool) -> io::Result<()> {
        self.set_option(SocketOption::NoDelay, on.into())
    }

    /// Changes an option.
    ///
    /// # Errors
    /// EINVAL, ENOPROTOOPT.
    pub fn set_option(&self, option: SocketOption, value: u32) -> io::Result<()> {
        self.session.set_option(self.slot, option, value)
    }

    /// Reads an option; 0 where none was set and the stack's default holds.
    ///
    /// # Errors
    /// ENOPROTOOPT if it can only be set.
    pub fn option(&self, option: SocketOption) -> io::Result<u32> {
        self.session.option(self.slot, option)
    }

    /// The stack's information on the connection, as by TCP_INFO.
    ///
    /// # Errors
    /// ENOTCONN.
    pub fn info(&self) -> io::Result<InfoRecord> {
        self.session.info(self.slot)
    }

    /// Takes the pending error, as by SO_ERROR.
    pub fn take_error(&self) -> Option<io::Error> {
        let client = self.session.client();
        client.is_current(self.slot).then(|| client.slot(self.slot.index).take_error())?.map(error_of)
    }

    /// Returns received bytes in place, at most 64 KiB; `None` at the end of the stream. Several chunks may be held at
    /// once.
    ///
    /// # Errors
    /// EAGAIN if non-blocking and nothing is there; ECONNRESET and others.
    ///
    /// # Blocking
    /// Until bytes arrive.
    pub fn read_chunk(&self) -> io::Result<Option<Chunk<'_>>> {
        self.wait_to_read(|| self.try_read_chunk())
    }

    pub(super) fn try_read_chunk(&self) -> io::Result<Option<Chunk<'_>>> {
        let lent = self.session.client().lend(self.slot).map_err(receive_error)?;
        Ok(lent.map(|lent| {
            let bytes = lent.len() as u32;
            self.lent.fetch_add(bytes, Ordering::AcqRel);
            Chunk { lent, account: Account(&self.lent, bytes) }
        }))
    }

    /// The bytes of a held chunk.
    pub fn bytes<'a>(&'a self, held: &'a Held) -> &'a [u8] {
        self.session.client().lent_bytes(&held.0)
    }

    /// Takes back a held chunk. If it is dropped instead, it stays lost to the session.
    pub fn give_back(&self, held: Held) {
        let count = self.bytes(&held).len() as u32;
        self.session.client().end_loan(held.0);
        self.lent.fetch_sub(count, Ordering::AcqRel);
    }

    /// Reserves space for up to `len` bytes in place, at most 32 KiB; at most 2048 if no large chunk is left.
    ///
    /// # Errors
    /// EAGAIN if non-blocking and there is none; EPIPE and others.
    ///
    /// # Blocking
    /// Until there is space.
    pub fn reserve(&self, len: usize) -> io::Result<Room<'_>> {
        self.wait_to_write(|| self.session.client().reserve(self.slot, len).map_err(send_error)).map(Room)
    }

    /// The bytes of a held reservation.
    pub fn room_bytes<'a>(&'a self, held: &'a mut HeldRoom) -> &'a mut [u8] {
        self.session.client().reserved_bytes(&mut held.0)
    }

    /// Like [`Room::commit`].
    ///
    /// # Errors
    /// The errors of [`Room::commit`]; the reservation is given back.
    ///
    /// # Panics
    /// The errors of [`Room::commit`].
    pub fn commit(&self, held: HeldRoom, count: usize) -> io::Result<()> {
        self.session.client().commit(held.0, count).map_err(send_error)
    }

    /// Takes back a held reservation. If it is dropped instead, it stays lost to the session.
    pub fn cancel(&self, held: HeldRoom) {
        self.session.client().cancel(held.0);
    }

    /// Ends writing (a FIN follows the written bytes), reading, or both.
    ///
    /// # Errors
    /// ENOTCONN.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        if how != Shutdown::Read {
            self.session.command(self.slot, Operation::Shutdown, Errno::NOTCONN)?;
        }
        Ok(())
    }

    /// Resets the connection.
    pub fn abort(self) {
        self.session.release(self.slot, Some(0));
    }

    pub(super) fn try_read(&self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.session.client().receive(self.slot, parts).map_err(receive_error)
    }

    pub(super) fn try_write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.session.client().send(self.slot, parts).map_err(send_error)
    }

    fn wait_to_read<T>(&self, attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        self.wait(|timeouts| timeouts.read, attempt)
    }

    fn wait_to_write<T>(&self, attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        self.wait(|timeouts| timeouts.write, attempt)
    }

    fn wait<T>(&self, which: fn(Timeouts) -> Option<Duration>, mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        if self.nonblocking.load(Ordering::Relaxed) {
            return attempt();
        }
        let deadline = which(*lock(&self.timeouts)).map(deadline);
        self.session.block_on(self.slot, None, deadline, attempt)
    }

    fn write_deadline(&self) -> Option<Instant> {
        lock(&self.timeouts).write.map(deadline)
    }
}

/// The operations that are possible now; lent bytes do not count as readable.
pub(super) fn readiness(session: &Session, slot: SlotRef, lent: &AtomicU32) -> Readiness {
    let client = session.client();
    let mut readiness = client.readiness(slot);
    if !client.is_current(slot) || readiness.error || readiness.peer_closed {
        return readiness;
    }
    let shared = client.slot(slot.index);
    if shared.state() == State::Connected {
        readiness.readable = shared.unread() > lent.load(Ordering::Acquire);
    }
    readiness
}

impl<'a> Chunk<'a> {
    /// Releases the borrow, so that the chunk can be kept beside the stream. Give it back with [`Stream::give_back`].
    pub fn hold(self) -> Held {
        let Chunk { lent, account } = self;
        // The bytes stay lent.
        std::mem::forget(account);
        Held(lent.into_loan())
    }
}

impl Deref for Chunk<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.lent
    }
}

impl Room<'_> {
    /// Releases the borrow, so that the reservation can be kept beside the stream. Send it with [`Stream::commit`], or
    /// give it back with [`Stream::cancel`].
    pub fn hold(self) -> HeldRoom {
        HeldRoom(self.0.into_reservation())
    }

    /// Sends the first `count` bytes, after everything written before.
    ///
    /// # Errors
    /// EPIPE and others; nothing was sent then.
    ///
    /// # Panics
    /// Panics if `count` exceeds the reserved length.
    pub fn commit(self, count: usize) -> io::Result<()> {
        self.0.commit(count).map_err(send_error)
    }
}

impl Deref for Room<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Room<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl Read for &Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_vectored(&mut [IoSliceMut::new(buffer)])
    }

    fn read_vectored(&mut self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.wait_to_read(|| self.try_read(parts))
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.wait_to_write(|| self.try_write(parts))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }

    fn read_vectored(&mut self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(parts)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.session.release(self.slot, None);
    }
}

pub(super) fn receive_error(error: ReceiveError) -> io::Error {
    match error {
        ReceiveError::WouldBlock => Errno::AGAIN.into(),
        ReceiveError::Failed(failure) => error_of(failure),
        ReceiveError::NotConnected | ReceiveError::Stale => Errno::NOTCONN.into(),
    }
}

pub(super) fn send_error(error: SendError) -> io::Error {
    match error {
        SendError::WouldBlock => Errno::AGAIN.into(),
        SendError::Closed => Errno::PIPE.into(),
        SendError::Failed(failure) => error_of(failure),
        SendError::NotConnected | SendError::Stale => Errno::NOTCONN.into(),
    }
}
