//! Native TCP: listeners and connections.
//!
//! Every call returns at once. Promises: `read_chunk`, `commit` and `write_chunk` move payload without copying; a
//! committed frame is the stack's alone until the peer has acknowledged it.

use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::ops::Range;

use ringway_engine::Core;
use ringway_engine::native::{Credit, Entry, Handle, Kind, News, Sockets};
use ringway_shm::arena::{LARGE_BYTES, LARGE_HEADROOM, SMALL_BYTES, SMALL_HEADROOM};
use ringway_shm::extent::EXTENT_BYTES_MAX;
use ringway_shm::{Class, Content};
use ringway_stack::{
    AcceptError as StackAcceptError, Readiness, ReceiveError, SendError, SocketAddress, SocketError, TCP_HEADROOM, TcpInfo,
    TcpOptions, Urgent,
};

use super::chunk::{Chunk, Reservation};
use super::error::{AcceptError, ReadError, Rejected, WriteError};
use super::net::Net;
use super::owned::TcpStream;

/// Names a listening socket: a copied number, with all calls on the socket. A stale one is refused and never names another
/// socket.
///
/// ```
/// use ringway::{AcceptError, Net, NetConfig, TcpListener};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut net = Net::new(NetConfig::default())?;
/// let listener = TcpListener::bind(&mut net, "0.0.0.0:7".parse()?)?.into_id();
/// assert_eq!(listener.accept(&mut net).err(), Some(AcceptError::WouldBlock));
/// listener.close(&mut net);
/// assert_eq!(listener.accept(&mut net).err(), Some(AcceptError::NotOpen));
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TcpListenerId(pub(super) Handle);

/// Names a connection: a copied number, with all calls on the connection. A stale one is refused and never names another
/// connection.
///
/// ```
/// use ringway::{Net, TcpStreamId};
///
/// /// Reads what has arrived, without waiting.
/// fn read_all(net: &mut Net, stream: TcpStreamId) -> Vec<u8> {
///     let (mut all, mut buffer) = (Vec::new(), [0; 2048]);
///     while let Ok(count @ 1..) = stream.read(net, &mut buffer) {
///         all.extend(&buffer[..count]);
///     }
///     all
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TcpStreamId(pub(super) Handle);

impl TcpListenerId {
    /// A small number that is unique among the open sockets of the `Net`.
    #[inline]
    pub fn index(self) -> usize {
        self.0.index as usize
    }

    /// Accepts the oldest waiting connection.
    ///
    /// # Errors
    /// [`AcceptError`]
    #[inline]
    pub fn accept(self, net: &mut Net) -> Result<TcpStream, AcceptError> {
        let (sockets, core) = net.parts();
        let listener = sockets.socket(self.0, Kind::Listener).ok_or(AcceptError::NotOpen)?;
        let (index, name) = sockets.vacancy();
        match core.accept(listener, name) {
            Ok(socket) => {
                let id = TcpStreamId(sockets.open(index, socket, Kind::Stream));
                Ok(TcpStream::own(id, sockets.returns.clone()))
            }
            Err(StackAcceptError::WouldBlock) => Err(AcceptError::WouldBlock),
            Err(StackAcceptError::NotListening) => Err(AcceptError::NotOpen),
        }
    }

    /// Closes the listener. Connections that wait to be accepted are reset.
    pub fn close(self, net: &mut Net) {
        let (sockets, core) = net.parts();
        sockets.close(self.0, core);
    }
}

impl TcpStreamId {
    /// A small number that is unique among the open sockets of the `Net`: an index for the application's own table. It
    /// is reused after the connection is closed.
    #[inline]
    pub fn index(self) -> usize {
        self.0.index as usize
    }

