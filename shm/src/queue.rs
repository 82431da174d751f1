//! A list of frames linked through the arena's side array: 8 bytes however long it is.
//!
//! A connection's send and receive queues are such lists. The queue owns one reference to each slot
//! in it; frames shared from it (`share`) may be on their way to the wire at the same time. A queue
//! does not know its arena, so it must be emptied with `clear` before it is dropped.

use core::mem;

use crate::arena::{Arena, FLAG_FOREIGN, FLAG_QUEUED, NIL, SlotMeta};
use crate::frame::{Frame, SegmentationKind};
use crate::payload::Payload;

/// What the owner of a queue remembers of each slot: 12 bytes, meaning is the owner's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Note {
    /// Sequence number of the first byte.
    pub sequence: u32,
    /// When it was last sent, in microseconds, wrapping.
    pub sent_at: u32,
    /// One's-complement sum of the bytes, not complemented, as if the first byte were even.
    pub sum: u16,
    /// The owner's flags.
    pub flags: u8,
    /// How often it was sent again.
    pub retransmits: u8,
}

/// A slot in a queue. It names, it does not own: it is only good while the slot stays queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u32);

impl Slot {
    /// No slot.
    pub const NONE: Slot = Slot(NIL);

    /// Whether this names a slot.
    #[inline]
    pub fn is_some(self) -> bool {
        self.0 != NIL
    }
}

impl Default for Slot {
    fn default() -> Slot {
        Slot::NONE
    }
}

/// A list of frames; see the module's text.
#[derive(Debug, PartialEq, Eq)]
pub struct FrameQueue {
    head: u32,
    tail: u32,
}

impl Default for FrameQueue {
    fn default() -> FrameQueue {
        FrameQueue { head: NIL, tail: NIL }
    }
}

