//! Both ends of a conversation without I/O: the server answers; the client asks, checks and measures the time.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use super::http;
use super::latency::Latencies;
use super::log::Entry;
use super::message::{Corrupt, Header, Inbox, Outbox};
use super::order::{Outcome, Pace, Plan};
use super::schedule::Schedule;

/// The server's end of a connection. It takes one word until bytes arrive, because servers keep one per connection and
/// `memory` measures them.
#[derive(Debug, Default)]
pub struct Responder(Option<Box<Conversation>>);

/// The server's state of a connection that has sent bytes.
#[derive(Debug, Default)]
struct Conversation {
    inbox: Inbox,
    /// The client speaks HTTP.
    http: Option<http::Requests>,
    /// Number of answered requests.
    answered: u64,
    /// Replies to send.
    outbox: Outbox,
}

impl Responder {
    /// Number of requests answered so far.
    pub fn answered(&self) -> u64 {
        self.0.as_ref().map_or(0, |conversation| conversation.answered)
    }

    /// Replies to send, if there are any.
    pub fn outbox(&mut self) -> Option<&mut Outbox> {
        self.0.as_mut().map(|conversation| &mut conversation.outbox).filter(|outbox| !outbox.is_empty())
    }

    /// Takes received bytes and puts the replies into the outbox.
    ///
    /// # Errors
    /// The client sent something other than requests.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(), Corrupt> {
        let Conversation { inbox, outbox, http, answered } = &mut **self.0.get_or_insert_default();
        if *answered == 0 && http.is_none() && bytes.starts_with(http::BEGINNING) {
            *http = Some(http::Requests::default());
        }
        if let Some(requests) = http {
            let count = requests.feed(bytes);
            *answered += count as u64;
            (0..count).for_each(|_| outbox.push_fixed(http::reply()));
            return Ok(());
        }
        inbox.feed(bytes, |request| {
            *answered += 1;
            outbox.push(Header { length: request.wanted, wanted: request.length, tag: request.tag });
            Ok(())
        })
    }
}

/// The client's end of a connection.
#[derive(Debug, Default)]
struct Asker {
    inbox: Inbox,
    http: http::Replies,
    outbox: Outbox,
    /// Intended times of the requests without a reply.
    under_way: VecDeque<Instant>,
    next_tag: u64,
    /// Replies on this connection since it was opened.
    replies: u32,
    /// Bytes of the reply, from the log.
    wanted: u32,
    /// Replies in the measured time, over all connections with this number.
    measured: u64,
}

/// The driver's next step for a connection that has received bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Continue with it.
    Continue,
    /// The connection has carried its share: close it, open another one and call `reopened`.
    Replace,
}

/// The phases of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    Warmup,
    Measured,
    /// No new requests; outstanding replies still arrive.
    Draining,
}

/// All connections of a client, and the run.
#[derive(Debug)]
pub struct Load {
    plan: Plan,
    askers: Vec<Asker>,
    latencies: Latencies,
    phase: Phase,
    begun: Instant,
    measured_from: Instant,
    measured_to: Instant,
    schedule: Option<Schedule>,
    /// Requests still to replay.
    log: VecDeque<Entry>,
    /// The next request of the log is due and there is no free connection.
    is_blocked: bool,
    /// Connections without a request; open loop only.
    free: VecDeque<usize>,
    /// Intended times of requests that wait for a free connection.
    waiting: VecDeque<Instant>,
    replies_in_all: u64,
    opened: u64,
    late: u64,
    stream_bytes: u64,
    in_flight: usize,
}

/// Bytes of a piece of a stream, and pieces in flight over all streams.
pub const PIECE: u32 = 256 << 10;
const PIECES: u32 = 32;

