//! UDP sockets: which of them the stack serves, and datagrams in and out (udp(7)).
//!
//! The program's kernel socket stays underneath, really bound, as the *shadow*: it goes on serving loopback, broadcast,
//! the multicast groups that are not the stack's (`multicast`) and the kernel's interfaces. A receiver checks the stack's queue first, then the shadow, and waits for
//! both; a sender asks whether the stack reaches the destination. So a socket may at any time become the kernel's alone
//! again (`surrender`): if the program uses a feature that the stack lacks, and when the service dies.

pub(crate) mod control;
pub(crate) mod multicast;
pub(crate) mod pieces;
pub(crate) mod routes;

use crate::Posix;
use crate::address::{Parsed, SocketName, is_kernels, parse};
use crate::blocking::{Shadow, Wait};
use crate::channel::{
    Channel, ControlAnswer, Envelope, Failure, Handover, Place, Purpose, Received, Request, Taking, TransferError,
};
use crate::connect::is_unspecified_family;
use crate::descriptions::{Description, Flag};
use crate::errno::{Answer, Errno};
use crate::fallback::{Fd, RawAddress};
use crate::fd_table::{Descriptor, SocketRef};
use crate::options::table::Known;
use crate::options::timeout_nanos;
use crate::reasons::Fallback;
use crate::socket::{fallback_reason, kernels_reason};
use crate::stream::{Receive, Send};
use control::Sends;
use pieces::{Added, Piece, Unfinished};
use ringway_shm::{Duration, Instant};
use routes::Way;
use std::io::{IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::Ordering;

/// What sendmsg(2) sends.
#[derive(Clone, Copy)]
pub struct Outgoing<'a> {
    /// The `sockaddr` of the destination. `None`: the connected peer.
    pub to: Option<&'a [u8]>,
    /// Ancillary data.
    pub control: &'a [u8],
    /// The payload.
    pub pieces: &'a [IoSlice<'a>],
}

/// Result of a receive.
#[derive(Debug)]
pub enum Arrival {
    /// A datagram of the stack, and how much of it fitted.
    Stack(Received),
    /// Bytes that the kernel's socket delivered.
    Kernel(usize),
    /// The read side is shut.
    End,
    /// The socket has become the kernel's: the caller must make the real call.
    Surrendered,
}

impl Posix {
    /// Returns true for a datagram socket.
    #[inline]
    pub fn is_datagram(&self, socket: SocketRef) -> bool {
        self.descriptions.of(socket).is(Flag::DATAGRAM)
    }

    /// Follows a successful bind(2): a UDP socket bound where the stack serves becomes the stack's too.
    ///
    /// # Errors
    /// ENETDOWN in strict mode if the stack does not serve it.
    pub fn bound(&self, fd: Fd, address: &[u8]) -> Answer<()> {
        let Parsed::Inet { address, .. } = parse(address) else { return Ok(()) };
        let is_group = is_ipv4_group(address.ip());
        if is_kernels(address.ip()) && !is_group || !self.is_udp(fd) {
            return Ok(());
        }
        let Some(channel) = self.channel()? else { return Ok(()) };
        match self.open_datagrams(channel, fd) {
            Ok(socket) => self.name_all_numbers(fd, socket),
            Err(Fallback::NotOurs) if is_group => {}
            Err(reason) => self.yield_to_kernel("bind", &address, reason)?,
        }
        Ok(())
    }

    /// The socket of ours that sends a datagram from the kernel socket `fd` to `address`. `None`: the kernel's call.
    pub fn datagram_socket_for(&self, fd: Fd, address: &[u8]) -> Option<Answer<SocketRef>> {
        let Parsed::Inet { address: remote, .. } = parse(address) else { return None };
        let is_group = is_ipv4_group(remote.ip());
        if is_kernels(remote.ip()) && !is_group || remote.ip().is_unspecified() || remote.port() == 0 {
            return None;
        }
        // A destination known to be the kernel's costs no system call.
        let is_known = self.routes.look_up(remote.ip().into(), self.kernel.now()) == Some(false);
        if is_known && self.may_be_kernels(Fallback::NotOurs).is_ok() || !self.is_udp(fd) || self.was_handed_over(fd) {
            return None;
        }
        let channel = match self.channel() {
            Ok(channel) => channel?,
            Err(error) => return Some(Err(error)),
        };
        if is_group && !self.leads(channel, None, remote, remote.ip().into()) {
            return None;
        }
        match self.open_towards(channel, fd, remote) {
            Ok(socket) => {
                self.name_all_numbers(fd, socket);
                Some(Ok(socket))
            }
            Err(reason) => self.leave_towards("sendto", remote, reason),
        }
    }

