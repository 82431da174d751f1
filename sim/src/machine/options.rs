//! Options of a socket that the kernel has: what Linux checks, stores and returns.

use std::collections::BTreeMap;

use ringway_posix::{Answer, Errno};
use ringway_shm::Duration;
use ringway_stack::{CongestionControl, FastOpenKeys, PathMtuDiscovery, TcpConfig};

/// System settings that are options' defaults.
#[derive(Clone)]
pub(super) struct Settings {
    keepalive_idle_s: i32,
    keepalive_interval_s: i32,
    keepalive_probes: i32,
    syn_retries: i32,
    fin_timeout_s: i32,
    congestion_control: CongestionControl,
    fast_open_client: bool,
    keys: FastOpenKeys,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings::new(&TcpConfig::default(), FastOpenKeys { primary: [0; 16], backup: None })
    }
}

impl Settings {
    pub(super) fn new(tcp: &TcpConfig, keys: FastOpenKeys) -> Settings {
        let seconds = |span: Duration| i32::try_from(span.as_millis() / 1_000).unwrap_or(i32::MAX);
        Settings {
            keepalive_idle_s: seconds(tcp.keepalive_idle),
            keepalive_interval_s: seconds(tcp.keepalive_interval),
            keepalive_probes: tcp.keepalive_probes.into(),
            syn_retries: tcp.syn_retries.into(),
            fin_timeout_s: seconds(tcp.fin_timeout),
            congestion_control: tcp.congestion_control,
            fast_open_client: tcp.fast_open.client,
            keys,
        }
    }

    pub(super) fn keys(&self) -> FastOpenKeys {
        self.keys
    }

    pub(super) fn set_keys(&mut self, keys: FastOpenKeys) {
        self.keys = keys;
    }
}

/// Options that were set, as they read back.
#[derive(Clone, Debug, Default)]
pub(super) struct Options(BTreeMap<(i32, i32), Vec<u8>>);

impl Options {
    /// Returns true for a number other than zero.
    pub(super) fn is_on(&self, level: i32, name: i32) -> bool {
        self.0.get(&(level, name)).is_some_and(|value| value.iter().any(|byte| *byte != 0))
    }

    /// setsockopt(2)
    pub(super) fn set(&mut self, settings: &Settings, (level, name): (i32, i32), value: &[u8], listening: bool) -> Answer<()> {
        let name = match (level, name) {
            (libc::SOL_SOCKET, libc::SO_SNDBUFFORCE) => libc::SO_SNDBUF,
            (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE) => libc::SO_RCVBUF,
            _ => name,
        };
        let stored = match (level, name) {
            (libc::SOL_SOCKET, libc::SO_LINGER) if value.len() < 8 => return Err(Errno::INVAL),
            (libc::SOL_SOCKET, libc::SO_RCVTIMEO | libc::SO_SNDTIMEO) if value.len() < 16 => return Err(Errno::INVAL),
            (libc::SOL_SOCKET, libc::SO_LINGER | libc::SO_RCVTIMEO | libc::SO_SNDTIMEO) => value.to_vec(),
            (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => congestion(value)?.to_vec(),
            (libc::IPPROTO_TCP, libc::TCP_FASTOPEN_KEY) if !matches!(value.len(), 16 | 32) => return Err(Errno::INVAL),
            (libc::IPPROTO_TCP, libc::TCP_FASTOPEN_KEY) => value.to_vec(),
            _ => checked(settings, (level, name), number(value)?, listening)?.to_ne_bytes().to_vec(),
        };
        self.0.insert((level, name), stored);
        Ok(())
    }

    /// getsockopt(2)
    pub(super) fn get(&self, settings: &Settings, level: i32, name: i32) -> Answer<Vec<u8>> {
        if let Some(value) = self.0.get(&(level, name)) {
            return Ok(value.clone());
        }
        let word = |value: i32| Ok(value.to_ne_bytes().to_vec());
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_TYPE) => word(libc::SOCK_STREAM),
            (libc::SOL_SOCKET, libc::SO_PROTOCOL) => word(libc::IPPROTO_TCP),
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => word(SEND_BUFFER),
            (libc::SOL_SOCKET, libc::SO_RCVBUF) => word(RECEIVE_BUFFER),
            (libc::SOL_SOCKET, libc::SO_LINGER) => Ok(vec![0; 8]),
            (libc::SOL_SOCKET, libc::SO_RCVTIMEO | libc::SO_SNDTIMEO) => Ok(vec![0; 16]),
            (libc::SOL_SOCKET, libc::SO_MEMINFO) => Ok(memory(SEND_BUFFER, RECEIVE_BUFFER)),
            (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => congestion(settings.congestion_control.name().as_bytes()),
            (libc::IPPROTO_TCP, libc::TCP_FASTOPEN_KEY) => {
                let keys = settings.keys;
                Ok([Some(keys.primary), keys.backup].into_iter().flatten().flatten().collect())
            }
            // Like Linux for algorithms without statistics of their own: an empty value, no error.
            (libc::IPPROTO_TCP, TCP_CC_INFO) => Ok(Vec::new()),
            (libc::IPPROTO_TCP, libc::TCP_INFO) => Ok(vec![0; 280]),
            _ => word(default_of(settings, level, name).ok_or(Errno::NOPROTOOPT)?),
        }
    }
}

