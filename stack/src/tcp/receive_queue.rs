//! Data received in order, until the application takes it; and the receive window that follows from it.
//!
//! Read RFC 9293 §3.8.6.2.2 (silly window) and RFC 7323 §2 first. A small payload is copied into the last queued frame when
//! that has space, so that tiny segments do not hold a large frame each; all memory is counted. The right edge of the window
//! never moves left.

use alloc::vec::Vec;

use ringway_shm::arena::LARGE_BYTES;
use ringway_shm::{Arena, Class, Frame, FrameQueue, Note};

use crate::admission::FrameUse;
use crate::error::ReceiveError;
use crate::stats::Counter;

use super::connection::Connection;
use super::handover::Receiving;
use super::segment::{bytes_of, frame_memory};
use super::state::State;
use super::tcb::{Tcb, flag};

/// Payloads up to this length are copied behind the last queued frame if they fit.
const COPY_BREAK: usize = 256;
/// Memory that a connection may hold for each byte of its receive buffer.
const MEMORY_FACTOR: u64 = 4;
/// A connection may hold one in this many of the free frames.
const MEMORY_SHARE: u64 = 8;

/// Place of arriving data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// SEG.SEQ = RCV.NXT
    InOrder,
    /// A gap is in front of it.
    OutOfOrder,
}

/// Data in order that the application has not taken.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct ReceiveQueue {
    frames: FrameQueue,
    /// Bytes in `frames`.
    unread: u32,
}

/// Counts of received data.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Received {
    /// In-order bytes that the application has not consumed, taken or not.
    unconsumed: u32,
    /// Memory behind the queue and out-of-order data, bytes.
    memory: u32,
    /// In-order bytes since the handshake.
    bytes: u64,
}

impl Connection<'_, '_> {
    /// Returns true when `needed` bytes of memory may be kept; otherwise counts a drop.
    #[inline]
    pub(crate) fn has_receive_room(&mut self, needed: u32, order: Order) -> bool {
        let fits = self.fits(needed, order) || (order == Order::InOrder && self.make_room(needed));
        if !fits {
            self.env.counters.count(Counter::DropNoBuffer);
        }
        fits
    }

    /// Returns true when `needed` bytes of memory may be kept without dropping other data.
    #[inline(always)]
    pub(crate) fn fits(&self, needed: u32, order: Order) -> bool {
        let limit = u64::from(self.tcb.receive_buffer()) * MEMORY_FACTOR;
        let is_plenty = order == Order::InOrder && self.env.arena.is_plenty();
        u64::from(self.tcb.received.memory) + u64::from(needed) <= limit && (is_plenty || self.may_take_scarce(order))
    }

    /// Returns true when a frame may be taken though they are not plenty: connections that are read continue beside those that are not.
    #[cold]
    fn may_take_scarce(&self, order: Order) -> bool {
        let frame_use = match (order, self.tcb.received.memory) {
            _ if self.shared.backlog.is_hoarded(self.tcb.user_token) => FrameUse::Hoard,
            (Order::OutOfOrder, _) => FrameUse::Gaps,
            (Order::InOrder, 0) => FrameUse::Next,
            (Order::InOrder, _) => FrameUse::Unread,
        };
        frame_use.may_take_any(self.env.arena)
    }

    /// RFC 2018 §8: drops out-of-order data, the farthest first, to make space for data that comes next: otherwise nothing
    /// would ever be put in order, and both ends would wait until the peer gives up.
    #[cold]
    fn make_room(&mut self, needed: u32) -> bool {
        let arena = self.env.arena;
        while let Some(freed) = self.cold().and_then(|cold| cold.reassembly.drop_last(arena)) {
            self.env.counters.count(Counter::OfoPruned);
            self.tcb.received.memory = self.tcb.received.memory.saturating_sub(freed);
            if self.fits(needed, Order::InOrder) {
                return true;
            }
        }
        false
    }

