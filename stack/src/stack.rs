//! The façade: all calls of an engine.
//!
//! Promises: no call blocks, allocates per packet, reads a clock or calls upward. The same calls with the same arguments
//! give the same frames and events. Order of an iteration: `receive`, `handle_timeout`, socket calls, `transmit`,
//! `poll_event`.

use alloc::vec::Vec;
use core::net::IpAddr;

use ringway_shm::{Arena, Burst, Class, Fifo, Flow, Frame, GroupSet, Instant};

use crate::address::{Cidr, MacAddress, SocketAddress};
use crate::admission::Backlog;
use crate::config::{FastOpenKeys, StackConfig, TcpOptions};
use crate::destination::{Destination, flow_of};
use crate::env::{Env, IpEnv};
use crate::error::{AcceptError, ConnectError, ListenError, ReceiveError, SendError};
use crate::event::{Event, Readiness, SocketId, Urgent};
use crate::ip::{Datagrams, Interface, Ip, Route};
use crate::source::{Filler, Source};
use crate::stats::{Counter, Counters};
use crate::tcp::{ActiveOpen, OwnerUse, SocketSummary, State, Tcp};
use crate::timer;
use crate::udp::Udp;
use crate::wire::ipv4::PROTOCOL_UDP;

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

/// Splits `self` into the protocol and its environment.
macro_rules! env {
    ($stack:ident) => {
        env!($stack, tcp)
    };
    ($stack:ident, ip, $now:expr) => {
        (&mut $stack.ip, &mut IpEnv { now: $now, arena: &$stack.arena, counters: &mut $stack.counters })
    };
    ($stack:ident, $protocol:ident) => {
        (
            &mut $stack.$protocol,
            &mut Env { ip: &mut $stack.ip, arena: &$stack.arena, counters: &mut $stack.counters, events: &mut $stack.events },
        )
    };
}

impl Drop for Stack {
    /// Queues of connections own frames without a handle of the arena: without this the arena's memory would never be freed.
    fn drop(&mut self) {
        self.tcp.give_back_frames(&self.arena);
    }
}

mod handover;
mod info;
mod settings;
mod udp;

impl Stack {
    /// Makes a stack without interfaces. All tables are allocated now; `arena` is shared with the devices.
    pub fn new(config: StackConfig, arena: Arena, now: Instant) -> Stack {
        Backlog::default().mark_plenty(&arena);
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
    /// When there are already 255.
    pub fn add_interface(&mut self, interface: Interface) -> u32 {
        self.ip.add_interface(interface)
    }

    /// Changes an interface (its link address, its MTU, what its device can do), or replaces it under the same index. Open
    /// connections send no packets larger than its MTU from now on.
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

    /// Sets which of an interface's IPv6 addresses are deprecated (RFC 4862 §5.5.4): new flows prefer the others.
    pub fn set_deprecated(&mut self, interface: u32, addresses: Vec<IpAddr>) {
        self.ip.set_deprecated(interface, addresses);
    }

    /// Replaces all routes. Networks that an interface's addresses name need routes too.
    pub fn set_routes(&mut self, routes: Vec<Route>) {
        self.ip.set_routes(routes);
    }

    /// Sets a neighbor's link address; `None`: it does not answer or is removed. Packets that waited for it leave with the
    /// next `transmit`, or are dropped.
    pub fn set_neighbor(&mut self, now: Instant, interface: u32, ip: IpAddr, mac: Option<MacAddress>) {
        self.ip.set_neighbor(interface, ip, mac);
        self.deliver_ip_errors(now);
    }

    /// Returns true when `ip` is an address of this stack.
    pub fn owns(&self, ip: IpAddr) -> bool {
        self.ip.owns(ip)
    }

    /// Returns the source address of packets to `remote`. `None`: no interface leads there.
    pub fn source_for(&self, remote: IpAddr) -> Option<IpAddr> {
        self.ip.route(remote, None).map(|path| path.source)
    }

    /// Returns the interface of packets to `remote`.
    pub fn interface_for(&self, remote: IpAddr) -> Option<u32> {
        self.ip.route(remote, None).map(|path| path.interface)
    }

    /// Returns true when `connect` to `remote` is for this stack, judged by the address. This includes our own addresses if
    /// a listener of this stack serves them or the kernel does not have the address; otherwise such connections are the
    /// kernel's.
    pub fn reaches(&self, remote: SocketAddress) -> bool {
        self.tcp.reaches(&self.ip, remote)
    }

    /// Returns all addresses of this stack.
    pub fn local_addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.ip.local_addresses()
    }

