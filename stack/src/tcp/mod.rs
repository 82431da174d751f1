//! TCP: the connections of a stack, their tables, lists and queues.
//!
//! Read RFC 9293 first. One file per mechanism; this one has the path of a burst through them: [`Tcp::receive`] finds the
//! connection of each segment, which changes state and marks itself, [`Tcp::transmit`] writes control segments and then data
//! of the marked connections, [`Tcp::handle_timeout`] wakes connections with a deadline that has come. Cost follows marked
//! connections, never open ones. IP verifies checksums before.

mod accurate;
mod ack;
mod acknowledged;
mod arrival;
mod challenge;
mod chrono;
mod close;
mod coalesce;
mod cold;
pub mod congestion;
mod conn_stats;
mod connect;
mod connection;
mod control;
mod cookie;
mod cork;
pub(crate) mod demux;
mod dsack;
mod ecn;
mod ended;
mod fast_open;
mod fast_open_client;
mod fast_open_server;
mod fast_path;
mod fast_send;
mod frto;
pub mod handover;
mod icmp;
mod info;
mod input;
mod interactive;
pub(crate) mod isn;
mod limits;
mod listener;
mod low_water;
mod migrating_flows;
mod mtu_probe;
mod observe;
mod output;
mod owners;
mod pacing;
mod passive;
mod path_mtu;
pub(crate) mod ports;
mod prr;
mod push;
mod rack;
mod ranges;
mod rate;
mod rate_based;
mod reap;
mod reassembly;
mod receive_mss;
mod receive_queue;
mod receive_tuning;
mod replies;
mod retransmit;
mod rtt;
mod sack;
mod sack_blocks;
mod sampling;
mod scheduler;
mod segment;
mod send_queue;
mod send_tuning;
mod shared_rate;
mod siphash;
mod slow_starts;
mod socket;
mod state;
mod syn_queue;
mod table;
mod tcb;
mod time_wait;
mod timeout;
mod timestamps;
mod tlp;
mod undo;
mod urgent;
mod windows;
mod xmit_times;

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use ringway_shm::{Arena, Burst, Fifo, Frame, Instant};

use crate::admission::{Backlog, FrameUse};
use crate::config::{CongestionControl, StackConfig, TcpConfig};
use crate::env::Env;
use crate::event::SocketId;
use crate::ip::{Datagram, Datagrams};
use crate::stats::Counter;
use crate::timer::{self, Moment, TimerWheel};
use crate::wire::tcp::SYN;

pub use ended::EndedConnection;
pub use info::{MarkInfo, Protocol, SocketSummary, SocketTimer, TcpInfo};
pub use observe::Observation;
pub use output::HEADROOM;
pub use owners::OwnerUse;
pub(crate) use send_queue::sendable_frames;
pub use shared_rate::{SharedRate, SharedRates};
pub use socket::ActiveOpen;
pub use state::State;

use crate::wire::sequence::SeqNum;
use arrival::Arrival;
use connection::{Connection, Shared};
pub(crate) use demux::FlowKey;
use demux::{FlowHasher, FlowTable, Target};
use listener::Listeners;
use output::Progress;
use rtt::Timing;
use segment::Segment;
use syn_queue::SynQueue;
use tcb::{Tcb, flag};
use time_wait::{TimeWait, Verdict};

/// IPPROTO_TCP
pub(crate) const PROTOCOL: u8 = 6;
/// Control segments written by one `transmit`, at most.
const CONTROL_MAX: usize = 1024;
/// Distance, in list entries, at which control blocks are prefetched.
const TIMED_AHEAD: usize = 8;
/// Timers handled by one `handle_timeout`, at most.
const EXPIRIES_MAX: usize = 256;
/// In the timer wheel: the owner is a SYN-queue record.
const HALF_OPEN_BIT: u32 = 1 << 31;
/// Time until transmission is tried again after no frame was free, milliseconds.
const RETRY_MS: u64 = 1;

/// TCP of one stack.
pub(crate) struct Tcp {
    tcbs: Vec<Tcb>,
    free: Vec<u32>,
    connections_max: u32,
    hasher: FlowHasher,
    flows: FlowTable,
    listeners: Listeners,
    syn_queue: SynQueue,
    owners: owners::Owners,
    time_wait: TimeWait,
    shared: Shared,
    port_counters: ports::PortCounters,
    migrating_flows: migrating_flows::MigratingFlows,
    /// Connections that were exported: their segments find silence.
    holds: handover::Holds,
    scheduler: scheduler::Scheduler,
    ends: ended::Ends,
    now: Instant,
    /// Time of the next try after transmission found no frame.
    retry_at: Option<Instant>,
    /// Scratch: lookup results of a burst's segments.
    arrivals: Vec<Arrival>,
    /// Scratch: expired timers.
    expired: Vec<(u32, u32)>,
}