    /// Appends frames with `len` bytes and this much memory to the readable data: one by one where their memory holds little,
    /// so that small ones are copied together.
    pub(crate) fn append_frames(&mut self, mut frames: FrameQueue, len: u32, memory: u32) {
        let arena = self.env.arena;
        if u64::from(memory) <= u64::from(len) * MEMORY_FACTOR {
            self.tcb.received.memory += memory;
            return self.tcb.receive_queue.frames.append(arena, &mut frames);
        }
        while let Some((frame, note)) = frames.pop_front(arena) {
            let memory = frame_memory(&frame);
            self.append_frame(frame, memory, note);
        }
    }

    /// Appends a frame of this much memory to the readable data.
    #[inline(always)]
    pub(crate) fn append_frame(&mut self, frame: Frame, memory: u32, note: Note) {
        if !self.tcb.receive_queue.frames.is_empty() && frame.len() <= COPY_BREAK && self.reborrow().copy_behind(&frame) {
            return;
        }
        self.tcb.received.memory += memory;
        self.tcb.receive_queue.frames.push_back(frame, note);
    }

    /// Takes the steps after `len` bytes of new data in order: their measurement by the `echo` of their timestamp, their ACK,
    /// and the application's wake-up. `pushed`: the peer's message ends with them.
    #[inline(always)]
    pub(crate) fn deliver(&mut self, len: u32, echo: Option<u32>, pushed: bool) {
        self.measure_arrival(echo, len);
        self.ack_soon(pushed);
        self.signal();
    }

    /// Accounts for `len` bytes appended at RCV.NXT.
    #[inline]
    pub(crate) fn received_in_order(&mut self, len: u32) {
        self.tcb.receive_next(len);
        self.tcb.receive_queue.unread += len;
        self.tcb.received.unconsumed += len;
        self.tcb.received.bytes += len as u64;
    }

    #[inline(never)]
    fn copy_behind(&mut self, frame: &Frame) -> bool {
        let arena = self.env.arena;
        let back = self.tcb.receive_queue.frames.back();
        if !back.is_some() || arena.share(back, 0, arena.queued_len(back)).tailroom() < frame.len() {
            return false;
        }
        let copied = self.tcb.receive_queue.frames.append_bytes(arena, frame.payload());
        debug_assert!(copied == 0 || copied == frame.len());
        copied > 0
    }

    /// Takes the next frame; the window opens only when its bytes are consumed.
    pub(crate) fn take_frame(&mut self) -> Result<Frame, ReceiveError> {
        if let Some((frame, _)) = self.tcb.receive_queue.frames.pop_front(self.env.arena) {
            self.tcb.received.memory -= frame_memory(&frame).min(self.tcb.received.memory);
            self.tcb.receive_queue.unread -= frame.len() as u32;
            return Ok(frame);
        }
        Err(self.why_nothing())
    }

    /// Reason why there is nothing to read.
    fn why_nothing(&self) -> ReceiveError {
        match self.tcb.error() {
            // Linux: after the peer's end a read returns end of stream; the error is available on request.
            Some(error) if !self.tcb.has_peer_ended() => ReceiveError::Failed(error),
            _ if self.tcb.is_peer_closed() => ReceiveError::EndOfStream,
            _ => ReceiveError::WouldBlock,
        }
    }

    /// Calls `visit` with up to `max` bytes in place; the window may open by what was read.
    pub(crate) fn read_with(&mut self, max: usize, visit: &mut dyn FnMut(&[u8])) -> Result<usize, ReceiveError> {
        if self.tcb.receive_queue.unread == 0 {
            return Err(self.why_nothing());
        }
        let mut read = self.read_front(max, visit);
        if !self.tcb.receive_queue.frames.is_empty() {
            read += self.reborrow().read_rest(max - read, visit);
        }
        self.tcb.receive_queue.unread -= read as u32;
        self.consumed(read as u32);
        Ok(read)
    }

