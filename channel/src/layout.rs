//! The contract: what lies where in a region, and how large it is.
//!
//! Everything is computed from a [`Shape`], which travels in the attach message; each side keeps its
//! own copy and never reads it from the region. Zeroed memory is a valid empty region: free lists
//! hand out "fresh" numbers until they run out, so nothing is touched before it is used.
//!
//! ```text
//!   header | numbers in use | processes | held bitmaps | slots | request rings
//!          | contexts | event rings | distant interest | distant events | chunk records | chunks
//! ```
//! Most of it is never touched and takes addresses, not memory.

use core::ptr::NonNull;

use super::numbers::Numbers;
pub use super::shape::Shape;
pub(crate) use ringway_shm::event_set::Bits;
use ringway_shm::event_set::EventSet;
use ringway_shm::list;
use ringway_shm::payload::Payload;
use ringway_shm::region::{Region, Shared};
use ringway_shm::sync::{AtomicU32, AtomicU64, Ordering};

/// Changes whenever the contract does.
pub const VERSION: u32 = 17;
/// Wait contexts with an event ring, and a bit of their own in each slot: those that are claimed first.
pub(crate) const NEAR: u32 = 64 * NEAR_WORDS as u32;
/// The words of their bits.
pub(crate) const NEAR_WORDS: usize = 3;
/// Wait contexts beyond: their events are bits in a set, and a bit in a slot stands for [`DISTANT_WORDS`] words of them.
const DISTANT: u32 = 64 * DISTANT_WORDS * 64;
/// Words of distant interest for each bit of a slot.
pub(crate) const DISTANT_WORDS: u32 = 2;
/// Wait contexts in a region.
pub const CONTEXTS: u32 = NEAR + DISTANT;
/// The last ones, one for each process, are for threads that share one since there is no other.
pub(crate) const FIRST_SHARED: u32 = CONTEXTS - PROCESSES;
/// Processes in a region: as many as the number in a lock's word can name.
pub const PROCESSES: u32 = 4032;
/// Request rings in a region.
pub const RINGS: u32 = 128;
/// Entries in a request ring.
pub const RING_ENTRIES: u32 = 256;
/// Requests that all rings of a region hold.
pub const REQUESTS_MAX: u32 = RINGS * RING_ENTRIES;
/// Payload of a large chunk.
pub const LARGE_CHUNK: usize = 2048;
/// Payload of a small chunk.
pub const SMALL_CHUNK: usize = 256;
/// Payload of a bulk chunk.
pub const BULK_CHUNK: usize = 32 << 10;
/// Payload of a receive chunk that a whole large packet is read into.
pub const ROOM_CHUNK: usize = 64 << 10;
/// Payload of a receive chunk for packets of some KiB, messages of 4 and 8 KiB for the most part.
pub const MIDDLE_CHUNK: usize = 16 << 10;
/// A socket that may have less waiting than this takes no bulk chunk: the few that are left are for others.
pub const BULK_LIMIT: u32 = 16 << 10;
/// From so many bytes on a bulk chunk is worth taking: what one large chunk holds is copied.
pub(crate) const BULK_MIN: usize = LARGE_CHUNK + 1;

/// Where each part starts, in bytes from the start of the region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) shape: Shape,
    numbers: usize,
    processes: usize,
    held: usize,
    slots: usize,
    rings: usize,
    contexts: usize,
    events: usize,
    distant_interest: usize,
    distant_events: usize,
    rx_records: usize,
    tx_records: usize,
    rx_payload: usize,
    tx_payload: usize,
    bulk_payload: usize,
    room_payload: usize,
    middle_payload: usize,
    /// Size of the whole region.
    pub(crate) total: usize,
}

const PAGE: usize = 4096;

