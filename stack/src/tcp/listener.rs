//! Passive open: listeners, the SYN queue of small records, the accept queue.
//!
//! Read RFC 9293 §3.10.7.2, RFC 4987 §3.3 first. A half-open connection is a record, not a control
//! block; the block is made when the handshake's last ACK comes. Both queues are bounded, and their
//! overflows are counted. There are no SYN cookies: a full SYN queue drops SYNs.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;

use ringway_shm::Instant;

use crate::address::SocketAddress;
use crate::config::TcpOptions;
use crate::wire::tcp::{ACK, Header, SYN};

use super::connect::{Agreed, mss_to_offer, syn_options};
use super::demux::FlowKey;
use super::sequence::SeqNum;

/// In [`SocketId::index`](crate::event::SocketId): the name of a listener.
pub(crate) const LISTENER_BIT: u32 = 1 << 31;
/// Chain end, and free.
const NIL: u32 = u32::MAX;

/// One listening socket.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) local: SocketAddress,
    pub(crate) backlog: u32,
    pub(crate) options: TcpOptions,
    pub(crate) cookie: u64,
    pub(crate) generation: u32,
    /// Established connections that wait to be accepted.
    pub(crate) accept_queue: VecDeque<u32>,
    /// Records in the SYN queue.
    pub(crate) half_open: u32,
    pub(crate) alive: bool,
    /// The next listener on the same port.
    next: u32,
}

/// All listeners, found by port with one load.
pub(crate) struct Listeners {
    list: Vec<Listener>,
    by_port: Vec<u32>,
    max: u32,
    alive: u32,
}

/// A connection in SYN-RECEIVED that came through a listener.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HalfOpen {
    pub(crate) key: FlowKey,
    pub(crate) irs: SeqNum,
    pub(crate) iss: SeqNum,
    pub(crate) agreed: Agreed,
    pub(crate) listener: u32,
    /// SYN-ACKs sent again.
    pub(crate) retries: u8,
    /// Tick of its entry in the timer wheel.
    pub(crate) deadline: u32,
    /// When the first SYN-ACK was sent, microseconds modulo 2^32.
    pub(crate) sent_at: u32,
    pub(crate) alive: bool,
}

/// The SYN queue of a stack.
#[derive(Debug)]
pub(crate) struct SynQueue {
    records: Vec<HalfOpen>,
    free: Vec<u32>,
    max: u32,
}

impl Listener {
    /// Whether a further connection may wait.
    pub(crate) fn has_room(&self) -> bool {
        (self.accept_queue.len() as u32) < self.backlog.max(1)
    }
}

impl Listeners {
    /// A table for `max` listeners.
    pub(crate) fn new(max: u32) -> Listeners {
        Listeners { list: Vec::new(), by_port: vec![NIL; 1 << 16], max, alive: 0 }
    }

    /// The listener of an index.
    pub(crate) fn get(&self, index: u32) -> Option<&Listener> {
        self.list.get(index as usize).filter(|listener| listener.alive)
    }

    /// As [`get`](Listeners::get), to be changed.
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut Listener> {
        self.list.get_mut(index as usize).filter(|listener| listener.alive)
    }

    /// The listener that serves an address: one that names it comes before one that serves all.
    pub(crate) fn find(&self, ip: IpAddr, port: u16) -> Option<u32> {
        let exact = self.on_port(port).find(|(_, listener)| listener.local.ip == ip);
        exact.or_else(|| self.on_port(port).find(|(_, listener)| listener.local.ip.is_unspecified())).map(|(index, _)| index)
    }

    fn on_port(&self, port: u16) -> impl Iterator<Item = (u32, &Listener)> {
        let first = self.by_port[port as usize];
        let listener = |index: u32| self.list.get(index as usize).map(|listener| (index, listener));
        core::iter::successors(listener(first), move |(_, previous)| listener(previous.next))
    }

    /// Whether a listener on `local` would get in another one's way.
    pub(crate) fn conflicts(&self, local: SocketAddress) -> bool {
        self.on_port(local.port)
            .any(|(_, other)| other.local.ip == local.ip || other.local.ip.is_unspecified() || local.ip.is_unspecified())
    }

