//! Segments for listeners and for half-open connections.
//!
//! Read RFC 9293 §3.10.7.2, §3.10.7.4 (SYN-RECEIVED) first.

use crate::config::TcpOptions;
use crate::event::Event;
use crate::ip::Template;
use crate::stack::Env;
use crate::stats::Counter;
use crate::wire::tcp::{ACK, RST, SYN};

use super::Tcp;
use super::connect::agree;
use super::demux::Target;
use super::listener::{HalfOpen, handshake_round_trip};
use super::retransmit::SUSPECT_AFTER;
use super::segment::Segment;
use super::sequence::SeqNum;
use super::state::State;
use super::tcb::NO_LISTENER;

impl Tcp {
    /// RFC 9293 §3.10.7.2: a segment for a port that is served, without a connection.
    pub(super) fn receive_in_listen(&mut self, env: &mut Env, listener: u32, segment: &Segment, iss_min: Option<SeqNum>) {
        // First, check for a RST; second, for an ACK; third, for a SYN.
        if segment.has(RST) {
            return;
        }
        if segment.has(ACK) {
            self.shared.replies.reset(self.now, env, segment);
            return;
        }
        if !segment.has(SYN) {
            env.counters.count(Counter::DropUnacceptable);
            return;
        }
        if !self.has_room_for_syn(env, listener) {
            env.counters.count(Counter::ListenDrops);
            return;
        }
        self.queue_syn(env, listener, segment, iss_min);
    }

    fn has_room_for_syn(&mut self, env: &mut Env, listener: u32) -> bool {
        let Some(listener) = self.listeners.get(listener) else { return false };
        if !listener.has_room() {
            env.counters.count(Counter::ListenOverflows);
            return false;
        }
        true
    }

    fn queue_syn(&mut self, env: &mut Env, listener: u32, segment: &Segment, iss_min: Option<SeqNum>) {
        let receive_buffer = self.receive_buffer_of(listener);
        let agreed = agree(&self.shared.config, &segment.header.options, receive_buffer);
        let mut iss = self.shared.secrets.initial_sequence(self.now, &segment.key);
        if let Some(min) = iss_min {
            iss = iss.latest(min);
        }
        let record = HalfOpen {
            key: segment.key,
            irs: segment.sequence,
            iss,
            agreed,
            listener,
            retries: 0,
            deadline: 0,
            sent_at: self.now.as_micros() as u32,
            alive: true,
        };
        let Some(index) = self.syn_queue.insert(record) else {
            env.counters.count(Counter::TcpReqQFullDrop);
            env.counters.count(Counter::ListenDrops);
            return;
        };
        self.flows.insert(self.hasher.hash(&segment.key), Target::HalfOpen(index));
        if let Some(listener) = self.listeners.get_mut(listener) {
            listener.half_open += 1;
        }
        self.send_syn_ack(env, index);
        self.rearm_half_open(index);
    }

    fn listener_options(&self, listener: u32) -> TcpOptions {
        self.listeners.get(listener).map(|listener| listener.options).unwrap_or_default()
    }

    fn receive_buffer_of(&self, listener: u32) -> u32 {
        match self.listener_options(listener).receive_buffer_bytes {
            0 => self.shared.config.receive_buffer_bytes,
            bytes => bytes,
        }
    }

    fn send_syn_ack(&mut self, env: &mut Env, index: u32) {
        let Some(record) = self.syn_queue.get(index) else { return };
        let Some(path) = env.ip.route(record.key.remote, Some(record.key.local)) else { return };
        let options = self.listener_options(record.listener);
        let buffer = self.receive_buffer_of(record.listener);
        let timestamp = self.shared.secrets.timestamp(self.now);
        let header = record.syn_ack(&self.shared.config, path.mtu, &options, buffer, timestamp);
        self.shared.replies.push(record.key, options.type_of_service, header);
    }

    fn rearm_half_open(&mut self, index: u32) {
        let retries = self.syn_queue.get(index).map_or(0, |record| record.retries);
        let delay = super::rtt::backed_off_us(&self.shared.config, 0, 0, retries);
        let tick = self.arm_half_open(index, delay);
        if let Some(record) = self.syn_queue.get_mut(index) {
            record.deadline = tick;
        }
    }

    /// The SYN-ACK was not answered in time.
    pub(super) fn on_half_open_timer(&mut self, env: &mut Env, index: u32, tick: u32) {
        let retries_max = self.shared.config.synack_retries;
        let Some(record) = self.syn_queue.get_mut(index).filter(|record| record.deadline == tick) else { return };
        if record.retries >= retries_max {
            env.counters.count(Counter::TcpAttemptFails);
            self.forget_half_open(index);
            return;
        }
        record.retries += 1;
        if record.retries >= SUSPECT_AFTER {
            env.ip.suspect(self.now, record.key.local, record.key.remote);
        }
        env.counters.count(Counter::TcpTimeouts);
        env.counters.count(Counter::TcpRetransSegs);
        self.send_syn_ack(env, index);
        self.rearm_half_open(index);
    }

