//! TCP_INFO in Linux's layout (include/uapi/linux/tcp.h, `struct tcp_info`).

use ringway_shm::stats::InfoRecord;

/// Writes the structure; returns its length, cut to that of `out`.
pub(crate) fn write(info: &InfoRecord, out: &mut [u8]) -> usize {
    let mut writer = Writer { bytes: [0; LEN], at: 0 };
    until_retransmits(info, &mut writer);
    until_delivered(info, &mut writer);
    the_rest(info, &mut writer);
    let len = LEN.min(out.len());
    out[..len].copy_from_slice(&writer.bytes[..len]);
    len
}

/// Fields up to and including `tcpi_total_retrans`.
fn until_retransmits(info: &InfoRecord, writer: &mut Writer) {
    // u8: state, ca_state, retransmits, probes, backoff, options, window scales, flags
    let scales = (info.scale_send & 15) | (info.scale_receive & 15) << 4;
    let flags = info.application_limited & 1 | (info.fast_open_failure & 3) << 1;
    let congestion = info.congestion_state;
    writer.bytes_of(&[info.state, congestion, info.backoff, info.probes, info.backoff, info.options & 63, scales, flags]);
    // u32: rto, ato, snd_mss, rcv_mss
    writer.words(&[info.rto_us, info.ato_us, info.mss, info.mss_received]);
    // unacked, sacked, lost, retrans, fackets. Linux counts a segment as lost until it has arrived, retransmitted or
    // not.
    let lost = info.lost_segments + info.retransmitting_segments;
    writer.words(&[info.unacked_segments, info.sacked_segments, lost, info.retransmitting_segments, 0]);
    // last_data_sent, last_ack_sent (Linux: not remembered), last_data_recv, last_ack_recv
    writer.words(&[info.last_send_ms, 0, info.last_receive_ms, info.last_ack_ms]);
    // pmtu, rcv_ssthresh, rtt, rttvar
    writer.words(&[info.path_mtu, info.receive_window, info.rtt_us, info.rtt_variance_us]);
    // snd_ssthresh, snd_cwnd, advmss, reordering
    let ssthresh = if info.ssthresh_segments == u64::MAX { 0x7fff_ffff } else { info.ssthresh_segments };
    writer.words(&[ssthresh, info.cwnd_segments, info.mss_advertised, info.reordering_segments]);
    // rcv_rtt, rcv_space, total_retrans
    let space = info.receive_space.max(INITIAL_SEGMENTS * info.mss_advertised);
    writer.words(&[info.receive_rtt_us, space, info.retransmitted_segments]);
}

/// Fields up to and including `tcpi_delivered_ce`.
fn until_delivered(info: &InfoRecord, writer: &mut Writer) {
    // u64: pacing_rate, max_pacing_rate, bytes_acked, bytes_received
    let limit = if info.pacing_rate_max == 0 { u64::MAX } else { info.pacing_rate_max };
    writer.longs(&[info.pacing_rate, limit, info.acked_bytes, info.received_bytes]);
    // u32: segs_out, segs_in, notsent_bytes, min_rtt, data_segs_in, data_segs_out
    let round_trip = if info.rtt_min_us == 0 { u64::from(u32::MAX) } else { info.rtt_min_us };
    writer.words(&[info.sent_segments, info.received_segments, info.unsent_bytes, round_trip]);
    writer.words(&[info.received_data_segments, info.sent_data_segments]);
    // u64: delivery_rate, busy_time, rwnd_limited, sndbuf_limited
    writer.longs(&[info.delivery_rate, info.busy_us, info.window_limited_us, info.buffer_limited_us]);
    // u32: delivered, delivered_ce
    writer.words(&[info.delivered_segments, info.delivered_ce]);
}

