//! Segments for listeners and for half-open connections.
//!
//! Read RFC 9293 §3.10.7.2, §3.10.7.4 (SYN-RECEIVED) first.

use crate::config::TcpOptions;
use crate::env::Env;
use crate::event::Event;
use crate::ip::Template;
use crate::stats::Counter;
use crate::timer;
use crate::wire::tcp::{ACK, FIN, FastOpen, RST, SYN};

use super::connect::{Agreed, agree, mss_to_offer};
use super::demux::Target;
use super::ecn;
use super::listener::Listener;
use super::retransmit::SUSPECT_AFTER;
use super::segment::Segment;
use super::state::State;
use super::syn_queue::{Expiry, HalfOpen};
use super::{HALF_OPEN_BIT, Tcp};
use crate::wire::sequence::SeqNum;

/// What the first SYN-ACK says of us.
pub(super) struct SynAck {
    pub(super) iss: SeqNum,
    pub(super) fast_open: Option<FastOpen>,
}

impl Tcp {
    /// RFC 9293 §3.10.7.2: handles a segment for a port with a listener, without a connection.
    pub(super) fn receive_in_listen(&mut self, env: &mut Env, listener: u32, segment: &mut Segment, iss_min: Option<SeqNum>) {
        // First, check for a RST; second, for an ACK; third, for a SYN.
        if segment.has(RST) {
            return;
        }
        if segment.has(SYN) && segment.has(FIN) {
            // Linux: no stack opens like this, only scanners; without an answer they learn nothing of a filter in front.
            env.counters.count(Counter::DropUnacceptable);
            return;
        }
        self.migrating_flows.note(segment);
        if segment.has(ACK) {
            self.receive_cookie(env, listener, segment);
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
        self.note_owner_full(listener);
        if iss_min.is_none() && self.wants_cookie(env, listener) {
            self.send_cookie(env, listener, segment);
            return;
        }
        let mut iss = self.shared.secrets.initial_sequence(self.now, &segment.key);
        if let Some(min) = iss_min {
            iss = iss.latest(min);
        }
        if let Some(answer) = self.open_early(env, listener, segment, iss) {
            self.queue_syn(env, listener, segment, SynAck { iss, fast_open: answer });
        }
    }

    fn has_room_for_syn(&mut self, env: &mut Env, listener: u32) -> bool {
        let Some(listener) = self.listeners.get(listener) else { return false };
        if !listener.takes_syn() {
            env.counters.count(Counter::ListenOverflows);
            return false;
        }
        true
    }

    /// Returns true when the SYN queue has no space for another record of the listener.
    pub(super) fn is_syn_queue_full(&self, listener: u32) -> bool {
        let full = |listener: &Listener| listener.is_syn_queue_full() || self.owners.is_full(listener.owner);
        self.syn_queue.is_full() || self.listeners.get(listener).is_some_and(full)
    }

    /// Counts a SYN for an owner that has as many half-open connections as it may have.
    fn note_owner_full(&mut self, listener: u32) {
        let owner = self.listeners.get(listener).and_then(|listener| listener.owner);
        if self.owners.is_full(owner) {
            self.owners.hit(owner);
        }
    }

    /// RFC 4987 §3.3: a full listener drops its own oldest record; when the stack is full, any record may be dropped, and
    /// most of them are a flood's. When the listener's owner has its quota of records, the listener drops its own oldest record
    /// too; a listener without one gets no place, and the SYN is dropped.
    fn make_room_for_record(&mut self, env: &mut Env, listener: u32) {
        if !self.is_syn_queue_full(listener) {
            return;
        }
        let Some(entry) = self.listeners.get(listener) else { return };
        let owner_full = self.owners.is_full(entry.owner);
        let own = entry.half_open.oldest().filter(|_| owner_full || entry.is_syn_queue_full());
        let victim = match own {
            None if !owner_full => self.syn_queue.pick(self.shared.secrets.random()),
            own => own,
        };
        if let Some(victim) = victim {
            env.counters.count(Counter::TcpReqQFullDrop);
            env.counters.count(Counter::ListenDrops);
            self.forget_half_open(victim);
        }
    }

    /// Queues a record for a SYN.
    fn queue_syn(&mut self, env: &mut Env, listener: u32, segment: &Segment, syn_ack: SynAck) {
        let SynAck { iss, fast_open: answer } = syn_ack;
        self.make_room_for_record(env, listener);
        let receive_buffer = self.receive_buffer_of(listener);
        let ecn = ecn::answer(&self.shared.config, self.listener_options(listener).congestion_control, segment);
        let agreed =
            Agreed { ecn, syn_field: segment.ecn, ..agree(&self.shared.config, &segment.header.options, receive_buffer) };
        let record = HalfOpen {
            key: segment.key,
            irs: segment.sequence,
            iss,
            agreed,
            listener,
            retries: 0,
            acknowledged: false,
            from_cookie: false,
            deadline: 0,
            sent_at: self.now.as_micros() as u32,
        };
        let Some(entry) = self.listeners.get_mut(listener) else { return };
        if self.owners.is_full(entry.owner) {
            env.counters.count(Counter::ListenDrops);
            return;
        }
        let Some(index) = self.syn_queue.insert(&mut entry.half_open, record) else { return };
        self.owners.inserted(entry.owner);
        self.flows.insert(self.hasher.hash(&segment.key), Target::HalfOpen(index));
        let timestamp = self.shared.secrets.timestamp(self.now);
        self.push_syn_ack(env, &record, timestamp, answer);
        self.rearm_half_open(index);
    }

    pub(super) fn listener_options(&self, listener: u32) -> TcpOptions {
        self.listeners.get(listener).map(|listener| listener.options).unwrap_or_default()
    }

    pub(super) fn receive_buffer_of(&self, listener: u32) -> u32 {
        match self.listener_options(listener).receive_buffer_bytes {
            0 => self.shared.config.receive_buffer_bytes,
            bytes => bytes,
        }
    }

    /// Window of a listener's SYN-ACKs.
    pub(super) fn syn_window_of(&self, listener: u32) -> u32 {
        let clamp = self.listener_options(listener).window_clamp;
        let window = self.receive_buffer_of(listener).min(u16::MAX as u32);
        if clamp == 0 { window } else { window.min(clamp) }
    }

    fn send_syn_ack(&mut self, env: &mut Env, index: u32) {
        let Some(record) = self.syn_queue.get(index).copied() else { return };
        let timestamp = self.shared.secrets.timestamp(self.now);
        self.push_syn_ack(env, &record, timestamp, None);
    }

    /// Queues the SYN-ACK of a record, which is in the queue or in a cookie.
    pub(super) fn push_syn_ack(&mut self, env: &mut Env, record: &HalfOpen, timestamp: u32, answer: Option<FastOpen>) {
        let Some(path) = env.ip.route(record.key.remote, Some(record.key.local)) else { return };
        let options = self.listener_options(record.listener);
        let buffer = self.receive_buffer_of(record.listener);
        let mss = mss_to_offer(env.ip.offered_max(&path), options.maximum_segment_size);
        let mut header = record.syn_ack(&self.shared.config, mss, buffer, timestamp);
        if options.window_clamp != 0 {
            header.window = u32::from(header.window).min(options.window_clamp) as u16;
        }
        header.options.fast_open = answer;
        let agreed = (record.agreed.ecn, record.agreed.syn_field);
        ecn::mark_syn_ack(agreed, &self.shared.config, record.retries, &mut header);
        let ect = ecn::ect_of_syn_ack(record.agreed.ecn, options.congestion_control);
        self.shared.replies.push(record.key, options.type_of_service & !ecn::CE | ect, header);
    }

    /// Handles a repeated SYN: the peer has not seen our SYN-ACK. RFC 9768 §3.1.5: the new SYN-ACK reflects the ECN field of
    /// the latest SYN; §3.2.3.2.2: the lost one may have been lost for its option.
    fn receive_syn_again(&mut self, env: &mut Env, index: u32, segment: &Segment) {
        let Some(record) = self.syn_queue.get_mut(index) else { return };
        record.agreed.syn_field = segment.ecn;
        record.agreed.ecn = ecn::asked_again(record.agreed.ecn, segment);
        let again = HalfOpen { retries: record.retries.max(1), ..*record };
        let timestamp = self.shared.secrets.timestamp(self.now);
        self.push_syn_ack(env, &again, timestamp, None);
    }

    fn rearm_half_open(&mut self, index: u32) {
        let retries = self.syn_queue.get(index).map_or(0, |record| record.retries);
        let delay = super::rtt::backed_off_us(&self.shared.timing, 0, 0, retries);
        let tick = timer::tick_after(self.now, delay).max(1);
        if self.syn_queue.postpone(index, tick) {
            self.shared.timers.insert(index | HALF_OPEN_BIT, tick);
        }
    }

    /// Handles the wheel's entry of a slot: the SYN-ACK may not have been answered in time.
    pub(super) fn on_half_open_timer(&mut self, env: &mut Env, index: u32, tick: u32) {
        match self.syn_queue.expire(index, tick) {
            Expiry::Outdated => return,
            Expiry::Later(tick) => return self.shared.timers.insert(index | HALF_OPEN_BIT, tick),
            Expiry::Due => {}
        }
        let retries_max = self.shared.config.synack_retries;
        let deferred = self.syn_queue.get(index).map_or(0, |record| self.listener_options(record.listener).defer_accept_retries);
        let Some(record) = self.syn_queue.get_mut(index) else { return };
        // Linux, syn_ack_recalc: a listener that waits for data waits as long as it has asked for.
        let waits = record.acknowledged && record.retries < deferred;
        if record.retries >= retries_max && !waits {
            env.counters.count(Counter::TcpAttemptFails);
            self.forget_half_open(index);
            return;
        }
        record.retries += 1;
        if waits && record.retries < deferred {
            // The peer has our SYN-ACK. The last one asks it for an ACK, which ends the wait.
            self.rearm_half_open(index);
            return;
        }
        if record.retries >= SUSPECT_AFTER {
            env.ip.suspect(self.now, record.key.local, record.key.remote);
        }
        env.counters.count(Counter::TcpTimeouts);
        env.counters.count(Counter::TcpRetransSegs);
        ringway_probes::tcp_retransmit_synack(|| (record.key.ends(), record.retries));
        self.send_syn_ack(env, index);
        self.rearm_half_open(index);
    }

    /// Removes a record from all tables.
    pub(super) fn forget_half_open(&mut self, index: u32) {
        if let Some(record) = self.take_half_open(index) {
            self.flows.remove(self.hasher.hash(&record.key), Target::HalfOpen(index));
        }
    }

    /// Removes a record from the SYN queue; the flow table still has it.
    fn take_half_open(&mut self, index: u32) -> Option<HalfOpen> {
        let listener = self.syn_queue.get(index)?.listener;
        let entry = self.listeners.get_mut(listener)?;
        let taken = self.syn_queue.remove(&mut entry.half_open, index)?;
        self.owners.removed(entry.owner);
        Some(taken)
    }

    /// RFC 9293 §3.10.7.4 for a record in SYN-RECEIVED.
    pub(super) fn receive_half_open(&mut self, env: &mut Env, index: u32, segment: &mut Segment) {
        let Some(record) = self.syn_queue.get(index).copied() else { return };
        let window = self.syn_window_of(record.listener);
        let rcv_nxt = record.irs + 1;
        if segment.has(SYN) && !segment.has(ACK) && segment.sequence == record.irs {
            self.receive_syn_again(env, index, segment);
            return;
        }
        let stale_time = record.agreed.timestamps
            && segment.header.options.timestamps.is_some_and(|t| (t.value.wrapping_sub(record.agreed.ts_recent) as i32) < 0);
        if !segment.sequence.within(rcv_nxt, window) || stale_time {
            env.counters.count(if stale_time { Counter::PawsEstab } else { Counter::DropOutOfWindow });
            if !segment.has(RST) {
                self.challenge_half_open(env, &record);
            }
            return;
        }
        if segment.has(RST) {
            // RFC 5961 §3.2: only an exact match is accepted.
            if segment.sequence == rcv_nxt {
                env.counters.count(Counter::TcpAttemptFails);
                ringway_probes::tcp_receive_reset(|| (segment.key.ends(),));
                self.forget_half_open(index);
            } else {
                self.challenge_half_open(env, &record);
            }
            return;
        }
        if segment.has(SYN) {
            // RFC 9293 would drop the record, and a blind sender could cause that. A challenge as in RFC 5961 §4 makes a
            // peer that has restarted answer with a reset.
            env.counters.count(Counter::TcpSynChallenge);
            self.challenge_half_open(env, &record);
            return;
        }
        if !segment.has(ACK) {
            env.counters.count(Counter::DropUnacceptable);
            return;
        }
        if segment.acknowledgment() != record.iss + 1 {
            self.shared.replies.reset(self.now, env, segment);
            return;
        }
        if self.defers(index, &record, segment) {
            env.counters.count(Counter::TcpDeferAcceptDrop);
            return;
        }
        self.complete(env, Some(index), &record, segment);
    }

    /// TCP_DEFER_ACCEPT: an ACK without data only stops the retransmission of our SYN-ACK for now.
    fn defers(&mut self, index: u32, record: &HalfOpen, segment: &Segment) -> bool {
        let bare = segment.len == 0 && !segment.has(FIN);
        let defers = bare && record.retries < self.listener_options(record.listener).defer_accept_retries;
        if defers && let Some(record) = self.syn_queue.get_mut(index) {
            record.acknowledged = true;
        }
        defers
    }

    /// RFC 9293 §3.10.7.4, first; RFC 5961 §3.2: an ACK informs an honest peer of our state.
    fn challenge_half_open(&mut self, env: &mut Env, record: &HalfOpen) {
        if self.shared.replies.allow(self.now, env) {
            env.counters.count(Counter::TcpChallengeAck);
            let header = record.acknowledgment(self.syn_window_of(record.listener), self.shared.secrets.timestamp(self.now));
            self.shared.replies.push(record.key, 0, header);
        }
    }

    /// Handles the handshake's last ACK: the record (at `index`, or from a cookie) becomes a connection.
    pub(super) fn complete(&mut self, env: &mut Env, index: Option<u32>, record: &HalfOpen, segment: &mut Segment) {
        // A record from a cookie has reserved no place.
        let has_room = |listener: &Listener| if index.is_none() { listener.takes_syn() } else { listener.has_room() };
        let has_room = self.listeners.get(record.listener).is_some_and(has_room);
        if !has_room {
            // The peer believes that it is connected; our SYN-ACK's timer, or its data with the cookie again, gives it
            // another chance.
            env.counters.count(Counter::ListenOverflows);
            env.counters.count(Counter::ListenDrops);
            return;
        }
        let template = Template::stale(record.key.local, record.key.remote, env.ip.generation());
        let Some(connection) = self.allocate(template) else {
            env.counters.count(Counter::ListenDrops);
            return;
        };
        let (hash, target) = (self.hasher.hash(&record.key), Target::Connection(connection));
        let replaced = index.is_some_and(|index| {
            self.take_half_open(index);
            self.flows.replace(hash, Target::HalfOpen(index), target)
        });
        if !replaced {
            self.flows.insert(hash, target);
        }
        self.establish(env, connection, record, segment);
        self.offer(env, connection, record.listener);
        self.connection(env, connection).receive(segment);
    }

    fn establish(&mut self, env: &mut Env, index: u32, record: &HalfOpen, segment: &Segment) {
        let options = self.listener_options(record.listener);
        let syn_window = self.syn_window_of(record.listener);
        let mut connection = self.connection(env, index);
        // Counts the SYN; our SYN-ACK is not counted, as in Linux.
        connection.note_arrival(1, 0);
        let tcb = &mut *connection.tcb;
        tcb.configure(&connection.shared.config, &options);
        tcb.local_port = record.key.local_port;
        tcb.remote_port = record.key.remote_port;
        tcb.set_offered(true);
        let ecn = ecn::settled(record.agreed.ecn, &connection.shared.config, record.retries);
        tcb.agree(connection.env.ip, &Agreed { ecn, ..record.agreed }, options.maximum_segment_size);
        tcb.begin_sending(record.iss);
        tcb.begin_receiving(record.irs, syn_window);
        tcb.set_state(State::SynReceived);
        tcb.begin_backed_off(record.retries);
        let round_trip = record.round_trip_us(connection.now);
        connection.remember_offer_limit(options.maximum_segment_size);
        connection.established(segment);
        connection.begin_accurate();
        connection.check_reflection(segment);
        if round_trip.is_some() || record.from_cookie {
            // We know better, or the echoed timestamp was a cookie's.
            connection.tcb.forget_round_trips();
        }
        if let Some(round_trip) = round_trip {
            connection.take_round_trip(round_trip);
        }
        connection.apply_timeouts(&options);
    }

    /// Puts an established connection into its listener's accept queue.
    pub(super) fn offer(&mut self, env: &mut Env, index: u32, listener: u32) {
        env.counters.count(Counter::TcpPassiveOpens);
        let Some(entry) = self.listeners.get_mut(listener) else { return };
        entry.accept_queue.push_back(index);
        let id = crate::event::SocketId { index: listener | super::listener::LISTENER_BIT, generation: entry.generation };
        let event = Event::Accepted { listener: id, user_token: entry.user_token };
        if env.events.back() != Some(&event) {
            env.events.push_back(event);
        }
        debug_assert!(!self.tcbs[index as usize].is_accepted());
    }
}
