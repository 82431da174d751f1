//! The transmission control block: a connection's state in four cache lines.
//!
//! Line 0 is read by every received segment, line 1 by every ACK and every transmission, line 2 is the header template, line
//! 3 is for opening, closing, losses and statistics. State that only some connections need (out-of-order data, SACK
//! scoreboard, CUBIC, timeouts of their own) is in a pooled [`Cold`](super::cold::Cold) object. Names are those of
//! RFC 9293 §3.3.1.
//!
//! Each value has one owner: its field is private, and one file changes it, with methods in the RFCs' words. The owners are
//! `tcb/receiver.rs`, `tcb/sender.rs`, `tcb/recovery.rs`, `tcb/timers.rs`, `send_queue` and `receive_queue`;
//! `tcb/conditions.rs` has what only the fast paths connect. An owner has a part in each line that needs it, not one part of
//! a whole line: a received segment needs SND.UNA and not SND.NXT, and a transmission needs the congestion window together
//! with the timers. Single values in line 3 have no part of their own, as a part of mixed sizes would have gaps.

use core::mem::offset_of;
use core::net::IpAddr;

use ringway_shm::prefetch;

use crate::address::SocketAddress;
use crate::config::CongestionControl;
use crate::event::SocketError;
use crate::ip::{Datagram, Flow, Template};

use super::cold;
use super::demux::FlowKey;
use super::fast_path::{MarkCondition, Prediction, WordCondition};
use super::receive_queue::{ReceiveQueue, Received};
use super::sack::Outstanding;
use super::send_queue::SendQueue;
use super::state::State;
use crate::wire::sequence::SeqNum;
use receiver::Receiver;
use recovery::Congestion;
pub(crate) use recovery::Recovery;
pub(crate) use sender::SendSpace;
use sender::{SendWindow, Sender};
pub(crate) use timers::TimerKind;
use timers::Timers;

mod conditions;
pub(crate) mod flag;
mod receiver;
mod recovery;
mod sender;
mod timers;

/// See the module's text.
#[repr(C, align(64))]
pub(crate) struct Tcb {
    // Line 0: receiving.
    pub(crate) generation: u32,
    receiver: Receiver,
    /// Closed by all that changes what it relies on.
    pub(super) prediction: Prediction,
    send_window: SendWindow,
    state: WordCondition<State>,
    /// Low four bits: Snd.Wind.Shift; high four: Rcv.Wind.Shift.
    scales: u8,
    /// [`flag`]
    flags: u16,
    pub(super) receive_queue: ReceiveQueue,
    pub(crate) local_port: u16,
    pub(crate) remote_port: u16,
    /// The application's name for the connection.
    pub(crate) user_token: u64,

    // Line 1: sending.
    sender: Sender,
    pub(super) send_queue: SendQueue,
    congestion: Congestion,
    timers: Timers,
    cold: MarkCondition<u32>,

    // Line 2: the headers below TCP.
    pub(crate) template: Template,

    // Line 3: the rest.
    /// RFC 6582, RFC 6675: recovery ends when this is acknowledged.
    recover: SeqNum,
    /// Tick of the live entry in the timer wheel; 0: none.
    timer_tick: u32,
    pub(super) received: Received,
    /// Max(SND.WND)
    max_window: u32,
    receive_buffer: u32,
    send_buffer: u32,
    stats: MarkCondition<u32>,
    bytes_acked: u64,
    /// Smallest round trip of the last minutes: low 28 bits microseconds, high four its time.
    min_rtt: u32,
    /// Tick at which the last segment arrived.
    last_received: u32,
    /// The connection has rare statistics too: a [`RareStats`](super::conn_stats::RareStats).
    pub(crate) has_rare_stats: bool,
    /// [`NOTES_MOST`], [`OFFERED`], [`PEER_ENDED`] and [`DELAYS_ACKS`].
    marks: u8,
    /// Timeouts without progress.
    backoff: u8,
    probes: WordCondition<u8>,
    /// Low three bits: the connection's error; then one bit for [`is_early`](Tcb::is_early), two of [`TimerKind`], two of
    /// [`EcnMode`](super::ecn::EcnMode).
    error_and_timer: u8,
    algorithm: MarkCondition<CongestionControl>,
    pub(crate) tos: u8,
    pub(crate) ttl: u8,
}

const _: () = assert!(size_of::<Tcb>() == 256);
const _: () = assert!(offset_of!(Tcb, user_token) == 56);
const _: () = assert!(offset_of!(Tcb, sender) == 64);
const _: () = assert!(offset_of!(Tcb, cold) == 124);
const _: () = assert!(offset_of!(Tcb, template) == 128);
const _: () = assert!(offset_of!(Tcb, recover) == 192);

