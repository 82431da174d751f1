//! The socket calls of the stack's API.

use alloc::vec::Vec;
use core::net::{Ipv4Addr, Ipv6Addr};

use ringway_shm::{Burst, Frame, Instant};

use crate::address::SocketAddress;
use crate::admission::Backlog;
use crate::config::TcpOptions;
use crate::env::Env;
use crate::error::{AcceptError, ConnectError, ListenError, ReceiveError, SendError};
use crate::event::{Event, Readiness, SocketId};
use crate::ip::{Ip, Template};
use crate::source::Source;
use crate::stats::Counter;
use crate::wire::tcp::SACK_BLOCKS_MAX;

use super::Tcp;
use super::cold::Timeouts;
use super::connection::Connection;
use super::demux::{FlowKey, Target};
use super::listener::LISTENER_BIT;
use super::output::{Progress, WriteError};
use super::owners::OwnerUse;
use super::send_queue::Shape;
use super::state::State;
use super::tcb::flag;

/// An active OPEN (RFC 9293 §3.10.1).
#[derive(Clone, Copy, Debug)]
pub struct ActiveOpen {
    /// Without it, or with an unspecified address or port 0 in it, the stack chooses.
    pub local: Option<SocketAddress>,
    /// The peer.
    pub remote: SocketAddress,
    /// The connection's options.
    pub options: TcpOptions,
    /// Names the connection in events.
    pub user_token: u64,
}

impl ActiveOpen {
    /// A connection to `remote` without a name, with default options, from where the stack chooses.
    pub fn to(remote: SocketAddress) -> ActiveOpen {
        ActiveOpen { local: None, remote, options: TcpOptions::default(), user_token: 0 }
    }
}

impl Tcp {
    /// RFC 9293 §3.10.1, passive OPEN, at an address of ours.
    pub(crate) fn listen(
        &mut self,
        local: SocketAddress,
        backlog: u32,
        options: TcpOptions,
        user_token: u64,
    ) -> Result<SocketId, ListenError> {
        if self.listeners.conflicts(local, &options) {
            return Err(ListenError::InUse);
        }
        let (index, generation) = self.listeners.insert(local, backlog, options, user_token).ok_or(ListenError::Full)?;
        Ok(SocketId { index: index | LISTENER_BIT, generation })
    }

    /// Sets the number of further connections that the application accepting for a listener has space for.
    pub(crate) fn set_room(&mut self, listener: SocketId, room: u32) {
        let listener = self.listener_index(listener).and_then(|index| self.listeners.get_mut(index));
        if let Some(listener) = listener {
            listener.room = room;
        }
    }

    /// Whose listener it is. One that has half-open connections already keeps its owner.
    pub(crate) fn set_owner(&mut self, listener: SocketId, owner: u32) {
        let Some(index) = self.listener_index(listener) else { return };
        let Some(entry) = self.listeners.get_mut(index).filter(|entry| entry.half_open.len() == 0) else { return };
        entry.owner = Some(owner);
        self.owners.add(owner);
    }

    /// Largest number that one of them may have there.
    pub(crate) fn half_open_per_owner_max(&self) -> u32 {
        self.owners.max()
    }

    /// Use of the SYN queue by each owner.
    pub(crate) fn owners(&self) -> Vec<OwnerUse> {
        self.owners.list()
    }

    /// Bytes that the SYN of an active open may carry, while it waits for them.
    pub(crate) fn fast_open_room(&mut self, env: &mut Env, id: SocketId) -> Option<usize> {
        self.named(env, id)?.fast_open_room().map(usize::from)
    }

    pub(super) fn listener_index(&self, id: SocketId) -> Option<u32> {
        let index = id.index & !LISTENER_BIT;
        let is_listener = id.index & LISTENER_BIT != 0;
        self.listeners.get(index).filter(|listener| is_listener && listener.generation == id.generation).map(|_| index)
    }

    /// Takes the oldest connection of a listener's accept queue.
    pub(crate) fn accept(&mut self, env: &mut Env, listener: SocketId, user_token: u64) -> Result<SocketId, AcceptError> {
        let listener = self.listener_index(listener).ok_or(AcceptError::NotListening)?;
        let entry = self.listeners.get_mut(listener).ok_or(AcceptError::NotListening)?;
        let index = entry.accept_queue.pop_front().ok_or(AcceptError::WouldBlock)?;
        let mut connection = self.connection(env, index);
        connection.tcb.set_offered(false);
        connection.tcb.user_token = user_token;
        if let Some(error) = connection.tcb.error() {
            let socket = connection.id();
            connection.env.events.push_back(Event::Failed { socket, user_token, error });
        } else if connection.tcb.is_readable() {
            connection.signal();
        }
        Ok(connection.id())
    }

