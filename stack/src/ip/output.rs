//! Packets out: header templates for flows, and the slow path that adds headers one by one.
//! Read RFC 791, RFC 6864, RFC 894 first.

use core::net::IpAddr;

use ringway_shm::{Arena, Burst, Class, Frame, Instant};

use super::{Ip, Medium, Path};
use crate::address::MacAddress;
use crate::link::ethernet;
use crate::link::neighbor::{Key, move_packet};
use crate::stats::{Counter, Counters};
use crate::wire::ethernet::{HEADER_LEN as ETHERNET_LEN, TYPE_ARP, TYPE_IPV4};
use crate::wire::{arp, checksum, ipv4};

/// What the headers of a flow's packets say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    pub(crate) local: IpAddr,
    pub(crate) remote: IpAddr,
    pub(crate) protocol: u8,
    /// DSCP and ECN bits.
    pub(crate) tos: u8,
    /// 0: the default, 64.
    pub(crate) ttl: u8,
}

/// Why there is no template now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputError {
    /// The neighbor is being asked; `Ip::send` would hold the packet. The generation changes when
    /// the answer comes.
    Unresolved,
    /// No route leads there, or the local address is gone.
    NoRoute,
}

/// Link and IP header of a flow, ready but for length and checksum: one cache line.
/// Stale when its `generation` is not `Ip::generation()`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Template {
    /// Link header, then IP header. `len` bytes are used.
    pub(crate) bytes: [u8; 54],
    pub(crate) len: u8,
    pub(crate) interface: u8,
    /// One's-complement sum of the IP header with length and checksum zero.
    header_sum: u16,
    /// One's-complement sum of the pseudo-header with length zero (RFC 9293 §3.1), not complemented.
    pub(crate) pseudo_sum: u16,
    pub(crate) generation: u32,
}

const _: () = assert!(size_of::<Template>() == 64);

