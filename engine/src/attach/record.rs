//! Statistics and `TCP_INFO` records of a socket.

use ringway_shm::channel::SlotIndex;
use ringway_shm::stats::{Endpoint, HOLDERS_NAMED, InfoRecord, SocketRecord, TimerRecord};
use ringway_shm::{Duration, Instant};
use ringway_stack::{Protocol, SocketAddress, SocketId, SocketSummary, SocketTimer, State, TcpInfo};

use super::region::Region;
use super::socket::Kind;
use crate::core::Core;

/// Number of sockets with a retransmission timer that get fresh statistics without an event.
const WAITING_MAX: usize = 256;
/// Linux's number of a closed socket.
pub(super) const UNCONNECTED: u8 = State::Closed.linux();
/// Bytes of the IP and TCP headers without options.
const IPV4_HEADERS: u64 = 40;
const IPV6_HEADERS: u64 = 60;
/// Slow-start thresholds from this value on were never set by a loss.
const NO_THRESHOLD: u32 = i32::MAX as u32;

impl Region {
    /// Writes the statistics of the sockets that have changed.
    pub(super) fn write_records(&mut self, core: &mut Core) {
        let mut again = Vec::new();
        for slot in std::mem::take(&mut self.touched) {
            let Some(socket) = self.sockets.get(slot) else { continue };
            socket.touched = false;
            let index = socket.record;
            if index.is_none() && core.bulk.is_none() {
                continue;
            }
            let record = self.record(slot, core);
            if let Some(index) = index {
                core.metrics.write_socket(index, &record);
            }
            self.watch_bulk(slot, &record.info, core);
            // A retransmission raises no event: sockets that wait for one are checked again, up to WAITING_MAX.
            if again.len() < WAITING_MAX && record.timer.is_some_and(|timer| timer.retransmits()) {
                again.push(slot);
            }
        }
        again.into_iter().for_each(|slot| self.touch(slot));
    }

    fn record(&mut self, slot: SlotIndex, core: &Core) -> SocketRecord {
        let unread = self.channel.unread(slot);
        let waiting = self.channel.tx_available(slot) as u32;
        let shared = self.channel.slot(slot);
        let (local, remote, unaccepted) = (shared.local(), shared.remote(), shared.unaccepted());
        let guard = self.guard;
        let socket = self.sockets.get(slot).expect("the caller has looked");
        let datagrams = socket.kind == Kind::Datagram;
        let tcp_id = socket.id.filter(|_| !datagrams);
        let info = tcp_id.and_then(|id| info_record(id, core)).unwrap_or_default();
        let timer = tcp_id.and_then(|id| core.stack.summary(id)).and_then(|summary| timer_record(&summary, core.now));
        let held = tcp_id.map_or(0, |id| core.stack.unread(id)) as u32;
        let options = socket.options;
        let listening = socket.listening.as_ref();
        let (state, receive_queue, send_queue) = match (socket.kind, listening) {
            (Kind::Datagram, _) => {
                let state = if remote.port() == 0 { UNCONNECTED } else { State::Established.linux() };
                (state, unread, waiting)
            }
            (Kind::Listener, Some(listening)) => (State::Listen.linux(), unaccepted, listening.backlog),
            _ => {
                let state = if info.state == 0 { UNCONNECTED } else { info.state as u8 };
                (state, unread + held, waiting + info.unacked_bytes as u32 + info.unsent_bytes as u32)
            }
        };
        let mut holders = [0; HOLDERS_NAMED];
        holders.iter_mut().zip(self.channel.holders_of(slot)).for_each(|(place, pid)| *place = pid);
        let limit = |asked: u32| if asked == 0 { core.buffer_bytes } else { asked };
        SocketRecord {
            state,
            datagrams,
            local: Endpoint { ip: local.ip(), port: local.port() },
            remote: Endpoint { ip: remote.ip(), port: remote.port() },
            receive_queue,
            send_queue,
            interface: u32::MAX,
            pid: self.owner.pid,
            uid: self.owner.uid,
            program: self.owner.program.clone(),
            region: self.number,
            slot,
            congestion_control: if listening.is_some() { String::new() } else { options.congestion_control.name().into() },
            info,
            timer,
            memory: [receive_queue, limit(options.receive_buffer_bytes), send_queue, limit(options.send_buffer_bytes)],
            kernel: listening.filter(|_| !datagrams).and_then(|listening| listening.kernel_path(guard, core)),
            holders,
        }
    }
}

/// Record of an orphan.
pub(super) fn orphan(summary: &SocketSummary, now: Instant) -> SocketRecord {
    let endpoint = |address: SocketAddress| Endpoint { ip: address.ip, port: address.port };
    SocketRecord {
        state: summary.state.linux(),
        datagrams: summary.protocol == Protocol::Udp,
        local: endpoint(summary.local),
        remote: endpoint(summary.remote),
        receive_queue: summary.receive_queue,
        send_queue: summary.send_queue,
        interface: u32::MAX,
        pid: 0,
        uid: 0,
        program: String::new(),
        region: u32::MAX,
        slot: u32::MAX,
        congestion_control: String::new(),
        info: InfoRecord::default(),
        timer: timer_record(summary, now),
        memory: [summary.receive_queue, 0, summary.send_queue, 0],
        kernel: None,
        holders: [0; HOLDERS_NAMED],
    }
}

