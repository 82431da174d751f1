use super::super::tests::{OWN, OWN_MAC, PEER, PEER_MAC, Rig, env, from_peer, ms, tcp_segment};
use super::*;
use crate::address::MacAddress;
use crate::wire::ethernet as wire_ethernet;
use alloc::vec::Vec;
use ringway_shm::Class;

fn rig() -> Rig {
    Rig::new(Medium::Ethernet, Role::Owned)
}

fn delivered(rig: &mut Rig) -> Vec<Vec<u8>> {
    rig.datagrams.headers.clear();
    super::super::tests::packets(&mut rig.datagrams.packets)
}

/// A valid segment is delivered from its TCP header on, without the link's padding, complete in whatever frames it arrived.
#[test]
fn good_segments_are_delivered() {
    let mut rig = rig();
    let segment = tcp_segment(b"hello");
    let mut bytes = from_peer(6, &segment, |_| {});
    bytes.extend([0xee; 7]);
    for piece in [1900, 62, 60, 59, 58, 54] {
        rig.receive_in(ms(1), &bytes, piece);
        let header = rig.datagrams.headers[0];
        assert_eq!((header.local(), header.remote(), header.len), (OWN.into(), PEER.into(), 25));
        assert_eq!(delivered(&mut rig), core::slice::from_ref(&segment), "frames of {piece}");
    }
    assert_eq!(rig.count(Counter::IpInDelivers), 6);
}

/// A wrong bit anywhere in segment or addresses is detected; a checksum that the device has verified is not checked again.
/// RFC 9293 MUST-3.
#[test]
fn checksums_are_verified() {
    let mut rig = rig();
    let segment = tcp_segment(b"hello");
    for at in 0..segment.len() {
        let mut bad = segment.clone();
        bad[at] ^= 0x10;
        rig.receive(ms(1), &from_peer(6, &bad, |_| {}));
    }
    rig.receive(ms(1), &from_peer(6, &segment, |header| header.source = [10, 0, 0, 3].into()));
    assert_eq!(rig.count(Counter::TcpInCsumErrors), segment.len() as u64 + 1);
    assert!(delivered(&mut rig).is_empty());
    let mut unsummed = segment.clone();
    unsummed[16] ^= 0xff;
    for checksum in [Checksum::Verified, Checksum::Partial { start: 34, offset: 16 }] {
        let mut frame = rig.arena.alloc_from(&from_peer(6, &unsummed, |_| {})).expect("a frame");
        frame.set_checksum(checksum);
        let mut burst = Burst::default();
        burst.push(frame);
        rig.ip.receive(env!(rig, ms(1)), 0, &mut burst, &mut rig.datagrams);
        assert_eq!(delivered(&mut rig), [unsummed.clone()]);
    }
}

/// Bad headers, martians, fragments and truncated packets each have their counter, and nothing is delivered.
/// RFC 9293 MUST-57, MUST-63.
#[test]
fn bad_packets_are_counted() {
    let segment = tcp_segment(b"hello");
    let check = |bytes: &[u8], counter: Counter| {
        let mut rig = rig();
        rig.receive(ms(1), bytes);
        assert_eq!(rig.count(counter), 1, "{counter:?}");
        assert!(delivered(&mut rig).is_empty() && rig.transmit(ms(1)).is_empty());
    };
    let martians: [[u8; 4]; 8] =
        [[0; 4], [127, 0, 0, 1], [224, 0, 0, 1], [255; 4], [240, 0, 0, 1], OWN, [10, 0, 0, 255], [0, 1, 2, 3]];
    for source in martians {
        check(&from_peer(6, &segment, |header| header.source = source.into()), Counter::IpInAddrErrors);
    }
    for destination in [[10, 0, 0, 9], [10, 0, 0, 255], [255; 4], [224, 0, 0, 1]] {
        check(&from_peer(6, &segment, |header| header.destination = destination.into()), Counter::IpInAddrErrors);
    }
    // Length not a multiple of eight.
    check(&from_peer(6, &segment, |header| header.more_fragments = true), Counter::IpReasmFails);
    check(&from_peer(6, &segment, |header| header.total_len += 1), Counter::IpInHdrErrors);
    let good = from_peer(6, &segment, |_| {});
    for len in 14..34 {
        let counter = if len == 14 { Counter::DropMalformed } else { Counter::IpInHdrErrors };
        check(&good[..len], counter);
    }
    let with = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        bytes
    };
    check(&with(14, 0x65), Counter::DropMalformed);
    check(&with(12, 0x86), Counter::DropMalformed);
    check(&with(5, 9), Counter::DropMalformed);
    check(&with(24, 0), Counter::IpInHdrErrors);
    check(&good[..13], Counter::DropMalformed);
}

/// A broadcast or multicast frame must not carry a unicast packet (RFC 1122 §3.3.6). RFC 9293 MUST-57.
#[test]
fn unicast_in_broadcast_is_dropped() {
    let mut rig = rig();
    let mut bytes = from_peer(6, &tcp_segment(b"hello"), |_| {});
    bytes[..6].fill(0xff);
    rig.receive(ms(1), &bytes);
    assert_eq!(rig.count(Counter::IpInAddrErrors), 1);
    assert!(delivered(&mut rig).is_empty());
}

