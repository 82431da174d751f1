//! Delivers ICMP errors to the sockets that caused them. Read RFC 1122 §4.1.3.3, RFC 5927 §4, ip(7) IP_RECVERR first.
//!
//! Like Linux: the next call on a connected socket returns a hard error; a socket with IP_RECVERR gets all errors, connected
//! or not. A message is believed only when the quoted datagram could be ours: a socket is bound to its port, and is
//! connected to that destination or was sending to it.

use core::net::IpAddr;

use ringway_shm::Instant;

use crate::address::SocketAddress;
use crate::config::PathMtuDiscovery;
use crate::env::Env;
use crate::event::SocketId;
use crate::ip::{IcmpError, IcmpErrorKind};
use crate::tcp::demux::FlowKey;

use super::Udp;
use super::socket::Socket;

/// Reason why a datagram did not arrive. `posix::errno` maps these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UdpError {
    /// No socket has the port.
    Refused,
    /// No route to the host, or time exceeded.
    HostUnreachable,
    /// No route to the network.
    NetworkUnreachable,
    /// The host does not support UDP.
    ProtocolUnreachable,
    /// Larger than the path MTU.
    MessageTooLong,
    /// A header was bad.
    ProtocolError,
}

/// One entry of the error queue: `struct sock_extended_err` without its errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpErrorReport {
    /// The error.
    pub error: UdpError,
    /// Destination of the datagram.
    pub destination: SocketAddress,
    /// Sender of the error; `None`: this stack.
    pub offender: Option<IpAddr>,
    /// Type of the ICMP message; 0 without one.
    pub icmp_type: u8,
    /// Its code.
    pub icmp_code: u8,
    /// The path's MTU, with [`UdpError::MessageTooLong`]; otherwise 0.
    pub mtu: u32,
}

impl Udp {
    /// Handles an ICMP error about one of our datagrams.
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
            // A datagram of the quoted length must not fit (RFC 5927 §7.2).
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
        if socket.report(report, if hard { Severity::Hard } else { Severity::Soft }) {
            self.signal(env, index);
        }
    }

    /// Takes SO_ERROR.
    pub(crate) fn take_error(&mut self, id: SocketId) -> Option<UdpError> {
        let (_, socket) = self.resolve_mut(id)?;
        // The next event is signalled again.
        socket.signalled = false;
        socket.pending.take()
    }

    /// Takes the oldest entry of the error queue.
    pub(crate) fn take_report(&mut self, id: SocketId) -> Option<UdpErrorReport> {
        let (_, socket) = self.resolve_mut(id)?;
        socket.signalled = false;
        let report = socket.reports.pop_front()?;
        // Like Linux: SO_ERROR then has the next entry, or nothing.
        socket.pending = socket.reports.front().map(|next| next.error);
        Some(report)
    }
}

/// Which sockets get an error.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Severity {
    /// Those with IP_RECVERR.
    Soft,
    /// Connected ones too.
    Hard,
}

impl Socket {
    /// Stores an error for the application; `false`: it does not get this one.
    pub(crate) fn report(&mut self, report: UdpErrorReport, severity: Severity) -> bool {
        if self.options.receive_errors {
            if self.reports.len() < REPORTS_MAX {
                self.reports.push_back(report);
            }
        } else if severity == Severity::Soft || self.remote.is_none() {
            return false;
        }
        self.pending = Some(report.error);
        true
    }
}

/// Linux's icmp_err_convert: returns the error, and true when a connected socket gets it without IP_RECVERR.
fn classify(kind: IcmpErrorKind, code: u8, discovery: &PathMtuDiscovery) -> Option<(UdpError, bool)> {
    Some(match kind {
        IcmpErrorKind::PortUnreachable => (UdpError::Refused, true),
        IcmpErrorKind::ProtocolUnreachable => (UdpError::ProtocolUnreachable, true),
        IcmpErrorKind::FragmentationNeeded { .. } if *discovery == PathMtuDiscovery::Dont => return None,
        IcmpErrorKind::FragmentationNeeded { .. } => (UdpError::MessageTooLong, true),
        // "Unknown" is permanent, "unreachable" may be temporary.
        IcmpErrorKind::NetworkUnreachable => (UdpError::NetworkUnreachable, code == crate::wire::icmpv4::code::NETWORK_UNKNOWN),
        IcmpErrorKind::HostUnreachable => (UdpError::HostUnreachable, matches!(code, 7 | 8)),
        IcmpErrorKind::Prohibited => (UdpError::HostUnreachable, true),
        IcmpErrorKind::TimeExceeded => (UdpError::HostUnreachable, false),
        IcmpErrorKind::ParameterProblem => (UdpError::ProtocolError, true),
    })
}

/// Maximum number of entries of one socket's error queue.
const REPORTS_MAX: usize = 64;
