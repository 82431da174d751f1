//! TIME-WAIT without control blocks: a ring of small records, all with the same lifetime.
//!
//! Read RFC 9293 §3.4.3, §3.10.7.4, RFC 6191, RFC 1337 first. Records expire in the order in which they
//! were made, so the ring needs no timers; when it is full the oldest goes. A new SYN may reuse the
//! 4-tuple if its timestamp or sequence number is newer; where configured so may an open of our own.

use alloc::collections::VecDeque;

use ringway_shm::Instant;

use crate::stack::Env;
use crate::stats::Counter;
use crate::timer;
use crate::wire::tcp::{ACK, Header, RST, SYN, Timestamps};

use super::Tcp;
use super::accurate;
use super::demux::{FlowKey, Target};
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
    /// When the wait began or began again, tick.
    begun: u32,
    /// When a segment was last answered, tick; 0: never.
    answered: u32,
    alive: bool,
}

/// What to do with a segment for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Drop it.
    Ignore,
    /// A RST that fits: RFC 9293 ends the wait, RFC 1337 warns of that.
    Assassinate,
    /// An ACK that fits: no answer, but the wait starts again.
    Heed,
    /// Answer with an ACK; `restart` the wait. `old`: because of its timestamp.
    Acknowledge { restart: bool, old: bool },
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
/// Linux: beyond any window of the old connection.
const BEYOND_WINDOWS: u32 = 65_537;
/// Linux: timestamps of the old connection's last second could be taken for the new one's.
const REUSABLE_AFTER_MS: u32 = 1_000;
/// The wait starts again at most so often, so that one record's segments do not push out the others'.
const RESTART_AFTER_MS: u32 = 1_000;

impl Record {
    /// A record of a flow.
    pub(crate) fn new(key: FlowKey, snd_nxt: SeqNum, rcv_nxt: SeqNum, window: u16, ts_recent: Option<u32>) -> Record {
        Record { key, snd_nxt, rcv_nxt, window, ts_recent, ace: 0, expires: 0, begun: 0, answered: 0, alive: true }
    }

    /// RFC 9293 §3.10.7.4 in TIME-WAIT, RFC 6191, RFC 1337; as Linux: tcp_timewait_state_process.
    pub(crate) fn judge(&self, segment: &Segment) -> Verdict {
        let times = segment.header.options.timestamps.zip(self.ts_recent);
        let age = times.map_or(0, |(times, recent)| times.value.wrapping_sub(recent).cast_signed());
        // RFC 7323 §5: PAWS goes on.
        let old = age < 0;
        if !old && segment.sequence == self.rcv_nxt && segment.has(RST) {
            return Verdict::Assassinate;
        }
        if !old && segment.sequence == self.rcv_nxt && segment.sequence_len() == 0 {
            return Verdict::Heed;
        }
        let is_syn = segment.has(SYN) && !segment.has(RST) && !segment.has(ACK);
        if is_syn && !old && (age > 0 || segment.sequence.after(self.rcv_nxt)) {
            return Verdict::Reuse { iss_min: self.next_iss() };
        }
        if segment.has(RST) {
            return Verdict::Ignore;
        }
        Verdict::Acknowledge { restart: old || segment.has(ACK), old }
    }

    /// RFC 6191 §2, for an open of our own: whether timestamps tell the new connection from the old one, from a second
    /// after that has ended (Linux: tcp_tw_reuse).
    pub(crate) fn is_reusable(&self, now: Instant) -> bool {
        self.ts_recent.is_some() && timer::tick_at(now).wrapping_sub(self.begun) > REUSABLE_AFTER_MS
    }

