//! Reassembles fragments to datagrams. Read RFC 791 §3.2, RFC 815, RFC 8200 §4.5, RFC 5722, RFC 6946, RFC 3168 §5.3 first.
//!
//! Promises: a reassembled datagram has every byte once, from the first fragment that brought it. Fragments that overlap
//! drop their datagram, and so do two different ends, or an end before received data (Linux does the same in IPv4); a
//! repeated fragment is ignored. Memory is bounded in total, for each source and for each datagram: when all is used, the
//! oldest datagram is dropped; a source that has used its share waits. A datagram that is not complete in time is dropped.
//!
//! ```text
//!  pieces, sorted, never overlapping:  [0 .. 1480) [1480 .. 2960)   gap   [4440 .. 5000)  end = 5000
//! ```

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::IpAddr;

use ringway_shm::arena::{LARGE_BYTES, SMALL_BYTES};

use crate::admission::FrameUse;
use ringway_shm::{Arena, Checksum, Class, Duration, Frame, Instant, Segmentation};

/// Fields that the fragments of one datagram have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) remote: IpAddr,
    pub(super) local: IpAddr,
    pub(super) identification: u32,
    /// RFC 791: part of the datagram's identity in IPv4; 0 in IPv6.
    pub(super) protocol: u8,
}

/// Header fields of a fragment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fragment {
    pub(super) key: Key,
    pub(super) interface: u32,
    /// Offset of its data in the datagram.
    pub(super) offset: u32,
    /// True unless it is the last one.
    pub(super) more: bool,
    /// Protocol of the datagram; only the first fragment's field counts.
    pub(super) next_header: u8,
    /// Offset of the field that names the protocol (IPv6).
    pub(super) named_at: u16,
    /// Length of the network headers in front of its first frame.
    pub(super) header_len: u16,
    pub(super) tos: u8,
    pub(super) ttl: u8,
    pub(super) multicast: bool,
}

impl Fragment {
    /// Returns the maximum length of its datagram, without the headers in front: an IPv4 packet, or the payload of an IPv6
    /// packet, is at most 65,535 bytes.
    fn end_max(&self) -> u32 {
        let not_counted = if self.key.remote.is_ipv4() { 0 } else { HEADERS_IPV6 };
        LENGTH_MAX + not_counted - u32::from(self.header_len)
    }
}

/// Result of inserting a fragment.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It waits for others, or was a repetition.
    Kept,
    /// The datagram is complete: its first frame, which holds all transport headers, and its length; the other frames are in
    /// `rest`. The fragment's fields are those of the first one, with the datagram's ECN bits.
    Whole(Fragment, Frame, u32),
    /// It was dropped, and possibly its whole datagram.
    Failed,
}

/// An incomplete datagram.
#[derive(Debug)]
struct Entry {
    /// Sorted by offset; no two overlap, none is empty.
    pieces: Vec<(u32, Frame)>,
    /// The first fragment, if it has arrived.
    first: Option<Fragment>,
    /// End of the datagram, if the last fragment has arrived.
    end: Option<u32>,
    /// Bytes in `pieces`.
    bytes: u32,
    /// Memory of their frames, bytes.
    memory: u32,
    /// ECN codepoints of its fragments, one bit each.
    ecn: u8,
    deadline: Instant,
}

/// All incomplete datagrams.
#[derive(Debug)]
pub(super) struct Reassembly {
    entries: BTreeMap<Key, Entry>,
    deadlines: BTreeSet<(Instant, Key)>,
    /// Memory by source.
    sources: BTreeMap<IpAddr, u32>,
    memory: u32,
    memory_max: u32,
}

impl Reassembly {
    /// Makes an empty table that holds at most `memory_max` bytes.
    pub(super) fn new(memory_max: u32) -> Reassembly {
        Reassembly { entries: BTreeMap::new(), deadlines: BTreeSet::new(), sources: BTreeMap::new(), memory: 0, memory_max }
    }

