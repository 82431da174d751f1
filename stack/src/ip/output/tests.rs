use super::super::tests::{OWN, OWN_MAC, PEER, PEER_MAC, Rig, env, ms, packets};
use super::super::{Interface, Role};
use super::*;
use alloc::vec::Vec;
use ringway_shm::Class;

fn flow() -> Flow {
    Flow { local: OWN.into(), remote: PEER.into(), protocol: 6, tos: 0x28, ttl: 0, ports: (80, 1_000) }
}

fn send(rig: &mut Rig, now: Instant, flow: &Flow, payload: &[u8]) -> Vec<Vec<u8>> {
    let mut burst = Burst::default();
    burst.push(rig.arena.alloc_from(payload).expect("a frame"));
    let mut out = [Burst::default()];
    rig.ip.send(env!(rig, now), flow, &mut burst, &mut out);
    packets(&mut out[0])
}

/// A template writes the same bytes as the slow path, for every length, on both kinds of link.
#[test]
fn templates_agree_with_the_slow_path() {
    for medium in [Medium::Ethernet, Medium::Ip] {
        let mut rig = Rig::new(medium, Role::Shared);
        rig.ip.set_neighbor(0, PEER.into(), Some(PEER_MAC));
        let template = rig.ip.template(ms(0), &flow()).expect("the neighbor is known");
        assert_eq!(template.generation, rig.ip.generation());
        for len in [20usize, 21, 255, 256, 1000, 1480] {
            let payload = alloc::vec![7; len];
            let mut frame = rig.arena.alloc(Class::Large).expect("a frame");
            frame.extend(len).copy_from_slice(&payload);
            template.push_headers(&mut frame, len);
            // Without and with a header cache entry.
            for at in [ms(5_000), ms(0)] {
                assert_eq!([frame.bytes()], *send(&mut rig, at, &flow(), &payload), "{medium:?}, {len} bytes");
            }
        }
        let pseudo = checksum::pseudo_header(OWN.into(), PEER.into(), 6, 0);
        assert_eq!(template.pseudo_sum, pseudo);
    }
}

/// On a shared interface a miss asks the kernel; packets wait in order, and leave when it answers.
#[test]
fn packets_wait_for_the_neighbor() {
    let mut rig = Rig::new(Medium::Ethernet, Role::Shared);
    assert_eq!(rig.ip.template(ms(0), &flow()).err(), Some(OutputError::Unresolved));
    assert_eq!(rig.ip.poll_resolve(), Some((0, PEER.into())));
    for number in 0..3 {
        assert!(send(&mut rig, ms(0), &flow(), &[number; 30]).is_empty());
    }
    assert_eq!(rig.ip.poll_resolve(), None, "asked once");
    let before = rig.ip.generation();
    rig.ip.set_neighbor(0, PEER.into(), Some(PEER_MAC));
    assert_ne!(rig.ip.generation(), before);
    let sent = rig.transmit(ms(1));
    let numbers: Vec<u8> = sent.iter().map(|packet| packet[34]).collect();
    assert_eq!(numbers, [0, 1, 2]);
    assert_eq!((&sent[0][..6], &sent[0][6..12]), (&PEER_MAC.0[..], &OWN_MAC.0[..]));
    assert!(ipv4::Header::parse(&sent[0][14..]).is_some());
}

/// ARP: the request is broadcast, the answer releases the packet; a router's answer serves the hosts behind it.
#[test]
fn arp_resolves_the_next_hop() {
    let mut rig = Rig::new(Medium::Ethernet, Role::Owned);
    let far = Flow { remote: [8, 8, 8, 8].into(), ..flow() };
    assert!(send(&mut rig, ms(0), &far, &[1; 30]).is_empty());
    let sent = rig.transmit(ms(0));
    let question = crate::wire::arp::Packet::parse(&sent[0][14..]).expect("an ARP packet");
    assert_eq!(&sent[0][..6], &MacAddress::BROADCAST.0);
    assert_eq!((question.sender_ip, question.target_ip), (OWN.into(), [10, 0, 0, 254].into()));
    let answer = crate::wire::arp::Packet {
        operation: crate::wire::arp::Operation::Reply,
        sender_mac: PEER_MAC,
        sender_ip: question.target_ip,
        target_mac: OWN_MAC,
        target_ip: OWN.into(),
    };
    let mut bytes = alloc::vec![0; 42];
    crate::wire::ethernet::Header { destination: OWN_MAC, source: PEER_MAC, ether_type: crate::wire::ethernet::TYPE_ARP }
        .write(&mut bytes[..14]);
    answer.write(&mut bytes[14..]);
    rig.receive(ms(1), &bytes);
    let sent = rig.transmit(ms(1));
    assert_eq!((sent.len(), &sent[0][..6]), (1, &PEER_MAC.0[..]));
    assert_eq!(ipv4::Header::parse(&sent[0][14..]).expect("a good header").destination.octets(), [8, 8, 8, 8]);
}

/// Without a route, or with an address that is not ours, nothing leaves.
#[test]
fn no_route() {
    let mut rig = Rig::new(Medium::Ethernet, Role::Owned);
    rig.ip.set_routes(Vec::new());
    assert_eq!(rig.ip.template(ms(0), &flow()).err(), Some(OutputError::NoRoute));
    assert!(send(&mut rig, ms(0), &flow(), &[1; 30]).is_empty());
    assert_eq!(rig.count(Counter::IpOutNoRoutes), 1);
    assert_eq!(rig.arena.free(Class::Small), 64);
}