    /// Sets the flow groups of this stack, which has all in the beginning, when several stacks have the same address. It then
    /// opens only connections whose answers arrive here, and ignores segments and datagrams of other groups.
    pub fn set_flow_groups(&mut self, groups: GroupSet) {
        *self.ip.groups() = groups;
    }

    /// Sets the flow groups that are being steered to another stack: a flow in one of them that still reaches a listener
    /// here is added to [`migrating_flows`](Self::migrating_flows). [`GroupSet::NONE`]: none.
    pub fn watch_groups(&mut self, groups: GroupSet) {
        self.tcp.migrating_flows().watch(groups);
    }

    /// Returns the migrating flows: those that reached listeners in the watched groups; the caller must empty it before
    /// `transmit`, which may answer them.
    pub fn migrating_flows(&mut self) -> &mut Vec<Flow> {
        self.tcp.migrating_flows().flows()
    }

    /// As [`for_each_socket`](Self::for_each_socket), cheaper: flow and state of all, including half-open ones and TIME-WAIT.
    pub fn for_each_flow(&self, visit: &mut dyn FnMut(&Flow, State)) {
        self.tcp.for_each_flow(visit);
    }

    /// Returns true when this TCP connection exists, including half-open ones and TIME-WAIT.
    pub fn knows(&self, flow: &Flow) -> bool {
        self.tcp.knows(flow)
    }

    /// Returns true when the flow between `local` and `remote` belongs to this stack, so that its packets must arrive here.
    pub fn has_flow(&self, local: SocketAddress, remote: SocketAddress) -> bool {
        self.ip.has_flow((local.ip, local.port), (remote.ip, remote.port))
    }

    /// Receives all packets of `burst`, which arrived on `interface`. Changes state and marks; answers leave with the next
    /// `transmit`.
    pub fn receive(&mut self, now: Instant, interface: u32, burst: &mut Burst) {
        let (ip, env) = env!(self, ip, now);
        ip.receive(env, interface, burst, &mut self.datagrams);
        self.deliver(now);
    }

    /// Passes the datagrams of the Internet layer to their protocols, and errors to their flows.
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

    /// Appends what is to be sent to `out[interface]`. Returns `true` when its budget was used up and there is more to
    /// write.
    ///
    /// # Panics
    /// When `out` has fewer bursts than there are interfaces.
    pub fn transmit(&mut self, now: Instant, out: &mut [Burst]) -> bool {
        if !(self.tcp.has_to_write(now) || self.ip.has_to_write() || self.udp.has_to_write()) {
            return false;
        }
        let packets = |out: &[Burst]| out.iter().map(Burst::packets).sum::<usize>();
        let before = packets(out);
        let (ip, env) = env!(self, ip, now);
        let mut arp_packets = ip.transmit(env, out);
        let (tcp, env) = env!(self);
        let mut more = tcp.transmit(now, env, out);
        let (udp, env) = env!(self, udp);
        more |= udp.transmit(now, env, out);
        // The protocols may have requested a neighbor.
        let (ip, env) = env!(self, ip, now);
        arp_packets += ip.transmit(env, out);
        self.counters.add(Counter::IpOutRequests, (packets(out) - before - arp_packets) as u64);
        more
    }

    /// Passes errors of the Internet layer to the flows that they concern.
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