impl Tcp {
    /// Returns all frames of the connections to the arena when the stack ends.
    pub(crate) fn give_back_frames(&mut self, arena: &Arena) {
        for tcb in &mut self.tcbs {
            tcb.clear_send_queue(arena);
            tcb.clear_receive_queue(arena);
            self.shared.cold.release(arena, tcb);
        }
    }

    /// Empty tables with the limits of `config`.
    pub(crate) fn new(config: &StackConfig, now: Instant) -> Tcp {
        Tcp {
            tcbs: Vec::new(),
            free: Vec::new(),
            connections_max: config.connections_max,
            hasher: FlowHasher::new(config.seed),
            flows: FlowTable::new(),
            listeners: Listeners::new(config.listeners_max),
            syn_queue: SynQueue::new(config.syn_queue_max),
            owners: owners::Owners::new(config.half_open_per_owner_max),
            time_wait: TimeWait::new(config.time_wait_max, config.tcp.time_wait.as_micros()),
            shared: Shared {
                config: config.tcp.clone(),
                moment: Moment::at(now),
                timing: Timing::of(&config.tcp),
                shortest_delay_ends: 0,
                cold: cold::ColdPool::default(),
                slow_starts: slow_starts::SlowStarts::default(),
                own_controls: congestion::controller::OwnControls::default(),
                conn_stats: conn_stats::ConnStatsTable::new(config.connections_max),
                timers: TimerWheel::new(now),
                secrets: isn::Secrets::new(config.seed),
                fast_open: fast_open::Shared::new(config.seed, config.tcp.fast_open.keys),
                replies: replies::Replies::new(config.replies_per_second),
                control: Fifo::new(),
                data: Fifo::new(),
                starved: BTreeSet::new(),
                backlog: Backlog::default(),
                delayed: Fifo::new(),
                ended: Vec::new(),
                #[cfg(test)]
                long_way_only: false,
                #[cfg(test)]
                fast_segments: 0,
            },
            port_counters: ports::PortCounters::new(config.seed),
            migrating_flows: migrating_flows::MigratingFlows::new(),
            holds: handover::Holds::new(config.connections_max),
            scheduler: scheduler::Scheduler::default(),
            ends: ended::Ends::default(),
            now,
            retry_at: None,
            arrivals: Vec::new(),
            expired: Vec::new(),
        }
    }

    /// Adds a congestion control of the program's own.
    pub(crate) fn add_congestion_control(&mut self, make: congestion::controller::Make) -> CongestionControl {
        self.shared.own_controls.add(make)
    }

    /// Replaces the settings.
    pub(crate) fn set_config(&mut self, config: TcpConfig) {
        self.shared.timing = Timing::of(&config);
        self.shared.config = config;
        // The settings decide about pacing.
        self.tcbs.iter_mut().for_each(|tcb| tcb.prediction.unmark());
    }

    /// One connection with everything it needs.
    fn connection<'a, 'e>(&'a mut self, env: &'a mut Env<'e>, index: u32) -> Connection<'a, 'e> {
        Connection { index, now: self.now, tcb: &mut self.tcbs[index as usize], shared: &mut self.shared, env }
    }

    fn set_now(&mut self, now: Instant) {
        self.now = now;
        self.shared.moment = Moment::at(now);
        self.shared.shortest_delay_ends = self.shared.moment.tick_after(self.shared.timing.ack_delay_min_us);
    }

    /// Turns the fast paths off, to show that they do the same as the slow path.
    #[cfg(test)]
    pub(crate) fn take_the_long_way(&mut self) {
        self.shared.long_way_only = true;
    }

    /// Number of segments that have taken the fast paths, in and out.
    #[cfg(test)]
    pub(crate) fn fast_segments(&self) -> u64 {
        self.shared.fast_segments
    }

    /// Number of connections that have rare statistics.
    #[cfg(test)]
    pub(crate) fn rare_stats_count(&self) -> usize {
        self.tcbs.iter().filter(|tcb| tcb.has_rare_stats).count()
    }

    /// Number of connections that may receive segments.
    #[inline]
    pub(crate) fn flows(&self) -> usize {
        self.flows.len()
    }

