//! Coalescing: consecutive segments of one flow in a burst become one before TCP processes them.
//!
//! The rules are those of Linux's GRO: only plain data segments with equal ACK, window, timestamps and ECN marks are
//! joined. Only the boundaries are lost, which TCP does not promise. The bytes stay in place; lists of frames are appended.
//! The sender's accounting does not change: ACKs follow bytes, and SACK and RACK never see the merging at the receiver.

use ringway_shm::Arena;

use crate::wire::tcp::{ACK, PSH};

use super::segment::Segment;

/// Maximum payload bytes of a coalesced segment: those of a super-segment.
const JOINED_BYTES_MAX: u32 = 65_535;

impl Segment {
    /// Appends `next` when it only adds bytes behind those of this segment; returns it otherwise.
    #[inline]
    pub(crate) fn coalesce(&mut self, arena: &Arena, mut next: Segment) -> Option<Segment> {
        if !self.goes_on_with(&next) {
            return Some(next);
        }
        self.header.flags |= next.header.flags;
        self.payload.append(arena, &mut next.payload);
        self.len += next.len;
        self.packet_len = self.packet_len.max(next.packet_len);
        self.memory += next.memory;
        self.packets = self.packets.saturating_add(next.packets);
        None
    }

    fn goes_on_with(&self, next: &Segment) -> bool {
        self.len > 0
            && next.len > 0
            && self.sequence + self.len == next.sequence
            && self.len + next.len <= JOINED_BYTES_MAX
            && self.word == next.word
            && self.ecn == next.ecn
            && (self.header.flags | next.header.flags) & !(ACK | PSH) == 0
            && self.header.acknowledgment == next.header.acknowledgment
            && self.header.window == next.header.window
            && self.header.options.timestamps == next.header.options.timestamps
            && self.header.options.counters() == next.header.options.counters()
            && self.header.options.sack().is_empty()
            && next.header.options.sack().is_empty()
            && self.key == next.key
    }
}
