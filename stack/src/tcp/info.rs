//! Connection data for tools and `TCP_INFO`.

use crate::address::SocketAddress;
use crate::event::SocketId;
use crate::ip::Ip;

use super::Tcp;
use super::conn_stats::ConnStats;
use super::connect::mss_to_offer;
use super::ecn::{EcnMode, EcnState};
use super::fast_open::{Early, Failure};
use super::listener::LISTENER_BIT;
use super::receive_mss;
use super::rtt;
use super::state::State;
use super::tcb::{Recovery, Tcb, flag};
use crate::timer;
use ringway_shm::Instant;

/// Contents of `TCP_INFO`, in Linux's terms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TcpInfo {
    /// State.
    pub state: State,
    /// Linux's tcpi_ca_state: 0 open, 1 disorder, 2 reducing for a mark, 3 recovery, 4 loss.
    pub congestion_state: u8,
    /// Timeouts in a row.
    pub backoff: u8,
    /// Keepalive or zero-window probes without an answer.
    pub probes: u8,
    /// RFC 7323 timestamps are on.
    pub timestamps: bool,
    /// RFC 2018 is on.
    pub sack: bool,
    /// RFC 3168 or RFC 9768 is on.
    pub ecn: bool,
    /// Shift of the peer's windows.
    pub send_scale: u8,
    /// Shift of our windows.
    pub receive_scale: u8,
    /// Retransmission timeout, microseconds.
    pub rto_us: u32,
    /// Delay of ACKs, microseconds.
    pub ato_us: u32,
    /// Payload bytes of a full segment to the peer.
    pub send_mss: u32,
    /// Payload bytes of a full segment from the peer, estimated from received segments.
    pub receive_mss: u32,
    /// Payload bytes of the largest segment that the peer may send.
    pub advertised_mss: u32,
    /// Bytes sent and not acknowledged.
    pub unacked_bytes: u32,
    /// Bytes that the peer holds out of order.
    pub sacked_bytes: u32,
    /// Bytes marked lost and not retransmitted yet.
    pub lost_bytes: u32,
    /// Bytes retransmitted and neither acknowledged nor found lost since.
    pub retransmitted_bytes: u32,
    /// Segments retransmitted over the connection's life.
    pub total_retransmits: u32,
    /// Milliseconds since the last segment arrived.
    pub last_received_ms: u32,
    /// Milliseconds since payload was last received.
    pub last_data_received_ms: u32,
    /// Milliseconds since payload was last sent.
    pub last_data_sent_ms: u32,
    /// Smoothed round-trip time, microseconds.
    pub rtt_us: u32,
    /// Its variance, microseconds.
    pub rtt_variance_us: u32,
    /// Smallest round-trip time seen, microseconds; 0: none.
    pub min_rtt_us: u32,
    /// Congestion window, bytes.
    pub cwnd_bytes: u32,
    /// Slow-start threshold, bytes.
    pub ssthresh_bytes: u32,
    /// The peer's window, bytes.
    pub send_window: u32,
    /// Our window, bytes.
    pub receive_window: u32,
    /// Receive buffer, bytes.
    pub receive_space: u32,
    /// Payload bytes acknowledged by the peer.
    pub bytes_acked: u64,
    /// Payload bytes received in order.
    pub bytes_received: u64,
    /// Queued bytes that were never sent.
    pub unsent_bytes: u32,
    /// RFC 7413: data in the SYN was taken.
    pub syn_data: bool,
    /// Linux's tcpi_fastopen_client_fail: 1 no cookie, 2 data not acknowledged, 3 SYN retransmitted.
    pub fast_open_failure: u8,
    /// Estimated delivery rate, bytes per second; 0: not known.
    pub delivery_rate: u64,
    /// The application limited that rate.
    pub application_limited: bool,
    /// Rate at which data leaves, or would if the connection were paced, bytes per second.
    pub pacing_rate: u64,
    /// SO_MAX_PACING_RATE, bytes per second; 0: none.
    pub pacing_rate_max: u64,
    /// Round-trip time measured by the receiver, microseconds; 0: none.
    pub receive_rtt_us: u32,
    /// Most bytes that the application has read within such a round trip.
    pub receive_rate_bytes: u32,
    /// Segments received.
    pub segments_in: u32,
    /// Segments sent.
    pub segments_out: u32,
    /// Segments received with payload.
    pub data_segments_in: u32,
    /// Segments sent with payload.
    pub data_segments_out: u32,
    /// Payload bytes sent, retransmissions included.
    pub bytes_sent: u64,
    /// Payload bytes retransmitted.
    pub bytes_retransmitted: u64,
    /// Time with unacknowledged or unsent data, milliseconds.
    pub busy_ms: u32,
    /// Part of it in which the peer's window let nothing out.
    pub window_limited_ms: u32,
    /// Part of it in which all of a full send buffer was in flight.
    pub buffer_limited_ms: u32,
    /// Segments that have arrived at the peer, the SYN included.
    pub delivered: u32,
    /// Segments that the peer reports as received twice.
    pub duplicates: u32,
    /// Number of times that segments arrived at the peer out of order.
    pub reordered: u32,
    /// Largest displacement of a segment, in segments; at least 3.
    pub reordering: u32,
    /// Packets received out of order.
    pub out_of_order: u32,
    /// Retransmission timeouts.
    pub timeouts: u16,
    /// Number of timeouts that followed no other timeout.
    pub timeout_episodes: u16,
    /// Duration of those episodes, milliseconds.
    pub timeout_ms: u32,
    /// Counts of congestion marks.
    pub marks: MarkInfo,
}

