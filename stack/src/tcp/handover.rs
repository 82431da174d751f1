//! Handover: a connection leaves a stack as one value, and another stack goes on with it. The wire sees nothing of it.
//!
//! Read docs/handover.md first. [`Stack::export`](crate::Stack::export) takes the connection out without a packet; its
//! four-tuple is held from then on: what still arrives for it finds silence and no RST, and nothing else can use it, until the
//! connection comes back or the hold is released. [`Stack::import`](crate::Stack::import) treats the value as hostile:
//! `check` judges it, and what is left can only harm the connection that it makes.
//!
//! `image` is the value, `part` its form as bytes, `restore` makes a control block of it. Each mechanism keeps its fields to
//! itself: it moves its own times (`Rebase`) and says itself what is sound.
//!
//! The border: the value has what this stack holds. Bytes that the owner has taken and not given to its application, bytes
//! that its application has written and the owner has not queued, and the state of the socket itself (descriptors,
//! readiness that was reported) are the owner's to move.

mod check;
mod error;
mod image;
pub(crate) mod part;
mod quiet;
mod restore;

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use ringway_shm::Instant;

use crate::address::SocketAddress;
use crate::config::CongestionControl;
use crate::env::Env;
use crate::event::SocketId;
use crate::wire::tcp::{Header, Timestamps};

use super::Tcp;
use super::cold::Cold;
use super::congestion::CWND_MAX;
use super::congestion::cubic::Cubic;
use super::congestion::dctcp::Dctcp;
use super::connection::Connection;
use super::demux::{FlowKey, Target};
use super::state::State;
use super::tcb::{TimerKind, flag};

pub use error::{DecodeError, ExportError, ImportError};
use image::Model;
pub use image::{
    ConnectionImage, Deadlines, Extent, Gap, Purpose, Receiving, Recovering, Sending, Settings, Terms, TimestampClock,
};
use part::Part;
pub use quiet::Quiet;

/// The first bytes of an encoded image: a name and a version.
const MAGIC: [u8; 4] = *b"rwc\x02";
/// Longest time that an image carries, milliseconds: ticks compare within 2^31.
const TIME_MAX_MS: u32 = 1 << 30;

/// Moves times between the clock of a stack and an image, whose times are relative to its export.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rebase {
    us: u32,
    tick: u32,
    timestamp: u32,
}

impl Rebase {
    /// A time in microseconds modulo 2^32.
    pub(crate) fn us(self, at: u32) -> u32 {
        at.wrapping_add(self.us)
    }

    /// A tick.
    pub(crate) fn tick(self, at: u32) -> u32 {
        at.wrapping_add(self.tick)
    }

    /// A value of the stack's own timestamp clock.
    pub(crate) fn timestamp(self, at: u32) -> u32 {
        at.wrapping_add(self.timestamp)
    }

    fn negated(self) -> Rebase {
        let Rebase { us, tick, timestamp } = self;
        Rebase { us: us.wrapping_neg(), tick: tick.wrapping_neg(), timestamp: timestamp.wrapping_neg() }
    }
}

/// Four-tuples of connections that were exported and must find silence here.
#[derive(Debug)]
pub(crate) struct Holds {
    keys: BTreeSet<FlowKey>,
    max: usize,
}

impl Holds {
    /// At most `max` of them.
    pub(crate) fn new(max: u32) -> Holds {
        Holds { keys: BTreeSet::new(), max: max as usize }
    }

    pub(crate) fn set_max(&mut self, max: u32) {
        self.max = max as usize;
    }

    /// Returns true when the flow is held.
    pub(crate) fn covers(&self, key: &FlowKey) -> bool {
        self.keys.contains(key)
    }
}

impl ConnectionImage {
    /// Returns the image as bytes, which [`decode`](ConnectionImage::decode) takes: for a service of the same version.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        self.put(&mut bytes);
        bytes
    }

    /// Reads an image. It may still be one that no connection can have: [`Stack::import`](crate::Stack::import) judges that.
    ///
    /// # Errors
    /// [`DecodeError`]
    pub fn decode(bytes: &[u8]) -> Result<ConnectionImage, DecodeError> {
        let (magic, mut rest) = bytes.split_first_chunk().ok_or(DecodeError::Truncated)?;
        if *magic != MAGIC {
            return Err(DecodeError::OtherVersion);
        }
        let image = ConnectionImage::take(&mut rest)?;
        if rest.is_empty() { Ok(image) } else { Err(DecodeError::Trailing) }
    }

    fn key(&self) -> FlowKey {
        let (local, remote) = (self.local, self.remote);
        FlowKey { local: local.ip, remote: remote.ip, local_port: local.port, remote_port: remote.port }
    }
}

