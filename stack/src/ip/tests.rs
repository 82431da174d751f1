mod bounds;

use super::*;
use crate::Cidr;
use crate::wire::{checksum, ethernet, ipv4, ipv6};
use alloc::string::ToString;
use alloc::vec;
use ringway_shm::{Arena, ArenaConfig, Class};

pub(super) const OWN_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
pub(super) const PEER_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);
pub(super) const OWN: [u8; 4] = [10, 0, 0, 1];
pub(super) const PEER: [u8; 4] = [10, 0, 0, 2];

pub(super) const OWN6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
pub(super) const OWN6_LINK: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
pub(super) const PEER6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);
pub(super) const PEER6_LINK: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);
pub(super) const ROUTER6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0xfe);

pub(super) fn ms(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

/// The environment of a rig's `Ip` at a time.
macro_rules! env {
    ($rig:expr, $now:expr) => {
        &mut $crate::env::IpEnv { now: $now, arena: &$rig.arena, counters: &mut $rig.counters }
    };
}
pub(super) use env;

/// An `Ip` with one interface (10.0.0.1/24, default route via 10.0.0.254) and its environment.
pub(super) struct Rig {
    pub(super) ip: Ip,
    pub(super) arena: Arena,
    pub(super) counters: Counters,
    pub(super) datagrams: Datagrams,
}

impl Rig {
    pub(super) fn new(medium: Medium, role: Role) -> Rig {
        let mut ip = Ip::new(&StackConfig::default(), ms(0));
        let interface = ip.add_interface(Interface {
            name: "wire0".to_string(),
            medium,
            mac: OWN_MAC,
            mtu: 1500,
            sends_partial_checksums: false,
            segmentation_max_bytes: 0,
            segmentation_max_segments: u32::MAX,
            segments_udp: false,
            gathers: true,
            role,
            autoconfiguration: Autoconfiguration::Off,
            detects_duplicates: false,
            vlan: None,
        });
        let network = Cidr { ip: OWN.into(), prefix_len: 24 };
        let default = Cidr { ip: [0; 4].into(), prefix_len: 0 };
        ip.set_addresses(interface, vec![network]);
        ip.set_routes(vec![
            Route { destination: network, gateway: None, interface, metric: 0, source: None },
            Route { destination: default, gateway: Some([10, 0, 0, 254].into()), interface, metric: 0, source: None },
        ]);
        let arena = Arena::new(ArenaConfig { large: 64, small: 64 });
        let mut rig = Rig { ip, arena, counters: Counters::default(), datagrams: Datagrams::default() };
        assert_eq!(rig.transmit(ms(0)).len(), usize::from(medium == Medium::Ethernet && role == Role::Owned), "an announcement");
        rig
    }

    /// Makes a rig like `new`, also with 2001:db8::1/64, fe80::1/64 and a default route via fe80::fe.
    pub(super) fn ipv6(medium: Medium, role: Role) -> Rig {
        let mut rig = Rig::new(medium, role);
        let (v4, v6) = (Cidr { ip: OWN.into(), prefix_len: 24 }, Cidr { ip: OWN6.into(), prefix_len: 64 });
        let link_local = Cidr { ip: OWN6_LINK.into(), prefix_len: 64 };
        rig.ip.set_addresses(0, vec![v4, v6, link_local]);
        let route = |destination, gateway| Route { destination, gateway, interface: 0, metric: 0, source: None };
        let default = Cidr { ip: Ipv6Addr::UNSPECIFIED.into(), prefix_len: 0 };
        rig.ip.set_routes(vec![route(v6, None), route(link_local, None), route(default, Some(ROUTER6.into())), route(v4, None)]);
        assert!(rig.transmit(ms(0)).is_empty());
        rig
    }

    /// Receives one packet in frames of at most `piece` bytes.
    pub(super) fn receive_in(&mut self, now: Instant, bytes: &[u8], piece: usize) {
        let mut burst = Burst::default();
        let pieces: Vec<&[u8]> = bytes.chunks(piece).collect();
        for (at, piece) in pieces.iter().enumerate() {
            let mut frame = self.arena.alloc(Class::Large).expect("the arena is large enough");
            frame.extend(piece.len()).copy_from_slice(piece);
            frame.set_continues(at + 1 < pieces.len());
            burst.push(frame);
        }
        self.ip.receive(env!(self, now), 0, &mut burst, &mut self.datagrams);
        // UDP datagrams are of no interest here.
        self.ip.exchange_udp(&mut Datagrams::default());
    }

    pub(super) fn receive(&mut self, now: Instant, bytes: &[u8]) {
        self.receive_in(now, bytes, 1900);
    }

    /// Returns all packets that leave now, one vector each.
    pub(super) fn transmit(&mut self, now: Instant) -> Vec<Vec<u8>> {
        let mut out = [Burst::default()];
        self.ip.transmit(env!(self, now), &mut out);
        packets(&mut out[0])
    }

    pub(super) fn count(&self, counter: Counter) -> u64 {
        self.counters.get(counter)
    }
}

pub(super) fn packets(burst: &mut Burst) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    while !burst.is_empty() {
        packets.push(burst.front_packet().flat_map(|frame| frame.bytes().to_vec()).collect());
        burst.drop_packet();
    }
    packets
}

/// Makes an Ethernet frame from the peer with `payload` after an IPv4 header that `change` may spoil.
pub(super) fn from_peer(protocol: u8, payload: &[u8], change: impl FnOnce(&mut ipv4::Header)) -> Vec<u8> {
    let mut header = ipv4::Header::atomic(PEER.into(), OWN.into(), protocol, 64, 20 + payload.len() as u16);
    change(&mut header);
    let mut bytes = vec![0; 34];
    ethernet::Header { destination: OWN_MAC, source: PEER_MAC, ether_type: ethernet::TYPE_IPV4 }.write(&mut bytes[..14]);
    header.write(&mut bytes[14..]);
    bytes.extend(payload);
    bytes
}