    /// Reads up to `max` bytes of the first frame.
    #[inline(always)]
    fn read_front(&mut self, max: usize, visit: &mut dyn FnMut(&[u8])) -> usize {
        let taken = self.tcb.receive_queue.frames.take_bytes(self.env.arena, max, visit);
        let (bytes, memory) = taken.expect("what is unread lies in the queue");
        self.tcb.received.memory -= (memory as u32).min(self.tcb.received.memory);
        bytes
    }

    /// Reads up to `max` bytes of the other frames.
    #[inline(never)]
    fn read_rest(&mut self, max: usize, visit: &mut dyn FnMut(&[u8])) -> usize {
        let mut read = 0;
        while read < max && !self.tcb.receive_queue.frames.is_empty() {
            read += self.read_front(max - read, visit);
        }
        read
    }

    /// Notes that the application has read `bytes`; sends a window update when that is worthwhile.
    pub(crate) fn consumed(&mut self, bytes: u32) {
        self.tcb.received.unconsumed = self.tcb.received.unconsumed.saturating_sub(bytes);
        self.tune_receive_buffer();
        if !self.tcb.prediction.is_marked() && !self.reborrow().may_open_window() {
            return;
        }
        let advertised = self.tcb.receive_window();
        let mss = self.tcb.mss() as u32;
        // Less than two segments more could be offered: not worth an ACK.
        if advertised >= mss && self.receive_limit().saturating_sub(advertised) < 2 * mss {
            return;
        }
        // Space that the field cannot express opens nothing.
        let largest = (u16::MAX as u32) << self.tcb.receive_scale();
        let opened = self.open_window().min(largest).saturating_sub(advertised);
        let worthwhile = (2 * self.tcb.mss() as u32).max(self.receive_limit() / 4);
        if opened >= worthwhile || (advertised < self.tcb.mss() as u32 && opened >= self.silly_window()) {
            if advertised == 0 {
                self.env.counters.count(Counter::TcpFromZeroWindowAdv);
            }
            self.reborrow().ack_now();
        }
    }

    /// Drops an urgent mark that lay before the data read. Returns true when the peer may still send.
    #[inline(never)]
    fn may_open_window(&mut self) -> bool {
        if self.tcb.cold() != super::cold::NONE {
            self.forget_read_mark();
        }
        self.tcb.state().receives_data()
    }

    /// RFC 9293 §3.8.6.2.2: openings smaller than this are not advertised.
    #[inline]
    fn silly_window(&self) -> u32 {
        (self.tcb.mss() as u32).min(self.tcb.receive_buffer() / 2)
    }

    /// Number of bytes from RCV.NXT on that could be received now.
    fn open_window(&self) -> u32 {
        self.affordable(self.receive_room())
    }

    /// Number of bytes from RCV.NXT on that the receive buffer has space for.
    #[inline]
    fn receive_room(&self) -> u32 {
        self.receive_limit().saturating_sub(self.tcb.received.unconsumed)
    }

    /// The part of `room` that the arena has memory for.
    #[inline]
    fn affordable(&self, room: u32) -> u32 {
        // A promise that the arena cannot keep would only cause retransmissions. Each connection may have a share of the
        // free memory, so that unread connections leave some to the others.
        let share = self.env.arena.free(Class::Large) as u64 * LARGE_BYTES as u64 / MEMORY_SHARE;
        let spare = share.saturating_sub(self.tcb.received.memory.into());
        room.min(u32::try_from(spare).unwrap_or(u32::MAX))
    }