    /// RFC 9293 §3.10.1, active OPEN.
    pub(crate) fn connect(&mut self, now: Instant, env: &mut Env, open: ActiveOpen) -> Result<SocketId, ConnectError> {
        let ActiveOpen { local, remote, options, user_token } = open;
        self.set_now(now);
        let any = if remote.ip.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let local = local.unwrap_or(SocketAddress { ip: any, port: 0 });
        let wanted = (!local.ip.is_unspecified()).then_some(local.ip);
        let path = env.ip.route(remote.ip, wanted).filter(|_| self.reaches(env.ip, remote)).ok_or(ConnectError::NoRoute)?;
        let mut key = FlowKey { local: path.source, remote: remote.ip, local_port: local.port, remote_port: remote.port };
        key.local_port = self.choose_port(env.ip, key)?;
        let template = Template::stale(key.local, key.remote, env.ip.generation());
        let index = self.allocate(template).ok_or(ConnectError::Full)?;
        self.flows.insert(self.hasher.hash(&key), Target::Connection(index));
        env.counters.count(Counter::TcpActiveOpens);
        let iss = self.shared.secrets.initial_sequence(now, &key);
        let mut connection = self.connection(env, index);
        connection.tcb.configure(&connection.shared.config, &options);
        connection.tcb.local_port = key.local_port;
        connection.tcb.remote_port = key.remote_port;
        connection.tcb.user_token = user_token;
        if options.maximum_segment_size != 0 {
            connection.tcb.set_mss(options.maximum_segment_size);
        }
        connection.remember_offer_limit(options.maximum_segment_size);
        connection.apply_timeouts(&options);
        if options.fast_open {
            connection.open_fast(iss, &options);
        } else {
            connection.open(iss);
        }
        Ok(connection.id())
    }

    /// Returns true when a connection to `remote` is for this stack to make: for our addresses that the kernel has too, the
    /// kernel answers, except for ports served here.
    pub(crate) fn reaches(&self, ip: &Ip, remote: SocketAddress) -> bool {
        !ip.owns(remote.ip) || ip.is_only_ours(remote.ip) || self.listeners.find(remote.ip, remote.port).is_some()
    }

    /// The caller's port if its 4-tuple is free, otherwise an ephemeral one (RFC 6056); the answers must come to this stack.
    fn choose_port(&mut self, ip: &Ip, key: FlowKey) -> Result<u16, ConnectError> {
        let is_ours = |port| ip.has_flow((key.local, port), (key.remote, key.remote_port));
        if key.local_port != 0 && !is_ours(key.local_port) {
            return Err(ConnectError::NoPort);
        }
        if key.local_port != 0 {
            return if self.is_free(&key) { Ok(key.local_port) } else { Err(ConnectError::InUse) };
        }
        let (secrets, range) = (&self.shared.secrets, self.shared.config.ephemeral_ports);
        let mut search = self.port_counters.search(secrets, &key, range);
        let port = search.find(|&port| is_ours(port) && self.is_free(&FlowKey { local_port: port, ..key }));
        self.port_counters.advance(&search);
        port.ok_or(ConnectError::NoPort)
    }

    fn is_free(&self, key: &FlowKey) -> bool {
        !self.is_known(key) && self.listeners.find(key.local, key.local_port).is_none() && !self.holds.covers(key)
    }

    /// Number of bytes that may be queued now.
    pub(crate) fn send_space(&self, id: SocketId) -> usize {
        self.resolve(id).filter(|tcb| tcb.state().accepts_data()).map_or(0, |tcb| self.shared.room(tcb))
    }

    /// Maximum bytes of a payload frame now.
    pub(crate) fn send_piece(&mut self, env: &mut Env, id: SocketId) -> usize {
        let Some(connection) = self.named(env, id).filter(|connection| connection.tcb.state().accepts_data()) else { return 0 };
        connection.tcb.send_piece(connection.extent_shape())
    }

    /// Number of bytes queued and not acknowledged.
    pub(crate) fn send_queued(&self, id: SocketId) -> usize {
        self.resolve(id).map_or(0, |tcb| tcb.send_queued())
    }

    /// Takes over what applications leave unread.
    pub(crate) fn set_backlog(&mut self, backlog: Backlog) {
        self.shared.backlog = backlog;
    }