impl Load {
    /// Creates the load of a plan; the driver then opens its connections.
    pub fn new(plan: Plan, now: Instant) -> Load {
        let connections = plan.connections as usize;
        Load {
            plan,
            askers: (0..connections).map(|_| Asker::default()).collect(),
            latencies: Latencies::default(),
            phase: Phase::Idle,
            begun: now,
            measured_from: now,
            measured_to: now,
            schedule: None,
            log: VecDeque::new(),
            is_blocked: false,
            free: (0..connections).collect(),
            waiting: VecDeque::new(),
            replies_in_all: 0,
            opened: 0,
            late: 0,
            stream_bytes: 0,
            in_flight: 0,
        }
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns true when connections are replaced after their share.
    pub fn is_short(&self) -> bool {
        matches!(self.plan.pace, Pace::Short(_))
    }

    /// Returns true when requests begin at intended times.
    pub fn is_open_loop(&self) -> bool {
        matches!(self.plan.pace, Pace::Poisson(_) | Pace::Fixed(_) | Pace::Log)
    }

    /// Returns true when each request has its own connection: the driver must open those that `begin` and `tick` name.
    pub fn opens_each(&self) -> bool {
        self.plan.pace == Pace::Log
    }

    /// Generates or reads the log for a run of this length; the driver calls it before `begin`.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn load_log(&mut self, length: Duration, seed: u64) -> io::Result<()> {
        if let Some((source, copies)) = &self.plan.log {
            self.log = source.entries(*copies, length, seed)?.into();
            self.is_blocked = false;
        }
        Ok(())
    }

    /// Begins a run, which is measured within `measured`. Calls `touch` for each connection with bytes to send.
    pub fn begin(&mut self, now: Instant, measured: Range<Instant>, seed: u64, mut touch: impl FnMut(usize)) {
        self.latencies.clear();
        (self.replies_in_all, self.opened, self.late, self.stream_bytes) = (0, 0, 0, 0);
        self.askers.iter_mut().for_each(|asker| asker.measured = 0);
        if self.is_short() {
            self.askers.fill_with(Asker::default);
        }
        (self.begun, self.measured_from, self.measured_to) = (now, measured.start, measured.end);
        self.schedule = Schedule::of(self.plan.pace, seed);
        self.phase = Phase::Warmup;
        if self.schedule.is_none() && !self.opens_each() {
            for index in 0..self.askers.len() {
                let depth = if self.is_stream(index) { (PIECES / self.plan.streams).max(2) } else { self.plan.depth.max(1) };
                for _ in 0..depth {
                    self.ask(index, now);
                }
                touch(index);
            }
        }
    }

    /// Returns true when the connection is a stream.
    fn is_stream(&self, index: usize) -> bool {
        index < self.plan.streams as usize
    }

    fn reply_of(&self, index: usize) -> u32 {
        match self.plan.pace {
            _ if self.is_stream(index) => PIECE,
            Pace::Log => self.askers[index].wanted,
            _ => self.plan.reply,
        }
    }

    fn ask(&mut self, index: usize, intended: Instant) {
        let wanted = self.reply_of(index);
        let asker = &mut self.askers[index];
        if self.plan.http {
            asker.outbox.push_fixed(http::REQUEST);
        } else {
            asker.outbox.push(Header { length: self.plan.request, wanted, tag: asker.next_tag });
        }
        asker.next_tag += 1;
        asker.under_way.push_back(intended);
        self.in_flight += 1;
    }

    /// Advances the phase and starts due requests. Calls `touch` for each connection with bytes to send.
    pub fn tick(&mut self, now: Instant, mut touch: impl FnMut(usize)) {
        if self.phase == Phase::Warmup && now >= self.measured_from {
            self.phase = Phase::Measured;
        }
        if matches!(self.phase, Phase::Warmup | Phase::Measured) && now >= self.measured_to {
            self.phase = Phase::Draining;
            self.schedule = None;
            self.waiting.clear();
            self.log.clear();
        }
        self.replay(now, &mut touch);
        let Some(mut schedule) = self.schedule.take() else { return };
        while self.begun + schedule.next() <= now {
            let intended = self.begun + schedule.next();
            schedule.step();
            match self.free.pop_front() {
                Some(index) => {
                    self.ask(index, intended);
                    touch(index);
                }
                None => {
                    self.late += 1;
                    self.waiting.push_back(intended);
                }
            }
        }
        self.schedule = Some(schedule);
    }

    /// Starts the log's due requests, on connections that the driver then opens.
    fn replay(&mut self, now: Instant, touch: &mut impl FnMut(usize)) {
        while let Some(entry) = self.log.front().copied().filter(|entry| self.begun + entry.at <= now) {
            let Some(index) = self.free.pop_front() else {
                self.is_blocked = true;
                return;
            };
            self.log.pop_front();
            self.late += u64::from(std::mem::take(&mut self.is_blocked));
            let measured = self.askers[index].measured;
            self.askers[index] = Asker { measured, wanted: entry.size, ..Asker::default() };
            self.opened += 1;
            self.ask(index, self.begun + entry.at);
            touch(index);
        }
    }