/// The packets of a burst keep their order, and bad ones between them do no harm.
#[test]
fn bursts_keep_order() {
    let mut rig = rig();
    let mut burst = Burst::default();
    for number in 0..20u8 {
        let mut bytes = from_peer(6, &tcp_segment(&[number; 3]), |_| {});
        if number % 3 == 0 {
            bytes[40] ^= 1;
        }
        burst.push(rig.arena.alloc_from(&bytes).expect("a frame"));
    }
    rig.ip.receive(env!(rig, ms(1)), 0, &mut burst, &mut rig.datagrams);
    assert!(burst.is_empty());
    assert_eq!(rig.datagrams.headers.len(), 13);
    let numbers: Vec<u8> = delivered(&mut rig).iter().map(|segment| segment[20]).collect();
    assert_eq!(numbers, [1, 2, 4, 5, 7, 8, 10, 11, 13, 14, 16, 17, 19]);
}

/// On a link without Ethernet packets start with the IP header.
#[test]
fn links_without_ethernet() {
    let mut rig = Rig::new(Medium::Ip, Role::Owned);
    let segment = tcp_segment(b"hello");
    rig.receive(ms(1), &from_peer(6, &segment, |_| {})[14..]);
    assert_eq!(delivered(&mut rig), [segment]);
}

fn arp_request(sender_ip: [u8; 4], target_ip: [u8; 4]) -> Vec<u8> {
    let packet = arp_wire::Packet {
        operation: arp_wire::Operation::Request,
        sender_mac: PEER_MAC,
        sender_ip: sender_ip.into(),
        target_mac: MacAddress::default(),
        target_ip: target_ip.into(),
    };
    let mut bytes = alloc::vec![0; 42];
    let header =
        wire_ethernet::Header { destination: MacAddress::BROADCAST, source: PEER_MAC, ether_type: wire_ethernet::TYPE_ARP };
    header.write(&mut bytes[..14]);
    packet.write(&mut bytes[14..]);
    bytes
}

/// RFC 826: a request for our address is answered and its sender recorded; a request for another address is not. A probe
/// (RFC 5227) is answered, but has no sender to record.
#[test]
fn arp_requests_are_answered() {
    let mut rig = rig();
    rig.receive(ms(1), &arp_request(PEER, OWN));
    let sent = rig.transmit(ms(1));
    let reply = arp_wire::Packet::parse(&sent[0][14..]).expect("an ARP packet");
    assert_eq!(&sent[0][..6], &PEER_MAC.0);
    assert_eq!((reply.operation, reply.sender_mac, reply.target_mac), (arp_wire::Operation::Reply, OWN_MAC, PEER_MAC));
    assert_eq!((reply.sender_ip, reply.target_ip), (OWN.into(), PEER.into()));
    assert_eq!(rig.ip.neighbors.lookup(ms(2), (0, PEER.into())), Some(PEER_MAC));
    rig.receive(ms(3), &arp_request([0; 4], OWN));
    assert_eq!(rig.transmit(ms(3)).len(), 1);
    rig.receive(ms(4), &arp_request([10, 0, 0, 3], [10, 0, 0, 4]));
    assert!(rig.transmit(ms(4)).is_empty());
    assert_eq!(rig.ip.neighbors.lookup(ms(4), (0, [10, 0, 0, 3].into())), None);
}

/// Off-link senders and claims to our own address are not believed; a shared interface leaves ARP to the kernel.
#[test]
fn arp_lies_are_not_believed() {
    let mut rig = rig();
    rig.receive(ms(1), &arp_request([192, 168, 9, 9], OWN));
    assert_eq!(rig.ip.neighbors.lookup(ms(1), (0, [192, 168, 9, 9].into())), None);
    rig.receive(ms(1), &arp_request(OWN, OWN));
    assert_eq!(rig.ip.neighbors.lookup(ms(1), (0, OWN.into())), None);
    let mut shared = Rig::new(Medium::Ethernet, Role::Shared);
    shared.receive(ms(1), &arp_request(PEER, OWN));
    assert!(shared.transmit(ms(1)).is_empty());
}

/// Random bytes in random frames: nothing panics and no frame is lost (seeded).
#[test]
fn hostile_bytes() {
    let mut state = 1u64;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for medium in [Medium::Ethernet, Medium::Ip] {
        let mut rig = Rig::new(medium, Role::Owned);
        for step in 0..20_000u64 {
            let mut bytes = match random(4) {
                0 => arp_request(PEER, OWN),
                1 => from_peer(1, &[8, 0, 0xf7, 0xff, 0, 0, 0, 0], |_| {}),
                2 => from_peer(17, b"a datagram of UDP", |_| {}),
                _ => from_peer(6, &tcp_segment(b"hello"), |_| {}),
            };
            if medium == Medium::Ip {
                bytes.drain(..14);
            }
            for _ in 0..random(4) {
                let at = random(bytes.len());
                bytes[at] = random(256) as u8;
            }
            if random(4) == 0 {
                bytes.truncate(1 + random(bytes.len()));
            }
            rig.receive_in(ms(step), &bytes, 1 + random(60));
            rig.ip.handle_timeout(ms(step));
            rig.transmit(ms(step));
            while rig.ip.poll_error().is_some() {}
            delivered(&mut rig);
        }
        rig.ip.handle_timeout(ms(10_000_000));
        rig.ip.handle_timeout(ms(20_000_000));
        assert_eq!((rig.arena.free(Class::Large), rig.arena.free(Class::Small)), (64, 64));
        assert!(rig.count(Counter::IpInDelivers) > 100);
    }
}