    /// Handles what is due at `now`; a bounded amount, so `poll_timeout` may still return a time in the past afterwards.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.ip.has_looped() {
            let (ip, env) = env!(self, ip, now);
            ip.receive_looped(env, &mut self.datagrams);
            self.deliver(now);
        }
        self.ip.handle_timeout(now);
        self.deliver_ip_errors(now);
        let (tcp, env) = env!(self);
        tcp.handle_timeout(now, env);
        let (udp, env) = env!(self, udp);
        udp.handle_timeout(now, env);
    }

    /// Drops timers of delayed ACKs that data has carried since. Call it before a long wait, so that `poll_timeout` does not
    /// return their times.
    pub fn forget_ended_delays(&mut self) {
        self.tcp.forget_ended_delays();
    }

    /// Returns the next time at which `handle_timeout` has something to do. May be early, never late.
    pub fn poll_timeout(&self) -> Option<Instant> {
        timer::earliest(&[self.ip.poll_timeout(), self.tcp.poll_timeout(), self.udp.poll_timeout()])
    }

    /// Returns the next event: those of sockets in order of occurrence, then those of interfaces.
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

    /// Listens on a port; an unspecified address means all addresses of its family that the stack has, including later ones.
    /// Events return `user_token`.
    ///
    /// # Errors
    /// [`ListenError`]
    pub fn listen(
        &mut self,
        local: SocketAddress,
        backlog: u32,
        options: TcpOptions,
        user_token: u64,
    ) -> Result<SocketId, ListenError> {
        if !local.ip.is_unspecified() && !self.ip.owns(local.ip) {
            return Err(ListenError::NotLocal);
        }
        self.tcp.listen(local, backlog, options, user_token)
    }

    /// Sets how many more connections of a listener can be accepted. Further SYNs are dropped, counted as `ListenOverflows`.
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

    /// Use of the SYN queue by each owner of listeners, in the order of their numbers.
    pub fn owners(&self) -> Vec<OwnerUse> {
        self.tcp.owners()
    }

    /// Takes the oldest established connection of a listener and names it by `user_token`.
    ///
    /// # Errors
    /// [`AcceptError`]
    pub fn accept(&mut self, listener: SocketId, user_token: u64) -> Result<SocketId, AcceptError> {
        let (tcp, env) = env!(self);
        tcp.accept(env, listener, user_token)
    }

    /// Starts an active open. [`Event::Connected`] or [`Event::Failed`] follows.
    ///
    /// # Errors
    /// [`ConnectError`]
    pub fn connect(&mut self, now: Instant, open: ActiveOpen) -> Result<SocketId, ConnectError> {
        let (tcp, env) = env!(self);
        tcp.connect(now, env, open)
    }

    /// Returns the number of bytes that the SYN of an active open may carry while it waits for them (RFC 7413), or `None`.
    pub fn fast_open_room(&mut self, id: SocketId) -> Option<usize> {
        let (tcp, env) = env!(self);
        tcp.fast_open_room(env, id)
    }

    /// Tells what applications leave unread, when that changes.
    pub fn set_backlog(&mut self, backlog: &Backlog) {
        backlog.mark_plenty(&self.arena);
        self.tcp.set_backlog(backlog.clone());
        self.udp.backlog = backlog.clone();
    }

    /// Replaces the Fast Open keys of a listener, or (`None`) of all listeners without keys of their own.
    pub fn set_fast_open_keys(&mut self, listener: Option<SocketId>, keys: FastOpenKeys) {
        self.tcp.set_fast_open_keys(listener, keys);
    }

    /// Returns the Fast Open keys of a listener, or (`None`) of all listeners without keys of their own.
    pub fn fast_open_keys(&self, listener: Option<SocketId>) -> FastOpenKeys {
        self.tcp.fast_open_keys(listener)
    }

    /// Returns the number of bytes that `send_with` would take now.
    pub fn send_space(&self, id: SocketId) -> usize {
        self.tcp.send_space(id)
    }

    /// Returns the maximum payload of a frame for [`send_frame`](Self::send_frame): no more than would be taken now, and on
    /// a link whose packets are no larger than a segment, up to the end of a segment.
    pub fn send_piece(&mut self, id: SocketId) -> usize {
        let (tcp, env) = env!(self);
        tcp.send_piece(env, id)
    }

    /// Returns the number of bytes that are queued or sent, and not acknowledged.
    pub fn send_queued(&self, id: SocketId) -> usize {
        self.tcp.send_queued(id)
    }

    /// Returns the memory of those bytes; bytes queued without a copy count with their length.
    pub fn send_memory(&self, id: SocketId) -> usize {
        self.tcp.send_memory(id)
    }

    /// Returns the total number of bytes that the peer has acknowledged.
    pub fn bytes_acknowledged(&self, id: SocketId) -> u64 {
        self.tcp.bytes_acknowledged(id)
    }

    /// Resets an orphan, if it has not ended. `false`: the name is stale.
    pub fn reset_orphan(&mut self, now: Instant, id: SocketId) -> bool {
        let (tcp, env) = env!(self);
        tcp.reset_orphan(now, env, id)
    }

    /// Returns true for an orphan whose peer has yet to acknowledge data or the FIN.
    pub fn orphan_sends(&self, id: SocketId) -> bool {
        self.tcp.orphan_sends(id)
    }

    /// Returns the number of frames of a class that send queues may take now: the others are reserved for arriving packets,
    /// whose ACKs free the former.
    #[inline]
    pub fn sendable_frames(arena: &Arena, class: Class) -> u32 {
        crate::tcp::sendable_frames(arena, class)
    }

    /// Shrinks the send buffer to the queued bytes when memory is short; ACKs make it grow again, and the application then
    /// gets `Ready`. `false`: too little is queued, or the application has set the size, so no event would follow.
    pub fn cut_send_buffer(&mut self, id: SocketId) -> bool {
        let (tcp, env) = env!(self);
        tcp.cut_send_buffer(env, id)
    }

    /// Queues up to `count` bytes. `copy` is called once for each piece, in order, and must fill the whole piece. Returns
    /// the number of bytes queued, at least one.
    ///
    /// # Errors
    /// [`SendError`]
    pub fn send_with(&mut self, id: SocketId, count: usize, copy: &mut dyn FnMut(&mut [u8])) -> Result<usize, SendError> {
        self.send_from(id, count, &mut Filler(copy))
    }

    /// Queues bytes like [`send_with`](Self::send_with), from a source that can sum while it copies.
    ///
    /// # Errors
    /// [`SendError`]
    pub fn send_from(&mut self, id: SocketId, count: usize, source: &mut dyn Source) -> Result<usize, SendError> {
        let (tcp, env) = env!(self);
        tcp.send_from(env, id, count, source)
    }

    /// Marks the queued bytes as urgent (MSG_OOB) up to the end of the queue, or to `ahead` bytes after it (before it, if
    /// negative). Call it before they are sent. Neither Nagle nor a cork delays urgent data.
    pub fn mark_urgent(&mut self, id: SocketId, ahead: i32) {
        let (tcp, env) = env!(self);
        tcp.mark_urgent(env, id, ahead);
    }

    /// Returns the urgent data that has arrived or is announced, until the application has read beyond it.
    pub fn urgent(&self, id: SocketId) -> Option<Urgent> {
        self.tcp.urgent(id)
    }

    /// Queues a frame of payload without copying it.
    ///
    /// # Errors
    /// Returns the frame with the reason.
    pub fn send_frame(&mut self, id: SocketId, frame: Frame) -> Result<(), (Frame, SendError)> {
        let (tcp, env) = env!(self);
        tcp.send_frame(env, id, frame)
    }

    /// Takes the next frame of payload, in order. Only `consumed` opens the window.
    ///
    /// # Errors
    /// [`ReceiveError`]
    pub fn take_frame(&mut self, id: SocketId) -> Result<Frame, ReceiveError> {
        let (tcp, env) = env!(self);
        tcp.take_frame(env, id)
    }

    /// Reads up to `max` bytes in place: `visit` gets piece after piece, in order. The window may open by the bytes visited.
    /// Returns their number, at least one unless `max` is 0.
    ///
    /// # Errors
    /// [`ReceiveError`]
    pub fn read_with(&mut self, id: SocketId, max: usize, visit: &mut dyn FnMut(&[u8])) -> Result<usize, ReceiveError> {
        let (tcp, env) = env!(self);
        tcp.read_with(env, id, max, visit)
    }

    /// Reports that the application has read `bytes` of the frames from `take_frame`: the window may open.
    pub fn consumed(&mut self, id: SocketId, bytes: usize) {
        let (tcp, env) = env!(self);
        tcp.consumed(env, id, bytes);
    }

    /// Returns the number of bytes received in order that `take_frame` has not returned yet.
    pub fn unread(&self, id: SocketId) -> usize {
        self.tcp.unread(id)
    }

    /// Returns the connection of a packet of `len` bytes that begins with `head` and waits at an interface. `None`: no
    /// connection, or not a simple packet (see [`Destination`]).
    pub fn destination(&self, interface: u32, head: &[u8], len: usize) -> Option<Destination> {
        let (key, header_bytes) = flow_of(self.ip.plain_medium(interface)?, head, len)?;
        let (socket, user_token) = self.tcp.connection_of(&key)?;
        Some(Destination { socket, user_token, header_bytes })
    }

    /// Returns the operations that are possible on the socket now. A stale name is hung up.
    pub fn readiness(&self, id: SocketId) -> Readiness {
        if Udp::names(id) { self.udp.readiness(id) } else { self.tcp.readiness(id) }
    }

    /// Returns local and remote address; the remote one of an unconnected UDP socket is unspecified. `None`: the name is
    /// stale or a listener's.
    pub fn addresses(&self, id: SocketId) -> Option<(SocketAddress, SocketAddress)> {
        if Udp::names(id) { self.udp.addresses(id) } else { self.tcp.addresses(id) }
    }

    /// Replaces the options of a socket.
    pub fn set_options(&mut self, now: Instant, id: SocketId, options: TcpOptions) {
        let (tcp, env) = env!(self);
        tcp.set_options(now, env, id, options);
    }

    /// Ends reading from a connection: once it has also shut down writing, further data is answered with RST.
    pub fn shutdown_read(&mut self, now: Instant, id: SocketId) {
        let (tcp, env) = env!(self);
        tcp.shutdown_read(now, env, id);
    }

    /// Sends FIN after the queued data. UDP: nothing more can be sent.
    pub fn shutdown_write(&mut self, now: Instant, id: SocketId) {
        if Udp::names(id) {
            let (udp, env) = env!(self, udp);
            return udp.shutdown_write(env, id);
        }
        let (tcp, env) = env!(self);
        tcp.shutdown_write(now, env, id);
    }

    /// Closes the socket: FIN after the queued data, or RST when received data was not read (RFC 2525 §2.17). A listener's
    /// waiting connections are reset. A UDP socket is gone at once; its queued datagrams leave. [`Event::Closed`] follows.
    pub fn close(&mut self, now: Instant, id: SocketId) {
        if Udp::names(id) {
            let (udp, env) = env!(self, udp);
            return udp.close(env, id);
        }
        let (tcp, env) = env!(self);
        tcp.close(now, env, id);
    }

    /// Closes the socket with RST.
    pub fn abort(&mut self, now: Instant, id: SocketId) {
        if Udp::names(id) {
            return self.close(now, id);
        }
        let (tcp, env) = env!(self);
        tcp.abort(now, env, id);
    }

    /// Ends a connection without a packet, as if it had timed out, even an orphan.
    pub fn give_up(&mut self, now: Instant, id: SocketId) {
        let (tcp, env) = env!(self);
        tcp.give_up(now, env, id);
    }

    /// Sends once what TCP_CORK or MSG_MORE holds; later data is held again.
    pub fn push(&mut self, now: Instant, id: SocketId) {
        let (tcp, env) = env!(self);
        tcp.push(now, env, id);
    }

    /// Calls `visit` for every listener, connection, TIME-WAIT record and UDP socket.
    pub fn for_each_socket(&self, visit: &mut dyn FnMut(&SocketSummary)) {
        self.tcp.for_each_socket(visit);
        self.udp.for_each_socket(visit);
    }

    /// Returns the summary of one connection, as in [`for_each_socket`](Self::for_each_socket).
    pub fn summary(&self, id: SocketId) -> Option<SocketSummary> {
        self.tcp.summary_of(id)
    }

    /// Returns the numbers of half-open connections and of TIME-WAIT records: cheaper than
    /// [`for_each_socket`](Self::for_each_socket).
    pub fn records(&self) -> (usize, usize) {
        self.tcp.records()
    }

    /// For the test that the fast paths have the same effect as the slow path.
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
    pub(crate) fn fast_segments(&self) -> u64 {
        self.tcp.fast_segments()
    }

    /// Returns the number of TCP connections that may receive segments, including TIME-WAIT.
    #[inline]
    pub fn connections(&self) -> usize {
        self.tcp.flows()
    }

    /// Returns all counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}
