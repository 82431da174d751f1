//! listen, shutdown, getsockname, getpeername; and code shared by all ways to open and close a socket.
//!
//! A TCP socket begins as the kernel's: the program's number is a real kernel socket, on which `bind` and options take
//! effect. Only `listen` and `connect` decide. Nothing is stored before that: at the decision the kernel tells what a
//! descriptor is, and which options it has.

use crate::Posix;
use crate::address::{Parsed, SocketName, is_kernels, parse};
use crate::blocking::Wait;
use crate::channel::{Channel, ControlAnswer, Place, Purpose, Request, SocketOption, State, Workers};
use crate::descriptions::Flag;
use crate::errno::{Answer, Errno};
use crate::fallback::{Fd, RawAddress};
use crate::fd_table::{Entry, SocketRef};
use crate::options::table::Known;
use crate::reasons::Fallback;
use ringway_shm::Duration;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering;

/// Linux 5.14.
const SO_NETNS_COOKIE: i32 = 71;

impl Posix {
    /// After a bind(2) that failed because the kernel lacks the address: if it is the stack's own, as on a TAP
    /// interface, binds the kernel socket with IP_FREEBIND, so that its name and port are as requested. `None`: it is
    /// not the stack's.
    pub fn bind_to_own(&self, fd: Fd, address: &[u8]) -> Option<Answer<()>> {
        let Parsed::Inet { address: local, inet6 } = parse(address) else { return None };
        let channel = self.channel().ok()??;
        if self.ask_once(channel, Request::Owns { local }) != Some(ControlAnswer::Done) {
            return None;
        }
        let (level, name) = if inet6 { (libc::IPPROTO_IPV6, libc::IPV6_FREEBIND) } else { (libc::IPPROTO_IP, libc::IP_FREEBIND) };
        let set = |value: i32| self.kernel.set_option(fd, level, name, &value.to_ne_bytes());
        set(1).ok()?;
        let answer = self.kernel.bind(fd, address);
        Some(set(0).and(answer))
    }

    /// listen(2). `None`: the kernel's call decides alone.
    pub fn listen(&self, fd: Fd, backlog: i32) -> Option<Answer<()>> {
        if let Some(socket) = self.socket_of(fd) {
            if self.is_datagram(socket) {
                return None;
            }
            return Some(self.listen_again(fd, socket, backlog));
        }
        if !self.is_tcp(fd) || self.was_handed_over(fd) {
            return None;
        }
        let channel = match self.channel() {
            Ok(channel) => channel?,
            Err(error) => return Some(Err(error)),
        };
        let listened = match self.kernel.listen(fd, backlog) {
            Err(Errno::ADDRINUSE) if self.settle_ports() => self.kernel.listen(fd, backlog),
            answer => answer,
        };
        if let Err(error) = listened {
            return Some(Err(error));
        }
        let answer = self.listen_on_stack(channel, fd, backlog, Purpose::Listen);
        if answer.is_err() {
            // The kernel's listener must not go on alone.
            self.kernel.shutdown(fd, libc::SHUT_RDWR).ok();
        }
        Some(answer)
    }

