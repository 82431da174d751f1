//! Details of a socket: process, `-o`, `-e`, `-m` and `-i` in ss's format, and JSON.

use ringway_service::Kept;
use ringway_shm::stats::{InfoRecord, SocketRecord, TimerRecord};
use ringway_shm::{Duration, Instant};
use serde_json::{Value, json};

use super::holders::{Holder, processes};
use super::{Arguments, LISTEN, Shown, local_address, peer_address, state_name};

/// Formats the part of a socket's line after the addresses; `-m` and `-i` take a second line unless `-O` is given.
pub(super) fn text(arguments: &Arguments, shown: &Shown<'_>) -> String {
    let mut line = String::new();
    if arguments.processes {
        line.push_str(&users(&shown.holders));
    }
    if arguments.options
        && let Some(timer) = shown.socket.timer
    {
        line.push_str(&text_of(timer, shown.now));
    }
    if arguments.extended {
        let socket = &shown.socket;
        line.push_str(&format!(" uid:{} slot:{}/{} service:{}", socket.uid, socket.region, socket.slot, shown.service));
    } else if arguments.services.all_namespaces {
        line.push_str(&format!(" service:{}", shown.service));
    }
    if let Some(path) = shown.socket.kernel {
        line.push_str(&format!(" path:kernel reason:{} count:{}", path.reason.word(), path.count));
    }
    let mut more = Vec::new();
    if arguments.memory {
        more.push(memory(&shown.socket));
    }
    if arguments.info {
        more.push(info(shown));
    }
    if !more.is_empty() {
        line.push_str(if arguments.oneline { " " } else { "\n\t " });
        line.push_str(&more.join(" "));
    }
    line
}

/// Formats the processes that have the socket, as ss does.
fn users(holders: &[Holder]) -> String {
    let user = |Holder { name, pid, descriptor }: &Holder| match descriptor {
        Some(descriptor) => format!("(\"{name}\",pid={pid},fd={descriptor})"),
        None => format!("(\"{name}\",pid={pid})"),
    };
    let users: Vec<String> = holders.iter().map(user).collect();
    if users.is_empty() { String::new() } else { format!("users:({})", users.join(",")) }
}

/// Formats `timer:(name,time left,retries)`, as ss does.
fn text_of(timer: TimerRecord, now: Instant) -> String {
    format!(" timer:({},{},{})", timer_name(timer), time_left(timer.due.since(now)), timer.retries)
}

/// ss's name of a timer.
pub(crate) fn timer_name(timer: TimerRecord) -> &'static str {
    ["off", "on", "keepalive", "timewait", "persist"].get(usize::from(timer.kind)).copied().unwrap_or("unknown")
}

/// Formats minutes, seconds or milliseconds, with the next smaller unit below 10 (iproute2, print_ms_timer).
pub(crate) fn time_left(left: Duration) -> String {
    let (minutes, seconds, milliseconds) = (left.as_millis() / 60_000, left.as_millis() / 1_000 % 60, left.as_millis() % 1_000);
    match (minutes, seconds) {
        (0, 0) if milliseconds == 0 => String::new(),
        (0, 0) => format!("{milliseconds:03}ms"),
        (0, 1..=9) if milliseconds != 0 => format!("{seconds}.{milliseconds:03}ms"),
        (0, _) => format!("{seconds}sec"),
        (1..=9, 1..) => format!("{minutes}min{seconds}sec"),
        _ => format!("{minutes}min"),
    }
}

fn memory(socket: &SocketRecord) -> String {
    let [received, receive_limit, queued, send_limit] = socket.memory;
    format!("skmem:(r{received},rb{receive_limit},t{queued},tb{send_limit},f0,w{queued},o0,bl0,d0)")
}

/// ss's tokens in ss's order, then Ringway's own `stack:` and `if:`.
fn info(shown: &Shown<'_>) -> String {
    let socket = &shown.socket;
    let mut tokens = Vec::new();
    if is_counted(socket) {
        tokens = info_words(socket);
    }
    tokens.push(format!("stack:{}", if socket.kernel.is_some() { "kernel" } else { "ringway" }));
    if shown.interface != "-" {
        tokens.push(format!("if:{}", shown.interface));
    }
    tokens.join(" ")
}

/// ss's words for a connection's values of TCP, and for what a datagram socket has carried.
pub(crate) fn info_words(socket: &SocketRecord) -> Vec<String> {
    if socket.datagrams {
        return carried(&socket.info);
    }
    let mut tokens = tcp_tokens(&socket.info, &socket.congestion_control);
    tokens.extend(tcp_counts(&socket.info));
    tokens
}

/// Returns true if there are values of TCP to show.
pub(crate) fn is_connection(socket: &SocketRecord) -> bool {
    // TIME-WAIT, and what waits for the end of its handshake, are small records without such values.
    socket.state != LISTEN && !socket.datagrams && socket.kernel.is_none() && socket.info != InfoRecord::default()
}