/// Multi-frame packets keep their shape, and each interface gets its own packets.
#[test]
fn packets_of_many_frames() {
    let mut rig = Rig::new(Medium::Ethernet, Role::Shared);
    rig.ip.set_neighbor(0, PEER.into(), Some(PEER_MAC));
    let second: Interface = Interface { name: "wire1".into(), ..rig.ip.interfaces[0].interface.clone() };
    rig.ip.add_interface(second);
    let mut burst = Burst::default();
    for number in 0..6u8 {
        let mut frame = rig.arena.alloc_from(&[number; 50]).expect("a frame");
        frame.set_continues(number % 3 != 2);
        burst.push(frame);
    }
    let mut out = [Burst::default(), Burst::default()];
    rig.ip.send(env!(rig, ms(0)), &flow(), &mut burst, &mut out);
    assert_eq!((burst.packets(), out[0].packets(), out[1].packets()), (1, 1, 0));
    let sent = packets(&mut out[0]);
    assert_eq!((sent[0].len(), sent[0][34], sent[0][183]), (184, 0, 2));
    assert_eq!(ipv4::Header::parse(&sent[0][14..]).expect("a good header").total_len, 170);
}

fn flow6() -> Flow {
    Flow { local: super::super::tests::OWN6.into(), remote: super::super::tests::PEER6.into(), ..flow() }
}

/// IPv6: a template writes the same bytes as the slow path, and fills its cache line to the last byte on Ethernet.
#[test]
fn ipv6_templates_agree_with_the_slow_path() {
    for medium in [Medium::Ethernet, Medium::Ip] {
        let mut rig = Rig::ipv6(medium, Role::Shared);
        rig.ip.set_neighbor(0, flow6().remote, Some(PEER_MAC));
        let template = rig.ip.template(ms(0), &flow6()).expect("the neighbor is known");
        assert_eq!((template.is_ipv6(), template.addresses()), (true, (flow6().local, flow6().remote)));
        assert_eq!(template.len(), if medium == Medium::Ethernet { 54 } else { 40 });
        for len in [20usize, 21, 255, 256, 1000, 1440] {
            let payload = alloc::vec![7; len];
            let mut frame = rig.arena.alloc(Class::Large).expect("a frame");
            frame.extend(len).copy_from_slice(&payload);
            template.push_headers(&mut frame, len);
            let sent = send(&mut rig, ms(0), &flow6(), &payload);
            assert_eq!([frame.bytes()], *sent, "{medium:?}, {len} bytes");
            let header = ipv6::Header::parse(&frame.bytes()[template.len() - 40..]).expect("a good header");
            assert_eq!((header.payload_len as usize, header.hop_limit, header.traffic_class), (len, 64, 0x28));
        }
        assert_eq!(template.pseudo_sum, checksum::pseudo_header(flow6().local, flow6().remote, 6, 0));
    }
}

/// RFC 6437: a flow keeps its label, another flow has another one, and none has the label zero.
#[test]
fn flow_labels() {
    let rig = Rig::ipv6(Medium::Ethernet, Role::Shared);
    let label = |port: u16| rig.ip.flow_label(&Flow { ports: (80, port), ..flow6() });
    assert_eq!(label(1_000), label(1_000));
    let mut labels: Vec<u32> = (0..1_000).map(label).collect();
    labels.sort_unstable();
    labels.dedup();
    assert!(labels.len() > 990 && labels.iter().all(|label| (1..=ipv6::FLOW_LABEL_MASK).contains(label)));
}

/// IEEE 802.1Q: on a tagged interface templates and the slow path agree, the tag is in its place, and ECN bits are found.
#[test]
fn tagged_templates() {
    for flow in [flow(), flow6()] {
        let mut rig = Rig::ipv6(Medium::Ethernet, Role::Shared);
        rig.ip.interfaces[0].interface.vlan = Some(0x123);
        rig.ip.set_neighbor(0, flow.remote, Some(PEER_MAC));
        let flow = Flow { tos: 0x29, ..flow };
        let template = rig.ip.template(ms(0), &flow).expect("the neighbor is known");
        for len in [20usize, 1000] {
            let payload = alloc::vec![7; len];
            let mut frame = rig.arena.alloc(Class::Large).expect("a frame");
            frame.extend(len).copy_from_slice(&payload);
            template.push_headers(&mut frame, len);
            assert_eq!([frame.bytes()], *send(&mut rig, ms(0), &flow, &payload));
            let ether_type = if flow.remote.is_ipv4() { [0x08, 0x00] } else { [0x86, 0xdd] };
            assert_eq!((&frame.bytes()[12..16], &frame.bytes()[16..18]), (&[0x81, 0, 0x01, 0x23][..], &ether_type[..]));
            template.clear_ecn(frame.bytes_mut());
            let cleared = send(&mut rig, ms(0), &Flow { tos: 0x28, ..flow }, &payload);
            assert_eq!([frame.bytes()], *cleared);
        }
    }
}