impl Layout {
    /// # Panics
    /// When the shape is not valid; check it first.
    pub(crate) fn of(shape: Shape) -> Layout {
        assert!(shape.is_valid(), "the shape was checked");
        let mut next = 0;
        let mut take = |bytes: usize| {
            let start = next;
            next = (start + bytes).next_multiple_of(PAGE);
            start
        };
        take(size_of::<Header>());
        let payload = |large: u32, small: u32| large as usize * LARGE_CHUNK + small as usize * SMALL_CHUNK;
        Layout {
            shape,
            numbers: take(size_of::<NumbersShared>()),
            processes: take(PROCESSES as usize * size_of::<ProcessShared>()),
            held: take(PROCESSES as usize * bitmap_bytes(&shape)),
            slots: take(shape.slots as usize * size_of::<super::slot::SlotShared>()),
            rings: take(RINGS as usize * size_of::<RingShared>()),
            contexts: take(CONTEXTS as usize * size_of::<ContextShared>()),
            events: take(NEAR as usize * shape.slots as usize * size_of::<u32>()),
            distant_interest: take(shape.slots as usize * (DISTANT / 8) as usize),
            distant_events: take(DISTANT as usize * bitmap_bytes(&shape)),
            rx_records: take(shape.rx_chunks() as usize * size_of::<ChunkRecord>()),
            tx_records: take(shape.tx_chunks() as usize * size_of::<ChunkRecord>()),
            rx_payload: take(payload(shape.rx_large, shape.rx_small)),
            tx_payload: take(payload(shape.tx_large, shape.tx_small)),
            bulk_payload: take(shape.tx_bulk as usize * BULK_CHUNK),
            room_payload: take(shape.rx_bulk as usize * ROOM_CHUNK),
            middle_payload: take(shape.rx_middle as usize * MIDDLE_CHUNK),
            total: next,
        }
    }
}

/// A bitmap of slots with its summary.
fn bitmap_bytes(shape: &Shape) -> usize {
    (shape.slot_words() + shape.summary_words()) as usize * size_of::<u64>()
}

/// Keeps its content on cache lines of its own.
#[repr(C, align(64))]
pub(crate) struct Line<T>(pub(crate) T);

/// A free list of numbered things: those that came back, then those never used.
#[repr(C)]
pub(crate) struct FreeList {
    returned: AtomicU64,
    fresh: AtomicU32,
    spare: AtomicU32,
}

/// How often a worker tries to change a word that applications change too.
pub(crate) const WORKER_ATTEMPTS: u32 = 1024;
const CLIENT_ATTEMPTS: u32 = u32::MAX;

impl FreeList {
    /// Takes up to `count` of `limit` things as a chain: the first and how many.
    pub(crate) fn take<'a>(&self, count: u32, limit: u32, link: impl Fn(u32) -> &'a AtomicU32) -> Option<(u32, u32)> {
        if let Some(chain) = list::pop_free(&self.returned, count, limit, &link, CLIENT_ATTEMPTS) {
            return Some(chain);
        }
        let wanted = |fresh: u32| count.min(limit.saturating_sub(fresh));
        let next = |fresh| (wanted(fresh) > 0).then(|| fresh + wanted(fresh));
        let first = self.fresh.fetch_update(Ordering::AcqRel, Ordering::Relaxed, next).ok()?;
        let last = first + wanted(first) - 1;
        (first..last).for_each(|one| link(one).store(list::word(one + 1), Ordering::Relaxed));
        link(last).store(list::EMPTY, Ordering::Relaxed);
        Some((first, wanted(first)))
    }

    /// Whether [`take`](Self::take) would find something now.
    pub(crate) fn has_any(&self, limit: u32) -> bool {
        self.returned.load(Ordering::Relaxed) as u32 != list::EMPTY || self.fresh.load(Ordering::Relaxed) < limit
    }

    /// Gives back a chain; `last_link` is the link of its last. For the application.
    pub(crate) fn give(&self, first: u32, last_link: &AtomicU32) {
        list::push_free(&self.returned, first, last_link, CLIENT_ATTEMPTS);
    }

    /// Gives back a chain, unless applications keep changing the list. For the worker.
    pub(crate) fn give_bounded(&self, first: u32, last_link: &AtomicU32) -> bool {
        list::push_free(&self.returned, first, last_link, WORKER_ATTEMPTS)
    }

    /// How many were ever taken, at most `limit`.
    pub(crate) fn touched(&self, limit: u32) -> u32 {
        self.fresh.load(Ordering::Acquire).min(limit)
    }
}

