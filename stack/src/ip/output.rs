//! Sends packets: header templates for flows, and the slow path that adds headers one by one. Read RFC 791, RFC 6864, RFC
//! 894, RFC 8200 §3, RFC 6437, RFC 2464 first.

use core::net::IpAddr;

use ringway_shm::arena::LARGE_BYTES;
use ringway_shm::{Burst, Frame, Instant};

use super::loopback::LOOPBACK;
use super::{Ip, LinkInfo, Medium, Pair, Path, network_header_len};
use crate::address::MacAddress;
use crate::env::IpEnv;
use crate::link::ethernet;
use crate::link::neighbor::{Key, move_packet};
use crate::stats::Counter;
use crate::tcp::demux::FlowKey;
use crate::wire::ethernet::{HEADER_LEN as ETHERNET_LEN, TAG_LEN, TYPE_AT, TYPE_IPV4, TYPE_IPV6, TYPE_VLAN};
use crate::wire::tcp::HEADER_BYTES_MAX;
use crate::wire::{checksum, ipv4, ipv6};

/// Header fields of a flow's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    pub(crate) local: IpAddr,
    pub(crate) remote: IpAddr,
    pub(crate) protocol: u8,
    /// DSCP and ECN bits.
    pub(crate) tos: u8,
    /// 0: the default, 64.
    pub(crate) ttl: u8,
    /// Local and remote port, 0 where there are none: the flow label depends on them.
    pub(crate) ports: (u16, u16),
}

/// Reason why there is no template now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputError {
    /// The neighbor is being resolved; `Ip::send` would hold the packet. The generation changes when the answer arrives.
    /// Also for packets to ourselves, which have no link header.
    Unresolved,
    /// No route to the destination, or the local address is gone.
    NoRoute,
}

/// Link and IP header of a flow, complete except for length and checksum: one cache line. Stale when its `generation` is not
/// `Ip::generation()`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Template {
    /// Link header, then IP header. [`len`](Template::len) bytes are used.
    pub(crate) bytes: [u8; 54],
    /// Low six bits: number of bytes used; then [`LINK_SUMS`] and [`LINK_SEGMENTS`].
    shape: u8,
    pub(crate) interface: u8,
    /// One's-complement sum of the IPv4 header with length and checksum zero. IPv6 has no such sum: there it is the VLAN's
    /// number, 0 without one, since the tag does not fit into `bytes`.
    header_sum: u16,
    /// One's-complement sum of the pseudo-header with length zero (RFC 9293 §3.1), not complemented.
    pub(crate) pseudo_sum: u16,
    pub(crate) generation: u32,
}

const _: () = assert!(size_of::<Template>() == 64);

/// Mask of the number of bytes used.
const LEN: u8 = 0x3f;
/// The link computes checksums.
const LINK_SUMS: u8 = 0x40;
/// The link takes packets of several segments.
const LINK_SEGMENTS: u8 = 0x80;

