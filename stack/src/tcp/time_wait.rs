//! TIME-WAIT without control blocks: a ring of small records, all with the same lifetime.
//!
//! Read RFC 9293 §3.4.3, §3.10.7.4, RFC 6191, RFC 1337 first. Records expire in the order in which they
//! were made, so the ring needs no timers; when it is full the oldest goes. A new SYN may reuse the
//! 4-tuple if its timestamp or sequence number is newer.

use alloc::collections::VecDeque;

use ringway_shm::Instant;

use crate::timer;
use crate::wire::tcp::{ACK, FIN, Header, RST, SYN, Timestamps};

use super::accurate;
use super::demux::FlowKey;
use super::segment::Segment;
use super::sequence::SeqNum;

/// One 4-tuple at rest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) key: FlowKey,
    pub(crate) snd_nxt: SeqNum,
    pub(crate) rcv_nxt: SeqNum,
    /// The window of the last ACK, as in the header.
    pub(crate) window: u16,
    /// TS.Recent, when timestamps are on.
    pub(crate) ts_recent: Option<u32>,
    /// AE, CWR and ECE of the last ACK, as a number (RFC 9768 §3.2.2: the count of marks goes on).
    pub(crate) ace: u8,
    expires: u32,
    alive: bool,
}

/// What to do with a segment for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Drop it.
    Ignore,
    /// Answer with an ACK; `restart` the wait when it was a FIN.
    Acknowledge { restart: bool },
    /// RFC 6191: a new connection; its ISS must lie at or after this.
    Reuse { iss_min: SeqNum },
}

/// All records; an index is the number of records made before, modulo 2^30.
#[derive(Debug)]
pub(crate) struct TimeWait {
    ring: VecDeque<Record>,
    first: u32,
    max: usize,
    lifetime_us: u64,
}

const INDEX_MASK: u32 = (1 << 30) - 1;

impl Record {
    /// A record of a flow.
    pub(crate) fn new(key: FlowKey, snd_nxt: SeqNum, rcv_nxt: SeqNum, window: u16, ts_recent: Option<u32>) -> Record {
        Record { key, snd_nxt, rcv_nxt, window, ts_recent, ace: 0, expires: 0, alive: true }
    }

    /// RFC 9293 §3.10.7.4 in TIME-WAIT, RFC 6191, RFC 1337.
    pub(crate) fn judge(&self, segment: &Segment) -> Verdict {
        if segment.has(RST) {
            return Verdict::Ignore;
        }
        if segment.has(SYN) && !segment.has(ACK) {
            let newer_time = match (segment.header.options.timestamps, self.ts_recent) {
                (Some(timestamps), Some(recent)) => (timestamps.value.wrapping_sub(recent) as i32) > 0,
                _ => false,
            };
            if newer_time || segment.sequence.after(self.rcv_nxt) {
                // Linux: beyond any window of the old connection.
                return Verdict::Reuse { iss_min: self.snd_nxt + 65_537 };
            }
            return Verdict::Acknowledge { restart: false };
        }
        let pure = segment.len == 0 && !segment.has(FIN) && segment.sequence == self.rcv_nxt;
        if pure { Verdict::Ignore } else { Verdict::Acknowledge { restart: segment.has(FIN) } }
    }

    /// The ACK that answers for the connection.
    pub(crate) fn acknowledgment(&self, timestamp: u32) -> Header {
        let mut header = Header {
            source_port: self.key.local_port,
            destination_port: self.key.remote_port,
            sequence: self.snd_nxt,
            acknowledgment: self.rcv_nxt,
            flags: ACK,
            window: self.window,
            ..Header::default()
        };
        header.options.timestamps = self.ts_recent.map(|echo| Timestamps { value: timestamp, echo });
        accurate::set_ace(&mut header, self.ace as u32);
        header
    }
}

impl TimeWait {
    /// An empty ring for `max` records that live for `lifetime_us` microseconds.
    pub(crate) fn new(max: u32, lifetime_us: u64) -> TimeWait {
        TimeWait { ring: VecDeque::new(), first: 0, max: max.max(1) as usize, lifetime_us }
    }

    /// The record of an index, unless it has gone.
    pub(crate) fn get(&self, index: u32) -> Option<&Record> {
        let at = index.wrapping_sub(self.first) & INDEX_MASK;
        self.ring.get(at as usize).filter(|record| record.alive)
    }

    /// Adds a record; returns its index.
    pub(crate) fn push(&mut self, now: Instant, record: Record) -> u32 {
        let expires = timer::tick_after(now, self.lifetime_us);
        let index = self.first.wrapping_add(self.ring.len() as u32) & INDEX_MASK;
        self.ring.push_back(Record { expires, alive: true, ..record });
        index
    }

    /// Removes a record before its time.
    pub(crate) fn remove(&mut self, index: u32) {
        let at = index.wrapping_sub(self.first) & INDEX_MASK;
        if let Some(record) = self.ring.get_mut(at as usize) {
            record.alive = false;
        }
    }

    /// The oldest record if there are too many.
    pub(crate) fn pop_overflow(&mut self) -> Option<(u32, Record)> {
        if self.ring.len() <= self.max { None } else { self.pop_front() }
    }

    /// The oldest record if its time is over.
    pub(crate) fn pop_expired(&mut self, now: Instant) -> Option<(u32, Record)> {
        while self.ring.front().is_some_and(|record| !record.alive || timer::is_due(record.expires, timer::tick_at(now))) {
            let popped = self.pop_front();
            if popped.is_some() {
                return popped;
            }
        }
        None
    }

    fn pop_front(&mut self) -> Option<(u32, Record)> {
        let record = self.ring.pop_front()?;
        let index = self.first;
        self.first = (self.first + 1) & INDEX_MASK;
        record.alive.then_some((index, record))
    }

    /// When the oldest record expires.
    pub(crate) fn next_expiry(&self, now_ms: u64) -> Option<Instant> {
        self.ring.front().map(|front| timer::instant_of(front.expires, now_ms))
    }

    /// Records that are alive, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Record> {
        self.ring.iter().filter(|record| record.alive)
    }
}
