//! Effect of each middleware on a packet.

use std::net::Ipv4Addr;

use ringway_device::memory::{MemoryOptions, pair};
use ringway_device::{Device, Medium};
use ringway_shm::ArenaConfig;
use ringway_stack::Instant;
use ringway_stack::wire::{icmpv4, icmpv6, ipv4, ipv6};

use super::hop::{Hop, Manner, Narrow};
use super::*;

fn arena() -> Arena {
    Arena::new(ArenaConfig { large: 64, small: 64 })
}

/// Makes an IPv4 packet with `len` bytes of data that count up.
fn ipv4_packet(len: usize) -> Packet {
    let mut network = vec![0; ipv4::HEADER_LEN];
    let (source, destination) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    ipv4::Header::atomic(source, destination, 6, 64, (20 + len) as u16).write(&mut network);
    network.extend((0..len).map(|at| at as u8));
    Packet { link: Vec::new(), network }
}

fn ipv6_packet(len: usize) -> Packet {
    let mut network = vec![0; ipv6::HEADER_LEN];
    let [source, destination] = ["fd00::1", "fd00::2"].map(|text| text.parse().expect("an address"));
    let payload_len = len as u16;
    ipv6::Header { traffic_class: 0, flow_label: 0, payload_len, next_header: 6, hop_limit: 64, source, destination }
        .write(&mut network);
    network.resize(ipv6::HEADER_LEN + len, 7);
    Packet { link: Vec::new(), network }
}

/// Returns the packets that pass a hop, and the messages that it sends back.
fn through(narrow: Narrow, packet: &Packet) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let arenas = [arena(), arena()];
    let (left, mut right) = pair(&arenas[0], &arenas[1], MemoryOptions { medium: Medium::Ip, ..MemoryOptions::default() });
    let mut hop = Hop::new(Box::new(left), &arenas[0], Some(narrow));
    let mut burst = Burst::default();
    packet.push(&arenas[0], &mut burst);
    hop.transmit(Instant::ZERO, &mut burst).expect("memory does not fail");
    let mut ends: [&mut dyn Device; 2] = [&mut right, &mut hop];
    let [passed, told] = [0, 1].map(|end| {
        let (mut burst, mut packets) = (Burst::default(), Vec::new());
        ends[end].receive(Instant::ZERO, &mut burst).expect("memory does not fail");
        while !burst.is_empty() {
            packets.push(Packet::copy(0, &take(&mut burst)).expect("a packet").network);
        }
        packets
    });
    (passed, told)
}

/// RFC 791 §3.2: fragments of multiples of eight bytes whose data, concatenated, is the packet's.
#[test]
fn a_hop_cuts() {
    let packet = ipv4_packet(1_400);
    let (passed, told) = through(Narrow { mtu: 600, manner: Manner::Cuts }, &packet);
    assert_eq!((passed.len(), told.len()), (3, 0));
    let headers: Vec<ipv4::Header> = passed.iter().map(|piece| ipv4::Header::parse(piece).expect("a header")).collect();
    let places: Vec<(u16, bool)> = headers.iter().map(|header| (header.fragment_offset, header.more_fragments)).collect();
    assert_eq!(places, [(0, true), (576, true), (1_152, false)]);
    assert!(headers.iter().all(|header| header.identification == headers[0].identification && !header.dont_fragment));
    let data: Vec<u8> = passed.iter().flat_map(|piece| piece[20..].to_vec()).collect();
    assert_eq!(data, packet.network[20..]);
}

/// RFC 1191 §4, RFC 8201 §4: the MTU of the next link, and the head of the packet that was too large.
#[test]
fn a_hop_tells() {
    let (passed, told) = through(Narrow { mtu: 600, manner: Manner::Tells }, &ipv4_packet(1_400));
    assert_eq!((passed.len(), told.len()), (0, 1));
    let message = icmpv4::Header::parse(&told[0][20..]).expect("a message");
    assert_eq!((message.kind, message.code, message.low), (3, 4, 600));
    assert_eq!(told[0][28..48], ipv4_packet(1_400).network[..20]);
    for manner in [Manner::Tells, Manner::Cuts] {
        let (passed, told) = through(Narrow { mtu: 1_280, manner }, &ipv6_packet(1_400));
        assert_eq!((passed.len(), told.len()), (0, 1));
        let message = icmpv6::Header::parse(&told[0][40..]).expect("a message");
        assert_eq!((message.kind, message.word, told[0].len()), (icmpv6::PACKET_TOO_BIG, 1_280, 1_280));
    }
}

/// RFC 2923 §2.1: a black hole sends nothing; a packet that fits passes.
#[test]
fn a_hop_swallows() {
    assert_eq!(through(Narrow { mtu: 600, manner: Manner::Swallows }, &ipv4_packet(1_400)), (vec![], vec![]));
    let fits = ipv4_packet(580);
    assert_eq!(through(Narrow { mtu: 600, manner: Manner::Swallows }, &fits), (vec![fits.network.clone()], vec![]));
}
