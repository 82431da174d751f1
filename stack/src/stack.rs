//! The façade: everything that an engine calls.
//!
//! Promises: no call blocks, allocates per packet, asks a clock or calls upward. The same calls with
//! the same arguments give the same frames and events. Order of a turn: `receive`, `handle_timeout`,
//! socket calls, `transmit`, `poll_event`.

use alloc::vec::Vec;
use core::net::IpAddr;

use ringway_shm::{Arena, Burst, Class, Fifo, Flow, Frame, GroupSet, Instant};

use crate::address::{Cidr, MacAddress, SocketAddress};
use crate::config::{FastOpenKeys, StackConfig, TcpConfig, TcpOptions};
use crate::destination::{Destination, flow_of};
use crate::error::{AcceptError, ConnectError, ListenError, ReceiveError, SendError};
use crate::event::{Event, Readiness, SocketId, Urgent};
use crate::ip::{Datagrams, Interface, Ip, Route};
use crate::source::{Filler, Source};
use crate::stats::{Counter, Counters};
use crate::tcp::{OwnerUse, SocketSummary, State, Tcp, TcpInfo};
use crate::timer;
use crate::udp::Udp;
use crate::wire::ipv4::PROTOCOL_UDP;

/// What every protocol may use while it works; lent by the façade for one call.
pub(crate) struct Env<'a> {
    pub(crate) ip: &'a mut Ip,
    pub(crate) arena: &'a Arena,
    pub(crate) counters: &'a mut Counters,
    pub(crate) events: &'a mut Fifo<Event>,
}

/// One stack: interfaces, addresses, routes, neighbors and sockets of one worker.
pub struct Stack {
    arena: Arena,
    counters: Counters,
    events: Fifo<Event>,
    ip: Ip,
    tcp: Tcp,
    udp: Udp,
    /// Scratch of `receive`: parsed datagrams of one burst.
    datagrams: Datagrams,
}

/// Splits `self` into the protocol and what it may use.
macro_rules! env {
    ($stack:ident) => {
        env!($stack, tcp)
    };
    ($stack:ident, $protocol:ident) => {
        (
            &mut $stack.$protocol,
            &mut Env { ip: &mut $stack.ip, arena: &$stack.arena, counters: &mut $stack.counters, events: &mut $stack.events },
        )
    };
}

impl Drop for Stack {
    /// Queues of connections own frames without a handle of the arena: they give them back, or its memory would stay.
    fn drop(&mut self) {
        self.tcp.give_back_frames(&self.arena);
    }
}

mod udp;

impl Stack {
    /// A stack without interfaces. All tables are taken now; `arena` is shared with the devices.
    pub fn new(config: StackConfig, arena: Arena, now: Instant) -> Stack {
        Stack {
            ip: Ip::new(&config, now),
            tcp: Tcp::new(&config, now),
            udp: Udp::new(&config, now),
            arena,
            counters: Counters::default(),
            events: Fifo::new(),
            datagrams: Datagrams::default(),
        }
    }

    /// Adds an interface and returns its index: the index of its burst in `transmit`.
    ///
    /// # Panics
    /// When there are 255 already.
    pub fn add_interface(&mut self, interface: Interface) -> u32 {
        self.ip.add_interface(interface)
    }

    /// An interface has changed (its link address, its MTU, what its device can do), or another one takes its index.
    /// Connections that are open send no packets larger than its MTU from now on.
    ///
    /// # Panics
    /// When there is no such interface.
    pub fn set_interface(&mut self, now: Instant, interface: u32, description: Interface) {
        self.ip.set_interface(interface, description);
        let (tcp, env) = env!(self);
        tcp.fit_to_paths(now, env);
    }

    /// Replaces all addresses of an interface.
    pub fn set_addresses(&mut self, interface: u32, addresses: Vec<Cidr>) {
        self.ip.set_addresses(interface, addresses);
    }