/// Counts of congestion marks (RFC 3168, RFC 9768).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MarkInfo {
    /// Segments that arrived at the peer with a mark, from its reports.
    pub delivered_ce: u32,
    /// Packets received with a mark.
    pub received_ce: u32,
    /// Payload bytes that arrived at the peer with ECT(1), CE, ECT(0), from its options.
    pub delivered_bytes: [u32; 3],
    /// Payload bytes received with ECT(1), CE, ECT(0).
    pub received_bytes: [u32; 3],
    /// The peer's segments carry the option.
    pub options_seen: bool,
    /// The path garbles marks: no ECN-capable packets are sent.
    pub unmarked: bool,
}

/// The timer that a connection waits for next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketTimer {
    /// Retransmission.
    Retransmit,
    /// Zero-window probe.
    Persist,
    /// Keepalive, or the end of FIN-WAIT-2.
    Keepalive,
    /// End of TIME-WAIT.
    TimeWait,
}

/// Transport protocol of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// TCP
    Tcp,
    /// UDP: its sockets are [`State::Established`] when connected and [`State::Closed`] otherwise, as in Linux.
    Udp,
}

/// One line of `ss`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketSummary {
    /// Its protocol.
    pub protocol: Protocol,
    /// Id; all ones for records without one (SYN-RECV, TIME-WAIT).
    pub id: SocketId,
    /// State.
    pub state: State,
    /// Local end.
    pub local: SocketAddress,
    /// Remote end; unspecified for a listener.
    pub remote: SocketAddress,
    /// Bytes received and not read; for a listener: connections waiting.
    pub receive_queue: u32,
    /// Bytes sent or queued and not acknowledged; for a listener: the backlog.
    pub send_queue: u32,
    /// The application's name for it.
    pub user_token: u64,
    /// The next timer, and the milliseconds until it expires.
    pub timer: Option<(SocketTimer, u32)>,
    /// Timeouts, or probes without an answer, in a row.
    pub retransmits: u8,
    /// No application holds it: closed, but not finished.
    pub orphan: bool,
}

const NO_NAME: SocketId = SocketId { index: u32::MAX, generation: u32::MAX };

impl Tcp {
    /// `TCP_INFO` of a connection. `now` `None`: as of the last call that brought the time.
    pub(crate) fn info(&self, now: Option<Instant>, ip: &Ip, id: SocketId) -> Option<TcpInfo> {
        self.resolve(id).map(|tcb| self.info_of(now.unwrap_or(self.now), ip, tcb))
    }

