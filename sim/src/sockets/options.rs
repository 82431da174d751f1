//! getsockopt, setsockopt, O_NONBLOCK.

use ringway_shm::Duration;
use ringway_stack::{CongestionControl, PathMtuDiscovery, TcpInfo, TcpOptions};

use super::{Answer, Machine, Phase, Socket};

impl Machine {
    /// setsockopt(2)
    pub fn set_option(&mut self, fd: i32, level: i32, name: i32, value: &[u8]) -> Answer {
        let answer = self.do_set_option(fd, level, name, value).into();
        self.settle();
        answer
    }

    fn do_set_option(&mut self, fd: i32, level: i32, name: i32, value: &[u8]) -> Result<i64, i32> {
        if let Some(answer) = self.set_fast_open(fd, level, name, value) {
            return answer;
        }
        let now = self.now;
        let socket = self.socket_of(fd)?;
        let number = match value {
            [byte] => i32::from(*byte),
            _ => value.first_chunk::<4>().map(|bytes| i32::from_ne_bytes(*bytes)).ok_or(libc::EINVAL)?,
        };
        let before = socket.options;
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_LINGER) => {
                let seconds = value.get(4..8).ok_or(libc::EINVAL)?.first_chunk::<4>().ok_or(libc::EINVAL)?;
                socket.linger_s = (number != 0).then(|| i32::from_ne_bytes(*seconds).max(0).cast_unsigned());
            }
            (libc::SOL_SOCKET, libc::SO_RCVTIMEO) => socket.receive_timeout = span(value)?,
            (libc::SOL_SOCKET, libc::SO_SNDTIMEO) => socket.send_timeout = span(value)?,
            (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => {
                let name = value.split(|byte| *byte == 0).next().and_then(|name| std::str::from_utf8(name).ok());
                socket.options.congestion_control = name.and_then(CongestionControl::from_name).ok_or(libc::ENOENT)?;
            }
            _ => set_number(&mut socket.options, level, name, number)?,
        }
        socket.remembered.insert((level, name), value.to_vec());
        let (id, options, phase) = (socket.id, socket.options, socket.phase);
        let no_delay = (level, name) == (libc::IPPROTO_TCP, libc::TCP_NODELAY);
        let push = no_delay || (level, name) == (libc::IPPROTO_TCP, libc::TCP_CORK);
        if let Some(id) = id.filter(|_| phase == Phase::Connected && no_delay && number != 0) {
            // tcp(7): queued data goes at once, corked or not.
            socket.held_until = None;
            self.stack.set_options(now, id, TcpOptions { cork: false, ..options });
            self.settle();
        }
        if let Some(id) = id.filter(|_| phase != Phase::Listening && (options != before || push)) {
            self.stack.set_options(now, id, options);
        }
        Ok(0)
    }

    /// getsockopt(2): returns the value's bytes.
    pub fn option(&mut self, fd: i32, level: i32, name: i32) -> Result<Vec<u8>, i32> {
        let is_info = (level, name) == (libc::IPPROTO_TCP, libc::TCP_INFO);
        if is_info {
            return self.info_bytes(fd);
        }
        if (level, name) == (libc::IPPROTO_TCP, libc::TCP_FASTOPEN_KEY) {
            return self.fast_open_key(fd);
        }
        let socket = self.socket_of(fd)?;
        let id = socket.id.filter(|_| socket.phase != Phase::Listening);
        let info = id.and_then(|id| self.stack.info(id));
        let unread = id.map_or(0, |id| self.stack.unread(id));
        let socket = self.socket_of(fd)?;
        let word = |value: i32| Ok(value.to_ne_bytes().to_vec());
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_ERROR) => word(std::mem::take(&mut socket.error)),
            (libc::SOL_SOCKET, libc::SO_TYPE) => word(libc::SOCK_STREAM),
            (libc::SOL_SOCKET, libc::SO_PROTOCOL) => word(libc::IPPROTO_TCP),
            (libc::SOL_SOCKET, libc::SO_DOMAIN) => word(if socket.inet6 { libc::AF_INET6 } else { libc::AF_INET }),
            (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => word(i32::from(socket.phase == Phase::Listening)),
            (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => {
                let mut bytes = socket.options.congestion_control.name().as_bytes().to_vec();
                bytes.resize(16, 0);
                Ok(bytes)
            }
            (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => match info {
                Some(info) => word(info.send_mss.cast_signed()),
                None if socket.options.maximum_segment_size != 0 => word(i32::from(socket.options.maximum_segment_size)),
                None => word(536),
            },
            (libc::SOL_SOCKET, libc::SO_SNDBUF | libc::SO_RCVBUF) => word(buffer(socket, name)),
            (libc::SOL_SOCKET, libc::SO_MEMINFO) => Ok(memory(socket, unread, info.as_ref())),
            // Like Linux for algorithms without statistics of their own: an empty value, no error.
            (libc::IPPROTO_TCP, TCP_CC_INFO) => Ok(Vec::new()),
            _ => match socket.remembered.get(&(level, name)) {
                Some(value) => Ok(value.clone()),
                None => word(self.setting(level, name).or_else(|| default_of(level, name)).ok_or(libc::ENOPROTOOPT)?),
            },
        }
    }

    /// Value from the system settings, for a socket that has not set the option.
    fn setting(&self, level: i32, name: i32) -> Option<i32> {
        let seconds = |span: Duration| i32::try_from(span.as_millis() / 1_000).unwrap_or(i32::MAX);
        let tcp = &self.config;
        match (level, name) {
            (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => Some(seconds(tcp.keepalive_idle)),
            (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL) => Some(seconds(tcp.keepalive_interval)),
            (libc::IPPROTO_TCP, libc::TCP_KEEPCNT) => Some(tcp.keepalive_probes.into()),
            (libc::IPPROTO_TCP, libc::TCP_SYNCNT) => Some(tcp.syn_retries.into()),
            (libc::IPPROTO_TCP, libc::TCP_LINGER2) => Some(seconds(tcp.fin_timeout)),
            _ => None,
        }
    }

    /// Returns O_NONBLOCK of the descriptor.
    pub fn nonblocking(&mut self, fd: i32) -> Result<bool, i32> {
        if self.descriptors.contains_key(&fd) && self.user_token(fd).is_err() {
            return Ok(false);
        }
        self.socket_of(fd).map(|socket| socket.nonblocking)
    }

    /// Sets O_NONBLOCK.
    pub fn set_nonblocking(&mut self, fd: i32, on: bool) -> Answer {
        if self.descriptors.contains_key(&fd) && self.user_token(fd).is_err() {
            return Answer::value(0);
        }
        let set = |socket: &mut Socket| {
            socket.nonblocking = on;
            0
        };
        self.socket_of(fd).map(set).into()
    }

    /// Returns the longest wait of a call: SO_RCVTIMEO or SO_SNDTIMEO.
    pub fn patience(&mut self, fd: i32, sending: bool) -> Option<Duration> {
        let socket = self.socket_of(fd).ok()?;
        let span = if sending { socket.send_timeout } else { socket.receive_timeout };
        (span > Duration::ZERO).then_some(span)
    }
}

fn set_number(options: &mut TcpOptions, level: i32, name: i32, number: i32) -> Result<(), i32> {
    let on = number != 0;
    let seconds = |max: i32| if (1..=max).contains(&number) { Ok(Duration::from_secs(number as u64)) } else { Err(libc::EINVAL) };
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => options.keepalive = on,
        (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE) => {
            options.pacing_rate_max = if number == -1 { 0 } else { u64::from(number.cast_unsigned()) };
        }
        (libc::SOL_SOCKET, libc::SO_SNDBUF | SO_SNDBUFFORCE) => {
            options.send_buffer_bytes = number.clamp(2_304, 1 << 29).cast_unsigned() * 2
        }
        (libc::SOL_SOCKET, libc::SO_RCVBUF | SO_RCVBUFFORCE) => options.receive_buffer_bytes = number.max(1_152).cast_unsigned(),
        (libc::IPPROTO_IP, libc::IP_TOS) => options.type_of_service = number as u8,
        (libc::IPPROTO_IP, libc::IP_TTL) if !(1..=255).contains(&number) => return Err(libc::EINVAL),
        (libc::IPPROTO_IP, libc::IP_TTL) => options.time_to_live = number as u8,
        (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => options.type_of_service = number as u8,
        (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS) if !(-1..=255).contains(&number) => return Err(libc::EINVAL),
        (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS) => options.time_to_live = number.max(0) as u8,
        (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER) | (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER) => {
            options.path_mtu_discovery = PathMtuDiscovery::from_number(number.cast_unsigned()).ok_or(libc::EINVAL)?;
        }
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => options.no_delay = on,
        (libc::IPPROTO_TCP, libc::TCP_CORK) => options.cork = on,
        (libc::IPPROTO_TCP, libc::TCP_QUICKACK) => options.quick_ack = Some(on),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => options.keepalive_idle = seconds(32_767)?,
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL) => options.keepalive_interval = seconds(32_767)?,
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT) if !(1..=127).contains(&number) => return Err(libc::EINVAL),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT) => options.keepalive_probes = number as u8,
        (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT) if number < 0 => return Err(libc::EINVAL),
        (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT) => options.user_timeout = Duration::from_millis(number as u64),
        (libc::IPPROTO_TCP, libc::TCP_MAXSEG) if number != 0 && !(88..=32_767).contains(&number) => return Err(libc::EINVAL),
        (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => options.maximum_segment_size = number as u16,
        (libc::IPPROTO_TCP, libc::TCP_SYNCNT) if !(1..=127).contains(&number) => return Err(libc::EINVAL),
        (libc::IPPROTO_TCP, libc::TCP_SYNCNT) => options.syn_retries = number as u8,
        (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT) => options.not_sent_low_water = number.max(0).cast_unsigned(),
        (libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP) => {
            options.window_clamp = if number == 0 { 0 } else { number.max(1_152).cast_unsigned() };
        }
        (libc::IPPROTO_TCP, libc::TCP_LINGER2) => {
            options.fin_timeout = (number != 0).then(|| Duration::from_secs(number.clamp(0, 120) as u64));
        }
        (libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT) => options.defer_accept_retries = retries_in(number),
        _ if default_of(level, name).is_none() => return Err(libc::ENOPROTOOPT),
        _ => {}
    }
    Ok(())
}

