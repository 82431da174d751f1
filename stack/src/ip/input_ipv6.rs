//! Receives IPv6 packets. Read RFC 8200 §3, §4, RFC 4291 §2.5-2.8 first.
//!
//! Makes the same promises about a datagram as `input` for IPv4. Extension headers are skipped (`extension`); fragments have
//! been reassembled (`defragment`).

use ringway_shm::Frame;

use super::defragment::Piece;
use super::extension::{Found, Refused, walk};
use super::icmp_error::ErrorCause;
use super::input::trim;
use super::{Arrival, Datagram, Datagrams, Ip, Pair, is_host};
use crate::env::IpEnv;
use crate::stats::Counter;
use crate::wire::ipv6::{self, Header, PROTOCOL_ICMP, PROTOCOL_TCP, PROTOCOL_UDP};

/// Destination of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Audience {
    Us,
    Many,
}

impl Ip {
    /// Receives the packet of `first`, which starts at the IPv6 header, and of the frames in `self.rest`.
    pub(super) fn receive_ipv6(
        &mut self,
        env: &mut IpEnv,
        (interface, audience_of_link): (u32, Audience),
        mut first: Frame,
        datagrams: &mut Datagrams,
    ) -> Result<(), Counter> {
        env.counters.count(Counter::IpInReceives);
        let header = match first.bytes().first().map(|first| first >> 4) {
            Some(6) => Header::parse(first.bytes()).ok_or(Counter::IpInHdrErrors)?,
            _ => return Err(Counter::DropMalformed),
        };
        let audience = self.audience(interface, &header).ok_or(Counter::IpInAddrErrors)?;
        if audience_of_link == Audience::Many && audience == Audience::Us {
            return Err(Counter::IpInAddrErrors);
        }
        trim(&mut first, &mut self.rest, packet_len(&header)).ok_or(Counter::IpInHdrErrors)?;
        let arrival = Arrival { interface, multicast: audience == Audience::Many };
        self.receive_ipv6_packet(env, arrival, (&header, first), datagrams)
    }

    /// Receives a packet that is for us, or for one of our groups, and has the length of its header.
    pub(super) fn receive_ipv6_packet(
        &mut self,
        env: &mut IpEnv,
        arrival: Arrival,
        packet: (&Header, Frame),
        datagrams: &mut Datagrams,
    ) -> Result<(), Counter> {
        let (header, first) = packet;
        let Arrival { interface, multicast } = arrival;
        let (header, mut first, found) = match self.find_transport(env, interface, header, &first)? {
            Found::Fragment { header: fragment, at, named_at } => {
                let whole = self.reassemble_ipv6(env, arrival, Piece { header, fragment, at, named_at }, first)?;
                let Some((header, first)) = whole else { return Ok(()) };
                let found = self.find_transport(env, interface, &header, &first)?;
                (header, first, found)
            }
            found => (*header, first, found),
        };
        let (protocol, at, named_at) = match found {
            Found::Transport { protocol, at, named_at } => (protocol, at, named_at),
            // A fragment of a fragment is never valid.
            Found::Fragment { .. } => return Err(Counter::IpReasmFails),
            Found::Nothing => return Ok(()),
        };
        let datagram = Datagram {
            pair: Pair::V6(header.destination, header.source),
            interface,
            tos: header.traffic_class,
            ttl: header.hop_limit,
            len: (packet_len(&header) - at) as u32,
            header_len: at as u16,
            ports: 0,
            multicast,
        };
        match protocol {
            PROTOCOL_TCP if !multicast && is_host(header.source.into()) => {
                first.pull(at);
                self.deliver_tcp(env.counters, datagram, first, datagrams)
            }
            PROTOCOL_ICMP => {
                first.pull(at);
                self.receive_icmpv6(env, &header, &datagram, first)
            }
            _ if !is_host(header.source.into()) => Err(Counter::IpInAddrErrors),
            PROTOCOL_TCP => Err(Counter::IpInAddrErrors),
            PROTOCOL_UDP => {
                first.pull(at);
                self.deliver_udp(datagram, first);
                Ok(())
            }
            _ => {
                self.send_icmp_error(env, interface, &first, ErrorCause::Protocol { named_at });
                Err(Counter::IpInUnknownProtos)
            }
        }
    }

    #[inline]
    fn find_transport(&mut self, env: &mut IpEnv, interface: u32, header: &Header, first: &Frame) -> Result<Found, Counter> {
        if matches!(header.next_header, PROTOCOL_TCP | PROTOCOL_UDP | PROTOCOL_ICMP) {
            let (at, named_at) = (ipv6::HEADER_LEN, NEXT_HEADER_AT);
            return Ok(Found::Transport { protocol: header.next_header, at, named_at });
        }
        walk(first.bytes()).map_err(|refused| match refused {
            Refused::Silently(counter) => counter,
            Refused::Problem { code, pointer, even_multicast } => {
                let cause = ErrorCause::Problem { code, pointer, even_multicast };
                self.send_icmp_error(env, interface, first, cause);
                Counter::IpInHdrErrors
            }
        })
    }

    /// RFC 4291 §2.5.2-2.5.3, §2.7: the packet must be from another host, to us or to one of our groups. The source may be
    /// the unspecified address; ICMPv6 checks such packets.
    #[inline]
    fn audience(&self, interface: u32, header: &Header) -> Option<Audience> {
        let (source, destination) = (header.source, header.destination);
        if !(is_host(source.into()) || source.is_unspecified()) || self.local_ipv6.contains(&source) {
            return None;
        }
        if destination.is_multicast() {
            return self.is_member(interface, destination.into()).then_some(Audience::Many);
        }
        let on_its_link = !destination.is_unicast_link_local() || self.interfaces[interface as usize].has(destination.into());
        (self.local_ipv6.contains(&destination) && on_its_link).then_some(Audience::Us)
    }
}

fn packet_len(header: &Header) -> usize {
    ipv6::HEADER_LEN + usize::from(header.payload_len)
}

/// Offset of the next header field in the IPv6 header.
const NEXT_HEADER_AT: usize = 6;

#[cfg(test)]
mod tests;
