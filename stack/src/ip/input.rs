//! Receives packets: those that are for us, complete and valid go on to their protocol. Read RFC 791, RFC 1122 §3.2.1 first.
//!
//! Promises: a TCP datagram that leaves here has a valid IP header, a valid TCP checksum (or one that the device has
//! verified), our address as destination, a possible host as source, and exactly the bytes of its header's length; fragments
//! have been reassembled (`defragment`). Ignores TTL and IPv4 options. `input_ipv6` has what is specific to IPv6.

use alloc::vec::Vec;
use core::net::IpAddr;

use ringway_shm::{Burst, Checksum, Frame, Instant};

use super::control::Control;
use super::fast_path::Ends;
use super::group::QueryBy;
use super::icmp_error::ErrorCause;
use super::input_ipv6::Audience;
use super::{Arrival, Datagram, Datagrams, Ip, Medium, Pair, Role, Route, is_host};
use crate::env::IpEnv;
use crate::link::{arp, ethernet};
use crate::stats::{Counter, Counters};
use crate::wire::igmp::{self, PROTOCOL_IGMP};
use crate::wire::{arp as arp_wire, checksum, ipv4};

/// Result of the link layer.
enum Link {
    /// The packet now starts at the IPv4 header.
    Ipv4 { multicast: bool },
    /// The packet now starts at the IPv6 header.
    Ipv6 { multicast: bool },
    /// The link layer has consumed the packet.
    Done,
}

impl Ip {
    /// Receives all packets of `burst`; appends TCP datagrams to `datagrams`, in order.
    pub(crate) fn receive(&mut self, env: &mut IpEnv, interface: u32, burst: &mut Burst, datagrams: &mut Datagrams) {
        while let Some(first) = burst.pop() {
            let mut more = first.continues();
            let first = match more {
                true => first,
                false => match self.receive_fast(env.counters, interface, first, datagrams) {
                    Ok(()) => continue,
                    Err(first) => first,
                },
            };
            while more && let Some(frame) = burst.pop() {
                more = frame.continues();
                self.rest.push(frame);
            }
            if let Err(reason) = self.receive_packet(env, interface, first, datagrams) {
                env.counters.count(reason);
            }
            self.rest.clear();
        }
        self.run_tasks();
    }

    /// Receives the packet of `first` and the frames in `self.rest`.
    fn receive_packet(
        &mut self,
        env: &mut IpEnv,
        interface: u32,
        mut first: Frame,
        datagrams: &mut Datagrams,
    ) -> Result<(), Counter> {
        let multicast = match self.receive_link(env.now, interface, &mut first)? {
            Link::Ipv4 { multicast } => multicast,
            Link::Ipv6 { multicast } => {
                let audience = if multicast { Audience::Many } else { Audience::Us };
                let result = self.receive_ipv6(env, (interface, audience), first, datagrams);
                if result.is_ok() {
                    env.counters.count(Counter::IpInDelivers);
                }
                return result;
            }
            Link::Done => return Ok(()),
        };
        env.counters.count(Counter::IpInReceives);
        let header = check_header(first.bytes())?;
        env.counters.count(ECN_COUNTERS[usize::from(header.tos & 3)]);
        let multicast = self.check_addresses(interface, &header, multicast)?;
        trim(&mut first, &mut self.rest, header.total_len.into()).ok_or(Counter::IpInHdrErrors)?;
        let (header, mut first) = match header.is_fragment() {
            false => (header, first),
            true => match self.reassemble_ipv4(env, Arrival { interface, multicast }, &header, first)? {
                Some(whole) => whole,
                None => return Ok(()),
            },
        };
        let result = match header.protocol {
            ipv4::PROTOCOL_TCP => {
                first.pull(header.header_len.into());
                let pair = Pair::ipv4(header.destination, header.source);
                let len = u32::from(header.total_len) - u32::from(header.header_len);
                let (tos, ttl, header_len) = (header.tos, header.ttl, header.header_len.into());
                let datagram = Datagram { pair, interface, tos, ttl, len, header_len, ports: 0, multicast: false };
                self.deliver_tcp(env.counters, datagram, first, datagrams)
            }
            ipv4::PROTOCOL_ICMP => self.receive_icmp(env, interface, &header, first),
            PROTOCOL_IGMP => self.receive_igmp(env.now, interface, &header, first),
            ipv4::PROTOCOL_UDP => {
                first.pull(header.header_len.into());
                let pair = Pair::ipv4(header.destination, header.source);
                let len = u32::from(header.total_len) - u32::from(header.header_len);
                let (tos, ttl, header_len) = (header.tos, header.ttl, header.header_len.into());
                let datagram = Datagram { pair, interface, tos, ttl, len, header_len, ports: 0, multicast };
                self.deliver_udp(datagram, first);
                Ok(())
            }
            _ => {
                self.send_icmp_error(env, interface, &first, ErrorCause::Protocol { named_at: ipv4::PROTOCOL_AT });
                Err(Counter::IpInUnknownProtos)
            }
        };
        if result.is_ok() {
            env.counters.count(Counter::IpInDelivers);
        }
        result
    }

