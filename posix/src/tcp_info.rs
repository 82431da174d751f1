//! TCP_INFO as Linux lays it out (include/uapi/linux/tcp.h, `struct tcp_info`).

use ringway_shm::stats::InfoRecord;

/// Writes the structure; answers its length, cut to the room there is.
pub(crate) fn write(info: &InfoRecord, out: &mut [u8]) -> usize {
    let mut writer = Writer { bytes: [0; LEN], at: 0 };
    let in_slow_start = info.ssthresh_segments == u64::MAX;
    // u8: state, ca_state, retransmits, probes, backoff, options, window scales, flags
    let options = info.options & 7 | (info.options & 8);
    let scales = (info.scale_send & 15) | (info.scale_receive & 15) << 4;
    writer.bytes_of(&[info.state, 0, info.backoff, 0, info.backoff, options, scales, info.application_limited]);
    // u32: rto, ato, snd_mss, rcv_mss
    writer.words(&[info.rto_us, 40_000, info.mss, info.mss_advertised]);
    // unacked, sacked, lost, retrans, fackets
    writer.words(&[info.unacked_segments, info.sacked_segments, info.lost_segments, 0, 0]);
    // last_data_sent, last_ack_sent, last_data_recv, last_ack_recv
    writer.words(&[info.last_send_ms, 0, info.last_receive_ms, info.last_ack_ms]);
    // pmtu, rcv_ssthresh, rtt, rttvar
    writer.words(&[info.path_mtu, info.receive_window, info.rtt_us, info.rtt_variance_us]);
    // snd_ssthresh, snd_cwnd, advmss, reordering
    let ssthresh = if in_slow_start { 0x7fff_ffff } else { info.ssthresh_segments };
    writer.words(&[ssthresh, info.cwnd_segments, info.mss_advertised, 3]);
    // rcv_rtt, rcv_space, total_retrans
    writer.words(&[0, info.receive_window, info.retransmitted_segments]);
    // u64: pacing_rate, max_pacing_rate, bytes_acked, bytes_received
    let limit = if info.pacing_rate_max == 0 { u64::MAX } else { info.pacing_rate_max };
    writer.longs(&[info.pacing_rate, limit, info.acked_bytes, info.received_bytes]);
    // u32: segs_out, segs_in, notsent_bytes, min_rtt, data_segs_in, data_segs_out
    let sent = info.sent_segments;
    writer.words(&[sent, info.received_segments, info.unsent_bytes, info.rtt_min_us, info.received_segments, sent]);
    // u64: delivery_rate, busy_time, rwnd_limited, sndbuf_limited
    writer.longs(&[info.delivery_rate, 0, 0, 0]);
    // u32: delivered, delivered_ce
    writer.words(&[info.acked_bytes / info.mss.max(1), 0]);
    // u64: bytes_sent, bytes_retrans
    writer.longs(&[info.sent_bytes, info.retransmitted_bytes]);
    // u32: dsack_dups, reord_seen, rcv_ooopack, snd_wnd, rcv_wnd, rehash
    writer.words(&[0, 0, 0, info.send_window, info.receive_window, 0]);
    let len = LEN.min(out.len());
    out[..len].copy_from_slice(&writer.bytes[..len]);
    len
}

/// `tcpi_snd_mss`: the largest segment that is sent now, bytes.
pub(crate) fn send_segment(info: &[u8; LEN]) -> u32 {
    info[16..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}

/// `tcpi_pmtu`: the path's MTU, bytes.
pub(crate) fn path_mtu(info: &[u8; LEN]) -> u32 {
    info[60..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes))
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

    fn words(&mut self, values: &[u64]) {
        values.iter().for_each(|value| self.put(&u32::try_from(*value).unwrap_or(u32::MAX).to_ne_bytes()));
    }

    fn longs(&mut self, values: &[u64]) {
        values.iter().for_each(|value| self.put(&value.to_ne_bytes()));
    }
}

/// Up to and with `tcpi_rehash` (Linux 6.2).
pub(crate) const LEN: usize = 8 + 24 * 4 + 4 * 8 + 6 * 4 + 4 * 8 + 2 * 4 + 2 * 8 + 6 * 4;
const _: () = assert!(LEN == 240);

#[cfg(test)]
mod tests;
