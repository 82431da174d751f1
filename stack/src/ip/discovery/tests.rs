use super::super::tests::{OWN_MAC, OWN6, PEER_MAC, PEER6, PEER6_LINK, ROUTER6, Rig, env, icmpv6_from_peer, ms, tcp_segment6};
use super::super::{Flow, OutputError};
use super::*;
use alloc::vec;
use alloc::vec::Vec;
use ringway_shm::Burst;

fn rig() -> Rig {
    Rig::ipv6(Medium::Ethernet, Role::Owned)
}

/// Makes a message of the peer, as it arrives.
fn said(message: &Message, source: Ipv6Addr, destination: Ipv6Addr) -> Vec<u8> {
    let mut bytes = vec![0; message.len()];
    message.write(&mut bytes);
    icmpv6_from_peer(&bytes, |header| {
        header.source = source;
        header.destination = destination;
        header.hop_limit = 255;
    })
}

/// Parses a message that we sent: link destination, source, destination, content.
fn parse(packet: &[u8]) -> (MacAddress, Ipv6Addr, Ipv6Addr, Message) {
    let header = ipv6::Header::parse(&packet[14..]).expect("a good header");
    assert_eq!((header.hop_limit, header.next_header), (255, 58));
    let pseudo =
        crate::wire::checksum::pseudo_header(header.source.into(), header.destination.into(), 58, header.payload_len.into());
    assert_eq!(crate::wire::checksum::add(pseudo, crate::wire::checksum::sum(&packet[54..])), 0xffff);
    let mac = MacAddress(packet[..6].try_into().expect("six bytes"));
    (mac, header.source, header.destination, Message::parse(&packet[54..]).expect("a good message"))
}

fn solicitation(target: Ipv6Addr, source_link: Option<MacAddress>) -> Message {
    Message::NeighborSolicitation { target, source_link, nonce: None }
}

fn advertisement(target: Ipv6Addr, target_link: Option<MacAddress>, solicited: bool, overrides: bool) -> Message {
    Message::NeighborAdvertisement { target, target_link, router: false, solicited, overrides }
}

/// §7.2.4: a solicitation for our address is answered, and its sender recorded when it names its link address; a
/// solicitation for another address is ignored.
#[test]
fn solicitations_are_answered() {
    let mut rig = rig();
    let group = ipv6::solicited_node(OWN6);
    rig.receive(ms(1), &said(&solicitation(OWN6, Some(PEER_MAC)), PEER6, group));
    let sent = rig.transmit(ms(1));
    assert_eq!(sent.len(), 1);
    assert_eq!(parse(&sent[0]), (PEER_MAC, OWN6, PEER6, advertisement(OWN6, Some(OWN_MAC), true, true)));
    assert_eq!(rig.ip.neighbors.lookup(ms(1), (0, PEER6.into())), Some(PEER_MAC));
    // A host that checks its address (DAD) gets our answer through the all-nodes group.
    rig.receive(ms(2), &said(&solicitation(OWN6, None), Ipv6Addr::UNSPECIFIED, group));
    let sent = rig.transmit(ms(2));
    let all = MacAddress::of_group(ipv6::ALL_NODES.into());
    let to_all: Vec<_> = sent.iter().map(|packet| parse(packet)).filter(|(mac, ..)| *mac == all).collect();
    assert_eq!(to_all, [(all, OWN6, ipv6::ALL_NODES, advertisement(OWN6, Some(OWN_MAC), false, true))]);
    rig.receive(ms(3), &said(&solicitation(PEER6, Some(PEER_MAC)), PEER6_LINK, group));
    assert!(rig.transmit(ms(3)).is_empty());
}

/// §7.1.1: messages that a router has forwarded, that name no host or that are not allowed are dropped and counted.
#[test]
fn bad_solicitations() {
    let group = ipv6::solicited_node(OWN6);
    let mut cases = vec![
        said(&solicitation(OWN6, Some(PEER_MAC)), Ipv6Addr::UNSPECIFIED, group),
        said(&solicitation(OWN6, None), Ipv6Addr::UNSPECIFIED, ipv6::ALL_NODES),
    ];
    let mut routed = vec![0; 24];
    solicitation(OWN6, None).write(&mut routed);
    cases.push(icmpv6_from_peer(&routed, |header| header.hop_limit = 254));
    routed[1] = 1;
    cases.push(icmpv6_from_peer(&routed, |header| header.hop_limit = 255));
    for case in cases {
        let mut rig = rig();
        rig.receive(ms(1), &case);
        assert_eq!((rig.count(Counter::IcmpInErrors), rig.transmit(ms(1)).len()), (1, 0));
    }
}

fn flow(remote: Ipv6Addr) -> Flow {
    Flow { local: OWN6.into(), remote: remote.into(), protocol: 6, tos: 0, ttl: 0, ports: (80, 1_000) }
}

