//! TIME-WAIT without control blocks: a ring of records of 32 bytes, all with the same lifetime.
//!
//! Read RFC 9293 §3.4.3, §3.10.7.4, RFC 6191, RFC 1337 first. Records expire in the order in which they were made, so the
//! ring needs no timers; when it is full the oldest is dropped. A new SYN may reuse the 4-tuple if its timestamp or sequence
//! number is newer. IPv6 addresses do not fit a record: `ends` keeps each pair of them once for all records between the two.

mod ends;

use alloc::collections::{BTreeMap, VecDeque};
use core::net::{IpAddr, Ipv4Addr};

use ringway_shm::Instant;

use crate::timer;
use crate::wire::tcp::{ACK, FIN, Header, RST, SYN, Timestamps};

use super::demux::FlowKey;
use super::segment::Segment;
use crate::wire::sequence::SeqNum;

use ends::Ends;

/// One 4-tuple in TIME-WAIT, unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) key: FlowKey,
    pub(crate) snd_nxt: SeqNum,
    pub(crate) rcv_nxt: SeqNum,
    /// The window of the last ACK, as in the header.
    pub(crate) window: u16,
    /// TS.Recent, when timestamps are on.
    pub(crate) ts_recent: Option<u32>,
    /// The peer knows a TSval that is ahead of ours by so much.
    pub(crate) clock_ahead: u32,
}

/// The same, packed.
#[derive(Clone, Copy, Debug)]
struct Packed {
    /// Local and remote address. IPv6: the index in `Ends`, and nothing.
    addresses: [u32; 2],
    /// Local and remote port.
    ports: [u16; 2],
    snd_nxt: SeqNum,
    rcv_nxt: SeqNum,
    ts_recent: u32,
    /// Tick of expiry.
    expires: u32,
    window: u16,
    /// `ALIVE`, `IPV6`, `TIMESTAMPS`, `AHEAD`
    marks: u8,
}

const _: () = assert!(size_of::<Packed>() == 32);

/// Not removed before its time.
const ALIVE: u8 = 1;
const IPV6: u8 = 2;
/// `ts_recent` is valid.
const TIMESTAMPS: u8 = 4;
/// The connection has come from another stack, with another timestamp clock.
const AHEAD: u8 = 8;

/// Reaction to a segment for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Drop the segment.
    Ignore,
    /// Answer with an ACK; `restart` the wait when it was a FIN.
    Acknowledge { restart: bool },
    /// RFC 6191: a new connection, if there is a listener; its ISS must lie at or after this.
    Reuse { iss_min: SeqNum },
}

/// All records; an index is the number of records made before, modulo 2^30.
#[derive(Debug)]
pub(crate) struct TimeWait {
    ring: VecDeque<Packed>,
    ends: Ends,
    /// [`Record::clock_ahead`] of the records with [`AHEAD`], by index.
    ahead: BTreeMap<u32, u32>,
    first: u32,
    max: usize,
    lifetime_us: u64,
}

const INDEX_MASK: u32 = (1 << 30) - 1;

impl Record {
    /// A record of a flow.
    pub(crate) fn new(key: FlowKey, snd_nxt: SeqNum, rcv_nxt: SeqNum, window: u16, ts_recent: Option<u32>) -> Record {
        Record { key, snd_nxt, rcv_nxt, window, ts_recent, clock_ahead: 0 }
    }

    /// RFC 9293 §3.10.7.4 in TIME-WAIT, RFC 6191, RFC 1337.
    pub(crate) fn judge(&self, segment: &Segment) -> Verdict {
        if segment.has(RST) {
            return Verdict::Ignore;
        }
        // A listener takes no SYN with a FIN.
        if segment.has(SYN) && !segment.has(ACK) && !segment.has(FIN) {
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
        let pure = segment.len == 0 && !segment.has(FIN) && !segment.has(SYN) && segment.sequence == self.rcv_nxt;
        if pure { Verdict::Ignore } else { Verdict::Acknowledge { restart: segment.has(FIN) && !segment.has(SYN) } }
    }

    /// The ACK that answers for the connection, at `timestamp` of the stack's own clock.
    pub(crate) fn acknowledgment(&self, timestamp: u32) -> Header {
        // Linux: the ACE field stays clear; the counts went with the control block.
        let mut header = Header {
            source_port: self.key.local_port,
            destination_port: self.key.remote_port,
            sequence: self.snd_nxt,
            acknowledgment: self.rcv_nxt,
            flags: ACK,
            window: self.window,
            ..Header::default()
        };
        header.options.timestamps =
            self.ts_recent.map(|echo| Timestamps { value: timestamp.wrapping_add(self.clock_ahead), echo });
        header
    }
}

impl TimeWait {
    /// An empty ring for `max` records that live for `lifetime_us` microseconds.
    pub(crate) fn new(max: u32, lifetime_us: u64) -> TimeWait {
        TimeWait {
            ring: VecDeque::new(),
            ends: Ends::default(),
            ahead: BTreeMap::new(),
            first: 0,
            max: max.max(1) as usize,
            lifetime_us,
        }
    }

    /// See [`make_room`](Self::make_room).
    pub(crate) fn set_max(&mut self, max: u32) {
        self.max = max.max(1) as usize;
    }

