//! UDP.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use ringway_channel::attach::Purpose;
use ringway_channel::{Envelope, Operation, SlotRef, SocketOption};
use rustix::io::Errno;
use rustix::net::{SocketType, bind, connect_unspec, getsockname};

use super::listener::{is_wild_ipv6, kernel_socket};
use super::session::Session;
use super::stream::{receive_error, send_error};

/// A UDP socket. Datagrams that arrive over interfaces of the kernel are dropped.
///
/// ```
/// use ringway::remote::Session;
///
/// fn reflect(session: &Session) -> std::io::Result<()> {
///     let socket = session.bind_udp("0.0.0.0:7".parse().expect("an address"))?;
///     let mut buffer = [0; 2048];
///     loop {
///         if let (count, Some(peer)) = socket.recv_from(&mut buffer)? {
///             socket.send_to(&buffer[..count], peer)?;
///         }
///     }
/// }
/// ```
pub struct UdpSocket {
    pub(super) session: Session,
    pub(super) slot: SlotRef,
    local: SocketAddr,
    /// Kernel socket that holds the port, visible to the whole machine.
    _shadow: OwnedFd,
    nonblocking: AtomicBool,
}

impl UdpSocket {
    pub(super) fn open(session: &Session, local: SocketAddr) -> io::Result<UdpSocket> {
        let shadow = kernel_socket(SocketType::DGRAM, local)?;
        let chosen = local.port();
        let local = SocketAddr::try_from(getsockname(&shadow)?)?;
        if chosen == 0 {
            // A port that the kernel has chosen is freed when the socket is disconnected; an explicit one stays.
            connect_unspec(&shadow)?;
            bind(&shadow, &local)?;
        }
        let slot = session.open_slot()?;
        let socket = UdpSocket { session: session.clone(), slot, local, _shadow: shadow, nonblocking: AtomicBool::new(false) };
        session.show(slot, Purpose::Datagrams, &socket._shadow)?;
        let operation = Operation::Datagram { local, dual_stack: is_wild_ipv6(local) };
        session.command(slot, operation, Errno::ADDRNOTAVAIL)?;
        Ok(socket)
    }

    /// The address and port.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Sets the peer: only its datagrams are received, and ICMP errors are reported.
    ///
    /// # Errors
    /// ENETUNREACH if no interface of Ringway leads there.
    pub fn connect(&self, remote: SocketAddr) -> io::Result<()> {
        self.session.command(self.slot, Operation::ConnectDatagram { remote }, Errno::NETUNREACH)
    }

    /// Sets whether calls fail with EAGAIN instead of waiting.
    pub fn set_nonblocking(&self, on: bool) {
        self.nonblocking.store(on, Ordering::Relaxed);
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

    /// Sends one datagram.
    ///
    /// # Errors
    /// EMSGSIZE, and ICMP errors that an earlier datagram caused.
    ///
    /// # Blocking
    /// Until there is space.
    pub fn send_to(&self, bytes: &[u8], peer: SocketAddr) -> io::Result<()> {
        self.send_message(&Envelope { len: bytes.len(), peer: Some(peer), ..Envelope::default() }, &[IoSlice::new(bytes)])
    }

    /// Sends one datagram to the peer of [`connect`](Self::connect).
    ///
    /// # Errors
    /// The errors of `send_to`; EDESTADDRREQ without a peer.
    pub fn send(&self, bytes: &[u8]) -> io::Result<()> {
        self.send_message(&Envelope { len: bytes.len(), ..Envelope::default() }, &[IoSlice::new(bytes)])
    }

    /// Sends one message, or several (`segment_size`), as the envelope says. Its `len` must be that of `parts`.
    ///
    /// # Errors
    /// The errors of `send_to`; EINVAL if the lengths differ.
    pub fn send_message(&self, envelope: &Envelope, parts: &[IoSlice<'_>]) -> io::Result<()> {
        if envelope.len != parts.iter().map(|part| part.len()).sum::<usize>() {
            return Err(Errno::INVAL.into());
        }
        self.wait(|| self.try_send(envelope, parts))
    }

    /// Receives one datagram; returns the bytes that fitted and the sender. The rest is lost.
    ///
    /// # Errors
    /// EAGAIN if non-blocking and none is there; ICMP errors of a connected socket.
    ///
    /// # Blocking
    /// Until one arrives.
    pub fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, Option<SocketAddr>)> {
        let (copied, envelope) = self.receive_message(&mut [IoSliceMut::new(buffer)])?;
        Ok((copied, envelope.peer))
    }

    /// Receives one message with its metadata; returns the bytes that fitted and the envelope.
    ///
    /// # Errors
    /// The errors of `recv_from`.
    pub fn receive_message(&self, parts: &mut [IoSliceMut<'_>]) -> io::Result<(usize, Envelope)> {
        self.wait(|| self.try_receive(parts))
    }

    pub(super) fn try_send(&self, envelope: &Envelope, parts: &[IoSlice<'_>]) -> io::Result<()> {
        self.session.client().send_datagram(self.slot, envelope, parts).map_err(send_error)
    }

    pub(super) fn try_receive(&self, parts: &mut [IoSliceMut<'_>]) -> io::Result<(usize, Envelope)> {
        let peek = false;
        let received = self.session.client().receive_datagram(self.slot, parts, peek).map_err(receive_error)?;
        Ok((received.copied, received.envelope))
    }

    fn wait<T>(&self, mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        if self.nonblocking.load(Ordering::Relaxed) {
            return attempt();
        }
        self.session.block_on(self.slot, None, None, attempt)
    }
}

impl Drop for UdpSocket {
    fn drop(&mut self) {
        self.session.release(self.slot, None);
    }
}