    /// Returns true when the run is over and no reply is outstanding.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Draining && self.in_flight == 0
    }

    /// Returns true when the measured time is over.
    pub fn is_draining(&self) -> bool {
        self.phase == Phase::Draining
    }

    /// Puts the first request on a connection that the driver began to open at `begun`.
    pub fn reopened(&mut self, index: usize, begun: Instant) {
        self.opened += 1;
        let measured = self.askers[index].measured;
        self.askers[index] = Asker { measured, ..Asker::default() };
        self.ask(index, begun);
    }

    /// Bytes to send on a connection.
    pub fn outbox(&mut self, index: usize) -> &mut Outbox {
        &mut self.askers[index].outbox
    }

    /// Takes received bytes of a connection and sends further requests according to the pace.
    ///
    /// # Errors
    /// The server sent something other than the expected replies.
    pub fn receive(&mut self, index: usize, now: Instant, bytes: &[u8]) -> Result<Next, Corrupt> {
        let (is_stream, reply) = (self.is_stream(index), self.reply_of(index));
        let is_measured = self.phase == Phase::Measured;
        let Asker { inbox, http, under_way, next_tag, .. } = &mut self.askers[index];
        let first = *next_tag - under_way.len() as u64;
        let (mut tag, mut count) = (first, 0);
        let latencies = &mut self.latencies;
        let mut take = |header: Header| {
            if header.tag != tag || header.length != reply {
                return Err(Corrupt::Tag(header.tag));
            }
            let intended = under_way.pop_front().ok_or(Corrupt::Tag(tag))?;
            if is_measured && !is_stream {
                latencies.add(now.saturating_duration_since(intended));
            }
            (tag, count) = (tag + 1, count + 1);
            Ok(())
        };
        if self.plan.http {
            // HTTP replies have no tag; they arrive in order.
            for step in 0..http.feed(bytes)? as u64 {
                take(Header { length: reply, wanted: reply, tag: first + step })?;
            }
        } else {
            inbox.feed(bytes, take)?;
        }
        let asker = &mut self.askers[index];
        asker.replies += count;
        if is_stream {
            self.stream_bytes += if is_measured { u64::from(count) * u64::from(reply) } else { 0 };
        } else {
            asker.measured += if is_measured { u64::from(count) } else { 0 };
        }
        self.replies_in_all += u64::from(count);
        self.in_flight -= count as usize;
        Ok(self.go_on(index, now, count))
    }

    fn go_on(&mut self, index: usize, now: Instant, count: u32) -> Next {
        match self.plan.pace {
            Pace::Short(share) if self.askers[index].replies >= share => return Next::Replace,
            Pace::Poisson(_) | Pace::Fixed(_) => {
                for _ in 0..count {
                    match self.waiting.pop_front() {
                        Some(intended) => self.ask(index, intended),
                        None => self.free.push_back(index),
                    }
                }
            }
            // Reuse the last used connection first, so that no more are open than were needed at once.
            Pace::Log => (0..count).for_each(|_| self.free.push_front(index)),
            Pace::Closed | Pace::Short(_) => {
                let more = if self.phase == Phase::Draining { 0 } else { count };
                (0..more).for_each(|_| self.ask(index, now));
            }
        }
        Next::Continue
    }

    /// Result of the run.
    pub fn outcome(&self) -> Outcome {
        let small = &self.askers[(self.plan.streams as usize).min(self.askers.len())..];
        let shares = || small.iter().map(|asker| asker.measured);
        let replies: u64 = shares().sum();
        let squares: f64 = shares().map(|share| (share as f64).powi(2)).sum();
        let mut outcome = Outcome {
            replies,
            replies_in_all: self.replies_in_all,
            seconds: (self.measured_to - self.measured_from).as_secs_f64(),
            opened: self.opened,
            late: self.late,
            stream_bytes: self.stream_bytes,
            most: shares().max().unwrap_or(0),
            fewest: shares().min().unwrap_or(0),
            fairness: if squares > 0.0 { (replies as f64).powi(2) / (small.len() as f64 * squares) } else { 0.0 },
            ..Outcome::default()
        };
        self.latencies.tell(&mut outcome);
        outcome
    }
}

#[cfg(test)]
mod tests;