impl Tcp {
    /// See [`Stack::export`](crate::Stack::export).
    pub(crate) fn export(&mut self, now: Instant, env: &mut Env, id: SocketId) -> Result<ConnectionImage, ExportError> {
        self.set_now(now);
        let tcb = self.tcbs.get(id.index as usize).filter(|tcb| tcb.generation == id.generation);
        let tcb = tcb.ok_or(ExportError::NotConnected)?;
        if !moves(tcb.state()) {
            return Err(ExportError::State(tcb.state()));
        }
        if !tcb.is_accepted() {
            return Err(ExportError::NotAccepted);
        }
        if self.holds.keys.len() >= self.holds.max {
            return Err(ExportError::Full);
        }
        let key = tcb.key();
        let image = self.connection(env, id.index).export();
        self.flows.remove(self.hasher.hash(&key), Target::Connection(id.index));
        self.shared.replies.forget(&key);
        // The owner knows: no event says so.
        self.free(env, id.index);
        self.holds.keys.insert(key);
        Ok(image)
    }

    /// See [`Stack::import`](crate::Stack::import).
    pub(crate) fn import(
        &mut self,
        now: Instant,
        env: &mut Env,
        image: &ConnectionImage,
        user_token: u64,
    ) -> Result<SocketId, ImportError> {
        self.set_now(now);
        image.check()?;
        let key = image.key();
        if !env.ip.owns(key.local) || !env.ip.has_flow((key.local, key.local_port), (key.remote, key.remote_port)) {
            return Err(ImportError::NotLocal);
        }
        if self.is_known(&key) {
            return Err(ImportError::InUse);
        }
        let template = crate::ip::Template::stale(key.local, key.remote, env.ip.generation());
        let index = self.allocate(template).ok_or(ImportError::Full)?;
        let mut connection = self.connection(env, index);
        connection.tcb.user_token = user_token;
        if !connection.restore(image) {
            self.free(env, index);
            return Err(ImportError::NoFrames);
        }
        let id = connection.id();
        self.flows.insert(self.hasher.hash(&key), Target::Connection(index));
        self.holds.keys.remove(&key);
        Ok(id)
    }

    /// See [`Stack::hold`](crate::Stack::hold).
    pub(crate) fn hold(&mut self, local: SocketAddress, remote: SocketAddress) -> bool {
        let key = FlowKey { local: local.ip, remote: remote.ip, local_port: local.port, remote_port: remote.port };
        let is_free = !self.is_known(&key) && !self.holds.covers(&key) && self.holds.keys.len() < self.holds.max;
        is_free && self.holds.keys.insert(key)
    }

    /// See [`Stack::release_hold`](crate::Stack::release_hold).
    pub(crate) fn release_hold(&mut self, local: SocketAddress, remote: SocketAddress) -> bool {
        let key = FlowKey { local: local.ip, remote: remote.ip, local_port: local.port, remote_port: remote.port };
        self.holds.keys.remove(&key)
    }
}

/// Returns true when a connection in this state can move. The others have no place elsewhere: see docs/handover.md.
fn moves(state: State) -> bool {
    state.is_synchronized() && state != State::TimeWait
}

/// Milliseconds from `now` to a deadline; `None`: it is not armed.
fn rest(deadline: u32, now: u32) -> Option<u32> {
    (deadline != 0).then(|| deadline.wrapping_sub(now).cast_signed().max(0).cast_unsigned().min(TIME_MAX_MS))
}

/// Milliseconds from a tick to `now`; `None`: it never was.
fn since(at: u32, now: u32) -> Option<u32> {
    (at != 0).then(|| now.wrapping_sub(at).min(TIME_MAX_MS))
}

impl Connection<'_, '_> {
    /// From the stack's clock to an image's.
    fn leaving(&self) -> Rebase {
        self.arriving().negated()
    }

    /// From an image's clock to the stack's.
    fn arriving(&self) -> Rebase {
        Rebase { us: self.now_us(), tick: self.tick(), timestamp: self.timestamp() }
    }

    /// Writes the TSval that the peer expects of a connection which has come from another stack.
    pub(crate) fn tell_peers_clock(&self, header: &mut Header) {
        let ahead = self.shared.cold.get(self.tcb.cold()).map_or(0, |cold| cold.clock_ahead);
        header.options.timestamps = header.options.timestamps.map(|Timestamps { value, echo }| {
            let value = value.wrapping_add(ahead);
            Timestamps { value, echo }
        });
    }

    /// Turns the TSecr of such a connection's segment into one of the stack's own clock.
    pub(crate) fn take_peers_clock(&self, header: &mut Header) {
        let ahead = self.shared.cold.get(self.tcb.cold()).map_or(0, |cold| cold.clock_ahead);
        if ahead != 0 {
            header.options.timestamps = header.options.timestamps.map(|Timestamps { value, echo }| {
                let echo = if echo == 0 { 0 } else { echo.wrapping_sub(ahead) };
                Timestamps { value, echo }
            });
        }
    }