/// Linux, secs_to_retrans.
fn retries_in(seconds: i32) -> u8 {
    let (mut retries, mut period, mut timeout) = (u8::from(seconds > 0), 1, 1);
    while seconds > period && retries < u8::MAX {
        retries += 1;
        timeout = (timeout * 2).min(120);
        period += timeout;
    }
    retries
}

/// Linux adds space for its bookkeeping: the value read is twice the value set.
fn buffer(socket: &Socket, name: i32) -> i32 {
    let (set, default) = match name {
        libc::SO_SNDBUF => (socket.options.send_buffer_bytes, 87_040),
        _ => (socket.options.receive_buffer_bytes, 131_072),
    };
    match name {
        _ if set == 0 => default,
        // Stored doubled.
        libc::SO_SNDBUF => set.cast_signed(),
        _ => set.saturating_mul(2).cast_signed(),
    }
}

/// SO_MEMINFO: nine values, of which the buffer sizes and the queued bytes are filled in.
fn memory(socket: &Socket, unread: usize, info: Option<&TcpInfo>) -> Vec<u8> {
    let queued = info.map_or(0, |info| info.unacked_bytes + info.unsent_bytes);
    let figures = [
        u32::try_from(socket.stash.len() + unread).unwrap_or(u32::MAX),
        buffer(socket, libc::SO_RCVBUF).cast_unsigned(),
        queued,
        buffer(socket, libc::SO_SNDBUF).cast_unsigned(),
        0,
        queued,
        0,
        0,
        0,
    ];
    figures.iter().flat_map(|figure| figure.to_ne_bytes()).collect()
}

