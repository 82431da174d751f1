//! Active open: SYN-SENT, simultaneous open, and the entry into ESTABLISHED.
//!
//! Read RFC 9293 §3.5, §3.10.7.3, RFC 7323 §2.2, RFC 6691 first.

use ringway_shm::Burst;

use crate::config::{CongestionControl, TcpConfig, TcpOptions};
use crate::event::{Event, SocketError};
use crate::ip::{Ip, LinkInfo};
use crate::stats::Counter;
use crate::wire::tcp::{ACK, FIN, HEADER_BYTES, Header, Options, RST, SYN, TIMESTAMPS_BYTES, Timestamps};

use super::congestion::initial_window;
use super::connection::Connection;
use super::ecn::{self, EcnMode};
use super::input::Drop;
use super::output::WriteError;
use super::segment::Segment;
use super::state::State;
use super::tcb::{Tcb, TimerKind, flag};
use crate::wire::sequence::SeqNum;

/// RFC 9293 §3.7.1: the MSS of a peer that names none.
const MSS_DEFAULT: u16 = 536;
/// From the reset of an old connection to the next SYN.
const SYN_AGAIN_US: u64 = 2_000;
/// A smaller MSS is raised to this (Linux: tcp_min_snd_mss).
const MSS_MIN: u16 = 48;
/// Payload bytes that one frame holds behind its headers, for links that do not gather.
pub(crate) const FRAME_PAYLOAD_MAX: u16 = 1_900;

/// Result of the negotiation in the SYNs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Agreed {
    /// The peer's MSS option.
    pub(crate) mss: u16,
    pub(crate) send_scale: u8,
    pub(crate) receive_scale: u8,
    pub(crate) timestamps: bool,
    pub(crate) sack: bool,
    /// Window scaling is on.
    pub(crate) scales: bool,
    /// TSval of the peer's SYN.
    pub(crate) ts_recent: u32,
    pub(crate) ecn: EcnMode,
    /// The ECN field of the peer's SYN.
    pub(crate) syn_field: u8,
}

/// RFC 7323 §2.3: the shift with which a window of `buffer` bytes can be advertised.
pub(crate) fn window_shift(buffer: u32) -> u8 {
    (0..14).find(|&shift| buffer >> shift <= u16::MAX as u32).unwrap_or(14)
}

/// RFC 6691: the MSS that we offer the peer; packets on its link have space for `transport_max` bytes behind the IP header.
/// `limit` is TCP_MAXSEG, 0: none.
pub(crate) fn mss_to_offer(transport_max: u16, limit: u16) -> u16 {
    let mss = transport_max.saturating_sub(HEADER_BYTES as u16).max(MSS_MIN);
    if limit == 0 { mss } else { mss.min(limit.max(MSS_MIN)) }
}

/// Payload bytes of a full segment to a peer.
pub(crate) fn mss_to_send(link: &LinkInfo, transport_max: u16, agreed: &Agreed) -> u16 {
    let options = if agreed.timestamps { TIMESTAMPS_BYTES as u16 } else { 0 };
    let own = transport_max.saturating_sub(HEADER_BYTES as u16);
    let limit = if link.gathers { u16::MAX } else { FRAME_PAYLOAD_MAX };
    agreed.mss.max(MSS_MIN).min(own.max(MSS_MIN)).min(limit) - options
}

/// Options of our SYN.
pub(crate) fn syn_options(config: &TcpConfig, mss: u16, receive_buffer: u32, timestamp: u32, echo: u32) -> Options {
    let timestamps = config.timestamps.then_some(Timestamps { value: timestamp, echo });
    Options::of_syn(mss, config.window_scaling.then(|| window_shift(receive_buffer)), config.sack, timestamps)
}

/// Evaluates the options of the peer's SYN, for the answer or the connection.
pub(crate) fn agree(config: &TcpConfig, peer: &Options, receive_buffer: u32) -> Agreed {
    let scaling = peer.window_scale.filter(|_| config.window_scaling);
    Agreed {
        mss: peer.maximum_segment_size.unwrap_or(MSS_DEFAULT),
        send_scale: scaling.unwrap_or(0).min(14),
        receive_scale: scaling.map_or(0, |_| window_shift(receive_buffer)),
        scales: scaling.is_some(),
        timestamps: config.timestamps && peer.timestamps.is_some(),
        sack: config.sack && peer.sack_permitted,
        ts_recent: peer.timestamps.map_or(0, |timestamps| timestamps.value),
        ecn: EcnMode::Off,
        syn_field: 0,
    }
}

