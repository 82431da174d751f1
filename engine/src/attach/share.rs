//! Share of its region's chunks that one socket may hold.
//!
//! A program that has many connections with peers that do not read, or that does not read some itself, must still be
//! able to use the others. So each connection may hold a share of the free chunks (the dynamic threshold of Choudhury
//! and Hahne): much while few want some, little when many do, and some are always left. A socket's waiting data counts
//! together with the data that its peer has not acknowledged. The last chunks are for sockets that hold none: those
//! that drain, and new ones. Does not do: frames; see `Core::send_allowance`.

use ringway_channel::layout::{BULK_CHUNK, BULK_LIMIT, LARGE_CHUNK};
use ringway_channel::{Attachment, Flags, SlotIndex};
use ringway_shm::Duration;
use ringway_stack::TcpOptions;

use super::region::Region;
use super::socket::Kind;
use crate::core::Core;
use crate::quota::Quota;

/// Most bytes of receive chunks that a socket may hold; more wait in the stack.
const UNREAD_MAX: u32 = 256 << 10;
/// Most bytes that an application may write ahead of the stack.
const SEND_LIMIT: u32 = 256 << 10;
/// The same while few of the bulk chunks are in use: program and worker alternate less often on a processor, and their
/// data still fits into its cache. With many writers it would not, and the chunks would be used up.
const SEND_LIMIT_ALONE: u32 = 768 << 10;
/// The same while many of the bulk chunks are in use: writers alternate, and all their data together must fit.
const SEND_LIMIT_MANY: u32 = 128 << 10;
/// Number of bulk chunks in use that counts as few, whatever the total: 2 MiB, some of which the processor's cache
/// keeps. With a total of less than 256, a quarter of it.
const FEW: u32 = 64;
/// Bytes that may always be written ahead, however little space the stack has; TCP_NOTSENT_LOWAT does not reduce it.
const LEAD: u32 = 16 << 10;
/// The application reports reading after this many bytes.
const NOTIFY: u32 = 64 << 10;
/// A socket may hold one in this many of the free chunks.
const SHARE: u32 = 8;
/// Shortest time between two updates of all sockets' limits.
const NARROW: Duration = Duration::from_millis(20);
/// Least limit, bytes: the size of one chunk.
const LEAST: u32 = LARGE_CHUNK as u32;

impl Region {
    /// Tells the application how much it may write, and after how many bytes it must report reading.
    pub(super) fn open_limits(&mut self, slot: SlotIndex) {
        let Some(socket) = self.sockets.get(slot) else { return };
        let (send, notify) = (send_limit(&socket.options, SEND_LIMIT), notify_bytes(&socket.options));
        let send = send.min(send_share(&self.channel).max(LEAST)).min(self.quotas.chunk_bytes);
        socket.send_limit = send;
        self.channel.set_send_limit(slot, send);
        self.channel.set_notify_bytes(slot, notify);
    }

    /// Lets the application write no more than a SYN takes; the limit is the usual one when that has left. Until the handshake
    /// is over the slot says so.
    pub(super) fn limit_first_send(&mut self, slot: SlotIndex, room: u32) {
        let Some(socket) = self.sockets.get(slot) else { return };
        self.channel.set_flags(slot, Flags::OPENING);
        socket.send_limit = room;
        self.channel.set_send_limit(slot, room);
    }

    /// Bytes that a socket may have unread in receive chunks now.
    pub(super) fn unread_limit(&self) -> u32 {
        unread_limit(self.channel.free_rx().0, self.channel.shape().rx_large).min(self.quotas.chunk_bytes)
    }

    /// Bytes are left in the stack since the socket holds as many chunks as it may: the application
    /// must say soon that it has read. `false`: it has read meanwhile, so go on.
    pub(super) fn hear_of_reading(&mut self, slot: SlotIndex, limit: u32, core: &mut Core) -> bool {
        if limit == self.quotas.chunk_bytes {
            core.metrics.hit(Quota::ChunksOfSocket, self.number);
        }
        let Some(socket) = self.sockets.get(slot) else { return true };
        let usual = notify_bytes(&socket.options);
        let soon = usual.min((limit / 4).max(1));
        if soon < usual {
            socket.notified_soon = true;
            self.channel.set_notify_bytes(slot, soon);
            return self.channel.unread(slot) >= limit;
        }
        true
    }

    /// Restores the usual reporting of reads, once nothing is left in the stack.
    pub(super) fn hear_as_usual(&mut self, slot: SlotIndex) {
        let Some(socket) = self.sockets.get(slot) else { return };
        if std::mem::take(&mut socket.notified_soon) {
            let usual = notify_bytes(&socket.options);
            self.channel.set_notify_bytes(slot, usual);
        }
    }

    /// Updates the send limit after a change of the waiting data; the stack has space for `room` bytes more. The
    /// program may write no more than that and a little ahead, so that the stack's tuning is what the program sees.
    pub(super) fn note_waiting(&mut self, slot: SlotIndex, room: usize, core: &mut Core) {
        let waiting = self.channel.tx_available(slot) as u32;
        let lent = self.channel.lent_tx();
        let Some(socket) = self.sockets.get(slot) else { return };
        let room = u32::try_from(room).unwrap_or(u32::MAX) & !(LEAD - 1);
        let usual = send_limit(&socket.options, most_ahead(lent, self.channel.shape().tx_bulk))
            .min(room.max(LEAD))
            .min(self.quotas.chunk_bytes);
        if waiting == 0 && socket.waiting == 0 && !is_short(&self.channel) {
            if socket.send_limit != usual {
                socket.send_limit = usual;
                self.channel.set_send_limit(slot, usual);
            }
            return;
        }
        self.share_out(slot, usual, waiting, core);
    }

