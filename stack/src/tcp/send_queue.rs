//! Data from SND.UNA to the last queued byte: a list of extents, segmented only when it is sent.
//!
//! An extent is a queued frame with a [`Note`]: sequence number of its first byte, xmit time, number of retransmissions, and
//! the checksum of its bytes (computed when the bytes are queued, so that no transmission touches them for that). Three
//! cursors: the front holds SND.UNA, `next_unsent` holds SND.NXT, the back grows while it is unsent. `output` and
//! `retransmit` decide what is sent.

use alloc::vec::Vec;

use ringway_shm::arena::{LARGE_BYTES, SMALL_BYTES, SMALL_HEADROOM};
use ringway_shm::{Arena, Class, Frame, FrameQueue, Note, Slot};

use crate::admission::FrameUse;
use crate::source::Source;
use crate::wire::checksum;

use super::handover::{Extent, Rebase};
use super::output::HEADROOM;
use super::segment::frame_memory;
use super::tcb::Tcb;
use crate::wire::sequence::SeqNum;

/// `Note::sum` is the sum of all bytes of the extent.
pub(crate) const SUM_VALID: u8 = 1;
/// The sender's data ended with this extent when it was first sent.
pub(crate) const PUSHED: u8 = 2;
/// Payloads up to this length go into small frames, with space for headers in front.
pub(crate) const SMALL_PAYLOAD: usize = SMALL_BYTES - SMALL_HEADROOM as usize;

/// Frames of a class that send queues may take now.
#[inline]
pub(crate) fn sendable_frames(arena: &Arena, class: Class) -> u32 {
    arena.free(class).saturating_sub(FrameUse::Sending.leaves(arena.capacity(class)))
}

/// Result of freeing acknowledged data.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Freed {
    /// Xmit time of the youngest freed extent that was sent only once, microseconds modulo 2^32.
    pub(crate) sent_at: Option<u32>,
}

/// Data from SND.UNA on.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct SendQueue {
    extents: FrameQueue,
    /// The extent that holds SND.NXT.
    next_unsent: Slot,
    /// One past the last queued byte.
    end: SeqNum,
    /// Memory behind `extents`, bytes.
    memory: u32,
}

impl SendQueue {
    /// Sets the sequence number of the first byte, while the queue is empty.
    pub(super) fn begin(&mut self, start: SeqNum) {
        debug_assert!(self.extents.is_empty());
        self.end = start;
    }
}

/// Layout of new extents, chosen for the link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Maximum bytes: one MSS when packets are that large, so that an extent's sum is a packet's.
    pub(crate) bytes_max: usize,
    /// True when checksums will be needed.
    pub(crate) sum: bool,
    /// As what the first frame is taken.
    pub(crate) first: FrameUse,
}

impl Shape {
    /// Fills `piece`; returns its sum when that will be needed.
    #[inline]
    fn take(self, source: &mut dyn Source, piece: &mut [u8]) -> Option<u16> {
        if self.sum {
            return Some(source.fill_and_sum(piece));
        }
        source.fill(piece);
        None
    }
}

/// A piece of an extent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) slot: Slot,
    pub(crate) offset: usize,
    pub(crate) len: usize,
    /// The sum of exactly these bytes, when it is known.
    pub(crate) sum: Option<u16>,
    /// The piece reaches the end of the extent.
    ends: bool,
    /// Note of the extent.
    note: Note,
}

impl Tcb {
    /// One past the last queued byte.
    #[inline(always)]
    pub(crate) fn snd_end(&self) -> SeqNum {
        self.send_queue.end
    }

    /// The extent that holds SND.NXT.
    #[inline(always)]
    pub(crate) fn next_unsent(&self) -> Slot {
        self.send_queue.next_unsent
    }

    /// Notes the extent that holds SND.NXT, or that all is sent.
    #[inline(always)]
    pub(crate) fn set_next_unsent(&mut self, slot: Slot) {
        self.send_queue.next_unsent = slot;
    }

    /// Memory behind the queue, bytes.
    pub(crate) fn send_memory(&self) -> u32 {
        self.send_queue.memory
    }