    /// The window field of the next segment; moves the right edge.
    #[inline(always)]
    pub(crate) fn advertise_window(&mut self) -> u16 {
        let scale = self.tcb.receive_scale();
        let advertised = self.tcb.receive_window();
        let room = self.receive_room();
        let worthwhile = advertised + self.silly_window();
        // When the buffer has no space to open the window, the arena is not asked.
        let window = match room < worthwhile {
            true => advertised,
            false => Some(self.affordable(room)).filter(|&open| open >= worthwhile).unwrap_or(advertised),
        };
        // Rounded up, so that the edge which the peer computes never moves left; that edge is the promise.
        let field = ((window + (1 << scale) - 1) >> scale).min(u16::MAX as u32);
        self.tcb.advertise(self.tcb.rcv_nxt() + (field << scale));
        if field == 0 && advertised == 0 {
            self.env.counters.count(Counter::TcpToZeroWindowAdv);
        }
        field as u16
    }
}

impl Tcb {
    /// Bytes that can be read.
    #[inline(always)]
    pub(crate) fn unread(&self) -> u32 {
        self.receive_queue.unread
    }

    /// In-order bytes that the application has not consumed, taken or not.
    #[inline(always)]
    pub(crate) fn unconsumed(&self) -> u32 {
        self.received.unconsumed
    }

    /// In-order bytes since the handshake.
    #[inline(always)]
    pub(crate) fn bytes_received(&self) -> u64 {
        self.received.bytes
    }

    /// Counts `memory` bytes behind out-of-order data.
    pub(crate) fn hold_out_of_order(&mut self, memory: u32) {
        self.received.memory += memory;
    }

    /// Appends data that was out of order until now; its memory is counted.
    pub(crate) fn append_held(&mut self, arena: &Arena, mut frames: FrameQueue) {
        self.receive_queue.frames.append(arena, &mut frames);
    }

    /// Counts the memory anew, when nothing is out of order.
    pub(crate) fn recount_receive_memory(&mut self, arena: &Arena) {
        self.received.memory = super::segment::memory(arena, &self.receive_queue.frames);
    }

    /// Copies the bytes that can be read, for another stack.
    pub(crate) fn unread_bytes(&self, arena: &Arena) -> Vec<u8> {
        bytes_of(arena, &self.receive_queue.frames)
    }

    /// Goes on with the queue of another stack, while it is empty: frames of this much memory have the unread bytes.
    pub(crate) fn resume_received(&mut self, (frames, memory): (FrameQueue, u32), receiving: &Receiving) {
        let &Receiving { unconsumed, bytes, .. } = receiving;
        let unread = receiving.unread.len() as u32;
        debug_assert!(self.receive_queue.frames.is_empty() && unread <= unconsumed);
        self.receive_queue = ReceiveQueue { frames, unread };
        self.received = Received { unconsumed, memory, bytes };
    }

    /// The memory counted, and the queue.
    #[cfg(test)]
    pub(crate) fn receive_charge(&self) -> (u32, &FrameQueue) {
        (self.received.memory, &self.receive_queue.frames)
    }

    /// Frees everything.
    pub(crate) fn clear_receive_queue(&mut self, arena: &Arena) {
        self.receive_queue.frames.clear(arena);
        self.receive_queue.unread = 0;
        self.received.memory = 0;
    }

    /// Returns true when the peer will send nothing more and all that it sent can be read.
    pub(crate) fn is_peer_closed(&self) -> bool {
        match self.state() {
            State::CloseWait | State::Closing | State::LastAck | State::TimeWait | State::Closed => true,
            State::Listen | State::SynSent | State::SynReceived => false,
            State::Established | State::FinWait1 | State::FinWait2 => false,
        }
    }

    /// Returns true when a `receive` would not block.
    pub(crate) fn is_readable(&self) -> bool {
        self.receive_queue.unread > 0 || self.is_peer_closed()
    }

    /// Returns true when a `send` would not block.
    pub(crate) fn is_writable(&self) -> bool {
        let open = matches!(self.state(), State::Established | State::CloseWait) || self.is_early();
        if open && !self.has(flag::FIN_QUEUED) {
            // Linux: writable when a third of the buffer is free.
            return self.send_space() as u32 >= self.send_buffer() / 3;
        }
        !matches!(self.state(), State::SynSent | State::SynReceived | State::Listen)
    }
}