/// Returns true if what it receives and sends is counted.
pub(crate) fn is_counted(socket: &SocketRecord) -> bool {
    is_connection(socket) || socket.datagrams && socket.kernel.is_none()
}

fn tcp_tokens(info: &InfoRecord, congestion_control: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    for (bit, name) in [(1, "ts"), (2, "sack"), (8, "ecn")] {
        if info.options & bit != 0 {
            tokens.push(name.to_string());
        }
    }
    tokens.push(congestion_control.to_string());
    if info.options & 4 != 0 {
        tokens.push(format!("wscale:{},{}", info.scale_send, info.scale_receive));
    }
    tokens.push(format!("rto:{}", milliseconds(info.rto_us)));
    if info.backoff != 0 {
        tokens.push(format!("backoff:{}", info.backoff));
    }
    tokens.push(format!("rtt:{}/{}", milliseconds(info.rtt_us), milliseconds(info.rtt_variance_us)));
    for (name, value) in [
        ("mss", info.mss),
        ("pmtu", info.path_mtu),
        ("rcvmss", info.mss_received),
        ("advmss", info.mss_advertised),
        ("cwnd", info.cwnd_segments),
    ] {
        tokens.push(format!("{name}:{value}"));
    }
    if info.ssthresh_segments != u64::MAX {
        tokens.push(format!("ssthresh:{}", info.ssthresh_segments));
    }
    tokens
}

/// Counters without those that are zero, as ss prints them.
fn present(counts: &[(&str, u64)]) -> Vec<String> {
    counts.iter().filter(|(_, value)| *value != 0).map(|(name, value)| format!("{name}:{value}")).collect()
}

/// What a socket has sent and received.
fn carried(info: &InfoRecord) -> Vec<String> {
    present(&[
        ("bytes_sent", info.sent_bytes),
        ("bytes_retrans", info.retransmitted_bytes),
        ("bytes_acked", info.acked_bytes),
        ("bytes_received", info.received_bytes),
        ("segs_out", info.sent_segments),
        ("segs_in", info.received_segments),
        ("data_segs_out", info.sent_data_segments),
        ("data_segs_in", info.received_data_segments),
    ])
}

fn tcp_counts(info: &InfoRecord) -> Vec<String> {
    let mut tokens = carried(info);
    if let Some(rate) = (info.mss * info.cwnd_segments * 8 * 1_000_000).checked_div(info.rtt_us) {
        tokens.push(format!("send {rate}bps"));
    }
    tokens.extend(present(&[("lastsnd", info.last_send_ms), ("lastrcv", info.last_receive_ms), ("lastack", info.last_ack_ms)]));
    if info.pacing_rate != 0 {
        let bits = |rate: u64| rate.saturating_mul(8);
        let limit = if info.pacing_rate_max == 0 { String::new() } else { format!("/{}bps", bits(info.pacing_rate_max)) };
        tokens.push(format!("pacing_rate {}bps{limit}", bits(info.pacing_rate)));
    }
    if info.delivery_rate != 0 {
        tokens.push(format!("delivery_rate {}bps", info.delivery_rate.saturating_mul(8)));
    }
    tokens.extend(present(&[("delivered", info.delivered_segments), ("delivered_ce", info.delivered_ce)]));
    if info.application_limited != 0 {
        tokens.push("app_limited".to_string());
    }
    tokens.extend(times(info));
    tokens.extend(present(&[("unacked", info.unacked_segments)]));
    if info.retransmitted_segments != 0 {
        let now = u64::from(info.backoff != 0);
        tokens.push(format!("retrans:{now}/{}", info.retransmitted_segments));
    }
    tokens.extend(present(&[("lost", info.lost_segments), ("sacked", info.sacked_segments)]));
    tokens.extend(present(&[("dsack_dups", info.duplicate_segments), ("reord_seen", info.reordered)]));
    if info.reordering_segments > 3 {
        tokens.push(format!("reordering:{}", info.reordering_segments));
    }
    if info.receive_rtt_us != 0 {
        tokens.push(format!("rcv_rtt:{}", milliseconds(info.receive_rtt_us)));
    }
    tokens.extend(present(&[("rcv_space", info.receive_space), ("notsent", info.unsent_bytes)]));
    if info.rtt_min_us != 0 {
        tokens.push(format!("minrtt:{}", milliseconds(info.rtt_min_us)));
    }
    tokens.extend(present(&[("rcv_ooopack", info.out_of_order_packets)]));
    tokens.extend(present(&[("snd_wnd", info.send_window), ("rcv_wnd", info.receive_window)]));
    tokens
}

/// Time that the connection was busy, and the parts in which a window or buffer limited it.
fn times(info: &InfoRecord) -> Vec<String> {
    let mut tokens = Vec::new();
    if info.busy_us == 0 {
        return tokens;
    }
    tokens.push(format!("busy:{}ms", info.busy_us / 1_000));
    for (name, us) in [("rwnd_limited", info.window_limited_us), ("sndbuf_limited", info.buffer_limited_us)] {
        if us != 0 {
            tokens.push(format!("{name}:{}ms({:.1}%)", us / 1_000, us as f64 * 100.0 / info.busy_us as f64));
        }
    }
    tokens
}

