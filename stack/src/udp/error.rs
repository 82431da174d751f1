//! What ICMP says of datagrams that we sent, and whom it is told. Read RFC 1122 §4.1.3.3, RFC 5927 §4, ip(7) IP_RECVERR first.
//!
//! As Linux: a connected socket learns of hard errors by its next call; one that has asked for
//! reports (IP_RECVERR) learns of all errors, connected or not. A message is believed only when the
//! datagram that it quotes could be ours: a socket is bound to its port, and it is connected to, or
//! was sending to, that destination.

use core::net::IpAddr;

use ringway_shm::Instant;

use crate::address::SocketAddress;
use crate::config::PathMtuDiscovery;
use crate::event::SocketId;
use crate::ip::{IcmpError, IcmpErrorKind};
use crate::stack::Env;
use crate::tcp::demux::FlowKey;

use super::Udp;
use super::socket::Socket;

/// Why a datagram did not arrive. `posix::errno` maps these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UdpError {
    /// Nobody serves the port.
    Refused,
    /// No route to the host, or time exceeded.
    HostUnreachable,
    /// No route to the network.
    NetworkUnreachable,
    /// The host does not speak UDP.
    ProtocolUnreachable,
    /// Larger than the path takes.
    MessageTooLong,
    /// A header was found bad.
    ProtocolError,
}

/// One entry of the error queue: `struct sock_extended_err` without its errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpErrorReport {
    /// What happened.
    pub error: UdpError,
    /// Where the datagram was sent.
    pub destination: SocketAddress,
    /// Who says so; `None`: this stack itself.
    pub offender: Option<IpAddr>,
    /// Type of the ICMP message; 0 without one.
    pub icmp_type: u8,
    /// Its code.
    pub icmp_code: u8,
    /// The path's MTU, with [`UdpError::MessageTooLong`]; otherwise 0.
    pub mtu: u32,
}

impl Udp {
    /// An ICMP error quotes a datagram of ours.
    pub(crate) fn icmp_error(&mut self, now: Instant, env: &mut Env, error: &IcmpError) {
        self.now = now;
        let IcmpError { local, remote, local_port, remote_port, .. } = *error;
        let key = FlowKey { local, remote, local_port, remote_port };
        let interface = env.ip.route(remote, Some(local)).map_or(u32::MAX, |path| path.interface);
        let Some(index) = self.table.find(&key, interface) else { return };
        let Some(socket) = self.table.get_mut(index) else { return };
        let sends_there = socket.remote.is_some() || socket.template.as_ref().is_some_and(|(flow, _)| flow.remote == remote);
        let mut mtu = 0;
        if let IcmpErrorKind::FragmentationNeeded { mtu: told } = error.kind {
            // The quoted length must be one that does not fit (RFC 5927 §7.2).
            let quoted = (error.sequence >> 16) + if remote.is_ipv4() { 20 } else { 40 };
            if sends_there && quoted > told.into() && socket.options.path_mtu_discovery.is_learning() {
                env.ip.learn_path_mtu(now, remote, told);
            }
            mtu = env.ip.route(remote, Some(local)).map_or(told, |path| path.mtu).into();
        }
        let Some((what, hard)) = classify(error.kind, error.icmp_code, &socket.options.path_mtu_discovery) else { return };
        let by_ourselves = error.offender == local;
        let report = UdpErrorReport {
            error: what,
            destination: SocketAddress { ip: remote, port: remote_port },
            offender: Some(error.offender).filter(|_| !by_ourselves),
            icmp_type: error.icmp_type,
            icmp_code: error.icmp_code,
            mtu,
        };
        if socket.report(report, hard) {
            self.signal(env, index);
        }
    }

    /// Takes SO_ERROR.
    pub(crate) fn take_error(&mut self, id: SocketId) -> Option<UdpError> {
        let (_, socket) = self.resolve_mut(id)?;
        // What comes from now on is news again.
        socket.signalled = false;
        socket.pending.take()
    }

    /// Takes the oldest entry of the error queue.
    pub(crate) fn take_report(&mut self, id: SocketId) -> Option<UdpErrorReport> {
        let (_, socket) = self.resolve_mut(id)?;
        socket.signalled = false;
        let report = socket.reports.pop_front()?;
        // As Linux: SO_ERROR then tells of the next entry, or of nothing.
        socket.pending = socket.reports.front().map(|next| next.error);
        Some(report)
    }
}

impl Socket {
    /// Keeps what concerns the application; `false`: nothing does.
    pub(crate) fn report(&mut self, report: UdpErrorReport, hard: bool) -> bool {
        if self.options.receive_errors {
            if self.reports.len() < REPORTS_MAX {
                self.reports.push_back(report);
            }
        } else if !hard || self.remote.is_none() {
            return false;
        }
        self.pending = Some(report.error);
        true
    }
}

/// Linux's icmp_err_convert: the error, and whether a connected socket learns of it unasked.
fn classify(kind: IcmpErrorKind, code: u8, discovery: &PathMtuDiscovery) -> Option<(UdpError, bool)> {
    Some(match kind {
        IcmpErrorKind::PortUnreachable => (UdpError::Refused, true),
        IcmpErrorKind::ProtocolUnreachable => (UdpError::ProtocolUnreachable, true),
        IcmpErrorKind::FragmentationNeeded { .. } if *discovery == PathMtuDiscovery::Dont => return None,
        IcmpErrorKind::FragmentationNeeded { .. } => (UdpError::MessageTooLong, true),
        // "Unknown" is for good, "unreachable" may pass.
        IcmpErrorKind::NetworkUnreachable => (UdpError::NetworkUnreachable, code == crate::wire::icmpv4::code::NETWORK_UNKNOWN),
        IcmpErrorKind::HostUnreachable => (UdpError::HostUnreachable, matches!(code, 7 | 8)),
        IcmpErrorKind::Prohibited => (UdpError::HostUnreachable, true),
        IcmpErrorKind::TimeExceeded => (UdpError::HostUnreachable, false),
        IcmpErrorKind::ParameterProblem => (UdpError::ProtocolError, true),
    })
}

/// Entries of one socket's error queue.
const REPORTS_MAX: usize = 64;
