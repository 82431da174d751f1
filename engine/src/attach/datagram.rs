//! Datagram sockets: messages of the channel on one side, the stack's UDP on the other.
//!
//! Promises: an envelope is copied out once, checked, and the copy used; a false one costs the socket its queued
//! messages. A message is handed over whole or stays where it is. Does not do: multicast groups; see `multicast`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ringway_channel::datagram::{ENVELOPE, PAYLOAD_MAX};
use ringway_channel::{ControlAnswer, Envelope, Failure, SlotIndex, SocketOption, State};
use ringway_shm::Burst;
use ringway_shm::stats::InfoRecord;
use ringway_stack::{
    BindError, PathMtuDiscovery, SocketAddress, SocketId, UdpError, UdpMessage, UdpOptions, UdpSend, UdpSendError,
};

use super::claims::PortUse;
use super::close::Closing;
use super::multicast::Joined;
use super::pace::Pace;
use super::region::Region;
use super::request::failure_of;
use super::socket::{Kind, Listening};
use crate::claim::Purpose;
use crate::core::Core;
use crate::guard::Guard;
use crate::ports::Transport;

/// Most bytes that one call moves for one socket, so that others get their share.
const QUANTUM: usize = 1 << 20;

/// State of a datagram socket beside that of all sockets.
#[derive(Debug, Default)]
pub(super) struct Datagrams {
    pub(super) options: UdpOptions,
    /// Envelope of a message with payload that waits for space in the stack.
    waiting: Option<Envelope>,
    /// Its rate, if a rule sets one.
    pub(super) pace: Option<Box<Pace>>,
    /// Multicast groups that it has joined here.
    pub(super) joined: Vec<Joined>,
    received: Counted,
    sent: Counted,
}

impl Datagrams {
    /// What statistics tell of the socket.
    pub(super) fn info(&self) -> InfoRecord {
        InfoRecord {
            received_segments: self.received.datagrams,
            received_bytes: self.received.bytes,
            sent_segments: self.sent.datagrams,
            sent_bytes: self.sent.bytes,
            ..InfoRecord::default()
        }
    }
}

/// Datagrams, and bytes of their payload.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    datagrams: u64,
    bytes: u64,
}

impl Counted {
    /// One message: datagrams of `segment_size` (0: only one).
    fn add(&mut self, len: usize, segment_size: u16) {
        self.datagrams += match segment_size {
            0 => 1,
            size => len.div_ceil(size.into()).max(1) as u64,
        };
        self.bytes += len as u64;
    }
}

