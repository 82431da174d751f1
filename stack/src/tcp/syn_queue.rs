//! The SYN queue: half-open connections as small records, not control blocks.
//!
//! Read RFC 4987 §3.3 (SYN cache) and RFC 9293 §3.10.7.2 first. A control block is made when the handshake's last ACK comes.
//! The queue is bounded for the stack and, through its [`Line`], for each listener. `passive` decides which record is
//! dropped: the oldest of a full listener, a random one when the stack is full. A slot has at most one entry in the timer
//! wheel, whatever its record.

use alloc::vec::Vec;

use ringway_shm::Instant;

use crate::config::TcpConfig;
use crate::wire::tcp::{ACK, Header, SYN, Timestamps};

use super::connect::{Agreed, syn_options};
use super::demux::FlowKey;
use crate::wire::sequence::SeqNum;

const NIL: u32 = u32::MAX;

/// A connection in SYN-RECEIVED that came through a listener.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HalfOpen {
    pub(crate) key: FlowKey,
    pub(crate) irs: SeqNum,
    pub(crate) iss: SeqNum,
    pub(crate) agreed: Agreed,
    pub(crate) listener: u32,
    /// Number of SYN-ACK retransmissions.
    pub(crate) retries: u8,
    /// The peer has the SYN-ACK, but no connection without data is offered (TCP_DEFER_ACCEPT).
    pub(crate) acknowledged: bool,
    /// Made from a SYN cookie: it was never in the queue.
    pub(crate) from_cookie: bool,
    /// Tick at which the SYN-ACK is retransmitted.
    pub(crate) deadline: u32,
    /// Time of the first SYN-ACK, microseconds modulo 2^32.
    pub(crate) sent_at: u32,
}

/// The records of one listener, oldest first: the ends of a list through the queue's slots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    oldest: u32,
    youngest: u32,
    len: u32,
}

#[derive(Debug)]
struct Slot {
    record: Option<HalfOpen>,
    /// Tick of the slot's entry in the timer wheel; 0: none.
    armed: u32,
    older: u32,
    younger: u32,
}

/// The records of a stack.
#[derive(Debug)]
pub(crate) struct SynQueue {
    slots: Vec<Slot>,
    free: Vec<u32>,
    max: u32,
}

/// State of a slot when its entry in the timer wheel expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiry {
    /// Nothing to do.
    Outdated,
    /// The record's time has moved: the slot needs another entry.
    Later(u32),
    /// The SYN-ACK was not answered in time.
    Due,
}

impl Default for Line {
    fn default() -> Line {
        Line { oldest: NIL, youngest: NIL, len: 0 }
    }
}

impl Line {
    /// Number of records.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// The record that has waited longest.
    pub(crate) fn oldest(&self) -> Option<u32> {
        (self.oldest != NIL).then_some(self.oldest)
    }
}

impl HalfOpen {
    /// RFC 9293 §3.10.7.2: <SEQ=ISS><ACK=RCV.NXT><CTL=SYN,ACK>.
    pub(crate) fn syn_ack(&self, config: &TcpConfig, mss: u16, receive_buffer: u32, timestamp: u32) -> Header {
        let mut offered = syn_options(config, mss, receive_buffer, timestamp, self.agreed.ts_recent);
        offered.sack_permitted &= self.agreed.sack;
        offered.timestamps = offered.timestamps.filter(|_| self.agreed.timestamps);
        offered.window_scale = offered.window_scale.filter(|_| self.agreed.scales);
        Header {
            source_port: self.key.local_port,
            destination_port: self.key.remote_port,
            sequence: self.iss,
            acknowledgment: self.irs + 1,
            flags: SYN | ACK,
            window: receive_buffer.min(u16::MAX as u32) as u16,
            options: offered,
            ..Header::default()
        }
    }

    /// The ACK that answers for the connection to be.
    pub(crate) fn acknowledgment(&self, window: u32, timestamp: u32) -> Header {
        let mut header = Header {
            source_port: self.key.local_port,
            destination_port: self.key.remote_port,
            sequence: self.iss + 1,
            acknowledgment: self.irs + 1,
            flags: ACK,
            window: (window.min(u16::MAX as u32) >> self.agreed.receive_scale) as u16,
            ..Header::default()
        };
        let echo = self.agreed.ts_recent;
        header.options.timestamps = self.agreed.timestamps.then_some(Timestamps { value: timestamp, echo });
        header
    }