    /// `TCP_INFO` of a connection, an orphan too.
    pub(super) fn info_of(&self, now: Instant, ip: &Ip, tcb: &Tcb) -> TcpInfo {
        let board = self.shared.cold.get(tcb.cold()).map(|cold| &cold.scoreboard);
        let ecn = self.shared.cold.get(tcb.cold()).map_or(EcnState::default(), |cold| cold.ecn);
        let cold = self.shared.cold.get(tcb.cold());
        let rate_based = cold.and_then(|cold| cold.rate_based.as_ref());
        let sampled = rate_based.map(|rate_based| rate_based.rate.latest);
        let pacing_rate = rate_based.map_or_else(|| super::pacing::window_rate(tcb), |rate_based| rate_based.pacing_rate());
        let pacing_rate_max = cold.map_or(0, |cold| cold.pacing.rate_max);
        let early = self.shared.cold.get(tcb.cold()).map(|cold| cold.fast_open).unwrap_or_default();
        let (syn_data, failure) = match early {
            Early::Over { data, failure } => (data, failure),
            Early::Sent { failure, .. } => (false, failure),
            Early::Passive { .. } => (tcb.bytes_received() > 0, Failure::None),
            Early::Off | Early::Waiting { .. } => (false, Failure::None),
        };
        TcpInfo {
            state: tcb.state(),
            congestion_state: match tcb.recovery() {
                Recovery::Open if ecn.reduction.is_some() => 2,
                Recovery::Open if tcb.dup_acks() > 0 => 1,
                recovery => recovery.linux(),
            },
            backoff: tcb.backoff(),
            probes: tcb.probes(),
            timestamps: tcb.has(flag::TIMESTAMPS),
            sack: tcb.has(flag::SACK),
            ecn: tcb.ecn_mode() != EcnMode::Off,
            send_scale: tcb.send_scale(),
            receive_scale: tcb.receive_scale(),
            rto_us: rtt::backed_off_us(&self.shared.timing, tcb.srtt_us(), tcb.rttvar_us(), tcb.backoff()) as u32,
            ato_us: self.shared.config.delayed_ack.as_micros() as u32,
            send_mss: tcb.mss() as u32,
            unacked_bytes: tcb.flight(),
            sacked_bytes: board.map_or(0, |board| board.sacked()),
            lost_bytes: self.lost_bytes(tcb),
            retransmitted_bytes: self.shared.cold.get(tcb.cold()).map_or(0, |cold| cold.rack.again.bytes()),
            rtt_us: tcb.srtt_us(),
            rtt_variance_us: tcb.rttvar_us(),
            min_rtt_us: if tcb.min_rtt_us() == u32::MAX { 0 } else { tcb.min_rtt_us() },
            cwnd_bytes: tcb.cwnd(),
            ssthresh_bytes: tcb.ssthresh(),
            send_window: tcb.snd_wnd(),
            receive_window: tcb.receive_window(),
            receive_space: tcb.receive_buffer(),
            bytes_acked: tcb.bytes_acked(),
            bytes_received: tcb.bytes_received(),
            unsent_bytes: tcb.unsent(),
            syn_data,
            fast_open_failure: failure as u8,
            pacing_rate: if pacing_rate_max == 0 { pacing_rate } else { pacing_rate.min(pacing_rate_max) },
            pacing_rate_max,
            ..self.tallied(now, ip, tcb, sampled)
        }
    }