/// In [`Tcb::marks`](Tcb): the largest flight is recorded, see `control`.
const NOTES_MOST: u8 = 1;
/// Waits in a listener's accept queue.
const OFFERED: u8 = 2;
/// The peer's FIN has arrived in order.
const PEER_ENDED: u8 = 4;
/// TCP_QUICKACK is off: ACKs are delayed from the first segment on.
const DELAYS_ACKS: u8 = 8;

impl Tcb {
    /// A closed block. `template` has the flow's addresses, even while it is stale.
    pub(crate) fn new(generation: u32, template: Template) -> Tcb {
        Tcb {
            generation,
            receiver: Receiver::default(),
            prediction: Prediction::CLOSED,
            send_window: SendWindow::default(),
            state: WordCondition::new(State::Closed),
            scales: 0,
            flags: 0,
            receive_queue: ReceiveQueue::default(),
            local_port: 0,
            remote_port: 0,
            user_token: 0,
            sender: Sender::default(),
            send_queue: SendQueue::default(),
            congestion: Congestion::new(),
            timers: Timers::default(),
            cold: MarkCondition::new(cold::NONE),
            template,
            recover: SeqNum(0),
            timer_tick: 0,
            received: Received::default(),
            max_window: 0,
            receive_buffer: 0,
            send_buffer: 0,
            stats: MarkCondition::new(super::conn_stats::OPENED),
            bytes_acked: 0,
            min_rtt: timers::NO_ROUND_TRIP,
            last_received: 0,
            has_rare_stats: false,
            marks: 0,
            backoff: 0,
            probes: WordCondition::new(0),
            error_and_timer: 0,
            algorithm: MarkCondition::new(CongestionControl::Cubic),
            tos: 0,
            ttl: 0,
        }
    }

    /// Snd.Wind.Shift: scale of the peer's windows.
    #[inline]
    pub(crate) fn send_scale(&self) -> u8 {
        self.scales & 15
    }

    /// Rcv.Wind.Shift: scale of our windows.
    #[inline]
    pub(crate) fn receive_scale(&self) -> u8 {
        self.scales >> 4
    }

    /// RFC 7323 §2.3: shifts are at most 14.
    pub(crate) fn set_scales(&mut self, send: u8, receive: u8) {
        self.scales = (receive.min(14) << 4) | send.min(14);
    }

    /// The flow's two ends.
    pub(crate) fn key(&self) -> FlowKey {
        let (local, remote) = self.template.addresses();
        FlowKey { local, remote, local_port: self.local_port, remote_port: self.remote_port }
    }

    /// Limit of the send queue, bytes.
    #[inline(always)]
    pub(crate) fn send_buffer(&self) -> u32 {
        self.send_buffer
    }

    /// Sets the limit of the send queue.
    pub(crate) fn set_send_buffer(&mut self, bytes: u32) {
        self.send_buffer = bytes;
    }

    /// Limit of data received in order, bytes.
    #[inline(always)]
    pub(crate) fn receive_buffer(&self) -> u32 {
        self.receive_buffer
    }

    /// Sets the limit of data received in order.
    pub(crate) fn set_receive_buffer(&mut self, bytes: u32) {
        self.receive_buffer = bytes;
    }

    /// Tick at which the last segment arrived; 0: none has.
    #[inline(always)]
    pub(crate) fn last_received(&self) -> u32 {
        self.last_received
    }

    /// Notes that a segment arrives at `tick`.
    #[inline(always)]
    pub(crate) fn segment_arrived(&mut self, tick: u32) {
        self.last_received = tick.max(1);
    }

    /// Returns true when a segment in `datagram` belongs to this connection.
    #[inline]
    pub(crate) fn is_of(&self, datagram: &Datagram) -> bool {
        self.has_ports(datagram.ports) && self.template.is_of(&datagram.pair)
    }

    /// Returns true when `ports` is the first word of this connection's received headers.
    #[inline]
    pub(crate) fn has_ports(&self, ports: u32) -> bool {
        ports == u32::from(self.remote_port) << 16 | u32::from(self.local_port)
    }

    /// Prefetches the lines that a received segment needs.
    #[inline]
    pub(crate) fn touch(&self) {
        prefetch(self);
        prefetch(&self.sender);
        prefetch(&self.template);
        prefetch(&self.recover);
    }

    /// Prefetches the lines that an expired timer needs.
    #[inline]
    pub(crate) fn touch_deadlines(&self) {
        prefetch(self);
        prefetch(&self.sender);
        prefetch(&self.recover);
    }

    /// Data that IP needs to send.
    pub(crate) fn flow(&self) -> Flow {
        let (local, remote) = self.template.addresses();
        let ports = (self.local_port, self.remote_port);
        Flow { local, remote, protocol: super::PROTOCOL, tos: self.tos & !super::ecn::CE | self.ect(), ttl: self.ttl, ports }
    }

