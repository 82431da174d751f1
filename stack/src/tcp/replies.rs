//! Segments that belong to no control block: resets, challenge ACKs of records, SYN-ACKs.
//!
//! Read RFC 9293 §3.5.2-3.5.3, RFC 5961 §7 first. The segments wait in a bounded queue until transmission; resets and
//! challenge ACKs are rate-limited for the whole stack.

use alloc::collections::VecDeque;

use ringway_shm::{Arena, Burst, Class, Frame, Instant};

use crate::env::Env;
use crate::ip::Flow;
use crate::stats::Counter;
use crate::wire::checksum;
use crate::wire::tcp::{ACK, CHECKSUM_OFFSET, Header, RST};

use super::demux::FlowKey;
use super::output::HEADROOM;
use super::segment::Segment;
use crate::wire::sequence::SeqNum;

/// Maximum number of segments in the queue.
const WAITING_MAX: usize = 1024;

/// A token bucket that is refilled once a second.
#[derive(Debug)]
pub(crate) struct RateLimit {
    per_second: u32,
    left: u32,
    second: u64,
}

/// See the module's text.
pub(crate) struct Replies {
    waiting: VecDeque<(FlowKey, u8, Header)>,
    limit: RateLimit,
    challenges: RateLimit,
    /// One packet for `Ip::send`.
    pub(crate) scratch: Burst,
}

impl RateLimit {
    /// `per_second` tokens a second.
    pub(crate) fn new(per_second: u32) -> RateLimit {
        RateLimit { per_second, left: per_second, second: 0 }
    }

    /// From the next second on there are so many tokens.
    pub(crate) fn set_rate(&mut self, per_second: u32) {
        self.per_second = per_second;
    }

    /// Like [`take`](RateLimit::take), with half to all of the tokens in each second, chosen by `random`.
    fn take_unpredictably(&mut self, now: Instant, random: u64) -> bool {
        let second = now.as_millis() / 1_000;
        if second != self.second {
            self.second = second;
            self.left = self.per_second.div_ceil(2) + (random % (self.per_second as u64 / 2 + 1)) as u32;
        }
        self.take(now)
    }

    /// Takes a token if there is one.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        let second = now.as_millis() / 1_000;
        if second != self.second {
            self.second = second;
            self.left = self.per_second;
        }
        let taken = self.left > 0;
        self.left -= taken as u32;
        taken
    }
}

impl Replies {
    /// An empty queue.
    pub(crate) fn new(per_second: u32) -> Replies {
        let limit = || RateLimit::new(per_second);
        Replies { waiting: VecDeque::new(), limit: limit(), challenges: limit(), scratch: Burst::with_capacity(4) }
    }

    /// From the next second on there are so many of each.
    pub(crate) fn set_rate(&mut self, per_second: u32) {
        self.limit.set_rate(per_second);
        self.challenges.set_rate(per_second);
    }

    /// Takes a token for a challenge ACK of a connection; counts the refusal.
    pub(crate) fn allow_challenge(&mut self, now: Instant, env: &mut Env, random: u64) -> bool {
        let allowed = self.challenges.take_unpredictably(now, random);
        if !allowed {
            env.counters.count(Counter::DropRateLimited);
        }
        allowed
    }

    /// Takes a token for a reset or the ACK of a record; counts the refusal.
    pub(crate) fn allow(&mut self, now: Instant, env: &mut Env) -> bool {
        let allowed = self.limit.take(now);
        if !allowed {
            env.counters.count(Counter::DropRateLimited);
        }
        allowed
    }

    /// Queues a segment; a full queue drops it.
    pub(crate) fn push(&mut self, key: FlowKey, tos: u8, header: Header) {
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back((key, tos, header));
        }
    }

    /// Drops the segments of a flow.
    pub(crate) fn forget(&mut self, key: &FlowKey) {
        self.waiting.retain(|(other, ..)| other != key);
    }

    /// Queues a segment of a flow without payload.
    pub(crate) fn push_flags(&mut self, key: FlowKey, flags: u8, sequence: SeqNum, acknowledgment: SeqNum) {
        let header = Header {
            source_port: key.local_port,
            destination_port: key.remote_port,
            sequence,
            acknowledgment,
            flags,
            ..Header::default()
        };
        self.push(key, 0, header);
    }

    /// RFC 9293 §3.10.7.1: the reset that answers a segment for which there is no connection.
    pub(crate) fn reset(&mut self, now: Instant, env: &mut Env, segment: &Segment) {
        if !segment.has(RST) && self.allow(now, env) {
            self.reset_once(env, segment);
        }
    }

    /// The same without the limit, for a caller that makes one for each connection it opens.
    pub(crate) fn reset_once(&mut self, env: &mut Env, segment: &Segment) {
        env.counters.count(Counter::TcpOutRsts);
        ringway_probes::tcp_send_reset(|| (segment.key.ends(),));
        if segment.has(ACK) {
            self.push_flags(segment.key, RST, segment.acknowledgment(), SeqNum(0));
        } else {
            self.push_flags(segment.key, RST | ACK, SeqNum(0), segment.end());
        }
    }

    /// Returns true when nothing waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Writes the waiting segments. Returns false when no frame was free.
    pub(crate) fn transmit(&mut self, now: Instant, env: &mut Env, out: &mut [Burst]) -> bool {
        while let Some((key, tos, header)) = self.waiting.front() {
            let ports = (key.local_port, key.remote_port);
            let flow = Flow { local: key.local, remote: key.remote, protocol: super::PROTOCOL, tos: *tos, ttl: 0, ports };
            let Some(frame) = write(env, &flow, header) else { return false };
            self.scratch.push(frame);
            let (ip, mut env) = env.ip_at(now);
            ip.send(&mut env, &flow, &mut self.scratch, out);
            self.waiting.pop_front();
        }
        true
    }
}

/// Writes a segment; `None`: no frame was free.
fn write(env: &mut Env, flow: &Flow, header: &Header) -> Option<Frame> {
    let arena: &Arena = env.arena;
    let Some(mut frame) = arena.alloc(Class::Small) else {
        env.counters.count(Counter::DropNoFrame);
        return None;
    };
    frame.reserve(HEADROOM);
    let len = header.len();
    header.emit(frame.push(len));
    let pseudo = checksum::pseudo_header(flow.local, flow.remote, flow.protocol, len as u32);
    let field = !checksum::add(pseudo, checksum::sum(frame.bytes()));
    frame.bytes_mut()[CHECKSUM_OFFSET..CHECKSUM_OFFSET + 2].copy_from_slice(&field.to_be_bytes());
    env.counters.count(Counter::TcpOutSegs);
    Some(frame)
}
