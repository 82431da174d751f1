//! UDP: sockets, their queues, and the path of a datagram through them. Read RFC 768, RFC 1122 §4.1, RFC 8085 first.
//!
//! [`Udp::receive`] verifies each datagram of a burst, finds its socket and queues it there; [`Udp::send`] copies a datagram
//! into frames and queues it; [`Udp::transmit`] writes headers. The buffers of the sockets and the arena bound all queues;
//! an excess datagram is dropped and counted (received) or refused (sent). A datagram is queued whole or not at all.

mod error;
mod group;
mod output;
mod receive;
mod send;
mod socket;
mod table;

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::net::IpAddr;

use ringway_shm::{Burst, Frame, Instant};

use crate::address::SocketAddress;
use crate::admission::{Backlog, FrameUse};
use crate::config::{StackConfig, UdpConfig, UdpOptions};
use crate::env::Env;
use crate::error::{BindError, ConnectError};
use crate::event::{Event, Readiness, SocketId};
use crate::tcp::{Protocol, SocketSummary, State, isn, ports};

pub use error::{UdpError, UdpErrorReport};
pub use receive::UdpMessage;
pub use send::{HEADROOM, UdpSend};
pub use socket::UdpInfo;

use output::Outgoing;
use socket::Socket;
use table::Table;

/// Bit of [`SocketId::index`] in names of UDP sockets. TCP's connections are below, listeners above.
const UDP_BIT: u32 = 1 << 30;
const LISTENER_BIT: u32 = 1 << 31;

/// UDP of one stack.
pub(crate) struct Udp {
    config: UdpConfig,
    ephemeral_ports: (u16, u16),
    secrets: isn::Secrets,
    table: Table,
    now: Instant,
    /// Datagrams that wait for `transmit`, and their frames in the same order.
    outgoing: VecDeque<Outgoing>,
    outgoing_frames: Burst,
    /// Sockets that were signalled in this iteration.
    signalled: Vec<u32>,
    /// Sockets whose application waits for frames.
    starved: BTreeSet<u32>,
    /// What applications leave unread.
    pub(crate) backlog: Backlog,
    /// Scratch: the frames after the first one of the current datagram.
    rest: Vec<Frame>,
    /// Scratch: the datagram being sent.
    packet: Burst,
    /// Scratch: the recipients of a multicast or broadcast datagram.
    recipients: Vec<u32>,
}

impl Udp {
    /// Makes empty tables with the limits of `config`.
    pub(crate) fn new(config: &StackConfig, now: Instant) -> Udp {
        Udp {
            config: config.udp.clone(),
            ephemeral_ports: config.tcp.ephemeral_ports,
            secrets: isn::Secrets::new(config.seed ^ 0x0768),
            table: Table::new(config.seed, config.udp.sockets_max),
            now,
            outgoing: VecDeque::new(),
            outgoing_frames: Burst::default(),
            signalled: Vec::new(),
            starved: BTreeSet::new(),
            backlog: Backlog::default(),
            rest: Vec::new(),
            packet: Burst::default(),
            recipients: Vec::new(),
        }
    }

    /// Returns true for the name of a UDP socket.
    #[inline]
    pub(crate) fn names(id: SocketId) -> bool {
        id.index & (UDP_BIT | LISTENER_BIT) == UDP_BIT
    }

    fn resolve(&self, id: SocketId) -> Option<(u32, &Socket)> {
        let index = Udp::names(id).then_some(id.index & !UDP_BIT)?;
        self.table.get(index).filter(|socket| socket.generation == id.generation).map(|socket| (index, socket))
    }

    fn resolve_mut(&mut self, id: SocketId) -> Option<(u32, &mut Socket)> {
        let (index, _) = self.resolve(id)?;
        self.table.get_mut(index).map(|socket| (index, socket))
    }

    /// Makes a socket bound to `local`.
    pub(crate) fn bind(
        &mut self,
        env: &mut Env,
        local: SocketAddress,
        options: UdpOptions,
        user_token: u64,
    ) -> Result<SocketId, BindError> {
        let names_many = local.ip.is_multicast() || local.ip == IpAddr::V4(core::net::Ipv4Addr::BROADCAST);
        if !local.ip.is_unspecified() && !names_many && !env.ip.owns(local.ip) && !env.ip.is_broadcast(local.ip) {
            return Err(BindError::NotLocal);
        }
        let port = match local.port {
            0 => {
                let random = self.secrets.random();
                let free = |port| !self.table.conflicts(SocketAddress { port, ..local }, &UdpOptions::default());
                ports::choose(random, self.ephemeral_ports, free).ok_or(BindError::NoPort)?
            }
            port => port,
        };
        let local = SocketAddress { port, ..local };
        if self.table.conflicts(local, &options) {
            return Err(BindError::InUse);
        }
        let (index, generation) =
            self.table.insert(Socket::new(local, options, user_token, &self.config)).ok_or(BindError::Full)?;
        Ok(SocketId { index: index | UDP_BIT, generation })
    }

