//! From the stack to the application: connections, bytes, the ends of connections.

use std::net::SocketAddr;

use ringway_channel::{Failure, Flags, SlotIndex, State};
use ringway_stack::{ReceiveError, SocketAddress, SocketError, SocketId};

use super::close::Closing;
use super::region::Region;
use super::socket::{Kind, Socket};
use crate::core::{Core, Ending};
use crate::guard::Guard;
use crate::metrics::Work;
use crate::quota::Quota;

impl Region {
    /// Accepts a listener's waiting connections, as many as its queue holds.
    pub(super) fn accept(&mut self, listener: SlotIndex, core: &mut Core) {
        let Some(socket) = self.sockets.get(listener) else { return };
        let (Some(first), Some(listening)) = (socket.id, &socket.listening) else { return };
        let (second, backlog, options) = (listening.second, listening.backlog, socket.options);
        let has_other_terms = listening.has_other_terms;
        let (resets_at_close, terms, rate_asked) = (socket.resets_at_close, socket.terms, socket.rate_asked);
        let next = |core: &Core| {
            let mut ids = [Some(first), second].into_iter().flatten();
            ids.find(|&id| core.stack.readiness(id).readable)
        };
        while let Some(id) = next(core) {
            if self.channel.waits_for_accept(listener, backlog) {
                break;
            }
            let full = self.sockets.count() >= self.quotas.sockets;
            let child = if full { None } else { self.channel.allocate_slot() };
            let Some(child) = child else {
                if !self.without_room.contains(&listener) {
                    self.without_room.push(listener);
                }
                break;
            };
            let Ok(accepted) = core.accept(id, self.user_token(child.index)) else {
                self.channel.free_slot(child.index);
                break;
            };
            let mut socket = Socket::new(child, options);
            socket.kind = Kind::Connection;
            socket.id = Some(accepted);
            socket.resets_at_close = resets_at_close;
            (socket.terms, socket.rate_asked) = (terms, rate_asked);
            self.sockets.insert(socket);
            if has_other_terms {
                core.stack.set_options(core.now, accepted, options);
            }
            self.open_accepted(listener, child.index, accepted, core);
            if self.guard.contains(Guard::PACKETS) {
                core.stack.give_up(core.now, accepted);
            }
            if self.wants_all {
                self.want_slot(child.index);
            }
        }
        self.note_room(core);
        self.channel.signal(listener);
    }

    fn open_accepted(&mut self, listener: SlotIndex, child: SlotIndex, id: SocketId, core: &mut Core) {
        core.metrics.add(Work::AcceptedSockets, 1);
        let record = core.metrics.claim_record();
        let addresses = core.stack.addresses(id);
        let socket = self.sockets.get(child).expect("the caller has inserted it");
        socket.record = record;
        if let Some((local, remote)) = addresses {
            if core.ports.join(local.ip, local.port) {
                socket.port = Some((local.ip, local.port));
            }
            self.channel.set_addresses(child, address(local), address(remote));
        }
        self.open_limits(child);
        self.channel.set_state(child, State::Connected);
        self.touch(child);
        self.urgent(child, id, core);
        if !self.channel.push_accepted(listener, child, core.now) {
            self.close(child, Closing::Reset, core);
        }
    }

    /// Handles the success of an active open.
    pub(super) fn connected(&mut self, slot: SlotIndex, id: SocketId, core: &mut Core) {
        if let Some((local, remote)) = core.stack.addresses(id) {
            self.channel.set_addresses(slot, address(local), address(remote));
        }
        self.channel.set_state(slot, State::Connected);
        self.channel.clear_flags(slot, Flags::OPENING);
        self.ready(slot, core);
    }

    /// Handles an event of the socket: it can be read or written, or has ended.
    pub(super) fn ready(&mut self, slot: SlotIndex, core: &mut Core) {
        let Some(socket) = self.sockets.get(slot) else { return };
        let id = match (socket.kind, socket.id) {
            (Kind::Connection, Some(id)) => id,
            (Kind::Datagram, Some(id)) => return self.datagrams_ready(slot, id, core),
            _ => return,
        };
        let sends = socket.send_blocked || socket.held_back || socket.closing;
        if !socket.closing {
            self.pump_receive(slot, id, core);
        }
        if sends {
            self.pump_send(slot, id, core);
        }
        // After the last byte is in the channel: a reader takes the end of both directions for the end of the stream.
        let all_read = self.channel.slot(slot).flags().has(Flags::PEER_CLOSED);
        if all_read && self.sockets.get(slot).is_some_and(|socket| socket.id == Some(id)) && core.stack.readiness(id).hung_up {
            self.channel.set_flags(slot, Flags::HUNG_UP);
        }
        self.channel.signal(slot);
    }

    /// Goes on after the application has read.
    pub(super) fn read_on(&mut self, slot: SlotIndex, core: &mut Core) {
        if self.sockets.get(slot).is_some_and(|socket| socket.kind == Kind::Listener) {
            self.channel.set_notify_bytes(slot, 0);
            return self.accept(slot, core);
        }
        self.tell_consumed(slot, core);
        self.ready(slot, core);
        if !self.starved.is_empty() {
            self.feed_starved(core);
        }
    }

