//! A bad wire in front of any device: loss, delay, jitter, rate, reordering, duplicates, corruption
//! and congestion marks, each direction with its own [`Impairments`].
//!
//! Promises: the same seed, packets and times give the same result. Knows only the time it is told:
//! call `receive` and `transmit` (also with an empty burst) when `poll_timeout` says. A super-segment
//! counts as one packet; put [`Offload`](crate::offload::Offload) in front to impair wire packets.

mod delay;
mod random;

use std::io;

use ringway_shm::{Arena, Burst, Duration, Frame, Instant, SegmentationKind};

use crate::run::{copy_packet, give_packet, packet_len, take_packet};
use crate::{Counters, Device};
use delay::DelayLine;
use random::Random;

/// The damage to packets in one direction. Probabilities are in parts per million; zero: never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Impairments {
    /// Probability that a packet is lost.
    pub loss_ppm: u32,
    /// Every so many packets, one is lost; 0: never.
    pub loss_every: u32,
    /// Probability that a loss burst begins with a packet.
    pub burst_start_ppm: u32,
    /// Probability that a loss burst ends after a packet.
    pub burst_end_ppm: u32,
    /// Time on the wire.
    pub delay: Duration,
    /// Added to `delay`: between zero and this, evenly. Never reorders.
    pub jitter: Duration,
    /// Bits per second; 0: without limit.
    pub rate_bits: u64,
    /// Bytes that may wait for the rate; more are lost.
    pub rate_queue_bytes: u64,
    /// Probability that a packet is held back by `reorder_by` while others overtake it.
    pub reorder_ppm: u32,
    /// The time for which a packet that is reordered is held back.
    pub reorder_by: Duration,
    /// Probability that a packet arrives twice.
    pub duplicate_ppm: u32,
    /// Probability that one bit behind the link header is flipped. Super-segments and packets whose
    /// checksum is not on the wire are lost instead, since no receiver could notice.
    pub corrupt_ppm: u32,
    /// Probability that an ECN-capable packet is marked CE (RFC 3168 §5).
    pub mark_ppm: u32,
    /// ECN-capable packets are marked CE when more bytes than this wait for the rate (RFC 7567 §4.2.1); 0: never.
    pub mark_above_bytes: u64,
    /// Packets under way at most; more are lost.
    pub packets_max: usize,
}

impl Default for Impairments {
    fn default() -> Impairments {
        Impairments {
            loss_ppm: 0,
            loss_every: 0,
            burst_start_ppm: 0,
            burst_end_ppm: 500_000,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            rate_bits: 0,
            rate_queue_bytes: 256 * 1024,
            reorder_ppm: 0,
            reorder_by: Duration::from_millis(1),
            duplicate_ppm: 0,
            corrupt_ppm: 0,
            mark_ppm: 0,
            mark_above_bytes: 0,
            packets_max: 10_000,
        }
    }
}

/// Counters of the damage in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    /// Lost, for any reason.
    pub lost: u64,
    /// Of those, the ones that found a queue full.
    pub overflowed: u64,
    /// Delivered twice.
    pub duplicated: u64,
    /// Delivered with a flipped bit.
    pub corrupted: u64,
    /// Held back.
    pub reordered: u64,
    /// Marked CE.
    pub marked: u64,
}

/// One direction.
struct Lane {
    options: Impairments,
    random: Random,
    line: DelayLine,
    seen: u64,
    in_burst: bool,
    damage: Damage,
    link_bytes: usize,
}

/// The middleware; see the module's text.
pub struct Impair {
    inner: Box<dyn Device>,
    arena: Arena,
    outward: Lane,
    inward: Lane,
    staged: Burst,
    arriving: Burst,
    packet: Vec<Frame>,
}

impl Impair {
    /// Impairs `inner`; copies (duplicates, corruption) are frames of `arena`.
    pub fn new(inner: Box<dyn Device>, arena: &Arena, seed: u64, transmit: Impairments, receive: Impairments) -> Impair {
        let link_bytes = inner.capabilities().medium.header_bytes();
        Impair {
            inner,
            arena: arena.clone(),
            outward: Lane::new(transmit, seed, link_bytes),
            inward: Lane::new(receive, seed ^ 0x9e37_79b9_7f4a_7c15, link_bytes),
            staged: Burst::default(),
            arriving: Burst::default(),
            packet: Vec::new(),
        }
    }

    /// Returns the damage to packets that were sent and to packets that were received.
    pub fn damage(&self) -> (Damage, Damage) {
        (self.outward.damage, self.inward.damage)
    }

    /// Sends what is due.
    fn flush(&mut self, now: Instant) -> io::Result<()> {
        self.outward.line.release(now, &mut self.staged);
        while !self.staged.is_empty() && self.inner.transmit(now, &mut self.staged)? > 0 {}
        Ok(())
    }
}

impl Lane {
    fn new(options: Impairments, seed: u64, link_bytes: usize) -> Lane {
        let (random, line) = (Random::new(seed), DelayLine::default());
        Lane { options, random, line, seen: 0, in_burst: false, damage: Damage::default(), link_bytes }
    }

