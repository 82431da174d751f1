//! Native UDP: bound sockets and the datagrams that they receive.
//!
//! Every call returns at once. Promises: a datagram is received and sent whole or not at all; a borrowed one is not
//! copied, nor one that is written in place. Does not do: path MTU, groups and errors by itself; the stack does.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use ringway_engine::Core;
use ringway_engine::native::{Credit, Handle, Kind, News, Returns, Sockets};
use ringway_shm::arena::{LARGE_BYTES, SMALL_BYTES};
use ringway_shm::{Burst, Class, Frame};
use ringway_stack::{
    ConnectError, GroupError, Readiness, UDP_HEADROOM, UdpError, UdpInfo, UdpMessage, UdpOptions, UdpSend, UdpSendError,
};

use super::chunk::Reservation;
use super::error::ReadError;
use super::net::Net;
use super::tcp::{from_stack, to_stack};

/// Names a UDP socket: a copied number, with all calls on the socket. A stale one is refused and never names another socket.
///
/// ```
/// use ringway::{Event, Net};
///
/// /// Reads a datagram of the socket that an event names.
/// fn on_event(net: &mut Net, event: Event) {
///     if let Event::Datagram(socket, _) = event
///         && let Ok(datagram) = socket.recv_chunk(net)
///     {
///         println!("{datagram:?}");
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UdpSocketId(pub(super) Handle);

impl UdpSocketId {
    /// A small number that is unique among the open sockets of the `Net`.
    #[inline]
    pub fn index(self) -> usize {
        self.0.index as usize
    }

    /// Sets the remote end: only its datagrams are received from now on. `None` clears it.
    ///
    /// # Errors
    /// [`ConnectError::NoRoute`]: no route leads there, or the id is stale.
    pub fn connect(self, net: &mut Net, remote: Option<SocketAddr>) -> Result<(), ConnectError> {
        let (sockets, core) = net.parts();
        let socket = sockets.socket(self.0, Kind::Datagram).ok_or(ConnectError::NoRoute)?;
        core.stack.udp_connect(socket, remote.map(to_stack))
    }

    /// Sends a copy of `bytes` to `to`.
    ///
    /// # Errors
    /// [`UdpSendError`]; after `WouldBlock` an event follows when there is space.
    pub fn send_to(self, net: &mut Net, bytes: &[u8], to: SocketAddr) -> Result<usize, UdpSendError> {
        self.send_message(net, bytes, &UdpSend { to: Some(to_stack(to)), ..UdpSend::default() })
    }

    /// Sends a copy of `bytes` to the remote end set by `connect`.
    ///
    /// # Errors
    /// [`UdpSendError`]; after `WouldBlock` an event follows when there is space.
    pub fn send(self, net: &mut Net, bytes: &[u8]) -> Result<usize, UdpSendError> {
        self.send_message(net, bytes, &UdpSend::default())
    }

    /// Sends a copy of `bytes` as described by `how`, possibly as several datagrams; its length must be that of
    /// `bytes`.
    ///
    /// # Errors
    /// [`UdpSendError`]; after `WouldBlock` an event follows when there is space.
    pub fn send_message(self, net: &mut Net, bytes: &[u8], how: &UdpSend) -> Result<usize, UdpSendError> {
        let (sockets, core) = net.parts();
        let socket = sockets.socket(self.0, Kind::Datagram).ok_or(UdpSendError::NotOpen)?;
        let mut rest = bytes;
        let send = UdpSend { len: bytes.len(), ..*how };
        let count = core.stack.udp_send(core.now, socket, &send, &mut |piece| {
            let (now, later) = rest.split_at(piece.len());
            piece.copy_from_slice(now);
            rest = later;
        })?;
        sockets.copied += count as u64;
        sockets.touched = true;
        Ok(count)
    }

    /// Reserves space for one datagram of up to `len` bytes (at most [`RESERVE_MAX`](UdpSocketId::RESERVE_MAX)), written
    /// in place.
    ///
    /// # Errors
    /// [`UdpSendError::MessageTooLong`], `WouldBlock` (no frame is free; an event follows) or `NotOpen`.
    pub fn reserve(self, net: &mut Net, len: usize) -> Result<Reservation, UdpSendError> {
        let (sockets, core) = net.parts();
        sockets.socket(self.0, Kind::Datagram).ok_or(UdpSendError::NotOpen)?;
        if len > UdpSocketId::RESERVE_MAX {
            return Err(UdpSendError::MessageTooLong);
        }
        let class = if len <= SMALL_BYTES - UDP_HEADROOM { Class::Small } else { Class::Large };
        let frame = if Sockets::may_reserve(class, &core.arena) { core.arena.alloc(class) } else { None };
        let Some(mut frame) = frame else {
            sockets.starve(self.0.index, core.now);
            return Err(UdpSendError::WouldBlock);
        };
        frame.reserve(UDP_HEADROOM);
        frame.extend(len);
        Ok(Reservation::new(frame))
    }