    /// The counters and the rate; `sampled` is the rate of a model.
    fn tallied(&self, now: Instant, ip: &Ip, tcb: &Tcb, sampled: Option<(u64, bool)>) -> TcpInfo {
        let rare = self.shared.conn_stats.rare(tcb).copied().unwrap_or_default();
        let now = timer::tick_at(now);
        let stats = &self.shared.conn_stats.read(tcb, now);
        let times = self.shared.conn_stats.times(tcb, now);
        let (advertised_mss, receive_mss) = receive_mss::figures(offered(ip, tcb, rare.offer_limit), stats, tcb);
        let (receive_rtt_us, receive_rate_bytes) = rare.receive.figures();
        let sampled = sampled.filter(|latest| latest.0 != 0).or_else(|| rare.rate.latest());
        let (delivery_rate, application_limited) = sampled.unwrap_or_else(|| (message_rate(tcb, stats), true));
        let cold = self.shared.cold.get(tcb.cold());
        TcpInfo {
            last_received_ms: now.wrapping_sub(tcb.last_received()),
            last_data_received_ms: now.wrapping_sub(stats.data_received_at),
            last_data_sent_ms: now.wrapping_sub(stats.data_sent_at),
            receive_mss,
            advertised_mss,
            delivery_rate,
            application_limited,
            receive_rtt_us,
            receive_rate_bytes,
            segments_in: stats.segments_in,
            segments_out: stats.segments_out,
            data_segments_in: stats.data_segments_in,
            data_segments_out: stats.data_segments_out,
            bytes_sent: tcb.bytes_acked() + tcb.data_flight() as u64 + rare.retransmitted_bytes,
            bytes_retransmitted: rare.retransmitted_bytes,
            total_retransmits: rare.retransmitted_segments,
            busy_ms: times.busy_ms,
            window_limited_ms: times.window_limited_ms,
            buffer_limited_ms: times.buffer_limited_ms,
            delivered: delivered(tcb, stats, rare.retransmitted_segments, cold.map_or(0, |cold| cold.scoreboard.sacked())),
            duplicates: rare.duplicates,
            reordered: rare.reordered,
            reordering: rare.reordering.max(super::sack::DUP_THRESH),
            out_of_order: rare.out_of_order,
            timeouts: rare.timeouts,
            timeout_episodes: rare.timeout_episodes,
            timeout_ms: rare.timeout_ms,
            marks: self.marks(tcb, cold.map_or(EcnState::default(), |cold| cold.ecn)),
            ..TcpInfo::default()
        }
    }

    fn marks(&self, tcb: &Tcb, ecn: EcnState) -> MarkInfo {
        let accurate = self.shared.cold.get(tcb.cold()).and_then(|cold| cold.accurate);
        let unmarked = tcb.ecn_mode() == EcnMode::AccurateUnmarked;
        let plain = MarkInfo { delivered_ce: ecn.delivered_ce, unmarked, ..MarkInfo::default() };
        accurate.map_or(plain, |accurate| MarkInfo {
            received_ce: accurate.received_ce,
            delivered_bytes: accurate.delivered_bytes(),
            received_bytes: accurate.received_bytes(),
            options_seen: accurate.options_seen,
            ..plain
        })
    }

    /// Bytes that are neither acknowledged nor in flight nor held by the peer.
    fn lost_bytes(&self, tcb: &Tcb) -> u32 {
        let board = self.shared.cold.get(tcb.cold());
        if let Some(cold) = board.filter(|_| self.shared.config.rack && tcb.has(flag::SACK)) {
            return cold.rack.lost.bytes();
        }
        let Some(cold) = self.shared.cold.get(tcb.cold()).filter(|_| tcb.recovery() != Recovery::Open) else { return 0 };
        let pipe = cold.scoreboard.pipe(&tcb.outstanding());
        tcb.flight().saturating_sub(cold.scoreboard.sacked()).saturating_sub(pipe)
    }

    /// Calls `visit` for every listener, connection and record.
    pub(crate) fn for_each_socket(&self, visit: &mut dyn FnMut(&SocketSummary)) {
        for (index, listener) in self.listeners.iter() {
            let any = SocketAddress { ip: if listener.local.ip.is_ipv4() { ANY_V4 } else { ANY_V6 }, port: 0 };
            visit(&SocketSummary {
                id: SocketId { index: index | LISTENER_BIT, generation: listener.generation },
                receive_queue: listener.accept_queue.len() as u32,
                send_queue: listener.backlog,
                user_token: listener.user_token,
                ..bare(State::Listen, listener.local, any)
            });
        }
        for (index, tcb) in self.tcbs.iter().enumerate() {
            // A freed block is closed and has no flags.
            if tcb.state() != State::Closed {
                visit(&self.summary(index as u32, tcb));
            }
        }
        for record in self.syn_queue.iter() {
            visit(&SocketSummary { retransmits: record.retries, ..of_key(State::SynReceived, &record.key) });
        }
        let now = timer::tick_at(self.now);
        for (record, expires) in self.time_wait.iter() {
            let left = expires.wrapping_sub(now).cast_signed().max(0).cast_unsigned();
            let timer = Some((SocketTimer::TimeWait, left));
            visit(&SocketSummary { timer, ..of_key(State::TimeWait, &record.key) });
        }
    }