    /// Handles queries; the other messages are for routers.
    fn receive_igmp(&mut self, now: Instant, interface: u32, header: &ipv4::Header, first: Frame) -> Result<(), Counter> {
        let message = first.bytes().get(header.header_len.into()..).ok_or(Counter::DropMalformed)?;
        if !self.rest.is_empty() || checksum::sum(message) != 0xffff {
            return Err(Counter::DropMalformed);
        }
        if let Some(query) = igmp::parse_query(message) {
            self.hears_query(now, interface, query, QueryBy::Igmp);
        }
        Ok(())
    }

    #[inline]
    fn receive_link(&mut self, now: Instant, interface: u32, first: &mut Frame) -> Result<Link, Counter> {
        let own = &self.interfaces[interface as usize].interface;
        match own.medium {
            Medium::Ip if first.bytes().first().is_some_and(|first| first >> 4 == 6) => Ok(Link::Ipv6 { multicast: false }),
            Medium::Ip => Ok(Link::Ipv4 { multicast: false }),
            Medium::Ethernet => match ethernet::receive(own.mac, own.vlan, first).ok_or(Counter::DropMalformed)? {
                ethernet::Carries::Ipv4 => Ok(Link::Ipv4 { multicast: false }),
                ethernet::Carries::Ipv4Multicast => Ok(Link::Ipv4 { multicast: true }),
                ethernet::Carries::Ipv6 => Ok(Link::Ipv6 { multicast: false }),
                ethernet::Carries::Ipv6Multicast => Ok(Link::Ipv6 { multicast: true }),
                ethernet::Carries::Arp => {
                    let packet = arp_wire::Packet::parse(first.bytes()).ok_or(Counter::DropMalformed)?;
                    self.receive_arp(now, interface, &packet)?;
                    Ok(Link::Done)
                }
            },
        }
    }

    fn receive_arp(&mut self, now: Instant, interface: u32, packet: &arp_wire::Packet) -> Result<(), Counter> {
        let state = &self.interfaces[interface as usize];
        if state.interface.role == Role::Shared {
            return Ok(());
        }
        self.hears_claim(now, interface, packet);
        let state = &self.interfaces[interface as usize];
        let owns = |ip| state.addresses.iter().any(|cidr| cidr.ip == ip);
        let Some(heard) = arp::receive(state.interface.mac, owns, packet) else { return Ok(()) };
        let answered = heard.reply.map_or(Ok(()), |packet| self.answer(interface, packet.target_mac, Control::Arp(packet)));
        if let Some((ip, mac)) = heard.sender {
            // Only addresses that can be on this link: ARP authenticates no sender.
            let on_link = self.is_on_link(interface, ip);
            self.neighbors.heard(now, (interface, ip), mac, heard.for_us && on_link);
        }
        answered
    }

    /// Returns true when an address can be that of a neighbor on this link.
    pub(super) fn is_on_link(&self, interface: u32, ip: IpAddr) -> bool {
        let link_local = matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
        let routed = |route: &Route| route.interface == interface && route.gateway.is_none_or(|gateway| gateway == ip);
        link_local || self.routes.lookup(ip).is_some_and(routed)
    }

