//! Fast Open, the server: a SYN with a valid cookie makes a connection at once.
//!
//! Read RFC 7413 §4.1.2, §4.2.2, §5.1 first. The connection is in SYN-RECEIVED with a control block, is offered for accept
//! with the SYN's data, and may send. A listener's TCP_FASTOPEN limits the number of these connections; one that was reset
//! counts for another minute (RFC 7413 §5.1: the source was spoofed). Every other SYN leads to an ordinary handshake: its
//! data is not acknowledged then.

use crate::config::FastOpenKeys;
use crate::env::Env;
use crate::event::SocketId;
use crate::ip::Template;
use crate::stats::Counter;
use crate::timer;
use crate::wire::tcp::FastOpen;

use super::Tcp;
use super::connect::{Agreed, agree};
use super::connection::Connection;
use super::demux::{FlowKey, Target};
use super::ecn;
use super::fast_open::{Early, Finished, cookie};
use super::passive::SynAck;
use super::receive_queue::Order;
use super::segment::Segment;
use super::state::State;
use crate::wire::sequence::SeqNum;

/// Time for which a reset open still counts, milliseconds (Linux: 60 s).
const RESET_HOLDS_MS: u32 = 60_000;

/// Decision about a SYN with Fast Open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// A connection now; the SYN-ACK has a cookie of the new key, if the SYN's was of another.
    Now(Option<FastOpen>),
    /// An ordinary handshake with this option in the SYN-ACK.
    Later(Option<FastOpen>),
}

impl Tcp {
    /// Takes a SYN as Fast Open if it may be one. Returns the option for the SYN-ACK of an ordinary handshake, or `None`
    /// when a connection was made.
    pub(super) fn open_early(
        &mut self,
        env: &mut Env,
        listener: u32,
        segment: &mut Segment,
        iss: SeqNum,
    ) -> Option<Option<FastOpen>> {
        match self.admit_early(env, listener, segment) {
            Admission::Later(answer) => Some(answer),
            Admission::Now(answer) => {
                if self.create_early(env, listener, segment, SynAck { iss, fast_open: answer }) {
                    env.counters.count(Counter::TcpFastOpenPassive);
                    return None;
                }
                env.counters.count(Counter::TcpFastOpenPassiveFail);
                Some(answer)
            }
        }
    }

    /// RFC 7413 §4.2.2, server, steps 1 to 4.
    fn admit_early(&mut self, env: &mut Env, listener: u32, segment: &Segment) -> Admission {
        let option = segment.header.options.fast_open;
        let asks = option.is_some_and(|option| option.cookie().is_empty());
        if asks {
            env.counters.count(Counter::TcpFastOpenCookieReqd);
        }
        let config = self.shared.config.fast_open;
        if !config.server || (segment.len == 0 && option.is_none()) || !self.has_room_for_early(env, listener) {
            return Admission::Later(None);
        }
        let options = self.listener_options(listener);
        if config.server_without_cookie || options.fast_open_without_cookie {
            return Admission::Now(None);
        }
        let Some(option) = option else { return Admission::Later(None) };
        let keys =
            self.listeners.get(listener).and_then(|listener| listener.fast_open_keys).unwrap_or(self.shared.fast_open.keys);
        let fresh = FastOpen::new(&cookie(&keys.primary, &segment.key), option.experimental);
        if asks {
            return Admission::Later(fresh);
        }
        if option.cookie() == cookie(&keys.primary, &segment.key) {
            return Admission::Now(None);
        }
        if keys.backup.is_some_and(|backup| option.cookie() == cookie(&backup, &segment.key)) {
            env.counters.count(Counter::TcpFastOpenPassiveAltKey);
            return Admission::Now(fresh);
        }
        env.counters.count(Counter::TcpFastOpenPassiveFail);
        Admission::Later(fresh)
    }

    fn has_room_for_early(&mut self, env: &mut Env, listener: u32) -> bool {
        let every = self.shared.config.fast_open.every_listener;
        let now = timer::tick_at(self.now);
        let Some(entry) = self.listeners.get_mut(listener) else { return false };
        let max = if every && entry.options.fast_open_queue == 0 { entry.backlog } else { entry.options.fast_open_queue };
        if entry.early as usize + entry.early_resets.len() < max as usize {
            return true;
        }
        if max != 0 && entry.early_resets.front().is_some_and(|&at| timer::is_due(at, now)) {
            entry.early_resets.pop_front();
            return true;
        }
        if max != 0 {
            env.counters.count(Counter::TcpFastOpenListenOverflow);
        }
        false
    }

    /// Makes a control block in SYN-RECEIVED with the SYN's data, and offers it to the application.
    fn create_early(
        &mut self,
        env: &mut Env,
        listener: u32,
        segment: &mut Segment,
        SynAck { iss, fast_open: answer }: SynAck,
    ) -> bool {
        let key = segment.key;
        let template = Template::stale(key.local, key.remote, env.ip.generation());
        let Some(index) = self.allocate(template) else { return false };
        let options = self.listener_options(listener);
        let generation = self.listeners.get(listener).map_or(0, |listener| listener.generation);
        let mut connection = self.connection(env, index);
        let sent_at = connection.now.as_micros() as u32;
        let mss_limit = options.maximum_segment_size;
        let tcb = &mut *connection.tcb;
        tcb.configure(&connection.shared.config, &options);
        let ecn = ecn::answer(&connection.shared.config, options.congestion_control, segment);
        let agreed = Agreed { ecn, ..agree(&connection.shared.config, &segment.header.options, tcb.receive_buffer()) };
        tcb.agree(connection.env.ip, &agreed, mss_limit);
        connection.remember_offer_limit(mss_limit);
        connection.note_arrival(1, segment.len);
        connection.begin_early(key, iss, segment);
        connection.begin_accurate();
        connection.remember_syn(segment);
        connection.tcb.set_offered(true);
        connection.demand_cold().fast_open = Early::Passive { listener, generation, answer, mss_limit, sent_at, reset: false };
        connection.take_early_data(segment);
        connection.apply_timeouts(&options);
        connection.ack_now();
        connection.restart_rto();
        self.flows.insert(self.hasher.hash(&key), Target::Connection(index));
        if let Some(entry) = self.listeners.get_mut(listener) {
            entry.early += 1;
        }
        self.offer(env, index, listener);
        true
    }