    /// Lets the stack serve the port too. If it does not, the kernel's listener stays as it is, unless strict mode
    /// forbids it.
    pub(crate) fn listen_on_stack(&self, channel: &dyn Channel, fd: Fd, backlog: i32, purpose: Purpose) -> Answer<()> {
        let Parsed::Inet { address: local, inet6 } = self.local_name(fd) else {
            return self.yield_to_kernel("listen", &fd, Fallback::NotOurs);
        };
        if is_kernels(local.ip()) {
            return self.yield_to_kernel("listen", &local, kernels_reason(local.ip()));
        }
        if self.rings.carry_sockets() {
            return self.yield_to_kernel("listen", &local, Fallback::IoUring);
        }
        if let Some(what) = self.kernels_option(fd, Known::stream) {
            return self.yield_to_kernel("listen", &what, Fallback::OptionNotServed);
        }
        let dual_stack = local.is_ipv6() && local.ip().is_unspecified() && !self.is_v6_only(fd);
        let Some(socket) = self.open_socket(channel, fd, inet6, Place::Every) else {
            return self.yield_to_kernel("listen", &local, Fallback::NoResources);
        };
        self.copy_kernel_options(channel, fd, socket, None);
        let backlog = u32::try_from(backlog).unwrap_or(u32::MAX);
        if !channel.show(socket, purpose, fd) {
            self.abandon(channel, socket);
            return self.yield_to_kernel("listen", &local, Fallback::NotShown);
        }
        let listen = |workers| self.ask(channel, socket, Request::Listen { local, backlog, dual_stack, workers }, &mut []);
        let answer = match listen(Workers::First) {
            Some(ControlAnswer::Done) if channel.is_served_by_several(socket) => listen(Workers::All),
            answer => answer,
        };
        match answer {
            Some(ControlAnswer::Done) if self.make_shadow(fd) => {
                self.name_all_numbers(fd, socket);
                Ok(())
            }
            answer => {
                self.abandon(channel, socket);
                self.yield_to_kernel("listen", &local, answer.map_or(Fallback::NoAnswer, fallback_reason))
            }
        }
    }

    fn listen_again(&self, fd: Fd, socket: SocketRef, backlog: i32) -> Answer<()> {
        match self.attached().and_then(|channel| channel.view(socket)) {
            Some(view) if view.state == State::Listening => self.kernel.listen(fd, backlog),
            _ => Err(Errno::INVAL),
        }
    }

    /// After EADDRINUSE of bind(2): waits for the service, which may still hold the port for a socket just closed or a
    /// process just dead. Returns true if the caller must try again.
    pub fn settle_ports(&self) -> bool {
        let Ok(Some(channel)) = self.channel() else { return false };
        // Earlier requests are done when this one is answered.
        let any = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
        let answered = self.ask_once(channel, Request::Owns { local: any }).is_some();
        if answered {
            channel.settle();
        }
        answered
    }

    /// Makes the kernel listener non-blocking: `accept` asks it only if the stack has nothing.
    fn make_shadow(&self, fd: Fd) -> bool {
        let set = |flags| self.kernel.set_status_flags(fd, flags | libc::O_NONBLOCK);
        self.kernel.status_flags(fd).and_then(set).is_ok()
    }

    /// Opens a slot for the program's kernel socket `fd`, held by this process.
    pub(crate) fn open_socket(&self, channel: &dyn Channel, fd: Fd, inet6: bool, place: Place) -> Option<SocketRef> {
        if !self.table.fits(fd) {
            return None;
        }
        let socket = channel.open(place)?;
        self.descriptions.install(socket, if inet6 { &[Flag::INET6] } else { &[] });
        self.take_status(channel, fd, socket);
        Some(socket)
    }

    /// Makes the program's kernel socket `fd` this socket of the stack.
    pub(crate) fn name_number(&self, fd: Fd, socket: SocketRef) {
        let _inside = self.fork_gate.enter();
        self.set_socket(fd, socket);
    }

    /// Inside the gate: makes the number one of this socket.
    pub(crate) fn set_socket(&self, fd: Fd, socket: SocketRef) {
        self.descriptions.of(socket).number.store(fd, Ordering::Relaxed);
        self.table.set(fd, Entry::Socket(socket));
        if let Some(channel) = self.attached() {
            channel.note_descriptor(socket, fd);
            if self.waits.is_confined() {
                channel.note_confined(socket);
            }
        }
    }

    /// Closes a socket that never got a descriptor.
    pub(crate) fn abandon(&self, channel: &dyn Channel, socket: SocketRef) {
        self.descriptions.of(socket).unrefer();
        if channel.release(socket) {
            channel.close(socket, None);
        }
    }