    /// Bytes that may be queued now.
    pub(crate) fn send_space(&self) -> usize {
        // Many small writes cost more memory than they have bytes; both are bounded.
        if self.send_queue.memory / 2 >= self.send_buffer() {
            return 0;
        }
        self.send_buffer().saturating_sub(self.send_queued() as u32) as usize
    }

    /// Returns true when less than a third of the buffer is free. No frame has more bytes than memory: mostly memory alone
    /// decides.
    #[inline]
    pub(crate) fn is_nearly_full(&self) -> bool {
        self.send_queue.memory > self.send_buffer() / 2 && self.send_space() < self.send_buffer() as usize / 3
    }

    /// Maximum bytes of the next extent.
    pub(crate) fn send_piece(&self, shape: Shape) -> usize {
        self.send_space().min(self.room_before_boundary(shape))
    }

    /// Number of bytes queued and not acknowledged.
    pub(crate) fn send_queued(&self) -> usize {
        (self.send_queue.end - self.snd_una().earliest(self.send_queue.end)) as usize
    }

    /// Queues a frame of payload with its sum, if known.
    #[inline(always)]
    pub(crate) fn enqueue(&mut self, frame: Frame, sum: Option<u16>) {
        let memory = frame_memory(&frame);
        self.enqueue_measured(frame, memory, sum);
    }

    /// Like [`enqueue`](Tcb::enqueue), for a frame of known memory.
    #[inline(always)]
    fn enqueue_measured(&mut self, frame: Frame, memory: u32, sum: Option<u16>) {
        let flags = if sum.is_some() { SUM_VALID } else { 0 };
        let len = frame.len() as u32;
        self.send_queue.memory += memory;
        let was_all_sent = self.unsent() == 0;
        let note = Note { sequence: self.send_queue.end.0, sum: sum.unwrap_or(0), flags, ..Note::default() };
        let slot = self.send_queue.extents.push_back(frame, note);
        if was_all_sent {
            self.send_queue.next_unsent = slot;
        }
        self.send_queue.end += len;
    }

    /// Queues up to `count` bytes of `source`, piece by piece; first behind the last extent while that is unsent. Returns
    /// the number of bytes that the arena had space for.
    pub(crate) fn enqueue_from(&mut self, arena: &Arena, shape: Shape, count: usize, source: &mut dyn Source) -> usize {
        if count <= SMALL_PAYLOAD && count < shape.bytes_max && self.unsent() == 0 {
            return self.enqueue_small_apart(arena, shape, count, source);
        }
        let mut queued = if self.unsent() > 0 { self.grow_back(arena, shape, count, source) } else { 0 };
        while queued < count {
            let rest = count - queued;
            // A small tail of a stream is about to grow; a small message is not.
            let class = if rest <= SMALL_PAYLOAD && self.unsent() == 0 { Class::Small } else { Class::Large };
            let frame_use = if queued == 0 { shape.first } else { FrameUse::Sending };
            if !frame_use.may_take(arena, class) {
                break;
            }
            let Some(mut frame) = arena.alloc(class) else { break };
            // A message is sent in the frame that holds it; a stream has its headers elsewhere.
            frame.reserve(if rest + HEADROOM <= LARGE_BYTES { HEADROOM } else { 0 });
            let len = rest.min(self.room_before_boundary(shape)).min(frame.tailroom());
            let sum = shape.take(source, frame.extend(len));
            self.enqueue(frame, sum);
            queued += len;
        }
        queued
    }

    #[inline(never)]
    fn enqueue_small_apart(&mut self, arena: &Arena, shape: Shape, count: usize, source: &mut dyn Source) -> usize {
        self.enqueue_small(arena, shape, count, source)
    }

    /// Like [`enqueue_from`](Tcb::enqueue_from), for a small message when nothing unsent is queued.
    #[inline(always)]
    pub(crate) fn enqueue_small(&mut self, arena: &Arena, shape: Shape, count: usize, source: &mut dyn Source) -> usize {
        if !shape.first.may_take(arena, Class::Small) {
            return 0;
        }
        // The headers fit in front of the bytes.
        let filled = arena.alloc_filled(Class::Small, count, |bytes| shape.take(source, bytes));
        let Some((frame, sum)) = filled else { return 0 };
        self.enqueue_measured(frame, SMALL_BYTES as u32, sum);
        count
    }