fn send(rig: &mut Rig, now: Instant, remote: Ipv6Addr) -> usize {
    let mut burst = Burst::default();
    burst.push(rig.arena.alloc_from(&tcp_segment6(b"")).expect("a frame"));
    let mut out = [Burst::default()];
    rig.ip.send(env!(rig, now), &flow(remote), &mut burst, &mut out);
    out[0].packets()
}

/// §7.2.2: the solicitation goes to the group of the target, and the answer releases the packet; a router's answer serves
/// the hosts behind it.
#[test]
fn resolution() {
    for (remote, next_hop) in [(PEER6, PEER6), ("2400::1".parse().expect("an address"), ROUTER6)] {
        let mut rig = rig();
        assert_eq!(send(&mut rig, ms(0), remote), 0);
        assert_eq!(rig.ip.template(ms(0), &flow(remote)).err(), Some(OutputError::Unresolved));
        let sent = rig.transmit(ms(0));
        assert_eq!(sent.len(), 1);
        let (mac, source, to, message) = parse(&sent[0]);
        let group = ipv6::solicited_node(next_hop);
        assert_eq!((mac, to, message), (MacAddress::of_group(group.into()), group, solicitation(next_hop, Some(OWN_MAC))));
        rig.receive(ms(1), &said(&advertisement(next_hop, Some(PEER_MAC), true, true), next_hop, source));
        let sent = rig.transmit(ms(1));
        assert_eq!((sent.len(), &sent[0][..6], &sent[0][12..15]), (1, &PEER_MAC.0[..], &[0x86, 0xdd, 0x60][..]));
        assert!(rig.ip.template(ms(1), &flow(remote)).is_ok());
    }
}

/// §7.2.2, §7.2.5: three solicitations, then the flow gets "host unreachable". Unsolicited answers create no entry.
#[test]
fn a_silent_neighbor() {
    let mut rig = rig();
    rig.receive(ms(0), &said(&advertisement(PEER6, Some(PEER_MAC), true, true), PEER6, OWN6));
    assert!(!rig.ip.neighbors.knows((0, PEER6.into())));
    send(&mut rig, ms(0), PEER6);
    for second in 0..3 {
        assert_eq!(rig.transmit(ms(second * 1_000)).len(), 1, "a question each second");
        rig.ip.handle_timeout(ms(second * 1_000 + 1_000));
    }
    let error = rig.ip.poll_error().expect("an error");
    assert_eq!((error.remote, error.kind), (PEER6.into(), super::super::IcmpErrorKind::HostUnreachable));
    assert!(rig.transmit(ms(3_000)).is_empty());
}

/// §7.3: a minute after the answer the next packet still goes; without confirmation within five seconds the neighbor itself
/// is probed.
#[test]
fn reachability_is_confirmed() {
    let mut rig = rig();
    send(&mut rig, ms(0), PEER6);
    rig.receive(ms(0), &said(&advertisement(PEER6, Some(PEER_MAC), true, true), PEER6, OWN6));
    rig.transmit(ms(0));
    rig.ip.handle_timeout(ms(60_000));
    assert_eq!(send(&mut rig, ms(61_000), PEER6), 1);
    assert!(rig.transmit(ms(61_000)).is_empty() && rig.ip.has_doubted_neighbors());
    rig.ip.confirm(ms(65_000), OWN6.into(), PEER6.into());
    rig.ip.handle_timeout(ms(66_000));
    assert!(rig.transmit(ms(66_000)).is_empty() && !rig.ip.has_doubted_neighbors());
    rig.ip.handle_timeout(ms(125_000));
    assert_eq!(send(&mut rig, ms(130_000), PEER6), 1);
    rig.ip.handle_timeout(ms(135_000));
    let sent = rig.transmit(ms(135_000));
    let (mac, _, to, message) = parse(&sent[0]);
    assert_eq!((mac, to, message), (PEER_MAC, PEER6, solicitation(PEER6, Some(OWN_MAC))));
}

/// On a shared interface the kernel does discovery: nothing is answered, nothing learnt, and misses go to the kernel.
#[test]
fn the_kernel_discovers_on_shared_interfaces() {
    let mut rig = Rig::ipv6(Medium::Ethernet, Role::Shared);
    rig.receive(ms(1), &said(&solicitation(OWN6, Some(PEER_MAC)), PEER6, ipv6::solicited_node(OWN6)));
    assert!(rig.transmit(ms(1)).is_empty() && !rig.ip.neighbors.knows((0, PEER6.into())));
    send(&mut rig, ms(1), PEER6);
    assert_eq!(rig.ip.poll_resolve(), Some((0, PEER6.into())));
    assert!(rig.transmit(ms(1)).is_empty());
}