impl FrameQueue {
    /// Whether nothing is queued.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head == NIL
    }

    /// The first slot, or [`Slot::NONE`].
    #[inline]
    pub fn front(&self) -> Slot {
        Slot(self.head)
    }

    /// The last slot, or [`Slot::NONE`].
    #[inline]
    pub fn back(&self) -> Slot {
        Slot(self.tail)
    }

    /// Appends a frame. Its `continues` mark is forgotten.
    ///
    /// # Panics
    /// When the slot is in a queue already.
    #[inline(always)]
    pub fn push_back(&mut self, frame: Frame, note: Note) -> Slot {
        let slot = frame.slot();
        let meta = frame.meta();
        assert!(meta.flags.get() & FLAG_QUEUED == 0, "a slot is in one queue at most");
        meta.flags.set(meta.flags.get() | FLAG_QUEUED);
        meta.offset.set(frame.headroom() as u16);
        meta.len.set(frame.len() as u16);
        meta.note.set(note);
        meta.next.set(NIL);
        if self.tail == NIL {
            self.head = slot;
        } else {
            // SAFETY: a frame counts as an owner of its arena, so it is alive.
            let inner = unsafe { frame.arena_pointer().as_ref() };
            inner.meta[self.tail as usize].next.set(slot);
        }
        self.tail = slot;
        mem::forget(frame);
        Slot(slot)
    }

    /// Inserts a frame behind `after`, or at the front when `after` is [`Slot::NONE`].
    ///
    /// # Panics
    /// When the slot is in a queue already or `after` is not.
    pub fn insert_after(&mut self, arena: &Arena, after: Slot, frame: Frame, note: Note) -> Slot {
        if after.0 == self.tail {
            return self.push_back(frame, note);
        }
        let slot = frame.slot();
        let meta = frame.meta();
        assert!(meta.flags.get() & FLAG_QUEUED == 0, "a slot is in one queue at most");
        meta.flags.set(meta.flags.get() | FLAG_QUEUED);
        meta.offset.set(frame.headroom() as u16);
        meta.len.set(frame.len() as u16);
        meta.note.set(note);
        if after.is_some() {
            let previous = arena.queued(after);
            meta.next.set(previous.next.get());
            previous.next.set(slot);
        } else {
            meta.next.set(self.head);
            self.head = slot;
        }
        mem::forget(frame);
        Slot(slot)
    }

    /// Takes the first frame.
    #[inline]
    pub fn pop_front(&mut self, arena: &Arena) -> Option<(Frame, Note)> {
        if self.head == NIL {
            return None;
        }
        let slot = self.head;
        let meta = arena.queued(Slot(slot));
        self.head = meta.next.get();
        if self.head == NIL {
            self.tail = NIL;
        }
        meta.flags.set(meta.flags.get() & !FLAG_QUEUED);
        let frame = Frame::from_parts(arena.inner_pointer(), slot, meta.offset.get(), meta.len.get());
        Some((frame, meta.note.get()))
    }

    /// Gives the first frame back to the arena if `wanted` says so of its length and its note, and returns that note with the
    /// memory behind the frame, bytes.
    #[inline(always)]
    pub fn free_front_if(&mut self, arena: &Arena, wanted: impl FnOnce(usize, Note) -> bool) -> Option<(Note, usize)> {
        if self.head == NIL {
            return None;
        }
        let slot = self.head;
        let meta = arena.queued(Slot(slot));
        let note = meta.note.get();
        if !wanted(meta.len.get() as usize, note) {
            return None;
        }
        Some((note, self.free_front(arena, Slot(slot), meta)))
    }

    /// Gives the first frame back to the arena, which is `slot`'s; returns the memory behind it, bytes.
    #[inline(always)]
    fn free_front(&mut self, arena: &Arena, slot: Slot, meta: &SlotMeta) -> usize {
        let memory = arena.queued_memory(slot);
        self.head = meta.next.get();
        if self.head == NIL {
            self.tail = NIL;
        }
        meta.flags.set(meta.flags.get() & !FLAG_QUEUED);
        // The handle that we were given is an owner too, so this one is not the last.
        arena.inner().release_reference(slot.0, meta);
        memory
    }

    /// Shows `visit` up to `max` bytes at the front of the queue, and takes them out; a frame of which nothing is left goes
    /// back to the arena. Returns how many bytes these were, and the memory that was given back, bytes. `None`: there is no
    /// frame.
    #[inline(always)]
    pub fn take_bytes(&mut self, arena: &Arena, max: usize, visit: &mut dyn FnMut(&[u8])) -> Option<(usize, usize)> {
        if self.head == NIL {
            return None;
        }
        let (slot, meta) = (Slot(self.head), &arena.inner().meta[self.head as usize]);
        if meta.flags.get() & (FLAG_QUEUED | FLAG_FOREIGN) != FLAG_QUEUED {
            return self.take_foreign_bytes(arena, max, visit);
        }
        let (offset, len) = (meta.offset.get() as usize, meta.len.get() as usize);
        let count = len.min(max);
        // SAFETY: offset + len never exceeds the slot, whose reference the queue keeps until `visit` has returned; a holder of
        // another one may only read, and no other process may write to it.
        visit(unsafe { core::slice::from_raw_parts(arena.inner().slot_pointer(slot.0).add(offset), count) });
        if count == len {
            return Some((count, self.free_front(arena, slot, meta)));
        }
        meta.offset.set((offset + count) as u16);
        meta.len.set((len - count) as u16);
        Some((count, 0))
    }

    /// As [`take_bytes`](FrameQueue::take_bytes), of bytes that another process may change: `visit` is shown copies, in pieces.
    #[cold]
    #[inline(never)]
    fn take_foreign_bytes(&mut self, arena: &Arena, max: usize, visit: &mut dyn FnMut(&[u8])) -> Option<(usize, usize)> {
        let slot = self.front();
        let count = arena.queued_len(slot).min(max);
        arena.share(slot, 0, count).payload().for_each_copy(visit);
        if count == arena.queued_len(slot) {
            return Some((count, self.free_front(arena, slot, arena.queued(slot))));
        }
        arena.pull_queued(slot, count);
        Some((count, 0))
    }

    /// Removes the frame behind `after` (the first when `after` is [`Slot::NONE`]).
    pub fn remove_after(&mut self, arena: &Arena, after: Slot) -> Option<(Frame, Note)> {
        if !after.is_some() {
            return self.pop_front(arena);
        }
        let previous = arena.queued(after);
        let slot = previous.next.get();
        if slot == NIL {
            return None;
        }
        let meta = arena.queued(Slot(slot));
        previous.next.set(meta.next.get());
        if self.tail == slot {
            self.tail = after.0;
        }
        meta.flags.set(meta.flags.get() & !FLAG_QUEUED);
        let frame = Frame::from_parts(arena.inner_pointer(), slot, meta.offset.get(), meta.len.get());
        Some((frame, meta.note.get()))
    }

    /// Moves all frames of `other` behind those of this queue.
    pub fn append(&mut self, arena: &Arena, other: &mut FrameQueue) {
        if other.head == NIL {
            return;
        }
        if self.tail == NIL {
            self.head = other.head;
        } else {
            arena.queued(Slot(self.tail)).next.set(other.head);
        }
        self.tail = other.tail;
        *other = FrameQueue::default();
    }

    /// Returns all frames to the arena.
    #[inline]
    pub fn clear(&mut self, arena: &Arena) {
        if self.head != NIL {
            self.clear_frames(arena);
        }
    }

    #[inline(never)]
    fn clear_frames(&mut self, arena: &Arena) {
        while self.pop_front(arena).is_some() {}
    }

    /// Copies as much of `bytes` as fits behind the last frame's bytes, if nothing shares its
    /// slot. Returns how many bytes went in.
    pub fn append_bytes<'a>(&mut self, arena: &Arena, bytes: impl Into<Payload<'a>>) -> usize {
        let bytes = bytes.into();
        if self.tail == NIL {
            return 0;
        }
        let meta = arena.queued(Slot(self.tail));
        if !meta.is_exclusive() {
            return 0;
        }
        let end = meta.offset.get() as usize + meta.len.get() as usize;
        let count = bytes.len().min(arena.inner().slot_bytes(self.tail) - end);
        // SAFETY: the queue is the slot's only owner and may write to it (`is_exclusive`), and end + count lies in the slot.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), arena.inner().slot_pointer(self.tail).add(end), count) };
        meta.len.set(meta.len.get() + count as u16);
        count
    }
}