    /// Adds a listener; `None` when there are too many.
    pub(crate) fn insert(&mut self, local: SocketAddress, backlog: u32, options: TcpOptions, cookie: u64) -> Option<(u32, u32)> {
        if self.alive >= self.max {
            return None;
        }
        let free = self.list.iter().position(|listener| !listener.alive);
        let generation = free.map_or(0, |index| self.list[index].generation.wrapping_add(1));
        let next = self.by_port[local.port as usize];
        let accept_queue = VecDeque::new();
        let listener = Listener { local, backlog, options, cookie, generation, accept_queue, half_open: 0, alive: true, next };
        let index = match free {
            Some(index) => {
                self.list[index] = listener;
                index as u32
            }
            None => {
                self.list.push(listener);
                self.list.len() as u32 - 1
            }
        };
        self.by_port[local.port as usize] = index;
        self.alive += 1;
        Some((index, generation))
    }

    /// Removes a listener and returns the connections that waited.
    pub(crate) fn remove(&mut self, index: u32) -> VecDeque<u32> {
        let Some(listener) = self.get_mut(index) else { return VecDeque::new() };
        listener.alive = false;
        let waiting = core::mem::take(&mut listener.accept_queue);
        let (port, next) = (listener.local.port as usize, listener.next);
        self.alive -= 1;
        if self.by_port[port] == index {
            self.by_port[port] = next;
        } else {
            let mut previous = self.by_port[port];
            while self.list[previous as usize].next != index {
                previous = self.list[previous as usize].next;
            }
            self.list[previous as usize].next = next;
        }
        waiting
    }

    /// All listeners with their indexes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Listener)> {
        self.list.iter().enumerate().filter(|(_, listener)| listener.alive).map(|(index, listener)| (index as u32, listener))
    }
}

impl HalfOpen {
    /// RFC 9293 §3.10.7.2: <SEQ=ISS><ACK=RCV.NXT><CTL=SYN,ACK>.
    pub(crate) fn syn_ack(
        &self,
        config: &crate::config::TcpConfig,
        mtu: u16,
        options: &TcpOptions,
        receive_buffer: u32,
        timestamp: u32,
    ) -> Header {
        let mss = mss_to_offer(mtu, options);
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
}

impl SynQueue {
    /// A queue for `max` records.
    pub(crate) fn new(max: u32) -> SynQueue {
        SynQueue { records: Vec::new(), free: Vec::new(), max }
    }

    /// The record of an index.
    pub(crate) fn get(&self, index: u32) -> Option<&HalfOpen> {
        self.records.get(index as usize).filter(|record| record.alive)
    }

    /// As [`get`](SynQueue::get), to be changed.
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut HalfOpen> {
        self.records.get_mut(index as usize).filter(|record| record.alive)
    }

    /// Adds a record; `None`: the queue is full.
    pub(crate) fn insert(&mut self, record: HalfOpen) -> Option<u32> {
        if let Some(index) = self.free.pop() {
            self.records[index as usize] = record;
            return Some(index);
        }
        if self.records.len() as u32 >= self.max {
            return None;
        }
        self.records.push(record);
        Some(self.records.len() as u32 - 1)
    }

    /// Removes a record.
    pub(crate) fn remove(&mut self, index: u32) -> Option<HalfOpen> {
        let record = self.records.get_mut(index as usize).filter(|record| record.alive)?;
        record.alive = false;
        let removed = *record;
        self.free.push(index);
        Some(removed)
    }

    /// Some record that came through a listener.
    pub(crate) fn of_listener(&self, listener: u32) -> Option<u32> {
        self.iter().find(|(_, record)| record.listener == listener).map(|(index, _)| index)
    }

    /// All records with their indexes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &HalfOpen)> {
        self.records.iter().enumerate().filter(|(_, record)| record.alive).map(|(index, record)| (index as u32, record))
    }
}

/// Microseconds since the SYN-ACK was sent, for the first measurement of the round trip.
pub(crate) fn handshake_round_trip(record: &HalfOpen, now: Instant) -> Option<u32> {
    (record.retries == 0).then(|| (now.as_micros() as u32).wrapping_sub(record.sent_at))
}