    /// Opens the window by the bytes that the application has read.
    pub(super) fn tell_consumed(&mut self, slot: SlotIndex, core: &mut Core) {
        let Some((id, kind)) = self.sockets.get(slot).and_then(|socket| Some((socket.id?, socket.kind))) else { return };
        let bytes = self.channel.newly_consumed(slot);
        if bytes > 0 && kind == Kind::Connection {
            core.stack.consumed(id, bytes as usize);
        }
    }

    /// Moves payload into the channel while there is space.
    fn pump_receive(&mut self, slot: SlotIndex, id: SocketId, core: &mut Core) {
        let limit = self.unread_limit();
        while !self.push_up_to(slot, id, limit, core) {
            if self.hear_of_reading(slot, limit, core) {
                return;
            }
        }
        self.hear_as_usual(slot);
    }

    /// Pushes until `limit` bytes are unread (returns false), or the data or the chunks run out.
    fn push_up_to(&mut self, slot: SlotIndex, id: SocketId, limit: u32, core: &mut Core) -> bool {
        let Some(socket) = self.sockets.get(slot) else { return true };
        let mut leftover = socket.leftover.take();
        let mut unread = self.channel.unread(slot);
        let (mut starved, mut done) = (false, false);
        while unread < limit && !done {
            let frame = match leftover.take().map_or_else(|| core.stack.take_frame(id), Ok) {
                Ok(frame) => frame,
                Err(ReceiveError::EndOfStream) => {
                    self.channel.publish_rx(slot);
                    self.channel.set_flags(slot, Flags::PEER_CLOSED);
                    done = true;
                    break;
                }
                // A failed connection has no end of stream; its event reports the error instead.
                Err(ReceiveError::WouldBlock | ReceiveError::NotConnected | ReceiveError::Failed(_)) => {
                    done = true;
                    break;
                }
            };
            let mut frame = match self.channel.push_room(slot, frame) {
                Ok(pushed) => {
                    unread += pushed as u32;
                    continue;
                }
                Err(frame) => frame,
            };
            let pushed = self.channel.push_rx(slot, frame.payload());
            unread += pushed as u32;
            if pushed < frame.len() {
                frame.pull(pushed);
                leftover = Some(frame);
                (starved, done) = (true, true);
            }
        }
        let Some(socket) = self.sockets.get(slot) else { return true };
        socket.leftover = leftover;
        if starved && !std::mem::replace(&mut socket.starved, true) {
            self.starved.push_back(slot);
            core.metrics.hit(Quota::MemoryOfGroup, self.number);
        }
        done
    }

    /// Handles the failure of the connection; data that arrived before it can still be read.
    pub(super) fn failed(&mut self, slot: SlotIndex, error: SocketError, core: &mut Core) {
        self.read_last(slot, core);
        let flags = self.channel.slot(slot).flags();
        let over = Flags(Flags::FAILED.0 | Flags::HUNG_UP.0 | Flags::WRITE_CLOSED.0);
        let failure = match failure(error) {
            // net/ipv4/tcp_input.c, tcp_reset: the peer does not take what is sent to it.
            Failure::Reset if flags.has(Flags::PEER_CLOSED) && !flags.has(Flags::WRITE_CLOSED) => Failure::Broken,
            failure => failure,
        };
        self.channel.set_error(slot, failure, over);
        let refused = failure == Failure::Refused;
        self.end(slot, if refused { Ending::Refused } else { Ending::Reset }, core);
    }

    /// Handles the end of the connection on both sides.
    pub(super) fn closed(&mut self, slot: SlotIndex, time_wait: bool, core: &mut Core) {
        self.read_last(slot, core);
        let over = Flags(Flags::HUNG_UP.0 | Flags::PEER_CLOSED.0 | Flags::WRITE_CLOSED.0);
        self.channel.set_flags(slot, over);
        self.end(slot, Ending::closed(time_wait), core);
    }

    /// Hands over the rest of the stack's data before the end is reported.
    fn read_last(&mut self, slot: SlotIndex, core: &mut Core) {
        let Some(socket) = self.sockets.get(slot) else { return };
        if let (Some(id), false) = (socket.id, socket.closing) {
            self.pump_receive(slot, id, core);
            self.channel.publish_rx(slot);
        }
    }

    /// Ends the connection; the slot stays until the application has closed it.
    fn end(&mut self, slot: SlotIndex, ending: Ending, core: &mut Core) {
        let Some(socket) = self.sockets.get(slot) else { return };
        // Data that a failed connection has received can still be read; its id is valid until it is closed.
        if matches!(ending, Ending::Finished | Ending::Closed) {
            socket.id = None;
        }
        if let Some((ip, port)) = socket.port.take() {
            core.release_port(ip, port, ending);
        }
        let closing = socket.closing;
        self.discard_send(slot);
        self.channel.set_state(slot, State::Closed);
        self.channel.signal(slot);
        if closing {
            self.close_in_stack(slot, core);
        }
    }
}

fn address(address: SocketAddress) -> SocketAddr {
    SocketAddr::new(address.ip, address.port)
}

fn failure(error: SocketError) -> Failure {
    match error {
        SocketError::Reset => Failure::Reset,
        SocketError::Refused => Failure::Refused,
        SocketError::ProtocolUnreachable => Failure::ProtocolUnreachable,
        SocketError::Prohibited => Failure::Prohibited,
        SocketError::TimedOut => Failure::TimedOut,
        SocketError::HostUnreachable => Failure::HostUnreachable,
        SocketError::NetworkUnreachable => Failure::NetworkUnreachable,
        SocketError::Aborted => Failure::Aborted,
    }
}