    /// connect(2) of a UDP socket of the kernel. `None`: it stays the kernel's.
    pub(crate) fn connect_datagram(&self, fd: Fd, remote: SocketAddr) -> Option<Answer<()>> {
        if is_kernels(remote.ip()) || remote.ip().is_unspecified() {
            return self.leave("connect", &remote, kernels_reason(remote.ip()));
        }
        let channel = match self.channel() {
            Ok(channel) => channel?,
            Err(error) => return Some(Err(error)),
        };
        let socket = match self.open_towards(channel, fd, remote) {
            Ok(socket) => socket,
            Err(reason) => return self.leave_towards("connect", remote, reason),
        };
        let answer = self.ask(channel, socket, Request::ConnectDatagrams { remote }, &mut []);
        if answer == Some(ControlAnswer::Done) {
            self.name_all_numbers(fd, socket);
            return Some(Ok(()));
        }
        self.abandon(channel, socket);
        self.leave_towards("connect", remote, answer.map_or(Fallback::NoAnswer, fallback_reason))
    }

    /// connect(2) of a socket of the stack. `None`: the kernel's call decides; the socket is the kernel's now.
    pub(crate) fn reconnect_datagram(&self, fd: Fd, socket: SocketRef, address: &[u8]) -> Option<Answer<()>> {
        let channel = self.attached()?;
        let nowhere = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
        let remote = match parse(address) {
            Parsed::Inet { address, .. } if address.port() != 0 && !is_kernels(address.ip()) => address,
            _ if is_unspecified_family(address) => nowhere,
            _ => {
                return self.surrender(fd, socket, Fallback::Loopback).err().map(Err);
            }
        };
        let answer = self.ask(channel, socket, Request::ConnectDatagrams { remote }, &mut []);
        if answer == Some(ControlAnswer::Done) {
            self.epoll_refresh(fd, socket);
            return Some(Ok(()));
        }
        self.surrender(fd, socket, answer.map_or(Fallback::NoAnswer, fallback_reason)).err().map(Err)
    }

    /// Returns true if the remote end is set.
    pub(crate) fn is_connected_datagram(&self, socket: SocketRef) -> bool {
        self.attached().and_then(|channel| channel.addresses(socket)).is_some_and(|(_, remote)| remote.port() != 0)
    }

    /// Opens a socket of the stack for the kernel's UDP socket `fd` if the stack reaches `remote`; binds `fd` if it has
    /// no port.
    fn open_towards(&self, channel: &dyn Channel, fd: Fd, remote: SocketAddr) -> Result<SocketRef, Fallback> {
        if self.service_is_dead() {
            return Err(Fallback::NoAnswer);
        }
        if self.routes.look_up(remote.ip().into(), self.kernel.now()) == Some(false) {
            return Err(Fallback::NotOurs);
        }
        let Parsed::Inet { address: local, inet6 } = self.local_name(fd) else { return Err(Fallback::NotOurs) };
        if is_kernels(local.ip()) {
            return Err(kernels_reason(local.ip()));
        }
        let speaks = if inet6 { remote.is_ipv6() || !self.is_v6_only(fd) } else { remote.is_ipv4() };
        if !speaks || !self.leads(channel, None, remote, remote.ip().into()) {
            return Err(Fallback::NotOurs);
        }
        if local.port() == 0 {
            let any: IpAddr = if inet6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
            let any = SocketName::new(SocketAddr::new(any, 0), inet6);
            self.kernel.bind(fd, any.bytes()).map_err(|_| Fallback::NoResources)?;
        }
        self.open_datagrams(channel, fd)
    }

