//! Payload on its way to the application: leased chunks, filled privately, pushed as one chain.

use super::super::layout::{LARGE_CHUNK, SMALL_CHUNK, Shape, WORKER_ATTEMPTS};
use super::Attachment;
use ringway_shm::list::{self, EMPTY, node, word};
use ringway_shm::payload::Payload;
use ringway_shm::sync::{Ordering, fence};

/// The holder of each receive chunk. A leased chunk is linked in its slot's private list.
pub(super) struct Leases {
    /// Slot + 1, or 0 when free.
    slot: Vec<u32>,
    next: Vec<u32>,
    previous: Vec<u32>,
    free_large: Vec<u32>,
    free_small: Vec<u32>,
    /// Never used so far, per class.
    fresh_large: u32,
    fresh_small: u32,
    large: u32,
    /// Where the small ones end and the bulk ones begin, which `room` has.
    small_end: u32,
    pub(super) count: u32,
}

impl Leases {
    pub(super) fn new(shape: &Shape) -> Leases {
        let count = shape.rx_chunks();
        let zeros = vec![0; count as usize];
        Leases {
            slot: zeros.clone(),
            next: zeros.clone(),
            previous: zeros,
            free_large: Vec::new(),
            free_small: Vec::new(),
            fresh_large: 0,
            fresh_small: shape.rx_large,
            large: shape.rx_large,
            small_end: shape.first_room(),
            count,
        }
    }

    /// Returns true if the chunk is in the hands of slot `index`.
    pub(super) fn is_of(&self, chunk: u32, index: u32) -> bool {
        self.slot[chunk as usize] == index + 1
    }

    pub(super) fn free(&self) -> (u32, u32) {
        let large = self.free_large.len() as u32 + (self.large - self.fresh_large);
        (large, self.free_small.len() as u32 + (self.small_end - self.fresh_small))
    }

    fn take_large(&mut self) -> Option<u32> {
        self.free_large.pop().or_else(|| {
            (self.fresh_large < self.large).then(|| {
                self.fresh_large += 1;
                self.fresh_large - 1
            })
        })
    }

    fn take_small(&mut self) -> Option<u32> {
        self.free_small.pop().or_else(|| {
            (self.fresh_small < self.small_end).then(|| {
                self.fresh_small += 1;
                self.fresh_small - 1
            })
        })
    }

    /// A chunk for `bytes` bytes: the class that fits, else the other.
    fn take(&mut self, bytes: usize) -> Option<u32> {
        if bytes <= SMALL_CHUNK {
            self.take_small().or_else(|| self.take_large())
        } else {
            self.take_large().or_else(|| self.take_small())
        }
    }

    fn put(&mut self, chunk: u32) {
        if chunk < self.large { self.free_large.push(chunk) } else { self.free_small.push(chunk) }
    }
}

