//! Writing: bytes are copied into send chunks, which are pushed onto the slot in order.
//!
//! Much at once goes into bulk chunks while there are some: those leave from where they are and come back when the peer has
//! acknowledged them. What finds none goes into large ones, which the worker copies and gives back at once.

use std::io::IoSlice;

use super::super::layout::{BULK_LIMIT, BULK_MIN, LARGE_CHUNK, Map, SMALL_CHUNK, TxClass};
use super::super::lock::LockError;
use super::super::request::Operation;
use super::super::slot::{Failure, Flags, SlotRef, SlotShared, State};
use super::Client;
use ringway_shm::list::{self, EMPTY, word};
use ringway_shm::sync::{AtomicU32, Ordering, fence};

/// Why nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// No room now; wait for [`Readiness::writable`](super::super::Readiness::writable). Or the kernel goes on with the connection
    /// ([`Flags::MOVED`]).
    WouldBlock,
    /// Our side was shut down, or the connection is over (EPIPE).
    Closed,
    /// The connection failed; told once.
    Failed(Failure),
    /// It never was connected.
    NotConnected,
    /// The reference is no longer good.
    Stale,
}

impl From<LockError> for SendError {
    fn from(error: LockError) -> SendError {
        match error {
            LockError::Reentered => SendError::WouldBlock,
            LockError::ServiceGone => SendError::Failed(Failure::ServiceGone),
        }
    }
}

/// A chain of filled chunks, newest first.
#[derive(Default)]
pub(super) struct Chain {
    pub(super) newest: u32,
    pub(super) oldest: u32,
    pub(super) bytes: u32,
}

/// Chunks that are taken together at most: those of 64 KiB.
const HAND_CHUNKS: usize = 32;

/// Large chunks that were taken together and are not used yet.
#[derive(Default)]
struct Hand {
    chunks: [u32; HAND_CHUNKS],
    count: usize,
}

/// Writes up to so many bytes to a chunk from its start on, and says how many.
pub(super) type Fill<'a> = &'a mut dyn FnMut(&Map, u32, usize) -> usize;

/// Whether bytes that are too many for a small chunk may take one when no large one is free. Small ones are kept for short messages:
/// a few long writes would use up all of them, and no answer would find one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Smaller {
    /// As many as there are.
    All,
    /// The first chunk of the message.
    First,
    /// None.
    None,
}

impl Smaller {
    /// A stream of which nothing waits comes on by one; another has something under way.
    pub(super) fn of_stream(shared: &SlotShared) -> Smaller {
        if shared.unsent() == 0 { Smaller::First } else { Smaller::None }
    }
}

/// What a send waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lack {
    /// The slot has as many bytes as it may have.
    Space,
    /// No chunk is free.
    Chunks,
}