    /// Memory of the bytes queued and not acknowledged.
    pub(crate) fn send_memory(&self, id: SocketId) -> usize {
        self.resolve(id).map_or(0, |tcb| tcb.send_memory() as usize)
    }

    /// Number of bytes acknowledged so far.
    pub(crate) fn bytes_acknowledged(&self, id: SocketId) -> u64 {
        self.resolve(id).map_or(0, |tcb| tcb.bytes_acked())
    }

    /// See [`Stack::cut_send_buffer`](crate::Stack::cut_send_buffer).
    pub(crate) fn cut_send_buffer(&mut self, env: &mut Env, id: SocketId) -> bool {
        self.named(env, id).is_some_and(|mut connection| connection.cut_send_buffer())
    }

    /// Queues bytes of `source`.
    pub(crate) fn send_from(
        &mut self,
        env: &mut Env,
        id: SocketId,
        count: usize,
        source: &mut dyn Source,
    ) -> Result<usize, SendError> {
        let mut connection = self.named(env, id).ok_or(SendError::NotConnected)?;
        if connection.queue_small(count, source) {
            return Ok(count);
        }
        connection.reborrow().queue_from(count, source)
    }

    /// Queues a frame.
    pub(crate) fn send_frame(&mut self, env: &mut Env, id: SocketId, frame: Frame) -> Result<(), (Frame, SendError)> {
        let Some(mut connection) = self.named(env, id) else { return Err((frame, SendError::NotConnected)) };
        if let Err(error) = connection.sendable(frame.len()) {
            return Err((frame, error));
        }
        if frame.is_empty() {
            return Ok(());
        }
        connection.check_application_limited();
        let shape = connection.extent_shape();
        let sum = shape.sum.then(|| frame.payload().sum());
        connection.tcb.enqueue(frame, sum);
        connection.mark_data();
        connection.open_waiting();
        Ok(())
    }

    /// Takes the next frame of received data.
    pub(crate) fn take_frame(&mut self, env: &mut Env, id: SocketId) -> Result<Frame, ReceiveError> {
        self.named(env, id).ok_or(ReceiveError::NotConnected)?.take_frame()
    }