    /// Sends the first `len` bytes of a reservation to `to` (`None`: to the remote end set by `connect`); they can then
    /// no longer be changed.
    ///
    /// # Errors
    /// The reservation comes back with the reason, cut to `len` bytes.
    pub fn commit(
        self,
        net: &mut Net,
        reservation: Reservation,
        len: usize,
        to: Option<SocketAddr>,
    ) -> Result<(), (Reservation, UdpSendError)> {
        let (sockets, core) = net.parts();
        let Some(socket) = sockets.socket(self.0, Kind::Datagram) else {
            return Err((reservation.cut(len), UdpSendError::NotOpen));
        };
        let frame = match reservation.into_frame_of(&core.arena, len) {
            Ok(frame) => frame,
            Err(reservation) => {
                sockets.starve(self.0.index, core.now);
                return Err((reservation, UdpSendError::WouldBlock));
            }
        };
        let send = UdpSend { len: frame.len(), to: to.map(to_stack), ..UdpSend::default() };
        core.stack.udp_send_frame(core.now, socket, &send, frame).map_err(|(frame, error)| (Reservation::new(frame), error))?;
        sockets.touched = true;
        Ok(())
    }

    /// Returns the next received datagram in place.
    ///
    /// # Errors
    /// [`ReadError::WouldBlock`], `Lent` or `NotOpen`.
    pub fn recv_chunk(self, net: &mut Net) -> Result<Datagram, ReadError> {
        let (sockets, core) = net.parts();
        let entry = sockets.entry(self.0, Kind::Datagram).ok_or(ReadError::NotOpen)?;
        if !Sockets::may_lend(entry.lent, &core.arena) {
            return Err(ReadError::Lent);
        }
        let socket = entry.socket;
        let (message, first, rest) = take_datagram(&mut sockets.datagram, socket, core).ok_or(ReadError::WouldBlock)?;
        let frames = u32::from(first.is_some()) + rest.len() as u32;
        if let Some(entry) = sockets.entry(self.0, Kind::Datagram) {
            entry.lent += frames;
        }
        let credit = Credit { index: self.0.index, socket, bytes: 0, frames };
        Ok(Datagram { message, first, rest, credit, returns: sockets.returns.clone() })
    }

    /// Copies the next datagram into `buffer`; returns the length copied, and its source address. Bytes that do not fit
    /// are lost.
    ///
    /// # Errors
    /// [`ReadError::WouldBlock`] or `NotOpen`.
    pub fn recv_from(self, net: &mut Net, buffer: &mut [u8]) -> Result<(usize, SocketAddr), ReadError> {
        let (sockets, core) = net.parts();
        let socket = sockets.socket(self.0, Kind::Datagram).ok_or(ReadError::NotOpen)?;
        let (message, first, rest) = take_datagram(&mut sockets.datagram, socket, core).ok_or(ReadError::WouldBlock)?;
        let mut at = 0;
        for frame in first.iter().chain(&rest) {
            let count = frame.len().min(buffer.len() - at);
            buffer[at..at + count].copy_from_slice(&frame.bytes()[..count]);
            at += count;
        }
        sockets.copied += at as u64;
        Ok((at, from_stack(message.from)))
    }

    /// Like `recv_from`, for a socket with a set remote end.
    ///
    /// # Errors
    /// [`ReadError::WouldBlock`] or `NotOpen`.
    pub fn recv(self, net: &mut Net, buffer: &mut [u8]) -> Result<usize, ReadError> {
        self.recv_from(net, buffer).map(|(count, _)| count)
    }

    /// Reports the socket's readiness again in the next iteration.
    pub fn again(self, net: &mut Net) {
        let (sockets, _) = net.parts();
        if sockets.entry(self.0, Kind::Datagram).is_some() {
            sockets.note(self.0.index, News::READY);
        }
    }

    /// Joins a multicast group on an interface; `None`: the one that the routes name.
    ///
    /// # Errors
    /// [`GroupError`]
    pub fn join_group(self, net: &mut Net, interface: Option<u32>, group: IpAddr) -> Result<(), GroupError> {
        let (sockets, core) = net.parts();
        let socket = sockets.socket(self.0, Kind::Datagram).ok_or(GroupError::NotOpen)?;
        core.stack.udp_join_group(socket, interface, group)
    }

