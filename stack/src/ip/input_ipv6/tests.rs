use super::super::tests::{OWN6, OWN6_LINK, PEER6, Rig, from_peer6, ms, packets, tcp_segment6};
use super::super::{Medium, Role};
use super::*;
use alloc::vec::Vec;
use core::net::Ipv6Addr;
use ringway_shm::Class;

fn rig() -> Rig {
    Rig::ipv6(Medium::Ethernet, Role::Owned)
}

fn delivered(rig: &mut Rig) -> Vec<Vec<u8>> {
    rig.datagrams.headers.clear();
    packets(&mut rig.datagrams.packets)
}

/// A valid segment is delivered from its TCP header on, without the link's padding, complete in whatever frames it arrived,
/// with and without extension headers.
#[test]
fn good_segments_are_delivered() {
    let segment = tcp_segment6(b"hello");
    let mut extended = alloc::vec![60, 0, 1, 4, 0, 0, 0, 0, 6, 0, 1, 4, 0, 0, 0, 0];
    extended.extend(&segment);
    for (next_header, payload, first) in [(6, &segment, 74), (0, &extended, 90)] {
        let mut rig = rig();
        let mut bytes = from_peer6(next_header, payload, |header| header.traffic_class = 3);
        bytes.extend([0xee; 7]);
        for piece in [1900, first + 4, first + 2, first] {
            rig.receive_in(ms(1), &bytes, piece);
            let header = rig.datagrams.headers[0];
            assert_eq!((header.local(), header.remote(), header.len, header.tos), (OWN6.into(), PEER6.into(), 25, 3));
            assert_eq!(delivered(&mut rig), core::slice::from_ref(&segment), "frames of {piece}");
        }
        assert_eq!(rig.count(Counter::IpInDelivers), 4);
    }
}

/// A wrong bit anywhere in segment or addresses is detected.
#[test]
fn checksums_are_verified() {
    let mut rig = rig();
    let segment = tcp_segment6(b"hello");
    for at in 0..segment.len() {
        let mut bad = segment.clone();
        bad[at] ^= 0x10;
        rig.receive(ms(1), &from_peer6(6, &bad, |_| {}));
    }
    let elsewhere: Ipv6Addr = "2001:db8::3".parse().expect("an address");
    rig.receive(ms(1), &from_peer6(6, &segment, |header| header.source = elsewhere));
    assert_eq!(rig.count(Counter::TcpInCsumErrors), segment.len() as u64 + 1);
    assert!(delivered(&mut rig).is_empty());
}

/// Packets without a source, from ourselves, from a multicast address or for others are dropped and counted; so are bad
/// lengths.
#[test]
fn bad_packets_are_counted() {
    let segment = tcp_segment6(b"hello");
    let check = |bytes: &[u8], counter: Counter| {
        let mut rig = rig();
        rig.receive(ms(1), bytes);
        assert_eq!(rig.count(counter), 1, "{counter:?}");
        assert!(delivered(&mut rig).is_empty() && rig.transmit(ms(1)).is_empty());
    };
    let ip = |text: &str| -> Ipv6Addr { text.parse().expect("an address") };
    for source in ["::", "::1", "ff02::1", "::ffff:10.0.0.2", "2001:db8::1"] {
        check(&from_peer6(6, &segment, |header| header.source = ip(source)), Counter::IpInAddrErrors);
    }
    for destination in ["2001:db8::9", "::1", "ff02::1", "ff02::99", "::ffff:10.0.0.1", "::"] {
        check(&from_peer6(6, &segment, |header| header.destination = ip(destination)), Counter::IpInAddrErrors);
    }
    check(&from_peer6(6, &segment, |header| header.payload_len += 1), Counter::IpInHdrErrors);
    check(&from_peer6(44, &[6, 0, 0, 1, 0, 0, 0, 1, 0, 0], |_| {}), Counter::IpReasmFails);
    let mut in_broadcast = from_peer6(6, &segment, |_| {});
    in_broadcast[..6].fill(0xff);
    check(&in_broadcast, Counter::IpInAddrErrors);
    let good = from_peer6(6, &segment, |_| {});
    for len in 15..54 {
        check(&good[..len], Counter::IpInHdrErrors);
    }
    let mut other_version = good.clone();
    other_version[14] = 0x45;
    check(&other_version, Counter::DropMalformed);
}

