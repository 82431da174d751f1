//! Sends ICMP errors. Read RFC 1122 §3.2.2, RFC 4443 §2.4, RFC 792 first.
//!
//! Sends none about an ICMP error, about a multicast packet or one without a source, about a fragment except the first, nor
//! when the kernel answers for the address; the number per second is limited for the whole stack.

use core::net::{IpAddr, Ipv6Addr};

use ringway_shm::{Class, Frame};

use super::control::finish_icmpv6;
use super::{Datagram, Flow, Ip, REPLIES_MAX, Role, icmpv6, is_host};
use crate::env::IpEnv;
use crate::stats::Counter;
use crate::wire::{checksum, icmpv4, icmpv6 as wire_icmpv6, ipv4, ipv6};

/// Error in a received packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorCause {
    /// No socket has the port.
    Port,
    /// The protocol is unknown; offset of the field that names it.
    Protocol { named_at: usize },
    /// The datagram was not complete in time.
    Reassembly,
    /// RFC 4443 §3.4; IPv6 only.
    Problem { code: u8, pointer: u32, even_multicast: bool },
}

/// An ICMP error without its quotation.
struct Draft {
    kind: u8,
    code: u8,
    word: u32,
    flow: Flow,
    /// Maximum number of bytes quoted.
    quoted: usize,
}

impl Ip {
    /// Sends "port unreachable" to the sender of a UDP datagram. `first` starts at the UDP header.
    pub(crate) fn refuse_port(&mut self, env: &mut IpEnv, datagram: &Datagram, mut first: Frame) {
        let header_len = usize::from(datagram.header_len);
        if datagram.multicast || !first.is_exclusive() || first.headroom() < header_len {
            return;
        }
        first.push(header_len);
        self.send_icmp_error(env, datagram.interface, &first, ErrorCause::Port);
    }

    /// Sends an ICMP error to the sender of a packet, which starts at its IP header in `first`.
    pub(crate) fn send_icmp_error(&mut self, env: &mut IpEnv, interface: u32, first: &Frame, cause: ErrorCause) {
        if self.role(interface) == Role::Shared {
            return;
        }
        let Some(draft) = self.draft(interface, first.bytes(), cause) else { return };
        if self.reply_flows.len() >= REPLIES_MAX || !self.limit.allow(env.now) {
            env.counters.count(Counter::DropRateLimited);
            return;
        }
        let quoted = &first.bytes()[..first.len().min(draft.quoted)];
        let class = if quoted.len() > SMALL_QUOTE { Class::Large } else { Class::Small };
        let Some(mut frame) = env.arena.alloc(class) else {
            env.counters.count(Counter::DropNoFrame);
            return;
        };
        let message = frame.extend(icmpv4::HEADER_LEN + quoted.len());
        message[..4].copy_from_slice(&[draft.kind, draft.code, 0, 0]);
        message[4..8].copy_from_slice(&draft.word.to_be_bytes());
        message[8..].copy_from_slice(quoted);
        match (draft.flow.local, draft.flow.remote) {
            (IpAddr::V6(local), IpAddr::V6(remote)) => finish_icmpv6(message, local, remote),
            _ => {
                let sum = !checksum::sum(message);
                message[2..4].copy_from_slice(&sum.to_be_bytes());
            }
        }
        self.replies.push(frame);
        self.reply_flows.push_back(draft.flow);
    }

    fn draft(&self, interface: u32, packet: &[u8], cause: ErrorCause) -> Option<Draft> {
        match packet.first()? >> 4 {
            4 => self.draft_ipv4(packet, cause),
            _ => self.draft_ipv6(interface, packet, cause),
        }
    }

    fn draft_ipv4(&self, packet: &[u8], cause: ErrorCause) -> Option<Draft> {
        let header = ipv4::Header::parse_unverified(packet)?;
        let (kind, code) = match cause {
            ErrorCause::Port => (icmpv4::UNREACHABLE, icmpv4::code::PORT),
            ErrorCause::Protocol { .. } => (icmpv4::UNREACHABLE, icmpv4::code::PROTOCOL),
            ErrorCause::Reassembly => (icmpv4::TIME_EXCEEDED, icmpv4::REASSEMBLY_TIME),
            ErrorCause::Problem { .. } => return None,
        };
        let about_error = header.protocol == ipv4::PROTOCOL_ICMP
            && icmpv4::Header::parse(packet.get(header.header_len.into()..)?).is_none_or(|quoted| quoted.is_error());
        let answerable = is_host(header.source.into())
            && self.local_ipv4.contains(&header.destination)
            && header.fragment_offset == 0
            && !about_error;
        let (local, remote) = (header.destination.into(), header.source.into());
        let tos = PRECEDENCE_INTERNETWORK_CONTROL;
        let flow = Flow { local, remote, protocol: ipv4::PROTOCOL_ICMP, tos, ttl: 0, ports: (0, 0) };
        // RFC 792: the IP header and eight bytes after it.
        let quoted = usize::from(header.header_len) + QUOTED_BYTES;
        answerable.then_some(Draft { kind, code, word: 0, flow, quoted })
    }

    fn draft_ipv6(&self, interface: u32, packet: &[u8], cause: ErrorCause) -> Option<Draft> {
        let header = ipv6::Header::parse(packet)?;
        let (kind, code, word) = match cause {
            ErrorCause::Port => (wire_icmpv6::UNREACHABLE, wire_icmpv6::unreachable::PORT, 0),
            ErrorCause::Protocol { named_at } => {
                (wire_icmpv6::PARAMETER_PROBLEM, wire_icmpv6::problem::NEXT_HEADER, named_at as u32)
            }
            ErrorCause::Reassembly => (wire_icmpv6::TIME_EXCEEDED, wire_icmpv6::exceeded::REASSEMBLY, 0),
            ErrorCause::Problem { code, pointer, .. } => (wire_icmpv6::PARAMETER_PROBLEM, code, pointer),
        };
        // RFC 4443 §2.4 (e)
        let to_us = self.local_ipv6.contains(&header.destination);
        let multicast = header.destination.is_multicast() && matches!(cause, ErrorCause::Problem { even_multicast: true, .. });
        if !is_host(header.source.into()) || !(to_us || multicast) || icmpv6::is_about_error(packet) {
            return None;
        }
        let local: Ipv6Addr = match to_us {
            true => header.destination,
            false => match self.interfaces[interface as usize].source_towards(header.source.into(), header.source.into())? {
                IpAddr::V6(ip) => ip,
                IpAddr::V4(_) => return None,
            },
        };
        let (local, remote) = (local.into(), header.source.into());
        let flow = Flow { local, remote, protocol: ipv6::PROTOCOL_ICMP, tos: 0, ttl: 0, ports: (0, 0) };
        // RFC 4443 §2.4 (c): as much as fits the minimum MTU.
        let quoted = usize::from(ipv6::MTU_MIN) - ipv6::HEADER_LEN - wire_icmpv6::HEADER_LEN;
        Some(Draft { kind, code, word, flow, quoted })
    }
}

/// Bytes of the original packet after its IPv4 header that an error quotes: ports and sequence number.
const QUOTED_BYTES: usize = 8;
/// Maximum quotation that fits a small frame.
const SMALL_QUOTE: usize = 100;
/// RFC 1122 §3.2.2: errors have precedence 6.
const PRECEDENCE_INTERNETWORK_CONTROL: u8 = 0xc0;

#[cfg(test)]
mod tests;