    /// Numbers of records that no application holds: half-open connections, and those in TIME-WAIT.
    pub(crate) fn records(&self) -> (usize, usize) {
        (self.syn_queue.iter().count(), self.time_wait.iter().count())
    }

    /// The summary of one connection.
    pub(crate) fn summary_of(&self, id: SocketId) -> Option<SocketSummary> {
        self.resolve(id).map(|tcb| self.summary(id.index, tcb))
    }

    pub(super) fn summary(&self, index: u32, tcb: &Tcb) -> SocketSummary {
        let (local, remote) = tcb.addresses();
        let now = timer::tick_at(self.now);
        let left = |tick: u32| tick.wrapping_sub(now).cast_signed().max(0).cast_unsigned();
        let timer = match (tcb.rto_deadline(), tcb.idle_deadline()) {
            (0, 0) => None,
            (0, idle) => Some((SocketTimer::Keepalive, left(idle))),
            (rto, _) if tcb.has(flag::PERSIST) => Some((SocketTimer::Persist, left(rto))),
            (rto, _) => Some((SocketTimer::Retransmit, left(rto))),
        };
        SocketSummary {
            id: SocketId { index, generation: tcb.generation },
            receive_queue: tcb.unread(),
            send_queue: tcb.flight() + tcb.unsent(),
            user_token: tcb.user_token,
            timer,
            retransmits: if matches!(timer, Some((SocketTimer::Keepalive, _))) { tcb.probes() } else { tcb.backoff() },
            orphan: tcb.has(flag::ORPHAN),
            ..bare(tcb.state(), local, remote)
        }
    }
}

/// Rate of a connection that never has more than a segment in flight: one of average size per round trip, limited by the
/// application.
fn message_rate(tcb: &Tcb, stats: &ConnStats) -> u64 {
    let average = tcb.bytes_acked().checked_div(stats.data_segments_out as u64).unwrap_or(0);
    average.saturating_mul(1_000_000).checked_div(tcb.srtt_us() as u64).unwrap_or(0)
}

/// The MSS that our SYN would offer now, with TCP_MAXSEG `limit`. Without a route to the peer: the MSS that we send to it.
fn offered(ip: &Ip, tcb: &Tcb, limit: u16) -> u16 {
    let (local, remote) = tcb.template.addresses();
    ip.route(remote, Some(local)).map_or(tcb.mss(), |path| mss_to_offer(ip.offered_max(&path), limit))
}

/// Number of segments that have arrived at the peer: those sent for the first time that are not in flight.
fn delivered(tcb: &Tcb, stats: &ConnStats, again: u32, sacked: u32) -> u32 {
    let first = stats.data_segments_out.saturating_sub(again);
    let under_way = tcb.data_flight().saturating_sub(sacked).div_ceil((tcb.mss() as u32).max(1));
    let syn = !matches!(tcb.state(), State::SynSent | State::SynReceived) as u32;
    first.saturating_sub(under_way) + syn
}

fn bare(state: State, local: SocketAddress, remote: SocketAddress) -> SocketSummary {
    SocketSummary {
        protocol: Protocol::Tcp,
        id: NO_NAME,
        state,
        local,
        remote,
        receive_queue: 0,
        send_queue: 0,
        user_token: 0,
        timer: None,
        retransmits: 0,
        orphan: false,
    }
}

/// A record of which only the flow and the state are known.
pub(super) fn of_key(state: State, key: &super::demux::FlowKey) -> SocketSummary {
    let end = |ip, port| SocketAddress { ip, port };
    bare(state, end(key.local, key.local_port), end(key.remote, key.remote_port))
}

const ANY_V4: core::net::IpAddr = core::net::IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED);
const ANY_V6: core::net::IpAddr = core::net::IpAddr::V6(core::net::Ipv6Addr::UNSPECIFIED);
