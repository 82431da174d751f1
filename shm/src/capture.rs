//! The capture ring: packets as the worker saw them, in a file that `ringway tcpdump` maps.
//!
//! The worker writes and never waits; a reader that is too slow loses packets and is told how many.
//! Nothing is written while no reader has registered.
//!
//! ```text
//! header (64 words) | ring of W words, positions count words and never wrap (u64)
//!   begun >= written: words [written, begun) are being overwritten right now
//!   record: length in words, captured bytes, marks | number | time | original length, interface, direction, drop reason
//!           | bytes | the connection after it, if it was observed
//! ```
//! A reader wants all packets, or those of some connections; these come with what the connection was like.
//! A reader copies a record, then checks that `begun` has not come within one ring of it. Promises:
//! no torn packet is ever returned. Does not do: filtering, blocking.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::file_map::{FileMap, Mode};
use crate::frame::Frame;
use crate::payload::Payload;
use crate::time::Instant;

mod ended;
mod observed;
mod wishes;

pub use ended::{EndedReader, EndedWriter};
pub use observed::Observed;
pub use wishes::{End, Ends, Wishes};

const MAGIC: u64 = u64::from_le_bytes(*b"RWCAPT\0\0");
const VERSION: u64 = 3;
/// Readers at most.
pub const READERS_MAX: usize = 8;
/// Bytes kept of one packet at most, whatever a reader asks for.
pub const SNAPLEN_MAX: usize = 65_600;
const RECORD_HEADER: usize = 4;
/// In the first word of a record: the connection after the packet follows the bytes.
const OBSERVED: u64 = 1 << 63;

mod header {
    pub(super) const MAGIC: usize = 0;
    pub(super) const VERSION: usize = 1;
    pub(super) const RING_WORDS: usize = 2;
    pub(super) const SNAPLEN: usize = 3;
    pub(super) const BEGUN: usize = 8;
    pub(super) const WRITTEN: usize = 16;
    /// Process ids of the readers.
    pub(super) const READERS: usize = 24;
    /// What each of them wants.
    pub(super) const WISHES: usize = 32;
    pub(super) const WORDS: usize = 96;
}

/// Which way a packet went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the wire.
    Received,
    /// To the wire.
    Sent,
}

/// A captured packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Counts all packets of the ring since it was made.
    pub number: u64,
    /// When, on the worker's clock (CLOCK_MONOTONIC), nanoseconds.
    pub time: Instant,
    /// Number of the interface, as in the statistics.
    pub interface: u32,
    /// Which way.
    pub direction: Direction,
    /// Why a received packet was dropped, if it was: the index of a counter in the statistics.
    pub drop_reason: Option<u16>,
    /// Length on the wire (or before it was cut), bytes.
    pub original_len: u32,
    /// The first bytes of it.
    pub bytes: Vec<u8>,
    /// Its connection after it, if a reader asked for that and there is one.
    pub observed: Option<Box<Observed>>,
}

const _: () = assert!(header::WISHES + READERS_MAX * wishes::WORDS <= header::WORDS);

/// The worker's end.
#[derive(Debug)]
pub struct CaptureWriter {
    map: FileMap,
    ring: usize,
    snaplen: usize,
    written: u64,
    number: u64,
    /// Captured bytes of the record that has begun, and the last word in front of them.
    begun: Option<(usize, u64)>,
}