/// Makes an Ethernet frame from the peer with `payload` after an IPv6 header that `change` may spoil.
pub(super) fn from_peer6(next_header: u8, payload: &[u8], change: impl FnOnce(&mut ipv6::Header)) -> Vec<u8> {
    let mut header = ipv6::Header {
        traffic_class: 0,
        flow_label: 0,
        payload_len: payload.len() as u16,
        next_header,
        hop_limit: 64,
        source: PEER6,
        destination: OWN6,
    };
    change(&mut header);
    let destination = if header.destination.is_multicast() { MacAddress::of_group(header.destination.into()) } else { OWN_MAC };
    let mut bytes = vec![0; 54];
    ethernet::Header { destination, source: PEER_MAC, ether_type: ethernet::TYPE_IPV6 }.write(&mut bytes[..14]);
    header.write(&mut bytes[14..]);
    bytes.extend(payload);
    bytes
}

/// Makes a frame like `from_peer6` with an ICMPv6 message and its checksum.
pub(super) fn icmpv6_from_peer(message: &[u8], change: impl FnOnce(&mut ipv6::Header)) -> Vec<u8> {
    let mut bytes = from_peer6(58, message, change);
    let header = ipv6::Header::parse(&bytes[14..]).expect("just written");
    bytes[56..58].fill(0);
    control::finish_icmpv6(&mut bytes[54..], header.source, header.destination);
    bytes
}

/// Makes a TCP segment over IPv6 from the peer with a valid checksum.
pub(super) fn tcp_segment6(payload: &[u8]) -> Vec<u8> {
    let mut segment = tcp_segment(payload);
    segment[16..18].fill(0);
    let pseudo = checksum::pseudo_header(PEER6.into(), OWN6.into(), 6, segment.len() as u32);
    let sum = !checksum::add(pseudo, checksum::sum(&segment));
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    segment
}

/// Makes a TCP segment from the peer with a valid checksum.
pub(super) fn tcp_segment(payload: &[u8]) -> Vec<u8> {
    let mut segment = vec![0x30, 0x39, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 1, 0, 0, 0, 0, 0];
    segment.extend(payload);
    let pseudo = checksum::pseudo_header(PEER.into(), OWN.into(), 6, segment.len() as u32);
    let sum = !checksum::add(pseudo, checksum::sum(&segment));
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    segment
}

/// Routes: on-link, through the router, with and without a chosen source; never to multicast addresses.
#[test]
fn routes_and_sources() {
    let mut rig = Rig::new(Medium::Ethernet, Role::Owned);
    let path = |ip: &Ip, remote: [u8; 4], local: Option<[u8; 4]>| ip.route(remote.into(), local.map(IpAddr::from));
    let on_link = path(&rig.ip, PEER, None).expect("the peer is on the link");
    assert_eq!((on_link.source, on_link.next_hop, on_link.mtu), (OWN.into(), PEER.into(), 1500));
    assert_eq!(path(&rig.ip, [8, 8, 8, 8], None).expect("the default route").next_hop, IpAddr::from([10, 0, 0, 254]));
    assert!(path(&rig.ip, PEER, Some(OWN)).is_some());
    assert_eq!(path(&rig.ip, PEER, Some([10, 0, 0, 9])), None, "not our address");
    for nobody in [[127, 0, 0, 1], [224, 0, 0, 1], [255; 4], [0; 4]] {
        assert_eq!(path(&rig.ip, nobody, None), None, "{nobody:?}");
    }
    let second = Cidr { ip: [192, 168, 0, 7].into(), prefix_len: 24 };
    rig.ip.set_addresses(0, vec![Cidr { ip: OWN.into(), prefix_len: 24 }, second]);
    let to_second = Route { destination: second, gateway: None, interface: 0, metric: 0, source: None };
    rig.ip.set_routes(vec![to_second]);
    assert_eq!(path(&rig.ip, [192, 168, 0, 1], None).expect("a route").source, second.ip, "the address of that network");
    rig.ip.set_routes(vec![Route { source: Some(OWN.into()), ..to_second }]);
    assert_eq!(path(&rig.ip, [192, 168, 0, 1], None).expect("a route").source, IpAddr::from(OWN), "the route's choice");
}

/// HeaderCache go stale with every change of addresses, routes and neighbors, and with nothing else.
#[test]
fn the_generation_follows_changes() {
    let mut rig = Rig::new(Medium::Ethernet, Role::Shared);
    let mut last = rig.ip.generation();
    let mut changed = |ip: &Ip| core::mem::replace(&mut last, ip.generation()) != ip.generation();
    rig.ip.set_neighbor(0, PEER.into(), Some(PEER_MAC));
    assert!(changed(&rig.ip), "a new neighbor");
    rig.ip.set_neighbor(0, PEER.into(), Some(PEER_MAC));
    assert!(!changed(&rig.ip), "the same again");
    rig.ip.set_neighbor(0, PEER.into(), Some(OWN_MAC));
    assert!(changed(&rig.ip), "it moved");
    rig.ip.set_neighbor(0, PEER.into(), None);
    assert!(changed(&rig.ip), "it went");
    rig.ip.set_addresses(0, vec![]);
    assert!(changed(&rig.ip) && !rig.ip.owns(OWN.into()));
    rig.ip.set_routes(vec![]);
    assert!(changed(&rig.ip));
}