    /// Number of bytes from the end of the queue to the end of a packet that starts at SND.NXT.
    fn room_before_boundary(&self, shape: Shape) -> usize {
        match shape.bytes_max {
            usize::MAX => usize::MAX - 1,
            max => max - self.unsent() as usize % max,
        }
    }

    fn grow_back(&mut self, arena: &Arena, shape: Shape, count: usize, source: &mut dyn Source) -> usize {
        let back = self.send_queue.extents.back();
        let note = arena.note(back);
        let old_len = arena.queued_len(back);
        let room = self.room_before_boundary(shape);
        let count = if room == shape.bytes_max { 0 } else { count.min(room) };
        let mut sum = note.sum;
        let grown = self.send_queue.extents.extend_back(arena, count, &mut |bytes| {
            if let Some(part) = shape.take(source, bytes) {
                sum = checksum::add_at(sum, old_len, part);
            }
        });
        if grown > 0 {
            let flags = if shape.sum { note.flags } else { note.flags & !SUM_VALID };
            arena.set_note(back, Note { sum, flags, ..note });
        }
        self.send_queue.end += grown as u32;
        grown
    }

    /// Frees the data before `up_to`, which is at most SND.NXT and the last queued byte. `cursors` into the queue move to the
    /// first extent that is left.
    #[inline(always)]
    pub(crate) fn free_until(&mut self, arena: &Arena, up_to: SeqNum, cursors: Option<&mut [Slot; 3]>) -> Freed {
        if let Some(cursors) = cursors {
            return self.free_watched(arena, up_to, Some(cursors));
        }
        // Nearly always one message is acknowledged, and all of it.
        match self.free_front(arena, |len, note| SeqNum(note.sequence) + len as u32 == up_to) {
            Some(note) => Freed { sent_at: (note.retransmits == 0).then_some(note.sent_at) },
            None => self.free_watched(arena, up_to, None),
        }
    }

    /// Frees many extents, or a part of one.
    #[inline(never)]
    fn free_watched(&mut self, arena: &Arena, up_to: SeqNum, cursors: Option<&mut [Slot; 3]>) -> Freed {
        let mut freed = Freed::default();
        let mut popped = [false; 3];
        let watched = cursors.as_deref().copied().unwrap_or_default();
        while self.send_queue.extents.front().is_some() {
            let front = self.send_queue.extents.front();
            let note = arena.note(front);
            let len = arena.queued_len(front) as u32;
            let start = SeqNum(note.sequence);
            if start.at_or_after(up_to) {
                break;
            }
            if up_to.before(start + len) {
                let count = up_to - start;
                arena.pull_queued(front, count as usize);
                arena.set_note(front, Note { sequence: up_to.0, flags: note.flags & !SUM_VALID, ..note });
                break;
            }
            for (popped, watched) in popped.iter_mut().zip(watched) {
                *popped |= front == watched;
            }
            if note.retransmits == 0 {
                freed.sent_at = Some(note.sent_at);
            }
            self.free_front(arena, |_, _| true);
        }
        for (cursor, _) in cursors.into_iter().flatten().zip(popped).filter(|(_, popped)| *popped) {
            *cursor = self.send_queue.extents.front();
        }
        freed
    }

    /// Frees the first extent if `wanted` returns true for its length and note; returns that note.
    #[inline(always)]
    fn free_front(&mut self, arena: &Arena, wanted: impl FnOnce(usize, Note) -> bool) -> Option<Note> {
        let (note, memory) = self.send_queue.extents.free_front_if(arena, wanted)?;
        self.send_queue.memory -= memory as u32;
        Some(note)
    }