impl CaptureWriter {
    /// Makes the file with a ring of `bytes` (rounded up to a power of two) and `snaplen` bytes kept of each packet.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(path: &Path, bytes: usize, snaplen: usize) -> io::Result<CaptureWriter> {
        let snaplen = snaplen.clamp(64, SNAPLEN_MAX);
        let ring = bytes.max(4 * SNAPLEN_MAX).next_power_of_two() / size_of::<u64>();
        let map = FileMap::create(path, header::WORDS + ring, 0o600)?;
        let head = map.atomics(0, header::WORDS);
        head[header::VERSION].store(VERSION, Ordering::Relaxed);
        head[header::RING_WORDS].store(ring as u64, Ordering::Relaxed);
        head[header::SNAPLEN].store(snaplen as u64, Ordering::Relaxed);
        head[header::MAGIC].store(MAGIC, Ordering::Release);
        Ok(CaptureWriter { map, ring, snaplen, written: 0, number: 0, begun: None })
    }

    /// Returns true if there is a reader. One load per reader's place; call it per burst.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.readers().iter().any(|reader| reader.load(Ordering::Relaxed) != 0)
    }

    /// Returns what the readers want.
    pub fn wishes(&self) -> Wishes {
        let mut wishes = Wishes::default();
        for (place, _) in self.readers().iter().enumerate().filter(|(_, reader)| reader.load(Ordering::Acquire) != 0) {
            let words = self.map.atomics(header::WISHES + place * wishes::WORDS, wishes::WORDS);
            match Ends::decode(std::array::from_fn(|word| words[word].load(Ordering::Relaxed))) {
                Some(ends) => wishes.connections.push(ends),
                None => wishes.all = true,
            }
        }
        wishes
    }

    /// Forgets readers whose process is gone.
    pub fn forget_readers(&self, is_alive: impl Fn(u32) -> bool) {
        for reader in self.readers() {
            let pid = reader.load(Ordering::Relaxed);
            if pid != 0 && !is_alive(pid as u32) {
                // Failure means that another reader took the place meanwhile.
                if reader.compare_exchange(pid, 0, Ordering::Relaxed, Ordering::Relaxed).is_err() {
                    continue;
                }
            }
        }
    }

    fn readers(&self) -> &[AtomicU64] {
        self.map.atomics(header::READERS, READERS_MAX)
    }

    /// Writes one packet: the frames of its run in order.
    pub fn write<'a>(&mut self, now: Instant, interface: u32, direction: Direction, packet: impl Iterator<Item = &'a Frame>) {
        self.begin(now, interface, direction, packet);
        self.publish(None, None);
    }

    /// Writes one packet, which readers do not see before `publish`.
    pub fn begin<'a>(&mut self, now: Instant, interface: u32, direction: Direction, packet: impl Iterator<Item = &'a Frame>) {
        let frames: &mut dyn Iterator<Item = Payload<'a>> = &mut packet.map(Frame::payload);
        self.begin_pieces(now, interface, direction, frames);
    }

    /// Shows readers the packet that has begun. `drop_reason`: why it was dropped, the index of a counter below 32767.
    /// `observed`: its connection after it.
    pub fn publish(&mut self, drop_reason: Option<u16>, observed: Option<&Observed>) {
        let Some((kept, rest)) = self.begun.take() else { return };
        let mut words = RECORD_HEADER + kept.div_ceil(8);
        if let Some(observed) = observed {
            let encoded = observed.encode();
            encoded.iter().enumerate().for_each(|(offset, word)| self.put(words + offset, *word));
            words += encoded.len();
        }
        let marks = if observed.is_some() { OBSERVED } else { 0 };
        self.put(0, words as u64 | (kept as u64) << 32 | marks);
        self.put(3, rest | drop_reason.map_or(0, |reason| u64::from(reason) + 1) << 49);
        self.written += words as u64;
        self.number += 1;
        self.map.atomics(header::WRITTEN, 1)[0].store(self.written, Ordering::Release);
    }

    fn begin_pieces<'a>(
        &mut self,
        now: Instant,
        interface: u32,
        direction: Direction,
        pieces: &mut dyn Iterator<Item = Payload<'a>>,
    ) {
        self.announce();
        let (original, kept) = self.copy(pieces);
        let sent = u64::from(direction == Direction::Sent);
        self.put(1, self.number);
        self.put(2, now.as_nanos());
        self.begun = Some((kept, original as u64 | u64::from(interface as u16) << 32 | sent << 48));
    }

    /// Writes words in place of a packet.
    fn write_words(&mut self, now: Instant, words: &[u64]) {
        self.announce();
        words.iter().enumerate().for_each(|(offset, word)| self.put(RECORD_HEADER + offset, *word));
        self.put(1, self.number);
        self.put(2, now.as_nanos());
        let bytes = size_of_val(words);
        self.begun = Some((bytes, bytes as u64));
        self.publish(None, None);
    }

    /// Tells readers which words the next record may overwrite.
    fn announce(&self) {
        let most = RECORD_HEADER + self.snaplen.div_ceil(8) + observed::WORDS;
        let head = self.map.atomics(0, header::WORDS);
        head[header::BEGUN].store(self.written + most as u64, Ordering::Relaxed);
        fence(Ordering::Release);
    }

    /// Copies the bytes behind the record's header; returns their length and how many were kept.
    fn copy<'a>(&self, pieces: &mut dyn Iterator<Item = Payload<'a>>) -> (usize, usize) {
        let (mut original, mut kept, mut word) = (0, 0, 0u64);
        for piece in pieces {
            original += piece.len();
            let room = self.snaplen - kept;
            piece.slice(0..piece.len().min(room)).for_each_copy(|copy| {
                for &byte in copy {
                    word |= u64::from(byte) << (kept % 8 * 8);
                    kept += 1;
                    if kept % 8 == 0 {
                        self.put(RECORD_HEADER + kept / 8 - 1, word);
                        word = 0;
                    }
                }
            });
        }
        if kept % 8 != 0 {
            self.put(RECORD_HEADER + kept / 8, word);
        }
        (original, kept)
    }

    #[inline]
    fn put(&self, offset: usize, word: u64) {
        let at = (self.written as usize + offset) & (self.ring - 1);
        self.map.atomics(header::WORDS + at, 1)[0].store(word, Ordering::Relaxed);
    }
}