    /// Returns the next received bytes in place: at most one frame. `None`: the peer has sent everything. The window
    /// opens when the chunk is dropped or released.
    ///
    /// # Errors
    /// [`ReadError`]
    #[inline]
    pub fn read_chunk(self, net: &mut Net) -> Result<Option<Chunk>, ReadError> {
        let (sockets, core) = net.parts();
        let entry = sockets.entry(self.0, Kind::Stream).ok_or(ReadError::NotOpen)?;
        if !Sockets::may_lend(entry.lent, &core.arena) {
            return Err(ReadError::Lent);
        }
        let frame = match core.stack.take_frame(entry.socket) {
            // A packet of a new connection may have been read to memory of an application whose connection it would have been.
            Ok(frame) => frame.into_own().expect("a received frame is nobody else's"),
            Err(error) => return nothing_read(error, entry.error).map(|()| None),
        };
        entry.lent += 1;
        let credit = Credit { index: self.0.index, socket: entry.socket, bytes: frame.len() as u32, frames: 1 };
        Ok(Some(Chunk::new(frame, credit, sockets.returns.clone())))
    }

    /// Gives a chunk back at once; dropping it does so in the next iteration.
    #[inline]
    pub fn release(self, net: &mut Net, chunk: Chunk) {
        let (sockets, core) = net.parts();
        if chunk.is_of(&sockets.returns) {
            let (frame, credit) = chunk.into_parts();
            drop(frame);
            sockets.take_back(&credit, core);
            sockets.touched = true;
        }
    }

    /// Copies received bytes into `buffer`; zero: the peer has sent everything (or the buffer is empty).
    ///
    /// # Errors
    /// [`ReadError`]
    pub fn read(self, net: &mut Net, buffer: &mut [u8]) -> Result<usize, ReadError> {
        self.read_vectored(net, &mut [IoSliceMut::new(buffer)])
    }

