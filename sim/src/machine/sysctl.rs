//! Linux's `net.ipv4.tcp_*` settings, as far as the stack supports them.

use ringway_shm::Duration;
use ringway_stack::{CongestionControl, Ecn, FastOpenConfig, FastOpenKeys, MtuProbing, SynCookies, TcpConfig};
use std::collections::BTreeMap;

/// Settings by name without `net.ipv4.`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sysctl {
    values: BTreeMap<String, String>,
}

impl Sysctl {
    /// Stores a setting; the name may have any of its prefixes.
    pub fn set(&mut self, name: &str, value: &str) {
        let name = name.trim().replace('/', ".");
        let name = name.strip_prefix("net.ipv4.").unwrap_or(&name).to_string();
        self.values.insert(name, value.trim().trim_matches(['"', '\'']).to_string());
    }

    /// Returns the names of all supported settings.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().copied()
    }

    fn words(&self, name: &str) -> Vec<u64> {
        let words = self.values.get(name).map(|value| value.split_whitespace().filter_map(number_of).collect());
        words.unwrap_or_default()
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.words(name).first().copied()
    }

    /// Applies the settings to a configuration.
    pub fn apply(&self, tcp: &mut TcpConfig) {
        let byte = |value: u64| value.min(255) as u8;
        let switch = |name: &str, place: &mut bool| *place = self.number(name).map_or(*place, |value| value != 0);
        switch("tcp_timestamps", &mut tcp.timestamps);
        switch("tcp_sack", &mut tcp.sack);
        switch("tcp_slow_start_after_idle", &mut tcp.restart_after_idle);
        switch("tcp_frto", &mut tcp.f_rto);
        switch("tcp_early_retrans", &mut tcp.tail_loss_probe);
        if let Some(bits) = self.number("tcp_recovery") {
            tcp.rack = bits & 1 != 0;
        }
        switch("tcp_window_scaling", &mut tcp.window_scaling);
        switch("tcp_ecn_fallback", &mut tcp.ecn_fallback);
        switch("tcp_ecn_option", &mut tcp.accurate_option);
        tcp.ecn = self.number("tcp_ecn").and_then(Ecn::from_number).unwrap_or(tcp.ecn);
        if let Some(count) = self.number("tcp_syn_retries") {
            tcp.syn_retries = byte(count);
        }
        if let Some(count) = self.number("tcp_syn_linear_timeouts") {
            tcp.syn_linear_timeouts = byte(count);
        }
        if let Some(count) = self.number("tcp_synack_retries") {
            tcp.synack_retries = byte(count);
        }
        let seconds = |name: &str, place: &mut Duration| *place = self.number(name).map_or(*place, Duration::from_secs);
        if let Some(millis) = self.number("tcp_invalid_ratelimit") {
            tcp.invalid_interval = Duration::from_millis(millis);
        }
        if let Some(bits) = self.number("tcp_fastopen") {
            tcp.fast_open = FastOpenConfig::from_bits(bits as u32);
        }
        seconds("tcp_fastopen_blackhole_timeout_sec", &mut tcp.fast_open.black_hole_rest);
        tcp.syn_cookies = match self.number("tcp_syncookies") {
            Some(0) => SynCookies::Off,
            Some(1) => SynCookies::WhenFull,
            Some(_) => SynCookies::Always,
            None => tcp.syn_cookies,
        };
        tcp.mtu_probing = match self.number("tcp_mtu_probing") {
            Some(1) => MtuProbing::BlackHole,
            Some(2) => MtuProbing::Always,
            _ => MtuProbing::Off,
        };
        if let Some(size) = self.number("tcp_base_mss") {
            tcp.mtu_base_mss = size.clamp(48, 9_000) as u16;
        }
        if let Some(count) = self.number("tcp_retries2") {
            tcp.retries = byte(count);
        }
        if let Some(count) = self.number("tcp_min_tso_segs") {
            tcp.push_trains = byte(count);
        }
        let millis = |name: &str, place: &mut Duration| *place = self.number(name).map_or(*place, Duration::from_millis);
        millis("tcp_rto_max_ms", &mut tcp.rto_max);
        let floor_us = self.number("tcp_rto_min_us").filter(|micros| *micros > 0);
        tcp.rto_min = floor_us.map_or(tcp.rto_min, Duration::from_micros);
        seconds("tcp_fin_timeout", &mut tcp.fin_timeout);
        seconds("tcp_keepalive_time", &mut tcp.keepalive_idle);
        seconds("tcp_keepalive_intvl", &mut tcp.keepalive_interval);
        if let Some(count) = self.number("tcp_keepalive_probes") {
            tcp.keepalive_probes = byte(count);
        }
        if let Some(&[_, _, max]) = self.words("tcp_wmem").first_chunk::<3>() {
            tcp.send_buffer_bytes = max.clamp(4_096, 64 << 20) as u32;
        }
        if let Some(&[_, _, max]) = self.words("tcp_rmem").first_chunk::<3>() {
            tcp.receive_buffer_bytes = max.clamp(4_096, 64 << 20) as u32;
        }
        tcp.congestion_control = self.congestion_control().unwrap_or(tcp.congestion_control);
    }

    fn congestion_control(&self) -> Option<CongestionControl> {
        self.values.get("tcp_congestion_control").and_then(|name| CongestionControl::from_name(name))
    }

    /// Returns the keys of Fast Open cookies: hexadecimal, with a comma before the backup.
    pub fn fast_open_keys(&self) -> Option<FastOpenKeys> {
        let digits: Vec<u8> = self.values.get("tcp_fastopen_key")?.bytes().filter(u8::is_ascii_hexdigit).collect();
        let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let bytes: Vec<u8> = digits.chunks(2).map(pair).collect::<Option<_>>()?;
        let (primary, backup) = bytes.split_first_chunk()?;
        match backup.len() {
            0 => Some(FastOpenKeys { primary: *primary, backup: None }),
            16 => Some(FastOpenKeys { primary: *primary, backup: backup.first_chunk().copied() }),
            _ => None,
        }
    }

    /// Returns TCP_NOTSENT_LOWAT of new sockets; 0: no limit, for which Linux has 2^32 - 1.
    pub(super) fn not_sent_low_water(&self) -> i32 {
        self.number("tcp_notsent_lowat").and_then(|bytes| i32::try_from(bytes).ok()).unwrap_or(0)
    }
}