    /// The record of an index, unless it is gone.
    pub(crate) fn get(&self, index: u32) -> Option<Record> {
        let at = index.wrapping_sub(self.first) & INDEX_MASK;
        self.ring.get(at as usize).filter(|packed| packed.marks & ALIVE != 0).map(|packed| self.unpack(index, packed))
    }

    /// Adds a record; returns its index.
    pub(crate) fn push(&mut self, now: Instant, record: Record) -> u32 {
        let expires = timer::tick_after(now, self.lifetime_us);
        let index = self.first.wrapping_add(self.ring.len() as u32) & INDEX_MASK;
        let packed = self.pack(&record, expires);
        if record.clock_ahead != 0 {
            self.ahead.insert(index, record.clock_ahead);
        }
        self.ring.push_back(packed);
        index
    }

    /// Removes a record before its time. The newest one leaves no gap behind: the record of a repeated FIN takes its place.
    pub(crate) fn remove(&mut self, index: u32) {
        let at = index.wrapping_sub(self.first) & INDEX_MASK;
        if let Some(packed) = self.ring.get_mut(at as usize).filter(|packed| packed.marks & ALIVE != 0) {
            packed.marks &= !ALIVE;
            let packed = *packed;
            self.release(index & INDEX_MASK, &packed);
        }
        while self.ring.back().is_some_and(|packed| packed.marks & ALIVE == 0) {
            self.ring.pop_back();
        }
    }

    /// Removes and returns the oldest record if there is no space for another one.
    pub(crate) fn make_room(&mut self) -> Option<(u32, Record)> {
        if self.ring.len() < self.max { None } else { self.pop_front() }
    }

    /// Removes and returns the oldest record if it has expired.
    pub(crate) fn pop_expired(&mut self, now: Instant) -> Option<(u32, Record)> {
        let tick = timer::tick_at(now);
        while self.ring.front().is_some_and(|packed| packed.marks & ALIVE == 0 || timer::is_due(packed.expires, tick)) {
            let popped = self.pop_front();
            if popped.is_some() {
                return popped;
            }
        }
        None
    }

    fn pop_front(&mut self) -> Option<(u32, Record)> {
        let packed = self.ring.pop_front()?;
        let index = self.first;
        self.first = (self.first + 1) & INDEX_MASK;
        if packed.marks & ALIVE == 0 {
            return None;
        }
        let record = self.unpack(index, &packed);
        self.release(index, &packed);
        Some((index, record))
    }

    /// Time at which the oldest record expires.
    pub(crate) fn next_expiry(&self, now_ms: u64) -> Option<Instant> {
        self.ring.front().map(|front| timer::instant_of(front.expires, now_ms))
    }

    /// Live records, oldest first, and the tick at which each expires.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Record, u32)> {
        let indexed = self.ring.iter().zip(0..).map(|(packed, place)| (self.first.wrapping_add(place) & INDEX_MASK, packed));
        let alive = indexed.filter(|(_, packed)| packed.marks & ALIVE != 0);
        alive.map(|(index, packed)| (self.unpack(index, packed), packed.expires))
    }

    /// Memory in bytes of the ring, and of the addresses beside it.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> (usize, usize) {
        (self.ring.capacity() * size_of::<Packed>(), self.ends.memory())
    }

    fn pack(&mut self, record: &Record, expires: u32) -> Packed {
        let key = &record.key;
        let (addresses, family) = match (key.local, key.remote) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => ([local.to_bits(), remote.to_bits()], 0),
            (local, remote) => ([self.ends.hold(local, remote), 0], IPV6),
        };
        Packed {
            addresses,
            ports: [key.local_port, key.remote_port],
            snd_nxt: record.snd_nxt,
            rcv_nxt: record.rcv_nxt,
            ts_recent: record.ts_recent.unwrap_or(0),
            expires,
            window: record.window,
            marks: ALIVE
                | family
                | if record.ts_recent.is_some() { TIMESTAMPS } else { 0 }
                | if record.clock_ahead != 0 { AHEAD } else { 0 },
        }
    }

    fn unpack(&self, index: u32, packed: &Packed) -> Record {
        let [first, second] = packed.addresses;
        let (local, remote) = match packed.marks & IPV6 {
            0 => (Ipv4Addr::from_bits(first).into(), Ipv4Addr::from_bits(second).into()),
            _ => self.ends.of(first),
        };
        let [local_port, remote_port] = packed.ports;
        Record {
            key: FlowKey { local, remote, local_port, remote_port },
            snd_nxt: packed.snd_nxt,
            rcv_nxt: packed.rcv_nxt,
            window: packed.window,
            ts_recent: (packed.marks & TIMESTAMPS != 0).then_some(packed.ts_recent),
            clock_ahead: if packed.marks & AHEAD == 0 { 0 } else { self.ahead.get(&index).copied().unwrap_or(0) },
        }
    }

    /// Releases what a record has beside its place in the ring.
    fn release(&mut self, index: u32, packed: &Packed) {
        if packed.marks & AHEAD != 0 {
            self.ahead.remove(&index);
        }
        if packed.marks & IPV6 != 0 {
            self.ends.release(packed.addresses[0]);
        }
    }
}

#[cfg(test)]
mod tests;
