//! Outgoing datagrams that routers may fragment, or that must be fragmented here. Read RFC 791 §3.2, RFC 6864 §4,
//! RFC 7739 §5 first.
//!
//! Only datagrams that may be fragmented have an identification. An attacker that has not seen others of the same pair of
//! addresses cannot guess it. A datagram is cut into as few fragments as the path MTU allows; without frames for all of them
//! it is dropped whole. Fragments share the datagram's frames where the link gathers, and are copies elsewhere.

use alloc::vec::Vec;
use core::net::IpAddr;

use ringway_shm::arena::LARGE_BYTES;
use ringway_shm::{Arena, Burst, Class, Frame};

use super::output::DEFAULT_TTL;
use super::{Flow, Ip, Path, network_header_len};
use crate::env::IpEnv;
use crate::stats::Counter;
use crate::tcp::demux::FlowKey;
use crate::tcp::isn::Secrets;
use crate::wire::{ipv4, ipv6};

/// Source of identifications: a keyed offset for each pair of addresses, and counters that many pairs share and that advance
/// by random steps.
pub(super) struct Identifications {
    secrets: Secrets,
    counters: Vec<u32>,
}

impl Identifications {
    /// Derives all identifications from `seed`.
    pub(super) fn new(seed: u64) -> Identifications {
        let mut secrets = Secrets::new(seed ^ 0x7739);
        let counters = (0..COUNTERS).map(|_| secrets.random() as u32).collect();
        Identifications { secrets, counters }
    }

    /// Returns the identification of the next datagram from `local` to `remote`; IPv4 uses 16 bits of it.
    pub(super) fn next(&mut self, local: IpAddr, remote: IpAddr, protocol: u8) -> u32 {
        self.next_run(local, remote, protocol, 1)
    }

    /// Returns the first of `count` consecutive identifications.
    fn next_run(&mut self, local: IpAddr, remote: IpAddr, protocol: u8, count: u32) -> u32 {
        let key = FlowKey { local, remote, local_port: protocol.into(), remote_port: 0 };
        let offset = self.secrets.keyed(&key, 0);
        let step = 1 + self.secrets.random() as u32 % STEP_MAX;
        let counter = &mut self.counters[(offset >> 32) as usize % COUNTERS];
        let first = counter.wrapping_add(step);
        *counter = first.wrapping_add(count.saturating_sub(1));
        first.wrapping_add(offset as u32)
    }
}

/// A flow, and the path that its packets take.
#[derive(Clone, Copy)]
pub(super) struct Routed<'a> {
    pub(super) flow: &'a Flow,
    pub(super) path: &'a Path,
}

impl Ip {
    /// Returns the identification of the first of `count` packets that routers may fragment.
    pub(crate) fn identify(&mut self, local: IpAddr, remote: IpAddr, protocol: u8, count: u32) -> u16 {
        self.identifications.next_run(local, remote, protocol, count) as u16
    }

    /// Sends the datagram of `packet`, which starts at the transport header and has its checksum. It may be
    /// fragmented, here and (IPv4) by routers; [`send`](Ip::send) sends one that fits with "don't fragment" set.
    pub(crate) fn send_fragmentable(&mut self, env: &mut IpEnv, flow: &Flow, packet: &mut Burst, out: &mut [Burst]) {
        let Some(path) = self.route(flow.remote, Some(flow.local)) else {
            return self.send(env, flow, packet, out);
        };
        self.send_along(env, Routed { flow, path: &path }, packet, out);
    }

    /// Sends a datagram that may be fragmented, on a known path.
    pub(super) fn send_along(&mut self, env: &mut IpEnv, routed: Routed<'_>, packet: &mut Burst, out: &mut [Burst]) {
        let Routed { flow, path } = routed;
        let len = packet.front_len();
        let gathers = self.link(path.interface).gathers;
        let one_frame = packet.iter().next().is_some_and(|first| !first.continues());
        let fits = len + network_header_len(flow.remote) <= path.mtu.into() && (gathers || one_frame);
        if fits && flow.remote.is_ipv6() {
            let Some(mut first) = packet.pop() else { return };
            let written = self.write_network_header(flow, path, Some(len), first.push(ipv6::HEADER_LEN));
            debug_assert!(written.is_some(), "a path has one family at both ends");
            return self.place(env.now, path, (first, packet), out);
        }
        let identification = self.identifications.next(flow.local, flow.remote, flow.protocol);
        if fits {
            let Some(mut first) = packet.pop() else { return };
            self.push_fragment_header(routed, identification, (0, len, false), &mut first);
            return self.place(env.now, path, (first, packet), out);
        }
        let packet_max = if gathers { path.mtu.into() } else { (LARGE_BYTES - HEADROOM).min(path.mtu.into()) };
        let piece_max = (packet_max - headers_len(flow.remote)) / FRAGMENT_UNIT * FRAGMENT_UNIT;
        let class = if gathers { Class::Small } else { Class::Large };
        if (env.arena.free(class) as usize) < len.div_ceil(piece_max) || len > usize::from(u16::MAX) {
            packet.drop_packet();
            env.counters.count(Counter::IpFragFails);
            return;
        }
        let mut cursor = Cursor { packet, left: None };
        for offset in (0..len).step_by(piece_max) {
            let count = piece_max.min(len - offset);
            let mut piece = Burst::default();
            cursor.cut(env.arena, class, count, &mut piece);
            let Some(mut first) = piece.pop() else { break };
            self.push_fragment_header(routed, identification, (offset, count, offset + count < len), &mut first);
            self.place(env.now, path, (first, &mut piece), out);
            env.counters.count(Counter::IpFragCreates);
        }
        env.counters.count(Counter::IpFragOks);
    }

