//! What the stack says of a connection, in the form that tools and programs read.

use ringway_shm::stats::{InfoRecord, TimerRecord};
use ringway_shm::{Duration, Instant};
use ringway_stack::{SocketSummary, SocketTimer, TcpInfo};

/// Bytes of the IP and TCP headers without options.
const IPV4_HEADERS: u64 = 40;
const IPV6_HEADERS: u64 = 60;
/// Slow-start thresholds from this value on were never set by a loss.
const NO_THRESHOLD: u32 = i32::MAX as u32;

/// Timer that the socket waits for, numbered as ss does.
pub(crate) fn timer_record(summary: &SocketSummary, now: Instant) -> Option<TimerRecord> {
    let (timer, left_ms) = summary.timer?;
    let kind = match timer {
        SocketTimer::Retransmit => TimerRecord::RETRANSMIT,
        SocketTimer::Keepalive => TimerRecord::KEEPALIVE,
        SocketTimer::TimeWait => TimerRecord::TIME_WAIT,
        SocketTimer::Persist => TimerRecord::PERSIST,
    };
    Some(TimerRecord { kind, retries: summary.retransmits, due: now + Duration::from_millis(left_ms.into()) })
}

/// The stack's description of a connection.
pub(crate) fn record_of(info: &TcpInfo, is_ipv6: bool) -> InfoRecord {
    let header_bytes = if is_ipv6 { IPV6_HEADERS } else { IPV4_HEADERS };
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