    /// Says which of an interface's IPv6 addresses are deprecated (RFC 4862 §5.5.4): new flows prefer the others.
    pub fn set_deprecated(&mut self, interface: u32, addresses: Vec<IpAddr>) {
        self.ip.set_deprecated(interface, addresses);
    }

    /// Replaces all routes. Networks that an interface's addresses name need routes too.
    pub fn set_routes(&mut self, routes: Vec<Route>) {
        self.ip.set_routes(routes);
    }

    /// Tells a neighbor's link address; `None`: it does not answer or is forgotten. Packets that
    /// waited for it leave with the next `transmit`, or are dropped.
    pub fn set_neighbor(&mut self, now: Instant, interface: u32, ip: IpAddr, mac: Option<MacAddress>) {
        self.ip.set_neighbor(interface, ip, mac);
        self.deliver_ip_errors(now);
    }

    /// Whether `ip` is an address of this stack.
    pub fn owns(&self, ip: IpAddr) -> bool {
        self.ip.owns(ip)
    }

    /// The address from which packets to `remote` would come. `None`: no interface leads there.
    pub fn source_for(&self, remote: IpAddr) -> Option<IpAddr> {
        self.ip.route(remote, None).map(|path| path.source)
    }

    /// The interface that packets to `remote` leave through.
    pub fn interface_for(&self, remote: IpAddr) -> Option<u32> {
        self.ip.route(remote, None).map(|path| path.interface)
    }

    /// Whether `connect` to `remote` is for this stack, as far as the address says. Connections to our own addresses are
    /// when a listener of this stack serves them or when no kernel has the address; otherwise they are the kernel's.
    pub fn reaches(&self, remote: SocketAddress) -> bool {
        self.tcp.reaches(&self.ip, remote)
    }

