//! Packets in: what is for us, whole and true goes on to its protocol. Read RFC 791, RFC 1122 §3.2.1 first.
//!
//! Promises: a TCP datagram that leaves here has a good IP header, a good TCP checksum (or a device
//! that vouches for it), our address as destination, a possible host as source, and exactly the
//! bytes that its header says. It does not reassemble fragments; it does not look at TTL or options.

use core::net::IpAddr;

use ringway_shm::{Arena, Burst, Checksum, Frame, Instant};

use super::{ARP_MAX, ArpOut, Datagram, Datagrams, Ip, Medium, Role, is_host};
use crate::link::{arp, ethernet};
use crate::stats::{Counter, Counters};
use crate::wire::{arp as arp_wire, checksum, icmpv4, ipv4};

/// What the link layer found.
enum Link {
    /// The packet starts at the IPv4 header now.
    Ipv4 { to_many: bool },
    /// It was for the link layer itself.
    Done,
}

impl Ip {
    /// Takes all packets of `burst`; TCP datagrams go to `datagrams`, in order.
    pub(crate) fn receive(
        &mut self,
        now: Instant,
        arena: &Arena,
        counters: &mut Counters,
        interface: u32,
        burst: &mut Burst,
        datagrams: &mut Datagrams,
    ) {
        while take_packet(burst, &mut self.packet) {
            if let Err(reason) = self.receive_packet(now, arena, counters, interface, datagrams) {
                counters.count(reason);
            }
            self.packet.clear();
        }
        self.run_tasks();
    }

    fn receive_packet(
        &mut self,
        now: Instant,
        arena: &Arena,
        counters: &mut Counters,
        interface: u32,
        datagrams: &mut Datagrams,
    ) -> Result<(), Counter> {
        let to_many = match self.receive_link(now, interface)? {
            Link::Ipv4 { to_many } => to_many,
            Link::Done => return Ok(()),
        };
        counters.count(Counter::IpInReceives);
        let header = self.check_header()?;
        self.check_addresses(interface, &header, to_many)?;
        if header.is_fragment() {
            return Err(Counter::DropFragment);
        }
        trim(&mut self.packet, header.total_len.into()).ok_or(Counter::IpInHdrErrors)?;
        let result = match header.protocol {
            ipv4::PROTOCOL_TCP => self.deliver_tcp(counters, interface, &header, datagrams),
            ipv4::PROTOCOL_ICMP => self.receive_icmp(counters, interface, &header),
            ipv4::PROTOCOL_UDP => {
                self.refuse(now, arena, counters, interface, &header, icmpv4::code::PORT);
                Err(Counter::DropNoSocket)
            }
            _ => {
                self.refuse(now, arena, counters, interface, &header, icmpv4::code::PROTOCOL);
                Err(Counter::IpInUnknownProtos)
            }
        };
        if result.is_ok() {
            counters.count(Counter::IpInDelivers);
        }
        result
    }

    fn receive_link(&mut self, now: Instant, interface: u32) -> Result<Link, Counter> {
        let own = &self.interfaces[interface as usize].interface;
        let first = &mut self.packet[0];
        match own.medium {
            Medium::Ip => Ok(Link::Ipv4 { to_many: false }),
            Medium::Ethernet => match ethernet::receive(own.mac, first).ok_or(Counter::DropMalformed)? {
                ethernet::Carries::Ipv4 => Ok(Link::Ipv4 { to_many: false }),
                ethernet::Carries::Ipv4ToMany => Ok(Link::Ipv4 { to_many: true }),
                ethernet::Carries::Arp => {
                    let packet = arp_wire::Packet::parse(first.bytes()).ok_or(Counter::DropMalformed)?;
                    self.receive_arp(now, interface, &packet);
                    Ok(Link::Done)
                }
            },
        }
    }