    /// Lets the stack serve the port that `fd` is bound to; fails with the reason why the kernel goes on alone.
    fn open_datagrams(&self, channel: &dyn Channel, fd: Fd) -> Result<SocketRef, Fallback> {
        let Parsed::Inet { address: local, inet6 } = self.local_name(fd) else { return Err(Fallback::NotOurs) };
        if let Some(what) = self.kernels_option(fd, Known::datagram) {
            self.say_option(what);
            return Err(Fallback::OptionNotServed);
        }
        if !self.table.fits(fd) {
            return Err(Fallback::NumberTooHigh);
        }
        if self.rings.carry_sockets() {
            return Err(Fallback::IoUring);
        }
        let socket = channel.open(Place::First).ok_or(Fallback::NoResources)?;
        let flags: &[Flag] = if inet6 { &[Flag::DATAGRAM, Flag::INET6] } else { &[Flag::DATAGRAM] };
        self.descriptions.install(socket, flags);
        self.take_status(channel, fd, socket);
        self.copy_datagram_options(channel, fd, socket, inet6);
        let dual_stack = local.is_ipv6() && local.ip().is_unspecified() && !self.is_v6_only(fd);
        if !self.fix_port(fd, local, inet6) || !channel.show(socket, Purpose::Datagrams, fd) {
            self.abandon(channel, socket);
            return Err(Fallback::NotShown);
        }
        match self.ask(channel, socket, Request::Datagrams { local, dual_stack }, &mut []) {
            Some(ControlAnswer::Done) => Ok(socket),
            answer => {
                self.abandon(channel, socket);
                Err(answer.map_or(Fallback::NoAnswer, fallback_reason))
            }
        }
    }

    /// Fixes the port. A port that the kernel has chosen is freed when the socket is disconnected, so it is no right to
    /// show; an explicit one stays, and is bound here if needed. Returns false if the socket has lost its port.
    fn fix_port(&self, fd: Fd, local: SocketAddr, inet6: bool) -> bool {
        if self.kernel.is_connected(fd) {
            return true;
        }
        let nowhere = (libc::AF_UNSPEC as libc::sa_family_t).to_ne_bytes();
        let mut address = [0; size_of::<libc::sockaddr_in>()];
        address[..2].copy_from_slice(&nowhere);
        if self.kernel.connect(fd, &address).is_err() {
            return false;
        }
        match self.local_name(fd) {
            Parsed::Inet { address, .. } if address.port() == local.port() => true,
            _ => {
                let name = SocketName::new(local, inet6);
                let answer = self.kernel.bind(fd, name.bytes());
                answer.is_ok() || self.bind_to_own(fd, name.bytes()).is_some_and(|answer| answer.is_ok())
            }
        }
    }

    /// Makes the socket the kernel's alone, under all its numbers in this process.
    ///
    /// # Errors
    /// ENETDOWN in strict mode: the socket stays the stack's, and the call fails.
    pub(crate) fn surrender(&self, fd: Fd, socket: SocketRef, reason: Fallback) -> Answer<()> {
        self.yield_to_kernel("surrender", &fd, reason)?;
        if let Some(channel) = self.attached() {
            self.leave_stack(channel, socket);
        }
        // Another process may still have the stack's socket.
        self.epoll_forget(socket);
        Ok(())
    }

    /// Gives the kernel socket the remote end, which was only the stack's.
    pub(crate) fn give_back_peer(&self, channel: &dyn Channel, fd: Fd, socket: SocketRef) {
        if let Some((_, remote)) = channel.addresses(socket).filter(|(_, remote)| remote.port() != 0) {
            let name = SocketName::new(remote, self.descriptions.of(socket).is(Flag::INET6));
            if self.kernel.connect(fd, name.bytes()).is_err() {
                self.fall_back("connect", &remote, Fallback::NotOurs);
            }
        }
    }

    /// Events for which the kernel socket beside `socket` is watched if the program asks for `events`.
    pub(crate) fn shadow_events(&self, socket: SocketRef, events: u32) -> u32 {
        match (self.is_datagram(socket), self.is_connected_datagram(socket)) {
            (false, _) => events,
            (true, false) => events & !WRITE_SIDE,
            // Errors are always reported.
            (true, true) => events & !(WRITE_SIDE | READ_SIDE),
        }
    }