    /// RFC 1122 §3.2.1.3: checks that the packet is from a host and to us; only UDP and IGMP may be multicast. Returns true
    /// for multicast.
    fn check_addresses(&mut self, interface: u32, header: &ipv4::Header, multicast: bool) -> Result<bool, Counter> {
        let (source, destination) = (header.source, header.destination);
        let good_source = is_host(source.into())
            && !self.local_ipv4.contains(&source)
            && !self.interfaces[interface as usize].broadcasts.contains(&source);
        if good_source && !multicast && self.local_ipv4.contains(&destination) {
            self.ends = Ends::new(source, destination, interface, self.generation);
            #[cfg(test)]
            if self.long_way_only {
                self.ends = Ends::NONE;
            }
            return Ok(false);
        }
        let names_many = || match destination.is_multicast() {
            true => self.is_member(interface, destination.into()),
            false => destination.is_broadcast() || self.interfaces[interface as usize].broadcasts.contains(&destination),
        };
        if good_source && matches!(header.protocol, ipv4::PROTOCOL_UDP | PROTOCOL_IGMP) && names_many() {
            return Ok(true);
        }
        Err(Counter::IpInAddrErrors)
    }

    /// Delivers the datagram of `first`, which starts at the UDP header, and of the frames in `self.rest`. UDP verifies
    /// checksums itself: a datagram may have none.
    pub(super) fn deliver_udp(&mut self, datagram: Datagram, first: Frame) {
        self.udp.headers.push(datagram);
        self.udp.packets.push(first);
        self.rest.drain(..).for_each(|frame| self.udp.packets.push(frame));
    }

    /// Delivers the segment of `first`, which starts at the TCP header, and of the frames in `self.rest`.
    #[inline]
    pub(super) fn deliver_tcp(
        &mut self,
        counters: &mut Counters,
        datagram: Datagram,
        first: Frame,
        datagrams: &mut Datagrams,
    ) -> Result<(), Counter> {
        let datagram = Datagram { ports: ports_of(first.bytes()), ..datagram };
        if first.checksum() == Checksum::Complete && !is_intact(counters, &datagram, || self.sum_of_packet(&first)) {
            return Err(Counter::TcpInCsumErrors);
        }
        datagrams.headers.push(datagram);
        datagrams.packets.push(first);
        self.rest.drain(..).for_each(|frame| datagrams.packets.push(frame));
        Ok(())
    }

    /// Returns the one's-complement sum of the current packet.
    pub(super) fn sum_of_packet(&self, first: &Frame) -> u16 {
        let mut total = checksum::sum(first.bytes());
        let mut offset = first.len();
        for frame in &self.rest {
            total = checksum::add_at(total, offset, frame.payload().sum());
            offset += frame.len();
        }
        total
    }
}

/// Returns true when the checksum of a segment is right, which the device has not verified. `sum` is the one's-complement sum
/// of the packet.
#[inline]
pub(super) fn is_intact(counters: &mut Counters, datagram: &Datagram, sum: impl FnOnce() -> u16) -> bool {
    let pseudo = checksum::pseudo_header(datagram.remote(), datagram.local(), ipv4::PROTOCOL_TCP, datagram.len);
    let is_intact = checksum::add(pseudo, sum()) == 0xffff;
    if !is_intact {
        counters.count(Counter::TcpInSegs);
        counters.count(Counter::TcpInErrs);
    }
    is_intact
}

/// Returns both ports of a segment as one word; 0 when it is too short to have them.
#[inline]
pub(super) fn ports_of(segment: &[u8]) -> u32 {
    segment.first_chunk().map_or(0, |ports| u32::from_be_bytes(*ports))
}

/// Counters by ECN field.
pub(super) const ECN_COUNTERS: [Counter; 4] =
    [Counter::IpInNoEctPkts, Counter::IpInEct1Pkts, Counter::IpInEct0Pkts, Counter::IpInCePkts];

#[inline]
fn check_header(bytes: &[u8]) -> Result<ipv4::Header, Counter> {
    match bytes.first().map(|first| first >> 4) {
        Some(4) => ipv4::Header::parse(bytes).ok_or(Counter::IpInHdrErrors),
        _ => Err(Counter::DropMalformed),
    }
}

/// Cuts a packet to `len` bytes: the rest is the link's padding. `None`: the packet is shorter.
#[inline]
pub(crate) fn trim(first: &mut Frame, rest: &mut Vec<Frame>, len: usize) -> Option<()> {
    if len <= first.len() {
        first.truncate(len);
        first.set_continues(false);
        rest.clear();
        return Some(());
    }
    let mut left = len - first.len();
    let last = rest.iter().position(|frame| {
        let is_last = left <= frame.len();
        left -= if is_last { 0 } else { frame.len() };
        is_last
    })?;
    rest.truncate(last + 1);
    rest[last].truncate(left);
    rest[last].set_continues(false);
    Some(())
}

#[cfg(test)]
mod tests;