    /// Calls `visit` with up to `max` bytes of received data in place.
    pub(crate) fn read_with(
        &mut self,
        env: &mut Env,
        id: SocketId,
        max: usize,
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<usize, ReceiveError> {
        self.named(env, id).ok_or(ReceiveError::NotConnected)?.read_with(max, visit)
    }

    /// Notes that the application has read `bytes`.
    pub(crate) fn consumed(&mut self, env: &mut Env, id: SocketId, bytes: usize) {
        if let Some(mut connection) = self.named(env, id) {
            connection.consumed(u32::try_from(bytes).unwrap_or(u32::MAX));
        }
    }

    /// Number of bytes that can be read.
    pub(crate) fn unread(&self, id: SocketId) -> usize {
        self.resolve(id).map_or(0, |tcb| tcb.unread() as usize)
    }

    /// Current readiness.
    pub(crate) fn readiness(&self, id: SocketId) -> Readiness {
        if let Some(listener) = self.listener_index(id).and_then(|index| self.listeners.get(index)) {
            return Readiness { readable: !listener.accept_queue.is_empty(), ..Readiness::default() };
        }
        let Some(tcb) = self.resolve(id) else {
            return Readiness { readable: true, writable: true, peer_closed: true, hung_up: true };
        };
        let peer_closed = tcb.is_peer_closed();
        Readiness {
            readable: tcb.is_readable(),
            writable: self.shared.is_writable(tcb),
            peer_closed,
            hung_up: peer_closed && tcb.state().is_write_closed() && !matches!(tcb.state(), State::Closing | State::LastAck),
        }
    }

    /// Local and remote address of a connection.
    pub(crate) fn addresses(&self, id: SocketId) -> Option<(SocketAddress, SocketAddress)> {
        Some(self.resolve(id)?.addresses())
    }

    /// Replaces a socket's options.
    pub(crate) fn set_options(&mut self, now: Instant, env: &mut Env, id: SocketId, options: TcpOptions) {
        self.set_now(now);
        if let Some(index) = self.listener_index(id) {
            if let Some(listener) = self.listeners.get_mut(index) {
                listener.options = options;
            }
            return;
        }
        let Some(mut connection) = self.named(env, id) else { return };
        let (receive_buffer, send_buffer) = (connection.tcb.receive_buffer(), connection.tcb.send_buffer());
        let algorithm = connection.tcb.congestion();
        connection.tcb.configure(&connection.shared.config, &options);
        if connection.tcb.congestion() != algorithm {
            connection.forget_rate_based();
        }
        // RFC 9293 §3.8.6: the window does not shrink; the scale was fixed with the SYN.
        if options.receive_buffer_bytes == 0 {
            connection.tcb.set_receive_buffer(receive_buffer);
        }
        if options.send_buffer_bytes == 0 {
            connection.tcb.set_send_buffer(send_buffer);
        }
        connection.tcb.template.generation = connection.env.ip.generation().wrapping_sub(1);
        connection.apply_timeouts(&options);
        connection.hold_for_more(options.more && !options.cork);
        if options.quick_ack == Some(true) && connection.tcb.has(flag::ACK_PENDING) {
            connection.ack_now();
        }
        connection.mark_data_if_any();
    }

    /// Sends once what a cork holds.
    pub(crate) fn push(&mut self, now: Instant, env: &mut Env, id: SocketId) {
        self.set_now(now);
        if let Some(mut connection) = self.named(env, id) {
            connection.push_corked();
        }
    }

    /// Ends sending.
    pub(crate) fn shutdown_write(&mut self, now: Instant, env: &mut Env, id: SocketId) {
        self.set_now(now);
        if let Some(mut connection) = self.named(env, id) {
            connection.shutdown_write();
        }
    }

    /// Ends reading.
    pub(crate) fn shutdown_read(&mut self, now: Instant, env: &mut Env, id: SocketId) {
        self.set_now(now);
        if let Some(mut connection) = self.named(env, id) {
            connection.shutdown_read();
        }
    }

    /// Closes a socket.
    pub(crate) fn close(&mut self, now: Instant, env: &mut Env, id: SocketId) {
        self.set_now(now);
        if let Some(index) = self.listener_index(id) {
            self.close_listener(env, index, id);
        } else if let Some(mut connection) = self.named(env, id) {
            connection.close();
        }
        self.settle(env);
    }

    fn close_listener(&mut self, env: &mut Env, index: u32, id: SocketId) {
        let user_token = self.listeners.get(index).map_or(0, |listener| listener.user_token);
        while let Some(record) = self.listeners.get(index).and_then(|listener| listener.half_open.oldest()) {
            self.forget_half_open(record);
        }
        for waiting in self.listeners.remove(index) {
            self.connection(env, waiting).abort();
        }
        env.events.push_back(Event::Closed { socket: id, user_token, time_wait: false });
    }

    /// Ends a connection as if it had timed out, also one that no application holds.
    pub(crate) fn give_up(&mut self, now: Instant, env: &mut Env, id: SocketId) {
        self.set_now(now);
        let tcb = self.tcbs.get_mut(id.index as usize).filter(|tcb| tcb.generation == id.generation);
        if let Some(tcb) = tcb.filter(|tcb| tcb.state() != State::Closed) {
            Connection { index: id.index, now: self.now, tcb, shared: &mut self.shared, env }.give_up();
        }
        self.settle(env);
    }

    /// Aborts a connection that no application holds. Returns false when there is none.
    pub(crate) fn reset_orphan(&mut self, now: Instant, env: &mut Env, id: SocketId) -> bool {
        self.set_now(now);
        let tcb = self.tcbs.get(id.index as usize);
        if tcb.is_none_or(|tcb| tcb.generation != id.generation || !tcb.has(flag::ORPHAN)) {
            return false;
        }
        self.connection(env, id.index).abort();
        self.settle(env);
        true
    }

    /// Returns true for an orphan whose peer has yet to acknowledge data or the FIN.
    pub(crate) fn orphan_sends(&self, id: SocketId) -> bool {
        let tcb = self.tcbs.get(id.index as usize);
        let tcb = tcb.filter(|tcb| tcb.generation == id.generation && tcb.has(flag::ORPHAN));
        tcb.is_some_and(|tcb| !matches!(tcb.state(), State::Closed | State::FinWait2 | State::TimeWait))
    }

    /// Closes a socket with RST.
    pub(crate) fn abort(&mut self, now: Instant, env: &mut Env, id: SocketId) {
        if self.listener_index(id).is_some() {
            self.close(now, env, id);
            return;
        }
        self.set_now(now);
        if let Some(mut connection) = self.named(env, id) {
            connection.abort();
        }
        self.settle(env);
    }
}

impl Connection<'_, '_> {
    /// Queues up to `count` bytes of `source`.
    #[inline(never)]
    fn queue_from(&mut self, count: usize, source: &mut dyn Source) -> Result<usize, SendError> {
        let count = self.sendable(count)?;
        self.check_application_limited();
        let shape = Shape { first: self.first_frame_use(), ..self.extent_shape() };
        let queued = self.tcb.enqueue_from(self.env.arena, shape, count, source);
        self.mark_data();
        self.open_waiting();
        if queued < count {
            self.shared.starved.insert(self.index);
            if queued == 0 {
                self.env.counters.count(Counter::DropNoFrame);
                return Err(SendError::WouldBlock);
            }
        }
        Ok(queued)
    }

