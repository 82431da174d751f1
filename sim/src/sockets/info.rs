//! TCP_INFO: Linux's `struct tcp_info` as a table of named fields, the source of both a script's assertions and a program's
//! bytes.

use ringway_stack::{State, TcpInfo};

use super::{Machine, Phase};

/// One field: name, bytes, value.
pub(super) type Field = (&'static str, usize, u64);

impl Machine {
    /// Returns the fields of TCP_INFO in order; those of an unconnected socket are zero except the state.
    pub(super) fn info_fields(&mut self, fd: i32) -> Result<Vec<Field>, i32> {
        let socket = self.socket_of(fd)?;
        let (id, phase) = (socket.id, socket.phase);
        let info = id.and_then(|id| self.stack.info(id));
        let socket = self.socket_of(fd)?;
        if info.is_some() {
            socket.info = info;
        }
        let state = match (phase, &info) {
            (Phase::Listening, _) => State::Listen,
            (_, Some(info)) if info.state != State::TimeWait => info.state,
            _ => State::Closed,
        };
        let last = socket.info;
        Ok(last.map_or_else(|| empty(state), |info| fields(state, &info)))
    }

    /// Returns names and values of TCP_INFO; nothing for a descriptor that is not a socket.
    pub fn info_values(&mut self, fd: i32) -> Vec<(&'static str, u64)> {
        let fields = self.info_fields(fd).unwrap_or_default();
        fields.into_iter().map(|(name, _, value)| (name, value)).collect()
    }

    /// Returns the structure's bytes.
    pub(super) fn info_bytes(&mut self, fd: i32) -> Result<Vec<u8>, i32> {
        let mut bytes = Vec::new();
        for (_, len, value) in self.info_fields(fd)? {
            bytes.extend_from_slice(&value.to_ne_bytes()[..len]);
        }
        Ok(bytes)
    }
}

fn empty(state: State) -> Vec<Field> {
    let mut all = fields(state, &TcpInfo::default());
    for (name, _, value) in &mut all {
        *value = match *name {
            "tcpi_state" => u64::from(state.linux()),
            "tcpi_snd_cwnd" => 10,
            "tcpi_snd_ssthresh" => 0x7fff_ffff,
            "tcpi_rto" => 1_000_000,
            "tcpi_reordering" => 3,
            "tcpi_snd_mss" => 536,
            _ => 0,
        };
    }
    all
}

fn fields(state: State, info: &TcpInfo) -> Vec<Field> {
    let mss = info.send_mss.max(1);
    let segments = |bytes: u32| u64::from(bytes.div_ceil(mss));
    let options = number(info.timestamps) | number(info.sack) << 1 | u64::from(info.send_scale | info.receive_scale != 0) << 2;
    let options = options | u64::from(info.ecn) << 3 | u64::from(info.syn_data) << 5;
    let ssthresh = if info.ssthresh_bytes >= 0x7fff_ffff { 0x7fff_ffff } else { number(info.ssthresh_bytes / mss) };
    let head: [Field; 8] = [
        ("tcpi_state", 1, number(state.linux())),
        ("tcpi_ca_state", 1, number(info.congestion_state)),
        ("tcpi_retransmits", 1, number(info.backoff)),
        ("tcpi_probes", 1, number(info.probes)),
        ("tcpi_backoff", 1, number(info.backoff)),
        ("tcpi_options", 1, options),
        ("tcpi_wscale", 1, number(info.send_scale & 15 | (info.receive_scale & 15) << 4)),
        ("tcpi_delivery_rate_app_limited", 1, number(info.application_limited) | number(info.fast_open_failure) << 1),
    ];
    let words = [
        ("tcpi_rto", number(info.rto_us)),
        ("tcpi_ato", number(info.ato_us)),
        ("tcpi_snd_mss", number(info.send_mss)),
        ("tcpi_rcv_mss", number(info.receive_mss)),
        ("tcpi_unacked", segments(info.unacked_bytes)),
        ("tcpi_sacked", segments(info.sacked_bytes)),
        // Linux counts lost segments until they have arrived, retransmitted or not.
        ("tcpi_lost", segments(info.lost_bytes + info.retransmitted_bytes)),
        ("tcpi_retrans", segments(info.retransmitted_bytes)),
        ("tcpi_fackets", 0),
        ("tcpi_last_data_sent", number(info.last_data_sent_ms)),
        ("tcpi_last_ack_sent", 0),
        ("tcpi_last_data_recv", number(info.last_data_received_ms)),
        ("tcpi_last_ack_recv", number(info.last_received_ms)),
        ("tcpi_pmtu", 1_500),
        ("tcpi_rcv_ssthresh", number(info.receive_window)),
        ("tcpi_rtt", number(info.rtt_us)),
        ("tcpi_rttvar", number(info.rtt_variance_us)),
        ("tcpi_snd_ssthresh", ssthresh),
        ("tcpi_snd_cwnd", number(info.cwnd_bytes / mss)),
        ("tcpi_advmss", number(info.advertised_mss)),
        ("tcpi_reordering", number(info.reordering)),
        ("tcpi_rcv_rtt", number(info.receive_rtt_us)),
        ("tcpi_rcv_space", number(info.receive_rate_bytes.max(10 * info.receive_mss))),
        ("tcpi_total_retrans", number(info.total_retransmits)),
    ];
    let mut all = head.to_vec();
    all.extend(words.map(|(name, value)| (name, 4, value)));
    all.extend(later_fields(info));
    all
}

/// Fields that Linux added after 3.15.
fn later_fields(info: &TcpInfo) -> Vec<Field> {
    let min_rtt = if info.min_rtt_us == 0 { u32::MAX } else { info.min_rtt_us };
    let longs = [
        ("tcpi_pacing_rate", info.pacing_rate),
        ("tcpi_max_pacing_rate", if info.pacing_rate_max == 0 { u64::MAX } else { info.pacing_rate_max }),
        ("tcpi_bytes_acked", info.bytes_acked),
        ("tcpi_bytes_received", info.bytes_received),
    ];
    let more_words = [
        ("tcpi_segs_out", number(info.segments_out)),
        ("tcpi_segs_in", number(info.segments_in)),
        ("tcpi_notsent_bytes", number(info.unsent_bytes)),
        ("tcpi_min_rtt", number(min_rtt)),
        ("tcpi_data_segs_in", number(info.data_segments_in)),
        ("tcpi_data_segs_out", number(info.data_segments_out)),
    ];
    let micros = |ms: u32| u64::from(ms) * 1_000;
    let more_longs = [
        ("tcpi_delivery_rate", info.delivery_rate),
        ("tcpi_busy_time", micros(info.busy_ms)),
        ("tcpi_rwnd_limited", micros(info.window_limited_ms)),
        ("tcpi_sndbuf_limited", micros(info.buffer_limited_ms)),
    ];
    let delivered = [("tcpi_delivered", number(info.delivered)), ("tcpi_delivered_ce", number(info.marks.delivered_ce))];
    let sent = [("tcpi_bytes_sent", info.bytes_sent), ("tcpi_bytes_retrans", info.bytes_retransmitted)];
    let tail = [
        ("tcpi_dsack_dups", number(info.duplicates)),
        ("tcpi_reord_seen", number(info.reordered)),
        ("tcpi_rcv_ooopack", number(info.out_of_order)),
        ("tcpi_snd_wnd", number(info.send_window)),
        ("tcpi_rcv_wnd", number(info.receive_window)),
        ("tcpi_rehash", 0),
    ];
    let mut all = Vec::new();
    let mut add =
        |bytes: usize, part: &[(&'static str, u64)]| all.extend(part.iter().map(|(name, value)| (*name, bytes, *value)));
    add(8, &longs);
    add(4, &more_words);
    add(8, &more_longs);
    add(4, &delivered);
    add(8, &sent);
    add(4, &tail);
    add(2, &[("tcpi_total_rto", number(info.timeouts)), ("tcpi_total_rto_recoveries", number(info.timeout_episodes))]);
    add(4, &[("tcpi_total_rto_time", number(info.timeout_ms))]);
    let [delivered, received] = [info.marks.delivered_bytes, info.marks.received_bytes];
    let marks = [
        ("tcpi_received_ce", number(info.marks.received_ce)),
        ("tcpi_delivered_e1_bytes", number(delivered[0])),
        ("tcpi_delivered_e0_bytes", number(delivered[2])),
        ("tcpi_delivered_ce_bytes", number(delivered[1])),
        ("tcpi_received_e1_bytes", number(received[0])),
        ("tcpi_received_e0_bytes", number(received[2])),
        ("tcpi_received_ce_bytes", number(received[1])),
    ];
    add(4, &marks);
    add(2, &[("tcpi_accecn_fail_mode", 0), ("tcpi_accecn_opt_seen", number(info.marks.options_seen))]);
    all
}

fn number(value: impl Into<u64>) -> u64 {
    value.into()
}
