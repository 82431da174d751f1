//! Closing by applications: close, abort, death.

use ringway_channel::{Failure, Flags, SlotIndex};
use ringway_stack::SocketId;

use super::region::Region;
use super::socket::Kind;
use crate::core::{Core, Ending};

/// How a socket is closed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Closing {
    /// What was written is still sent.
    Orderly,
    /// The peer gets a RST.
    Reset,
}

impl Region {
    /// Closes a socket after its last descriptor. Written data is still sent, then FIN; a socket with unread bytes, or
    /// that must be reset or has SO_LINGER of zero seconds, sends RST (RFC 2525 §2.17).
    pub(super) fn close(&mut self, slot: SlotIndex, how: Closing, core: &mut Core) {
        if self.movings.close(slot, how) {
            return;
        }
        let Some(socket) = self.sockets.get(slot) else { return };
        let (kind, id) = (socket.kind, socket.id);
        let reset = how == Closing::Reset || socket.resets_at_close;
        match (kind, id) {
            (Kind::Listener, _) => self.close_listener(slot, core),
            (Kind::Datagram, Some(id)) if !reset => {
                socket.closing = true;
                self.send_messages(slot, id, core);
            }
            (Kind::Datagram, _) => self.close_datagrams(slot, core),
            (Kind::Connection, Some(id)) => {
                let unread = socket.leftover.is_some() || self.channel.unread(slot) > 0 || core.stack.unread(id) > 0;
                if reset || unread {
                    self.reset(slot, id, core);
                } else {
                    let socket = self.sockets.get(slot).expect("it was there");
                    socket.closing = true;
                    self.pump_send(slot, id, core);
                }
            }
            (Kind::Connection | Kind::Fresh, _) => self.forget(slot, core),
        }
    }

    /// Frees the slot and sends RST after the written data that the windows allow; Linux sends that during the write.
    fn reset(&mut self, slot: SlotIndex, id: SocketId, core: &mut Core) {
        self.pump_send(slot, id, core);
        if core.stack.send_queued(id) == 0 {
            return self.abort(slot, core);
        }
        let Some(socket) = self.sockets.get(slot) else { return };
        socket.id = None;
        let port = socket.port.take();
        let orphan = self.left_behind(port, core);
        core.reset_behind_data(id, orphan);
        self.forget(slot, core);
    }

    /// Resets a connection for the operator: peer and program see it end (net/ipv4/tcp.c, tcp_abort).
    pub(super) fn kill(&mut self, slot: SlotIndex, core: &mut Core) {
        if self.sockets.get(slot).is_some_and(|socket| socket.closing) {
            return self.abort(slot, core);
        }
        self.failed(slot, ringway_stack::SocketError::Aborted, core);
        if let Some(id) = self.sockets.get(slot).and_then(|socket| socket.id.take()) {
            core.stack.abort(core.now, id);
        }
    }

    /// Sends RST and frees the slot.
    fn abort(&mut self, slot: SlotIndex, core: &mut Core) {
        let Some(socket) = self.sockets.get(slot) else { return };
        if let Some(id) = socket.id.take() {
            core.stack.abort(core.now, id);
        }
        if let Some((ip, port)) = socket.port.take() {
            core.release_port(ip, port, Ending::Reset);
        }
        self.forget(slot, core);
    }

    /// Sends FIN and frees the slot once everything written is in the stack, which then finishes alone.
    pub(super) fn close_in_stack(&mut self, slot: SlotIndex, core: &mut Core) {
        let Some(socket) = self.sockets.get(slot) else { return };
        let port = socket.port.take();
        if let Some(id) = socket.id.take() {
            let orphan = self.left_behind(port, core);
            core.orphan(id, orphan);
        }
        self.forget(slot, core);
    }

    fn close_listener(&mut self, slot: SlotIndex, core: &mut Core) {
        self.tell_end(slot, core);
        for child in self.channel.unaccepted(slot) {
            self.abort(child, core);
        }
        self.listeners.retain(|&listener| listener != slot);
        self.without_room.retain(|&listener| listener != slot);
        let Some(socket) = self.sockets.get(slot) else { return };
        let second = socket.listening.as_ref().and_then(|listening| listening.second);
        for id in [socket.id.take(), second].into_iter().flatten() {
            core.stack.close(core.now, id);
        }
        if let Some(listening) = socket.listening.take() {
            for ip in listening.owned {
                core.ports.remove(ip, listening.port);
            }
        }
        self.forget(slot, core);
    }

    /// Frees the slot and everything that the worker keeps for it.
    pub(super) fn forget(&mut self, slot: SlotIndex, core: &mut Core) {
        if let Some(record) = self.sockets.remove(slot).and_then(|socket| socket.record) {
            core.metrics.release_record(record);
        }
        self.free(slot);
        self.note_room(core);
    }

    /// Frees a slot, and the port that was shown for it and is not used.
    fn free(&mut self, slot: SlotIndex) {
        if !self.claims.is_empty() {
            self.claims.remove(&slot);
        }
        self.channel.free_slot(slot);
    }

    /// Returns true when process `pid` has this number.
    pub(super) fn is_number_of(&self, process: u32, pid: u32) -> bool {
        self.channel.is_number_of(process, pid)
    }

    /// Closes the sockets that only a dead process held, as the kernel would.
    pub(super) fn process_gone(&mut self, process: u32, core: &mut Core) {
        let gone = self.channel.process_gone(process);
        self.touch_listeners();
        for slot in gone.orphans {
            if self.sockets.get(slot).is_some() {
                self.close(slot, Closing::Orderly, core);
            } else {
                self.free(slot);
            }
        }
        for slot in gone.torn {
            self.reset_torn(slot, core);
        }
        // The process may have died between writing and its request.
        for slot in gone.revisit {
            self.send(slot, core);
            self.read_on(slot, core);
        }
    }

    /// Resets a connection that others still hold, because the dead process may have taken bytes with it.
    fn reset_torn(&mut self, slot: SlotIndex, core: &mut Core) {
        let Some(socket) = self.sockets.get(slot) else { return };
        if socket.kind == Kind::Connection && socket.id.is_some() {
            self.failed(slot, ringway_stack::SocketError::Aborted, core);
            self.channel.set_error(slot, Failure::Reset, Flags::FAILED);
        }
    }

    /// Closes everything after the last process.
    pub(super) fn detach(&mut self, core: &mut Core) {
        self.detached = true;
        self.forget_refusals(core);
        for slot in self.sockets.slots() {
            self.close(slot, Closing::Orderly, core);
        }
    }

    /// Gives up the unsent data of a detached group. Returns the number of connections that were reset.
    pub(super) fn abandon(&mut self, core: &mut Core) -> u64 {
        let mut connections = 0;
        for slot in self.sockets.slots() {
            match self.sockets.get(slot).map(|socket| socket.kind) {
                Some(Kind::Connection) if !self.movings.has(slot) => {
                    self.abort(slot, core);
                    connections += 1;
                }
                _ => self.close(slot, Closing::Reset, core),
            }
        }
        connections
    }

    /// Returns true if nothing is left to be done for a detached group.
    pub(super) fn is_over(&self) -> bool {
        self.detached && self.sockets.count() == 0
    }
}