    /// Decides what happens to `packet` and leaves it empty.
    fn pass(&mut self, now: Instant, arena: &Arena, packet: &mut Vec<Frame>) {
        self.seen += 1;
        if self.is_lost() {
            return self.lose(packet);
        }
        if self.line.len() >= self.options.packets_max {
            return self.overflow(packet);
        }
        let above = self.options.mark_above_bytes;
        let queued = above > 0 && self.line.waiting_bytes(now, &self.options) > above;
        if (self.random.chance(self.options.mark_ppm) || queued) && self.mark(arena, packet) {
            self.damage.marked += 1;
        }
        if self.random.chance(self.options.corrupt_ppm) {
            if !self.corrupt(arena, packet) {
                return self.lose(packet);
            }
            self.damage.corrupted += 1;
        }
        let Some(due) = self.line.due(now, packet_len(packet), &self.options, &mut self.random) else {
            return self.overflow(packet);
        };
        if self.random.chance(self.options.duplicate_ppm)
            && let Some(copy) = copy_packet(arena, packet)
        {
            self.damage.duplicated += 1;
            self.line.put(due, copy);
        }
        let mut due = due;
        if self.random.chance(self.options.reorder_ppm) {
            self.damage.reordered += 1;
            due += self.options.reorder_by;
        }
        self.line.put(due, std::mem::take(packet));
    }

    fn lose(&mut self, packet: &mut Vec<Frame>) {
        self.damage.lost += 1;
        packet.clear();
    }

    fn overflow(&mut self, packet: &mut Vec<Frame>) {
        self.damage.overflowed += 1;
        self.lose(packet);
    }

    fn is_lost(&mut self) -> bool {
        let options = &self.options;
        let every = options.loss_every != 0 && self.seen.is_multiple_of(u64::from(options.loss_every));
        if self.in_burst {
            self.in_burst = !self.random.chance(options.burst_end_ppm);
            return true;
        }
        if self.random.chance(options.burst_start_ppm) {
            self.in_burst = !self.random.chance(options.burst_end_ppm);
            return true;
        }
        every || self.random.chance(options.loss_ppm)
    }

    /// Flips one bit of a copy of the packet. `false`: no receiver could notice, or there is no memory.
    fn corrupt(&mut self, arena: &Arena, packet: &mut Vec<Frame>) -> bool {
        let len = packet_len(packet);
        if packet[0].segmentation().kind != SegmentationKind::None || len <= self.link_bytes {
            return false;
        }
        let Some(mut copy) = copy_packet(arena, packet) else { return false };
        if !crate::offload::complete(arena, &mut copy) {
            return false;
        }
        copy[0].set_checksum(ringway_shm::Checksum::Complete);
        let bit = self.random.below((len - self.link_bytes) as u64 * 8);
        let mut at = self.link_bytes + (bit / 8) as usize;
        for frame in &mut copy {
            if at < frame.len() {
                frame.bytes_mut()[at] ^= 1 << (bit % 8);
                break;
            }
            at -= frame.len();
        }
        *packet = copy;
        true
    }

    /// Marks an ECN-capable packet CE, in a copy when the bytes are shared. `false`: it is not capable.
    fn mark(&mut self, arena: &Arena, packet: &mut Vec<Frame>) -> bool {
        let ip = self.link_bytes;
        let version = packet[0].bytes().get(ip).map_or(0, |byte| byte >> 4);
        let header = if version == 4 { 20 } else { 40 };
        if !matches!(version, 4 | 6) || packet[0].len() < ip + header {
            return false;
        }
        if !packet[0].is_exclusive() {
            let Some(copy) = copy_packet(arena, packet) else { return false };
            *packet = copy;
        }
        let bytes = packet[0].bytes_mut();
        if version == 4 { mark_ipv4(&mut bytes[ip..]) } else { mark_ipv6(&mut bytes[ip..]) }
    }
}

const ECN_MASK: u8 = 3;

fn mark_ipv4(ip: &mut [u8]) -> bool {
    let before = u16::from_be_bytes([ip[0], ip[1]]);
    if ip[1] & ECN_MASK == 0 || ip[1] & ECN_MASK == ECN_MASK {
        return false;
    }
    ip[1] |= ECN_MASK;
    // RFC 1624: HC' = ~(~HC + ~m + m').
    let after = u16::from_be_bytes([ip[0], ip[1]]);
    let old = u16::from_be_bytes([ip[10], ip[11]]);
    let sum = !crate::checksum::fold(u64::from(!old) + u64::from(!before) + u64::from(after));
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    true
}

fn mark_ipv6(ip: &mut [u8]) -> bool {
    let bits = (ip[1] >> 4) & ECN_MASK;
    if bits == 0 || bits == ECN_MASK {
        return false;
    }
    ip[1] |= ECN_MASK << 4;
    true
}

impl crate::Middleware for Impair {
    fn inner(&self) -> &dyn Device {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Device {
        &mut *self.inner
    }

    fn receive(&mut self, now: Instant, burst: &mut Burst) -> io::Result<usize> {
        let received = self.inner.receive(now, &mut self.arriving);
        while take_packet(&mut self.arriving, &mut self.packet) {
            self.inward.pass(now, &self.arena, &mut self.packet);
        }
        let count = self.inward.line.release(now, burst);
        received?;
        self.flush(now)?;
        Ok(count)
    }

    fn transmit(&mut self, now: Instant, burst: &mut Burst) -> io::Result<usize> {
        let mut count = 0;
        while take_packet(burst, &mut self.packet) {
            self.outward.pass(now, &self.arena, &mut self.packet);
            count += 1;
        }
        self.flush(now)?;
        Ok(count)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        [self.outward.line.next(), self.inward.line.next(), self.inner.poll_timeout()].into_iter().flatten().min()
    }

    fn counters(&self) -> Counters {
        let inner = self.inner.counters();
        Counters {
            rx_dropped: inner.rx_dropped + self.inward.damage.lost,
            tx_dropped: inner.tx_dropped + self.outward.damage.lost,
            ..inner
        }
    }
}

/// Takes every packet of `line` that is due.
impl DelayLine {
    fn release(&mut self, now: Instant, burst: &mut Burst) -> usize {
        let mut count = 0;
        while let Some(mut packet) = self.take_due(now) {
            give_packet(burst, &mut packet);
            count += 1;
        }
        count
    }
}

#[cfg(test)]
mod tests;