impl Template {
    /// A stale template that only names the two ends, until `Ip::template` gives a real one.
    pub(crate) fn stale(local: IpAddr, remote: IpAddr, generation: u32) -> Template {
        let mut bytes = [0; 54];
        let len = match (local, remote) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                bytes[0] = 4 << 4;
                bytes[12..16].copy_from_slice(&local.octets());
                bytes[16..20].copy_from_slice(&remote.octets());
                20
            }
            (local, remote) => {
                bytes[0] = 6 << 4;
                bytes[8..24].copy_from_slice(&wide(local));
                bytes[24..40].copy_from_slice(&wide(remote));
                40
            }
        };
        Template { bytes, len, interface: 0, header_sum: 0, pseudo_sum: 0, generation: generation.wrapping_sub(1) }
    }

    /// The two ends, local first.
    #[inline]
    pub(crate) fn addresses(&self) -> (IpAddr, IpAddr) {
        let len = self.len as usize;
        // The addresses end the IP header; an IPv6 header alone has 40 bytes, Ethernet and IPv4 have 34.
        if len < 40 {
            let end: &[u8; 8] = self.bytes[len - 8..len].first_chunk().expect("eight bytes");
            let [a, b, c, d, e, f, g, h] = *end;
            return (IpAddr::from([a, b, c, d]), IpAddr::from([e, f, g, h]));
        }
        let (mut local, mut remote) = ([0; 16], [0; 16]);
        local.copy_from_slice(&self.bytes[len - 32..len - 16]);
        remote.copy_from_slice(&self.bytes[len - 16..len]);
        (IpAddr::from(local), IpAddr::from(remote))
    }

    /// Puts link and IP header in front of a transport header: `transport_len` bytes of transport
    /// header and payload follow, in this frame and the next ones of the packet.
    ///
    /// # Panics
    /// When the frame's slot is shared or its headroom is less than `len`.
    #[inline]
    pub(crate) fn push_headers(&self, frame: &mut Frame, transport_len: usize) {
        let len = self.len as usize;
        let headers = frame.push(len);
        headers.copy_from_slice(&self.bytes[..len]);
        let total = (transport_len + ipv4::HEADER_LEN) as u16;
        let sum = !checksum::add(self.header_sum, total);
        let network = &mut headers[len - ipv4::HEADER_LEN..];
        network[2..4].copy_from_slice(&total.to_be_bytes());
        network[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}

impl Ip {
    /// The header template of a flow; asks for the neighbor when it is not known.
    pub(crate) fn template(&mut self, now: Instant, flow: &Flow) -> Result<Template, OutputError> {
        let path = self.route(flow.remote, Some(flow.local)).ok_or(OutputError::NoRoute)?;
        let resolved = self.resolve_next_hop(now, &path).ok_or(OutputError::Unresolved);
        self.run_tasks();
        let destination = resolved?;
        let header = network_header(flow, 0).ok_or(OutputError::NoRoute)?;
        let mut bytes = [0; 54];
        let own = &self.interfaces[path.interface as usize].interface;
        let link_len = match own.medium {
            Medium::Ip => 0,
            Medium::Ethernet => ETHERNET_LEN,
        };
        if own.medium == Medium::Ethernet {
            crate::wire::ethernet::Header { destination, source: own.mac, ether_type: TYPE_IPV4 }
                .write(&mut bytes[..ETHERNET_LEN]);
        }
        let len = link_len + ipv4::HEADER_LEN;
        header.write(&mut bytes[link_len..len]);
        bytes[len - 10..len - 8].fill(0);
        Ok(Template {
            header_sum: checksum::sum(&bytes[link_len..len]),
            pseudo_sum: checksum::pseudo_header(flow.local, flow.remote, flow.protocol, 0),
            bytes,
            len: len as u8,
            interface: path.interface as u8,
            generation: self.generation,
        })
    }

    /// Segments of a flow are not answered again and again: has the neighbor confirmed (RFC 1122 §2.3.2.1).
    pub(crate) fn suspect(&mut self, now: Instant, local: IpAddr, remote: IpAddr) {
        if let Some(path) = self.route(remote, Some(local)) {
            self.neighbors.suspect(now, (path.interface, path.next_hop));
            self.run_tasks();
        }
    }

    /// Sends the first packet of `packets`, which starts at the transport header (checksum done or
    /// `Partial`) and whose first frame is nobody else's and has 34 bytes of headroom or more: adds
    /// headers, or holds it while the neighbor is being resolved. Without a route it is dropped.
    pub(crate) fn send(&mut self, now: Instant, counters: &mut Counters, flow: &Flow, packets: &mut Burst, out: &mut [Burst]) {
        let len = packets.front_len();
        let routed = self.route(flow.remote, Some(flow.local)).zip(network_header(flow, len));
        let Some((path, header)) = routed else {
            packets.drop_packet();
            counters.count(Counter::IpOutNoRoutes);
            return;
        };
        let Some(mut first) = packets.pop() else { return };
        header.write(first.push(ipv4::HEADER_LEN));
        self.place(now, &path, first, packets, out);
    }

    /// Sends the packet of `first`, which starts at the IP header, and of the frames that it continues
    /// with at the front of `rest`; holds it while the neighbor is being resolved.
    pub(super) fn place(&mut self, now: Instant, path: &Path, mut first: Frame, rest: &mut Burst, out: &mut [Burst]) {
        let mut more = first.continues();
        let resolved = self.resolve_next_hop(now, path);
        if let Some(destination) = resolved {
            self.push_link_header(path.interface, destination, &mut first);
        }
        self.outgoing.push(first);
        while more && let Some(frame) = rest.pop() {
            more = frame.continues();
            self.outgoing.push(frame);
        }
        match resolved {
            Some(_) => move_packet(&mut self.outgoing, &mut out[path.interface as usize]),
            None => self.neighbors.hold((path.interface, path.next_hop), &mut self.outgoing),
        }
        self.run_tasks();
    }

    /// Writes what waits: ARP, ICMP, and packets whose neighbor has answered. Returns how many of
    /// the packets were ARP.
    pub(crate) fn transmit(&mut self, now: Instant, arena: &Arena, counters: &mut Counters, out: &mut [Burst]) -> usize {
        let arp_packets = self.write_arp(arena, counters, out);
        let mut replies = core::mem::take(&mut self.replies);
        while let Some(flow) = self.reply_flows.pop_front() {
            counters.count(Counter::IcmpOutMsgs);
            self.send(now, counters, &flow, &mut replies, out);
        }
        self.replies = replies;
        for (waiting, out) in self.outbox.iter_mut().zip(out) {
            out.append(waiting);
        }
        self.count_dropped(counters);
        arp_packets
    }

    fn write_arp(&mut self, arena: &Arena, counters: &mut Counters, out: &mut [Burst]) -> usize {
        let mut written = 0;
        while let Some(waiting) = self.arp.pop_front() {
            let Some(mut frame) = arena.alloc(Class::Small) else {
                counters.count(Counter::DropNoFrame);
                continue;
            };
            waiting.packet.write(frame.extend(arp::LEN));
            let source = self.interfaces[waiting.interface as usize].interface.mac;
            ethernet::push_header(&mut frame, source, waiting.destination, TYPE_ARP);
            out[waiting.interface as usize].push(frame);
            written += 1;
        }
        written
    }

    /// Packets that waited for a neighbor, now that it has answered.
    pub(super) fn release(&mut self, (interface, _): Key, mac: MacAddress, mut packets: Burst) {
        let mut starts = true;
        while let Some(mut frame) = packets.pop() {
            if starts {
                self.push_link_header(interface, mac, &mut frame);
            }
            starts = !frame.continues();
            self.outbox[interface as usize].push(frame);
        }
    }

    /// The link address of the next hop; that of nobody on links without any.
    fn resolve_next_hop(&mut self, now: Instant, path: &Path) -> Option<MacAddress> {
        match self.interfaces[path.interface as usize].interface.medium {
            Medium::Ip => Some(MacAddress::default()),
            Medium::Ethernet => self.neighbors.lookup(now, (path.interface, path.next_hop)),
        }
    }

    fn push_link_header(&self, interface: u32, destination: MacAddress, frame: &mut Frame) {
        let own = &self.interfaces[interface as usize].interface;
        if own.medium == Medium::Ethernet {
            ethernet::push_header(frame, own.mac, destination, TYPE_IPV4);
        }
    }
}

/// The IP header of a packet of `transport_len` bytes; `None`: too long, or a family that is not served.
fn network_header(flow: &Flow, transport_len: usize) -> Option<ipv4::Header> {
    let (IpAddr::V4(local), IpAddr::V4(remote)) = (flow.local, flow.remote) else { return None };
    let total_len = u16::try_from(transport_len + ipv4::HEADER_LEN).ok()?;
    let ttl = if flow.ttl == 0 { DEFAULT_TTL } else { flow.ttl };
    // A template's length is filled in later, so its header is one without length.
    let total_len = if transport_len == 0 { 0 } else { total_len };
    Some(ipv4::Header::atomic(local, remote, flow.protocol, flow.tos, ttl, total_len))
}

/// RFC 1122 §3.2.1.7, Linux.
pub(super) const DEFAULT_TTL: u8 = 64;

fn wide(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}

#[cfg(test)]
mod tests;