    /// Copies received bytes into several buffers, one after the other.
    ///
    /// # Errors
    /// [`ReadError`]
    pub fn read_vectored(self, net: &mut Net, buffers: &mut [IoSliceMut<'_>]) -> Result<usize, ReadError> {
        let (sockets, core) = net.parts();
        let entry = sockets.entry(self.0, Kind::Stream).ok_or(ReadError::NotOpen)?;
        let wanted = buffers.iter().map(|buffer| buffer.len()).sum();
        let mut rest = buffers.iter_mut();
        let mut room: &mut [u8] = &mut [];
        let read = core.stack.read_with(entry.socket, wanted, &mut |mut piece| {
            while !piece.is_empty() {
                if room.is_empty() {
                    room = rest.next().expect("the stack gives no more than was asked for");
                    continue;
                }
                let count = piece.len().min(room.len());
                let (now, later) = std::mem::take(&mut room).split_at_mut(count);
                now.copy_from_slice(&piece[..count]);
                (room, piece) = (later, &piece[count..]);
            }
        });
        match read {
            Ok(count) => {
                sockets.copied += count as u64;
                sockets.touched = true;
                Ok(count)
            }
            Err(_) if wanted == 0 => Ok(0),
            Err(error) => nothing_read(error, entry.error).map(|()| 0),
        }
    }

    /// Copies as much of `bytes` as there is space for; small writes that wait to be sent share a segment.
    ///
    /// # Errors
    /// [`WriteError`]
    pub fn write(self, net: &mut Net, bytes: &[u8]) -> Result<usize, WriteError> {
        self.write_vectored(net, &[IoSlice::new(bytes)])
    }

    /// Copies as much of several buffers, one after the other, as there is space for.
    ///
    /// # Errors
    /// [`WriteError`]
    pub fn write_vectored(self, net: &mut Net, buffers: &[IoSlice<'_>]) -> Result<usize, WriteError> {
        let (sockets, core) = net.parts();
        let entry = sockets.entry(self.0, Kind::Stream).ok_or(WriteError::NotOpen)?;
        let (socket, failed) = (entry.socket, entry.error);
        let len: usize = buffers.iter().map(|buffer| buffer.len()).sum();
        let wanted = sockets.ahead.allows(self.0.index, len);
        if wanted == 0 && len > 0 {
            sockets.wait_for_transmission(self.0.index);
            return Err(WriteError::WouldBlock);
        }
        let mut rest = buffers.iter().map(|buffer| &**buffer);
        let mut from: &[u8] = &[];
        let sent = core.stack.send_with(socket, wanted, &mut |mut piece: &mut [u8]| {
            while !piece.is_empty() {
                if from.is_empty() {
                    from = rest.next().expect("the stack asks for no more than there is");
                    continue;
                }
                let count = piece.len().min(from.len());
                let (now, later) = std::mem::take(&mut piece).split_at_mut(count);
                now.copy_from_slice(&from[..count]);
                from = &from[count..];
                piece = later;
            }
        });
        let count = sent.map_err(|error| write_error(error, failed))?;
        sockets.copied += count as u64;
        sockets.ahead.note(self.0.index, count);
        if count == wanted && wanted < len {
            sockets.wait_for_transmission(self.0.index);
        }
        sockets.touched |= count > 0;
        Ok(count)
    }

    /// Reserves space for up to `len` bytes in the frame that will carry them. The length of the reservation is at most
    /// [`RESERVE_MAX`](TcpStreamId::RESERVE_MAX) and the space in the send buffer; if each segment is a packet, also at
    /// most the space in the last segment.
    ///
    /// # Errors
    /// [`WriteError`]
    #[inline]
    pub fn reserve(self, net: &mut Net, len: usize) -> Result<Reservation, WriteError> {
        let (sockets, core) = net.parts();
        let entry = sockets.entry(self.0, Kind::Stream).ok_or(WriteError::NotOpen)?;
        let space = core.stack.send_piece(entry.socket);
        if space == 0 {
            return Err(why_full(entry, core));
        }
        let len = len.min(space).min(TcpStreamId::RESERVE_MAX);
        let class = if len <= SMALL_BYTES - TCP_HEADROOM { Class::Small } else { Class::Large };
        let frame = if Sockets::may_reserve(class, &core.arena) { core.arena.alloc(class) } else { None };
        let Some(mut frame) = frame else {
            sockets.starve(self.0.index, core.now);
            return Err(WriteError::WouldBlock);
        };
        // A message is sent in the frame that holds it; the headers of a stream are elsewhere.
        frame.reserve(if len <= LARGE_BYTES - TCP_HEADROOM { TCP_HEADROOM } else { 0 });
        frame.extend(len);
        Ok(Reservation::new(frame))
    }

    /// Sends the first `len` bytes of a reservation, which can then no longer be changed.
    ///
    /// # Errors
    /// The reservation comes back with the reason, cut to `len` bytes.
    #[inline]
    pub fn commit(self, net: &mut Net, reservation: Reservation, len: usize) -> Result<(), Rejected<Reservation>> {
        let (sockets, core) = net.parts();
        let Some(entry) = sockets.entry(self.0, Kind::Stream) else {
            return Err(Rejected { error: WriteError::NotOpen, item: reservation.cut(len) });
        };
        let frame = match reservation.into_frame_of(&core.arena, len) {
            Ok(frame) => frame,
            Err(item) => {
                sockets.starve(self.0.index, core.now);
                return Err(Rejected { error: WriteError::WouldBlock, item });
            }
        };
        match core.stack.send_frame(entry.socket, frame) {
            Ok(()) => {
                sockets.touched = true;
                Ok(())
            }
            Err((frame, error)) => Err(Rejected { error: write_error(error, entry.error), item: Reservation::new(frame) }),
        }
    }

    /// Sends a chunk received on this or another connection, in the frame in which it came; its own connection's window
    /// opens. A chunk that was split, or came from another `Net`, is copied.
    ///
    /// # Errors
    /// The chunk comes back with the reason.
    pub fn write_chunk(self, net: &mut Net, chunk: Chunk) -> Result<(), Rejected<Chunk>> {
        let (sockets, core) = net.parts();
        let Some(entry) = sockets.entry(self.0, Kind::Stream) else {
            return Err(Rejected { error: WriteError::NotOpen, item: chunk });
        };
        let socket = entry.socket;
        if core.stack.send_space(socket) == 0 {
            return Err(Rejected { error: why_full(entry, core), item: chunk });
        }
        if !chunk.is_queueable(&core.arena) {
            return self.write_copy(net, chunk);
        }
        let (frame, credit) = chunk.into_parts();
        match core.stack.send_frame(socket, frame) {
            Ok(()) => {
                sockets.take_back(&credit, core);
                sockets.touched = true;
                Ok(())
            }
            Err((frame, error)) => {
                let error = write_error(error, entry.error);
                Err(Rejected { error, item: Chunk::new(frame, credit, sockets.returns.clone()) })
            }
        }
    }

    /// Copies a chunk with a shared frame or another worker's, all or none, because our queues cannot hold such a
    /// frame.
    #[cold]
    fn write_copy(self, net: &mut Net, chunk: Chunk) -> Result<(), Rejected<Chunk>> {
        let (sockets, core) = net.parts();
        let Some(socket) = sockets.socket(self.0, Kind::Stream) else {
            return Err(Rejected { error: WriteError::NotOpen, item: chunk });
        };
        let class = if chunk.len() <= SMALL_BYTES - usize::from(SMALL_HEADROOM) { Class::Small } else { Class::Large };
        let copy = match chunk.len() <= LARGE_BYTES - usize::from(LARGE_HEADROOM) {
            true => Sockets::may_reserve(class, &core.arena).then(|| core.arena.alloc_from(&*chunk)).flatten(),
            false => {
                Sockets::may_extend(&core.arena).then(|| core.arena.frame_of(&Content::new(&*chunk), 0..chunk.len())).flatten()
            }
        };
        // The caller has checked that there is space.
        if copy.is_none_or(|copy| core.stack.send_frame(socket, copy).is_err()) {
            sockets.starve(self.0.index, core.now);
            return Err(Rejected { error: WriteError::WouldBlock, item: chunk });
        }
        sockets.copied += chunk.len() as u64;
        sockets.touched = true;
        Ok(())
    }

    /// Sends bytes of `content` from `range` without a copy; returns how many there was space for. The content cannot
    /// change, so it needs no care until it is acknowledged, and can be filled once and sent often.
    ///
    /// # Errors
    /// [`WriteError`]
    ///
    /// # Panics
    /// Panics if the range is not inside the content.
    pub fn write_content(self, net: &mut Net, content: &Content, range: Range<usize>) -> Result<usize, WriteError> {
        assert!(range.start <= range.end && range.end <= content.len(), "a range of the content");
        let (sockets, core) = net.parts();
        let entry = sockets.entry(self.0, Kind::Stream).ok_or(WriteError::NotOpen)?;
        let mut at = range.start;
        while at < range.end {
            let piece = core.stack.send_piece(entry.socket).min(range.end - at).min(EXTENT_BYTES_MAX);
            if piece == 0 {
                break;
            }
            let frame = Sockets::may_extend(&core.arena).then(|| core.arena.frame_of(content, at..at + piece)).flatten();
            let Some(frame) = frame else {
                sockets.starve(self.0.index, core.now);
                break;
            };
            if core.stack.send_frame(entry.socket, frame).is_err() {
                break;
            }
            at += piece;
        }
        let count = at - range.start;
        if count == 0 && !range.is_empty() {
            let entry = sockets.entry(self.0, Kind::Stream).ok_or(WriteError::NotOpen)?;
            return Err(why_full(entry, core));
        }
        sockets.touched |= count > 0;
        Ok(count)
    }

    /// Reports the connection's readiness again in the next iteration, for a caller that has left something undone.
    pub fn again(self, net: &mut Net) {
        let (sockets, _) = net.parts();
        if sockets.entry(self.0, Kind::Stream).is_some() {
            sockets.note(self.0.index, News::READY);
        }
    }

    /// Sends FIN after the written data; reading goes on.
    pub fn shutdown_write(self, net: &mut Net) {
        let (sockets, core) = net.parts();
        if let Some(socket) = sockets.socket(self.0, Kind::Stream) {
            core.stack.shutdown_write(core.now, socket);
            sockets.touched = true;
        }
    }

    /// Closes the connection: written data is still sent, then FIN; RST if received data was not read.
    pub fn close(self, net: &mut Net) {
        let (sockets, core) = net.parts();
        sockets.close(self.0, core);
    }

    /// Resets the connection with RST.
    pub fn abort(self, net: &mut Net) {
        let (sockets, core) = net.parts();
        sockets.abort(self.0, core);
    }

    /// Replaces the options.
    pub fn set_options(self, net: &mut Net, options: TcpOptions) {
        let (sockets, core) = net.parts();
        if let Some(socket) = sockets.socket(self.0, Kind::Stream) {
            core.stack.set_options(core.now, socket, options);
            sockets.touched = true;
        }
    }

    /// The local address. `None`: the id is stale.
    pub fn local_addr(self, net: &mut Net) -> Option<SocketAddr> {
        self.addresses(net).map(|(local, _)| local)
    }

    /// The peer's address. `None`: the id is stale.
    pub fn peer_addr(self, net: &mut Net) -> Option<SocketAddr> {
        self.addresses(net).map(|(_, remote)| remote)
    }

    fn addresses(self, net: &mut Net) -> Option<(SocketAddr, SocketAddr)> {
        let (sockets, core) = net.parts();
        let (local, remote) = core.stack.addresses(sockets.socket(self.0, Kind::Stream)?)?;
        Some((from_stack(local), from_stack(remote)))
    }

    /// The information of `TCP_INFO`.
    pub fn info(self, net: &mut Net) -> Option<TcpInfo> {
        let (sockets, core) = net.parts();
        core.stack.info(sockets.socket(self.0, Kind::Stream)?)
    }

    /// The operations that are possible now. A stale id is hung up.
    pub fn readiness(self, net: &mut Net) -> Readiness {
        let (sockets, core) = net.parts();
        let Some(entry) = sockets.entry(self.0, Kind::Stream) else {
            return Readiness { readable: true, writable: true, peer_closed: true, hung_up: true };
        };
        core.stack.readiness(entry.socket)
    }

    /// Bytes received and not read.
    pub fn unread(self, net: &mut Net) -> usize {
        let (sockets, core) = net.parts();
        sockets.socket(self.0, Kind::Stream).map_or(0, |socket| core.stack.unread(socket))
    }

    /// Bytes written that the peer has not acknowledged.
    pub fn unacknowledged(self, net: &mut Net) -> usize {
        let (sockets, core) = net.parts();
        sockets.socket(self.0, Kind::Stream).map_or(0, |socket| core.stack.send_queued(socket))
    }

    /// Marks the last byte written as urgent (RFC 9293 §3.8.5); the caller must do so before the next iteration.
    pub fn mark_urgent(self, net: &mut Net) {
        let (sockets, core) = net.parts();
        if let Some(socket) = sockets.socket(self.0, Kind::Stream) {
            core.stack.mark_urgent(socket, 0);
            sockets.touched = true;
        }
    }

    /// The urgent byte that the peer has announced, until the bytes before it are read.
    pub fn urgent(self, net: &mut Net) -> Option<Urgent> {
        let (sockets, core) = net.parts();
        core.stack.urgent(sockets.socket(self.0, Kind::Stream)?)
    }

    /// The reason why the connection has failed, if it has.
    pub fn error(self, net: &mut Net) -> Option<SocketError> {
        net.parts().0.entry(self.0, Kind::Stream)?.error
    }

    /// Longest reservation, bytes: what one frame holds.
    pub const RESERVE_MAX: usize = LARGE_BYTES;
}

/// Reason why nothing was read; `Ok`: the peer has sent everything.
#[cold]
fn nothing_read(error: ReceiveError, failed: Option<SocketError>) -> Result<(), ReadError> {
    match error {
        ReceiveError::WouldBlock => Err(ReadError::WouldBlock),
        ReceiveError::EndOfStream => failed.map_or(Ok(()), |error| Err(ReadError::Failed(error))),
        ReceiveError::Failed(error) => Err(ReadError::Failed(error)),
        ReceiveError::NotConnected => Err(ReadError::NotOpen),
    }
}

/// Reason why a connection has no space.
#[cold]
fn why_full(entry: &Entry, core: &mut Core) -> WriteError {
    let tried = core.stack.send_with(entry.socket, 0, &mut |_| {});
    tried.map_or_else(|error| write_error(error, entry.error), |_| WriteError::WouldBlock)
}

fn write_error(error: SendError, failed: Option<SocketError>) -> WriteError {
    match (error, failed) {
        (SendError::WouldBlock, _) => WriteError::WouldBlock,
        (_, Some(error)) => WriteError::Failed(error),
        (SendError::Closed, None) => WriteError::Closed,
        (SendError::NotConnected, None) => WriteError::NotOpen,
    }
}

pub(super) fn to_stack(address: SocketAddr) -> SocketAddress {
    SocketAddress { ip: address.ip(), port: address.port() }
}

pub(super) fn from_stack(address: SocketAddress) -> SocketAddr {
    SocketAddr::new(address.ip, address.port)
}
