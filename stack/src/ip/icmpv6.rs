//! Receives ICMPv6: echo, errors about our segments, dispatch to neighbor discovery. Read RFC 4443, RFC 5927 §4, RFC 8201 §4
//! first.
//!
//! Like `icmp` for IPv4: echo requests are answered when the stack alone owns the address, errors are parsed and queued for
//! their protocol. Other messages are counted and ignored.

use core::net::Ipv6Addr;

use ringway_shm::{Checksum, Frame, Segmentation};

use super::group::QueryBy;
use super::icmp::{HEADERS_MAX, Said};
use super::{Datagram, Flow, IcmpError, IcmpErrorKind, Ip, REPLIES_MAX, Role};
use crate::env::IpEnv;
use crate::stats::{Counter, Counters};
use crate::wire::icmpv6::{self, Header, problem, unreachable};
use crate::wire::{checksum, igmp, ipv6};

impl Ip {
    /// Takes the message of `first`, which starts at the ICMPv6 header, and of the frames in `self.rest`.
    pub(super) fn receive_icmpv6(
        &mut self,
        env: &mut IpEnv,
        outer: &ipv6::Header,
        datagram: &Datagram,
        first: Frame,
    ) -> Result<(), Counter> {
        env.counters.count(Counter::IcmpInMsgs);
        let message = Header::parse(first.bytes()).ok_or(Counter::IcmpInErrors)?;
        let pseudo = checksum::pseudo_header(datagram.remote(), datagram.local(), ipv6::PROTOCOL_ICMP, datagram.len);
        let true_sum = match first.checksum() {
            Checksum::Complete => checksum::add(pseudo, self.sum_of_packet(&first)) == 0xffff,
            Checksum::Verified => true,
            Checksum::Partial { .. } => false,
        };
        if !true_sum {
            return Err(Counter::IcmpInErrors);
        }
        match message.kind {
            icmpv6::ECHO_REQUEST => {
                env.counters.count(Counter::IcmpInEchos);
                if self.role(datagram.interface) == Role::Owned {
                    self.answer_echo_ipv6(datagram, first, env.counters)?;
                }
            }
            // RFC 3810 §5.1.14, §6.2: only from a router of this link.
            icmpv6::MLD_QUERY if outer.hop_limit == 1 && outer.source.is_unicast_link_local() => {
                if let Some(query) = igmp::parse_mld_query(first.bytes()) {
                    self.hears_query(env.now, datagram.interface, query, QueryBy::Mld);
                }
            }
            icmpv6::ROUTER_SOLICITATION..=icmpv6::REDIRECT => {
                self.receive_discovery(env.now, datagram.interface, outer, first.bytes())?;
            }
            _ => {
                let quoted = &first.bytes()[icmpv6::HEADER_LEN..];
                let about = error_kind(&message).zip(ipv6::Header::parse(quoted));
                let error = about.and_then(|(kind, inner)| quoted_flow(&inner, quoted, kind, &message, outer.source));
                if let Some(error) = error.filter(|error| error.local == datagram.local()) {
                    self.keep_error(error)?;
                }
            }
        }
        Ok(())
    }

    /// Turns the received echo request into its reply, in place.
    fn answer_echo_ipv6(&mut self, datagram: &Datagram, mut first: Frame, counters: &mut Counters) -> Result<(), Counter> {
        let writable = first.is_exclusive() && first.headroom() >= HEADERS_MAX;
        if !writable || self.reply_flows.len() >= REPLIES_MAX {
            return Err(Counter::DropRateLimited);
        }
        // RFC 4443 §4.2: a multicast request is answered from an address of this interface.
        let local = match datagram.local().is_multicast() {
            true => {
                let own = &self.interfaces[datagram.interface as usize];
                own.source_towards(datagram.remote(), datagram.remote()).ok_or(Counter::IpInAddrErrors)?
            }
            false => datagram.local(),
        };
        let len = datagram.len;
        let bytes = first.bytes_mut();
        bytes[0] = icmpv6::ECHO_REPLY;
        bytes[2..4].fill(0);
        let pseudo = checksum::pseudo_header(local, datagram.remote(), ipv6::PROTOCOL_ICMP, len);
        let sum = !checksum::add(pseudo, self.sum_of_packet(&first));
        first.bytes_mut()[2..4].copy_from_slice(&sum.to_be_bytes());
        first.set_checksum(Checksum::Complete);
        first.set_segmentation(Segmentation::default());
        counters.count(Counter::IcmpOutEchoReps);
        self.replies.push(first);
        self.rest.drain(..).for_each(|frame| self.replies.push(frame));
        let (remote, protocol, tos) = (datagram.remote(), ipv6::PROTOCOL_ICMP, datagram.tos);
        self.reply_flows.push_back(Flow { local, remote, protocol, tos, ttl: 0, ports: (0, 0) });
        Ok(())
    }
}

