//! How much of its region's chunks one socket may hold.
//!
//! A program with many connections whose peers do not read, or that does not read some itself, must
//! still be able to use the others. So each connection may hold a share of what is free (the dynamic
//! threshold of Choudhury and Hahne): much while few want some, little when many do, and there is
//! always some left. Promises: no connection is held below a few chunks. Does not do: frames; see
//! `Core::send_allowance`.

use ringway_shm::channel::SlotIndex;
use ringway_shm::channel::layout::{BULK_CHUNK, LARGE_CHUNK};
use ringway_stack::TcpOptions;

use super::region::Region;

/// Bytes of receive chunks that a socket may hold at most; more wait in the stack.
const UNREAD_MAX: u32 = 256 << 10;
/// Bytes that an application may have written ahead of the stack at most.
const SEND_LIMIT: u32 = 256 << 10;
/// The same while few of the bulk chunks are in use: program and worker take turns on a processor less often, and what they
/// write and send still fits into its cache. With many writers it would not, and the chunks would be used up.
const SEND_LIMIT_ALONE: u32 = 768 << 10;
/// The same while many of the bulk chunks are in use: writers take turns, and all that they have ahead together is to fit.
const SEND_LIMIT_MANY: u32 = 128 << 10;
/// So many bulk chunks are few, however many there are: 2 MiB, some of which the processor's cache keeps. Where there are less
/// than 256, a quarter of them.
const FEW: u32 = 64;
/// However little the stack has room for, so much may be written ahead; TCP_NOTSENT_LOWAT does not make that smaller.
const LEAD: u32 = 16 << 10;
/// After so many bytes read the application says so.
const NOTIFY: u32 = 64 << 10;
/// A socket may hold one in so many of the free chunks.
const SHARE: u32 = 8;
/// And always this, bytes.
const LEAST: u32 = 4 << 10;

impl Region {
    /// Tells the application how much it may write, and when to speak of what it has read.
    pub(super) fn open_limits(&mut self, slot: SlotIndex) {
        let Some(socket) = self.sockets.get(slot) else { return };
        let (send, notify) = (send_limit(&socket.options, SEND_LIMIT), notify_bytes(socket.options.receive_buffer_bytes));
        socket.send_limit = send;
        self.channel.set_send_limit(slot, send);
        self.channel.set_notify_bytes(slot, notify);
    }

    /// Bytes that a socket may have unread in receive chunks now.
    pub(super) fn unread_limit(&self) -> u32 {
        let (large, _) = self.channel.free_rx();
        share_of(large, UNREAD_MAX)
    }

    /// Bytes are left in the stack since the socket holds as many chunks as it may: the application
    /// must say soon that it has read. `false`: it has read meanwhile, so go on.
    pub(super) fn hear_of_reading(&mut self, slot: SlotIndex, limit: u32) -> bool {
        let Some(socket) = self.sockets.get(slot) else { return true };
        let usual = notify_bytes(socket.options.receive_buffer_bytes);
        let soon = usual.min((limit / 4).max(1));
        if soon < usual {
            socket.notified_soon = true;
            self.channel.set_notify_bytes(slot, soon);
            return self.channel.unread(slot) >= limit;
        }
        true
    }

    /// Nothing is left in the stack: the application may read in peace.
    pub(super) fn hear_as_usual(&mut self, slot: SlotIndex) {
        let Some(socket) = self.sockets.get(slot) else { return };
        if std::mem::take(&mut socket.notified_soon) {
            let usual = notify_bytes(socket.options.receive_buffer_bytes);
            self.channel.set_notify_bytes(slot, usual);
        }
    }

    /// What waits in send chunks of a socket may have changed, and the stack takes `room` bytes more: no more may be
    /// written than it takes and a little ahead, so that what is tuned there is what the program sees.
    pub(super) fn note_waiting(&mut self, slot: SlotIndex, room: usize) {
        let waiting = self.channel.tx_available(slot) as u32;
        let Some(socket) = self.sockets.get(slot) else { return };
        let room = u32::try_from(room).unwrap_or(u32::MAX) & !(LEAD - 1);
        let most = most_ahead(self.channel.lent_tx(), self.channel.shape().tx_bulk);
        let usual = send_limit(&socket.options, most).min(room.max(LEAD));
        if waiting == 0 && socket.waiting == 0 {
            if socket.send_limit != usual {
                socket.send_limit = usual;
                self.channel.set_send_limit(slot, usual);
            }
            return;
        }
        self.waiting = self.waiting - socket.waiting as usize + waiting as usize;
        socket.waiting = waiting;
        let shape = self.channel.shape();
        let all = shape.tx_large + shape.tx_bulk * (BULK_CHUNK / LARGE_CHUNK) as u32;
        let free = all.saturating_sub((self.waiting / LARGE_CHUNK) as u32);
        socket.send_limit = if waiting == 0 { usual } else { share_of(free, usual) };
        self.channel.set_send_limit(slot, socket.send_limit);
        if waiting == 0 {
            // Wakes a writer for whom there was no room under the narrow limit.
            self.channel.release_tx(slot, 0);
        }
    }

    /// The socket is gone, and what waited with it.
    pub(super) fn forget_waiting(&mut self, waiting: u32) {
        self.waiting -= waiting as usize;
    }
}

/// A socket's share of `free` large chunks, at most `most` bytes.
fn share_of(free: u32, most: u32) -> u32 {
    (free.saturating_mul(LARGE_CHUNK as u32) / SHARE).max(LEAST).min(most)
}

/// Bytes that may be written ahead while `lent` of `bulk` chunks are in use.
fn most_ahead(lent: u32, bulk: u32) -> u32 {
    match lent {
        _ if lent < FEW.min(bulk / 4) => SEND_LIMIT_ALONE,
        FEW.. => SEND_LIMIT_MANY,
        _ => SEND_LIMIT,
    }
}

/// Bytes that may wait in the channel: `most`, if the program wants no less.
fn send_limit(options: &TcpOptions, most: u32) -> u32 {
    let send = asked_or(options.send_buffer_bytes, most);
    // TCP_NOTSENT_LOWAT: what waits in the channel was not sent either.
    match options.not_sent_low_water {
        0 => send,
        low => send.min(low.max(LEAD)),
    }
}

fn notify_bytes(receive_buffer_bytes: u32) -> u32 {
    asked_or(receive_buffer_bytes / 4, NOTIFY)
}

fn asked_or(asked: u32, most: u32) -> u32 {
    if asked == 0 { most } else { asked.min(most) }
}

#[cfg(test)]
mod tests;