impl Tcb {
    /// Takes over a socket's options (buffers, Nagle, header fields).
    pub(crate) fn configure(&mut self, config: &TcpConfig, options: &TcpOptions) {
        let or = |own: u32, default: u32| if own == 0 { default } else { own };
        self.set_send_buffer(or(options.send_buffer_bytes, config.send_buffer_initial_bytes.min(config.send_buffer_bytes)));
        self.set_receive_buffer(or(options.receive_buffer_bytes, config.receive_buffer_bytes).clamp(2_048, 1 << 30));
        self.set_congestion(options.congestion_control);
        self.tos = options.type_of_service;
        self.ttl = options.time_to_live;
        self.assign(flag::NO_DELAY, options.no_delay);
        self.assign(flag::CORK, options.cork || options.more);
        self.assign(flag::QUICK_ACK, options.quick_ack == Some(true));
        self.set_delays_acks(options.quick_ack == Some(false));
    }

    /// Takes over the result of the negotiation. `mss_limit` is TCP_MAXSEG, 0: none.
    pub(crate) fn agree(&mut self, ip: &Ip, agreed: &Agreed, mss_limit: u16) {
        let (local, remote) = self.template.addresses();
        if let Some(path) = ip.route(remote, Some(local)) {
            self.set_mss(mss_to_send(&ip.link(path.interface), path.transport_max(), agreed));
        }
        if mss_limit != 0 {
            self.set_mss(self.mss().min(mss_limit.max(MSS_MIN)));
        }
        self.set_scales(agreed.send_scale, agreed.receive_scale);
        self.assign(flag::TIMESTAMPS, agreed.timestamps);
        self.assign(flag::SACK, agreed.sack);
        self.set_ts_recent(agreed.ts_recent);
        self.set_ecn_mode(agreed.ecn);
    }
}

impl Connection<'_, '_> {
    /// Sends the first SYN: SND.UNA = ISS, SND.NXT = ISS + 1.
    pub(crate) fn open(&mut self, iss: SeqNum) {
        self.tcb.begin_sending(iss);
        self.tcb.set_state(State::SynSent);
        self.ack_now();
        self.restart_rto();
    }

    /// Writes our SYN, or SYN-ACK in a simultaneous open.
    pub(crate) fn write_syn(&mut self, out: &mut [Burst]) -> Result<(), WriteError> {
        let (local, remote) = self.tcb.template.addresses();
        let path = self.env.ip.route(remote, Some(local)).ok_or(WriteError::NoRoute)?;
        let transport_max = self.env.ip.offered_max(&path);
        let answer = self.tcb.state() == State::SynReceived;
        if !answer {
            self.choose_ecn();
        }
        // Without a template the packet waits for the neighbor.
        self.renew_template().ok();
        // After the peer's SYN, `mss` holds the peer's MSS; our offer does not depend on it.
        let early = self.early_answer();
        let limit = if answer { early.map_or(0, |(_, limit)| limit) } else { self.mss_clamp() };
        let mss = mss_to_offer(transport_max, limit);
        let timestamp = self.timestamp();
        let mut options = syn_options(&self.shared.config, mss, self.tcb.receive_buffer(), timestamp, self.tcb.ts_recent());
        if answer {
            options.sack_permitted &= self.tcb.has(flag::SACK);
            options.timestamps = options.timestamps.filter(|_| self.tcb.has(flag::TIMESTAMPS));
            options.window_scale = options.window_scale.filter(|_| self.tcb.receive_scale() > 0 || self.tcb.send_scale() > 0);
            options.fast_open = early.and_then(|(option, _)| option);
        }
        let plan = self.fast_open_syn(&mut options);
        let window = self.syn_window();
        let mut header = Header {
            source_port: self.tcb.local_port,
            destination_port: self.tcb.remote_port,
            sequence: self.tcb.snd_una(),
            acknowledgment: if answer { self.tcb.rcv_nxt() } else { SeqNum(0) },
            flags: if answer { SYN | ACK } else { SYN },
            window,
            options,
            ..Header::default()
        };
        match answer {
            true => {
                ecn::mark_syn_ack((self.tcb.ecn_mode(), self.syn_field()), &self.shared.config, self.tcb.backoff(), &mut header)
            }
            false => ecn::mark_syn(self.tcb.ecn_mode(), &mut header),
        }
        self.write(&header, plan.as_ref(), out)?;
        if let Some(plan) = plan {
            self.tcb.advance_next(plan.sequence + plan.len, None);
        }
        // RFC 9293 §3.8.6: with Fast Open data may have gone out before, with a window too large for a SYN.
        self.tcb.advertise(self.tcb.rcv_nxt() + window as u32);
        if self.tcb.backoff() > 0 {
            self.env.counters.count(Counter::TcpRetransSegs);
            let bytes = plan.map_or(0, |plan| plan.len);
            let state = self.tcb.recovery().linux();
            ringway_probes::tcp_retransmit(|| (self.tcb.key().ends(), header.sequence.0, bytes, state));
        }
        self.ack_sent();
        Ok(())
    }