    /// Leaves a multicast group.
    ///
    /// # Errors
    /// [`GroupError`]
    pub fn leave_group(self, net: &mut Net, interface: Option<u32>, group: IpAddr) -> Result<(), GroupError> {
        let (sockets, core) = net.parts();
        let socket = sockets.socket(self.0, Kind::Datagram).ok_or(GroupError::NotOpen)?;
        core.stack.udp_leave_group(socket, interface, group)
    }

    /// Takes the ICMP error of the remote end set by `connect`.
    pub fn take_error(self, net: &mut Net) -> Option<UdpError> {
        let (sockets, core) = net.parts();
        core.stack.udp_error(sockets.socket(self.0, Kind::Datagram)?)
    }

    /// Replaces the options.
    pub fn set_options(self, net: &mut Net, options: UdpOptions) {
        let (sockets, core) = net.parts();
        if let Some(socket) = sockets.socket(self.0, Kind::Datagram) {
            core.stack.udp_set_options(socket, options);
        }
    }

    /// The local address. `None`: the id is stale.
    pub fn local_addr(self, net: &mut Net) -> Option<SocketAddr> {
        let (sockets, core) = net.parts();
        let (local, _) = core.stack.addresses(sockets.socket(self.0, Kind::Datagram)?)?;
        Some(from_stack(local))
    }

    /// Information on the socket: remote end, path MTU, memory, drops.
    pub fn info(self, net: &mut Net) -> Option<UdpInfo> {
        let (sockets, core) = net.parts();
        core.stack.udp_info(sockets.socket(self.0, Kind::Datagram)?)
    }

    /// The operations that are possible now. A stale id is hung up.
    pub fn readiness(self, net: &mut Net) -> Readiness {
        let (sockets, core) = net.parts();
        match sockets.socket(self.0, Kind::Datagram) {
            Some(socket) => core.stack.readiness(socket),
            None => Readiness { readable: true, writable: true, peer_closed: true, hung_up: true },
        }
    }

    /// Closes the socket. Sent datagrams still leave; received ones are dropped.
    pub fn close(self, net: &mut Net) {
        let (sockets, core) = net.parts();
        sockets.close(self.0, core);
    }

    /// Longest datagram written in place, bytes: what one frame holds. `send_to` takes longer ones.
    pub const RESERVE_MAX: usize = LARGE_BYTES - UDP_HEADROOM;
}

/// A received datagram (with `coalesce`, several of one flow and size), in the frames in which it arrived. A socket of
/// which many are held receives no more.
///
/// ```
/// use ringway::{Net, UdpSocketId};
///
/// /// Sends each datagram back.
/// fn reflect(net: &mut Net, socket: UdpSocketId) {
///     while let Ok(datagram) = socket.recv_chunk(net) {
///         if socket.send_to(net, &datagram.bytes(), datagram.from()).is_err() {
///             break;
///         }
///     }
/// }
/// ```
pub struct Datagram {
    message: UdpMessage,
    first: Option<Frame>,
    /// The other frames of a datagram that was fragmented or coalesced.
    rest: Vec<Frame>,
    credit: Credit,
    returns: Rc<Returns>,
}

impl Datagram {
    /// The source address.
    pub fn from(&self) -> SocketAddr {
        from_stack(self.message.from)
    }

    /// The metadata of the datagram.
    pub fn message(&self) -> &UdpMessage {
        &self.message
    }

    /// Length of the payload, bytes.
    pub fn len(&self) -> usize {
        self.message.len as usize
    }

    /// Returns true if it has no payload.
    pub fn is_empty(&self) -> bool {
        self.message.len == 0
    }

    /// The payload, piece by piece; most have one piece.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        self.first.iter().chain(&self.rest).map(Frame::bytes)
    }

    /// The payload in one piece: borrowed, unless it lies in several frames.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        match &self.first {
            Some(first) if self.rest.is_empty() => Cow::Borrowed(first.bytes()),
            _ => Cow::Owned(self.parts().flatten().copied().collect()),
        }
    }
}

impl Drop for Datagram {
    fn drop(&mut self) {
        // The frames are freed first, so that a socket that is told of free frames finds them.
        self.first = None;
        self.rest.clear();
        if self.credit.frames > 0 {
            self.returns.push(self.credit);
        }
    }
}

impl std::fmt::Debug for Datagram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Datagram({} bytes from {})", self.len(), self.from())
    }
}

/// Takes the next datagram of a socket and separates its first frame.
fn take_datagram(
    burst: &mut Burst,
    socket: ringway_stack::SocketId,
    core: &mut Core,
) -> Option<(UdpMessage, Option<Frame>, Vec<Frame>)> {
    let message = core.stack.udp_receive(socket, burst)?;
    let first = burst.pop();
    let mut rest = Vec::new();
    while let Some(frame) = burst.pop() {
        rest.push(frame);
    }
    Some((message, first, rest))
}