    /// Microseconds since the SYN-ACK was sent, as the first sample of the round trip.
    pub(crate) fn round_trip_us(&self, now: Instant) -> Option<u32> {
        (self.retries == 0 && !self.from_cookie).then(|| (now.as_micros() as u32).wrapping_sub(self.sent_at))
    }
}

impl SynQueue {
    /// A queue for `max` records.
    pub(crate) fn new(max: u32) -> SynQueue {
        SynQueue { slots: Vec::new(), free: Vec::new(), max }
    }

    pub(crate) fn set_max(&mut self, max: u32) {
        self.max = max;
    }

    /// The record of an index.
    pub(crate) fn get(&self, index: u32) -> Option<&HalfOpen> {
        self.slots.get(index as usize)?.record.as_ref()
    }

    /// Like [`get`](SynQueue::get), mutable.
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut HalfOpen> {
        self.slots.get_mut(index as usize)?.record.as_mut()
    }

    /// Returns true when the stack's limit is reached.
    pub(crate) fn is_full(&self) -> bool {
        (self.slots.len() - self.free.len()) as u32 >= self.max
    }

    /// A random record of a full queue.
    pub(crate) fn pick(&self, random: u64) -> Option<u32> {
        let index = (random % (self.slots.len() as u64).max(1)) as u32;
        self.get(index).map(|_| index)
    }

    /// Adds a record to its listener's line; `None`: the queue is full.
    pub(crate) fn insert(&mut self, line: &mut Line, record: HalfOpen) -> Option<u32> {
        if self.is_full() {
            return None;
        }
        let index = self.free.pop().unwrap_or(self.slots.len() as u32);
        if index as usize == self.slots.len() {
            self.slots.push(Slot { record: None, armed: 0, older: NIL, younger: NIL });
        }
        let slot = &mut self.slots[index as usize];
        slot.record = Some(record);
        (slot.older, slot.younger) = (line.youngest, NIL);
        match self.slots.get_mut(line.youngest as usize) {
            Some(youngest) => youngest.younger = index,
            None => line.oldest = index,
        }
        line.youngest = index;
        line.len += 1;
        Some(index)
    }

    /// Removes a record from the queue and from its listener's line.
    pub(crate) fn remove(&mut self, line: &mut Line, index: u32) -> Option<HalfOpen> {
        let slot = self.slots.get_mut(index as usize)?;
        let record = slot.record.take()?;
        let (older, younger) = (slot.older, slot.younger);
        match self.slots.get_mut(older as usize) {
            Some(older) => older.younger = younger,
            None => line.oldest = younger,
        }
        match self.slots.get_mut(younger as usize) {
            Some(younger) => younger.older = older,
            None => line.youngest = older,
        }
        line.len -= 1;
        self.free.push(index);
        Some(record)
    }

    /// Sets the time at which a record's SYN-ACK is retransmitted. Returns true when the slot needs an entry in the wheel.
    pub(crate) fn postpone(&mut self, index: u32, deadline: u32) -> bool {
        let Some(slot) = self.slots.get_mut(index as usize) else { return false };
        let Some(record) = &mut slot.record else { return false };
        record.deadline = deadline;
        let needed = slot.armed == 0 || (deadline.wrapping_sub(slot.armed) as i32) < 0;
        if needed {
            slot.armed = deadline;
        }
        needed
    }

    /// Handles the expiry of the slot's entry for `tick`.
    pub(crate) fn expire(&mut self, index: u32, tick: u32) -> Expiry {
        let Some(slot) = self.slots.get_mut(index as usize).filter(|slot| slot.armed == tick) else { return Expiry::Outdated };
        slot.armed = 0;
        let Some(record) = &slot.record else { return Expiry::Outdated };
        if (record.deadline.wrapping_sub(tick) as i32) > 0 {
            slot.armed = record.deadline;
            return Expiry::Later(record.deadline);
        }
        Expiry::Due
    }

    /// All records.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &HalfOpen> {
        self.slots.iter().filter_map(|slot| slot.record.as_ref())
    }
}

#[cfg(test)]
mod tests;