impl Region {
    /// Serves datagrams to an address and port that the application has bound in the kernel.
    pub(super) fn open_datagrams(
        &mut self,
        slot: SlotIndex,
        local: SocketAddr,
        dual_stack: bool,
        core: &mut Core,
    ) -> ControlAnswer {
        let user_token = self.user_token(slot);
        let socket = self.sockets.get(slot).expect("the caller made it");
        if socket.kind != Kind::Fresh || local.port() == 0 {
            return ControlAnswer::Failed(Failure::Invalid);
        }
        let dual_stack = dual_stack && local.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED);
        let mut addresses = vec![local.ip()];
        if dual_stack {
            addresses.push(Ipv4Addr::UNSPECIFIED.into());
        }
        let wanted = PortUse { purpose: Purpose::Datagrams, addresses: &addresses, port: local.port() };
        let Ok(claim) = self.right(slot, wanted, core) else {
            return ControlAnswer::NotOurs;
        };
        if local.ip().is_multicast() && !core.hears_multicast_somewhere() {
            return ControlAnswer::NotOurs;
        }
        let listening = Listening { port: local.port(), local: addresses, ..Listening::default() };
        let terms = match listening.judge(Transport::Udp, core).within(self.verdict).granted() {
            Ok(terms) => terms,
            Err(failure) => return ControlAnswer::Failed(failure),
        };
        if listening.local.iter().any(|ip| self.guard.contains(Guard::datagrams(ip.is_ipv4()))) {
            return ControlAnswer::Failed(Failure::CgroupProgram);
        }
        let socket = self.sockets.get(slot).expect("the caller made it");
        socket.datagrams.options.only_ipv6 = !dual_stack;
        // What another socket has joined, the kernel's socket underneath receives.
        socket.datagrams.options.multicast_all = false;
        let options = socket.datagrams.options.clone();
        let id = match core.stack.udp_bind(SocketAddress { ip: local.ip(), port: local.port() }, options, user_token) {
            Ok(id) => id,
            Err(BindError::NotLocal) => return ControlAnswer::NotOurs,
            Err(BindError::InUse | BindError::NoPort) => return ControlAnswer::Failed(Failure::InUse),
            Err(BindError::Full) => return ControlAnswer::Failed(Failure::NoResources),
        };
        socket.kind = Kind::Datagram;
        socket.claim = claim;
        socket.id = Some(id);
        socket.listening = Some(Box::new(listening));
        socket.record = core.metrics.claim_record();
        if let Err(error) = self.own_addresses(slot, core) {
            self.close(slot, Closing::Reset, core);
            return ControlAnswer::Failed(failure_of(error));
        }
        let peers: IpAddr =
            if dual_stack || local.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        self.channel.set_addresses(slot, local, SocketAddr::new(peers, 0));
        self.open_limits(slot);
        self.pace_datagrams(slot, terms);
        self.channel.set_state(slot, State::Connected);
        ControlAnswer::Done
    }

    /// Sets the remote end, or (port 0) clears it.
    pub(super) fn connect_datagrams(&mut self, slot: SlotIndex, remote: SocketAddr, core: &mut Core) -> ControlAnswer {
        let Some((Kind::Datagram, Some(id))) = self.sockets.get(slot).map(|socket| (socket.kind, socket.id)) else {
            return ControlAnswer::Failed(Failure::Invalid);
        };
        if remote.port() != 0 && Region::route(remote, 0, core) != ControlAnswer::Done {
            return ControlAnswer::NotOurs;
        }
        // Messages written earlier go to the earlier remote end.
        self.send_messages(slot, id, core);
        let peer = (remote.port() != 0).then_some(SocketAddress { ip: remote.ip(), port: remote.port() });
        if core.stack.udp_connect(id, peer).is_err() {
            return ControlAnswer::NotOurs;
        }
        if let Some((local, peer)) = core.stack.addresses(id) {
            self.channel.set_addresses(slot, SocketAddr::new(local.ip, local.port), SocketAddr::new(peer.ip, peer.port));
        }
        ControlAnswer::Done
    }

    /// Answers whether datagrams to `remote` leave through an interface of ours: `interface` (the kernel's number), if
    /// not 0.
    pub(super) fn route(remote: SocketAddr, interface: u32, core: &Core) -> ControlAnswer {
        if remote.ip().is_multicast() {
            // Where the kernel shares the interface, its own sockets hear what it sends.
            let at = core.stack.interface_to_many(remote.ip()).filter(|&at| core.is_alone_at(at));
            let fits = at.is_some_and(|at| interface == 0 || core.kernel_number(at) == interface);
            return if fits { ControlAnswer::Done } else { ControlAnswer::NotOurs };
        }
        let leads = core.stack.source_for(remote.ip()).is_some_and(|source| core.stack.owns(source));
        let through = || core.stack.interface_for(remote.ip()).map(|number| core.kernel_number(number));
        let fits = interface == 0 || through() == Some(interface);
        if leads && fits && !core.stack.owns(remote.ip()) { ControlAnswer::Done } else { ControlAnswer::NotOurs }
    }

    /// Hands messages of the application to the stack; the rest waits for an event.
    pub(super) fn send_messages(&mut self, slot: SlotIndex, id: SocketId, core: &mut Core) {
        if let Some(reason) = self.given_back(slot) {
            self.discard_send(slot);
            self.say_given_back(slot, reason);
        }
        let (mut moved, mut blocked) = (0, false);
        while let Some(envelope) = self.next_message(slot) {
            if moved >= QUANTUM {
                self.wait_with(slot, envelope);
                self.retry_later(slot);
                blocked = true;
                break;
            }
            if self.has_to_wait(slot, envelope.len, core.now) {
                self.wait_with(slot, envelope);
                blocked = true;
                break;
            }
            let send = UdpSend {
                len: envelope.len,
                to: envelope.peer.map(|peer| SocketAddress { ip: peer.ip(), port: peer.port() }),
                source: envelope.local,
                segment_size: envelope.segment_size,
                type_of_service: envelope.type_of_service,
                time_to_live: envelope.time_to_live,
            };
            let channel = &mut self.channel;
            let sent = core.stack.udp_send(core.now, id, &send, &mut |piece| {
                let copied = channel.copy_tx(slot, piece);
                piece[copied..].fill(0);
            });
            match sent {
                Ok(_) => {
                    let socket = self.sockets.get(slot).expect("it has a message");
                    let size = envelope.segment_size.unwrap_or(socket.datagrams.options.segment_size);
                    socket.datagrams.sent.add(envelope.len, size);
                }
                Err(UdpSendError::WouldBlock) => {
                    self.keep_time(slot, core.now);
                    self.wait_with(slot, envelope);
                    blocked = true;
                    break;
                }
                Err(error) => {
                    self.skip(slot, envelope.len);
                    self.channel.note_error(slot, failure_of_send(error));
                    self.channel.signal(slot);
                }
            }
            moved += ENVELOPE + envelope.len;
            self.channel.release_tx(slot, (ENVELOPE + envelope.len) as u32);
        }
        self.note_waiting(slot, usize::MAX, core);
        let Some(socket) = self.sockets.get(slot) else { return };
        socket.send_blocked = blocked;
        if socket.closing && !blocked {
            self.close_datagrams(slot, core);
        }
    }

    fn wait_with(&mut self, slot: SlotIndex, envelope: Envelope) {
        if let Some(socket) = self.sockets.get(slot) {
            socket.datagrams.waiting = Some(envelope);
        }
    }

    /// Takes the envelope of the next message, once its payload is complete.
    fn next_message(&mut self, slot: SlotIndex) -> Option<Envelope> {
        if let Some(envelope) = self.sockets.get(slot)?.datagrams.waiting.take() {
            return Some(envelope);
        }
        let available = self.channel.tx_available(slot);
        if available == 0 {
            return None;
        }
        let mut bytes = [0; ENVELOPE];
        let copied = self.channel.copy_tx(slot, &mut bytes);
        let envelope = Envelope::decode(&bytes).filter(|envelope| copied == ENVELOPE && ENVELOPE + envelope.len <= available);
        if envelope.is_none() {
            // Messages are pushed whole: this is none, and the start of the next one is unknown.
            self.channel.note_violation();
            self.channel.release_tx(slot, copied as u32);
            self.discard_send(slot);
        }
        envelope
    }

    /// Skips the payload of a message that cannot be sent.
    fn skip(&mut self, slot: SlotIndex, len: usize) {
        let (mut scratch, mut left) = ([0; 2048], len.min(PAYLOAD_MAX));
        while left > 0 {
            let part = left.min(scratch.len());
            let copied = self.channel.copy_tx(slot, &mut scratch[..part]);
            if copied == 0 {
                return;
            }
            left -= copied;
        }
    }

    /// Handles an event of the socket: it can receive or send, or has an error.
    pub(super) fn datagrams_ready(&mut self, slot: SlotIndex, id: SocketId, core: &mut Core) {
        let Some(socket) = self.sockets.get(slot) else { return };
        let (sends, closing) = (socket.send_blocked || socket.closing, socket.closing);
        if !closing {
            self.receive_messages(slot, id, core);
            if let Some(error) = core.stack.udp_error(id) {
                self.channel.note_error(slot, failure(error));
            }
        }
        if sends {
            self.send_messages(slot, id, core);
        }
        if !closing {
            self.channel.signal(slot);
        }
    }

    /// Moves messages into the channel while there is space; the others wait in the socket's receive buffer.
    fn receive_messages(&mut self, slot: SlotIndex, id: SocketId, core: &mut Core) {
        if self.push_messages(slot, id, core) {
            self.hear_as_usual(slot);
            return;
        }
        // The application must report reading before it has read everything.
        self.channel.publish_rx(slot);
        let soon = (self.channel.unread(slot) / 2).max(1);
        if let Some(socket) = self.sockets.get(slot) {
            socket.notified_soon = true;
        }
        self.channel.set_notify_bytes(slot, soon);
        if self.push_messages(slot, id, core) {
            self.hear_as_usual(slot);
        }
    }

    /// Pushes messages; returns false if the socket's unread limit is reached.
    fn push_messages(&mut self, slot: SlotIndex, id: SocketId, core: &mut Core) -> bool {
        let limit = self.unread_limit() as usize;
        let mut frames = Burst::default();
        while let Some(message) = core.stack.udp_peek(id) {
            let total = ENVELOPE + message.len as usize;
            let unread = self.channel.unread(slot) as usize;
            if unread > 0 && unread + total > limit {
                return false;
            }
            if !self.channel.has_rx_room(total) {
                // No event reports chunks that other sockets give back.
                self.retry_later(slot);
                return true;
            }
            let Some(message) = core.stack.udp_receive(id, &mut frames) else { return true };
            self.channel.push_rx(slot, &envelope_of(&message, core).encode());
            for frame in frames.iter() {
                self.channel.push_rx(slot, frame.payload());
            }
            frames.clear();
            let socket = self.sockets.get(slot).expect("the caller has looked");
            socket.datagrams.received.add(message.len as usize, message.segment_size);
        }
        true
    }

    /// Closes the socket and gives back its ports; datagrams queued in the stack still leave.
    pub(super) fn close_datagrams(&mut self, slot: SlotIndex, core: &mut Core) {
        self.tell_end(slot, core);
        self.leave_all_multicast(slot, core);
        let Some(socket) = self.sockets.get(slot) else { return };
        if let Some(id) = socket.id.take() {
            core.stack.close(core.now, id);
        }
        if let Some(listening) = socket.listening.take() {
            for ip in listening.owned {
                core.ports.remove_datagrams(ip, listening.port);
            }
        }
        self.forget(slot, core);
    }
}