    /// Removes a record from all tables.
    pub(super) fn forget_half_open(&mut self, index: u32) {
        let Some(record) = self.syn_queue.remove(index) else { return };
        self.flows.remove(self.hasher.hash(&record.key), Target::HalfOpen(index));
        if let Some(listener) = self.listeners.get_mut(record.listener) {
            listener.half_open -= 1;
        }
    }

    /// RFC 9293 §3.10.7.4 for a record in SYN-RECEIVED.
    pub(super) fn receive_half_open(&mut self, env: &mut Env, index: u32, segment: &mut Segment) {
        let Some(record) = self.syn_queue.get(index).copied() else { return };
        let window = self.receive_buffer_of(record.listener).min(u16::MAX as u32);
        let rcv_nxt = record.irs + 1;
        if segment.has(SYN) && !segment.has(ACK) && segment.sequence == record.irs {
            // The peer's SYN again: it has not seen our SYN-ACK.
            self.send_syn_ack(env, index);
            return;
        }
        let stale_time = record.agreed.timestamps
            && segment.header.options.timestamps.is_some_and(|t| (t.value.wrapping_sub(record.agreed.ts_recent) as i32) < 0);
        if !segment.sequence.within(rcv_nxt, window) || stale_time {
            env.counters.count(if stale_time { Counter::PawsEstab } else { Counter::DropOutOfWindow });
            if !segment.has(RST) {
                self.send_syn_ack(env, index);
            }
            return;
        }
        if segment.has(RST) {
            // RFC 5961 §3.2: only an exact match is believed.
            if segment.sequence == rcv_nxt {
                env.counters.count(Counter::TcpAttemptFails);
                self.forget_half_open(index);
            }
            return;
        }
        if segment.has(SYN) || !segment.has(ACK) {
            env.counters.count(Counter::DropUnacceptable);
            return;
        }
        if segment.acknowledgment() != record.iss + 1 {
            self.shared.replies.reset(self.now, env, segment);
            return;
        }
        self.complete(env, index, &record, segment);
    }

    /// The handshake's last ACK: the record becomes a connection.
    fn complete(&mut self, env: &mut Env, index: u32, record: &HalfOpen, segment: &mut Segment) {
        let has_room = self.listeners.get(record.listener).is_some_and(|listener| listener.has_room());
        if !has_room {
            // The peer believes that it is connected; our SYN-ACK's timer gives it another chance.
            env.counters.count(Counter::ListenOverflows);
            env.counters.count(Counter::ListenDrops);
            return;
        }
        let template = Template::stale(record.key.local, record.key.remote, env.ip.generation());
        let Some(connection) = self.allocate(template) else {
            env.counters.count(Counter::ListenDrops);
            return;
        };
        self.forget_half_open(index);
        self.flows.insert(self.hasher.hash(&record.key), Target::Connection(connection));
        self.establish(env, connection, record, segment);
        self.offer(env, connection, record.listener);
        self.connection(env, connection).receive(segment);
    }

    fn establish(&mut self, env: &mut Env, index: u32, record: &HalfOpen, segment: &Segment) {
        let options = self.listener_options(record.listener);
        let mut connection = self.connection(env, index);
        let tcb = &mut *connection.tcb;
        tcb.configure(&connection.shared.config, &options);
        tcb.local_port = record.key.local_port;
        tcb.remote_port = record.key.remote_port;
        tcb.listener = record.listener;
        tcb.agree(connection.env.ip, &record.agreed, options.maximum_segment_size);
        tcb.snd_una = record.iss;
        tcb.snd_nxt = record.iss + 1;
        tcb.snd_end = record.iss + 1;
        tcb.snd_sml = record.iss + 1;
        tcb.rcv_nxt = record.irs + 1;
        tcb.last_ack_sent = tcb.rcv_nxt;
        tcb.rcv_adv = tcb.rcv_nxt + tcb.receive_buffer.min(u16::MAX as u32);
        tcb.state = State::SynReceived;
        tcb.backoff = record.retries;
        let round_trip = handshake_round_trip(record, connection.now);
        connection.established(segment);
        if let Some(round_trip) = round_trip {
            connection.tcb.srtt_us = 0;
            connection.tcb.rttvar_us = 0;
            connection.tcb.min_rtt_us = u32::MAX;
            connection.take_round_trip(round_trip);
        }
        connection.apply_timeouts(&options);
    }

    /// Puts an established connection into its listener's accept queue.
    fn offer(&mut self, env: &mut Env, index: u32, listener: u32) {
        env.counters.count(Counter::TcpPassiveOpens);
        let Some(entry) = self.listeners.get_mut(listener) else { return };
        entry.accept_queue.push_back(index);
        let id = crate::event::SocketId { index: listener | super::listener::LISTENER_BIT, generation: entry.generation };
        let event = Event::Accepted { listener: id, cookie: entry.cookie };
        if env.events.back() != Some(&event) {
            env.events.push_back(event);
        }
        debug_assert!(self.tcbs[index as usize].listener != NO_LISTENER);
    }
}