/// The first page.
#[repr(C)]
pub(crate) struct Header {
    /// The worker sleeps or is about to: ring its doorbell for new requests.
    pub(crate) worker_need_wake: Line<AtomicU32>,
    /// Time that a waiting thread may spin before it sleeps, nanoseconds: the worker's own limit.
    pub(crate) spin_limit_ns: Line<AtomicU32>,
    /// Which part of its time the worker has been busy lately, thousandths; where it is the only one, it does not say.
    pub(crate) busy_per_mille: Line<AtomicU32>,
    /// The worker lacks receive chunks: tell it when some come back.
    pub(crate) rx_starved: Line<AtomicU32>,
    /// Which request rings have something.
    pub(crate) dirty: Line<[AtomicU64; 2]>,
    /// Application half of the slots.
    pub(crate) free_slots: Line<FreeList>,
    /// Large send chunks, numbered from 0.
    pub(crate) free_tx_large: Line<FreeList>,
    /// Small send chunks, numbered from 0 (chunk number minus `tx_large`).
    pub(crate) free_tx_small: Line<FreeList>,
    /// Bulk send chunks, numbered from 0 (chunk number minus `tx_large` and `tx_small`).
    pub(crate) free_tx_bulk: Line<FreeList>,
    /// Receive chunks that the application has read.
    pub(crate) returned_rx: Line<AtomicU32>,
    /// Slots that want to hear when send chunks come back.
    pub(crate) starved_slots: Line<AtomicU32>,
    /// Worker: how often it has wished for sockets.
    pub(crate) wishes: Line<AtomicU32>,
    /// Worker: how often it was asked to have connections back that this very service has handed over.
    pub(crate) recalls: Line<AtomicU32>,
}

/// The second page.
#[repr(C)]
pub(crate) struct NumbersShared {
    /// Which processes exist.
    pub(crate) processes: Line<Numbers<{ (PROCESSES / 64) as usize }>>,
    /// Which contexts are claimed.
    pub(crate) contexts: Line<Numbers<{ (CONTEXTS / 64) as usize }>>,
    /// Worker: processes at most.
    pub(crate) processes_max: Line<AtomicU32>,
    /// Application: forks that found no number for the child.
    pub(crate) forks_refused: Line<AtomicU32>,
}

/// One process: `state << 48 | parent << 32 | pid`; see `process_table`.
#[repr(C, align(64))]
pub(crate) struct ProcessShared {
    pub(crate) entry: AtomicU64,
}

/// One request ring: cursors on lines of their own, then the entries of four words each.
#[repr(C)]
pub(crate) struct RingShared {
    /// Worker: entries taken.
    pub(crate) head: Line<AtomicU32>,
    /// Application: entries written.
    pub(crate) tail: Line<AtomicU32>,
    /// Application: the writing thread.
    pub(crate) lock: Line<AtomicU32>,
    pub(crate) entries: [[AtomicU64; 4]; RING_ENTRIES as usize],
}

/// One wait context.
#[repr(C)]
pub(crate) struct ContextShared {
    /// Process index + 1; 0 when free.
    pub(crate) owner: Line<AtomicU32>,
    /// Application: waiting, or about to.
    pub(crate) armed: Line<AtomicU32>,
    /// Worker: events written; a distant context: events there were.
    pub(crate) tail: Line<AtomicU32>,
    /// Application: events taken; a distant context: after how many the set was empty.
    pub(crate) head: Line<AtomicU32>,
}

/// What goes with one chunk.
#[repr(C)]
pub(crate) struct ChunkRecord {
    /// Link of whatever list the chunk is in.
    pub(crate) next: AtomicU32,
    /// Payload bytes.
    pub(crate) len: AtomicU32,
    /// Send chunks: process index + 1 of the process that is filling it, else 0.
    pub(crate) owner: AtomicU32,
    spare: AtomicU32,
}

const _: () = {
    assert!(size_of::<super::slot::SlotShared>() == 256);
    assert!(size_of::<Header>() <= PAGE);
    assert!(size_of::<NumbersShared>() <= PAGE);
    assert!(FIRST_SHARED > NEAR && PROCESSES.is_multiple_of(64) && PROCESSES <= super::lock::PROCESSES_MAX);
    assert!(size_of::<ProcessShared>() == 64);
    assert!(size_of::<ContextShared>() == 256);
    assert!(size_of::<ChunkRecord>() == 16);
    assert!(size_of::<RingShared>() == 192 + 32 * RING_ENTRIES as usize);
};

// SAFETY: nothing but atomics.
unsafe impl Shared for Header {}
// SAFETY: nothing but atomics.
unsafe impl Shared for NumbersShared {}
// SAFETY: nothing but atomics.
unsafe impl Shared for ProcessShared {}
// SAFETY: nothing but atomics.
unsafe impl Shared for RingShared {}
// SAFETY: nothing but atomics.
unsafe impl Shared for ContextShared {}
// SAFETY: nothing but atomics.
unsafe impl Shared for ChunkRecord {}
// SAFETY: nothing but atomics.
unsafe impl Shared for super::slot::SlotShared {}

/// A region together with its layout: everything by number.
pub(crate) struct Map {
    region: Region,
    pub(crate) layout: Layout,
}

impl Map {
    pub(crate) fn new(region: Region, layout: Layout) -> Map {
        Map { region, layout }
    }