    /// Like [`note_waiting`](Region::note_waiting), if bytes wait or chunks are short.
    #[inline(never)]
    fn share_out(&mut self, slot: SlotIndex, usual: u32, waiting: u32, core: &mut Core) {
        let share = send_share(&self.channel);
        if share < self.narrowed / 2 && core.now >= self.narrow_again {
            self.narrow_again = core.now + NARROW;
            self.narrow(share);
        }
        self.narrowed = self.narrowed.max(share);
        if waiting >= self.quotas.chunk_bytes {
            core.metrics.hit(Quota::ChunksOfSocket, self.number);
        }
        let short = is_short(&self.channel);
        let Some(socket) = self.sockets.get(slot) else { return };
        let id = socket.id.filter(|_| short && socket.kind == Kind::Connection);
        // Waiting and unacknowledged bytes count together.
        let queued = id.map_or(0, |id| core.stack.send_queued(id)).try_into().unwrap_or(u32::MAX);
        let limit = if short || waiting > 0 { share.saturating_sub(queued).min(usual) } else { usual };
        // A socket that is held back is told of no space until its peer takes some; the stack reports that.
        let held_back = waiting == 0 && limit < LEAST && id.is_some_and(|id| core.stack.cut_send_buffer(id));
        let widens = waiting == 0 && !held_back && socket.waiting > 0;
        // A socket that is held back comes here again, like those with waiting data.
        (socket.waiting, socket.held_back) = (waiting.max(u32::from(held_back)), held_back);
        socket.send_limit = match waiting {
            0 if !held_back => limit.max(LEAST),
            0 => 0,
            _ => limit,
        };
        self.channel.set_send_limit(slot, socket.send_limit);
        if widens {
            // Wakes a writer that had no space under the narrow limit.
            self.channel.release_tx(slot, 0);
        }
    }

    /// Narrows all limits after the share became much smaller: old limits would let many sockets take all that is left.
    #[cold]
    fn narrow(&mut self, share: u32) {
        self.narrowed = share;
        let most = share.max(LEAST);
        for slot in self.sockets.slots() {
            let Some(socket) = self.sockets.get(slot) else { continue };
            if socket.send_limit > most {
                socket.send_limit = most;
                self.channel.set_send_limit(slot, most);
            }
        }
    }
}

/// Bytes that a socket may have unread while `free` of `all` large chunks are free. The last quarter is for sockets
/// with nothing unread: data that arrived together for each of them.
fn unread_limit(free: u32, all: u32) -> u32 {
    let shared = if free > all / 2 { free } else { free.saturating_sub(all / 4) };
    (shared / SHARE).saturating_mul(LARGE_CHUNK as u32).clamp(1, UNREAD_MAX)
}

/// Bytes that one socket may hold. Bulk chunks only add speed: one socket may hold most of them, except the last few.
/// Large chunks are indispensable: some are kept for sockets that hold none.
fn send_share(channel: &Attachment) -> u32 {
    let shape = channel.shape();
    let bulk = shape.tx_bulk.saturating_sub(channel.lent_tx());
    if bulk >= SHARE {
        return (bulk * SHARE).saturating_mul(BULK_CHUNK as u32);
    }
    let large = (shape.tx_large - shape.tx_large / SHARE).saturating_sub(channel.waiting_tx());
    let share = (large / SHARE).saturating_mul(LARGE_CHUNK as u32);
    if shape.tx_bulk > 0 { share.min(BULK_LIMIT - 1) } else { share }
}

/// Returns true if more than half of the bulk chunks are in use, or more chunks wait than half of the large ones.
#[inline]
fn is_short(channel: &Attachment) -> bool {
    let shape = channel.shape();
    channel.waiting_tx() > shape.tx_large / 2 || channel.lent_tx() > shape.tx_bulk / 2
}

/// Bytes that may be written ahead while `lent` of `bulk` chunks are in use.
fn most_ahead(lent: u32, bulk: u32) -> u32 {
    match lent {
        _ if lent < FEW.min(bulk / 4) => SEND_LIMIT_ALONE,
        FEW.. => SEND_LIMIT_MANY,
        _ => SEND_LIMIT,
    }
}

/// Bytes that may wait in the channel: `most`, unless the program wants less.
fn send_limit(options: &TcpOptions, most: u32) -> u32 {
    let send = asked_or(options.send_buffer_bytes, most);
    // TCP_NOTSENT_LOWAT: bytes that wait in the channel are unsent too.
    match options.not_sent_low_water {
        0 => send,
        low => send.min(low.max(LEAD)),
    }
}

/// Bytes read of which the worker hears: a part of the buffer and of the largest window, so that the peer hears in time.
fn notify_bytes(options: &TcpOptions) -> u32 {
    asked_or(options.receive_buffer_bytes / 4, asked_or(options.window_clamp / 4, NOTIFY))
}

fn asked_or(asked: u32, most: u32) -> u32 {
    if asked == 0 { most } else { asked.min(most) }
}

#[cfg(test)]
mod tests;
