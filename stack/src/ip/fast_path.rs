//! The receive fast path: one test accepts nearly all packets.
//!
//! Read RFC 791 §3.1 first. A packet of one frame that carries a whole TCP datagram over IPv4 without options, between the
//! same two addresses as the packet before, is delivered at once. Any other is returned unchanged for the slow path
//! (`input`), which would have had the same effect: the promises are those of `input`.

use core::net::Ipv4Addr;

use ringway_shm::{Checksum, Frame};

use super::input::{ECN_COUNTERS, is_intact, ports_of};
use super::{Datagram, Datagrams, Ip, Medium, Pair};
use crate::address::MacAddress;
use crate::stats::{Counter, Counters};
use crate::wire::ethernet::{self, TYPE_IPV4};
use crate::wire::{checksum, ipv4};

/// Length of IP header and TCP header.
const BYTES_MIN: usize = 40;

/// Two validated addresses: a packet between them needs no other check of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pair: Pair,
    interface: u32,
    /// [`Ip::generation`] at that time: our addresses are unchanged.
    generation: u32,
}

impl Ends {
    /// Matches no packet.
    pub(super) const NONE: Ends = Ends { pair: Pair::V4(0), interface: u32::MAX, generation: 0 };

    pub(super) fn new(source: Ipv4Addr, destination: Ipv4Addr, interface: u32, generation: u32) -> Ends {
        Ends { pair: Pair::ipv4(destination, source), interface, generation }
    }
}

impl Ip {
    /// Receives the single-frame packet of `first` if it meets the module's conditions; otherwise returns it.
    #[inline]
    pub(super) fn receive_fast(
        &mut self,
        counters: &mut Counters,
        interface: u32,
        mut first: Frame,
        datagrams: &mut Datagrams,
    ) -> Result<(), Frame> {
        let own = &self.interfaces[interface as usize].interface;
        let bytes = first.bytes();
        let link_len = match own.medium {
            Medium::Ip => 0,
            Medium::Ethernet if own.vlan.is_none() && is_to(own.mac, bytes) => ethernet::HEADER_LEN,
            Medium::Ethernet => return Err(first),
        };
        let packet = &bytes[link_len..];
        let Some(&header) = packet.first_chunk::<{ ipv4::HEADER_LEN }>() else { return Err(first) };
        let read = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let total_len = (read(0) & 0xffff) as usize;
        let (source, destination) = (read(12), read(16));
        let pair = Pair::ipv4(destination.into(), source.into());
        let is_plain = header[0] == ipv4::VERSION_AND_LENGTH
            && read(4) as u16 & (ipv4::MORE_FRAGMENTS | ipv4::OFFSET_MASK) == 0
            && header[9] == ipv4::PROTOCOL_TCP
            && (BYTES_MIN..=packet.len()).contains(&total_len)
            && self.ends == Ends { pair, interface, generation: self.generation }
            && checksum::sum_of_header(&header) == 0xffff;
        if !is_plain {
            return Err(first);
        }
        let len = total_len - ipv4::HEADER_LEN;
        let ports = ports_of(&packet[ipv4::HEADER_LEN..]);
        first.pull(link_len + ipv4::HEADER_LEN);
        first.truncate(len);
        let (tos, ttl, header_len) = (header[1], header[8], ipv4::HEADER_LEN as u16);
        let datagram = Datagram { pair, interface, tos, ttl, len: len as u32, header_len, ports, multicast: false };
        counters.count(Counter::IpInReceives);
        counters.count(ECN_COUNTERS[usize::from(tos & 3)]);
        if first.checksum() == Checksum::Complete && !is_intact(counters, &datagram, || checksum::sum(first.bytes())) {
            counters.count(Counter::TcpInCsumErrors);
            return Ok(());
        }
        counters.count(Counter::IpInDelivers);
        datagrams.headers.push(datagram);
        datagrams.packets.push(first);
        Ok(())
    }
}

/// Returns true when a unicast frame to `own` carries IPv4 without a tag.
#[inline]
fn is_to(own: MacAddress, bytes: &[u8]) -> bool {
    // Compared in place: extracting an address byte by byte costs as much as all the rest.
    let Some(header) = bytes.first_chunk::<{ ethernet::HEADER_LEN }>() else { return false };
    let (destination, source) = (&header[..6], &header[6..12]);
    destination == own.0 && header[12..] == TYPE_IPV4.to_be_bytes() && source[0] & 1 == 0 && !own.is_multicast()
}
