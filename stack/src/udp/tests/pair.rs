//! Two stacks that talk to each other over a wire that reorders, in both families.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};

use ringway_shm::{Arena, ArenaConfig, Burst, Class};

use super::rig::pattern;
use crate::Instant;
use crate::address::{Cidr, MacAddress, SocketAddress};
use crate::config::{StackConfig, UdpOptions};
use crate::error::UdpSendError;
use crate::event::SocketId;
use crate::ip::{Interface, Medium, Role, Route};
use crate::stack::Stack;
use crate::stats::Counter;
use crate::udp::UdpSend;

struct Host {
    stack: Stack,
    arena: Arena,
}

const HOSTS: [[&str; 2]; 2] = [["10.0.0.1", "fd00::1"], ["10.0.0.2", "fd00::2"]];

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn any() -> SocketAddress {
    SocketAddress { ip: Ipv6Addr::UNSPECIFIED.into(), port: 7_000 }
}

/// Host `number` of the two.
fn host(number: usize, link: (u16, bool, bool)) -> Host {
    let (mtu, gathers, partial_checksums) = link;
    let arena = Arena::new(ArenaConfig { large: 8_192, small: 4_096 });
    let mut stack = Stack::new(StackConfig { seed: number as u64, ..StackConfig::default() }, arena.clone(), Instant::ZERO);
    let interface = stack.add_interface(Interface {
        name: "wire".into(),
        mac: MacAddress::default(),
        mtu,
        sends_partial_checksums: partial_checksums,
        segmentation_max_bytes: if partial_checksums && gathers { 65_535 } else { 0 },
        segmentation_max_segments: u32::MAX,
        segments_udp: partial_checksums && gathers,
        gathers,
        role: Role::Owned,
        autoconfiguration: crate::ip::Autoconfiguration::Off,
        detects_duplicates: false,
        vlan: None,
        medium: Medium::Ip,
    });
    let networks = HOSTS[number].map(|address| Cidr { ip: ip(address), prefix_len: if ip(address).is_ipv4() { 24 } else { 64 } });
    stack.set_addresses(interface, networks.to_vec());
    let route = |destination| Route { destination, gateway: None, interface, metric: 0, source: None };
    stack.set_routes(networks.map(route).to_vec());
    Host { stack, arena }
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

/// What leaves `from` comes to `to` in another order, as bytes; some of it twice.
fn carry(now: Instant, random: &mut Random, from: &mut Host, to: &mut Host) {
    let mut out = [Burst::default()];
    while from.stack.transmit(now, &mut out) {}
    let mut packets = Vec::new();
    while !out[0].is_empty() {
        let meta = out[0].front_packet().next().map(|first| (first.checksum(), first.segmentation()));
        packets.push((meta, out[0].front_packet().flat_map(|frame| frame.bytes().to_vec()).collect::<Vec<u8>>()));
        out[0].drop_packet();
    }
    for at in (1..packets.len()).rev() {
        packets.swap(at, random.below(at + 1));
    }
    let mut burst = Burst::default();
    for (meta, bytes) in packets {
        let count = bytes.len().div_ceil(1_900);
        for (at, part) in bytes.chunks(1_900).enumerate() {
            let mut frame = to.arena.alloc(Class::Large).expect("the arena is large enough");
            frame.extend(part.len()).copy_from_slice(part);
            frame.set_continues(at + 1 < count);
            if let Some((checksum, segmentation)) = meta.filter(|_| at == 0) {
                frame.set_checksum(checksum);
                frame.set_segmentation(segmentation);
            }
            burst.push(frame);
        }
        // In small bursts, so that the receive buffer need not hold all.
        if burst.packets() == 64 {
            to.stack.receive(now, 0, &mut burst);
        }
    }
    to.stack.receive(now, 0, &mut burst);
}

fn take(host: &mut Host, id: SocketId) -> Vec<(SocketAddress, Vec<u8>)> {
    let mut frames = Burst::default();
    let mut all = Vec::new();
    while let Some(message) = host.stack.udp_receive(id, &mut frames) {
        all.push((message.from, frames.iter().flat_map(|frame| frame.bytes().to_vec()).collect()));
        frames.clear();
    }
    all
}

/// Datagrams of all sizes, alone and in trains, come whole, each once, from their real senders, whatever
/// the links can do (seeded).
#[test]
fn random_datagrams() {
    let links = [(1_500, true, false), (1_500, true, true), (1_280, true, true), (9_000, false, false), (1_400, false, true)];
    for seed in 0..200u64 {
        let mut random = Random(seed);
        let link = links[random.below(links.len())];
        let mut hosts = [host(0, link), host(1, link)];
        let options = UdpOptions { receive_buffer_bytes: 8 << 20, send_buffer_bytes: 8 << 20, ..UdpOptions::default() };
        let ids = hosts.each_mut().map(|host| host.stack.udp_bind(any(), options.clone(), 1).expect("the port is free"));
        let now = Instant::from_millis(1);
        let mut sent: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
        let family = random.below(2);
        let to = SocketAddress { ip: ip(HOSTS[1][family]), port: 7_000 };
        for number in 0..30u32 {
            let len = match random.below(4) {
                0 => random.below(64),
                1 => random.below(3_000),
                2 => random.below(20_000),
                _ => 1_400 + random.below(200),
            };
            let mut payload = pattern(len + 4);
            payload[..4].copy_from_slice(&number.to_be_bytes());
            let segment_size = if random.below(3) == 0 { 1_000 } else { 0 };
            let mut copied = 0;
            let send = UdpSend { len: payload.len(), to: Some(to), segment_size: Some(segment_size), ..UdpSend::default() };
            let result = hosts[0].stack.udp_send(now, ids[0], &send, &mut |piece| {
                piece.copy_from_slice(&payload[copied..copied + piece.len()]);
                copied += piece.len();
            });
            assert_eq!(result, Ok(payload.len()), "seed {seed}");
            let size = if segment_size == 0 { payload.len() } else { 1_000 };
            payload.chunks(size).for_each(|datagram| *sent.entry(datagram.to_vec()).or_default() += 1);
        }
        let [left, right] = &mut hosts;
        carry(now, &mut random, left, right);
        for (from, payload) in take(right, ids[1]) {
            assert_eq!(from, SocketAddress { ip: ip(HOSTS[0][family]), port: 7_000 });
            let count = sent.get_mut(&payload).filter(|count| **count > 0);
            *count.unwrap_or_else(|| panic!("seed {seed}: nobody sent this")) -= 1;
        }
        let lost: u32 = sent.values().sum();
        assert_eq!(lost, 0, "seed {seed}: lost");
        for host in &hosts {
            for class in [Class::Large, Class::Small] {
                assert_eq!(host.arena.free(class), host.arena.capacity(class), "seed {seed}");
            }
        }
    }
}

/// Replies, closed ports and the path MTU work in IPv6 as in IPv4.
#[test]
fn both_families() {
    for family in [0, 1] {
        let mut hosts = [host(0, (1_500, true, false)), host(1, (1_500, true, false))];
        let [left, right] = &mut hosts;
        let mut random = Random(1);
        let now = Instant::from_millis(1);
        let local = SocketAddress { ip: ip(HOSTS[0][family]), port: 5 };
        let id = left.stack.udp_bind(local, UdpOptions::default(), 1).expect("the port is free");
        let to = SocketAddress { ip: ip(HOSTS[1][family]), port: 9 };
        left.stack.udp_connect(id, Some(to)).expect("a route");
        let send = |host: &mut Host, id, len: usize| {
            host.stack.udp_send(now, id, &UdpSend { len, ..UdpSend::default() }, &mut |piece| piece.fill(7))
        };
        assert_eq!(send(left, id, 3), Ok(3));
        carry(now, &mut random, left, right);
        assert_eq!(right.stack.counters().get(Counter::UdpNoPorts), 1);
        carry(now, &mut random, right, left);
        assert_eq!(left.stack.udp_error(id), Some(crate::udp::UdpError::Refused));
        // Now the port is served, by a socket of both families.
        let server = right.stack.udp_bind(SocketAddress { port: 9, ..any() }, UdpOptions::default(), 2).expect("it is free");
        assert_eq!(send(left, id, 1_600), Ok(1_600));
        carry(now, &mut random, left, right);
        assert_eq!(take(right, server), [(local, vec![7; 1_600])]);
        right.stack.udp_connect(server, Some(local)).expect("a route");
        assert_eq!(send(right, server, 2), Ok(2));
        carry(now, &mut random, right, left);
        assert_eq!(take(left, id), [(to, vec![7; 2])]);
        let payload_max = if family == 0 { 65_507 } else { 65_527 };
        assert_eq!(send(left, id, payload_max + 1), Err(UdpSendError::MessageTooLong));
        assert_eq!(send(left, id, payload_max), Ok(payload_max));
        carry(now, &mut random, left, right);
        assert_eq!(take(right, server), [(local, vec![7; payload_max])]);
    }
}

/// IPV6_V6ONLY sockets leave IPv4 to others; others do not.
#[test]
fn dual_stack() {
    let mut host = host(0, (1_500, true, false));
    let only_ipv6 = UdpOptions { only_ipv6: true, ..UdpOptions::default() };
    let ipv4 = SocketAddress { ip: ip("0.0.0.0"), port: 7_000 };
    let both = host.stack.udp_bind(any(), UdpOptions::default(), 1).expect("it is free");
    assert!(host.stack.udp_bind(ipv4, UdpOptions::default(), 1).is_err());
    host.stack.close(Instant::ZERO, both);
    let six = host.stack.udp_bind(any(), only_ipv6, 1).expect("it is free again");
    let four = host.stack.udp_bind(ipv4, UdpOptions::default(), 1).expect("the other family");
    for (id, to, good) in [(six, 0, false), (six, 1, true), (four, 0, true), (four, 1, false)] {
        let to = SocketAddress { ip: ip(HOSTS[1][to]), port: 1 };
        let result = host.stack.udp_send(Instant::ZERO, id, &UdpSend { to: Some(to), ..UdpSend::default() }, &mut |_| {});
        assert_eq!(result.is_ok(), good);
    }
}

/// RFC 8200 §8.1: a datagram over IPv6 without a checksum is dropped.
#[test]
fn no_checksum_in_ipv6() {
    let mut host = host(0, (1_500, true, false));
    let id = host.stack.udp_bind(any(), UdpOptions::default(), 1).expect("it is free");
    let mut bytes = vec![0; 48];
    let (source, destination) = match (ip(HOSTS[1][1]), ip(HOSTS[0][1])) {
        (IpAddr::V6(source), IpAddr::V6(destination)) => (source, destination),
        _ => panic!("IPv6"),
    };
    crate::wire::ipv6::Header {
        traffic_class: 0,
        flow_label: 0,
        payload_len: 8,
        next_header: 17,
        hop_limit: 64,
        source,
        destination,
    }
    .write(&mut bytes[..40]);
    crate::wire::udp::Header { source_port: 1, destination_port: 7_000, length: 8, checksum: 0 }.write(&mut bytes[40..]);
    let mut burst = Burst::default();
    burst.push(host.arena.alloc_from(&bytes).expect("there is one"));
    host.stack.receive(Instant::ZERO, 0, &mut burst);
    assert!(take(&mut host, id).is_empty());
    assert_eq!(host.stack.counters().get(Counter::UdpInCsumErrors), 1);
}
