//! What the program has set, as options of the kernel socket.
//!
//! A value that the kernel refuses leaves the kernel's own, which the connection can live with. The options that the stack does not
//! know are on the kernel socket already or the library's to set.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use ringway_device::repair::{self, Number};
use ringway_stack::{PathMtuDiscovery, TcpOptions};
use rustix::net::sockopt;

use super::Family;

/// TCP_NOTSENT_LOWAT: no limit.
const UNLIMITED: i32 = -1;

/// Sets what counts for the route and the first segments, before `connect`. `mss` is the peer's limit: it becomes the size of segments
/// only if it is known by then, as the program's own limit (net/ipv4/tcp_output.c, tcp_connect_init).
pub(super) fn before(socket: BorrowedFd<'_>, family: Family, mss: u16, options: &TcpOptions) {
    set(true, || repair::set_number(socket, Number::MaximumSegmentSize, mss.into()));
    set(true, || Ok(sockopt::set_tcp_congestion(socket, options.congestion_control.name())?));
    let discovery = number_of(options.path_mtu_discovery);
    let (tos, ttl) = (options.type_of_service, options.time_to_live);
    if family != Family::Ipv6 {
        set(tos != 0, || Ok(sockopt::set_ip_tos(socket, tos)?));
        set(ttl != 0, || Ok(sockopt::set_ip_ttl(socket, ttl.into())?));
        set(true, || repair::set_number(socket, Number::Ipv4MtuDiscovery, discovery));
    }
    if family != Family::Ipv4 {
        set(tos != 0, || Ok(sockopt::set_ipv6_tclass(socket, tos.into())?));
        set(ttl != 0, || Ok(sockopt::set_ipv6_unicast_hops(socket, Some(ttl))?));
        set(true, || repair::set_number(socket, Number::Ipv6MtuDiscovery, discovery));
    }
}

/// Sets the rest, once the connection is there. Unsent bytes are not limited yet.
pub(super) fn after(socket: BorrowedFd<'_>, options: &TcpOptions) {
    set(true, || repair::set_number(socket, Number::NotSentLowWater, UNLIMITED));
    set(true, || repair::set_number(socket, Number::MaximumSegmentSize, options.maximum_segment_size.into()));
    set(true, || Ok(sockopt::set_tcp_nodelay(socket, options.no_delay)?));
    set(true, || Ok(sockopt::set_tcp_cork(socket, options.cork)?));
    if let Some(quick) = options.quick_ack {
        set(true, || Ok(sockopt::set_tcp_quickack(socket, quick)?));
    }
    let time = |duration: ringway_shm::Duration| Duration::from_millis(duration.as_millis());
    let (idle, interval) = (time(options.keepalive_idle), time(options.keepalive_interval));
    set(!idle.is_zero(), || Ok(sockopt::set_tcp_keepidle(socket, idle)?));
    set(!interval.is_zero(), || Ok(sockopt::set_tcp_keepintvl(socket, interval)?));
    set(options.keepalive_probes != 0, || Ok(sockopt::set_tcp_keepcnt(socket, options.keepalive_probes.into())?));
    set(true, || Ok(sockopt::set_socket_keepalive(socket, options.keepalive)?));
    let user_timeout_ms = u32::try_from(options.user_timeout.as_millis()).unwrap_or(u32::MAX);
    set(user_timeout_ms != 0, || Ok(sockopt::set_tcp_user_timeout(socket, user_timeout_ms)?));
    let syn_retries = options.syn_retries.into();
    set(options.syn_retries != 0, || repair::set_number(socket, Number::SynCount, syn_retries));
    if let Some(limit) = options.fin_timeout {
        // Zero means the default to the kernel, and less means none.
        let seconds = if limit.as_millis() == 0 { -1 } else { i32::try_from(limit.as_millis() / 1_000).unwrap_or(i32::MAX) };
        set(true, || repair::set_number(socket, Number::FinTimeout, seconds));
    }
    let clamp = options.window_clamp.cast_signed();
    set(clamp > 0, || repair::set_number(socket, Number::WindowClamp, clamp));
    set(options.pacing_rate_max != 0, || repair::set_pacing_rate_max(socket, options.pacing_rate_max));
}

/// Lets the program's limit of unsent bytes hold.
pub(super) fn limit_unsent(socket: BorrowedFd<'_>, options: &TcpOptions) {
    let limit = options.not_sent_low_water.cast_signed();
    set(true, || repair::set_number(socket, Number::NotSentLowWater, limit));
}

/// See the module's text for refused values.
fn set(wanted: bool, option: impl FnOnce() -> io::Result<()>) {
    if wanted {
        option().ok();
    }
}

/// Linux's number (ip(7)).
fn number_of(discovery: PathMtuDiscovery) -> i32 {
    match discovery {
        PathMtuDiscovery::Dont => 0,
        PathMtuDiscovery::Want => 1,
        PathMtuDiscovery::Do => 2,
        PathMtuDiscovery::Probe => 3,
        PathMtuDiscovery::Interface => 4,
        PathMtuDiscovery::Omit => 5,
    }
}
