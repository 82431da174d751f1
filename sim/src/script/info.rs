//! TCP_INFO by the names of Linux's `struct tcp_info`, for assertions.

/// Names of fields, in order, with their sizes in bytes. A name of several bit fields stands for the byte that has them.
const FIELDS: [(usize, &[&str]); 12] = [
    (
        1,
        &[
            "tcpi_state",
            "tcpi_ca_state",
            "tcpi_retransmits",
            "tcpi_probes",
            "tcpi_backoff",
            "tcpi_options",
            "tcpi_wscale",
            "tcpi_delivery_rate_app_limited",
        ],
    ),
    (
        4,
        &[
            "tcpi_rto",
            "tcpi_ato",
            "tcpi_snd_mss",
            "tcpi_rcv_mss",
            "tcpi_unacked",
            "tcpi_sacked",
            "tcpi_lost",
            "tcpi_retrans",
            "tcpi_fackets",
            "tcpi_last_data_sent",
            "tcpi_last_ack_sent",
            "tcpi_last_data_recv",
            "tcpi_last_ack_recv",
            "tcpi_pmtu",
            "tcpi_rcv_ssthresh",
            "tcpi_rtt",
            "tcpi_rttvar",
            "tcpi_snd_ssthresh",
            "tcpi_snd_cwnd",
            "tcpi_advmss",
            "tcpi_reordering",
            "tcpi_rcv_rtt",
            "tcpi_rcv_space",
            "tcpi_total_retrans",
        ],
    ),
    (8, &["tcpi_pacing_rate", "tcpi_max_pacing_rate", "tcpi_bytes_acked", "tcpi_bytes_received"]),
    (4, &["tcpi_segs_out", "tcpi_segs_in", "tcpi_notsent_bytes", "tcpi_min_rtt", "tcpi_data_segs_in", "tcpi_data_segs_out"]),
    (8, &["tcpi_delivery_rate", "tcpi_busy_time", "tcpi_rwnd_limited", "tcpi_sndbuf_limited"]),
    (4, &["tcpi_delivered", "tcpi_delivered_ce"]),
    (8, &["tcpi_bytes_sent", "tcpi_bytes_retrans"]),
    (4, &["tcpi_dsack_dups", "tcpi_reord_seen", "tcpi_rcv_ooopack", "tcpi_snd_wnd", "tcpi_rcv_wnd", "tcpi_rehash"]),
    (2, &["tcpi_total_rto", "tcpi_total_rto_recoveries"]),
    (4, &["tcpi_total_rto_time", "tcpi_received_ce", "tcpi_delivered_e1_bytes", "tcpi_delivered_e0_bytes"]),
    (4, &["tcpi_delivered_ce_bytes", "tcpi_received_e1_bytes", "tcpi_received_e0_bytes", "tcpi_received_ce_bytes"]),
    (2, &["tcpi_accecn_fail_mode", "tcpi_accecn_opt_seen"]),
];

/// Returns the value of a field. `None`: the structure has no such field.
pub(super) fn field(bytes: &[u8], name: &str) -> Option<u64> {
    let mut at = 0;
    for (len, names) in FIELDS {
        if let Some(place) = names.iter().position(|known| *known == name) {
            let value = bytes.get(at + place * len..at + (place + 1) * len)?;
            return Some(value.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)));
        }
        at += len * names.len();
    }
    None
}