    fn receive_arp(&mut self, now: Instant, interface: u32, packet: &arp_wire::Packet) {
        let state = &self.interfaces[interface as usize];
        if state.interface.role == Role::Shared {
            return;
        }
        let owns = |ip| state.addresses.iter().any(|cidr| cidr.ip == ip);
        let Some(heard) = arp::receive(state.interface.mac, owns, packet) else { return };
        if let Some(packet) = heard.reply.filter(|_| self.arp.len() < ARP_MAX) {
            self.arp.push_back(ArpOut { interface, destination: packet.target_mac, packet });
        }
        if let Some((ip, mac)) = heard.sender {
            // Only who can be on this link: anybody may say anything in ARP.
            let on_link = self
                .routes
                .lookup(ip)
                .is_some_and(|route| route.interface == interface && route.gateway.is_none_or(|gateway| gateway == ip));
            self.neighbors.heard(now, (interface, ip), mac, heard.for_us && on_link);
        }
    }

    fn check_header(&self) -> Result<ipv4::Header, Counter> {
        let bytes = self.packet[0].bytes();
        match bytes.first().map(|first| first >> 4) {
            Some(4) => ipv4::Header::parse(bytes).ok_or(Counter::IpInHdrErrors),
            _ => Err(Counter::DropMalformed),
        }
    }

    /// RFC 1122 §3.2.1.3: from a host, to us, and not to many.
    fn check_addresses(&self, interface: u32, header: &ipv4::Header, to_many: bool) -> Result<(), Counter> {
        let (source, destination) = (IpAddr::V4(header.source), IpAddr::V4(header.destination));
        let is_broadcast = |ip| self.interfaces[interface as usize].addresses.iter().any(|cidr| cidr.broadcast() == Some(ip));
        let good = !to_many && self.owns(destination) && is_host(source) && !self.owns(source) && !is_broadcast(source);
        good.then_some(()).ok_or(Counter::IpInAddrErrors)
    }

    fn deliver_tcp(
        &mut self,
        counters: &mut Counters,
        interface: u32,
        header: &ipv4::Header,
        datagrams: &mut Datagrams,
    ) -> Result<(), Counter> {
        let header_len = usize::from(header.header_len);
        let len = u32::from(header.total_len) - header_len as u32;
        self.packet[0].pull(header_len);
        let (local, remote) = (IpAddr::V4(header.destination), IpAddr::V4(header.source));
        if self.packet[0].checksum() == Checksum::Complete {
            let pseudo = checksum::pseudo_header(remote, local, ipv4::PROTOCOL_TCP, len);
            if checksum::add(pseudo, checksum::sum_of_parts(self.packet.iter().map(Frame::bytes))) != 0xffff {
                counters.count(Counter::TcpInSegs);
                counters.count(Counter::TcpInErrs);
                return Err(Counter::TcpInCsumErrors);
            }
        }
        datagrams.headers.push(Datagram { local, remote, interface, tos: header.tos, ttl: header.ttl, len });
        self.packet.drain(..).for_each(|frame| datagrams.packets.push(frame));
        Ok(())
    }
}

/// Moves the first packet of `burst` into `packet`.
fn take_packet(burst: &mut Burst, packet: &mut alloc::vec::Vec<Frame>) -> bool {
    while let Some(frame) = burst.pop() {
        let last = !frame.continues();
        packet.push(frame);
        if last {
            break;
        }
    }
    !packet.is_empty()
}

/// Cuts a packet to `len` bytes: what follows is the link's padding. `None`: there are fewer.
fn trim(packet: &mut alloc::vec::Vec<Frame>, len: usize) -> Option<()> {
    let mut left = len;
    for at in 0..packet.len() {
        let frame = &mut packet[at];
        if left <= frame.len() {
            frame.truncate(left);
            frame.set_continues(false);
            packet.truncate(at + 1);
            return Some(());
        }
        left -= frame.len();
    }
    None
}

#[cfg(test)]
mod tests;
