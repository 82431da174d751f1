//! A TCP connection.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ringway_shm::Instant;
use ringway_shm::channel::{
    Lent, Loan, Operation, Readiness, ReceiveError, Reservation, Reserved, SendError, SlotRef, SocketOption, State,
};
use ringway_shm::stats::InfoRecord;
use rustix::io::Errno;

use super::session::{Session, error_of, gone};
use super::wait::{deadline, lock};

/// A TCP connection. Dropping it closes it: what was written still goes out, unless received bytes were not read, which
/// resets it as in the kernel.
pub struct Stream {
    pub(super) session: Session,
    pub(super) slot: SlotRef,
    /// Bytes that were lent and not given back; the slot still counts them as unread.
    pub(super) lent: Arc<AtomicU32>,
    nonblocking: AtomicBool,
    timeouts: Mutex<Timeouts>,
}

#[derive(Clone, Copy, Default)]
struct Timeouts {
    read: Option<Duration>,
    write: Option<Duration>,
}

/// Received bytes, in place. Dropping it gives them back, and only then the window opens for as many.
pub struct Chunk<'a> {
    lent: Lent<'a>,
    account: Account<'a>,
}

/// A chunk that has let go of its borrow ([`Chunk::hold`]); its stream takes it back.
pub struct Held(Loan);

/// Room for bytes to send, in place. [`commit`](Room::commit) sends what was written; dropping it sends nothing.
pub struct Room<'a>(Reserved<'a>);

/// Room that has let go of its borrow ([`Room::hold`]); its stream sends it or takes it back.
pub struct HeldRoom(Reservation);

/// Counts the bytes of a chunk as lent as long as it lives.
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

    /// EAGAIN while the handshake runs.
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

    /// Our end.
    pub fn local_addr(&self) -> SocketAddr {
        self.session.client().slot(self.slot.index).local()
    }

    /// The peer's end.
    pub fn peer_addr(&self) -> SocketAddr {
        self.session.client().slot(self.slot.index).remote()
    }

    /// Whether calls fail with EAGAIN instead of waiting.
    pub fn set_nonblocking(&self, on: bool) {
        self.nonblocking.store(on, Ordering::Relaxed);
    }

    /// After so long a read that waits fails with EAGAIN; `None`: never.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) {
        lock(&self.timeouts).read = timeout;
    }

    /// After so long a write (or connect) that waits fails with EAGAIN; `None`: never.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) {
        lock(&self.timeouts).write = timeout;
    }

    /// TCP_NODELAY.
    ///
    /// # Errors
    /// The connection is over.
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

    /// What the stack knows of the connection, as TCP_INFO.
    ///
    /// # Errors
    /// ENOTCONN.
    pub fn info(&self) -> io::Result<InfoRecord> {
        self.session.info(self.slot)
    }

    /// What went wrong, once, as SO_ERROR.
    pub fn take_error(&self) -> Option<io::Error> {
        let client = self.session.client();
        client.is_current(self.slot).then(|| client.slot(self.slot.index).take_error())?.map(error_of)
    }

    /// Received bytes in place, at most 64 KiB; `None` at the end of the stream. Several may be held at once.
    ///
    /// # Errors
    /// EAGAIN when non-blocking and nothing is there; ECONNRESET and others.
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

    /// The bytes of a chunk that is held.
    pub fn bytes<'a>(&'a self, held: &'a Held) -> &'a [u8] {
        self.session.client().lent_bytes(&held.0)
    }

    /// Takes back a chunk that is held. One that is dropped instead stays lost to the session.
    pub fn give_back(&self, held: Held) {
        let count = self.bytes(&held).len() as u32;
        self.session.client().end_loan(held.0);
        self.lent.fetch_sub(count, Ordering::AcqRel);
    }

    /// Room for up to `len` bytes in place, at most 32 KiB; at most 2048 when no large room is left.
    ///
    /// # Errors
    /// EAGAIN when non-blocking and there is none; EPIPE and others.
    ///
    /// # Blocking
    /// Until there is room.
    pub fn reserve(&self, len: usize) -> io::Result<Room<'_>> {
        self.wait_to_write(|| self.session.client().reserve(self.slot, len).map_err(send_error)).map(Room)
    }

    /// The bytes of a room that is held.
    pub fn room_bytes<'a>(&'a self, held: &'a mut HeldRoom) -> &'a mut [u8] {
        self.session.client().reserved_bytes(&mut held.0)
    }

    /// As [`Room::commit`].
    ///
    /// # Errors
    /// As [`Room::commit`]; the room is given back.
    ///
    /// # Panics
    /// As [`Room::commit`].
    pub fn commit(&self, held: HeldRoom, count: usize) -> io::Result<()> {
        self.session.client().commit(held.0, count).map_err(send_error)
    }

    /// Takes back a room that is held. One that is dropped instead stays lost to the session.
    pub fn cancel(&self, held: HeldRoom) {
        self.session.client().cancel(held.0);
    }

    /// No more bytes will be written (a FIN follows those that were), or read.
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

/// What can be done now; bytes that are lent are not there to be read again.
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
    /// Lets go of the borrow, to be kept beside the stream. Give it back with [`Stream::give_back`].
    pub fn hold(self) -> Held {
        let Chunk { lent, account } = self;
        // It stays lent.
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
    /// Lets go of the borrow, to be kept beside the stream. Send it with [`Stream::commit`], or give it back with
    /// [`Stream::cancel`].
    pub fn hold(self) -> HeldRoom {
        HeldRoom(self.0.into_reservation())
    }

    /// Sends the first `count` bytes, behind everything that was written before.
    ///
    /// # Errors
    /// EPIPE and others; nothing was sent then.
    ///
    /// # Panics
    /// When `count` is more than there was room for.
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
