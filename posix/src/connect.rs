//! connect(2): decides whether a client's socket becomes the stack's or stays the kernel's.

use crate::Posix;
use crate::address::{Parsed, is_kernels, parse};
use crate::blocking::Wait;
use crate::channel::{Channel, ControlAnswer, Place, Purpose, Request, State};
use crate::descriptions::Flag;
use crate::errno::{Answer, Errno};
use crate::fallback::Fd;
use crate::fd_table::{Descriptor, SocketRef};
use crate::options::table::Known;
use crate::reasons::Fallback;
use crate::socket::{fallback_reason, kernels_reason};
use crate::stream::Send;
use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::Ordering;

impl Posix {
    /// connect(2). `None`: the kernel's call.
    ///
    /// # Blocking
    /// Until the handshake is over unless the socket is non-blocking; always until the worker has answered whether the
    /// destination is the stack's.
    pub fn connect(&self, fd: Fd, address: &[u8]) -> Option<Answer<()>> {
        if let Some(socket) = self.socket_of(fd) {
            if self.is_datagram(socket) {
                return self.reconnect_datagram(fd, socket, address);
            }
            if is_unspecified_family(address) {
                return Some(self.disconnect(fd, socket));
            }
            match self.connect_again(socket) {
                Some(answer) => return Some(answer),
                None => self.dissolve(fd, socket),
            }
        }
        let Parsed::Inet { address: remote, inet6 } = parse(address) else { return None };
        if self.was_handed_over(fd) {
            return None;
        }
        if remote.port() != 0 && self.is_udp(fd) {
            return self.connect_datagram(fd, remote);
        }
        if !self.is_tcp(fd) {
            return None;
        }
        if is_kernels(remote.ip()) || remote.ip().is_unspecified() {
            return self.leave("connect", &remote, kernels_reason(remote.ip()));
        }
        if remote.port() == 0 {
            return self.leave("connect", &remote, Fallback::NotOurs);
        }
        let channel = match self.channel() {
            Ok(channel) => channel?,
            Err(error) => return Some(Err(error)),
        };
        self.connect_on_stack(channel, fd, remote, inet6)
    }

    fn connect_on_stack(&self, channel: &dyn Channel, fd: Fd, remote: SocketAddr, inet6: bool) -> Option<Answer<()>> {
        let local = self.bound_for(fd, remote, inet6)?;
        if let Some(local) = local.filter(|local| is_kernels(local.ip())) {
            return self.leave("connect", &local, kernels_reason(local.ip()));
        }
        if self.service_is_dead() {
            return self.leave("connect", &remote, Fallback::NoAnswer);
        }
        if self.rings.carry_sockets() {
            return self.leave("connect", &remote, Fallback::IoUring);
        }
        if let Some(what) = self.kernels_option(fd, Known::stream) {
            return self.leave("connect", &what, Fallback::OptionNotServed);
        }
        let place = if local.is_some_and(|local| local.port() != 0) { Place::First } else { Place::Any };
        let Some(socket) = self.open_socket(channel, fd, inet6, place) else {
            return self.leave("connect", &remote, Fallback::NoResources);
        };
        self.copy_kernel_options(channel, fd, socket, Some(remote.ip()));
        let has_port = local.is_some_and(|local| local.port() != 0);
        if self.is_elsewhere(channel, fd) || has_port && !channel.show(socket, Purpose::Connect, fd) {
            self.abandon(channel, socket);
            return self.leave("connect", &remote, Fallback::NotShown);
        }
        let answer = self.ask(channel, socket, Request::Connect { local, remote }, &mut []);
        if answer == Some(ControlAnswer::Done) {
            self.name_all_numbers(fd, socket);
            let is_deferred = self.is_deferred(channel, socket);
            if is_deferred {
                self.descriptions.of(socket).mark(Flag::OPENS_WITH_DATA);
            }
            return Some(if channel.nonblocking(socket) && !is_deferred {
                Err(Errno::INPROGRESS)
            } else {
                self.finish_connect(socket, Errno::INPROGRESS)
            });
        }
        self.abandon(channel, socket);
        match answer {
            Some(ControlAnswer::InUse | ControlAnswer::AddressNotAvailable) => Some(Err(Errno::ADDRNOTAVAIL)),
            answer => self.leave_towards("connect", remote, answer.map_or(Fallback::NoAnswer, fallback_reason)),
        }
    }

    /// TCP_FASTOPEN_CONNECT: the SYN waits for the first data, and the program does not wait for the SYN.
    fn is_deferred(&self, channel: &dyn Channel, socket: SocketRef) -> bool {
        self.connects_fast(socket) && channel.view(socket).is_some_and(|view| view.state == State::Connected)
    }