impl Client {
    /// Copies as many bytes of `parts` as there is room for into the socket and says how many. Parts
    /// of one call stay together; calls of several threads do not mix.
    ///
    /// # Errors
    /// See [`SendError`]; nothing was sent then. An empty call on a good socket sends 0.
    pub fn send(&self, slot: SlotRef, parts: &[IoSlice<'_>]) -> Result<usize, SendError> {
        let total: usize = parts.iter().map(|part| part.len()).sum();
        let mut source = Source { parts, part: 0, offset: 0 };
        self.send_chunks(slot, total, &mut |map, chunk, room| {
            source.fill(map, chunk, room);
            room
        })
    }

    /// Sends up to `count` bytes that `fill` writes piece by piece (it may write less than a piece;
    /// then this is the end).
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_with(&self, slot: SlotRef, count: usize, mut fill: impl FnMut(&mut [u8]) -> usize) -> Result<usize, SendError> {
        self.send_chunks(slot, count, &mut |map, chunk, room| {
            let mut done = 0;
            while done < room {
                let mut piece = [0u8; LARGE_CHUNK];
                let part = LARGE_CHUNK.min(room - done);
                let filled = fill(&mut piece[..part]).min(part);
                map.write_tx(chunk, done, &piece[..filled]);
                done += filled;
                if filled < part {
                    break;
                }
            }
            done
        })
    }

    fn send_chunks(&self, slot: SlotRef, count: usize, fill: Fill<'_>) -> Result<usize, SendError> {
        let shared = self.slot(slot.index);
        let lock = self.lock(&shared.tx_lock)?;
        self.check_send(slot, shared)?;
        if count == 0 {
            return Ok(0);
        }
        let (mut sent, mut announce, mut in_vain) = (0, false, false);
        while sent < count {
            let wanted = (count - sent).min(shared.send_space() as usize);
            let (pushed, told) = self.push_chunks(shared, wanted, fill);
            sent += pushed;
            announce |= told;
            // Twice nothing although there is room: `fill` has no more.
            if sent == count
                || (in_vain && pushed == 0)
                || !self.has_room_after_asking(slot.index, if pushed < wanted { Lack::Chunks } else { Lack::Space })
            {
                break;
            }
            in_vain = pushed == 0;
        }
        drop(lock);
        if announce {
            self.announce(slot, Operation::Transmit);
        }
        if sent == 0 { Err(SendError::WouldBlock) } else { Ok(sent) }
    }

    /// Like SOCK_NOSPACE: asks to be told when there is room. Whether there is some by now: what became free before the
    /// worker could see the question is not announced.
    pub(super) fn has_room_after_asking(&self, index: u32, lack: Lack) -> bool {
        let shared = self.slot(index);
        shared.tx_waiting.store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if lack == Lack::Chunks {
            self.note_starved(index);
            return self.has_tx_chunk(shared);
        }
        shared.send_space() > 0
    }

    pub(super) fn check_send(&self, slot: SlotRef, shared: &SlotShared) -> Result<(), SendError> {
        if !self.is_current(slot) || shared.app_closed.load(Ordering::Relaxed) != 0 {
            return Err(SendError::Stale);
        }
        if shared.flags().has(Flags::MOVED) {
            return Err(SendError::WouldBlock);
        }
        if self.known_dead() {
            return Err(SendError::Failed(Failure::ServiceGone));
        }
        if let Some(failure) = shared.take_error() {
            return Err(SendError::Failed(failure));
        }
        let flags = shared.flags();
        match shared.state() {
            _ if flags.has(Flags::WRITE_CLOSED) || flags.has(Flags::HUNG_UP) => Err(SendError::Closed),
            State::Connected => Ok(()),
            State::Connecting => Err(SendError::WouldBlock),
            State::Closed => Err(SendError::Closed),
            State::Free | State::Listening => Err(SendError::NotConnected),
        }
    }

    /// Fills and pushes chunks; how many bytes, and whether the worker must be told.
    fn push_chunks(&self, shared: &SlotShared, wanted: usize, fill: Fill<'_>) -> (usize, bool) {
        const BATCH_BYTES: usize = 64 * 1024;
        let (mut sent, mut announce) = (0, false);
        while sent < wanted {
            let batch = (wanted - sent).min(BATCH_BYTES);
            let chain = self.fill_chain(batch, shared.send_limit(), Smaller::of_stream(shared), fill);
            if chain.bytes == 0 {
                break;
            }
            shared.tx_queued.fetch_add(chain.bytes, Ordering::AcqRel);
            let (Some(newest), Some(oldest)) = (
                super::chunk(chain.newest, self.map.shape().tx_chunks()),
                super::chunk(chain.oldest, self.map.shape().tx_chunks()),
            ) else {
                break;
            };
            let link = &self.map.tx_record(oldest).next;
            announce |= list::push_chain(&shared.tx_stack, newest, link, u32::MAX) == Some(true);
            sent += chain.bytes as usize;
            if (chain.bytes as usize) < batch {
                break;
            }
        }
        (sent, announce)
    }

    /// Fills chunks for a slot with `limit` bytes that may wait.
    pub(super) fn fill_chain(&self, bytes: usize, limit: u32, smaller: Smaller, fill: Fill<'_>) -> Chain {
        let (mut chain, mut hand) = (Chain::default(), Hand::default());
        while (chain.bytes as usize) < bytes {
            let rest = bytes - chain.bytes as usize;
            let smaller = if smaller == Smaller::First && chain.bytes > 0 { Smaller::None } else { smaller };
            let Some(chunk) = self.next_tx(&mut hand, rest, limit, smaller) else { break };
            let part = rest.min(self.map.tx_capacity(chunk));
            let filled = fill(&self.map, chunk, part).min(part);
            if filled == 0 {
                self.give_tx(chunk);
                break;
            }
            let record = self.map.tx_record(chunk);
            record.len.store(filled as u32, Ordering::Relaxed);
            record.next.store(chain.newest, Ordering::Relaxed);
            record.owner.store(0, Ordering::Relaxed);
            chain.newest = word(chunk);
            if chain.oldest == EMPTY {
                chain.oldest = word(chunk);
            }
            chain.bytes += filled as u32;
            if filled < part {
                break;
            }
        }
        hand.chunks[..hand.count].iter().for_each(|&chunk| self.give_tx(chunk));
        chain
    }

    /// A bulk chunk, or the next one of the hand; for more than a chunk's bytes the hand is filled first.
    fn next_tx(&self, hand: &mut Hand, bytes: usize, limit: u32, smaller: Smaller) -> Option<u32> {
        if bytes >= BULK_MIN
            && limit >= BULK_LIMIT
            && let Some(chunk) = self.take_tx_of(TxClass::Bulk)
        {
            return Some(self.own_tx(chunk));
        }
        if hand.count == 0 && bytes > LARGE_CHUNK {
            self.fill_hand(hand, bytes.div_ceil(LARGE_CHUNK).min(HAND_CHUNKS));
        }
        match hand.count.checked_sub(1) {
            Some(last) => {
                hand.count = last;
                Some(hand.chunks[last])
            }
            None => self.take_tx(bytes.min(LARGE_CHUNK), smaller),
        }
    }

    /// Takes up to `count` large chunks with one change of the list that all processes and the worker share.
    fn fill_hand(&self, hand: &mut Hand, count: usize) {
        let (list, limit, first) = self.map.tx_free(TxClass::Large);
        let link = |number: u32| -> &AtomicU32 { &self.map.tx_record(first + number).next };
        let Some((head, taken)) = list.take(count as u32, limit, link) else { return };
        let owner = self.process.load(Ordering::Relaxed) + 1;
        let mut at = word(head);
        for place in hand.chunks.iter_mut().take((taken as usize).min(HAND_CHUNKS)) {
            let Some(number) = list::node(at, limit) else { break };
            let record = self.map.tx_record(first + number);
            at = record.next.load(Ordering::Relaxed);
            record.owner.store(owner, Ordering::Relaxed);
            *place = first + number;
            hand.count += 1;
        }
    }

    /// A chunk for `bytes` bytes: the class that fits, else a smaller one if it may be, else a larger one. Bulk chunks are for bulk alone.
    pub(super) fn take_tx(&self, bytes: usize, smaller: Smaller) -> Option<u32> {
        let classes = match bytes {
            BULK_MIN.. => &[TxClass::Bulk, TxClass::Large, TxClass::Small][..],
            0..=SMALL_CHUNK => &[TxClass::Small, TxClass::Large],
            _ => &[TxClass::Large, TxClass::Small],
        };
        let may_be = |class: &&TxClass| **class != TxClass::Small || bytes <= SMALL_CHUNK || smaller != Smaller::None;
        classes.iter().filter(may_be).find_map(|class| self.take_tx_of(*class)).map(|chunk| self.own_tx(chunk))
    }

    fn take_tx_of(&self, class: TxClass) -> Option<u32> {
        let (list, limit, first) = self.map.tx_free(class);
        let (number, _) = list.take(1, limit, |number: u32| -> &AtomicU32 { &self.map.tx_record(first + number).next })?;
        Some(first + number)
    }

    /// Notes the process that fills a chunk, in case it dies.
    fn own_tx(&self, chunk: u32) -> u32 {
        self.map.tx_record(chunk).owner.store(self.process.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        chunk
    }

    pub(super) fn give_tx(&self, chunk: u32) {
        let (list, _, first) = self.map.tx_free(self.map.tx_class(chunk));
        let record = self.map.tx_record(chunk);
        record.owner.store(0, Ordering::Relaxed);
        list.give(chunk - first, &record.next);
    }

    /// Whether a send chunk for any message of the slot could be taken now.
    pub(super) fn has_tx_chunk(&self, shared: &SlotShared) -> bool {
        let has = |class| {
            let (list, limit, _) = self.map.tx_free(class);
            list.has_any(limit)
        };
        has(TxClass::Large) || Smaller::of_stream(shared) != Smaller::None && has(TxClass::Small)
    }

    /// Puts the slot on the list of those that wait for send chunks. Look for chunks again after it.
    pub(super) fn note_starved(&self, index: u32) {
        let shared = self.slot(index);
        if shared.starved.swap(1, Ordering::AcqRel) == 0 {
            list::push_chain(&self.map.header().starved_slots.0, index, &shared.starved_link, u32::MAX);
        }
        fence(Ordering::SeqCst);
    }
}

/// Reads the parts one after the other.
pub(super) struct Source<'a> {
    pub(super) parts: &'a [IoSlice<'a>],
    pub(super) part: usize,
    pub(super) offset: usize,
}

impl Source<'_> {
    /// Writes the next `count` bytes to a chunk; the caller never asks for more than there is.
    fn fill(&mut self, map: &Map, chunk: u32, count: usize) {
        self.fill_from(map, chunk, 0, count);
    }

    /// As `fill`, from `start` up to `count`.
    pub(super) fn fill_from(&mut self, map: &Map, chunk: u32, start: usize, count: usize) {
        let mut done = start;
        while done < count && self.part < self.parts.len() {
            let rest = &self.parts[self.part][self.offset..];
            let piece = rest.len().min(count - done);
            map.write_tx(chunk, done, &rest[..piece]);
            done += piece;
            self.offset += piece;
            if piece == rest.len() {
                self.part += 1;
                self.offset = 0;
            }
        }
    }
}
