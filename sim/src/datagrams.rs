//! Datagrams beside the streams: a host sends numbered datagrams and checks those that arrive.
//!
//! Promises: each datagram arrives whole and unchanged, and no more often than the wire can have duplicated it. Does not
//! promise arrival: the wire may lose it.

use std::collections::BTreeMap;

use ringway_shm::{Burst, Duration, Instant};
use ringway_stack::{Event, SocketAddress, SocketId, Stack, UdpOptions, UdpSend, UdpSendError};

use crate::check::{Failure, failure};
use crate::pattern::Pattern;
use crate::random::Random;

/// Parameters of the datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagrams {
    /// Number of datagrams in each direction.
    pub count: u32,
    /// Maximum payload, bytes; at least four are sent.
    pub bytes_max: u32,
    /// Interval between two datagrams.
    pub every: Duration,
    /// When not zero, so many datagrams of one size leave in one write: UDP_SEGMENT.
    pub train_of: u16,
}

/// One end of the exchange.
#[derive(Debug)]
pub struct Beside {
    plan: Datagrams,
    id: SocketId,
    peer: SocketAddress,
    outgoing: Pattern,
    incoming: Pattern,
    random: Random,
    next: u32,
    due: Instant,
    /// Number of times that each datagram number has arrived.
    taken: BTreeMap<u32, u32>,
}

impl Beside {
    /// Binds `local` and sends to `peer`; streams `outgoing` and `incoming` define the payload.
    ///
    /// # Panics
    /// When the stack refuses.
    pub fn new(
        stack: &mut Stack,
        plan: Datagrams,
        ends: (SocketAddress, SocketAddress),
        patterns: (Pattern, Pattern),
        seed: u64,
    ) -> Beside {
        let options = UdpOptions { coalesce: plan.train_of > 0, ..UdpOptions::default() };
        let id = stack.udp_bind(ends.0, options, COOKIE).expect("the port is free");
        let (outgoing, incoming) = patterns;
        let (random, taken) = (Random::new(seed), BTreeMap::new());
        Beside { plan, id, peer: ends.1, outgoing, incoming, random, next: 0, due: Instant::ZERO, taken }
    }

    /// Returns its socket.
    pub fn id(&self) -> SocketId {
        self.id
    }

    /// Returns true when the event is about its socket.
    pub fn is_about(&self, event: &Event) -> bool {
        matches!(event, Event::Ready { socket, .. } if *socket == self.id)
    }

    /// Returns true when all datagrams have been sent.
    pub fn is_done(&self) -> bool {
        self.next == self.plan.count
    }

    /// Returns the number of different datagrams that have arrived.
    pub fn taken(&self) -> usize {
        self.taken.len()
    }

    /// Returns the time of its next datagram.
    pub fn poll_timeout(&self) -> Option<Instant> {
        (!self.is_done()).then_some(self.due)
    }

    /// Sends what is due and receives what has arrived. Returns true when it did anything.
    ///
    /// # Errors
    /// When a datagram differs from what was sent, or the stack refuses without reason.
    pub fn work(&mut self, now: Instant, stack: &mut Stack) -> Result<bool, Failure> {
        let mut worked = false;
        while !self.is_done() && self.due <= now {
            self.send(now, stack)?;
            worked = true;
        }
        let mut frames = Burst::default();
        while let Some(message) = stack.udp_receive(self.id, &mut frames) {
            let bytes: Vec<u8> = frames.frames().flat_map(|frame| frame.bytes()).copied().collect();
            frames.clear();
            let piece = if message.segment_size == 0 { bytes.len() } else { message.segment_size.into() };
            bytes.chunks(piece.max(1)).try_for_each(|one| self.take(one))?;
            worked = true;
        }
        Ok(worked)
    }

    fn send(&mut self, now: Instant, stack: &mut Stack) -> Result<(), Failure> {
        let train = u32::from(self.plan.train_of);
        let (count, size) = match train {
            0 => (1, 4 + self.random.magnitude(self.plan.bytes_max.into()) as u32),
            _ => (self.random.between(1, 8) as u32, train),
        };
        let count = count.min(self.plan.count - self.next);
        let payload: Vec<u8> = (self.next..self.next + count).flat_map(|number| self.datagram(number, size as usize)).collect();
        let segment_size = (train > 0).then_some(self.plan.train_of);
        let send = UdpSend { len: payload.len(), to: Some(self.peer), segment_size, ..UdpSend::default() };
        let mut rest = &payload[..];
        let sent = stack.udp_send(now, self.id, &send, &mut |piece| {
            let (head, tail) = rest.split_at(piece.len());
            piece.copy_from_slice(head);
            rest = tail;
        });
        match sent {
            // A datagram that a full buffer refuses is lost, as on a wire.
            Ok(_) | Err(UdpSendError::WouldBlock) => {}
            // Segments of a UDP_SEGMENT write are never fragmented: the path may be too narrow for them.
            Err(UdpSendError::MessageTooLong) if train > 0 => {}
            Err(error) => return failure(format!("datagram {} of {} bytes: {error:?}", self.next, payload.len())),
        }
        self.next += count;
        self.due += self.plan.every;
        Ok(())
    }

    /// Makes the datagram with this number.
    fn datagram(&self, number: u32, size: usize) -> Vec<u8> {
        let mut bytes = vec![0; size];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        self.outgoing.fill(u64::from(number) * STRIDE, &mut bytes[4..]);
        bytes
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let Some((number, rest)) = bytes.split_first_chunk() else {
            return failure(format!("a datagram of {} bytes, never sent", bytes.len()));
        };
        let number = u32::from_be_bytes(*number);
        if number >= self.plan.count || self.incoming.matching(u64::from(number) * STRIDE, rest) < rest.len() {
            return failure(format!("datagram {number} of {} bytes is not what was sent", bytes.len()));
        }
        let times = self.taken.entry(number).or_default();
        *times += 1;
        if *times > COPIES_MAX { failure(format!("datagram {number} has come {times} times")) } else { Ok(()) }
    }
}

/// Far from the user tokens of the endpoints and of the listener.
const COOKIE: u64 = u64::MAX - 1;
/// Streams do not overlap within one table.
const STRIDE: u64 = 7_919;
/// A wire duplicates a packet once; one of a datagram's fragments may stand for another's.
const COPIES_MAX: u32 = 2;