    /// Processes the segments of a burst: hashes all, prefetches the memory of all, then processes each.
    #[inline(never)]
    pub(crate) fn receive(&mut self, now: Instant, env: &mut Env, datagrams: &mut Datagrams) {
        self.set_now(now);
        let mut arrivals = core::mem::take(&mut self.arrivals);
        self.look_up(datagrams, &mut arrivals);
        env.counters.add(Counter::TcpInSegs, arrivals.len() as u64);
        let Datagrams { headers, packets } = &mut *datagrams;
        let mut last: Option<(Segment, u32)> = None;
        for (datagram, arrival) in headers.iter().zip(&arrivals) {
            let Some(first) = packets.pop() else { break };
            if arrival.alone && last.is_some() {
                self.finish(env, last.take());
            }
            let first = match arrival.likely {
                Some(index) => match self.receive_alone(env, datagram, index, first) {
                    Ok(()) => continue,
                    Err(first) => first,
                },
                None => first,
            };
            if arrival.alone {
                self.receive_unmerged(env, (datagram, arrival), first, packets);
                continue;
            }
            let Some(segment) = Segment::take(datagram, first, packets) else {
                env.counters.count(Counter::TcpInErrs);
                continue;
            };
            let apart = match &mut last {
                Some((last, last_hash)) if *last_hash == arrival.hash => last.coalesce(env.arena, segment),
                _ => Some(segment),
            };
            match apart {
                Some(segment) => self.finish(env, last.replace((segment, arrival.hash))),
                None => env.counters.count(Counter::TcpRcvCoalesce),
            }
        }
        self.finish(env, last);
        datagrams.clear();
        arrivals.clear();
        self.arrivals = arrivals;
    }

    /// Takes the slow path with a packet that cannot be coalesced: its segment stays where it was read.
    #[inline(never)]
    fn receive_unmerged(&mut self, env: &mut Env, place: (&Datagram, &Arrival), first: Frame, packets: &mut Burst) {
        let (datagram, arrival) = place;
        let Some(mut segment) = Segment::take(datagram, first, packets) else {
            return env.counters.count(Counter::TcpInErrs);
        };
        let is_open = |tcb: &Tcb| tcb.state() != State::Closed && tcb.is_of(datagram);
        match arrival.likely.filter(|&index| is_open(&self.tcbs[index as usize])) {
            Some(index) => {
                // An open connection is in the flow table under its key.
                debug_assert_eq!(self.find(&segment, arrival.hash), Some(Target::Connection(index)));
                self.connection(env, index).receive(&mut segment);
                self.leave(env, &mut segment);
            }
            None => self.work_on(env, &mut segment, arrival.hash),
        }
    }

    /// Processes a segment that nothing more is coalesced with.
    fn finish(&mut self, env: &mut Env, segment: Option<(Segment, u32)>) {
        if let Some((mut segment, hash)) = segment {
            self.work_on(env, &mut segment, hash);
        }
    }

    fn work_on(&mut self, env: &mut Env, segment: &mut Segment, hash: u32) {
        self.receive_one(env, segment, hash);
        self.leave(env, segment);
    }

    /// Frees what is left of a processed segment and reaps connections that it ended.
    fn leave(&mut self, env: &mut Env, segment: &mut Segment) {
        segment.discard(env.arena);
        self.settle(env);
    }

    /// Notes that the application has taken the event of this socket: the next one is reported again.
    #[inline]
    pub(crate) fn told(&mut self, id: SocketId) {
        if let Some(tcb) = self.tcbs.get_mut(id.index as usize).filter(|tcb| tcb.generation == id.generation) {
            tcb.clear(flag::SIGNALLED);
        }
    }

    fn receive_one(&mut self, env: &mut Env, segment: &mut Segment, hash: u32) {
        match self.find(segment, hash) {
            Some(Target::Connection(index)) => self.connection(env, index).receive(segment),
            Some(Target::HalfOpen(index)) => self.receive_half_open(env, index, segment),
            Some(Target::TimeWait(index)) => self.receive_in_time_wait(env, index, segment, hash),
            None => self.receive_unknown(env, segment, None),
        }
    }

    fn find(&self, segment: &Segment, hash: u32) -> Option<Target> {
        let key = &segment.key;
        let ports = u32::from(key.remote_port) << 16 | u32::from(key.local_port);
        self.flows.find(hash, |target| match target {
            Target::Connection(index) => {
                let tcb = &self.tcbs[index as usize];
                tcb.has_ports(ports) && tcb.template.is_between(key.local, key.remote)
            }
            Target::HalfOpen(index) => self.syn_queue.get(index).is_some_and(|record| record.key == *key),
            Target::TimeWait(index) => self.time_wait.get(index).is_some_and(|record| record.key == *key),
        })
    }