    /// Sets the remote end, and thereby the local address; `None` clears both.
    pub(crate) fn connect(&mut self, env: &mut Env, id: SocketId, remote: Option<SocketAddress>) -> Result<(), ConnectError> {
        let (index, socket) = self.resolve(id).ok_or(ConnectError::NoRoute)?;
        let local = match remote {
            None => socket.bound.ip,
            Some(remote) => {
                let fixed = Some(socket.bound.ip).filter(|ip| !ip.is_unspecified());
                if !socket.speaks(remote.ip) {
                    return Err(ConnectError::NoRoute);
                }
                send::path(env, socket, remote.ip, fixed).ok_or(ConnectError::NoRoute)?.source
            }
        };
        self.table.reconnect(index, local, remote);
        Ok(())
    }

    /// Replaces the options of a socket.
    pub(crate) fn set_options(&mut self, id: SocketId, options: UdpOptions) {
        let config = self.config.clone();
        if let Some((_, socket)) = self.resolve_mut(id) {
            socket.configure(options, &config);
        }
    }

    /// Ends receiving: readers see the end when the queue is empty.
    pub(crate) fn shutdown_read(&mut self, env: &mut Env, id: SocketId) {
        let Some((index, socket)) = self.resolve_mut(id) else { return };
        socket.shut_read = true;
        self.signal(env, index);
    }

    /// Ends sending.
    pub(crate) fn shutdown_write(&mut self, env: &mut Env, id: SocketId) {
        let Some((index, socket)) = self.resolve_mut(id) else { return };
        socket.shut_write = true;
        self.signal(env, index);
    }

    /// Closes the socket. Datagrams queued for sending leave; received ones are dropped.
    pub(crate) fn close(&mut self, env: &mut Env, id: SocketId) {
        let Some((index, socket)) = self.resolve(id) else { return };
        env.events.push_back(Event::Closed { socket: id, user_token: socket.user_token, time_wait: false });
        socket.groups.iter().for_each(|&(interface, group)| env.ip.leave_group(interface, group));
        self.starved.remove(&index);
        self.table.remove(index);
    }

    /// Returns the operations that are possible on the socket now. A stale name is hung up.
    pub(crate) fn readiness(&self, id: SocketId) -> Readiness {
        match self.resolve(id) {
            Some((_, socket)) => socket.readiness(),
            None => Readiness { readable: true, writable: true, peer_closed: true, hung_up: true },
        }
    }

    /// Returns local and remote address; the remote one is unspecified while the socket is not connected.
    pub(crate) fn addresses(&self, id: SocketId) -> Option<(SocketAddress, SocketAddress)> {
        self.resolve(id).map(|(_, socket)| socket.addresses())
    }

    /// Returns information on a socket.
    pub(crate) fn info(&self, env: &Env, id: SocketId) -> Option<UdpInfo> {
        let (_, socket) = self.resolve(id)?;
        let path = socket.remote.and_then(|remote| env.ip.route(remote.ip, Some(socket.local.ip)));
        Some(socket.info(path.map(|path| path.mtu)))
    }

    /// Calls `visit` for every socket.
    pub(crate) fn for_each_socket(&self, visit: &mut dyn FnMut(&SocketSummary)) {
        for (index, socket) in self.table.iter() {
            let (local, remote) = socket.addresses();
            visit(&SocketSummary {
                protocol: Protocol::Udp,
                id: SocketId { index: index | UDP_BIT, generation: socket.generation },
                state: if socket.remote.is_some() { State::Established } else { State::Closed },
                local,
                remote,
                receive_queue: socket.received_memory,
                send_queue: socket.sending_memory,
                user_token: socket.user_token,
                timer: None,
                retransmits: 0,
                orphan: false,
            });
        }
    }

    /// Signals applications that were refused for lack of frames, if some are free now.
    pub(crate) fn handle_timeout(&mut self, now: Instant, env: &mut Env) {
        self.begin_turn(now);
        while FrameUse::Retry.may_take_any(env.arena)
            && let Some(index) = self.starved.pop_first()
        {
            self.signal(env, index);
        }
    }

    /// Returns the time at which [`handle_timeout`](Udp::handle_timeout) is due.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        (!self.starved.is_empty()).then(|| Instant::from_millis(self.now.as_millis() + RETRY_MS))
    }

    /// Begins an iteration: sockets may be signalled again.
    fn begin_turn(&mut self, now: Instant) {
        self.now = now;
        while let Some(index) = self.signalled.pop() {
            if let Some(socket) = self.table.get_mut(index) {
                socket.signalled = false;
            }
        }
    }

    /// Signals a socket's readiness, once per iteration.
    fn signal(&mut self, env: &mut Env, index: u32) {
        let Some(socket) = self.table.get_mut(index).filter(|socket| !socket.signalled) else { return };
        socket.signalled = true;
        let id = SocketId { index: index | UDP_BIT, generation: socket.generation };
        env.events.push_back(Event::Ready { socket: id, user_token: socket.user_token });
        self.signalled.push(index);
    }
}

/// Time until an application that found no frame is signalled, milliseconds.
const RETRY_MS: u64 = 1;

#[cfg(test)]
mod tests;