    /// Gives the memory up; every word reads as zero from then on.
    pub(crate) fn forget(&self) {
        self.region.forget();
    }

    pub(crate) fn shape(&self) -> &Shape {
        &self.layout.shape
    }

    pub(crate) fn header(&self) -> &Header {
        self.region.at(0)
    }

    pub(crate) fn process(&self, index: u32) -> &ProcessShared {
        assert!(index < PROCESSES);
        self.region.at(self.layout.processes + index as usize * size_of::<ProcessShared>())
    }

    /// The second page.
    pub(crate) fn numbers(&self) -> &NumbersShared {
        self.region.at(self.layout.numbers)
    }

    /// Which numbers of processes are in use.
    pub(crate) fn processes(&self) -> &Numbers<{ (PROCESSES / 64) as usize }> {
        &self.numbers().processes.0
    }

    /// Which contexts are claimed.
    pub(crate) fn contexts(&self) -> &Numbers<{ (CONTEXTS / 64) as usize }> {
        &self.region.at::<NumbersShared>(self.layout.numbers).contexts.0
    }

    /// The slots that `process` holds; see `holders`.
    pub(super) fn held_set(&self, process: u32) -> EventSet<'_> {
        assert!(process < PROCESSES);
        self.bitmap(self.layout.held, process)
    }

    fn bitmap(&self, start: usize, number: u32) -> EventSet<'_> {
        let (words, summary) = (self.shape().slot_words() as usize, self.shape().summary_words() as usize);
        let start = start + number as usize * bitmap_bytes(self.shape());
        EventSet { words: self.region.slice(start, words), summary: self.region.slice(start + words * size_of::<u64>(), summary) }
    }

    #[inline]
    pub(crate) fn slot(&self, index: u32) -> &super::slot::SlotShared {
        assert!(index < self.shape().slots);
        self.region.at(self.layout.slots + index as usize * size_of::<super::slot::SlotShared>())
    }

    #[inline]
    pub(crate) fn ring(&self, index: u32) -> &RingShared {
        assert!(index < RINGS);
        self.region.at(self.layout.rings + index as usize * size_of::<RingShared>())
    }

    #[inline]
    pub(crate) fn context(&self, index: u32) -> &ContextShared {
        assert!(index < CONTEXTS);
        self.region.at(self.layout.contexts + index as usize * size_of::<ContextShared>())
    }

    /// Entry `at` (counted for ever) of a near context's event ring: slot number + 1. A slot has one at most.
    #[inline]
    pub(crate) fn event(&self, context: u32, at: u32) -> &AtomicU32 {
        assert!(context < NEAR);
        let entries = self.shape().slots;
        let number = context as usize * entries as usize + (at & (entries - 1)) as usize;
        self.region.at(self.layout.events + number * size_of::<u32>())
    }

    /// A distant context's events.
    pub(crate) fn distant_events(&self, context: u32) -> EventSet<'_> {
        assert!((NEAR..CONTEXTS).contains(&context));
        self.bitmap(self.layout.distant_events, context - NEAR)
    }

    /// The distant contexts that watch `slot`, 64 to a word.
    pub(crate) fn distant_interest(&self, slot: u32) -> &[AtomicU64] {
        assert!(slot < self.shape().slots);
        let words = (DISTANT / 64) as usize;
        self.region.slice(self.layout.distant_interest + slot as usize * words * size_of::<u64>(), words)
    }

    #[inline]
    pub(crate) fn rx_record(&self, chunk: u32) -> &ChunkRecord {
        assert!(chunk < self.shape().rx_chunks());
        self.region.at(self.layout.rx_records + chunk as usize * size_of::<ChunkRecord>())
    }

    #[inline]
    pub(crate) fn tx_record(&self, chunk: u32) -> &ChunkRecord {
        assert!(chunk < self.shape().tx_chunks());
        self.region.at(self.layout.tx_records + chunk as usize * size_of::<ChunkRecord>())
    }

    /// Payload capacity of a receive chunk.
    #[inline]
    pub(crate) fn rx_capacity(&self, chunk: u32) -> usize {
        if chunk < self.shape().rx_large {
            LARGE_CHUNK
        } else if chunk < self.shape().first_room() {
            SMALL_CHUNK
        } else if chunk < self.shape().first_middle() {
            ROOM_CHUNK
        } else {
            MIDDLE_CHUNK
        }
    }

    /// Payload capacity of a send chunk.
    #[inline]
    pub(crate) fn tx_capacity(&self, chunk: u32) -> usize {
        match self.tx_class(chunk) {
            TxClass::Large => LARGE_CHUNK,
            TxClass::Small => SMALL_CHUNK,
            TxClass::Bulk => BULK_CHUNK,
        }
    }

    /// Which class a send chunk is of.
    #[inline]
    pub(crate) fn tx_class(&self, chunk: u32) -> TxClass {
        if chunk < self.shape().tx_large {
            TxClass::Large
        } else if chunk < self.shape().first_bulk() {
            TxClass::Small
        } else {
            TxClass::Bulk
        }
    }

    /// The free list of a class of send chunks, how many there are, and the number of its first.
    #[inline]
    pub(crate) fn tx_free(&self, class: TxClass) -> (&FreeList, u32, u32) {
        let (shape, header) = (self.shape(), self.header());
        match class {
            TxClass::Large => (&header.free_tx_large.0, shape.tx_large, 0),
            TxClass::Small => (&header.free_tx_small.0, shape.tx_small, shape.tx_large),
            TxClass::Bulk => (&header.free_tx_bulk.0, shape.tx_bulk, shape.first_bulk()),
        }
    }

    #[inline]
    fn rx_offset(&self, chunk: u32) -> usize {
        let shape = self.shape();
        if chunk < shape.first_room() {
            self.layout.rx_payload + payload_offset(chunk, shape.rx_large)
        } else if chunk < shape.first_middle() {
            self.layout.room_payload + (chunk - shape.first_room()) as usize * ROOM_CHUNK
        } else {
            self.layout.middle_payload + (chunk - shape.first_middle()) as usize * MIDDLE_CHUNK
        }
    }

    #[inline]
    fn tx_offset(&self, chunk: u32) -> usize {
        match chunk.checked_sub(self.shape().first_bulk()) {
            Some(number) => self.layout.bulk_payload + number as usize * BULK_CHUNK,
            None => self.layout.tx_payload + payload_offset(chunk, self.shape().tx_large),
        }
    }

    /// Copies into a receive chunk.
    #[inline]
    pub(crate) fn write_rx<'a>(&self, chunk: u32, offset: usize, bytes: impl Into<Payload<'a>>) {
        let bytes = bytes.into();
        assert!(offset + bytes.len() <= self.rx_capacity(chunk));
        self.region.write(self.rx_offset(chunk) + offset, bytes);
    }

    /// Copies out of a receive chunk.
    #[inline]
    pub(crate) fn read_rx(&self, chunk: u32, offset: usize, bytes: &mut [u8]) {
        assert!(offset + bytes.len() <= self.rx_capacity(chunk));
        self.region.read(self.rx_offset(chunk) + offset, bytes);
    }

    /// Copies into a send chunk.
    #[inline]
    pub(crate) fn write_tx(&self, chunk: u32, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.tx_capacity(chunk));
        self.region.write(self.tx_offset(chunk) + offset, bytes);
    }

    /// Copies out of a send chunk.
    #[inline]
    pub(crate) fn read_tx(&self, chunk: u32, offset: usize, bytes: &mut [u8]) {
        assert!(offset + bytes.len() <= self.tx_capacity(chunk));
        self.region.read(self.tx_offset(chunk) + offset, bytes);
    }

    /// As [`read_tx`](Self::read_tx); the sum of what was copied.
    #[inline]
    pub(crate) fn read_tx_and_sum(&self, chunk: u32, offset: usize, bytes: &mut [u8]) -> u16 {
        assert!(offset + bytes.len() <= self.tx_capacity(chunk));
        self.region.read_and_sum(self.tx_offset(chunk) + offset, bytes)
    }

    /// Where bytes of a receive chunk lie.
    #[inline]
    pub(crate) fn rx_place(&self, chunk: u32, offset: usize, count: usize) -> NonNull<u8> {
        assert!(offset + count <= self.rx_capacity(chunk));
        self.region.place(self.rx_offset(chunk) + offset, count)
    }

    /// Where bytes of a send chunk lie.
    #[inline]
    pub(crate) fn tx_place(&self, chunk: u32, offset: usize, count: usize) -> NonNull<u8> {
        assert!(offset + count <= self.tx_capacity(chunk));
        self.region.place(self.tx_offset(chunk) + offset, count)
    }
}

/// The classes of send chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TxClass {
    Large,
    Small,
    Bulk,
}

#[inline]
fn payload_offset(chunk: u32, large: u32) -> usize {
    if chunk < large {
        chunk as usize * LARGE_CHUNK
    } else {
        large as usize * LARGE_CHUNK + (chunk - large) as usize * SMALL_CHUNK
    }
}