    /// The connection of a flow, and its owner's name for it.
    pub(crate) fn connection_of(&self, key: &demux::FlowKey) -> Option<(SocketId, u64)> {
        let Some(Target::Connection(index)) = self.target_of(key) else { return None };
        let tcb = &self.tcbs[index as usize];
        Some((SocketId { index, generation: tcb.generation }, tcb.user_token))
    }

    /// RFC 9293 §3.10.7.1-2: no connection; perhaps a listener.
    fn receive_unknown(&mut self, env: &mut Env, segment: &mut Segment, iss_min: Option<SeqNum>) {
        let key = &segment.key;
        if !env.ip.has_flow((key.local, key.local_port), (key.remote, key.remote_port)) {
            return env.counters.count(Counter::DropElsewhere);
        }
        if self.holds.covers(key) {
            return env.counters.count(Counter::DropHandedOver);
        }
        match self.listeners.find_for(key.local, key.local_port, || self.hasher.hash(key)) {
            Some(listener) => self.receive_in_listen(env, listener, segment, iss_min),
            None => {
                env.counters.count(Counter::DropNoSocket);
                self.shared.replies.reset(self.now, env, segment);
            }
        }
    }

    fn receive_in_time_wait(&mut self, env: &mut Env, index: u32, segment: &mut Segment, hash: u32) {
        let Some(record) = self.time_wait.get(index) else { return };
        let (ip, port) = (segment.key.local, segment.key.local_port);
        let verdict = match record.judge(segment) {
            // RFC 9293 §3.10.7.4, fourth: without a listener, a SYN is answered as in any other state.
            Verdict::Reuse { .. } if self.listeners.find(ip, port).is_none() => Verdict::Acknowledge { restart: false },
            verdict => verdict,
        };
        match verdict {
            Verdict::Ignore => {}
            Verdict::Acknowledge { restart } => {
                if restart {
                    self.forget_time_wait(index, hash);
                    self.remember_time_wait(env, record, hash);
                }
                if self.shared.replies.allow(self.now, env) {
                    let header = record.acknowledgment(self.shared.secrets.timestamp(self.now));
                    self.shared.replies.push(record.key, 0, header);
                }
            }
            Verdict::Reuse { iss_min } => {
                debug_assert!(segment.has(SYN));
                env.counters.count(Counter::TimeWaitRecycled);
                self.forget_time_wait(index, hash);
                self.receive_unknown(env, segment, Some(iss_min));
            }
        }
    }

    /// Allocates a control block that is not in the tables; `None` when there are too many.
    fn allocate(&mut self, template: crate::ip::Template) -> Option<u32> {
        if (self.tcbs.len() - self.free.len()) as u32 >= self.connections_max {
            return None;
        }
        if let Some(index) = self.free.pop() {
            let generation = self.tcbs[index as usize].generation;
            self.tcbs[index as usize] = Tcb::new(generation, template);
            self.shared.slow_starts.forget(index);
            return Some(index);
        }
        table::append(&mut self.tcbs, Tcb::new(0, template), self.connections_max);
        let index = self.tcbs.len() as u32 - 1;
        Some(index)
    }

    /// The control block of an id that is not stale.
    fn resolve(&self, id: SocketId) -> Option<&Tcb> {
        self.tcbs.get(id.index as usize).filter(|tcb| tcb.generation == id.generation && !tcb.has(flag::ORPHAN))
    }

    /// Like [`resolve`](Tcp::resolve), with everything the connection needs.
    fn named<'a, 'e>(&'a mut self, env: &'a mut Env<'e>, id: SocketId) -> Option<Connection<'a, 'e>> {
        let tcb = self.tcbs.get_mut(id.index as usize)?;
        if tcb.generation != id.generation || tcb.has(flag::ORPHAN) {
            return None;
        }
        Some(Connection { index: id.index, now: self.now, tcb, shared: &mut self.shared, env })
    }

    /// Returns true when [`transmit`](Tcp::transmit) has anything to do. Sets the time to `now` in either case.
    #[inline]
    pub(crate) fn has_to_write(&mut self, now: Instant) -> bool {
        self.set_now(now);
        let Shared { data, control, replies, .. } = &self.shared;
        !(data.is_empty() && control.is_empty() && replies.is_empty()) || self.retry_at.is_some()
    }