    /// All addresses of this stack.
    pub fn local_addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.ip.local_addresses()
    }

    /// Says which flow groups are this stack's, where several stacks have the same address. It opens only connections whose
    /// answers come to it, and leaves segments and datagrams of other groups unanswered. At first all are.
    pub fn set_flow_groups(&mut self, groups: GroupSet) {
        *self.ip.groups() = groups;
    }

    /// Flow groups that are being steered to another stack: whoever still comes to a listener in one of them is among
    /// [`newcomers`](Self::newcomers). [`GroupSet::NONE`]: nobody is.
    pub fn watch_groups(&mut self, groups: GroupSet) {
        self.tcp.newcomers().watch(groups);
    }

    /// Who has come to listeners in the groups that are watched; to be emptied before `transmit`, which may answer them.
    pub fn newcomers(&mut self) -> &mut Vec<Flow> {
        self.tcp.newcomers().flows()
    }

    /// Calls `visit` for every TCP connection with its state, half-open ones and those in TIME-WAIT too: cheaper than
    /// [`for_each_socket`](Self::for_each_socket).
    pub fn for_each_flow(&self, visit: &mut dyn FnMut(&Flow, State)) {
        self.tcp.for_each_flow(visit);
    }

    /// Whether there is this TCP connection, half open or in TIME-WAIT too.
    pub fn knows(&self, flow: &Flow) -> bool {
        self.tcp.knows(flow)
    }

    /// Whether the flow between `local` and `remote` is this stack's: its packets are to come here.
    pub fn has_flow(&self, local: SocketAddress, remote: SocketAddress) -> bool {
        self.ip.has_flow((local.ip, local.port), (remote.ip, remote.port))
    }

    /// Takes all packets of `burst`, which arrived on `interface`. Changes state and marks; what
    /// has to be sent leaves with the next `transmit`.
    pub fn receive(&mut self, now: Instant, interface: u32, burst: &mut Burst) {
        self.ip.receive(now, &self.arena, &mut self.counters, interface, burst, &mut self.datagrams);
        self.deliver(now);
    }

    /// Hands the datagrams that the Internet layer has found to their protocols, and errors to their flows.
    fn deliver(&mut self, now: Instant) {
        let (tcp, env) = env!(self);
        tcp.receive(now, env, &mut self.datagrams);
        if self.ip.has_udp() {
            self.ip.exchange_udp(&mut self.datagrams);
            let (udp, env) = env!(self, udp);
            udp.receive(now, env, &mut self.datagrams);
            self.ip.exchange_udp(&mut self.datagrams);
        }
        self.deliver_ip_errors(now);
    }

    /// Writes what is to be sent to the end of `out[interface]`. Returns `true` when its budget was
    /// used up and there is more to write.
    ///
    /// # Panics
    /// When `out` has fewer bursts than there are interfaces.
    pub fn transmit(&mut self, now: Instant, out: &mut [Burst]) -> bool {
        if !(self.tcp.has_to_write(now) || self.ip.has_to_write() || self.udp.has_to_write()) {
            return false;
        }
        let packets = |out: &[Burst]| out.iter().map(Burst::packets).sum::<usize>();
        let before = packets(out);
        let mut arp_packets = self.ip.transmit(now, &self.arena, &mut self.counters, out);
        let (tcp, env) = env!(self);
        let mut more = tcp.transmit(now, env, out);
        let (udp, env) = env!(self, udp);
        more |= udp.transmit(now, env, out);
        // They may have asked for a neighbor.
        arp_packets += self.ip.transmit(now, &self.arena, &mut self.counters, out);
        self.counters.add(Counter::IpOutRequests, (packets(out) - before - arp_packets) as u64);
        more
    }

    /// Hands errors that the Internet layer has found to the flows that they are about.
    fn deliver_ip_errors(&mut self, now: Instant) {
        while let Some(error) = self.ip.poll_error() {
            if error.protocol == PROTOCOL_UDP {
                let (udp, env) = env!(self, udp);
                udp.icmp_error(now, env, &error);
            } else {
                let (tcp, env) = env!(self);
                tcp.icmp_error(now, env, &error);
            }
        }
    }

    /// Does what was due at or before `now`; a bounded amount, so `poll_timeout` may still name a
    /// time in the past afterwards.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.ip.has_looped() {
            self.ip.receive_looped(now, &self.arena, &mut self.counters, &mut self.datagrams);
            self.deliver(now);
        }
        self.ip.handle_timeout(now);
        self.deliver_ip_errors(now);
        let (tcp, env) = env!(self);
        tcp.handle_timeout(now, env);
        let (udp, env) = env!(self, udp);
        udp.handle_timeout(now, env);
    }

    /// To be called before a long wait: `poll_timeout` then names no time that was for an ACK which data has carried since.
    pub fn forget_ended_delays(&mut self) {
        self.tcp.forget_ended_delays();
    }

    /// When `handle_timeout` has something to do next. May be early, never late.
    pub fn poll_timeout(&self) -> Option<Instant> {
        timer::earliest(&[self.ip.poll_timeout(), self.tcp.poll_timeout(), self.udp.poll_timeout()])
    }

    /// The next event: those of sockets in the order in which they happened, then those of interfaces.
    pub fn poll_event(&mut self) -> Option<Event> {
        if let Some(event) = self.events.pop_front() {
            if let Event::Ready { socket, .. } = event {
                self.tcp.told(socket);
            }
            return Some(event);
        }
        let resolve = self.ip.poll_resolve().map(|(interface, ip)| Event::ResolveNeighbor { interface, ip });
        resolve.or_else(|| self.ip.poll_notice())
    }

    /// Serves a port; an unspecified address means all addresses of its family that the stack has, also later ones.
    /// `cookie` comes back in events.
    ///
    /// # Errors
    /// [`ListenError`]
    pub fn listen(
        &mut self,
        local: SocketAddress,
        backlog: u32,
        options: TcpOptions,
        cookie: u64,
    ) -> Result<SocketId, ListenError> {
        let (tcp, env) = env!(self);
        tcp.listen(env, local, backlog, options, cookie)
    }

    /// For how many connections more there is room where those of a listener are accepted: no handshake begins that could
    /// not be, its SYN is dropped and counted as `ListenOverflows`.
    pub fn set_room(&mut self, listener: SocketId, room: u32) {
        self.tcp.set_room(listener, room);
    }

    /// Whose listener it is: the half-open connections of all listeners of one owner are bounded together. Before the first SYN.
    pub fn set_owner(&mut self, listener: SocketId, owner: u32) {
        self.tcp.set_owner(listener, owner);
    }

    /// Half-open connections that one owner may have.
    pub fn half_open_per_owner_max(&self) -> u32 {
        self.tcp.half_open_per_owner_max()
    }

    /// What owners of listeners have in the SYN queue, in the order of their numbers.
    pub fn owners(&self) -> Vec<OwnerUse> {
        self.tcp.owners()
    }

    /// Takes the oldest established connection of a listener and names it by `cookie`.
    ///
    /// # Errors
    /// [`AcceptError`]
    pub fn accept(&mut self, listener: SocketId, cookie: u64) -> Result<SocketId, AcceptError> {
        let (tcp, env) = env!(self);
        tcp.accept(env, listener, cookie)
    }

    /// Starts an active open. Without `local`, or with its address unspecified or its port 0, the
    /// stack chooses. [`Event::Connected`] or [`Event::Failed`] follows.
    ///
    /// # Errors
    /// [`ConnectError`]
    pub fn connect(
        &mut self,
        now: Instant,
        local: Option<SocketAddress>,
        remote: SocketAddress,
        options: TcpOptions,
        cookie: u64,
    ) -> Result<SocketId, ConnectError> {
        let (tcp, env) = env!(self);
        tcp.connect(now, env, local, remote, options, cookie)
    }

    /// Bytes that the SYN of an active open may carry, while it waits for the first data (RFC 7413). `None`: it does
    /// not wait.
    pub fn fast_open_room(&mut self, id: SocketId) -> Option<usize> {
        let (tcp, env) = env!(self);
        tcp.fast_open_room(env, id)
    }

    /// Other settings of TCP from now on, for connections that are there too. What was made at start keeps its size: tables, and how
    /// long TIME-WAIT lasts.
    pub fn set_tcp_config(&mut self, config: TcpConfig) {
        self.tcp.set_config(config);
    }

    /// Replaces the Fast Open keys of a listener, or (`None`) those of all listeners that have none of their own.
    pub fn set_fast_open_keys(&mut self, listener: Option<SocketId>, keys: FastOpenKeys) {
        self.tcp.set_fast_open_keys(listener, keys);
    }

    /// The Fast Open keys of a listener, or (`None`) those of all listeners that have none of their own.
    pub fn fast_open_keys(&self, listener: Option<SocketId>) -> FastOpenKeys {
        self.tcp.fast_open_keys(listener)
    }

    /// Bytes that `send_with` would take now.
    pub fn send_space(&self, id: SocketId) -> usize {
        self.tcp.send_space(id)
    }

    /// Bytes that a frame for [`send_frame`](Self::send_frame) should hold at most: no more than would be taken now, and
    /// where packets are no larger than a segment, up to the end of one.
    pub fn send_piece(&mut self, id: SocketId) -> usize {
        let (tcp, env) = env!(self);
        tcp.send_piece(env, id)
    }

    /// Bytes that are queued or under way and not acknowledged.
    pub fn send_queued(&self, id: SocketId) -> usize {
        self.tcp.send_queued(id)
    }

    /// Memory of those bytes; what is queued where it lies counts with its length.
    pub fn send_memory(&self, id: SocketId) -> usize {
        self.tcp.send_memory(id)
    }

    /// Bytes that the peer has acknowledged, ever.
    pub fn bytes_acknowledged(&self, id: SocketId) -> u64 {
        self.tcp.bytes_acknowledged(id)
    }

    /// Resets a connection that was closed and has not ended. `false`: there is none of that name.
    pub fn reset_orphan(&mut self, now: Instant, id: SocketId) -> bool {
        let (tcp, env) = env!(self);
        tcp.reset_orphan(now, env, id)
    }

    /// Frames of a class that send queues may take now: the others are kept for what arrives, the ACKs that free those.
    #[inline]
    pub fn sendable_frames(arena: &Arena, class: Class) -> u32 {
        crate::tcp::sendable_frames(arena, class)
    }

    /// Memory is short: the buffer is no larger than what is queued, until ACKs make room and it grows again, and the
    /// application then hears that it may go on. `false`: nothing is queued, or the application has chosen the size, so nobody
    /// will tell.
    pub fn cut_send_buffer(&mut self, id: SocketId) -> bool {
        let (tcp, env) = env!(self);
        tcp.cut_send_buffer(env, id)
    }

    /// Queues up to `count` bytes. `copy` is called once for each piece, in order, and must fill the
    /// whole piece. Returns how many bytes were queued, at least one.
    ///
    /// # Errors
    /// [`SendError`]
    pub fn send_with(&mut self, id: SocketId, count: usize, copy: &mut dyn FnMut(&mut [u8])) -> Result<usize, SendError> {
        self.send_from(id, count, &mut Filler(copy))
    }

    /// As [`send_with`](Self::send_with), from a source that can sum while it copies.
    ///
    /// # Errors
    /// [`SendError`]
    pub fn send_from(&mut self, id: SocketId, count: usize, source: &mut dyn Source) -> Result<usize, SendError> {
        let (tcp, env) = env!(self);
        tcp.send_from(env, id, count, source)
    }

    /// The queued bytes are urgent (MSG_OOB) up to the end of the queue, or `ahead` bytes behind that (before it, if
    /// negative). Say so before they are sent. Urgent data is held back neither by Nagle nor by a cork.
    pub fn mark_urgent(&mut self, id: SocketId, ahead: i32) {
        let (tcp, env) = env!(self);
        tcp.mark_urgent(env, id, ahead);
    }

    /// The urgent data that has arrived or is announced, if the application has not read beyond it.
    pub fn urgent(&self, id: SocketId) -> Option<Urgent> {
        self.tcp.urgent(id)
    }

    /// Queues a frame of payload without copying it.
    ///
    /// # Errors
    /// The frame comes back with the reason.
    pub fn send_frame(&mut self, id: SocketId, frame: Frame) -> Result<(), (Frame, SendError)> {
        let (tcp, env) = env!(self);
        tcp.send_frame(env, id, frame)
    }

    /// Takes the next frame of payload, in order. The window opens only with `consumed`.
    ///
    /// # Errors
    /// [`ReceiveError`]
    pub fn take_frame(&mut self, id: SocketId) -> Result<Frame, ReceiveError> {
        let (tcp, env) = env!(self);
        tcp.take_frame(env, id)
    }

    /// Reads up to `max` bytes where they lie: `visit` sees piece after piece, in order. The window may open by what it has
    /// seen. Returns how many bytes these were, at least one unless `max` is 0.
    ///
    /// # Errors
    /// [`ReceiveError`]
    pub fn read_with(&mut self, id: SocketId, max: usize, visit: &mut dyn FnMut(&[u8])) -> Result<usize, ReceiveError> {
        let (tcp, env) = env!(self);
        tcp.read_with(env, id, max, visit)
    }

    /// The application has read `bytes` of what `take_frame` gave: the window may open.
    pub fn consumed(&mut self, id: SocketId, bytes: usize) {
        let (tcp, env) = env!(self);
        tcp.consumed(env, id, bytes);
    }

    /// Bytes received in order that `take_frame` has not given yet.
    pub fn unread(&self, id: SocketId) -> usize {
        self.tcp.unread(id)
    }

    /// For whom a packet of `len` bytes is that begins with `head` and waits at an interface. `None`: for no connection, or no
    /// plain packet.
    pub fn destination(&self, interface: u32, head: &[u8], len: usize) -> Option<Destination> {
        let (key, header_bytes) = flow_of(self.ip.plain_medium(interface)?, head, len)?;
        let (socket, cookie) = self.tcp.connection_of(&key)?;
        Some(Destination { socket, cookie, header_bytes })
    }

    /// What can be done with the socket now. A stale name is hung up.
    pub fn readiness(&self, id: SocketId) -> Readiness {
        if Udp::names(id) { self.udp.readiness(id) } else { self.tcp.readiness(id) }
    }

    /// Local and remote address; that of an unconnected UDP socket is unspecified. `None`: the name
    /// is stale or a listener's.
    pub fn addresses(&self, id: SocketId) -> Option<(SocketAddress, SocketAddress)> {
        if Udp::names(id) { self.udp.addresses(id) } else { self.tcp.addresses(id) }
    }

    /// Replaces the options of a socket.
    pub fn set_options(&mut self, now: Instant, id: SocketId, options: TcpOptions) {
        let (tcp, env) = env!(self);
        tcp.set_options(now, env, id, options);
    }

    /// The application of a connection reads no more: once it has also shut its writing, what still comes is answered with RST.
    pub fn shutdown_read(&mut self, now: Instant, id: SocketId) {
        let (tcp, env) = env!(self);
        tcp.shutdown_read(now, env, id);
    }

    /// Sends FIN after what is queued. Of UDP: nothing more is sent.
    pub fn shutdown_write(&mut self, now: Instant, id: SocketId) {
        if Udp::names(id) {
            let (udp, env) = env!(self, udp);
            return udp.shutdown(env, id, false, true);
        }
        let (tcp, env) = env!(self);
        tcp.shutdown_write(now, env, id);
    }

    /// Gives the socket up: FIN after what is queued, or RST when received data was not read
    /// (RFC 2525 §2.17). A listener's waiting connections are reset. A UDP socket is gone at once; what
    /// it has queued leaves. [`Event::Closed`] follows.
    pub fn close(&mut self, now: Instant, id: SocketId) {
        if Udp::names(id) {
            let (udp, env) = env!(self, udp);
            return udp.close(env, id);
        }
        let (tcp, env) = env!(self);
        tcp.close(now, env, id);
    }

    /// Gives the socket up with RST.
    pub fn abort(&mut self, now: Instant, id: SocketId) {
        if Udp::names(id) {
            return self.close(now, id);
        }
        let (tcp, env) = env!(self);
        tcp.abort(now, env, id);
    }

    /// Ends a connection without a packet, as if it had timed out, also one that no application has any more.
    pub fn give_up(&mut self, now: Instant, id: SocketId) {
        let (tcp, env) = env!(self);
        tcp.give_up(now, env, id);
    }

    /// What `TCP_INFO` tells of a connection.
    pub fn info(&self, id: SocketId) -> Option<TcpInfo> {
        self.tcp.info(&self.ip, id)
    }

    /// Calls `visit` for every listener, connection, TIME-WAIT record and UDP socket.
    pub fn for_each_socket(&self, visit: &mut dyn FnMut(&SocketSummary)) {
        self.tcp.for_each_socket(visit);
        self.udp.for_each_socket(visit);
    }

    /// The line of one connection, as [`for_each_socket`](Self::for_each_socket) tells it.
    pub fn summary(&self, id: SocketId) -> Option<SocketSummary> {
        self.tcp.summary_of(id)
    }

    /// How many connections are half open, and how many in TIME-WAIT: cheaper than [`for_each_socket`](Self::for_each_socket).
    pub fn records(&self) -> (usize, usize) {
        self.tcp.records()
    }

    /// For the proof that the short ways do what the long way does.
    #[cfg(test)]
    pub(crate) fn tcp(&self) -> &Tcp {
        &self.tcp
    }

    #[cfg(test)]
    pub(crate) fn take_the_long_way(&mut self) {
        self.ip.long_way_only = true;
        self.tcp.take_the_long_way();
    }

    #[cfg(test)]
    pub(crate) fn shortest_ways(&self) -> u64 {
        self.tcp.shortest_ways()
    }

    /// TCP connections of which segments may come, those in TIME-WAIT among them.
    #[inline]
    pub fn connections(&self) -> usize {
        self.tcp.flows()
    }

    /// All counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}
