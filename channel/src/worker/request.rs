//! Taking requests out of the rings, and answering them.

use super::super::layout::{Bits, RING_ENTRIES, RINGS};
use super::super::request::{ControlAnswer, Request, completion};
use super::Attachment;
use ringway_shm::sync::{Ordering, fence};
use ringway_shm::{Duration, doorbell, ring};

/// Entries without a request that one call looks at, at most.
const SKIPPED_MAX: u32 = RINGS * RING_ENTRIES;

/// The worker's own cursors.
pub(super) struct Cursors {
    heads: Vec<u32>,
    /// Rings that were dirty and may still hold something.
    active: [u64; 2],
    /// Rings whose turn is over: the others come first.
    passed: [u64; 2],
}

impl Cursors {
    pub(super) fn new() -> Cursors {
        Cursors { heads: vec![0; RINGS as usize], active: [0; 2], passed: [0; 2] }
    }
}

impl Attachment {
    /// The next request of the region, whichever ring it is in. Requests whose slot is not in use
    /// under their generation never come out. Bound the number that one turn takes.
    pub fn next_request(&mut self) -> Option<Request> {
        let mut skipped = 0;
        let found = self.next_of_rings(&mut skipped);
        if found.is_some() || self.requests.passed == [0; 2] || skipped == SKIPPED_MAX {
            return found;
        }
        self.requests.passed = [0; 2];
        self.next_of_rings(&mut skipped)
    }

    /// The rings that were served in this turn are served behind the others in the next one: a thread that fills some as fast
    /// as they are emptied takes no turn from threads and processes that use another one.
    pub fn pass_on(&mut self) {
        let Cursors { active, passed, .. } = &mut self.requests;
        let waiting = [active[0] & !passed[0], active[1] & !passed[1]];
        *passed = match waiting {
            [0, 0] => [0, 0],
            // From the lowest on: those up to the ring that still has something were served.
            [0, high] => [u64::MAX, passed[1] | up_to_lowest(high)],
            [low, _] => [passed[0] | up_to_lowest(low), passed[1]],
        };
    }

    #[inline]
    fn next_of_rings(&mut self, skipped: &mut u32) -> Option<Request> {
        for word in 0..2 {
            self.requests.active[word] |= ring::take_marks(&self.map.header().dirty.0[word]);
            for bit in Bits(self.requests.active[word] & !self.requests.passed[word]) {
                while let Some(entry) = self.take_entry(word as u32 * 64 + bit) {
                    match Request::decode(entry) {
                        Some(request) if !request.names_slot() || self.is_current(request.slot) => return Some(request),
                        Some(_) => {}
                        None => self.violations += 1,
                    }
                    *skipped += 1;
                    if *skipped == SKIPPED_MAX {
                        // The application writes nonsense as fast as we read it; the marks stay for the next turn.
                        return None;
                    }
                }
                self.requests.active[word] &= !(1 << bit);
            }
        }
        None
    }

    fn take_entry(&mut self, number: u32) -> Option<[u64; 4]> {
        let shared = self.map.ring(number);
        let head = self.requests.heads[number as usize];
        let Some(count) = ring::waiting(&shared.tail.0, head, RING_ENTRIES) else {
            // Claims more than it can hold: forget what it claims.
            let tail = shared.tail.0.load(Ordering::Relaxed);
            self.requests.heads[number as usize] = tail;
            shared.head.0.store(tail, Ordering::Release);
            self.violations += 1;
            return None;
        };
        if count == 0 {
            return None;
        }
        let words = &shared.entries[(head % RING_ENTRIES) as usize];
        let entry = [0, 1, 2, 3].map(|word: usize| words[word].load(Ordering::Relaxed));
        self.requests.heads[number as usize] = head.wrapping_add(1);
        shared.head.0.store(head.wrapping_add(1), Ordering::Release);
        Some(entry)
    }

    /// Says how long the application may look for something to do before it sleeps.
    pub fn set_spin_limit(&self, limit: Duration) {
        let nanos = u32::try_from(limit.as_nanos()).unwrap_or(u32::MAX);
        self.map.header().spin_limit_ns.0.store(nanos, Ordering::Relaxed);
    }

    /// Says which part of its time the worker has been busy lately, thousandths.
    pub fn set_busy(&self, per_mille: u32) {
        self.map.header().busy_per_mille.0.store(per_mille, Ordering::Relaxed);
    }

    /// Says that sockets have the flag [`WANTED`](super::super::Flags::WANTED) that did not have it before.
    pub fn note_wishes(&self) {
        self.map.header().wishes.0.fetch_add(1, Ordering::Release);
    }

    /// Asks for connections back that this service has handed over. [`note_wishes`](Self::note_wishes) follows.
    pub fn note_recall(&self) {
        self.map.header().recalls.0.fetch_add(1, Ordering::Release);
    }

    /// Says that the worker is about to sleep. `false`: there is work, do not.
    pub fn arm(&mut self) -> bool {
        let header = self.map.header();
        doorbell::arm(&header.worker_need_wake.0);
        let idle = self.requests.active == [0; 2] && header.dirty.0.iter().all(|word| word.load(Ordering::SeqCst) == 0);
        if !idle {
            self.disarm();
        }
        idle
    }

    /// Says that the worker is awake.
    pub fn disarm(&mut self) {
        doorbell::disarm(&self.map.header().worker_need_wake.0);
    }

    /// Answers a control request and signals the slot.
    /// Sequence 0 means that no thread waits: the answer would only hide one that a thread waits for.
    pub fn answer(&mut self, request: &Request, answer: ControlAnswer) {
        if request.sequence == 0 {
            return;
        }
        let word = completion::answer(request.sequence, answer);
        self.map.slot(request.slot.index).completion.store(word, Ordering::Release);
        fence(Ordering::SeqCst);
        self.signal(request.slot.index);
    }

    /// Answers `Info` with up to 2 KiB of bytes, which travel in a receive chunk. `false` (and an
    /// answer without bytes): no chunk was free.
    pub fn answer_with_bytes(&mut self, request: &Request, bytes: &[u8]) -> bool {
        let index = request.slot.index;
        let Some((chunk, len)) = self.lease_with(index, bytes) else {
            self.answer(request, ControlAnswer::Failed(super::super::slot::Failure::NoResources));
            return false;
        };
        let word = completion::bytes(request.sequence, chunk, len as u16);
        self.map.slot(index).completion.store(word, Ordering::Release);
        fence(Ordering::SeqCst);
        self.signal(index);
        true
    }
}

/// The lowest bit that is set, and those below it.
fn up_to_lowest(bits: u64) -> u64 {
    bits ^ (bits - 1)
}