fn the_rest(info: &InfoRecord, writer: &mut Writer) {
    // u64: bytes_sent, bytes_retrans
    writer.longs(&[info.sent_bytes, info.retransmitted_bytes]);
    // u32: dsack_dups, reord_seen, rcv_ooopack, snd_wnd, rcv_wnd, rehash
    writer.words(&[info.duplicate_segments, info.reordered, info.out_of_order_packets]);
    writer.words(&[info.send_window, info.receive_window, 0]);
    // u16: total_rto, total_rto_recoveries; u32: total_rto_time
    writer.shorts(&[info.timeouts, info.timeout_episodes]);
    writer.words(&[info.timeout_ms, info.received_ce]);
    // u32: delivered_e1_bytes, delivered_e0_bytes, delivered_ce_bytes, and the same received
    writer.words(&[info.delivered_bytes_ect_1, info.delivered_bytes_ect_0, info.delivered_bytes_ce]);
    writer.words(&[info.received_bytes_ect_1, info.received_bytes_ect_0, info.received_bytes_ce]);
    // u16: accecn_fail_mode, accecn_opt_seen
    writer.shorts(&[0, info.accurate_options]);
}

/// A listener's structure, as the kernel has it for its own queue: `tcpi_unacked` is the number of connections that wait. Adds those of the stack.
pub(crate) fn add_waiting(info: &mut [u8], waiting: usize) {
    if let Some(place) = info.get_mut(24..28) {
        let of_kernel = u32::from_ne_bytes(place.try_into().expect("four bytes"));
        place.copy_from_slice(&of_kernel.saturating_add(u32::try_from(waiting).unwrap_or(u32::MAX)).to_ne_bytes());
    }
}

/// `tcpi_snd_mss`: the current largest segment, bytes.
pub(crate) fn send_segment(info: &[u8; LEN]) -> u32 {
    info[16..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}

/// `tcpi_pmtu`: the path's MTU, bytes.
pub(crate) fn path_mtu(info: &[u8; LEN]) -> u32 {
    info[60..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}

/// Bytes of a socket's send queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SendQueue {
    /// Not acknowledged, sent or not.
    pub(crate) unacknowledged: usize,
    /// Not sent even once.
    pub(crate) not_sent: usize,
}

/// The send queue, by `tcpi_bytes_acked`, `tcpi_notsent_bytes`, `tcpi_bytes_sent` and `tcpi_bytes_retrans`.
pub(crate) fn send_queue(info: &[u8; LEN]) -> SendQueue {
    let long = |at: usize| info[at..].first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes) as usize);
    let not_sent = info[144..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes) as usize);
    let under_way = long(200).saturating_sub(long(208)).saturating_sub(long(120));
    SendQueue { unacknowledged: under_way.saturating_add(not_sent), not_sent }
}

struct Writer {
    bytes: [u8; LEN],
    at: usize,
}

impl Writer {
    fn put(&mut self, value: &[u8]) {
        self.bytes[self.at..self.at + value.len()].copy_from_slice(value);
        self.at += value.len();
    }

    fn bytes_of(&mut self, values: &[u64]) {
        values.iter().for_each(|value| self.put(&[(*value).min(255) as u8]));
    }

    fn shorts(&mut self, values: &[u64]) {
        values.iter().for_each(|value| self.put(&u16::try_from(*value).unwrap_or(u16::MAX).to_ne_bytes()));
    }

    fn words(&mut self, values: &[u64]) {
        values.iter().for_each(|value| self.put(&u32::try_from(*value).unwrap_or(u32::MAX).to_ne_bytes()));
    }

    fn longs(&mut self, values: &[u64]) {
        values.iter().for_each(|value| self.put(&value.to_ne_bytes()));
    }
}

/// `tcpi_rcv_space` before any measurement, segments.
const INITIAL_SEGMENTS: u64 = 10;

/// Length up to and including `tcpi_accecn_opt_seen` (Linux 6.18).
pub(crate) const LEN: usize = 8 + 24 * 4 + 4 * 8 + 6 * 4 + 4 * 8 + 2 * 4 + 2 * 8 + 6 * 4 + 2 * 2 + 8 * 4 + 2 * 2;
const _: () = assert!(LEN == 280);

#[cfg(test)]
mod tests;