/// Makes the error for a packet, from its IPv6 header on, whose neighbor does not answer.
pub(super) fn no_answer(bytes: &[u8]) -> Option<IcmpError> {
    let header = ipv6::Header::parse(bytes)?;
    quoted_flow(&header, bytes, IcmpErrorKind::HostUnreachable, &NO_ANSWER, header.source)
}

/// Makes the error `says` about the segment or datagram in `bytes`, which we sent and which starts at its IPv6 header.
fn quoted_flow(header: &ipv6::Header, bytes: &[u8], kind: IcmpErrorKind, says: &Header, offender: Ipv6Addr) -> Option<IcmpError> {
    let mut protocol = header.next_header;
    let mut at = ipv6::HEADER_LEN;
    if protocol == ipv6::FRAGMENT {
        let fragment = ipv6::Fragment::parse(bytes.get(at..)?).filter(|fragment| fragment.offset == 0)?;
        protocol = fragment.next_header;
        at += ipv6::FRAGMENT_LEN;
    }
    let said = Said { kind, offender: offender.into(), icmp_type: says.kind, icmp_code: says.code };
    said.about(protocol, (header.source.into(), header.destination.into()), bytes.get(at..)?)
}

/// Returns true when a packet, from its IPv6 header on, is an ICMPv6 error, about which no error may be sent.
pub(super) fn is_about_error(packet: &[u8]) -> bool {
    use super::extension::{Found, walk};
    match walk(packet) {
        Ok(Found::Transport { protocol: ipv6::PROTOCOL_ICMP, at, .. }) => {
            packet.get(at..).and_then(Header::parse).is_none_or(|message| message.is_error())
        }
        _ => false,
    }
}

fn error_kind(message: &Header) -> Option<IcmpErrorKind> {
    match (message.kind, message.code) {
        (icmpv6::TIME_EXCEEDED, _) => Some(IcmpErrorKind::TimeExceeded),
        // RFC 8201 §4: no path has less than the minimum MTU, whatever the message claims.
        (icmpv6::PACKET_TOO_BIG, _) => {
            let mtu = message.word.clamp(ipv6::MTU_MIN.into(), u16::MAX.into()) as u16;
            Some(IcmpErrorKind::FragmentationNeeded { mtu })
        }
        // RFC 4443 §3.4: the peer does not know the protocol.
        (icmpv6::PARAMETER_PROBLEM, problem::NEXT_HEADER) => Some(IcmpErrorKind::ProtocolUnreachable),
        (icmpv6::PARAMETER_PROBLEM, _) => Some(IcmpErrorKind::ParameterProblem),
        (icmpv6::UNREACHABLE, code) => Some(match code {
            unreachable::NO_ROUTE | unreachable::BEYOND_SCOPE => IcmpErrorKind::NetworkUnreachable,
            unreachable::PROHIBITED | unreachable::SOURCE_POLICY | unreachable::REJECTED => IcmpErrorKind::Prohibited,
            unreachable::PORT => IcmpErrorKind::PortUnreachable,
            _ => IcmpErrorKind::HostUnreachable,
        }),
        _ => None,
    }
}

/// Replaces the ICMPv6 message when the neighbor does not answer.
const NO_ANSWER: Header = Header { kind: icmpv6::UNREACHABLE, code: unreachable::ADDRESS, word: 0 };

#[cfg(test)]
mod tests;