    /// Copies the connection, which leaves the stack with this call.
    fn export(&mut self) -> ConnectionImage {
        let timestamps = self.tcb.has(flag::TIMESTAMPS).then(|| {
            let ahead = self.shared.cold.get(self.tcb.cold()).map_or(0, |cold| cold.clock_ahead);
            let is_known = !self.cold_object().is_some_and(|cold| cold.learns_time);
            TimestampClock { now: self.timestamp().wrapping_add(ahead), recent: is_known.then(|| self.tcb.ts_recent()) }
        });
        self.simplify();
        let (local, remote) = self.tcb.addresses();
        ConnectionImage {
            local,
            remote,
            state: self.tcb.state(),
            is_orphan: self.tcb.has(flag::ORPHAN),
            terms: self.export_terms(timestamps),
            settings: self.export_settings(),
            receiving: self.export_receiving(),
            sending: self.export_sending(),
            recovering: self.export_recovering(),
            deadlines: self.export_deadlines(),
            counts: self.export_counts(self.leaving()),
        }
    }

    /// Drops what another stack cannot use, so that what is left does not depend on it.
    fn simplify(&mut self) {
        let (una, algorithm, receives) = (self.tcb.snd_una(), self.tcb.congestion(), self.tcb.state().receives_data());
        let nxt = self.tcb.rcv_nxt();
        let (arena, has_measured) = (self.env.arena, self.measured().is_some());
        let Some(cold) = self.cold() else { return };
        (cold.clock_ahead, cold.learns_time) = (0, false);
        if !has_measured {
            cold.rate_based = None;
        }
        cold.pacing.forget_departures();
        cold.rack.acknowledge(una);
        if algorithm != CongestionControl::Cubic {
            cold.cubic = Cubic::default();
        }
        if algorithm != CongestionControl::Dctcp {
            cold.dctcp = Dctcp::default();
        }
        // A peer that has sent data behind its FIN: that FIN never comes in order.
        cold.reassembly.fin = cold.reassembly.fin.filter(|fin| fin.after(nxt));
        if !receives {
            // Behind the peer's FIN nothing is ever put in order.
            cold.reassembly.clear(arena);
        }
        self.shared.cold.release_if_quiet(arena, self.tcb);
    }

    fn cold_object(&self) -> Option<&Cold> {
        self.shared.cold.get(self.tcb.cold())
    }

    fn export_terms(&self, timestamps: Option<TimestampClock>) -> Terms {
        let (tcb, cold) = (&*self.tcb, self.cold_object());
        Terms {
            mss: tcb.mss(),
            send_scale: tcb.send_scale(),
            receive_scale: tcb.receive_scale(),
            sack: tcb.has(flag::SACK),
            timestamps,
            ecn: tcb.ecn_mode(),
            ecn_state: self.ecn(),
            accurate: cold.and_then(|cold| cold.accurate),
        }
    }

    fn export_settings(&self) -> Settings {
        let (tcb, cold) = (&*self.tcb, self.cold_object());
        let rare = self.shared.conn_stats.rare(tcb);
        let arrived = self.shared.conn_stats.read(tcb, self.tick()).segments_in;
        Settings {
            no_delay: tcb.has(flag::NO_DELAY),
            cork: tcb.has(flag::CORK),
            quick_ack: tcb.has(flag::QUICK_ACK),
            delays_acks: tcb.delays_acks(),
            type_of_service: tcb.tos,
            time_to_live: tcb.ttl,
            send_buffer: tcb.send_buffer(),
            is_send_buffer_locked: rare.is_some_and(|rare| rare.send_buffer_locked),
            receive_buffer: tcb.receive_buffer(),
            pacing_rate_max: cold.map_or(0, |cold| cold.pacing.rate_max),
            maximum_segment_size: rare.map_or(0, |rare| rare.offer_limit),
            is_read_shut: rare.is_some_and(|rare| rare.read_shut),
            more_for: cold.and_then(|cold| cold.more_since).map(|since| arrived.wrapping_sub(since)),
            timeouts: cold.map(|cold| cold.timeouts).unwrap_or_default(),
        }
    }

