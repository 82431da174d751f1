//! From the application to the stack: bytes, FIN.

use ringway_channel::{Attachment, ControlAnswer, Failure, Flags, SlotIndex};
use ringway_stack::{FrameUse, SendError, SocketId, Source};

use super::region::Region;
use super::socket::Kind;
use crate::core::Core;

/// Most bytes that one call moves for one socket, so that others get their share.
const QUANTUM: usize = 1 << 20;
/// Pieces of at least this many bytes are queued in place; smaller ones only if there is no more space.
const LENT_MIN: usize = 2 << 10;

/// Data that an application has pushed to a slot. Zeros stand for bytes that it announced but did not push.
struct Pushed<'a> {
    channel: &'a mut Attachment,
    slot: SlotIndex,
}

impl Source for Pushed<'_> {
    fn fill(&mut self, piece: &mut [u8]) {
        let copied = self.channel.copy_tx(self.slot, piece);
        piece[copied..].fill(0);
    }

    fn fill_and_sum(&mut self, piece: &mut [u8]) -> u16 {
        let (copied, sum) = self.channel.copy_and_sum_tx(self.slot, piece);
        piece[copied..].fill(0);
        sum
    }
}

impl Region {
    /// Sends the bytes that wait in the channel.
    pub(super) fn send(&mut self, slot: SlotIndex, core: &mut Core) {
        let Some(socket) = self.sockets.get(slot) else { return };
        match (socket.kind, socket.id) {
            (Kind::Connection, Some(id)) => self.pump_send(slot, id, core),
            (Kind::Datagram, Some(id)) => self.send_messages(slot, id, core),
            // What lies in the slot leaves with the connection.
            _ if self.movings.has(slot) => {}
            _ => self.discard_send(slot),
        }
        self.tell_consumed(slot, core);
    }

    /// Moves as much as the stack has space for; the rest waits for an event.
    pub(super) fn pump_send(&mut self, slot: SlotIndex, id: SocketId, core: &mut Core) {
        let mut moved = 0;
        let mut blocked = false;
        let mut again = false;
        let mut space = core.stack.send_space(id);
        loop {
            if self.channel.tx_available(slot) == 0 {
                break;
            }
            let sent = if moved < QUANTUM { self.queue_piece(slot, id, space, core) } else { None };
            let Some(sent) = sent else {
                // The peer's next ACK is an event; the next quantum and frames that others give back are not.
                blocked = true;
                again = moved >= QUANTUM || !core.stack.cut_send_buffer(id);
                space = core.stack.send_space(id);
                break;
            };
            match sent {
                Ok(count) => {
                    moved += count;
                    space = space.saturating_sub(count);
                    self.channel.release_tx(slot, count as u32);
                }
                Err(SendError::WouldBlock) => {
                    // A full buffer has its event; a frame that is free again has none.
                    space = core.stack.send_space(id);
                    (blocked, again) = (true, space != 0);
                    break;
                }
                Err(SendError::Closed | SendError::NotConnected) => {
                    self.discard_send(slot);
                    break;
                }
            }
        }
        if let Some(socket) = self.sockets.get(slot) {
            socket.send_blocked = blocked;
        }
        self.note_waiting(slot, space, core);
        if again {
            self.retry_later(slot);
        }
        if !blocked {
            self.sent_all(slot, id, core);
        }
    }

    /// Queues the next waiting piece. `None`: it must be copied, and the connection already has its share of the
    /// frames.
    fn queue_piece(&mut self, slot: SlotIndex, id: SocketId, space: usize, core: &mut Core) -> Option<Result<usize, SendError>> {
        if let Some(lent) = self.lend(slot, id, space, core) {
            return Some(lent);
        }
        let waiting = self.channel.tx_available(slot);
        let room = core.send_allowance(id, waiting);
        if room == 0 && space > 0 {
            return None;
        }
        let count = waiting.min(room.max(1));
        Some(core.stack.send_from(id, count, &mut Pushed { channel: &mut self.channel, slot }))
    }

    /// Queues the next piece in place, without a frame, if it is in a bulk chunk and `space` allows it. `None`: it must
    /// be copied.
    fn lend(&mut self, slot: SlotIndex, id: SocketId, space: usize, core: &mut Core) -> Option<Result<usize, SendError>> {
        if space == 0 || core.arena.free_extents() <= FrameUse::Sending.leaves(core.arena.extents()) {
            return None;
        }
        let piece = core.stack.send_piece(id).min(space);
        // If each segment is a packet, copying computes the checksum in the same pass.
        if piece < LENT_MIN.min(space) {
            return None;
        }
        let frame = self.channel.lend_tx(slot, &core.arena, piece)?;
        let count = frame.len();
        let sent = core.stack.send_frame(id, frame);
        // There was space for it; if the connection has ended, later data is discarded like this piece.
        debug_assert!(!matches!(sent, Err((_, SendError::WouldBlock))), "the stack has taken less than it promised");
        if sent.is_err() {
            self.channel.release_tx(slot, count as u32);
        }
        Some(sent.map(|()| count).map_err(|(_, error)| error))
    }

    /// Closes or shuts down, if requested, once all of the application's data is in the stack.
    fn sent_all(&mut self, slot: SlotIndex, id: SocketId, core: &mut Core) {
        let Some(socket) = self.sockets.get(slot) else { return };
        if socket.closing {
            self.close_in_stack(slot, core);
        } else if std::mem::take(&mut socket.shutdown) {
            core.stack.shutdown_write(core.now, id);
        }
    }

    /// Discards data written to a socket that cannot send it.
    pub(super) fn discard_send(&mut self, slot: SlotIndex) {
        let mut scratch = [0; 2048];
        loop {
            let part = self.channel.tx_available(slot).min(scratch.len());
            if part == 0 {
                return;
            }
            let copied = self.channel.copy_tx(slot, &mut scratch[..part]);
            self.channel.release_tx(slot, copied as u32);
            if copied == 0 {
                return;
            }
        }
    }

    pub(super) fn shutdown(&mut self, slot: SlotIndex, core: &mut Core) -> ControlAnswer {
        let Some(socket) = self.sockets.get(slot) else { return ControlAnswer::Failed(Failure::Invalid) };
        if socket.kind == Kind::Datagram {
            // The application keeps this state itself; its other threads need the signal.
            self.channel.signal(slot);
            return ControlAnswer::Done;
        }
        let (Kind::Connection, Some(id)) = (socket.kind, socket.id) else {
            return ControlAnswer::Failed(Failure::NotConnected);
        };
        socket.shutdown = true;
        self.channel.set_flags(slot, Flags::WRITE_CLOSED);
        self.pump_send(slot, id, core);
        self.channel.signal(slot);
        ControlAnswer::Done
    }
}