impl FrameQueue {
    /// Grows the last frame, if nothing shares its slot, by up to `count` bytes that `fill` writes.
    /// Returns how many there were; `fill` is not called when there is no room.
    pub fn extend_back(&mut self, arena: &Arena, count: usize, fill: &mut dyn FnMut(&mut [u8])) -> usize {
        if self.tail == NIL {
            return 0;
        }
        let meta = arena.queued(Slot(self.tail));
        let end = meta.offset.get() as usize + meta.len.get() as usize;
        let count = count.min(arena.inner().slot_bytes(self.tail) - end);
        if !meta.is_exclusive() || count == 0 {
            return 0;
        }
        let mut frame = Frame::from_parts(arena.inner_pointer(), self.tail, end as u16, count as u16);
        fill(frame.bytes_mut());
        // The queue keeps the reference that this frame stood for.
        mem::forget(frame);
        meta.len.set(meta.len.get() + count as u16);
        count
    }
}

impl Arena {
    #[inline(always)]
    fn queued(&self, slot: Slot) -> &crate::arena::SlotMeta {
        let meta = &self.inner().meta[slot.0 as usize];
        assert!(meta.flags.get() & FLAG_QUEUED != 0, "the slot is not queued");
        meta
    }

    /// The slot behind `slot` in its queue, or [`Slot::NONE`].
    ///
    /// # Panics
    /// Like all of these: when `slot` is not in a queue.
    #[inline]
    pub fn next(&self, slot: Slot) -> Slot {
        Slot(self.queued(slot).next.get())
    }