    /// Reports ended early opens to their listeners.
    pub(super) fn finish_early(&mut self) {
        let until = timer::tick_at(self.now).wrapping_add(RESET_HOLDS_MS);
        while let Some(Finished { listener, generation, reset }) = self.shared.fast_open.finished.pop() {
            let Some(entry) = self.listeners.get_mut(listener).filter(|entry| entry.generation == generation) else { continue };
            entry.early -= 1;
            if reset {
                entry.early_resets.push_back(until);
            }
        }
    }

    /// Replaces the keys of a listener, or those of all that have none of their own.
    pub(crate) fn set_fast_open_keys(&mut self, listener: Option<SocketId>, keys: FastOpenKeys) {
        let index = listener.and_then(|id| self.listener_index(id));
        let place = match (listener, index.and_then(|index| self.listeners.get_mut(index))) {
            (None, _) => &mut self.shared.fast_open.keys,
            (Some(_), Some(entry)) => entry.fast_open_keys.get_or_insert(keys),
            (Some(_), None) => return,
        };
        *place = keys;
    }

    /// The keys of a listener, or those of all that have none of their own.
    pub(crate) fn fast_open_keys(&self, listener: Option<SocketId>) -> FastOpenKeys {
        let entry = listener.and_then(|id| self.listener_index(id)).and_then(|index| self.listeners.get(index));
        entry.and_then(|entry| entry.fast_open_keys).unwrap_or(self.shared.fast_open.keys)
    }
}

impl Connection<'_, '_> {
    /// RFC 9293 §3.10.7.2: enters SYN-RECEIVED; the window of a SYN is not scaled.
    fn begin_early(&mut self, key: FlowKey, iss: SeqNum, segment: &Segment) {
        let initial = super::congestion::initial_window(self.tcb.mss() as u32, self.shared.config.initial_window);
        let tcb = &mut *self.tcb;
        (tcb.local_port, tcb.remote_port) = (key.local_port, key.remote_port);
        tcb.begin_sending(iss);
        tcb.begin_receiving(segment.sequence, tcb.receive_buffer().min(u16::MAX as u32));
        tcb.take_window(segment.sequence, segment.header.window.into());
        tcb.set_cwnd(initial);
        tcb.set_state(State::SynReceived);
        tcb.segment_arrived(timer::tick_at(self.now));
        tcb.set_early(true);
    }

    /// Takes the data of the SYN; a FIN behind it is retransmitted by the peer after the handshake.
    fn take_early_data(&mut self, segment: &mut Segment) {
        segment.trim_front(self.env.arena, 1);
        let room = self.tcb.receive_window();
        if segment.len > room {
            segment.truncate(self.env.arena, room);
        }
        if segment.len > 0 && self.has_receive_room(segment.memory, Order::InOrder) {
            let (frames, len) = (core::mem::take(&mut segment.payload), core::mem::take(&mut segment.len));
            self.append_frames(frames, len, segment.memory);
            self.received_in_order(len);
        }
    }

    /// Returns true when the peer has sent its SYN again, with or without data: the SYN-ACK was lost.
    pub(crate) fn is_early_syn_again(&self, segment: &Segment) -> bool {
        use crate::wire::tcp::{ACK, RST, SYN};
        self.tcb.is_early() && self.tcb.state() == State::SynReceived && segment.header.flags & (SYN | ACK | RST) == SYN
    }

    /// The option of the SYN-ACK, and TCP_MAXSEG of the listener.
    pub(crate) fn early_answer(&self) -> Option<(Option<FastOpen>, u16)> {
        match self.shared.cold.get(self.tcb.cold())?.fast_open {
            Early::Passive { answer, mss_limit, .. } => Some((answer.filter(|_| self.tcb.backoff() == 0), mss_limit)),
            _ => None,
        }
    }

    /// Notes that the peer refuses (RFC 7413 §5.1): perhaps it has never sent the SYN.
    pub(crate) fn early_reset(&mut self) {
        if let Some(Early::Passive { reset, .. }) = self.cold().map(|cold| &mut cold.fast_open) {
            *reset = true;
        }
    }

    /// Ends the early phase: the handshake is over, or never will be. Returns true when it was an early passive open.
    pub(crate) fn leave_early(&mut self) -> bool {
        self.tcb.set_early(false);
        let (data, now, first_try) = (self.tcb.bytes_received() > 0, self.now, self.tcb.backoff() == 0);
        let Some(cold) = self.cold() else { return false };
        let Early::Passive { listener, generation, sent_at, reset, .. } = cold.fast_open else { return false };
        cold.fast_open = Early::Over { data, failure: Default::default() };
        self.shared.fast_open.finished.push(Finished { listener, generation, reset });
        if first_try && self.tcb.state() == State::SynReceived && !reset {
            self.take_round_trip((now.as_micros() as u32).wrapping_sub(sent_at));
        }
        true
    }
}