    /// Makes a request that concerns no socket, through a temporary slot.
    pub(crate) fn ask_once(&self, channel: &dyn Channel, request: Request) -> Option<ControlAnswer> {
        let asking = channel.open(Place::First)?;
        let answer = self.ask(channel, asking, request, &mut []);
        if channel.release(asking) {
            channel.close(asking, None);
        }
        answer
    }

    /// Makes a request and waits for the answer; signals do not interrupt this. `None`: the service is dead or does not
    /// answer.
    pub(crate) fn ask(
        &self,
        channel: &dyn Channel,
        socket: SocketRef,
        request: Request,
        bytes: &mut [u8],
    ) -> Option<ControlAnswer> {
        let deadline = Some(self.kernel.now() + ANSWER_TIMEOUT);
        let ticket = loop {
            if let Some(ticket) = channel.request(socket, request) {
                break ticket;
            }
            if self.service_is_dead() || channel.view(socket).is_none() || deadline <= Some(self.kernel.now()) {
                return None;
            }
            self.kernel.pause(Duration::from_micros(20));
        };
        loop {
            if let Some(answer) = channel.answer(ticket, bytes) {
                return Some(answer);
            }
            let wait = Wait { socket, shadow: None, deadline };
            match self.block_on(wait, || channel.answer(ticket, bytes).map(Ok)) {
                Ok(answer) => return Some(answer),
                Err(Errno::INTR) => {}
                Err(_) => {
                    channel.abandon(ticket);
                    return None;
                }
            }
        }
    }

    /// shutdown(2) on a socket of ours.
    pub fn shutdown(&self, fd: Fd, socket: SocketRef, how: i32) -> Answer<()> {
        let (read, write) = match how {
            libc::SHUT_RD => (true, false),
            libc::SHUT_WR => (false, true),
            libc::SHUT_RDWR => (true, true),
            _ => return Err(Errno::INVAL),
        };
        let channel = self.attached().ok_or(Errno::NOTCONN)?;
        let view = channel.view(socket).ok_or(Errno::NOTCONN)?;
        match view.state {
            State::Listening if read => {
                self.kernel.shutdown(fd, how)?;
                // What is left is a bound socket, which may listen anew (net/ipv4/af_inet.c, inet_shutdown).
                self.leave_stack(channel, socket);
                channel.close(socket, Some(0));
                return Ok(());
            }
            State::Listening => return Ok(()),
            // net/ipv4/af_inet.c, inet_shutdown: both directions have ended.
            State::Connected if view.hung_up => return Err(Errno::NOTCONN),
            // net/ipv4/af_inet.c, inet_shutdown: the attempt is over, and the socket is fresh again.
            State::Connecting => return self.disconnect(fd, socket),
            State::Connected => {}
            State::Closed if !view.hung_up => {}
            _ => return Err(Errno::NOTCONN),
        }
        let description = self.descriptions.of(socket);
        if view.state == State::Connected && !description.is(Flag::DATAGRAM) {
            // net/ipv4/af_inet.c, inet_shutdown: a program that shuts down knows that it is connected.
            description.mark(Flag::CONNECT_REPORTED);
        }
        if read && !description.mark(Flag::READ_SHUT) && !description.is(Flag::DATAGRAM) {
            channel.set_option(socket, SocketOption::ReadShut, 1);
        }
        if description.is(Flag::DATAGRAM) {
            if write {
                description.mark(Flag::WRITE_SHUT);
            }
            // Wakes waiting threads. net/ipv4/af_inet.c, inet_shutdown: an unconnected socket is shut down and returns
            // an error.
            channel.shutdown_write(socket);
            return if self.is_connected_datagram(socket) { Ok(()) } else { Err(Errno::NOTCONN) };
        }
        if write && !description.mark(Flag::WRITE_SHUT) {
            channel.shutdown_write(socket);
        }
        Ok(())
    }

