//! Messages of the IP layer about the path: ICMP errors that quote a segment of ours, and smaller MTUs.
//!
//! Read RFC 1122 §4.2.3.9, RFC 1191 §3 and RFC 5927 first. Finds the connection, which decides whether it believes the
//! message.

use ringway_shm::Instant;

use super::Tcp;
use super::demux::{self, Target};
use super::state::State;
use crate::env::Env;
use crate::event::SocketError;
use crate::ip::{IcmpError, IcmpErrorKind};
use crate::wire::sequence::SeqNum;

impl Tcp {
    /// Adapts connections to an interface MTU that may have become smaller.
    pub(crate) fn fit_to_paths(&mut self, now: Instant, env: &mut Env) {
        self.set_now(now);
        for index in 0..self.tcbs.len() {
            // Before the peer's SYN nothing is negotiated; a freed block is closed.
            if !matches!(self.tcbs[index].state(), State::Closed | State::Listen | State::SynSent) {
                self.connection(env, index as u32).fit_to_path();
            }
        }
    }

    /// Handles an ICMP error that quotes a segment of ours.
    pub(crate) fn icmp_error(&mut self, now: Instant, env: &mut Env, error: &IcmpError) {
        self.set_now(now);
        let IcmpError { local, remote, local_port, remote_port, .. } = *error;
        let key = demux::FlowKey { local, remote, local_port, remote_port };
        let hash = self.hasher.hash(&key);
        let found = self.flows.find(hash, |target| match target {
            Target::Connection(index) => self.tcbs[index as usize].key() == key,
            Target::HalfOpen(_) | Target::TimeWait(_) => false,
        });
        let Some(Target::Connection(index)) = found else { return };
        let sequence = SeqNum(error.sequence);
        let mut connection = self.connection(env, index);
        match error.kind {
            IcmpErrorKind::FragmentationNeeded { mtu } => connection.on_packet_too_big(mtu, sequence),
            IcmpErrorKind::NetworkUnreachable => connection.on_unreachable(SocketError::NetworkUnreachable, sequence),
            IcmpErrorKind::Prohibited if remote.is_ipv6() => connection.on_unreachable(SocketError::Prohibited, sequence),
            IcmpErrorKind::HostUnreachable | IcmpErrorKind::Prohibited => {
                connection.on_unreachable(SocketError::HostUnreachable, sequence);
            }
            IcmpErrorKind::ProtocolUnreachable => connection.on_unreachable(SocketError::ProtocolUnreachable, sequence),
            IcmpErrorKind::PortUnreachable => connection.on_unreachable(SocketError::Refused, sequence),
            IcmpErrorKind::TimeExceeded | IcmpErrorKind::ParameterProblem => {}
        }
        self.settle(env);
    }
}