impl Template {
    /// Makes a stale template that only names the two ends, until `Ip::template` makes a valid one.
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
        Template { bytes, shape: len, interface: 0, header_sum: 0, pseudo_sum: 0, generation: generation.wrapping_sub(1) }
    }

    /// Returns the length of the headers, bytes.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        usize::from(self.shape & LEN)
    }

    /// Returns true when the link computes checksums; valid unless the template is stale.
    #[inline]
    pub(crate) fn link_sums(&self) -> bool {
        self.shape & LINK_SUMS != 0
    }

    /// Returns true when the link takes packets of several segments; valid unless the template is stale.
    #[inline]
    pub(crate) fn link_segments(&self) -> bool {
        self.shape & LINK_SEGMENTS != 0
    }

    /// Returns the two ends, local first.
    #[inline]
    pub(crate) fn addresses(&self) -> (IpAddr, IpAddr) {
        let len = self.len();
        // The IP header ends with the addresses.
        if !self.is_ipv6() {
            let end: &[u8; 8] = self.bytes[len - 8..len].first_chunk().expect("eight bytes");
            let [a, b, c, d, e, f, g, h] = *end;
            return (IpAddr::from([a, b, c, d]), IpAddr::from([e, f, g, h]));
        }
        let (mut local, mut remote) = ([0; 16], [0; 16]);
        local.copy_from_slice(&self.bytes[len - 32..len - 16]);
        remote.copy_from_slice(&self.bytes[len - 16..len]);
        (IpAddr::from(local), IpAddr::from(remote))
    }

    /// Returns true when these are the two ends.
    #[inline]
    pub(crate) fn is_between(&self, local: IpAddr, remote: IpAddr) -> bool {
        match (local, remote) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => self.is_of(&Pair::ipv4(local, remote)),
            ends => self.addresses() == ends,
        }
    }

    /// Returns true when these are the two ends.
    #[inline]
    pub(crate) fn is_of(&self, pair: &Pair) -> bool {
        match *pair {
            Pair::V4(pair) => self.is_between_ipv4(pair),
            Pair::V6(local, remote) => self.addresses() == (IpAddr::V6(local), IpAddr::V6(remote)),
        }
    }

    #[inline]
    fn is_between_ipv4(&self, ends: u64) -> bool {
        const UNTAGGED: usize = ETHERNET_LEN + ipv4::HEADER_LEN;
        let end = match self.len() {
            // The common length, with constant offsets.
            UNTAGGED => &self.bytes[UNTAGGED - 8..UNTAGGED],
            len if len < ipv6::HEADER_LEN => &self.bytes[len - 8..len],
            _ => return false,
        };
        end == ends.to_be_bytes()
    }

    /// Inserts a VLAN tag between the link addresses and the type.
    fn push_tag(&self, frame: &mut Frame) {
        frame.push(TAG_LEN);
        let headers = frame.bytes_mut();
        headers[..TYPE_AT].copy_from_slice(&self.bytes[..TYPE_AT]);
        headers[TYPE_AT..TYPE_AT + 2].copy_from_slice(&TYPE_VLAN.to_be_bytes());
        headers[TYPE_AT + 2..TYPE_AT + TAG_LEN].copy_from_slice(&self.header_sum.to_be_bytes());
    }

    /// Returns the length of the link header that `push_headers` writes in front of the IP header.
    pub(super) fn link_header_len(&self) -> usize {
        let tag = if self.is_ipv6() && self.header_sum != 0 { TAG_LEN } else { 0 };
        self.len() - self.network_header_len() + tag
    }

    /// Returns true for IPv6 headers: without a link header they have 40 bytes, while Ethernet and IPv4 have 34, or with a
    /// tag 38.
    #[inline]
    pub(crate) fn is_ipv6(&self) -> bool {
        self.len() >= 40
    }

    /// Returns the length of the IP header.
    #[inline]
    pub(crate) fn network_header_len(&self) -> usize {
        if self.is_ipv6() { ipv6::HEADER_LEN } else { ipv4::HEADER_LEN }
    }

    /// Clears "don't fragment".
    pub(crate) fn allow_cutting(&mut self) {
        let start = self.len() - self.network_header_len();
        if self.is_ipv6() {
            return;
        }
        self.bytes[start + ipv4::FRAGMENT_AT] = 0;
        self.header_sum = checksum::sum(&self.bytes[start..self.len()]);
    }

    /// Returns true when each packet needs an identification, since it may be fragmented.
    #[inline]
    pub(crate) fn is_cuttable(&self) -> bool {
        let start = self.len() - ipv4::HEADER_LEN;
        !self.is_ipv6() && self.bytes[start + ipv4::FRAGMENT_AT] == 0
    }

    /// Writes an identification into `headers`, as written by [`push_headers`](Template::push_headers).
    pub(crate) fn put_identification(&self, headers: &mut [u8], identification: u16) {
        let network = &mut headers[self.link_header_len()..];
        network[4..6].copy_from_slice(&identification.to_be_bytes());
        let sum = !u16::from_be_bytes([network[10], network[11]]);
        network[10..12].copy_from_slice(&(!checksum::add(sum, identification)).to_be_bytes());
    }

    /// Writes link and IP header in front of a transport header: `transport_len` bytes of transport header and payload
    /// follow, in this frame and the next ones of the packet.
    ///
    /// # Panics
    /// When the frame's slot is shared or its headroom is less than `len`.
    #[inline]
    pub(crate) fn push_headers(&self, frame: &mut Frame, transport_len: usize) {
        let len = self.len();
        self.fill(frame.push(len), transport_len);
        if self.is_tagged_ipv6() {
            self.push_tag(frame);
        }
    }

    /// Returns true when a VLAN tag is still to be inserted.
    #[inline]
    pub(crate) fn is_tagged_ipv6(&self) -> bool {
        self.is_ipv6() && self.header_sum != 0
    }

    /// Writes link and IP header, without the tag of an IPv6 packet. `headers` must be [`len`](Template::len) long.
    #[inline(always)]
    pub(crate) fn fill(&self, headers: &mut [u8], transport_len: usize) {
        const UNTAGGED: usize = ETHERNET_LEN + ipv4::HEADER_LEN;
        let len = self.len();
        debug_assert_eq!(headers.len(), len);
        if let Ok(headers) = <&mut [u8; UNTAGGED]>::try_from(&mut *headers) {
            // The common length, with constant offsets.
            *headers = *self.bytes.first_chunk().expect("there are more");
            return self.fill_ipv4(&mut headers[ETHERNET_LEN..], transport_len);
        }
        headers.copy_from_slice(&self.bytes[..len]);
        if self.is_ipv6() {
            let network = &mut headers[len - ipv6::HEADER_LEN..];
            network[4..6].copy_from_slice(&(transport_len as u16).to_be_bytes());
            return;
        }
        self.fill_ipv4(&mut headers[len - ipv4::HEADER_LEN..], transport_len);
    }

    /// Writes the length of the packet, and updates the header checksum.
    #[inline(always)]
    fn fill_ipv4(&self, network: &mut [u8], transport_len: usize) {
        let total = (transport_len + ipv4::HEADER_LEN) as u16;
        let sum = !checksum::add(self.header_sum, total);
        network[2..4].copy_from_slice(&total.to_be_bytes());
        network[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}

impl LinkInfo {
    /// Returns true when it takes packets of several TCP segments.
    pub(crate) fn segments(&self) -> bool {
        let headers = (ipv6::HEADER_LEN + HEADER_BYTES_MAX) as u32;
        self.gathers && self.sends_partial_checksums && self.segmentation_max_bytes > headers
    }

    /// Returns the link's bits of a template.
    fn shape(&self) -> u8 {
        let sums = if self.sends_partial_checksums { LINK_SUMS } else { 0 };
        sums | if self.segments() { LINK_SEGMENTS } else { 0 }
    }
}

impl Ip {
    /// Returns the header template of a flow; resolves the neighbor when it is unknown.
    pub(crate) fn template(&mut self, now: Instant, flow: &Flow) -> Result<Template, OutputError> {
        if let Some(template) = self.header_cache.find(now, flow, self.generation) {
            return Ok(*template);
        }
        let template = self.make_template(now, flow)?;
        self.header_cache.remember(now, flow, template);
        Ok(template)
    }

    fn make_template(&mut self, now: Instant, flow: &Flow) -> Result<Template, OutputError> {
        let path = self.route(flow.remote, Some(flow.local)).ok_or(OutputError::NoRoute)?;
        if path.interface == LOOPBACK {
            return Err(OutputError::Unresolved);
        }
        let resolved = self.resolve_next_hop(now, &path).ok_or(OutputError::Unresolved);
        self.run_tasks();
        let destination = resolved?;
        let mut bytes = [0; 54];
        let own = &self.interfaces[path.interface as usize].interface;
        // The tag of IPv6 packets is inserted later.
        let tag = own.vlan.filter(|_| flow.remote.is_ipv4());
        let link_len = match (own.medium, tag) {
            (Medium::Ip, _) => 0,
            (Medium::Ethernet, None) => ETHERNET_LEN,
            (Medium::Ethernet, Some(_)) => ETHERNET_LEN + TAG_LEN,
        };
        if own.medium == Medium::Ethernet {
            let ether_type = if flow.remote.is_ipv6() { TYPE_IPV6 } else { TYPE_IPV4 };
            let outer_type = if tag.is_some() { TYPE_VLAN } else { ether_type };
            crate::wire::ethernet::Header { destination, source: own.mac, ether_type: outer_type }
                .write(&mut bytes[..ETHERNET_LEN]);
            if let Some(vlan) = tag {
                bytes[ETHERNET_LEN..ETHERNET_LEN + 2].copy_from_slice(&vlan.to_be_bytes());
                bytes[ETHERNET_LEN + 2..ETHERNET_LEN + TAG_LEN].copy_from_slice(&ether_type.to_be_bytes());
            }
        }
        let vlan = if own.medium == Medium::Ethernet { own.vlan.unwrap_or(0) } else { 0 };
        let len = link_len + network_header_len(flow.remote);
        // The length is written later, so this header is written without one.
        self.write_network_header(flow, &path, None, &mut bytes[link_len..len]).ok_or(OutputError::NoRoute)?;
        let mut header_sum = vlan;
        if flow.remote.is_ipv4() {
            bytes[len - 10..len - 8].fill(0);
            header_sum = checksum::sum(&bytes[link_len..len]);
        }
        Ok(Template {
            header_sum,
            pseudo_sum: checksum::pseudo_header(flow.local, flow.remote, flow.protocol, 0),
            bytes,
            shape: len as u8 | self.link(path.interface).shape(),
            interface: path.interface as u8,
            generation: self.generation,
        })
    }

    /// Has the neighbor confirmed after repeated retransmissions of a flow (RFC 1122 §2.3.2.1).
    pub(crate) fn suspect(&mut self, now: Instant, local: IpAddr, remote: IpAddr) {
        if let Some(path) = self.route(remote, Some(local)) {
            self.neighbors.suspect(now, (path.interface, path.next_hop));
            self.run_tasks();
        }
    }

    /// Returns true when [`confirm`](Ip::confirm) may have something to do.
    #[inline]
    pub(crate) fn has_doubted_neighbors(&self) -> bool {
        self.neighbors.has_doubted()
    }

    /// Confirms the neighbor: the remote end has acknowledged data (RFC 4861 §7.3.1).
    #[cold]
    pub(crate) fn confirm(&mut self, now: Instant, local: IpAddr, remote: IpAddr) {
        if let Some(path) = self.route(remote, Some(local)) {
            self.neighbors.confirm(now, (path.interface, path.next_hop));
        }
    }

    /// Sends the first packet of `packets`, which starts at the transport header (checksum done or `Partial`); its first
    /// frame must be exclusive and have at least 64 bytes of headroom. Adds headers, or holds the packet while the neighbor
    /// is being resolved. Without a route it is dropped.
    pub(crate) fn send(&mut self, env: &mut IpEnv, flow: &Flow, packets: &mut Burst, out: &mut [Burst]) {
        if self.send_like_others(env.now, flow, packets, out) {
            return;
        }
        let len = packets.front_len();
        let mut header = [0; ipv6::HEADER_LEN];
        let header = &mut header[..network_header_len(flow.remote)];
        let routed = self.route(flow.remote, Some(flow.local));
        let written = routed.and_then(|path| self.write_network_header(flow, &path, Some(len), header));
        let (Some(path), Some(())) = (routed, written) else {
            packets.drop_packet();
            env.counters.count(Counter::IpOutNoRoutes);
            return;
        };
        let Some(mut first) = packets.pop() else { return };
        first.push(header.len()).copy_from_slice(header);
        self.place(env.now, &path, (first, packets), out);
    }

    /// Sends the packet like [`send`](Ip::send) if it has one frame and the header cache has its headers.
    #[inline]
    fn send_like_others(&self, now: Instant, flow: &Flow, packets: &mut Burst, out: &mut [Burst]) -> bool {
        let is_small = packets.iter().next().is_some_and(|first| !first.continues() && first.len() <= LARGE_BYTES);
        let Some(template) = self.header_cache.find(now, flow, self.generation).filter(|_| is_small) else { return false };
        let Some(mut first) = packets.pop() else { return false };
        let transport_len = first.len();
        template.push_headers(&mut first, transport_len);
        out[template.interface as usize].push(first);
        true
    }

    /// Sends a packet: its first frame, which starts at the IP header, and the frames at the front of the burst that continue
    /// it. Holds it while the neighbor is being resolved.
    pub(super) fn place(&mut self, now: Instant, path: &Path, packet: (Frame, &mut Burst), out: &mut [Burst]) {
        let (mut first, rest) = packet;
        let mut more = first.continues();
        if path.interface == LOOPBACK {
            self.looped.push(first);
            while more && let Some(frame) = rest.pop() {
                more = frame.continues();
                self.looped.push(frame);
            }
            return;
        }
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

    /// Writes what waits: ARP, neighbor discovery, ICMP, and packets whose neighbor has answered. Returns the number of ARP
    /// packets.
    #[inline]
    pub(crate) fn transmit(&mut self, env: &mut IpEnv, out: &mut [Burst]) -> usize {
        if self.has_to_write() { self.write_waiting(env, out) } else { 0 }
    }

    /// Returns true when packets wait that are not a transport protocol's.
    #[inline]
    pub(crate) fn has_to_write(&self) -> bool {
        !(self.control.is_empty() && self.reply_flows.is_empty() && self.expired.is_empty())
            || self.reassembly_timeouts > 0
            || self.neighbors.has_dropped()
            || self.errors_lost > 0
            || self.outbox.iter().any(|waiting| !waiting.is_empty())
    }

    fn write_waiting(&mut self, env: &mut IpEnv, out: &mut [Burst]) -> usize {
        let arp_packets = self.write_control(env, out);
        self.tell_expired(env);
        let mut replies = core::mem::take(&mut self.replies);
        while let Some(flow) = self.reply_flows.pop_front() {
            env.counters.count(Counter::IcmpOutMsgs);
            // Only answers to fragmented requests are large.
            let mtu = self.route(flow.remote, Some(flow.local)).map_or(u16::MAX, |path| path.mtu);
            let whole = replies.front_len() + network_header_len(flow.remote) <= mtu.into();
            if whole {
                self.send(env, &flow, &mut replies, out);
            } else {
                self.send_fragmentable(env, &flow, &mut replies, out);
            }
        }
        self.replies = replies;
        for (waiting, out) in self.outbox.iter_mut().zip(out) {
            out.append(waiting);
        }
        self.count_dropped(env.counters);
        arp_packets
    }

    /// Releases packets that waited for a neighbor, now that it has answered.
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

    /// Returns the link address of the next hop; a zero address on links without addresses.
    fn resolve_next_hop(&mut self, now: Instant, path: &Path) -> Option<MacAddress> {
        match self.interfaces[path.interface as usize].interface.medium {
            Medium::Ip => Some(MacAddress::default()),
            Medium::Ethernet if self.is_broadcast(path.next_hop) => Some(MacAddress::BROADCAST),
            Medium::Ethernet if path.next_hop.is_multicast() => Some(MacAddress::of_group(path.next_hop)),
            Medium::Ethernet => self.neighbors.lookup(now, (path.interface, path.next_hop)),
        }
    }

    fn push_link_header(&self, interface: u32, destination: MacAddress, frame: &mut Frame) {
        let own = &self.interfaces[interface as usize].interface;
        if own.medium == Medium::Ethernet {
            let ether_type = if frame.bytes().first().is_some_and(|first| first >> 4 == 6) { TYPE_IPV6 } else { TYPE_IPV4 };
            ethernet::push_header(frame, own.mac, destination, ether_type, own.vlan);
        }
    }

    /// Writes the IP header of a packet of `transport_len` bytes, or of one whose length is not known yet. `None`: too long,
    /// or ends of different families.
    pub(super) fn write_network_header(
        &self,
        flow: &Flow,
        path: &Path,
        transport_len: Option<usize>,
        bytes: &mut [u8],
    ) -> Option<()> {
        let ttl = match (flow.ttl, flow.remote) {
            (0, IpAddr::V4(_)) => DEFAULT_TTL,
            (0, IpAddr::V6(_)) => self.interfaces.get(path.interface as usize).map_or(DEFAULT_TTL, |state| state.hop_limit),
            (ttl, _) => ttl,
        };
        match (flow.local, flow.remote) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                let total_len = transport_len.map_or(Some(0), |len| u16::try_from(len + ipv4::HEADER_LEN).ok())?;
                let header = ipv4::Header::atomic(local, remote, flow.protocol, ttl, total_len);
                ipv4::Header { tos: flow.tos, ..header }.write(bytes);
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let payload_len = u16::try_from(transport_len.unwrap_or(0)).ok()?;
                let header = ipv6::Header {
                    traffic_class: flow.tos,
                    flow_label: self.flow_label(flow),
                    payload_len,
                    next_header: flow.protocol,
                    hop_limit: ttl,
                    source,
                    destination,
                };
                header.write(bytes);
            }
            _ => return None,
        }
        Some(())
    }

    /// RFC 6437 §3: the same for all packets of a flow, and not predictable from other flows' labels.
    fn flow_label(&self, flow: &Flow) -> u32 {
        let (local_port, remote_port) = flow.ports;
        let key = FlowKey { local: flow.local, remote: flow.remote, local_port, remote_port };
        (self.secrets.keyed(&key, FLOW_LABEL) as u32 & ipv6::FLOW_LABEL_MASK).max(1)
    }
}

/// See `Secrets::keyed`.
const FLOW_LABEL: u64 = 0;
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