/// A link-local address is ours on its own link only.
#[test]
fn link_local_addresses_stay_on_their_link() {
    let mut rig = rig();
    let second = super::super::Interface { name: "wire1".into(), ..rig.ip.interfaces[0].interface.clone() };
    let second = rig.ip.add_interface(second);
    let header = |source| Header {
        traffic_class: 0,
        flow_label: 0,
        payload_len: 0,
        next_header: 6,
        hop_limit: 1,
        source,
        destination: OWN6_LINK,
    };
    assert_eq!(rig.ip.audience(0, &header(PEER6)), Some(Audience::Us));
    assert_eq!(rig.ip.audience(second, &header(PEER6)), None);
}

/// A packet that nothing handles is refused with the error and its offset; a multicast packet only where RFC 4443 requires
/// it.
#[test]
fn refusals() {
    let told = |bytes: &[u8]| {
        let mut rig = rig();
        rig.ip.set_neighbor(0, PEER6.into(), Some(super::super::tests::PEER_MAC));
        rig.receive(ms(1_000), bytes);
        let sent = rig.transmit(ms(1_000));
        sent.first().map(|packet| {
            let header = Header::parse(&packet[14..]).expect("a good header");
            assert_eq!((header.source, header.destination, header.next_header), (OWN6, PEER6, PROTOCOL_ICMP));
            let pseudo = crate::wire::checksum::pseudo_header(OWN6.into(), PEER6.into(), 58, header.payload_len.into());
            assert_eq!(crate::wire::checksum::add(pseudo, crate::wire::checksum::sum(&packet[54..])), 0xffff);
            assert_eq!(packet[62..], bytes[14..], "the whole packet is quoted");
            (packet[54], packet[55], packet[61])
        })
    };
    let datagram = [0, 1, 0, 2, 0, 8, 0, 0];
    assert_eq!(told(&from_peer6(132, &datagram, |_| {})), Some((4, 1, 6)));
    let routing = [6, 0, 0, 1, 0, 0, 0, 0];
    assert_eq!(told(&from_peer6(43, &routing, |_| {})), Some((4, 0, 42)));
    let option = |kind| [6, 0, kind, 4, 0, 0, 0, 0];
    assert_eq!(told(&from_peer6(60, &option(0xc5), |_| {})), Some((4, 2, 42)));
    assert_eq!(told(&from_peer6(60, &option(0x45), |_| {})), None);
    let to_all = |header: &mut Header| header.destination = ipv6::ALL_NODES;
    assert_eq!(told(&from_peer6(60, &option(0x85), to_all)), Some((4, 2, 42)));
    assert_eq!(told(&from_peer6(60, &option(0xc5), to_all)), None);
    assert_eq!(told(&from_peer6(132, &datagram, to_all)), None);
    let mut shared = Rig::ipv6(Medium::Ethernet, Role::Shared);
    shared.receive(ms(1), &from_peer6(132, &datagram, |_| {}));
    assert!(shared.transmit(ms(1)).is_empty(), "the kernel answers");
}

/// Random bytes in random frames: nothing panics and no frame is lost (seeded).
#[test]
fn hostile_bytes() {
    let mut state = 6u64;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for medium in [Medium::Ethernet, Medium::Ip] {
        let mut rig = Rig::ipv6(medium, Role::Owned);
        for step in 0..20_000u64 {
            let kinds = [0, 6, 17, 43, 44, 58, 59, 60];
            let mut payload: Vec<u8> = (0..random(90)).map(|_| random(256) as u8).collect();
            if random(2) == 0 && payload.len() > 2 {
                payload[0] = kinds[random(kinds.len())];
                payload[1] = random(3) as u8;
            }
            let next_header = kinds[random(kinds.len())];
            let mut bytes = match random(3) {
                0 => from_peer6(6, &tcp_segment6(b"hello"), |_| {}),
                1 => super::super::tests::icmpv6_from_peer(
                    &[[128 + random(16) as u8, 0, 0, 0].as_slice(), &payload].concat(),
                    |header| header.hop_limit = 255,
                ),
                _ => from_peer6(next_header, &payload, |_| {}),
            };
            for _ in 0..random(3) {
                let at = random(bytes.len());
                bytes[at] = random(256) as u8;
            }
            if medium == Medium::Ip {
                bytes.drain(..14);
            }
            // Echo replies wait three seconds for neighbors that do not exist.
            let now = ms(step * 1_000);
            rig.receive_in(now, &bytes, 20 + random(90));
            rig.ip.handle_timeout(now);
            rig.transmit(now);
            while rig.ip.poll_error().is_some() {}
            delivered(&mut rig);
        }
        for _ in 0..100 {
            rig.ip.handle_timeout(ms(100_000_000));
            rig.ip.handle_timeout(ms(200_000_000));
        }
        assert_eq!((rig.arena.free(Class::Large), rig.arena.free(Class::Small)), (64, 64));
        assert!(rig.count(Counter::IpInDelivers) > 100);
    }
}