    /// Bytes of a queued frame.
    #[inline]
    pub fn queued_len(&self, slot: Slot) -> usize {
        self.queued(slot).len.get() as usize
    }

    /// The note of a queued frame.
    #[inline]
    pub fn note(&self, slot: Slot) -> Note {
        self.queued(slot).note.get()
    }

    /// Changes the note of a queued frame.
    #[inline]
    pub fn set_note(&self, slot: Slot, note: Note) {
        self.queued(slot).note.set(note);
    }

    /// The packet of a queued frame: a frame over its bytes and `count` bytes in front of them. `write` fills those and may
    /// look at the queued ones. The frame is an ordinary packet that says nothing of checksums; the queue keeps its own
    /// reference, and the note that `judge` makes of the length and the note of the queued frame. `None`, and nothing has
    /// happened: `judge` has made none, others see the slot too, or there is no such room.
    #[inline(always)]
    pub fn packet_of(
        &self,
        slot: Slot,
        count: usize,
        judge: impl FnOnce(usize, Note) -> Option<Note>,
        write: impl FnOnce(&mut [u8], &[u8]),
    ) -> Option<Frame> {
        let meta = self.queued(slot);
        if !meta.is_exclusive() || count > meta.offset.get() as usize {
            return None;
        }
        meta.note.set(judge(meta.len.get() as usize, meta.note.get())?);
        let (start, len) = (meta.offset.get() as usize - count, meta.len.get() as usize);
        meta.flags.set(meta.flags.get() & FLAG_QUEUED);
        meta.segmentation.set(SegmentationKind::None);
        // From here on the slot is read-only, whatever `write` does.
        meta.refs.set(2);
        self.inner().owners.set(self.inner().owners.get() + 1);
        let frame = Frame::from_parts(self.inner_pointer(), slot.0, start as u16, (count + len) as u16);
        // SAFETY: the queue was the slot's only owner and might write to it (`is_exclusive`), and until `write` returns the
        // frame above keeps others from that; no view reaches before the queued bytes. Both ranges lie in the slot, one
        // behind the other: `count` is at most the offset, and offset + len never exceeds the slot.
        unsafe {
            let headers = self.inner().slot_pointer(slot.0).add(start);
            write(core::slice::from_raw_parts_mut(headers, count), core::slice::from_raw_parts(headers.add(count), len));
        }
        Some(frame)
    }

    /// Memory behind a queued frame, bytes: its whole slot.
    #[inline]
    pub fn queued_memory(&self, slot: Slot) -> usize {
        self.inner().slot_bytes(slot.0)
    }

    /// Takes `count` bytes off the front of a queued frame.
    #[inline]
    pub fn pull_queued(&self, slot: Slot, count: usize) {
        let meta = self.queued(slot);
        assert!(count <= meta.len.get() as usize, "pull beyond the end");
        meta.offset.set(meta.offset.get() + count as u16);
        meta.len.set(meta.len.get() - count as u16);
    }

    /// Shortens a queued frame to `len` bytes.
    #[inline]
    pub fn truncate_queued(&self, slot: Slot, len: usize) {
        let meta = self.queued(slot);
        meta.len.set(meta.len.get().min(len.min(u16::MAX as usize) as u16));
    }

    /// A frame over `len` bytes at `offset` of a queued frame; the queue keeps its own reference.
    ///
    /// # Panics
    /// When the range is not inside the queued bytes.
    #[inline]
    pub fn share(&self, slot: Slot, offset: usize, len: usize) -> Frame {
        let meta = self.queued(slot);
        assert!(offset + len <= meta.len.get() as usize, "share beyond the end");
        meta.refs.set(meta.refs.get() + 1);
        self.inner().owners.set(self.inner().owners.get() + 1);
        Frame::from_parts(self.inner_pointer(), slot.0, meta.offset.get() + offset as u16, len as u16)
    }
}

#[cfg(test)]
mod tests;
