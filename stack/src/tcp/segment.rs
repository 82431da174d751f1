//! A received segment as a value: header fields and a list of payload frames.

use alloc::vec::Vec;

use ringway_shm::arena::{LARGE_BYTES, LARGE_HEADROOM};
use ringway_shm::{Arena, Burst, Frame, FrameQueue, Note, Payload, SegmentationKind};

use crate::ip::Datagram;
use crate::wire::tcp::{FIN, Header, PSH, SYN};

use super::demux::FlowKey;
use super::ecn;
use crate::wire::sequence::SeqNum;

/// See the module's text. Code that drops a segment must return the payload to the arena.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) key: FlowKey,
    /// SEG.SEQ of what is left of the segment.
    pub(crate) sequence: SeqNum,
    pub(crate) header: Header,
    /// The word at byte 12 (data offset, flags) without PSH and window, plus a bit for congestion experienced in IP; for
    /// header prediction.
    pub(crate) word: u32,
    /// The ECN field of the IP header (RFC 3168 §5).
    pub(crate) ecn: u8,
    /// Number of packets that a device or `coalesce` has merged.
    pub(crate) packets: u16,
    /// Payload of the largest of them, bytes.
    pub(crate) packet_len: u16,
    /// Bytes in `payload`.
    pub(crate) len: u32,
    pub(crate) payload: FrameQueue,
    /// Memory behind `payload` on arrival, bytes.
    pub(crate) memory: u32,
}

impl Segment {
    /// Takes the packet of `first` and its further frames from the front of `packets`. Returns `None` when the header is bad
    /// and the packet is dropped.
    pub(crate) fn take(datagram: &Datagram, mut first: Frame, packets: &mut Burst) -> Option<Segment> {
        let bytes = first.bytes();
        let parsed = Header::parse(bytes);
        let mut more = first.continues();
        let Some((header, header_len)) = parsed else {
            while more {
                more = packets.pop().is_some_and(|frame| frame.continues());
            }
            return None;
        };
        let ecn = datagram.tos & ecn::CE;
        let word = u32::from_be_bytes([bytes[12], bytes[13] & !PSH, 0, (ecn == ecn::CE) as u8]);
        let segmentation = first.segmentation();
        first.pull(header_len);
        let mut segment = Segment {
            key: FlowKey {
                local: datagram.local(),
                remote: datagram.remote(),
                local_port: header.destination_port,
                remote_port: header.source_port,
            },
            sequence: header.sequence,
            header,
            word,
            ecn,
            packets: 1,
            packet_len: 0,
            len: 0,
            payload: FrameQueue::default(),
            memory: 0,
        };
        segment.push(first);
        while more {
            let Some(frame) = packets.pop() else { break };
            more = frame.continues();
            segment.push(frame);
        }
        segment.packet_len = segment.len.min(u32::from(u16::MAX)) as u16;
        if segmentation.kind != SegmentationKind::None {
            segment.packet_len = segment.packet_len.min(segmentation.size);
            segment.packets = segment.len.div_ceil(segmentation.size.max(1) as u32).max(1) as u16;
        }
        Some(segment)
    }

    fn push(&mut self, frame: Frame) {
        if frame.is_empty() {
            return;
        }
        let note = Note { sequence: (self.sequence + self.len).0, ..Note::default() };
        self.len += frame.len() as u32;
        self.memory += frame_memory(&frame);
        self.payload.push_back(frame, note);
    }

    /// Returns true when the flag is set.
    #[inline]
    pub(crate) fn has(&self, flag: u8) -> bool {
        self.header.flags & flag != 0
    }

    /// SEG.ACK
    #[inline]
    pub(crate) fn acknowledgment(&self) -> SeqNum {
        self.header.acknowledgment
    }

    /// SEG.LEN: payload bytes, SYN and FIN.
    pub(crate) fn sequence_len(&self) -> u32 {
        self.len + self.has(SYN) as u32 + self.has(FIN) as u32
    }

    /// One past the last sequence number of the segment.
    pub(crate) fn end(&self) -> SeqNum {
        self.sequence + self.sequence_len()
    }

    /// Removes `count` sequence numbers from the front: the SYN first, then payload.
    pub(crate) fn trim_front(&mut self, arena: &Arena, count: u32) {
        let mut count = count;
        if count > 0 && self.has(SYN) {
            self.header.flags &= !SYN;
            self.sequence += 1;
            count -= 1;
        }
        let count = count.min(self.len);
        trim_front(arena, &mut self.payload, count as usize);
        self.sequence += count;
        self.len -= count;
        self.memory = memory(arena, &self.payload);
    }