    /// Inserts a fragment: its first frame, which starts after the network headers, and the rest of its frames.
    pub(super) fn insert(
        &mut self,
        now: Instant,
        arena: &Arena,
        fragment: &Fragment,
        (first, rest): (Frame, &mut Vec<Frame>),
    ) -> Outcome {
        let len = (first.len() + rest.iter().map(Frame::len).sum::<usize>()) as u32;
        let end = fragment.offset + len;
        // The lengths of all but the last are multiples of eight; no datagram exceeds the maximum length.
        if len == 0 || (fragment.more && !len.is_multiple_of(UNIT)) || end > fragment.end_max() {
            rest.clear();
            self.remove(&fragment.key);
            return Outcome::Failed;
        }
        let first = if rest.is_empty() { unpin(arena, first, fragment.header_len.into()) } else { first };
        let memory = frame_memory(&first) + rest.iter().map(frame_memory).sum::<u32>();
        if !self.make_room(arena, &fragment.key, memory) {
            rest.clear();
            return Outcome::Failed;
        }
        let entry = self.entry(now, &fragment.key);
        let fits = match entry.place(fragment.offset, end, fragment.more) {
            Place::At(at) if entry.pieces.len() + 1 + rest.len() <= PIECES_MAX => {
                entry.memory += memory;
                entry.keep(at, fragment, first, rest);
                true
            }
            Place::Repeated => {
                rest.clear();
                return Outcome::Kept;
            }
            Place::At(_) | Place::Impossible => false,
        };
        if !fits {
            rest.clear();
            self.remove(&fragment.key);
            return Outcome::Failed;
        }
        let whole = entry.end == Some(entry.bytes);
        self.memory += memory;
        *self.sources.entry(fragment.key.remote).or_default() += memory;
        if whole { self.give(arena, &fragment.key, rest) } else { Outcome::Kept }
    }

    /// Removes expired datagrams and returns their number. When the first fragment of one had arrived, that fragment
    /// (starting at its IP header) goes to `expired` with its interface.
    pub(super) fn expire(&mut self, now: Instant, expired: &mut Vec<(u32, Frame)>) -> u64 {
        let mut count = 0;
        while count < EXPIRIES_MAX
            && let Some(&(deadline, key)) = self.deadlines.first()
            && deadline <= now
        {
            count += 1;
            let Some(mut entry) = self.remove(&key) else { continue };
            let Some(first) = entry.first else { continue };
            let (_, mut frame) = entry.pieces.swap_remove(0);
            if !first.multicast && restore_headers(&mut frame, first.header_len.into()) {
                expired.push((first.interface, frame));
            }
        }
        count
    }

    /// Returns the time at which the next datagram expires.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.deadlines.first().map(|&(deadline, _)| deadline)
    }

    /// Frees space for `needed` bytes of a source. `false`: it has used its share.
    fn make_room(&mut self, arena: &Arena, key: &Key, needed: u32) -> bool {
        let frames =
            arena.capacity(Class::Large) as u64 * LARGE_BYTES as u64 + arena.capacity(Class::Small) as u64 * SMALL_BYTES as u64;
        let max = u64::from(self.memory_max).min(frames / ARENA_SHARE) as u32;
        if self.sources.get(&key.remote).copied().unwrap_or(0) + needed > max / SOURCE_SHARE {
            return false;
        }
        while self.memory + needed > max || !FrameUse::Fragments.may_take_any(arena) {
            let Some(&(_, oldest)) = self.deadlines.first() else { return false };
            self.remove(&oldest);
        }
        true
    }

    fn entry(&mut self, now: Instant, key: &Key) -> &mut Entry {
        self.entries.entry(*key).or_insert_with(|| {
            let deadline = now + if key.remote.is_ipv4() { LIFETIME_IPV4 } else { LIFETIME_IPV6 };
            self.deadlines.insert((deadline, *key));
            Entry { pieces: Vec::new(), first: None, end: None, bytes: 0, memory: 0, ecn: 0, deadline }
        })
    }

    fn remove(&mut self, key: &Key) -> Option<Entry> {
        let entry = self.entries.remove(key)?;
        self.deadlines.remove(&(entry.deadline, *key));
        self.memory -= entry.memory;
        if let Some(memory) = self.sources.get_mut(&key.remote) {
            *memory -= entry.memory;
            if *memory == 0 {
                self.sources.remove(&key.remote);
            }
        }
        Some(entry)
    }

    /// Returns a complete datagram.
    fn give(&mut self, arena: &Arena, key: &Key, rest: &mut Vec<Frame>) -> Outcome {
        let Some(entry) = self.remove(key) else { return Outcome::Failed };
        let (Some(mut fragment), Some(ecn)) = (entry.first, entry.ecn()) else { return Outcome::Failed };
        fragment.tos = (fragment.tos & !ECN_MASK) | ecn.unwrap_or(fragment.tos & ECN_MASK);
        rest.extend(entry.pieces.into_iter().map(|(_, frame)| frame));
        let Some(mut first) = pull_up(arena, &fragment, entry.bytes as usize, rest) else {
            rest.clear();
            return Outcome::Failed;
        };
        first.set_continues(!rest.is_empty());
        // The device has verified a fragment, not the datagram.
        first.set_checksum(Checksum::Complete);
        first.set_segmentation(Segmentation::default());
        let count = rest.len();
        for (at, frame) in rest.iter_mut().enumerate() {
            frame.set_continues(at + 1 < count);
        }
        Outcome::Whole(fragment, first, entry.bytes)
    }

    /// Returns the memory in use, bytes.
    #[cfg(test)]
    pub(super) fn memory(&self) -> u32 {
        self.memory
    }
}