impl Attachment {
    /// Copies `bytes` into chunks of the slot and says how many fitted. They become visible with
    /// [`publish_rx`](Self::publish_rx). Fewer than all: no chunk is free; the application will send
    /// `Reclaim` (or `Consumed`) when some came back.
    pub fn push_rx<'a>(&mut self, index: u32, bytes: impl Into<Payload<'a>>) -> usize {
        self.push_payload(index, bytes.into())
    }

    fn push_payload(&mut self, index: u32, bytes: Payload<'_>) -> usize {
        let mut done = self.fill_open(index, bytes);
        while done < bytes.len() {
            let rest = bytes.slice(done..bytes.len());
            // Behind a chunk that is full more will come: small ones are for lone messages.
            let bulk = self.slots.of(index).open_newest != EMPTY;
            let Some(chunk) = self.lease(index, if bulk { LARGE_CHUNK } else { rest.len() }) else { break };
            let part = rest.len().min(self.map.rx_capacity(chunk));
            self.map.write_rx(chunk, 0, rest.slice(0..part));
            done += part;
            self.open_chunk(index, chunk, part);
        }
        let slot = self.slots.of(index);
        slot.rx_pushed = slot.rx_pushed.wrapping_add(done as u32);
        done
    }

    /// Puts a filled chunk behind those that wait to be published.
    pub(super) fn open_chunk(&mut self, index: u32, chunk: u32, len: usize) {
        let slot = self.slots.of(index);
        let older = slot.open_newest;
        slot.open_newest = word(chunk);
        slot.open_len = len as u32;
        if older == EMPTY {
            slot.open_oldest = word(chunk);
        }
        let record = self.map.rx_record(chunk);
        record.len.store(len as u32, Ordering::Relaxed);
        record.next.store(older, Ordering::Relaxed);
    }

    /// Whether `bytes` bytes can be pushed now, as a whole.
    pub fn has_rx_room(&mut self, bytes: usize) -> bool {
        let room = |(large, small): (u32, u32)| large as usize * LARGE_CHUNK + small as usize * SMALL_CHUNK;
        if room(self.rx.free()) < bytes {
            self.reclaim();
        }
        room(self.rx.free()) >= bytes
    }

    /// Uses up the room of the chunk that was filled last, if it is still private.
    fn fill_open(&mut self, index: u32, bytes: Payload<'_>) -> usize {
        let slot = self.slots.of(index);
        let Some(chunk) = node(slot.open_newest, self.rx.count) else { return 0 };
        let filled = slot.open_len as usize;
        let part = bytes.len().min(self.map.rx_capacity(chunk) - filled);
        slot.open_len += part as u32;
        self.map.write_rx(chunk, filled, bytes.slice(0..part));
        self.map.rx_record(chunk).len.store((filled + part) as u32, Ordering::Relaxed);
        part
    }

    /// Makes what was pushed visible to the application. [`signal`](Self::signal) does it too.
    pub fn publish_rx(&mut self, index: u32) {
        let slot = self.slots.of(index);
        let (Some(newest), Some(oldest)) = (node(slot.open_newest, self.rx.count), node(slot.open_oldest, self.rx.count)) else {
            return;
        };
        slot.open_newest = EMPTY;
        slot.open_oldest = EMPTY;
        slot.open_len = 0;
        let pushed = slot.rx_pushed;
        let shared = self.map.slot(index);
        if list::push_chain(&shared.rx_stack, newest, &self.map.rx_record(oldest).next, WORKER_ATTEMPTS).is_none() {
            // Only an application that keeps changing the stack gets here, and it loses the bytes.
            self.violations += 1;
        }
        shared.rx_pushed.store(pushed, Ordering::Release);
    }

    /// Bytes pushed that the application has not read, by what it says, at most what was pushed.
    pub fn unread(&mut self, index: u32) -> u32 {
        let said = self.map.slot(index).rx_consumed.load(Ordering::Acquire);
        let slot = self.slots.of(index);
        let outstanding = slot.rx_pushed.wrapping_sub(slot.rx_consumed);
        outstanding.saturating_sub(said.wrapping_sub(slot.rx_consumed).min(outstanding))
    }

    /// Bytes that the application has read since the last call.
    pub fn newly_consumed(&mut self, index: u32) -> u32 {
        let said = self.map.slot(index).rx_consumed.load(Ordering::Acquire);
        let slot = self.slots.of(index);
        let outstanding = slot.rx_pushed.wrapping_sub(slot.rx_consumed);
        let mut count = said.wrapping_sub(slot.rx_consumed);
        if count > outstanding {
            self.violations += 1;
            count = outstanding;
        }
        slot.rx_consumed = slot.rx_consumed.wrapping_add(count);
        count
    }

    /// Takes back the chunks that the application has returned; how many.
    pub fn reclaim(&mut self) -> u32 {
        let mut at = list::take_all(&self.map.header().returned_rx.0);
        let mut count = 0;
        while at != EMPTY {
            let leased = node(at, self.rx.count).filter(|&chunk| self.rx.slot[chunk as usize] != 0);
            let Some(chunk) = leased else {
                self.violations += 1;
                break;
            };
            at = self.map.rx_record(chunk).next.load(Ordering::Relaxed);
            self.end_lease(chunk);
            count += 1;
        }
        count
    }

    fn lease(&mut self, index: u32, bytes: usize) -> Option<u32> {
        let chunk = self.rx.take(bytes).or_else(|| self.lease_when_starved(bytes))?;
        self.lease_chunk(index, chunk);
        Some(chunk)
    }

    /// The chunk is the slot's from here on.
    pub(super) fn lease_chunk(&mut self, index: u32, chunk: u32) {
        let slot = self.slots.of(index);
        let older = slot.lease;
        slot.lease = word(chunk);
        self.rx.slot[chunk as usize] = index + 1;
        self.rx.next[chunk as usize] = older;
        self.rx.previous[chunk as usize] = EMPTY;
        if let Some(older) = node(older, self.rx.count) {
            self.rx.previous[older as usize] = word(chunk);
        }
    }

    /// Nothing is free: look at what came back, then ask to be told, then look once more.
    fn lease_when_starved(&mut self, bytes: usize) -> Option<u32> {
        if self.reclaim() == 0 {
            self.map.header().rx_starved.0.store(1, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            self.reclaim();
        }
        self.rx.take(bytes)
    }

    /// A chunk outside the stream, for an answer.
    pub(super) fn lease_with(&mut self, index: u32, bytes: &[u8]) -> Option<(u32, usize)> {
        let chunk = self.lease(index, bytes.len().min(LARGE_CHUNK))?;
        let part = bytes.len().min(self.map.rx_capacity(chunk));
        self.map.write_rx(chunk, 0, &bytes[..part]);
        Some((chunk, part))
    }

    fn end_lease(&mut self, chunk: u32) {
        let at = chunk as usize;
        let (owner, next, previous) = (self.rx.slot[at], self.rx.next[at], self.rx.previous[at]);
        let owner = owner - 1;
        if let Some(next) = node(next, self.rx.count) {
            self.rx.previous[next as usize] = previous;
        }
        match node(previous, self.rx.count) {
            Some(previous) => self.rx.next[previous as usize] = next,
            None => self.slots.of(owner).lease = next,
        }
        self.rx.slot[at] = 0;
        // A chunk that was being filled cannot have been returned by an honest application.
        let slot = self.slots.of(owner);
        if slot.open_newest == word(chunk) || slot.open_oldest == word(chunk) {
            slot.open_newest = EMPTY;
            slot.open_oldest = EMPTY;
            slot.open_len = 0;
            self.violations += 1;
        }
        if chunk < self.rx.small_end { self.rx.put(chunk) } else { self.rooms.put(chunk) }
    }

    /// Takes back every chunk of the slot.
    pub(super) fn drop_rx(&mut self, index: u32) {
        let slot = self.slots.of(index);
        slot.open_newest = EMPTY;
        slot.open_oldest = EMPTY;
        for _ in 0..self.rx.count {
            let Some(chunk) = node(self.slots.of(index).lease, self.rx.count) else { break };
            self.end_lease(chunk);
        }
    }
}
