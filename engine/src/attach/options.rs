//! Socket options: from the channel's numbers to the stack's types.

use ringway_channel::{ControlAnswer, Failure, Request, SlotIndex, SocketOption};
use ringway_shm::Duration;
use ringway_stack::{CongestionControl, FastOpenKeys, PathMtuDiscovery, TcpConfig, TcpOptions};

use super::datagram;
use super::region::Region;
use super::socket::{Kind, Socket};
use crate::core::Core;
use crate::metrics::Work;
use crate::verdict::lower;

impl Region {
    pub(super) fn set_option(&mut self, slot: SlotIndex, option: SocketOption, value: u32, core: &mut Core) -> ControlAnswer {
        let Some(socket) = self.sockets.get(slot) else { return ControlAnswer::Failed(Failure::Invalid) };
        if option == SocketOption::EveryWorker {
            socket.every_worker = value != 0;
            return ControlAnswer::Done;
        }
        if option == SocketOption::ResetAtClose {
            socket.resets_at_close = value != 0;
            return ControlAnswer::Done;
        }
        if option == SocketOption::ReadShut {
            if let (Kind::Connection, Some(id)) = (socket.kind, socket.id) {
                core.stack.shutdown_read(core.now, id);
            }
            return ControlAnswer::Done;
        }
        let applied = apply(&mut socket.options, option, value);
        if !applied || !datagram::apply(&mut socket.datagrams.options, option, value) {
            return ControlAnswer::Failed(Failure::Invalid);
        }
        if option == SocketOption::PacingRate {
            socket.rate_asked = socket.options.pacing_rate_max;
            socket.options.pacing_rate_max = lower(socket.rate_asked, socket.terms.rate_max);
        }
        let (kind, options) = (socket.kind, socket.options);
        if let (Kind::Datagram, Some(id)) = (kind, socket.id) {
            core.stack.udp_set_options(id, socket.datagrams.options.clone());
            return ControlAnswer::Done;
        }
        let second = socket.listening.as_ref().and_then(|listening| listening.second);
        for id in [socket.id, second].into_iter().flatten() {
            core.stack.set_options(core.now, id, options);
            if option == SocketOption::NoDelay && options.no_delay {
                // tcp(7): queued data goes at once, corked or not.
                core.stack.push(core.now, id);
            }
        }
        if kind == Kind::Connection && SIZES.contains(&option) {
            self.open_limits(slot);
        }
        ControlAnswer::Done
    }

    /// Answers with an option's value as it was set and as it is in effect; options that cannot be read have none.
    pub(super) fn option(&mut self, request: &Request, option: SocketOption, core: &mut Core) {
        match self.sockets.get(request.slot.index).and_then(|socket| value_of(socket, option)) {
            None => self.channel.answer(request, ControlAnswer::NotOurs),
            Some(value) => {
                let in_effect = if value == 0 { default_of(&core.tcp, option) } else { value };
                let both = u64::from(in_effect) << 32 | u64::from(value);
                if !self.channel.answer_with_bytes(request, &both.to_le_bytes()) {
                    core.metrics.add(Work::RefusedSockets, 1);
                }
            }
        }
    }

    /// Sets TCP_FASTOPEN_KEY: one key replaces all earlier ones; a backup is added to it.
    pub(super) fn set_fast_open_key(&mut self, slot: SlotIndex, key: [u8; 16], backup: bool, core: &mut Core) {
        let Some(socket) = self.sockets.get(slot) else { return };
        let keys = match socket.fast_open_keys.as_deref() {
            Some(keys) if backup => FastOpenKeys { backup: Some(key), ..*keys },
            _ => FastOpenKeys { primary: key, backup: None },
        };
        socket.fast_open_keys = Some(Box::new(keys));
        if socket.kind == Kind::Listener {
            self.use_fast_open_keys(slot, keys, core);
        }
    }

    /// Gives these keys to the stack's listeners of the slot.
    pub(super) fn use_fast_open_keys(&mut self, slot: SlotIndex, keys: FastOpenKeys, core: &mut Core) {
        let Some(socket) = self.sockets.get(slot) else { return };
        let second = socket.listening.as_ref().and_then(|listening| listening.second);
        for id in [socket.id, second].into_iter().flatten() {
            core.stack.set_fast_open_keys(Some(id), keys);
        }
    }
}

/// Options that bound what is written ahead or left unread.
const SIZES: [SocketOption; 4] =
    [SocketOption::ReceiveBuffer, SocketOption::SendBuffer, SocketOption::NotSentLowWater, SocketOption::WindowClamp];

/// Linux: net.core.somaxconn.
const FAST_OPEN_QUEUE_MAX: u32 = 4_096;

/// Number of retransmissions that fit into `seconds` if the first comes after one second and each next after twice the
/// time, up to two minutes (Linux, secs_to_retrans).
fn retries_in(seconds: u32) -> u8 {
    let (mut retries, mut period, mut timeout) = (u8::from(seconds > 0), 1, 1);
    while seconds > period && retries < u8::MAX {
        retries += 1;
        timeout = (timeout * 2).min(120);
        period += timeout;
    }
    retries
}

/// FIN timeout as on Linux: 0 asks for the default, a negative value for none, and two minutes is the maximum.
fn fin_timeout(seconds: i32) -> Option<Duration> {
    (seconds != 0).then(|| Duration::from_secs(seconds.clamp(0, 120) as u64))
}