    /// The least ISS of a connection that takes the record's place.
    pub(crate) fn next_iss(&self) -> SeqNum {
        self.snd_nxt + BEYOND_WINDOWS
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

    /// As [`get`](TimeWait::get), to be changed.
    fn get_mut(&mut self, index: u32) -> Option<&mut Record> {
        let at = index.wrapping_sub(self.first) & INDEX_MASK;
        self.ring.get_mut(at as usize).filter(|record| record.alive)
    }

    /// Adds a record; returns its index.
    pub(crate) fn push(&mut self, now: Instant, record: Record) -> u32 {
        let expires = timer::tick_after(now, self.lifetime_us);
        let index = self.first.wrapping_add(self.ring.len() as u32) & INDEX_MASK;
        self.ring.push_back(Record { expires, begun: timer::tick_at(now), alive: true, ..record });
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

impl Tcp {
    /// A segment for a connection at rest.
    pub(super) fn receive_in_time_wait(&mut self, env: &mut Env, index: u32, segment: &mut Segment, hash: u32) {
        let Some(record) = self.time_wait.get(index).copied() else { return };
        match record.judge(segment) {
            Verdict::Ignore => {}
            Verdict::Assassinate if self.shared.config.time_wait_survives_resets => {}
            Verdict::Assassinate => self.forget_time_wait(index, hash),
            Verdict::Heed => {
                let value = segment.header.options.timestamps.map(|times| times.value);
                let ts_recent = record.ts_recent.map(|recent| value.unwrap_or(recent));
                self.restart_time_wait(env, index, Record { ts_recent, ..record }, hash);
            }
            Verdict::Acknowledge { restart, old } => {
                if old {
                    env.counters.count(Counter::PawsEstab);
                }
                self.acknowledge_in_time_wait(env, index, segment);
                if restart && let Some(record) = self.time_wait.get(index).copied() {
                    self.restart_time_wait(env, index, record, hash);
                }
            }
            Verdict::Reuse { iss_min } => {
                env.counters.count(Counter::TimeWaitRecycled);
                self.forget_time_wait(index, hash);
                self.receive_unknown(env, segment, Some(iss_min));
            }
        }
    }

    /// Answers, but not one segment without data after the other (Linux tcp_invalid_ratelimit).
    fn acknowledge_in_time_wait(&mut self, env: &mut Env, index: u32, segment: &Segment) {
        let now = timer::tick_at(self.now).max(1);
        let interval_ms = self.shared.config.invalid_interval.as_millis() as u32;
        let Some(record) = self.time_wait.get_mut(index) else { return };
        let limited = segment.len == 0 || segment.has(SYN);
        if limited && record.answered != 0 && now.wrapping_sub(record.answered) < interval_ms {
            env.counters.count(Counter::TcpAckSkippedTimeWait);
            return;
        }
        record.answered = now;
        let record = *record;
        if self.shared.replies.allow(self.now, env) {
            let header = record.acknowledgment(self.shared.secrets.timestamp(self.now));
            self.shared.replies.push(record.key, 0, header);
        }
    }

    fn restart_time_wait(&mut self, env: &mut Env, index: u32, record: Record, hash: u32) {
        if timer::tick_at(self.now).wrapping_sub(record.begun) < RESTART_AFTER_MS {
            if let Some(kept) = self.time_wait.get_mut(index) {
                *kept = record;
            }
            return;
        }
        self.forget_time_wait(index, hash);
        self.remember_time_wait(env, record);
    }

    /// A connection is at rest.
    pub(super) fn remember_time_wait(&mut self, env: &mut Env, record: Record) {
        let hash = self.hasher.hash(&record.key);
        let index = self.time_wait.push(self.now, record);
        self.flows.insert(hash, Target::TimeWait(index));
        while let Some((index, oldest)) = self.time_wait.pop_overflow() {
            env.counters.count(Counter::TimeWaitOverflow);
            self.flows.remove(self.hasher.hash(&oldest.key), Target::TimeWait(index));
        }
    }

    fn forget_time_wait(&mut self, index: u32, hash: u32) {
        self.time_wait.remove(index);
        self.flows.remove(hash, Target::TimeWait(index));
    }

    /// The record of a flow that an open of our own may take the place of.
    pub(super) fn reusable_time_wait(&self, key: &FlowKey) -> Option<u32> {
        if !(self.shared.config.time_wait_reuse && self.shared.config.timestamps) {
            return None;
        }
        let found = self.flows.find(self.hasher.hash(key), |target| match target {
            Target::TimeWait(index) => self.time_wait.get(index).is_some_and(|record| record.key == *key),
            Target::Connection(_) | Target::HalfOpen(_) => false,
        });
        match found? {
            Target::TimeWait(index) => self.time_wait.get(index).filter(|record| record.is_reusable(self.now)).map(|_| index),
            Target::Connection(_) | Target::HalfOpen(_) => None,
        }
    }

    /// Takes such a record away.
    pub(super) fn take_time_wait(&mut self, key: &FlowKey) -> Option<Record> {
        let index = self.reusable_time_wait(key)?;
        let record = self.time_wait.get(index).copied();
        self.forget_time_wait(index, self.hasher.hash(key));
        record
    }
}