    /// Shortens the payload to `len` bytes, and removes a FIN behind it.
    pub(crate) fn truncate(&mut self, arena: &Arena, len: u32) {
        if len < self.len {
            truncate(arena, &mut self.payload, len as usize);
            self.len = len;
            self.memory = memory(arena, &self.payload);
        }
        self.header.flags &= !FIN;
    }

    /// Returns the payload to the arena.
    pub(crate) fn discard(&mut self, arena: &Arena) {
        self.payload.clear(arena);
        self.len = 0;
    }
}

/// Removes `count` bytes from the front of a list of frames.
pub(crate) fn trim_front(arena: &Arena, queue: &mut FrameQueue, count: usize) {
    let mut count = count;
    while count > 0 && !queue.is_empty() {
        let len = arena.queued_len(queue.front());
        if count < len {
            let slot = queue.front();
            arena.pull_queued(slot, count);
            let note = arena.note(slot);
            arena.set_note(slot, Note { sequence: note.sequence.wrapping_add(count as u32), ..note });
            return;
        }
        count -= len;
        // The frame goes back to the arena here.
        drop(queue.pop_front(arena));
    }
}

/// Shortens a list of frames to `len` bytes.
pub(crate) fn truncate(arena: &Arena, queue: &mut FrameQueue, len: usize) {
    let mut kept = FrameQueue::default();
    let mut room = len;
    while room > 0 {
        let Some((mut frame, note)) = queue.pop_front(arena) else { break };
        frame.truncate(room);
        room -= frame.len();
        kept.push_back(frame, note);
    }
    queue.clear(arena);
    *queue = kept;
}

/// Splits a list of frames behind `len` bytes and returns the rest. Returns `None` when the split is inside a frame and no
/// other is free; the rest is lost then.
pub(crate) fn split(arena: &Arena, queue: &mut FrameQueue, len: usize) -> Option<FrameQueue> {
    let mut head = FrameQueue::default();
    let mut room = len;
    while room > 0 {
        let Some((mut frame, note)) = queue.pop_front(arena) else { break };
        if frame.len() <= room {
            room -= frame.len();
            head.push_back(frame, note);
            continue;
        }
        let behind = copy(
            arena,
            frame.payload().slice(room..frame.len()),
            Note { sequence: note.sequence.wrapping_add(room as u32), ..note },
        );
        frame.truncate(room);
        head.push_back(frame, note);
        let mut rest = core::mem::replace(queue, head);
        let Some(mut cut) = behind else {
            rest.clear(arena);
            return None;
        };
        cut.append(arena, &mut rest);
        return Some(cut);
    }
    Some(core::mem::replace(queue, head))
}

/// Copies `bytes` into as many frames as needed, all or none; `note` is the first one's.
fn copy(arena: &Arena, mut bytes: Payload<'_>, note: Note) -> Option<FrameQueue> {
    let mut copies = FrameQueue::default();
    let mut sequence = note.sequence;
    while !bytes.is_empty() {
        let (piece, behind) = bytes.split_at(bytes.len().min(LARGE_BYTES - usize::from(LARGE_HEADROOM)));
        bytes = behind;
        let Some(frame) = arena.alloc_from(piece) else {
            copies.clear(arena);
            return None;
        };
        copies.push_back(frame, Note { sequence, ..note });
        sequence = sequence.wrapping_add(piece.len() as u32);
    }
    Some(copies)
}

/// Copies the bytes of a list of frames.
pub(crate) fn bytes_of(arena: &Arena, queue: &FrameQueue) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut slot = queue.front();
    while slot.is_some() {
        arena.share(slot, 0, arena.queued_len(slot)).payload().append_to(&mut bytes);
        slot = arena.next(slot);
    }
    bytes
}

/// Memory of a list of frames, bytes.
pub(crate) fn memory(arena: &Arena, queue: &FrameQueue) -> u32 {
    let mut total = 0;
    let mut slot = queue.front();
    while slot.is_some() {
        total += frame_memory(&arena.share(slot, 0, 0));
        slot = arena.next(slot);
    }
    total
}

/// Memory of one frame, bytes.
#[inline]
pub(crate) fn frame_memory(frame: &Frame) -> u32 {
    frame.memory() as u32
}
