//! Receives ICMP and answers echo requests. Read RFC 792, RFC 1122 §3.2.2, RFC 1191 §4, RFC 5927 §4 first.
//!
//! Echo requests are answered when the stack alone owns the address. Errors about TCP segments are parsed and queued for
//! TCP, which decides whether to believe them. Other messages are counted and ignored.

use core::net::{IpAddr, Ipv4Addr};

use ringway_shm::{Burst, Checksum, Frame, Instant, Segmentation};

use super::icmpv6;
use super::{Flow, IcmpError, IcmpErrorKind, Ip, REPLIES_MAX, Role};
use crate::env::IpEnv;
use crate::stats::{Counter, Counters};
use crate::wire::icmpv4::{self, Header, code};
use crate::wire::{checksum, ipv4};

impl Ip {
    /// Takes the packet of `first` and `self.rest`, which starts at the IPv4 header.
    pub(super) fn receive_icmp(
        &mut self,
        env: &mut IpEnv,
        interface: u32,
        header: &ipv4::Header,
        mut first: Frame,
    ) -> Result<(), Counter> {
        env.counters.count(Counter::IcmpInMsgs);
        first.pull(header.header_len.into());
        let message = Header::parse(first.bytes()).ok_or(Counter::IcmpInErrors)?;
        let true_sum = match first.checksum() {
            Checksum::Complete => self.sum_of_packet(&first) == 0xffff,
            Checksum::Verified => true,
            Checksum::Partial { .. } => false,
        };
        if !true_sum {
            return Err(Counter::IcmpInErrors);
        }
        if message.kind == icmpv4::ECHO_REQUEST {
            env.counters.count(Counter::IcmpInEchos);
            if self.role(interface) == Role::Owned {
                self.answer_echo(header, first, env.counters)?;
            }
        } else if message.kind == icmpv4::REDIRECT {
            self.hears_redirect(env.now, interface, header, first.bytes());
        } else if let Some(error) = quoted_error(&message, &first.bytes()[icmpv4::HEADER_LEN..], header) {
            self.keep_error(error)?;
        }
        Ok(())
    }

    /// RFC 1122 §3.2.2.2: redirects the host to which our quoted packet went, whatever the code.
    fn hears_redirect(&mut self, now: Instant, interface: u32, outer: &ipv4::Header, message: &[u8]) {
        let Some(quoted) = message.get(icmpv4::HEADER_LEN..).and_then(ipv4::Header::parse_unverified) else { return };
        let owned = self.interfaces.get(interface as usize).is_some_and(|state| state.interface.role == Role::Owned);
        let ours = owned && self.local_ipv4.contains(&quoted.source);
        if ours {
            let router = IpAddr::from([message[4], message[5], message[6], message[7]]);
            let from = (interface, outer.source.into());
            self.receive_redirect(now, from, quoted.destination.into(), router);
        }
    }

    /// Turns the received echo request into its reply, in place.
    fn answer_echo(&mut self, header: &ipv4::Header, mut first: Frame, counters: &mut Counters) -> Result<(), Counter> {
        let writable = first.is_exclusive() && first.headroom() >= HEADERS_MAX;
        if !writable || self.reply_flows.len() >= REPLIES_MAX {
            return Err(Counter::DropRateLimited);
        }
        let bytes = first.bytes_mut();
        let old_word = u16::from_be_bytes([bytes[0], bytes[1]]);
        bytes[0] = icmpv4::ECHO_REPLY;
        let new_word = u16::from_be_bytes([bytes[0], bytes[1]]);
        let sum = checksum::update(u16::from_be_bytes([bytes[2], bytes[3]]), old_word, new_word);
        bytes[2..4].copy_from_slice(&sum.to_be_bytes());
        first.set_checksum(Checksum::Complete);
        first.set_segmentation(Segmentation::default());
        counters.count(Counter::IcmpOutEchoReps);
        self.replies.push(first);
        self.rest.drain(..).for_each(|frame| self.replies.push(frame));
        self.reply_flows.push_back(reply_flow(header, header.tos));
        Ok(())
    }

    /// Drops packets whose neighbor does not answer: they cannot be sent (RFC 1122 §2.4).
    pub(super) fn fail(&mut self, mut packets: Burst) {
        while let Some(frame) = packets.pop() {
            let about = ipv4::Header::parse_unverified(frame.bytes()).and_then(|header| {
                quoted_flow(&header, frame.bytes(), IcmpErrorKind::HostUnreachable, &NO_ANSWER, header.source)
            });
            if let Some(error) = about.or_else(|| icmpv6::no_answer(frame.bytes()))
                && self.keep_error(error).is_err()
            {
                self.errors_lost += 1;
            }
            let mut more = frame.continues();
            while more {
                more = packets.pop().is_some_and(|rest| rest.continues());
            }
        }
    }
}

