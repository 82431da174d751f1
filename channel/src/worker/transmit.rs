//! Payload on its way to the wire: chunks that the application pushed, put in order privately.

use super::super::layout::{Map, Shape, TxClass};
use super::Attachment;
use ringway_shm::extent::Backing;
use ringway_shm::list::{self, EMPTY, node, word};
use ringway_shm::sum;
use ringway_shm::sync::{Ordering, fence};

/// Used chunks that are given back together at most.
const USED_MAX: usize = 64;

/// The worker's copies of the links and lengths of send chunks that it has taken.
pub(super) struct Taken {
    next: Vec<u32>,
    pub(super) len: Vec<u16>,
    taken: Vec<bool>,
    pub(super) count: u32,
    /// Chunks that wait in slots, of all classes.
    waiting: u32,
    /// Used up, and not yet given back: the list that they go to is everybody's, so they go together.
    used: Vec<u32>,
    /// Chunks were given back in this turn.
    freed: bool,
}

impl Taken {
    pub(super) fn new(shape: &Shape) -> Taken {
        let count = shape.tx_chunks();
        Taken {
            next: vec![0; count as usize],
            len: vec![0; count as usize],
            taken: vec![false; count as usize],
            count,
            waiting: 0,
            used: Vec::with_capacity(USED_MAX),
            freed: false,
        }
    }

    /// Bytes in a chunk that is taken.
    pub(super) fn len_of(&self, chunk: u32) -> usize {
        self.len[chunk as usize] as usize
    }

    /// The chunk behind it.
    pub(super) fn next_of(&self, chunk: u32) -> u32 {
        self.next[chunk as usize]
    }
}

impl Attachment {
    /// Bytes that wait to be copied out of the slot, after looking at what was pushed since.
    pub fn tx_available(&mut self, index: u32) -> usize {
        self.take_pushed(index);
        self.slots.of(index).tx_bytes as usize
    }

    /// Copies the next bytes of the slot's stream and gives back the chunks that are used up. Says
    /// how many; all of `bytes` when [`tx_available`](Self::tx_available) promised that many.
    pub fn copy_tx(&mut self, index: u32, bytes: &mut [u8]) -> usize {
        self.copy_pieces(index, bytes, |map, chunk, offset, piece, _| map.read_tx(chunk, offset, piece))
    }

    /// As [`copy_tx`](Self::copy_tx); also the ones'-complement sum of the bytes that were copied, taken in the same pass.
    pub fn copy_and_sum_tx(&mut self, index: u32, bytes: &mut [u8]) -> (usize, u16) {
        let mut total = 0;
        let copied = self.copy_pieces(index, bytes, |map, chunk, offset, piece, at| {
            let sum = map.read_tx_and_sum(chunk, offset, piece);
            // RFC 1071 §2 (B): a piece that starts at an odd place counts with its bytes swapped.
            total = sum::add(total, if at % 2 == 0 { sum } else { sum.swap_bytes() });
        });
        (copied, total)
    }

    /// Calls `read` with a chunk, where in it, the target and its place in `bytes`, for each piece.
    #[inline]
    fn copy_pieces(&mut self, index: u32, bytes: &mut [u8], mut read: impl FnMut(&Map, u32, usize, &mut [u8], usize)) -> usize {
        let mut done = 0;
        while done < bytes.len() {
            let slot = self.slots.of(index);
            let Some(chunk) = node(slot.tx_first, self.tx.count) else { break };
            let offset = slot.tx_offset as usize;
            let rest = self.tx.len[chunk as usize] as usize - offset;
            let part = rest.min(bytes.len() - done);
            read(&self.map, chunk, offset, &mut bytes[done..done + part], done);
            done += part;
            self.advance_tx(index, part);
        }
        done
    }

    /// The next `part` bytes of the slot's stream, all in its first chunk, were taken.
    #[inline]
    pub(super) fn advance_tx(&mut self, index: u32, part: usize) {
        let slot = self.slots.of(index);
        let Some(chunk) = node(slot.tx_first, self.tx.count) else { return };
        slot.tx_bytes -= part as u32;
        slot.tx_offset += part as u32;
        if slot.tx_offset == u32::from(self.tx.len[chunk as usize]) {
            slot.tx_offset = 0;
            slot.tx_first = self.tx.next[chunk as usize];
            if slot.tx_first == EMPTY {
                slot.tx_last = EMPTY;
            }
            self.free_tx(chunk);
        }
    }

    /// Notes that `bytes` more bytes need no room any more (acknowledged by the peer), and signals
    /// a waiting writer when there is enough room again.
    pub fn release_tx(&mut self, index: u32, bytes: u32) {
        self.give_used();
        let slot = self.slots.of(index);
        slot.tx_released = slot.tx_released.wrapping_add(bytes);
        let released = slot.tx_released;
        let shared = self.map.slot(index);
        shared.tx_released.store(released, Ordering::Release);
        fence(Ordering::SeqCst);
        if shared.tx_waiting.load(Ordering::Relaxed) != 0 && shared.has_write_room() {
            shared.tx_waiting.store(0, Ordering::Relaxed);
            if bytes == 0 {
                shared.openings.fetch_add(1, Ordering::Release);
            }
            self.signal(index);
        }
    }