    /// Copies the queue, for another stack: no piece is larger than a frame of any arena.
    pub(crate) fn export_extents(&self, arena: &Arena, by: Rebase) -> Vec<Extent> {
        let mut extents = Vec::new();
        let mut slot = self.send_queue.extents.front();
        while slot.is_some() {
            let (note, len) = (arena.note(slot), arena.queued_len(slot));
            for from in (0..len).step_by(LARGE_BYTES) {
                let end = len.min(from + LARGE_BYTES);
                extents.push(Extent {
                    data: arena.share(slot, from, end - from).payload().to_vec(),
                    retransmits: note.retransmits,
                    sent_at: by.us(note.sent_at),
                    is_pushed: note.flags & PUSHED != 0 && end == len,
                });
            }
            slot = arena.next(slot);
        }
        extents
    }

    /// Queues a piece of another stack's queue.
    pub(crate) fn resume_extent(&mut self, arena: &Arena, frame: Frame, extent: &Extent, by: Rebase) {
        self.enqueue(frame, None);
        let back = self.send_queue.extents.back();
        let note = arena.note(back);
        let flags = if extent.is_pushed { note.flags | PUSHED } else { note.flags };
        arena.set_note(back, Note { sent_at: by.us(extent.sent_at), retransmits: extent.retransmits, flags, ..note });
    }

    /// Frees everything.
    pub(crate) fn clear_send_queue(&mut self, arena: &Arena) {
        self.send_queue.extents.clear(arena);
        self.send_queue.memory = 0;
        self.send_queue.next_unsent = Slot::NONE;
    }

    /// The extent that contains `sequence`, searched from `hint` when that is not beyond it.
    pub(crate) fn extent_at(&self, arena: &Arena, sequence: SeqNum, hint: Slot) -> Slot {
        let mut slot = self.send_queue.extents.front();
        if hint.is_some() && SeqNum(arena.note(hint).sequence).at_or_before(sequence) {
            slot = hint;
        }
        while slot.is_some() && !sequence.within(SeqNum(arena.note(slot).sequence), arena.queued_len(slot) as u32) {
            slot = arena.next(slot);
        }
        slot
    }
}

/// Calls `visit` for the pieces of `len` bytes from `sequence` on, which is in `slot`. Returns the slot of the byte after
/// them, or none.
pub(crate) fn for_each_piece(arena: &Arena, slot: Slot, sequence: SeqNum, len: u32, visit: &mut dyn FnMut(Piece)) -> Slot {
    let (mut slot, mut rest) = (slot, len as usize);
    let mut sequence = sequence;
    while rest > 0 && slot.is_some() {
        let note = arena.note(slot);
        let extent = arena.queued_len(slot);
        let offset = (sequence - SeqNum(note.sequence)) as usize;
        let count = (extent - offset).min(rest);
        let whole = offset == 0 && count == extent && note.flags & SUM_VALID != 0;
        let ends = offset + count == extent;
        visit(Piece { slot, offset, len: count, sum: whole.then_some(note.sum), ends, note });
        rest -= count;
        sequence += count as u32;
        if ends {
            slot = arena.next(slot);
        }
    }
    slot
}

/// Records in a piece's note that it was sent at `now_us`, or retransmitted if `again`: that time is RACK's to record.
#[inline]
pub(crate) fn mark_sent(arena: &Arena, piece: &Piece, now_us: u32, again: bool, pushed: bool) {
    let note = piece.note;
    let flags = if pushed && piece.ends { note.flags | PUSHED } else { note.flags };
    let sent_at = if again { note.sent_at } else { now_us };
    let retransmits = note.retransmits.saturating_add(again as u8);
    arena.set_note(piece.slot, Note { sent_at, retransmits, flags, ..note });
}

/// Returns true when the sender's data ended at `end`, in or behind the extent at `slot`, when that was first sent.
pub(crate) fn is_pushed(arena: &Arena, slot: Slot, end: SeqNum) -> bool {
    let mut slot = slot;
    while slot.is_some() {
        let note = arena.note(slot);
        let last = SeqNum(note.sequence) + arena.queued_len(slot) as u32;
        if last.at_or_after(end) {
            return last == end && note.flags & PUSHED != 0;
        }
        slot = arena.next(slot);
    }
    false
}