    /// getsockname(2) on a socket of ours.
    pub fn local_socket_name(&self, fd: Fd, socket: SocketRef) -> Answer<RawAddress> {
        let channel = self.attached().ok_or(Errno::NOTCONN)?;
        let description = self.descriptions.of(socket);
        match (channel.view(socket), channel.addresses(socket)) {
            (Some(view), Some((local, _))) if view.state != State::Listening && local.port() != 0 => {
                Ok(SocketName::new(local, description.is(Flag::INET6)).into())
            }
            _ => self.kernel.local_address(fd),
        }
    }

    /// getpeername(2) on a socket of ours.
    pub fn peer_socket_name(&self, socket: SocketRef) -> Answer<RawAddress> {
        let channel = self.attached().ok_or(Errno::NOTCONN)?;
        let view = channel.view(socket).ok_or(Errno::NOTCONN)?;
        let (_, remote) = channel.addresses(socket).ok_or(Errno::NOTCONN)?;
        // net/ipv4/af_inet.c, inet_getname: not in CLOSE, LISTEN or SYN-SENT.
        if view.state != State::Connected || view.hung_up || remote.port() == 0 {
            return Err(Errno::NOTCONN);
        }
        Ok(SocketName::new(remote, self.descriptions.of(socket).is(Flag::INET6)).into())
    }

    /// Returns true if the kernel socket belongs to another network namespace than the one that the service serves.
    pub(crate) fn is_elsewhere(&self, channel: &dyn Channel, fd: Fd) -> bool {
        let mut bytes = [0; 8];
        let asked = self.kernel.option(fd, libc::SOL_SOCKET, SO_NETNS_COOKIE, &mut bytes);
        channel.network().is_some_and(|network| asked.is_ok() && u64::from_ne_bytes(bytes) != network)
    }

    /// Returns true for a TCP socket of the kernel that may still become the stack's.
    pub fn is_undecided(&self, fd: Fd) -> bool {
        self.is_tcp(fd) && !self.kernel.is_connected(fd)
    }

    /// Returns true for a kernel UDP socket.
    pub(crate) fn is_udp(&self, fd: Fd) -> bool {
        self.kernel_number(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL) == Some(libc::IPPROTO_UDP)
    }

    /// Returns true for a kernel TCP socket.
    pub(crate) fn is_tcp(&self, fd: Fd) -> bool {
        self.kernel_number(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL) == Some(libc::IPPROTO_TCP)
    }

    pub(crate) fn is_v6_only(&self, fd: Fd) -> bool {
        self.kernel_number(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) != Some(0)
    }

    pub(crate) fn local_name(&self, fd: Fd) -> Parsed {
        match self.kernel.local_address(fd) {
            Ok(name) => parse(name.as_slice()),
            Err(_) => Parsed::Other,
        }
    }

    /// A number-valued option of a kernel socket.
    pub(crate) fn kernel_number(&self, fd: Fd, level: i32, name: i32) -> Option<i32> {
        let mut bytes = [0; 4];
        let len = self.kernel.option(fd, level, name, &mut bytes).ok()?;
        (len == 4).then(|| i32::from_ne_bytes(bytes))
    }
}

/// Reason why an address is the kernel's.
pub(crate) fn kernels_reason(ip: IpAddr) -> Fallback {
    match ip {
        IpAddr::V6(ip) if ip.is_unicast_link_local() => Fallback::LinkLocal,
        ip if ip.is_loopback() || ip.is_unspecified() => Fallback::Loopback,
        ip if is_kernels(ip) => Fallback::Multicast,
        _ => Fallback::NotOurs,
    }
}

/// Counter of an answer other than `Done`.
pub(crate) fn fallback_reason(answer: ControlAnswer) -> Fallback {
    match answer {
        ControlAnswer::InUse | ControlAnswer::AddressNotAvailable => Fallback::PortTaken,
        ControlAnswer::NoResources => Fallback::NoResources,
        ControlAnswer::Kernel(reason) => reason.into(),
        ControlAnswer::Denied => Fallback::Denied,
        _ => Fallback::NotOurs,
    }
}

/// A worker answers within microseconds; a service that is silent for so long counts as dead.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(3_000);