    fn export_receiving(&self) -> Receiving {
        let (tcb, cold, arena) = (&*self.tcb, self.cold_object(), self.env.arena);
        let rare = self.shared.conn_stats.rare(tcb);
        let mut tuning = rare.map(|rare| rare.receive).unwrap_or_default();
        tuning.rebase(self.leaving());
        Receiving {
            nxt: tcb.rcv_nxt().0,
            edge: tcb.rcv_adv().0,
            last_ack_sent: tcb.last_ack_sent().0,
            unread: tcb.unread_bytes(arena),
            unconsumed: tcb.unconsumed(),
            bytes: tcb.bytes_received(),
            gaps: cold.map(|cold| cold.reassembly.export(arena)).unwrap_or_default(),
            fin: cold.and_then(|cold| cold.reassembly.fin).map(|fin| fin.0),
            duplicate: cold.and_then(|cold| cold.duplicate),
            told: cold.map(|cold| cold.reassembly.told_ages()).unwrap_or_default(),
            tuning,
            interactive: rare.map(|rare| rare.interactive).unwrap_or_default(),
        }
    }

    fn export_sending(&self) -> Sending {
        let tcb = &*self.tcb;
        Sending {
            una: tcb.snd_una().0,
            nxt: tcb.snd_nxt().0,
            wnd: tcb.snd_wnd(),
            wl1: tcb.snd_wl1().0,
            max_window: tcb.max_window(),
            sml: tcb.snd_sml().0,
            bytes_acked: tcb.bytes_acked(),
            extents: tcb.export_extents(self.env.arena, self.leaving()),
            urgent: self.cold_object().map(|cold| cold.urgent).unwrap_or_default(),
        }
    }

    fn export_recovering(&self) -> Recovering {
        let (tcb, cold, by) = (&*self.tcb, self.cold_object(), self.leaving());
        let model = match tcb.congestion() {
            CongestionControl::NewReno => Model::NewReno,
            CongestionControl::Cubic => {
                let mut cubic = cold.map(|cold| cold.cubic).unwrap_or_default();
                cubic.rebase(by);
                Model::Cubic(cubic)
            }
            CongestionControl::Dctcp => Model::Dctcp(cold.map(|cold| cold.dctcp).unwrap_or_default()),
            CongestionControl::Bbr => Model::Bbr(self.measured()),
            // What it knows stays here; Reno goes on from its window.
            CongestionControl::Own(_) => Model::NewReno,
        };
        let is_own = matches!(tcb.congestion(), CongestionControl::Own(_));
        let mut rack = cold.map(|cold| cold.rack.clone()).unwrap_or_default();
        rack.rebase(by);
        let mut undo = cold.and_then(|cold| cold.undo);
        undo.iter_mut().for_each(|undo| undo.rebase(by));
        Recovering {
            cwnd: tcb.cwnd().clamp(1, CWND_MAX),
            ssthresh: if is_own { tcb.cwnd() } else { tcb.ssthresh() },
            model,
            recovery: tcb.recovery(),
            recover: tcb.recover().0,
            dup_acks: tcb.dup_acks(),
            is_cwnd_limited: tcb.has(flag::CWND_LIMITED),
            notes_most: tcb.notes_most(),
            retransmits: tcb.has(flag::RETRANSMIT),
            scoreboard: cold.map(|cold| cold.scoreboard.clone()).unwrap_or_default(),
            rack,
            probe: cold.map(|cold| cold.probe).unwrap_or_default(),
            prr: cold.map(|cold| cold.prr).unwrap_or_default(),
            undo,
            frto: cold.map(|cold| cold.frto).unwrap_or_default(),
            mtu_probe: cold.map(|cold| cold.mtu_probe).unwrap_or_default(),
        }
    }

    fn export_deadlines(&self) -> Deadlines {
        let (tcb, now) = (&*self.tcb, self.tick());
        let purpose = match tcb.timer_kind() {
            _ if tcb.has(flag::PERSIST) => Purpose::Persist,
            TimerKind::Retransmission => Purpose::Retransmission,
            TimerKind::Probe => Purpose::Probe,
            TimerKind::Reordering => Purpose::Reordering,
        };
        let is_pending = tcb.has(flag::ACK_PENDING);
        Deadlines {
            srtt_us: tcb.srtt_us(),
            rttvar_us: tcb.rttvar_us(),
            min_rtt_us: Some(tcb.min_rtt_us()).filter(|&us| us != u32::MAX),
            retransmission_ms: rest(tcb.rto_deadline(), now),
            purpose,
            backoff: tcb.backoff(),
            probes: tcb.probes(),
            delayed_ack_ms: rest(tcb.ack_deadline(), now).filter(|_| is_pending),
            idle_ms: rest(tcb.idle_deadline(), now),
            silent_ms: since(tcb.last_received(), now),
            owes_ack: tcb.has(flag::ACK_NOW),
            is_ack_pending: is_pending,
            owes_probe: tcb.has(flag::PROBE),
            answered_ms: since(self.cold_object().map_or(0, |cold| cold.answered_at), now),
        }
    }
}

#[cfg(test)]
mod tests;