    /// Local and remote address, for the application.
    pub(crate) fn addresses(&self) -> (SocketAddress, SocketAddress) {
        let (local, remote): (IpAddr, IpAddr) = self.template.addresses();
        (SocketAddress { ip: local, port: self.local_port }, SocketAddress { ip: remote, port: self.remote_port })
    }

    /// Like [`flight`](Tcb::flight), payload only.
    pub(crate) fn data_flight(&self) -> u32 {
        let syn = matches!(self.state(), State::SynSent | State::SynReceived) as u32;
        let (start, end) = (self.snd_una(), self.snd_nxt().earliest(self.snd_end()));
        if start.before(end) { (end - start).saturating_sub(syn) } else { 0 }
    }

    /// The part of the sequence space for queries of the scoreboard.
    pub(crate) fn outstanding(&self) -> Outstanding {
        let lost_before = if self.recovery() == Recovery::Loss { self.recover() } else { self.snd_una() };
        Outstanding { una: self.snd_una(), nxt: self.snd_nxt(), mss: self.mss() as u32, lost_before }
    }

    /// Queued bytes that were never sent.
    #[inline]
    pub(crate) fn unsent(&self) -> u32 {
        if self.snd_nxt().before(self.snd_end()) { self.snd_end() - self.snd_nxt() } else { 0 }
    }

    /// Returns true when our FIN has been sent.
    #[inline]
    pub(crate) fn is_fin_sent(&self) -> bool {
        self.has(flag::FIN_QUEUED) && self.snd_nxt().after(self.snd_end())
    }

    /// True while the largest flight is recorded: see `control`.
    #[inline]
    pub(crate) fn notes_most(&self) -> bool {
        self.marks & NOTES_MOST != 0
    }

    /// Sets or clears [`notes_most`](Tcb::notes_most).
    pub(crate) fn set_notes_most(&mut self, on: bool) {
        self.marks = if on { self.marks | NOTES_MOST } else { self.marks & !NOTES_MOST };
    }

    /// Returns true when the connection is the application's: it does not wait in a listener's accept queue.
    #[inline]
    pub(crate) fn is_accepted(&self) -> bool {
        self.marks & OFFERED == 0
    }

    /// Notes that the connection enters or leaves a listener's accept queue.
    pub(crate) fn set_offered(&mut self, on: bool) {
        self.marks = if on { self.marks | OFFERED } else { self.marks & !OFFERED };
    }

    /// Returns true when the peer's FIN has arrived in order.
    pub(crate) fn has_peer_ended(&self) -> bool {
        self.marks & PEER_ENDED != 0
    }

    /// Notes that the peer's FIN has arrived in order.
    pub(crate) fn set_peer_ended(&mut self) {
        self.marks |= PEER_ENDED;
    }

    /// Returns true when the application wants delayed ACKs, also for the connection's first segments.
    #[inline]
    pub(crate) fn delays_acks(&self) -> bool {
        self.marks & DELAYS_ACKS != 0
    }

    /// Sets or clears [`delays_acks`](Tcb::delays_acks).
    pub(crate) fn set_delays_acks(&mut self, on: bool) {
        self.marks = if on { self.marks | DELAYS_ACKS } else { self.marks & !DELAYS_ACKS };
    }

    /// Fast Open: returns true while data may come before the handshake is over.
    #[inline]
    pub(crate) fn is_early(&self) -> bool {
        self.error_and_timer & EARLY != 0
    }

    /// Sets or clears [`is_early`](Tcb::is_early).
    pub(crate) fn set_early(&mut self, on: bool) {
        self.error_and_timer = if on { self.error_and_timer | EARLY } else { self.error_and_timer & !EARLY };
    }

    /// The connection's error, if it failed.
    pub(crate) fn error(&self) -> Option<SocketError> {
        match ERRORS.get(((self.error_and_timer & ERROR) as usize).checked_sub(1)?).copied() {
            Some(SocketError::ProtocolUnreachable) if self.template.addresses().1.is_ipv6() => Some(SocketError::Prohibited),
            error => error,
        }
    }

    /// Sets the connection's error; the first one stays.
    pub(crate) fn set_error(&mut self, error: SocketError) {
        // Each family has one of these two, and they share a number.
        let error = if error == SocketError::Prohibited { SocketError::ProtocolUnreachable } else { error };
        if self.error().is_none() {
            self.error_and_timer |= ERRORS.iter().position(|&e| e == error).map_or(0, |n| n as u8 + 1);
        }
    }
}

const ERROR: u8 = 7;
const EARLY: u8 = 8;
const _: () = assert!(ERRORS.len() <= ERROR as usize);

const ERRORS: [SocketError; 7] = [
    SocketError::Reset,
    SocketError::Refused,
    SocketError::TimedOut,
    SocketError::HostUnreachable,
    SocketError::NetworkUnreachable,
    SocketError::ProtocolUnreachable,
    SocketError::Aborted,
];