/// Reads an `int`; Linux takes one byte too for IP_TOS and IP_TTL.
fn number(value: &[u8]) -> Answer<i32> {
    match value {
        [byte] => Ok(i32::from(*byte)),
        _ => value.first_chunk::<4>().map(|bytes| i32::from_ne_bytes(*bytes)).ok_or(Errno::INVAL),
    }
}

/// Returns the number that the option reads back as.
fn checked(settings: &Settings, (level, name): (i32, i32), number: i32, listening: bool) -> Answer<i32> {
    let within = |least: i32, most: i32| if (least..=most).contains(&number) { Ok(number) } else { Err(Errno::INVAL) };
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_SNDBUF) => Ok((number.clamp(0, 1 << 29) * 2).max(4_608)),
        (libc::SOL_SOCKET, libc::SO_RCVBUF) => Ok((number.clamp(0, 1 << 29) * 2).max(2_304)),
        (libc::SOL_SOCKET, libc::SO_RCVLOWAT) => Ok(if number < 0 { i32::MAX } else { number.max(1) }),
        (libc::IPPROTO_IP, libc::IP_TTL) => within(1, 255),
        (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS) => within(-1, 255),
        (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER) | (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER) => {
            PathMtuDiscovery::from_number(number.cast_unsigned()).map(|_| number).ok_or(Errno::INVAL)
        }
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE | libc::TCP_KEEPINTVL) => within(1, 32_767),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT | libc::TCP_SYNCNT) => within(1, 127),
        (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT) => within(0, i32::MAX),
        (libc::IPPROTO_TCP, libc::TCP_MAXSEG) if number != 0 => within(88, 32_767),
        (libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP) => Ok(if number == 0 { 0 } else { number.max(1_152) }),
        (libc::IPPROTO_TCP, libc::TCP_LINGER2) if number < 0 => Ok(-1),
        (libc::IPPROTO_TCP, libc::TCP_LINGER2) if number == 0 => Ok(settings.fin_timeout_s),
        (libc::IPPROTO_TCP, libc::TCP_LINGER2) => Ok(number.min(120)),
        (libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT) => Ok(seconds_of_retries(number)),
        (libc::IPPROTO_TCP, libc::TCP_FASTOPEN) => within(0, i32::MAX).map(|queue| queue.min(QUEUE_MAX)),
        (libc::IPPROTO_TCP, libc::TCP_FASTOPEN_NO_COOKIE) => within(0, 1),
        (libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT) => match within(0, 1)? {
            _ if !settings.fast_open_client => Err(Errno(libc::EOPNOTSUPP)),
            _ if listening => Err(Errno::INVAL),
            on => Ok(on),
        },
        (libc::IPPROTO_TCP, libc::TCP_NODELAY | libc::TCP_CORK | libc::TCP_QUICKACK) => Ok(i32::from(number != 0)),
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE | libc::SO_REUSEADDR | libc::SO_REUSEPORT | libc::SO_OOBINLINE) => {
            Ok(i32::from(number != 0))
        }
        _ if default_of(settings, level, name).is_none() => Err(Errno::NOPROTOOPT),
        _ => Ok(number),
    }
}