    /// The MSS limit; until the SYNs have been exchanged, `mss` holds TCP_MAXSEG.
    fn mss_clamp(&self) -> u16 {
        if self.tcb.mss() == MSS_DEFAULT { 0 } else { self.tcb.mss() }
    }

    /// RFC 9293 §3.10.7.3: a segment arrives in SYN-SENT.
    pub(crate) fn on_segment_in_syn_sent(&mut self, segment: &mut Segment) -> Result<(), Drop> {
        // First, check the ACK bit.
        let ack = segment.acknowledgment();
        let acceptable = segment.has(ACK) && ack.after(self.tcb.snd_una()) && ack.at_or_before(self.tcb.snd_nxt());
        if segment.has(ACK) && !acceptable {
            self.answer_old_connection(segment);
            return Err(Drop::DropUnacceptable);
        }
        // Second, check the RST bit.
        if segment.has(RST) {
            if acceptable {
                ringway_probes::tcp_receive_reset(|| (segment.key.ends(),));
                self.fail(SocketError::Refused);
            }
            return Err(Drop::DropUnacceptable);
        }
        // Fourth, check the SYN bit.
        if !segment.has(SYN) {
            return Err(Drop::DropUnacceptable);
        }
        self.take_syn(segment);
        if !acceptable {
            // Simultaneous open.
            self.open_waiting();
            self.tcb.set_state(State::SynReceived);
            self.begin_accurate();
            self.remember_syn(segment);
            self.ack_now();
            return Ok(());
        }
        self.established(segment);
        self.begin_accurate();
        self.remember_syn_ack(segment);
        if segment.acknowledgment().after(self.tcb.snd_una()) {
            self.acknowledge(segment.acknowledgment(), segment);
        }
        self.ack_now();
        self.take_rest_of_syn(segment)
    }

    /// The peer has an old connection of these ports, half open or in TIME-WAIT, which a reset ends. The SYN is repeated soon after it, as in Linux, and not
    /// after the first timeout. Only once: further such answers draw no more SYNs out, and no more resets than all of the stack's may be.
    fn answer_old_connection(&mut self, segment: &Segment) {
        let soon = self.deadline(SYN_AGAIN_US);
        let is_soon = soon.wrapping_sub(self.tcb.rto_deadline()).cast_signed() >= 0;
        if segment.has(RST) || is_soon || self.tcb.backoff() > 0 {
            self.shared.replies.reset(self.now, self.env, segment);
            return;
        }
        self.shared.replies.reset_once(self.env, segment);
        self.tcb.start_rto(soon, TimerKind::Retransmission);
        self.arm_by(soon);
    }

    /// RFC 9293 §3.5 figure 7, lines 5 and 6: returns true for the answer to our SYN when both ends have opened. It lies
    /// before the window, since its SYN was taken already; the sequence check would answer it for ever.
    pub(crate) fn completes_simultaneous_open(&self, segment: &Segment) -> bool {
        self.tcb.state() == State::SynReceived
            && segment.header.flags & (SYN | ACK | RST) == SYN | ACK
            && segment.sequence + 1 == self.tcb.rcv_nxt()
            && segment.acknowledgment().after(self.tcb.snd_una())
            && segment.acknowledgment().at_or_before(self.tcb.snd_nxt())
    }