/// Timer that the socket waits for, numbered as ss does.
fn timer_record(summary: &SocketSummary, now: Instant) -> Option<TimerRecord> {
    let (timer, left_ms) = summary.timer?;
    let kind = match timer {
        SocketTimer::Retransmit => TimerRecord::RETRANSMIT,
        SocketTimer::Keepalive => TimerRecord::KEEPALIVE,
        SocketTimer::TimeWait => TimerRecord::TIME_WAIT,
        SocketTimer::Persist => TimerRecord::PERSIST,
    };
    Some(TimerRecord { kind, retries: summary.retransmits, due: now + Duration::from_millis(left_ms.into()) })
}

/// The stack's description of a connection in the channel's format.
pub(super) fn info_record(id: SocketId, core: &Core) -> Option<InfoRecord> {
    let is_ipv6 = core.stack.addresses(id).is_some_and(|(_, remote)| remote.ip.is_ipv6());
    core.stack.info_at(core.now, id).map(|info| record_of(&info, if is_ipv6 { IPV6_HEADERS } else { IPV4_HEADERS }))
}

fn record_of(info: &TcpInfo, header_bytes: u64) -> InfoRecord {
    let segment = u64::from(info.send_mss.max(1));
    let segments = |bytes: u32| u64::from(bytes).div_ceil(segment);
    let has_threshold = info.ssthresh_bytes < NO_THRESHOLD;
    let scaled = info.send_scale != 0 || info.receive_scale != 0;
    InfoRecord {
        state: u64::from(info.state.linux()),
        rto_us: info.rto_us.into(),
        rtt_us: info.rtt_us.into(),
        rtt_variance_us: info.rtt_variance_us.into(),
        rtt_min_us: info.min_rtt_us.into(),
        mss: info.send_mss.into(),
        mss_received: info.receive_mss.into(),
        mss_advertised: info.advertised_mss.into(),
        path_mtu: u64::from(info.send_mss) + header_bytes + if info.timestamps { 12 } else { 0 },
        cwnd_segments: u64::from(info.cwnd_bytes) / segment,
        ssthresh_segments: if has_threshold { u64::from(info.ssthresh_bytes) / segment } else { u64::MAX },
        scale_send: info.send_scale.into(),
        scale_receive: info.receive_scale.into(),
        options: u64::from(info.timestamps)
            | u64::from(info.sack) << 1
            | u64::from(scaled) << 2
            | u64::from(info.ecn) << 3
            | u64::from(info.syn_data) << 5,
        unacked_segments: segments(info.unacked_bytes),
        lost_segments: segments(info.lost_bytes),
        sacked_segments: segments(info.sacked_bytes),
        backoff: info.backoff.into(),
        retransmitted_segments: info.total_retransmits.into(),
        retransmitted_bytes: info.bytes_retransmitted,
        sent_bytes: info.bytes_sent,
        acked_bytes: info.bytes_acked,
        received_bytes: info.bytes_received,
        unacked_bytes: info.unacked_bytes.into(),
        unsent_bytes: info.unsent_bytes.into(),
        send_window: info.send_window.into(),
        receive_window: info.receive_window.into(),
        sent_segments: info.segments_out.into(),
        received_segments: info.segments_in.into(),
        last_send_ms: info.last_data_sent_ms.into(),
        last_receive_ms: info.last_data_received_ms.into(),
        last_ack_ms: info.last_received_ms.into(),
        delivery_rate: info.delivery_rate,
        application_limited: info.application_limited.into(),
        pacing_rate: info.pacing_rate,
        pacing_rate_max: info.pacing_rate_max,
        ..tallied(info, &segments)
    }
}

/// The fields that are counts, not measurements.
fn tallied(info: &TcpInfo, segments: &dyn Fn(u32) -> u64) -> InfoRecord {
    let micros = |milliseconds: u32| u64::from(milliseconds) * 1_000;
    let marks = &info.marks;
    InfoRecord {
        congestion_state: info.congestion_state.into(),
        probes: info.probes.into(),
        ato_us: info.ato_us.into(),
        retransmitting_segments: segments(info.retransmitted_bytes),
        receive_rtt_us: info.receive_rtt_us.into(),
        receive_space: info.receive_rate_bytes.into(),
        received_data_segments: info.data_segments_in.into(),
        sent_data_segments: info.data_segments_out.into(),
        busy_us: micros(info.busy_ms),
        window_limited_us: micros(info.window_limited_ms),
        buffer_limited_us: micros(info.buffer_limited_ms),
        delivered_segments: info.delivered.into(),
        delivered_ce: marks.delivered_ce.into(),
        duplicate_segments: info.duplicates.into(),
        reordered: info.reordered.into(),
        reordering_segments: info.reordering.into(),
        out_of_order_packets: info.out_of_order.into(),
        timeouts: info.timeouts.into(),
        timeout_episodes: info.timeout_episodes.into(),
        timeout_ms: info.timeout_ms.into(),
        received_ce: marks.received_ce.into(),
        delivered_bytes_ect_1: marks.delivered_bytes[0].into(),
        delivered_bytes_ce: marks.delivered_bytes[1].into(),
        delivered_bytes_ect_0: marks.delivered_bytes[2].into(),
        received_bytes_ect_1: marks.received_bytes[0].into(),
        received_bytes_ce: marks.received_bytes[1].into(),
        received_bytes_ect_0: marks.received_bytes[2].into(),
        accurate_options: marks.options_seen.into(),
        fast_open_failure: info.fast_open_failure.into(),
        ..InfoRecord::default()
    }
}