fn span(value: &[u8]) -> Result<Duration, i32> {
    let bytes = value.first_chunk::<16>().ok_or(libc::EINVAL)?;
    let (seconds, micros) = bytes.split_at(8);
    let part = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
    Ok(Duration::from_micros(part(seconds).min(1 << 40) * 1_000_000 + part(micros).min(1_000_000)))
}

/// Returns the initial value of an option. `None`: the stack does not have the option.
fn default_of(level: i32, name: i32) -> Option<i32> {
    let value = match (level, name) {
        (libc::SOL_SOCKET, libc::SO_RCVLOWAT) => 1,
        (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE) => -1,
        // Options that must not appear supported, as in `posix`.
        (
            libc::SOL_SOCKET,
            libc::SO_ZEROCOPY
            | libc::SO_TIMESTAMPING
            | libc::SO_TXTIME
            | libc::SO_ATTACH_FILTER
            | libc::SO_ATTACH_BPF
            | libc::SO_BINDTODEVICE,
        ) => return None,
        (libc::SOL_SOCKET, _) => 0,
        (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS) => 64,
        (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER) | (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER) => 1,
        (libc::IPPROTO_IP | libc::IPPROTO_IPV6, _) => 0,
        (
            libc::IPPROTO_TCP,
            libc::TCP_NODELAY
            | libc::TCP_CORK
            | libc::TCP_QUICKACK
            | libc::TCP_USER_TIMEOUT
            | libc::TCP_MAXSEG
            | libc::TCP_DEFER_ACCEPT
            | libc::TCP_WINDOW_CLAMP
            | libc::TCP_NOTSENT_LOWAT
            | TCP_INQ,
        ) => 0,
        _ => return None,
    };
    Some(value)
}

/// linux/tcp.h
const TCP_CC_INFO: i32 = 26;
pub(super) const TCP_INQ: i32 = 36;
const SO_SNDBUFFORCE: i32 = 32;
const SO_RCVBUFFORCE: i32 = 33;