    /// Writes what is marked: control segments first, then data. Returns true when more is left to write.
    pub(crate) fn transmit(&mut self, now: Instant, env: &mut Env, out: &mut [Burst]) -> bool {
        self.set_now(now);
        self.retry_at = None;
        let mut starved = !self.shared.replies.transmit(now, env, out);
        starved = starved || !self.transmit_control(env, out);
        starved = starved || !self.transmit_data(env, out);
        if starved {
            self.retry_at = Some(Instant::from_millis(now.as_millis() + RETRY_MS));
            return false;
        }
        !self.shared.data.is_empty() || !self.shared.control.is_empty()
    }

    /// Writes SYNs, pure ACKs and probes. Returns false when no frame was free.
    fn transmit_control(&mut self, env: &mut Env, out: &mut [Burst]) -> bool {
        for _ in 0..self.shared.control.len().min(CONTROL_MAX) {
            let Some(index) = self.shared.control.pop_front() else { break };
            if !self.tcbs[index as usize].has(flag::ON_CONTROL) {
                continue;
            }
            let mut connection = self.connection(env, index);
            connection.tcb.clear(flag::ON_CONTROL);
            if connection.transmit_control(out) == Progress::NoFrame {
                connection.mark_control();
                return false;
            }
            self.settle(env);
        }
        true
    }

    /// Handles the expired timers of connections, SYN-queue records and TIME-WAIT records.
    pub(crate) fn handle_timeout(&mut self, now: Instant, env: &mut Env) {
        self.set_now(now);
        let mut expired = core::mem::take(&mut self.expired);
        self.shared.timers.expire(now, EXPIRIES_MAX, &mut expired);
        for (number, &(owner, tick)) in expired.iter().enumerate() {
            self.touch_timed(expired.get(number + TIMED_AHEAD));
            if owner & HALF_OPEN_BIT != 0 {
                self.on_half_open_timer(env, owner & !HALF_OPEN_BIT, tick);
            } else if owner & pacing::PACING_BIT != 0 {
                self.connection(env, owner & !pacing::PACING_BIT).on_pacing_timer(tick);
            } else {
                self.connection(env, owner).on_timer(tick);
                self.settle(env);
            }
        }
        expired.clear();
        self.expired = expired;
        self.end_ack_delays(env);
        self.feed_starved(env);
        for _ in 0..EXPIRIES_MAX {
            let Some((index, record)) = self.time_wait.pop_expired(now) else { break };
            self.flows.remove(self.hasher.hash(&record.key), Target::TimeWait(index));
        }
    }

    /// Prefetches what the owner of a wheel entry reads first: most deadlines have been moved since.
    #[inline]
    fn touch_timed(&self, entry: Option<&(u32, u32)>) {
        // Owners other than connections have a bit in their numbers that no index has.
        if let Some(tcb) = entry.and_then(|&(owner, _)| self.tcbs.get(owner as usize)) {
            tcb.touch_deadlines();
        }
    }

    /// Signals applications that were refused for lack of frames, as far as frames are free now.
    fn feed_starved(&mut self, env: &mut Env) {
        while FrameUse::Retry.may_take_any(env.arena)
            && let Some(index) = self.shared.starved.pop_first()
        {
            self.connection(env, index).signal();
        }
    }

    fn end_ack_delays(&mut self, env: &mut Env) {
        let now = timer::tick_at(self.now);
        while let Some(&(index, tick)) = self.shared.delayed.front()
            && timer::is_due(tick, now)
        {
            self.touch_timed(self.shared.delayed.get(TIMED_AHEAD));
            self.shared.delayed.pop_front();
            self.connection(env, index).end_ack_delay(tick);
        }
    }

    /// Removes delays from the front of their queue after their ACKs have gone out with data: they need no wake-up.
    pub(crate) fn forget_ended_delays(&mut self) {
        while let Some(&(index, tick)) = self.shared.delayed.front() {
            let tcb = &mut self.tcbs[index as usize];
            if tcb.ack_deadline() == tick {
                if tcb.has(flag::ACK_PENDING) {
                    break;
                }
                tcb.stop_ack_delay();
            }
            self.shared.delayed.pop_front();
        }
    }

    /// Time at which [`handle_timeout`](Tcp::handle_timeout) (or a new try to transmit) is due.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let starved = (!self.shared.starved.is_empty()).then(|| Instant::from_millis(self.now.as_millis() + RETRY_MS));
        let retry_at = self.retry_at.or(starved);
        let now_ms = self.now.as_millis();
        let delayed = self.shared.delayed.front().map(|&(_, tick)| timer::instant_of(tick, now_ms));
        timer::earliest(&[self.shared.timers.next_expiry(), self.time_wait.next_expiry(now_ms), delayed, retry_at])
    }
}

#[cfg(test)]
mod tests;