/// Position of a fragment.
enum Place {
    /// Before the piece with this index.
    At(usize),
    /// All of its bytes are already there.
    Repeated,
    /// It overlaps others, or contradicts the known end.
    Impossible,
}

impl Entry {
    fn place(&self, start: u32, end: u32, more: bool) -> Place {
        let last_end = self.pieces.last().map_or(0, piece_end);
        let contradicts = match self.end {
            Some(known) => end > known || (!more && end != known),
            None => !more && end < last_end,
        };
        if contradicts {
            return Place::Impossible;
        }
        let at = self.pieces.partition_point(|(offset, _)| *offset < start);
        let before = at.checked_sub(1).map_or(0, |before| piece_end(&self.pieces[before]));
        let after = self.pieces.get(at).map_or(u32::MAX, |(offset, _)| *offset);
        if before <= start && end <= after {
            return Place::At(at);
        }
        let mut covered = start;
        for piece in &self.pieces[at.saturating_sub(1)..] {
            if piece.0 <= covered {
                covered = covered.max(piece_end(piece));
            }
        }
        // A last fragment whose bytes came with others still sets the end; no valid sender fragments like that.
        let says_end = !more && self.end.is_none();
        if covered >= end && !says_end { Place::Repeated } else { Place::Impossible }
    }

    fn keep(&mut self, at: usize, fragment: &Fragment, first: Frame, rest: &mut Vec<Frame>) {
        let mut offset = fragment.offset;
        let frames = core::iter::once(first).chain(rest.drain(..)).filter(|frame| !frame.is_empty());
        for (step, frame) in frames.enumerate() {
            let len = frame.len() as u32;
            self.pieces.insert(at + step, (offset, frame));
            offset += len;
        }
        self.bytes += offset - fragment.offset;
        self.ecn |= 1 << (fragment.tos & ECN_MASK);
        if fragment.offset == 0 {
            self.first = Some(*fragment);
        }
        if !fragment.more {
            self.end = Some(offset);
        }
    }

    /// RFC 3168 §5.3, Linux: marks survive; fragments of which only some are ECN-capable make no datagram (`None`).
    /// `Some(None)`: the first fragment's bits.
    fn ecn(&self) -> Option<Option<u8>> {
        let not_capable = self.ecn & 1 != 0;
        let marked = self.ecn & (1 << CONGESTION_EXPERIENCED) != 0;
        match (not_capable, self.ecn & !1 != 0) {
            (true, true) => None,
            _ => Some(marked.then_some(CONGESTION_EXPERIENCED)),
        }
    }
}

