//! Packets under way: each with the time when it arrives, in order of that time, then of entry.
//!
//! Holds the clock of the rate limit. Does not decide about loss other than a full rate queue.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use ringway_shm::{Duration, Frame, Instant};

use super::Impairments;
use super::random::Random;

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// A packet and when it arrives.
struct Underway {
    due: Instant,
    entry: u64,
    packet: Vec<Frame>,
}

#[derive(Default)]
pub(super) struct DelayLine {
    heap: BinaryHeap<Underway>,
    entries: u64,
    /// When the rate limit lets the next packet begin.
    wire_free: Instant,
    /// The latest `due` given out, so that jitter does not reorder.
    last_due: Instant,
}

impl DelayLine {
    /// When a packet of `len` bytes that is sent now arrives; `None`: the rate queue is full.
    pub(super) fn due(&mut self, now: Instant, len: usize, options: &Impairments, random: &mut Random) -> Option<Instant> {
        let begin = now.max(self.wire_free);
        let mut sent = now;
        if options.rate_bits > 0 {
            if self.waiting_bytes(now, options) > options.rate_queue_bytes {
                return None;
            }
            let nanos = len as u128 * 8 * NANOS_PER_SECOND / u128::from(options.rate_bits);
            sent = begin + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
            self.wire_free = sent;
        }
        let jitter = Duration::from_nanos(random.below(options.jitter.as_nanos()));
        self.last_due = self.last_due.max(sent + options.delay + jitter);
        Some(self.last_due)
    }

    /// Bytes that wait for the rate.
    pub(super) fn waiting_bytes(&self, now: Instant, options: &Impairments) -> u64 {
        let wait = self.wire_free.max(now).since(now).as_nanos();
        let bits = u128::from(wait) * u128::from(options.rate_bits) / NANOS_PER_SECOND;
        u64::try_from(bits / 8).unwrap_or(u64::MAX)
    }

    pub(super) fn put(&mut self, due: Instant, packet: Vec<Frame>) {
        self.entries += 1;
        self.heap.push(Underway { due, entry: self.entries, packet });
    }

    pub(super) fn take_due(&mut self, now: Instant) -> Option<Vec<Frame>> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|underway| underway.packet)
    }

    /// When the next packet arrives.
    pub(super) fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|underway| underway.due)
    }

    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }
}

impl Ord for Underway {
    /// The earliest is the greatest, since `BinaryHeap` gives the greatest first.
    fn cmp(&self, other: &Underway) -> Ordering {
        (other.due, other.entry).cmp(&(self.due, self.entry))
    }
}

impl PartialOrd for Underway {
    fn partial_cmp(&self, other: &Underway) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Underway {
    fn eq(&self, other: &Underway) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Underway {}