/// Time of the retransmissions that fit into so many seconds (net/ipv4/tcp.c, secs_to_retrans and retrans_to_secs).
fn seconds_of_retries(seconds: i32) -> i32 {
    let (mut period, mut timeout) = (1, 1);
    while seconds > period {
        timeout = (timeout * 2).min(120);
        period += timeout;
    }
    if seconds > 0 { period } else { 0 }
}

/// Returns a congestion control's name in the bytes of the option.
fn congestion(value: &[u8]) -> Answer<Vec<u8>> {
    let name = value.split(|byte| *byte == 0).next().and_then(|name| std::str::from_utf8(name).ok());
    let known = name.and_then(CongestionControl::from_name).ok_or(Errno::NOENT)?;
    let mut bytes = known.name().as_bytes().to_vec();
    bytes.resize(16, 0);
    Ok(bytes)
}

/// SO_MEMINFO of an empty socket: nine values, of which the buffer sizes are filled in.
fn memory(send: i32, receive: i32) -> Vec<u8> {
    [0, receive, 0, send, 0, 0, 0, 0, 0].iter().flat_map(|figure| figure.to_ne_bytes()).collect()
}

/// Returns the initial value of an option. `None`: there is no such option.
fn default_of(settings: &Settings, level: i32, name: i32) -> Option<i32> {
    let value = match (level, name) {
        (libc::SOL_SOCKET, libc::SO_RCVLOWAT) => 1,
        (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE) => -1,
        // Linux has them; scripts must not find them supported, as by the library.
        (
            libc::SOL_SOCKET,
            libc::SO_ZEROCOPY
            | libc::SO_TIMESTAMPING
            | libc::SO_TXTIME
            | libc::SO_ATTACH_FILTER
            | libc::SO_ATTACH_BPF
            | libc::SO_BINDTODEVICE
            | SO_NETNS_COOKIE,
        ) => return None,
        (libc::SOL_SOCKET, _) => 0,
        (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS) => 64,
        (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER) | (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER) => 1,
        (libc::IPPROTO_IP | libc::IPPROTO_IPV6, _) => 0,
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => settings.keepalive_idle_s,
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL) => settings.keepalive_interval_s,
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT) => settings.keepalive_probes,
        (libc::IPPROTO_TCP, libc::TCP_SYNCNT) => settings.syn_retries,
        (libc::IPPROTO_TCP, libc::TCP_LINGER2) => settings.fin_timeout_s,
        (libc::IPPROTO_TCP, libc::TCP_QUICKACK) => 1,
        (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => 536,
        (
            libc::IPPROTO_TCP,
            libc::TCP_NODELAY
            | libc::TCP_CORK
            | libc::TCP_USER_TIMEOUT
            | libc::TCP_DEFER_ACCEPT
            | libc::TCP_WINDOW_CLAMP
            | libc::TCP_NOTSENT_LOWAT
            | libc::TCP_FASTOPEN
            | libc::TCP_FASTOPEN_CONNECT
            | libc::TCP_FASTOPEN_NO_COOKIE
            | TCP_INQ,
        ) => 0,
        _ => return None,
    };
    Some(value)
}

/// Twice net.ipv4.tcp_wmem[1] and tcp_rmem[1], as Linux reports them.
const SEND_BUFFER: i32 = 87_040;
const RECEIVE_BUFFER: i32 = 131_072;
/// net.core.somaxconn
const QUEUE_MAX: i32 = 4_096;
/// linux/tcp.h
const TCP_CC_INFO: i32 = 26;
const TCP_INQ: i32 = 36;
const SO_NETNS_COOKIE: i32 = 71;