/// Sets an option; returns false if the value is invalid.
pub(super) fn apply(options: &mut UdpOptions, option: SocketOption, value: u32) -> bool {
    let on = value != 0;
    match option {
        SocketOption::ReuseAddress => options.reuse_address = on,
        SocketOption::ReusePort => options.reuse_port = on,
        SocketOption::Broadcast => options.broadcast = on,
        SocketOption::NoChecksum => options.no_checksum = on,
        SocketOption::Coalesce => options.coalesce = on,
        SocketOption::TypeOfService => options.type_of_service = value as u8,
        SocketOption::ReceiveBuffer => options.receive_buffer_bytes = value,
        SocketOption::SendBuffer => options.send_buffer_bytes = value,
        SocketOption::TimeToLive => match u8::try_from(value) {
            Ok(hops) => options.time_to_live = hops,
            Err(_) => return false,
        },
        SocketOption::MulticastLoop => options.multicast_loop = on,
        SocketOption::MulticastTimeToLive => match u8::try_from(value) {
            Ok(hops) => options.multicast_time_to_live = hops,
            Err(_) => return false,
        },
        SocketOption::SegmentSize => match u16::try_from(value) {
            Ok(size) => options.segment_size = size,
            Err(_) => return false,
        },
        SocketOption::PathMtuDiscovery => {
            let Some(discovery) = PathMtuDiscovery::from_number(value) else { return false };
            options.path_mtu_discovery = discovery;
        }
        _ => {}
    }
    true
}