    /// Receives one datagram. `shadow socket` receives from the kernel's socket without waiting.
    ///
    /// # Blocking
    /// Until there is one, unless the socket or the call is non-blocking.
    pub fn receive_datagram(
        &self,
        at: Descriptor,
        pieces: &mut [IoSliceMut<'_>],
        how: Receive,
        shadow: &mut dyn FnMut() -> Answer<usize>,
    ) -> Answer<Arrival> {
        let Descriptor { fd, socket } = at;
        let Some(channel) = self.attached() else { return Ok(Arrival::Surrendered) };
        if how.urgent {
            return Err(Errno::OPNOTSUPP);
        }
        let mut attempt = || self.try_receive_datagram(at, pieces, how, shadow);
        match attempt() {
            Some(answer) => return answer,
            None if how.dont_wait || channel.nonblocking(socket) => return Err(Errno::AGAIN),
            None => {}
        }
        let deadline = self.deadline_after(self.kernel_timeout(fd, libc::SO_RCVTIMEO));
        // All that arrives for a connected socket is the stack's: if the service dies, the wait fails and the shadow takes over.
        let shadow = match self.is_connected_datagram(socket) {
            false => Some(Shadow::Traffic(fd)),
            true => self.descriptions.of(socket).is(Flag::KERNEL_ERRORS).then_some(Shadow::Errors(fd)),
        };
        match self.block_on(Wait { socket, shadow, deadline }, attempt) {
            Err(Errno::MOVED) => Ok(Arrival::Surrendered),
            Err(Errno::CONNRESET) if self.service_is_dead() => {
                self.surrender(fd, socket, Fallback::NoAnswer).map(|()| Arrival::Surrendered)
            }
            answer => answer,
        }
    }

    fn try_receive_datagram(
        &self,
        Descriptor { fd, socket }: Descriptor,
        pieces: &mut [IoSliceMut<'_>],
        how: Receive,
        shadow: &mut dyn FnMut() -> Answer<usize>,
    ) -> Option<Answer<Arrival>> {
        let Some(channel) = self.attached() else { return Some(Ok(Arrival::Surrendered)) };
        let description = self.descriptions.of(socket);
        let taking = if how.peek { Taking::Peek } else { Taking::Take };
        match channel.receive_datagram(socket, pieces, taking) {
            Ok(received) => {
                description.stamp.store(received.envelope.received_at.as_nanos(), Ordering::Relaxed);
                return Some(Ok(Arrival::Stack(received)));
            }
            Err(TransferError::WouldBlock | TransferError::NotConnected | TransferError::Failed(Failure::ServiceGone))
                if self.has_moved(channel, socket) =>
            {
                return Some(Ok(Arrival::Surrendered));
            }
            Err(TransferError::WouldBlock) => {}
            Err(TransferError::Failed(Failure::ServiceGone) | TransferError::NotConnected | TransferError::Closed) => {
                return Some(self.surrender(fd, socket, Fallback::NoAnswer).map(|()| Arrival::Surrendered));
            }
            Err(TransferError::Failed(failure)) => match failure.kernel_reason() {
                Some(reason) => return Some(self.surrender(fd, socket, reason.into()).map(|()| Arrival::Surrendered)),
                None if description.is(Flag::KERNEL_ERRORS) => {}
                None => return Some(Err(Errno::from(failure))),
            },
        }
        if description.is(Flag::READ_SHUT) {
            return Some(Ok(Arrival::End));
        }
        if self.is_connected_datagram(socket) {
            return self.kernel_error(fd, socket).map(Err);
        }
        match shadow() {
            Err(Errno::AGAIN) => None,
            answer => {
                description.stamp.store(0, Ordering::Relaxed);
                Some(answer.map(Arrival::Kernel))
            }
        }
    }

    /// With IP_RECVERR the kernel's socket collects the errors.
    fn kernel_error(&self, fd: Fd, socket: SocketRef) -> Option<Errno> {
        if !self.descriptions.of(socket).is(Flag::KERNEL_ERRORS) {
            return None;
        }
        self.kernel_number(fd, libc::SOL_SOCKET, libc::SO_ERROR).filter(|&number| number != 0).map(Errno)
    }

    /// Sends one datagram, or several (`segment_size`), from a socket of ours. `None`: the kernel socket must send it.
    ///
    /// # Blocking
    /// Until there is space, unless the socket or the call is non-blocking.
    pub fn send_datagram(&self, at: Descriptor, message: Outgoing<'_>, how: Send) -> Option<Answer<usize>> {
        let (socket, Outgoing { to, control, pieces }) = (at.socket, message);
        let channel = self.attached()?;
        let description = self.descriptions.of(socket);
        let more = how.more || description.is(Flag::CORKED);
        if description.is(Flag::KERNELS_PIECES) {
            if !more {
                description.unmark(Flag::KERNELS_PIECES);
            }
            return None;
        }
        // net/ipv6/udp.c, udpv6_sendmsg does not look at MSG_OOB.
        if how.urgent && !description.is(Flag::INET6) {
            return Some(Err(Errno::OPNOTSUPP));
        }
        let len: usize = pieces.iter().map(|piece| piece.len()).sum();
        match self.add_piece(description, Piece { to, bytes: pieces, more }) {
            Added::Nothing => {}
            Added::Kept => return Some(Ok(len)),
            Added::Refused(error) => return Some(Err(error)),
            Added::Complete(datagram) => return Some(self.send_complete(at, datagram, len, how)),
        }
        let Some((peer, remote)) = self.datagram_peer(channel, at, to) else {
            return self.leave_to_kernel(description, to, more);
        };
        if len > payload_max(remote.is_ipv4()) {
            return Some(Err(Errno::MSGSIZE));
        }
        if how.urgent && remote.is_ipv4() {
            return Some(Err(Errno::OPNOTSUPP));
        }
        if description.is(Flag::WRITE_SHUT) {
            if !how.no_signal {
                self.kernel.raise_broken_pipe();
            }
            return Some(Err(Errno::PIPE));
        }
        let mut envelope = Envelope { len, peer, ..Envelope::default() };
        let sends = match (description.is(Flag::INET6), remote.is_ipv4()) {
            (false, _) => Sends::Ipv4,
            (true, true) => Sends::Mapped,
            (true, false) => Sends::Ipv6,
        };
        if let Err(error) = control::apply(&mut envelope, control, sends) {
            return Some(Err(error));
        }
        let way = Way { remote: remote.ip(), source: envelope.local, interface: envelope.interface };
        if way != remote.ip().into() && !self.leads(channel, Some(socket), remote, way) {
            // Another interface, another address, or an invalid one: the kernel sends it, or returns the error.
            return self.leave_to_kernel(description, Some(SocketName::new(remote, description.is(Flag::INET6)).bytes()), more);
        }
        if more {
            return Some(self.begin_datagram(description, envelope, remote, pieces).map(|()| len));
        }
        self.queue_datagram(at, &envelope, pieces, how)
    }

    /// Leaves the datagram, and further pieces of it, to the kernel's socket.
    fn leave_to_kernel(&self, description: &Description, to: Option<&[u8]>, more: bool) -> Option<Answer<usize>> {
        if let Some(Err(error)) = to.map(|to| self.may_kernel_reach(to)) {
            return Some(Err(error));
        }
        if more {
            description.mark(Flag::KERNELS_PIECES);
        }
        None
    }

    /// Destination of a datagram: for its envelope, and as an address. `None`: the kernel's socket must send it.
    fn datagram_peer(
        &self,
        channel: &dyn Channel,
        Descriptor { fd, socket }: Descriptor,
        to: Option<&[u8]>,
    ) -> Option<(Option<SocketAddr>, SocketAddr)> {
        match to.map(parse) {
            None if self.is_connected_datagram(socket) => channel.addresses(socket).map(|(_, remote)| (None, remote)),
            Some(Parsed::Inet { address, inet6 }) => {
                let speaks = self.descriptions.of(socket).is(Flag::INET6) || !inet6;
                let named = speaks && address.port() != 0 && (!is_kernels(address.ip()) || is_ipv4_group(address.ip()));
                let leads = named && self.leads(channel, Some(socket), address, address.ip().into());
                let ours = leads && !(is_ipv4_group(address.ip()) && self.names_interface(fd));
                ours.then_some((Some(address), address))
            }
            // The kernel returns the error.
            None | Some(Parsed::Other) => None,
        }
    }

    /// Returns true if the program wants datagrams to groups to leave through an interface of the kernel's.
    fn names_interface(&self, fd: Fd) -> bool {
        self.kernel_number(fd, libc::IPPROTO_IP, libc::IP_MULTICAST_IF).is_some_and(|address| address != 0)
    }

    /// Sends the datagram that the last piece, of `len` bytes, has completed. Without space the piece is not taken.
    fn send_complete(&self, at: Descriptor, datagram: Unfinished, len: usize, how: Send) -> Answer<usize> {
        let bytes = [IoSlice::new(&datagram.bytes)];
        match self.queue_datagram(at, &datagram.envelope, &bytes, how) {
            Some(Err(Errno::AGAIN)) => {
                self.take_piece_back(self.descriptions.of(at.socket), datagram, len);
                Err(Errno::AGAIN)
            }
            // The service has died, and the kernel's socket lacks the other pieces: the datagram is lost.
            None => Ok(len),
            Some(answer) => answer.map(|_| len),
        }
    }

    fn queue_datagram(
        &self,
        Descriptor { fd, socket }: Descriptor,
        envelope: &Envelope,
        pieces: &[IoSlice<'_>],
        how: Send,
    ) -> Option<Answer<usize>> {
        let channel = self.attached()?;
        if let Some(error) = self.kernel_error(fd, socket) {
            return Some(Err(error));
        }
        let mut gone = None;
        let mut attempt = || match channel.send_datagram(socket, envelope, pieces) {
            Ok(()) => Some(Ok(envelope.len)),
            Err(TransferError::WouldBlock | TransferError::NotConnected) if self.has_moved(channel, socket) => {
                Some(Err(Errno::MOVED))
            }
            // It has, but for what the program has not read.
            Err(TransferError::WouldBlock) if channel.handover(socket) == Some(Handover::Moved) => {
                gone = Some(Fallback::NoAnswer);
                Some(Err(Errno::CONNRESET))
            }
            Err(TransferError::WouldBlock) => None,
            Err(TransferError::Failed(Failure::ServiceGone) | TransferError::NotConnected | TransferError::Closed) => {
                gone = Some(Fallback::NoAnswer);
                Some(Err(Errno::CONNRESET))
            }
            Err(TransferError::Failed(failure)) => {
                gone = failure.kernel_reason().map(Fallback::from);
                Some(Err(Errno::from(failure)))
            }
        };
        let answer = match attempt() {
            Some(answer) => answer,
            None if how.dont_wait || channel.nonblocking(socket) => Err(Errno::AGAIN),
            None => {
                let deadline = self.deadline_after(self.kernel_timeout(fd, libc::SO_SNDTIMEO));
                self.block_on(Wait { socket, shadow: None, deadline }, attempt)
            }
        };
        if answer == Err(Errno::MOVED) {
            return None;
        }
        let is_over = answer == Err(Errno::CONNRESET) && self.service_is_dead();
        if let Some(reason) = gone.or(is_over.then_some(Fallback::NoAnswer)) {
            if self.has_waiting(channel, socket) && !self.is_strict() {
                // It leaves when the program has read what waits.
                self.give_back_peer(channel, fd, socket);
                return None;
            }
            return self.surrender(fd, socket, reason).err().map(Err);
        }
        Some(answer)
    }

    /// The sender's name, the ancillary data requested by the program that fits into `room` bytes, and whether some did
    /// not fit.
    pub fn describe_datagram(&self, socket: SocketRef, envelope: &Envelope, room: usize) -> (RawAddress, Vec<u8>, bool) {
        let description = self.descriptions.of(socket);
        let inet6 = description.is(Flag::INET6);
        let unknown = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
        let name = SocketName::new(envelope.peer.unwrap_or(unknown), inet6);
        let wanted = self.ancillary(socket);
        let came = if wanted & control::ANY_STAMP == 0 { Duration::ZERO } else { self.on_wall_clock(envelope.received_at) };
        let (control, cut) = control::cut(control::describe(envelope, wanted, came, inet6), room);
        (name.into(), control, cut)
    }

    /// Converts an instant to wall-clock time since 1970.
    pub(crate) fn on_wall_clock(&self, then: Instant) -> Duration {
        let passed = self.kernel.now().since(then);
        Duration::from_nanos(self.kernel.wall_clock().as_nanos().saturating_sub(passed.as_nanos()))
    }

    fn kernel_timeout(&self, fd: Fd, name: i32) -> u64 {
        let mut bytes = [0; 16];
        match self.kernel.option(fd, libc::SOL_SOCKET, name, &mut bytes) {
            Ok(len) => timeout_nanos(&bytes[..len.min(16)]).unwrap_or(0),
            Err(_) => 0,
        }
    }
}

/// Returns true for a multicast group that the stack may receive for.
fn is_ipv4_group(ip: IpAddr) -> bool {
    ip.is_ipv4() && ip.is_multicast()
}

/// The 16-bit length field counts the headers of IP and UDP in IPv4, that of UDP only in IPv6.
fn payload_max(is_ipv4: bool) -> usize {
    if is_ipv4 { 65_507 } else { 65_527 }
}

const READ_SIDE: u32 = (libc::POLLIN | libc::POLLRDNORM | libc::POLLPRI) as u32;
const WRITE_SIDE: u32 = (libc::POLLOUT | libc::POLLWRNORM | libc::POLLWRBAND) as u32;