    /// The part of `wanted` bytes that can be queued.
    #[inline]
    fn sendable(&mut self, wanted: usize) -> Result<usize, SendError> {
        if !self.tcb.state().accepts_data() || self.tcb.has(flag::FIN_QUEUED) {
            return Err(SendError::Closed);
        }
        let room = self.shared.room(self.tcb);
        if room < wanted {
            self.reborrow().stats().clock.writer_waits();
        }
        if room == 0 { Err(SendError::WouldBlock) } else { Ok(wanted.min(room)) }
    }

    /// Takes over the timeouts and the pacing rate that the application has set.
    pub(crate) fn apply_timeouts(&mut self, options: &TcpOptions) {
        let milliseconds = |duration: crate::Duration| u32::try_from(duration.as_millis()).unwrap_or(u32::MAX);
        let timeouts = Timeouts {
            keepalive_idle_ms: milliseconds(options.keepalive_idle),
            keepalive_interval_ms: milliseconds(options.keepalive_interval),
            keepalive_probes: options.keepalive_probes,
            user_timeout_ms: milliseconds(options.user_timeout),
            syn_retries: options.syn_retries,
            fin_timeout_ms: options.fin_timeout.map(milliseconds),
            not_sent_low_water: options.not_sent_low_water,
            path_mtu_discovery: options.path_mtu_discovery,
        };
        if options.receive_buffer_bytes != 0 {
            self.lock_receive_buffer();
        }
        self.lock_send_buffer(options.send_buffer_bytes != 0);
        if options.window_clamp != 0 || self.tcb.has_rare_stats {
            self.clamp_window(options.window_clamp);
        }
        if timeouts != Timeouts::default() || self.tcb.cold() != super::cold::NONE {
            self.demand_cold().timeouts = timeouts;
        }
        if options.pacing_rate_max != 0
            || options.shared_rates.iter().any(Option::is_some)
            || self.tcb.cold() != super::cold::NONE
        {
            let pacing = &mut self.demand_cold().pacing;
            (pacing.rate_max, pacing.shared) = (options.pacing_rate_max, options.shared_rates);
        }
        self.set_keepalive(options.keepalive);
    }

    /// Writes the marked control work: SYN, probe, ACK.
    pub(crate) fn transmit_control(&mut self, out: &mut [Burst]) -> Progress {
        let written = match self.tcb.state() {
            State::Closed | State::Listen | State::TimeWait => Ok(()),
            State::SynSent | State::SynReceived if self.tcb.has(flag::ACK_NOW) => self.write_syn(out),
            State::SynSent | State::SynReceived => Ok(()),
            _ => self.write_probe_or_ack(out),
        };
        match written {
            Ok(()) => Progress::Done,
            Err(WriteError::NoFrame) => {
                self.env.counters.count(Counter::DropNoFrame);
                Progress::NoFrame
            }
            // A timer tries again, or the peer does.
            Err(WriteError::NoRoute) => Progress::Done,
        }
    }

    fn write_probe_or_ack(&mut self, out: &mut [Burst]) -> Result<(), WriteError> {
        if self.tcb.has(flag::PROBE) {
            self.write_probe(out)?;
        }
        if self.owes_ack() && !self.is_ack_carried_by_data() {
            self.write_ack(out)?;
        }
        Ok(())
    }

    /// Linux: writes a segment before the window, which the peer must answer with an ACK.
    fn write_probe(&mut self, out: &mut [Burst]) -> Result<(), WriteError> {
        let mut header = self.header(self.tcb.snd_una() - 1);
        self.write_sack(&mut header, SACK_BLOCKS_MAX);
        self.write(&header, None, out)?;
        self.tcb.clear(flag::PROBE);
        Ok(())
    }
}