/// The value that [`apply`] has stored; `None` for options that are not of datagrams.
pub(super) fn value_of(options: &UdpOptions, option: SocketOption) -> Option<u32> {
    Some(match option {
        SocketOption::ReuseAddress => options.reuse_address.into(),
        SocketOption::ReusePort => options.reuse_port.into(),
        SocketOption::Broadcast => options.broadcast.into(),
        SocketOption::NoChecksum => options.no_checksum.into(),
        SocketOption::Coalesce => options.coalesce.into(),
        SocketOption::TypeOfService => options.type_of_service.into(),
        SocketOption::ReceiveBuffer => options.receive_buffer_bytes,
        SocketOption::SendBuffer => options.send_buffer_bytes,
        SocketOption::TimeToLive => options.time_to_live.into(),
        SocketOption::MulticastLoop => options.multicast_loop.into(),
        SocketOption::MulticastTimeToLive => options.multicast_time_to_live.into(),
        SocketOption::SegmentSize => options.segment_size.into(),
        _ => return None,
    })
}

fn envelope_of(message: &UdpMessage, core: &Core) -> Envelope {
    Envelope {
        len: message.len as usize,
        segment_size: (message.segment_size != 0).then_some(message.segment_size),
        peer: Some(SocketAddr::new(message.from.ip, message.from.port)),
        local: Some(message.to.ip),
        type_of_service: Some(message.type_of_service),
        time_to_live: Some(message.time_to_live),
        interface: core.kernel_number(message.interface),
        received_at: message.received_at,
    }
}

fn failure(error: UdpError) -> Failure {
    match error {
        UdpError::Refused => Failure::Refused,
        UdpError::HostUnreachable => Failure::HostUnreachable,
        UdpError::NetworkUnreachable => Failure::NetworkUnreachable,
        UdpError::ProtocolUnreachable | UdpError::ProtocolError => Failure::ProtocolUnreachable,
        UdpError::MessageTooLong => Failure::MessageTooLong,
    }
}

fn failure_of_send(error: UdpSendError) -> Failure {
    match error {
        UdpSendError::MessageTooLong => Failure::MessageTooLong,
        UdpSendError::NoRoute => Failure::NetworkUnreachable,
        UdpSendError::BroadcastForbidden => Failure::Prohibited,
        UdpSendError::DestinationRequired => Failure::NotConnected,
        UdpSendError::WouldBlock | UdpSendError::Invalid | UdpSendError::Closed | UdpSendError::NotOpen => Failure::Invalid,
    }
}

#[cfg(test)]
mod tests;