/// Sets an option; returns false if the value is invalid.
fn apply(options: &mut TcpOptions, option: SocketOption, value: u32) -> bool {
    let seconds = Duration::from_secs(u64::from(value));
    match option {
        SocketOption::NoDelay => options.no_delay = value != 0,
        SocketOption::Cork => options.cork = value != 0,
        SocketOption::More => options.more = value != 0,
        SocketOption::KeepAlive => options.keepalive = value != 0,
        SocketOption::KeepIdle => options.keepalive_idle = seconds,
        SocketOption::KeepInterval => options.keepalive_interval = seconds,
        SocketOption::KeepCount => options.keepalive_probes = value.min(127) as u8,
        SocketOption::UserTimeout => options.user_timeout = Duration::from_millis(u64::from(value)),
        SocketOption::ReceiveBuffer => options.receive_buffer_bytes = value,
        SocketOption::SendBuffer => options.send_buffer_bytes = value,
        SocketOption::MaxSegment => options.maximum_segment_size = value.min(u32::from(u16::MAX)) as u16,
        SocketOption::QuickAck => options.quick_ack = Some(value != 0),
        SocketOption::Congestion => match CongestionControl::ALL.get(value as usize) {
            Some(&algorithm) => options.congestion_control = algorithm,
            None => return false,
        },
        SocketOption::PacingRate => options.pacing_rate_max = if value == u32::MAX { 0 } else { u64::from(value) },
        SocketOption::TypeOfService => options.type_of_service = value as u8,
        SocketOption::TimeToLive => match u8::try_from(value) {
            Ok(hops) => options.time_to_live = hops,
            Err(_) => return false,
        },
        SocketOption::FastOpenQueue => options.fast_open_queue = value.min(FAST_OPEN_QUEUE_MAX),
        SocketOption::FastOpenConnect => options.fast_open = value != 0,
        SocketOption::FastOpenNoCookie => options.fast_open_without_cookie = value != 0,
        // Linux's default reads as all ones: no limit.
        SocketOption::NotSentLowWater => options.not_sent_low_water = if value == u32::MAX { 0 } else { value },
        SocketOption::DeferAccept => options.defer_accept_retries = retries_in(value),
        SocketOption::SynCount => options.syn_retries = value.min(127) as u8,
        SocketOption::WindowClamp => options.window_clamp = value,
        SocketOption::PathMtuDiscovery => match PathMtuDiscovery::from_number(value) {
            Some(discovery) => options.path_mtu_discovery = discovery,
            None => return false,
        },
        // For datagrams too.
        SocketOption::ReusePort => options.reuse_port = value != 0,
        SocketOption::FinTimeout => options.fin_timeout = fin_timeout(value.cast_signed()),
        // Kept by the application's side; the stack has its own policy.
        SocketOption::ReceiveLowWater
        // Options of the socket, not of the stack.
        | SocketOption::EveryWorker
        | SocketOption::ReadShut
        | SocketOption::ResetAtClose
        // For datagrams only.
        | SocketOption::ReuseAddress
        | SocketOption::Broadcast
        | SocketOption::OnlyIpv6
        | SocketOption::NoChecksum
        | SocketOption::SegmentSize
        | SocketOption::MulticastTimeToLive
        | SocketOption::MulticastLoop
        | SocketOption::Coalesce => {}
    }
    true
}

/// The value of an option that no program has set.
fn default_of(tcp: &TcpConfig, option: SocketOption) -> u32 {
    let seconds = |time: Duration| u32::try_from(time.as_millis() / 1_000).unwrap_or(u32::MAX);
    match option {
        SocketOption::KeepIdle => seconds(tcp.keepalive_idle),
        SocketOption::KeepInterval => seconds(tcp.keepalive_interval),
        SocketOption::KeepCount => tcp.keepalive_probes.into(),
        SocketOption::SynCount => tcp.syn_retries.into(),
        _ => 0,
    }
}

/// The value that [`apply`] has stored; 0 where none was set and the stack's default holds. `None`: not to be read.
fn value_of(socket: &Socket, option: SocketOption) -> Option<u32> {
    if socket.kind == Kind::Datagram
        && let Some(value) = datagram::value_of(&socket.datagrams.options, option)
    {
        return Some(value);
    }
    let options = &socket.options;
    let seconds = |time: Duration| u32::try_from(time.as_millis() / 1_000).unwrap_or(u32::MAX);
    Some(match option {
        SocketOption::NoDelay => options.no_delay.into(),
        SocketOption::Cork => options.cork.into(),
        SocketOption::KeepAlive => options.keepalive.into(),
        SocketOption::KeepIdle => seconds(options.keepalive_idle),
        SocketOption::KeepInterval => seconds(options.keepalive_interval),
        SocketOption::KeepCount => options.keepalive_probes.into(),
        SocketOption::UserTimeout => u32::try_from(options.user_timeout.as_millis()).unwrap_or(u32::MAX),
        SocketOption::ReceiveBuffer => options.receive_buffer_bytes,
        SocketOption::SendBuffer => options.send_buffer_bytes,
        SocketOption::MaxSegment => options.maximum_segment_size.into(),
        SocketOption::QuickAck => options.quick_ack.unwrap_or(false).into(),
        SocketOption::Congestion => {
            let position = CongestionControl::ALL.iter().position(|&algorithm| algorithm == options.congestion_control);
            position? as u32
        }
        SocketOption::PacingRate if options.pacing_rate_max == 0 => u32::MAX,
        SocketOption::PacingRate => u32::try_from(options.pacing_rate_max).unwrap_or(u32::MAX),
        SocketOption::TypeOfService => options.type_of_service.into(),
        SocketOption::TimeToLive => options.time_to_live.into(),
        SocketOption::NotSentLowWater => options.not_sent_low_water,
        SocketOption::SynCount => options.syn_retries.into(),
        SocketOption::WindowClamp => options.window_clamp,
        SocketOption::ReusePort => options.reuse_port.into(),
        _ => return None,
    })
}