fn piece_end((offset, frame): &(u32, Frame)) -> u32 {
    offset + frame.len() as u32
}

/// Takes the first frame off `frames`, or a copy of the first bytes when that frame holds less than the possible transport
/// headers (RFC 1858: an attacker may choose the cuts). Either way the network headers are in front and may be written.
/// `None`: they are shared, or no frame was free.
fn pull_up(arena: &Arena, fragment: &Fragment, len: usize, frames: &mut Vec<Frame>) -> Option<Frame> {
    let needed = len.min(HEADERS_MAX);
    let header_len = usize::from(fragment.header_len);
    let first = frames.first()?;
    if first.len() >= needed && first.is_exclusive() && first.headroom() >= header_len {
        return Some(frames.remove(0));
    }
    if !restore_headers(&mut frames[0], header_len) {
        return None;
    }
    let class = if HEADROOM + header_len + needed <= SMALL_BYTES { Class::Small } else { Class::Large };
    let mut first = arena.alloc(class)?;
    first.reserve(HEADROOM);
    if header_len + needed > first.tailroom() {
        return None;
    }
    let mut to = first.extend(header_len + needed);
    while !to.is_empty() {
        let count = to.len().min(frames.first()?.len());
        let (head, tail) = to.split_at_mut(count);
        frames[0].payload().slice(0..count).copy_to(head);
        frames[0].pull(count);
        if frames[0].is_empty() {
            frames.remove(0);
        }
        to = tail;
    }
    first.pull(header_len);
    Some(first)
}

/// Restores the network headers in front of a frame; `false`: the frame is shared.
fn restore_headers(frame: &mut Frame, header_len: usize) -> bool {
    let can = frame.is_exclusive() && frame.headroom() >= header_len;
    if can {
        frame.push(header_len);
    }
    can
}

/// Returns a copy in a small frame, headers included, if it fits and one is free; otherwise the frame itself: tiny fragments
/// must not pin large frames.
fn unpin(arena: &Arena, mut frame: Frame, header_len: usize) -> Frame {
    let fits = header_len + frame.len() <= SMALL_BYTES && frame_memory(&frame) as usize > SMALL_BYTES;
    if !fits || !restore_headers(&mut frame, header_len) {
        return frame;
    }
    let copy = arena.alloc(Class::Small).map(|mut small| {
        small.reserve(HEADROOM.min(SMALL_BYTES - frame.len()));
        frame.payload().copy_to(small.extend(frame.len()));
        small
    });
    let mut frame = copy.unwrap_or(frame);
    frame.pull(header_len);
    frame
}

/// Returns the memory of one frame, bytes.
fn frame_memory(frame: &Frame) -> u32 {
    (frame.headroom() + frame.len() + frame.tailroom()) as u32
}

/// Unit of the lengths of all fragments but the last, bytes.
const UNIT: u32 = 8;
/// Maximum of the length fields.
const LENGTH_MAX: u32 = 65_535;
/// Length of the IPv6 header and the fragment header.
const HEADERS_IPV6: u32 = 48;
/// Maximum number of frames of one datagram: more than the largest one needs on a link of 576 bytes.
const PIECES_MAX: usize = 256;
/// Headroom in front of copies: for the headers of an answer that is made in place.
const HEADROOM: usize = 64;
/// Length of the longest transport header, TCP's.
const HEADERS_MAX: usize = 60;
/// Divisor of the arena's bytes: share of all fragments together.
const ARENA_SHARE: u64 = 8;
/// Divisor of that share: share of one source.
const SOURCE_SHARE: u32 = 4;
/// Linux: ipfrag_time.
const LIFETIME_IPV4: Duration = Duration::from_secs(30);
/// RFC 8200 §4.5.
const LIFETIME_IPV6: Duration = Duration::from_secs(60);
/// Maximum number of datagrams dropped in one call.
const EXPIRIES_MAX: u64 = 256;
const ECN_MASK: u8 = 3;
const CONGESTION_EXPERIENCED: u8 = 3;

#[cfg(test)]
mod tests;