/// A tool's end. Registered from `open` to drop.
#[derive(Debug)]
pub struct CaptureReader {
    map: FileMap,
    ring: usize,
    snaplen: usize,
    place: usize,
    position: u64,
    next_number: Option<u64>,
    lost: u64,
}

impl CaptureReader {
    /// Maps the ring of a worker and registers; packets from now on are seen. With `connections`, the worker writes those of
    /// these connections, with what each was like; packets that other readers want are seen too.
    ///
    /// # Errors
    /// What the system says; `InvalidData` when it is not such a file; `ResourceBusy` when there are
    /// [`READERS_MAX`] readers already.
    pub fn open(path: &Path, connections: Option<Ends>) -> io::Result<CaptureReader> {
        let map = FileMap::open(path, Mode::Write)?;
        if map.words() < header::WORDS
            || map.load(header::MAGIC, Ordering::Acquire) != MAGIC
            || map.load(header::VERSION, Ordering::Relaxed) != VERSION
        {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let ring = map.load(header::RING_WORDS, Ordering::Relaxed) as usize;
        let snaplen = map.load(header::SNAPLEN, Ordering::Relaxed) as usize;
        if !ring.is_power_of_two() || ring > map.words() - header::WORDS || snaplen > SNAPLEN_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let pid = u64::from(std::process::id());
        let places = map.atomics(header::READERS, READERS_MAX);
        let place = places
            .iter()
            .position(|place| place.compare_exchange(0, pid, Ordering::Relaxed, Ordering::Relaxed).is_ok())
            .ok_or(io::ErrorKind::ResourceBusy)?;
        let wish = connections.map_or([0; wishes::WORDS], |ends| ends.encode());
        let words = map.atomics(header::WISHES + place * wishes::WORDS, wishes::WORDS);
        wish.iter().zip(words).for_each(|(word, place)| place.store(*word, Ordering::Relaxed));
        let position = map.load(header::WRITTEN, Ordering::Acquire);
        Ok(CaptureReader { map, ring, snaplen, place, position, next_number: None, lost: 0 })
    }

    /// Bytes that are kept of each packet.
    pub fn snaplen(&self) -> usize {
        self.snaplen
    }

    /// Packets that this reader was too slow for.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The next packet, if one has been written. Never blocks: poll it some times a second.
    pub fn next_packet(&mut self) -> Option<Packet> {
        loop {
            let written = self.map.load(header::WRITTEN, Ordering::Acquire);
            if self.position == written {
                return None;
            }
            if let Some((packet, words)) = self.copy() {
                self.position += words;
                self.lost += packet.number.saturating_sub(self.next_number.unwrap_or(packet.number));
                self.next_number = Some(packet.number + 1);
                return Some(packet);
            }
            // Overtaken: go on with what is written next.
            self.position = self.map.load(header::WRITTEN, Ordering::Acquire);
        }
    }

    /// The record at `position` and its length, unless it has been overwritten meanwhile.
    fn copy(&self) -> Option<(Packet, u64)> {
        let sizes = self.take(0);
        let (words, kept, is_observed) = (sizes & u64::from(u32::MAX), (sizes >> 32) as u32 & !(1 << 31), sizes & OBSERVED != 0);
        let kept = kept as usize;
        let end = RECORD_HEADER + kept.div_ceil(8);
        let more = if is_observed { observed::WORDS } else { 0 };
        if kept > self.snaplen || words != (end + more) as u64 {
            return None;
        }
        let (number, time, rest) = (self.take(1), self.take(2), self.take(3));
        let mut bytes = Vec::with_capacity(kept.next_multiple_of(8));
        for offset in RECORD_HEADER..end {
            bytes.extend_from_slice(&self.take(offset).to_le_bytes());
        }
        bytes.truncate(kept);
        let observed: [u64; observed::WORDS] = std::array::from_fn(|word| if is_observed { self.take(end + word) } else { 0 });
        fence(Ordering::Acquire);
        let begun = self.map.load(header::BEGUN, Ordering::Relaxed);
        if begun.wrapping_sub(self.position) > self.ring as u64 {
            return None;
        }
        let direction = if rest >> 48 & 1 == 1 { Direction::Sent } else { Direction::Received };
        let packet = Packet {
            number,
            time: Instant::from_nanos(time),
            interface: u32::from((rest >> 32) as u16),
            direction,
            drop_reason: ((rest >> 49) as u16).checked_sub(1),
            original_len: rest as u32,
            bytes,
            observed: is_observed.then(|| Box::new(Observed::decode(&observed))),
        };
        Some((packet, words))
    }

    #[inline]
    fn take(&self, offset: usize) -> u64 {
        let at = (self.position as usize).wrapping_add(offset) & (self.ring - 1);
        self.map.load(header::WORDS + at, Ordering::Relaxed)
    }
}

impl Drop for CaptureReader {
    fn drop(&mut self) {
        self.map.atomics(header::READERS + self.place, 1)[0].store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