/// Formats microseconds as milliseconds without trailing zeros: 204000 is `204`, 52 is `0.052`.
pub(crate) fn milliseconds(us: u64) -> String {
    let text = format!("{}.{:03}", us / 1_000, us % 1_000);
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// The socket as JSON, with all details.
pub(super) fn json(shown: &Shown<'_>) -> Value {
    let socket = &shown.socket;
    let peer_port = if socket.remote.port == 0 { "*".to_string() } else { socket.remote.port.to_string() };
    let user = |Holder { name, pid, descriptor }: &Holder| json!({ "name": name, "pid": pid, "fd": descriptor });
    let users: Vec<Value> = shown.holders.iter().map(user).collect();
    let mut value = json!({
        "netid": if socket.datagrams { "udp" } else { "tcp" },
        "state": state_name(socket.state),
        "recv_q": socket.receive_queue,
        "send_q": socket.send_queue,
        "local": format!("{}:{}", local_address(socket), socket.local.port),
        "peer": format!("{}:{peer_port}", peer_address(socket)),
        "process": { "name": socket.program, "pid": socket.pid, "uid": socket.uid, "holders": processes(socket) },
        "users": users,
        "service": shown.service,
        "interface": shown.interface,
        "skmem": { "r": socket.memory[0], "rb": socket.memory[1], "t": socket.memory[2], "tb": socket.memory[3] },
    });
    if let Some(path) = socket.kernel {
        value["kernel"] = json!({ "reason": path.reason.word(), "count": path.count });
    }
    if is_connection(socket) {
        value["tcp"] = tcp_json(&socket.info, &socket.congestion_control);
        value["counters"] = counters_json(&socket.info);
    } else if is_counted(socket) {
        let info = &socket.info;
        value["counters"] = json!({
            "bytes_sent": info.sent_bytes, "bytes_received": info.received_bytes,
            "segs_out": info.sent_segments, "segs_in": info.received_segments,
        });
    }
    if let Some(timer) = socket.timer {
        let left_ms = timer.due.since(shown.now).as_millis();
        value["timer"] = json!({ "name": timer_name(timer), "left_ms": left_ms, "retries": timer.retries });
    }
    value
}

/// Connection statistics.
fn counters_json(info: &InfoRecord) -> Value {
    json!({
        "delivered": info.delivered_segments, "delivered_ce": info.delivered_ce,
        "busy_us": info.busy_us, "rwnd_limited_us": info.window_limited_us, "sndbuf_limited_us": info.buffer_limited_us,
        "dsack_dups": info.duplicate_segments, "reord_seen": info.reordered, "reordering": info.reordering_segments,
        "rcv_rtt_us": info.receive_rtt_us, "rcv_space": info.receive_space, "rcv_ooopack": info.out_of_order_packets,
        "total_rto": info.timeouts, "total_rto_recoveries": info.timeout_episodes, "total_rto_time_ms": info.timeout_ms,
        "received_ce": info.received_ce,
    })
}

fn tcp_json(info: &InfoRecord, congestion_control: &str) -> Value {
    json!({
        "congestion_control": congestion_control,
        "wscale": [info.scale_send, info.scale_receive],
        "rto_us": info.rto_us, "rtt_us": info.rtt_us, "rttvar_us": info.rtt_variance_us, "minrtt_us": info.rtt_min_us,
        "mss": info.mss, "advmss": info.mss_advertised, "pmtu": info.path_mtu,
        "cwnd": info.cwnd_segments, "ssthresh": info.ssthresh_segments,
        "bytes_sent": info.sent_bytes, "bytes_retrans": info.retransmitted_bytes,
        "bytes_acked": info.acked_bytes, "bytes_received": info.received_bytes,
        "segs_out": info.sent_segments, "segs_in": info.received_segments,
        "data_segs_out": info.sent_data_segments, "data_segs_in": info.received_data_segments,
        "unacked": info.unacked_segments, "retrans": info.retransmitted_segments,
        "lost": info.lost_segments, "sacked": info.sacked_segments, "notsent": info.unsent_bytes,
        "delivery_rate": info.delivery_rate, "app_limited": info.application_limited != 0,
        "pacing_rate": info.pacing_rate, "max_pacing_rate": info.pacing_rate_max, "snd_wnd": info.send_window, "rcv_wnd": info.receive_window,
    })
}

/// The row of an interface that stays with the kernel.
pub(super) fn kept_row(kept: &Kept) -> String {
    format!("interface:{} path:kernel reason:{} count:1 why:\"{}\"", kept.interface, kept.word, kept.why)
}

pub(super) fn kept_json(kept: &Kept) -> serde_json::Value {
    json!({ "name": kept.interface, "kernel": { "reason": kept.word, "count": 1, "why": kept.why } })
}