    /// See [`completes_simultaneous_open`](Connection::completes_simultaneous_open).
    pub(crate) fn on_syn_ack_in_syn_received(&mut self, segment: &mut Segment) -> Result<(), Drop> {
        self.established(segment);
        if segment.acknowledgment().after(self.tcb.snd_una()) {
            self.acknowledge(segment.acknowledgment(), segment);
        }
        // RFC 9293 §3.10.7.4, first: its SYN lies before the window. Reported as a duplicate, as in Linux.
        self.report_duplicate(segment.sequence, segment.sequence + 1, Counter::TcpDsackOldSent);
        self.ack_now();
        self.take_rest_of_syn(segment)
    }

    fn take_syn(&mut self, segment: &mut Segment) {
        let agreed = Agreed {
            ecn: self.agree_on_ecn(segment),
            ..agree(&self.shared.config, &segment.header.options, self.tcb.receive_buffer())
        };
        let limit = self.mss_clamp();
        self.tcb.agree(self.env.ip, &agreed, limit);
        self.tcb.begin_receiving(segment.sequence, self.syn_window().into());
        self.tcb.take_window(segment.sequence, segment.header.window.into());
    }

    /// Takes data or a FIN that came with the SYN-ACK.
    fn take_rest_of_syn(&mut self, segment: &mut Segment) -> Result<(), Drop> {
        segment.trim_front(self.env.arena, 1);
        if segment.len > 0 || segment.has(FIN) {
            self.take_text(segment)?;
        }
        Ok(())
    }

    /// Enters ESTABLISHED from SYN-SENT or SYN-RECEIVED: our SYN is acknowledged.
    pub(crate) fn established(&mut self, segment: &Segment) {
        let scaled = if segment.has(SYN) { 0 } else { self.tcb.send_scale() };
        let first_try = self.tcb.backoff() == 0;
        self.fast_open_answered(segment);
        let was_early = self.leave_early();
        self.tcb.advance_una(self.tcb.snd_una() + 1, 0);
        self.confirm_neighbor();
        self.tcb.take_window(segment.sequence, u32::from(segment.header.window) << scaled);
        if self.tcb.ecn_mode() != EcnMode::Off || self.tcb.congestion() == CongestionControl::Dctcp {
            // The ECN field changes from now on.
            self.tcb.template.generation = self.env.ip.generation().wrapping_sub(1);
        }
        if !first_try {
            self.note_answer();
        }
        self.tcb.end_backoff();
        self.tcb.set_cwnd(initial_window(self.tcb.mss() as u32, self.shared.config.initial_window));
        if first_try {
            self.measure_handshake(segment);
        } else {
            // RFC 6298 (5.7): the SYN was lost; RFC 5681 §3.1: one segment then.
            self.tcb.begin_loss_window();
        }
        self.begin_mtu_search();
        self.restart_rto();
        self.tcb.segment_arrived(self.tick());
        self.enter(if self.tcb.has(flag::FIN_QUEUED) { State::FinWait1 } else { State::Established });
        if self.tcb.is_accepted() && !self.tcb.has(flag::ORPHAN) && !was_early {
            let (socket, user_token) = (self.id(), self.tcb.user_token);
            self.env.events.push_back(Event::Connected { socket, user_token });
        }
        self.mark_data_if_any();
    }

    /// Takes the handshake as the first sample of the round trip.
    fn measure_handshake(&mut self, segment: &Segment) {
        if let Some(timestamps) = segment.header.options.timestamps
            && timestamps.echo != 0
        {
            let elapsed_ms = self.timestamp().wrapping_sub(timestamps.echo);
            // A clock of milliseconds reads "at most 1 ms" for a short trip.
            if elapsed_ms < 1 << 20 {
                self.take_round_trip(elapsed_ms.max(1) * 1_000);
            }
        } else if self.tcb.state() == State::SynSent && self.tcb.rto_deadline() != 0 {
            // The timer was set to RFC 6298's first timeout when the SYN was sent.
            let timeout_ms = self.shared.config.rto_initial.as_millis() as u32;
            let sent_at = self.tcb.rto_deadline().wrapping_sub(timeout_ms);
            let elapsed_ms = crate::timer::tick_at(self.now).wrapping_sub(sent_at).cast_signed().max(1).cast_unsigned();
            if elapsed_ms <= timeout_ms {
                self.take_round_trip(elapsed_ms * 1_000);
            }
        }
    }
}