    /// Chunks that wait in slots, of all classes.
    #[inline]
    pub fn waiting_tx(&self) -> u32 {
        self.tx.waiting
    }

    /// Bytes ever copied out, modulo 2^32.
    pub fn tx_copied(&self, index: u32) -> u32 {
        let slot = self.slots.peek(index);
        slot.tx_taken.wrapping_sub(slot.tx_bytes)
    }

    /// Bytes copied out so far and not yet released: what the stack has in hand.
    pub fn tx_in_flight(&self, index: u32) -> u32 {
        let slot = self.slots.peek(index);
        slot.tx_taken.wrapping_sub(slot.tx_bytes).wrapping_sub(slot.tx_released)
    }

    /// Moves the pushed chain (newest first) to the end of the private list (oldest first).
    pub(super) fn take_pushed(&mut self, index: u32) {
        let mut at = list::take_all(&self.map.slot(index).tx_stack);
        if at == EMPTY {
            return;
        }
        let (mut oldest, mut newest, mut bytes) = (EMPTY, EMPTY, 0u32);
        while at != EMPTY {
            let fresh = node(at, self.tx.count).filter(|&chunk| !self.tx.taken[chunk as usize] && !self.lender.is_held(chunk));
            let Some(chunk) = fresh else {
                self.violations += 1;
                break;
            };
            let record = self.map.tx_record(chunk);
            let len = record.len.load(Ordering::Relaxed) as usize;
            if len == 0 || len > self.map.tx_capacity(chunk) {
                self.violations += 1;
                break;
            }
            at = record.next.load(Ordering::Relaxed);
            self.tx.taken[chunk as usize] = true;
            self.tx.waiting += 1;
            self.lender.hold(chunk);
            self.tx.len[chunk as usize] = len as u16;
            self.tx.next[chunk as usize] = oldest;
            oldest = word(chunk);
            if newest == EMPTY {
                newest = oldest;
            }
            bytes += len as u32;
        }
        if oldest == EMPTY {
            return;
        }
        let slot = self.slots.of(index);
        match node(slot.tx_last, self.tx.count) {
            Some(last) => self.tx.next[last as usize] = oldest,
            None => slot.tx_first = oldest,
        }
        slot.tx_last = newest;
        slot.tx_bytes += bytes;
        slot.tx_taken = slot.tx_taken.wrapping_add(bytes);
    }

    fn free_tx(&mut self, chunk: u32) {
        self.tx.waiting -= 1;
        self.tx.taken[chunk as usize] = false;
        if self.map.tx_class(chunk) == TxClass::Bulk {
            // Not before the last frame over it is gone.
            return self.lender.release(chunk);
        }
        self.tx.used.push(chunk);
        if self.tx.used.len() == USED_MAX {
            self.give_used();
        }
    }

    /// Gives the used chunks back, as one chain of each class.
    fn give_used(&mut self) {
        if self.tx.used.is_empty() {
            return;
        }
        for class in [TxClass::Large, TxClass::Small] {
            let (list, _, first) = self.map.tx_free(class);
            let mut chain: Option<(u32, u32)> = None;
            for &chunk in self.tx.used.iter().filter(|&&chunk| self.map.tx_class(chunk) == class) {
                let number = chunk - first;
                let last = match chain {
                    Some((first, last)) => {
                        self.map.tx_record(chunk).next.store(word(first), Ordering::Relaxed);
                        last
                    }
                    None => chunk,
                };
                chain = Some((number, last));
            }
            let Some((first, last)) = chain else { continue };
            if !list.give_bounded(first, &self.map.tx_record(last).next) {
                self.violations += 1;
            }
        }
        self.tx.used.clear();
        self.tx.freed = true;
    }

    /// Gives back a chunk that a dead process was filling.
    pub(super) fn rescue_tx(&mut self, chunk: u32) {
        if !self.tx.taken[chunk as usize] && !self.lender.is_held(chunk) {
            self.map.tx_record(chunk).owner.store(0, Ordering::Relaxed);
            self.lender.hold(chunk);
            self.tx.waiting += 1;
            self.free_tx(chunk);
        }
    }

    /// Takes and gives back everything that waits in the slot.
    pub(super) fn drop_tx(&mut self, index: u32) {
        self.take_pushed(index);
        let mut at = self.slots.of(index).tx_first;
        for _ in 0..self.tx.count {
            let Some(chunk) = node(at, self.tx.count) else { break };
            at = self.tx.next[chunk as usize];
            self.free_tx(chunk);
        }
        let slot = self.slots.of(index);
        slot.tx_first = EMPTY;
        slot.tx_last = EMPTY;
        slot.tx_bytes = 0;
    }

    /// Signals the slots that wait for send chunks, when some were freed.
    pub(super) fn feed_starved(&mut self) {
        self.give_used();
        if !std::mem::take(&mut self.tx.freed) {
            return;
        }
        fence(Ordering::SeqCst);
        let slots = self.map.shape().slots;
        let mut at = list::take_all(&self.map.header().starved_slots.0);
        for _ in 0..slots {
            let Some(index) = node(at, slots) else { break };
            let shared = self.map.slot(index);
            at = shared.starved_link.load(Ordering::Relaxed);
            shared.starved.store(0, Ordering::Release);
            shared.openings.fetch_add(1, Ordering::Release);
            self.signal(index);
        }
    }
}