fn reply_flow(header: &ipv4::Header, tos: u8) -> Flow {
    let (local, remote) = (header.destination.into(), header.source.into());
    Flow { local, remote, protocol: ipv4::PROTOCOL_ICMP, tos, ttl: 0, ports: (0, 0) }
}

/// Parses an ICMP error about one of our TCP segments; `outer` is the header of the error itself.
fn quoted_error(message: &Header, quoted: &[u8], outer: &ipv4::Header) -> Option<IcmpError> {
    let kind = error_kind(message)?;
    let inner = ipv4::Header::parse_unverified(quoted)?;
    (inner.source == outer.destination).then(|| quoted_flow(&inner, quoted, kind, message, outer.source))?
}

/// Makes the error `says` about the segment or datagram in `bytes`, which we sent and which starts at its IPv4 header.
fn quoted_flow(header: &ipv4::Header, bytes: &[u8], kind: IcmpErrorKind, says: &Header, offender: Ipv4Addr) -> Option<IcmpError> {
    if header.fragment_offset != 0 {
        return None;
    }
    let said = Said { kind, offender: offender.into(), icmp_type: says.kind, icmp_code: says.code };
    let transport = bytes.get(header.header_len.into()..)?;
    said.about(header.protocol, (header.source.into(), header.destination.into()), transport)
}

/// An ICMP error of either family, without the packet that it is about.
pub(super) struct Said {
    pub(super) kind: IcmpErrorKind,
    pub(super) offender: IpAddr,
    pub(super) icmp_type: u8,
    pub(super) icmp_code: u8,
}

impl Said {
    /// Adds the flow of the packet, which went from the first to the second of `ends` and carries `transport`; `None`: its
    /// protocol has no flows, or the quotation is too short.
    pub(super) fn about(self, protocol: u8, ends: (IpAddr, IpAddr), transport: &[u8]) -> Option<IcmpError> {
        if !matches!(protocol, ipv4::PROTOCOL_TCP | ipv4::PROTOCOL_UDP) {
            return None;
        }
        let [s0, s1, d0, d1, q0, q1, q2, q3] = *transport.first_chunk::<QUOTED_BYTES>()?;
        Some(IcmpError {
            protocol,
            local: ends.0,
            remote: ends.1,
            local_port: u16::from_be_bytes([s0, s1]),
            remote_port: u16::from_be_bytes([d0, d1]),
            sequence: u32::from_be_bytes([q0, q1, q2, q3]),
            kind: self.kind,
            offender: self.offender,
            icmp_type: self.icmp_type,
            icmp_code: self.icmp_code,
        })
    }
}

fn error_kind(message: &Header) -> Option<IcmpErrorKind> {
    match (message.kind, message.code) {
        (icmpv4::TIME_EXCEEDED, _) => Some(IcmpErrorKind::TimeExceeded),
        (icmpv4::PARAMETER_PROBLEM, _) => Some(IcmpErrorKind::ParameterProblem),
        (icmpv4::UNREACHABLE, code) => Some(match code {
            code::PROTOCOL => IcmpErrorKind::ProtocolUnreachable,
            code::PORT => IcmpErrorKind::PortUnreachable,
            code::FRAGMENTATION_NEEDED => IcmpErrorKind::FragmentationNeeded { mtu: message.low },
            code::NETWORK_PROHIBITED | code::HOST_PROHIBITED | code::PROHIBITED => IcmpErrorKind::Prohibited,
            code::NETWORK | code::SOURCE_ROUTE | code::NETWORK_UNKNOWN | code::NETWORK_TOS => IcmpErrorKind::NetworkUnreachable,
            _ => IcmpErrorKind::HostUnreachable,
        }),
        _ => None,
    }
}

/// Replaces the ICMP message when the neighbor does not answer.
const NO_ANSWER: Header = Header { kind: icmpv4::UNREACHABLE, code: code::HOST, low: 0 };
/// Maximum length of link and IP header in front of a reply.
pub(super) const HEADERS_MAX: usize = 64;
/// Bytes of the original packet after its IP header that an error quotes: ports and sequence number.
const QUOTED_BYTES: usize = 8;

#[cfg(test)]
mod tests;