    /// sendto(2) and sendmsg(2) with MSG_FASTOPEN on an unconnected socket: connects, and sends with the SYN if there
    /// is a cookie (RFC 7413). `None`: the kernel's call.
    ///
    /// # Blocking
    /// Like [`connect`](Posix::connect), then like [`send`](Posix::send).
    pub fn send_fast(&self, fd: Fd, address: &[u8], pieces: &[IoSlice<'_>], how: Send) -> Option<Answer<usize>> {
        let on = 1_i32.to_ne_bytes();
        if self.kernel.set_option(fd, libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT, &on).is_err() {
            return self.may_kernel_reach(address).err().map(Err).filter(|_| self.is_tcp(fd));
        }
        self.note_option(fd, libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT, &on);
        match self.connect(fd, address)? {
            Err(error) => Some(Err(error)),
            Ok(()) => {
                let at = Descriptor { fd, socket: self.table.socket(fd)? };
                let sent = self.send(at.socket, pieces, how);
                Some(self.settled(at, sent).unwrap_or_else(|| self.kernel.write(fd, pieces)))
            }
        }
    }

    /// The address that the socket is bound to (`Some(None)`: none), in the family of `remote`. `None`: socket and
    /// address do not fit together, and the kernel returns the error.
    fn bound_for(&self, fd: Fd, remote: SocketAddr, inet6: bool) -> Option<Option<SocketAddr>> {
        let Parsed::Inet { address: local, inet6: family } = self.local_name(fd) else { return None };
        if family != inet6 || (inet6 && remote.is_ipv4() && self.is_v6_only(fd)) {
            return None;
        }
        match (local.ip().is_unspecified(), local.port()) {
            (true, _) if local.is_ipv4() && remote.is_ipv6() => None,
            (true, 0) => Some(None),
            (true, port) => {
                let any: IpAddr = if remote.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
                Some(Some(SocketAddr::new(any, port)))
            }
            (false, _) => (local.is_ipv4() == remote.is_ipv4()).then_some(Some(local)),
        }
    }

    /// connect(2) on a socket that is the stack's already. `None`: a failed attempt, or a background connection that
    /// has ended, was reported by an earlier call; connect anew (net/ipv4/af_inet.c, __inet_stream_connect).
    fn connect_again(&self, socket: SocketRef) -> Option<Answer<()>> {
        let Some(channel) = self.attached() else { return Some(Err(Errno::CONNABORTED)) };
        let Some(view) = channel.view(socket) else { return Some(Err(Errno::CONNABORTED)) };
        let description = self.descriptions.of(socket);
        match view.state {
            State::Connecting if channel.nonblocking(socket) => Some(Err(Errno::ALREADY)),
            // net/ipv4/af_inet.c, __inet_stream_connect: a second call that stops waiting returns EALREADY.
            State::Connecting => Some(self.finish_connect(socket, Errno::ALREADY)),
            State::Connected if description.mark(Flag::CONNECT_REPORTED) => Some(Err(Errno::ISCONN)),
            State::Connected => Some(Ok(())),
            State::Listening => Some(Err(Errno::ISCONN)),
            State::Free => Some(Err(Errno::ALREADY)),
            State::Closed if description.is(Flag::CONNECT_REPORTED) => Some(Err(Errno::ISCONN)),
            State::Closed if description.mark(Flag::CONNECT_FAILED) => None,
            State::Closed => Some(Err(self.take_failure(socket).unwrap_or(Errno::CONNABORTED))),
        }
    }

    /// Waits for the end of the handshake; returns `unfinished` if SO_SNDTIMEO passes first.
    fn finish_connect(&self, socket: SocketRef, unfinished: Errno) -> Answer<()> {
        let channel = self.attached().ok_or(Errno::CONNABORTED)?;
        let description = self.descriptions.of(socket);
        let attempt = || {
            // net/ipv4/tcp.c, tcp_disconnect: another thread has given the attempt up.
            let Some(view) = channel.view(socket) else { return Some(Err(Errno::CONNRESET)) };
            match view.state {
                State::Free | State::Connecting => None,
                State::Closed => {
                    description.mark(Flag::CONNECT_FAILED);
                    Some(Err(self.take_failure(socket).unwrap_or(Errno::CONNABORTED)))
                }
                State::Connected | State::Listening => {
                    description.mark(Flag::CONNECT_REPORTED);
                    Some(Ok(()))
                }
            }
        };
        let deadline = self.deadline_after(description.send_timeout.load(Ordering::Acquire));
        match self.block_on(Wait { socket, shadow: None, deadline }, attempt) {
            Err(Errno::AGAIN) => Err(unfinished),
            // Only a connection moves.
            Err(Errno::MOVED) => Ok(()),
            answer => answer,
        }
    }

    /// connect(2) with AF_UNSPEC: dissolves the association; the descriptor is a fresh kernel socket again.
    pub(crate) fn disconnect(&self, fd: Fd, socket: SocketRef) -> Answer<()> {
        // net/ipv4/tcp.c, tcp_disconnect: the peer gets a RST, as with a linger time of zero.
        self.descriptions.of(socket).linger.store(0, Ordering::Release);
        self.dissolve(fd, socket);
        Ok(())
    }

    fn dissolve(&self, fd: Fd, socket: SocketRef) {
        if let Some(channel) = self.attached() {
            self.give_back_status(channel, fd, socket);
        }
        self.let_go(fd);
        // Another process may still have the stack's socket.
        self.epoll_forget(socket);
    }
}

pub(crate) fn is_unspecified_family(address: &[u8]) -> bool {
    address.first_chunk::<2>().is_some_and(|family| i32::from(u16::from_ne_bytes(*family)) == libc::AF_UNSPEC)
}

#[cfg(test)]
mod tests;