/// Reads a number in C's notation, like the kernel.
fn number_of(word: &str) -> Option<u64> {
    match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits.trim_end_matches('\\'), 16).ok(),
        // A continued line of a shell ends in a backslash.
        None => word.trim_end_matches('\\').parse().ok(),
    }
}

const NAMES: &[&str] = &[
    "tcp_timestamps",
    "tcp_sack",
    "tcp_slow_start_after_idle",
    "tcp_frto",
    "tcp_early_retrans",
    "tcp_recovery",
    "tcp_window_scaling",
    "tcp_ecn",
    "tcp_ecn_fallback",
    "tcp_ecn_option",
    "tcp_min_tso_segs",
    "tcp_rto_max_ms",
    "tcp_rto_min_us",
    "tcp_notsent_lowat",
    "tcp_syn_retries",
    "tcp_syn_linear_timeouts",
    "tcp_synack_retries",
    "tcp_syncookies",
    "tcp_mtu_probing",
    "tcp_base_mss",
    "tcp_invalid_ratelimit",
    "tcp_fastopen",
    "tcp_fastopen_key",
    "tcp_fastopen_blackhole_timeout_sec",
    "tcp_retries2",
    "tcp_fin_timeout",
    "tcp_keepalive_time",
    "tcp_keepalive_intvl",
    "tcp_keepalive_probes",
    "tcp_wmem",
    "tcp_rmem",
    "tcp_congestion_control",
];

#[cfg(test)]
mod tests;