    /// Writes the IP header of a fragment: `count` bytes at `offset`, with more fragments after it or not.
    fn push_fragment_header(
        &self,
        Routed { flow, path }: Routed<'_>,
        identification: u32,
        (offset, count, more): (usize, usize, bool),
        frame: &mut Frame,
    ) {
        let (offset, header_len) = (offset as u16, headers_len(flow.remote));
        let bytes = frame.push(header_len);
        if let (IpAddr::V4(local), IpAddr::V4(remote)) = (flow.local, flow.remote) {
            let ttl = if flow.ttl == 0 { DEFAULT_TTL } else { flow.ttl };
            let total_len = (count + ipv4::HEADER_LEN) as u16;
            let header = ipv4::Header {
                identification: identification as u16,
                dont_fragment: false,
                more_fragments: more,
                fragment_offset: offset,
                tos: flow.tos,
                ..ipv4::Header::atomic(local, remote, flow.protocol, ttl, total_len)
            };
            return header.write(bytes);
        }
        let (network, fragment) = bytes.split_at_mut(ipv6::HEADER_LEN);
        ipv6::Fragment { next_header: flow.protocol, offset, more, identification }.write(fragment);
        let flow = Flow { protocol: ipv6::FRAGMENT, ..*flow };
        let written = self.write_network_header(&flow, path, Some(ipv6::FRAGMENT_LEN + count), network);
        debug_assert!(written.is_some(), "a route has one family at both ends");
    }
}

/// Returns the length of the headers in front of a fragment's data to `remote`.
fn headers_len(remote: IpAddr) -> usize {
    network_header_len(remote) + if remote.is_ipv4() { 0 } else { ipv6::FRAGMENT_LEN }
}

/// The bytes of a packet that were not taken yet.
struct Cursor<'a> {
    packet: &'a mut Burst,
    /// The rest of the current frame.
    left: Option<Frame>,
}

impl Cursor<'_> {
    /// Moves the next `count` bytes to `piece`: a fresh frame with headroom that starts with a copy of them, and unless all
    /// were copied, views of the rest.
    fn cut(&mut self, arena: &Arena, class: Class, count: usize, piece: &mut Burst) {
        let Some(mut first) = arena.alloc(class) else { return };
        first.reserve(HEADROOM);
        let copied = if class == Class::Small { count.min(COPIED_BYTES) } else { count };
        let mut to = first.extend(copied);
        while !to.is_empty() {
            let Some(view) = self.next(to.len()) else { return };
            let (head, tail) = to.split_at_mut(view.len());
            view.payload().copy_to(head);
            to = tail;
        }
        let mut left = count - copied;
        first.set_continues(left > 0);
        piece.push(first);
        while left > 0 {
            let Some(mut view) = self.next(left) else { return };
            left -= view.len();
            view.set_continues(left > 0);
            piece.push(view);
        }
    }

    /// Returns a view of the next bytes, at most `count`, within one frame.
    fn next(&mut self, count: usize) -> Option<Frame> {
        while self.left.as_ref().is_none_or(Frame::is_empty) {
            self.left = Some(self.packet.pop()?);
        }
        let frame = self.left.as_mut()?;
        let mut view = frame.share();
        view.truncate(count);
        frame.pull(view.len());
        Some(view)
    }
}

/// Unit of fragment offsets, bytes (RFC 791 §3.1).
const FRAGMENT_UNIT: usize = 8;
/// Headroom for IP and link headers in front of a fragment.
const HEADROOM: usize = 80;
/// Bytes of a fragment in its first frame, so that transport headers are not split.
const COPIED_BYTES: usize = 64;
/// Number of counters that pairs of addresses share.
const COUNTERS: usize = 1_024;
/// Maximum step of a counter.
const STEP_MAX: u32 = 3;

#[cfg(test)]
mod tests;
