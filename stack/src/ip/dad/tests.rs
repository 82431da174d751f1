use super::super::tests::{OWN, OWN_MAC, PEER, PEER_MAC, PEER6_LINK, Rig, icmpv6_from_peer, ms};
use super::*;
use crate::address::Cidr;
use crate::event::AddressChange;
use crate::wire::arp as wire_arp;
use crate::wire::ethernet;
use alloc::vec;
use alloc::vec::Vec;

const NEW4: [u8; 4] = [10, 0, 0, 77];
const NEW6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x77);

/// Makes a rig whose new address is configured with DAD.
fn rig(new: IpAddr) -> Rig {
    let mut rig = Rig::ipv6(Medium::Ethernet, Role::Owned);
    rig.ip.interfaces[0].interface.detects_duplicates = true;
    let mut addresses = rig.ip.interfaces[0].configured.clone();
    addresses.push(Cidr { ip: new, prefix_len: 24 });
    rig.ip.set_addresses(0, addresses);
    rig
}

/// Returns all packets that leave until `end`, with their times.
fn run(rig: &mut Rig, end: Instant) -> Vec<(u64, Vec<u8>)> {
    let mut sent = Vec::new();
    let mut now = ms(0);
    while let Some(at) = rig.ip.poll_timeout().filter(|at| *at <= end) {
        now = now.max(at);
        rig.ip.handle_timeout(now);
        sent.extend(rig.transmit(now).into_iter().map(|packet| (now.as_millis(), packet)));
    }
    sent
}

fn solicitation(packet: &[u8]) -> Message {
    Message::parse(&packet[54..]).expect("a message")
}

fn said(message: &Message, source: Ipv6Addr, destination: Ipv6Addr) -> Vec<u8> {
    let mut bytes = vec![0; message.len()];
    message.write(&mut bytes);
    icmpv6_from_peer(&bytes, |header| {
        header.source = source;
        header.destination = destination;
        header.hop_limit = 255;
    })
}

fn arp_from(mac: MacAddress, operation: wire_arp::Operation, sender_ip: [u8; 4], target_ip: [u8; 4]) -> Vec<u8> {
    let packet = Packet {
        operation,
        sender_mac: mac,
        sender_ip: sender_ip.into(),
        target_mac: MacAddress::default(),
        target_ip: target_ip.into(),
    };
    let mut bytes = vec![0; 42];
    ethernet::Header { destination: MacAddress::BROADCAST, source: mac, ether_type: ethernet::TYPE_ARP }.write(&mut bytes[..14]);
    packet.write(&mut bytes[14..]);
    bytes
}

/// RFC 4862 §5.4: within a second one solicitation from the unspecified address, and a second later the address is ours.
#[test]
fn an_ipv6_address_without_a_holder() {
    let mut rig = rig(NEW6.into());
    assert!(!rig.ip.owns(NEW6.into()), "not used yet");
    let sent = run(&mut rig, ms(60_000));
    assert_eq!(sent.len(), 1);
    let (at, packet) = &sent[0];
    let header = ipv6::Header::parse(&packet[14..]).expect("a header");
    let group = ipv6::solicited_node(NEW6);
    assert_eq!((header.source, header.destination, header.hop_limit), (Ipv6Addr::UNSPECIFIED, group, 255));
    assert!(*at <= 1_000);
    let Message::NeighborSolicitation { target, source_link: None, nonce: Some(_) } = solicitation(packet) else {
        panic!("a solicitation from the unspecified address")
    };
    assert_eq!(target, NEW6);
    let address = Cidr { ip: NEW6.into(), prefix_len: 24 };
    assert_eq!(rig.ip.poll_notice(), Some(crate::Event::Address { interface: 0, change: AddressChange::Added(address) }));
    assert!(rig.ip.owns(NEW6.into()) && rig.ip.poll_notice().is_none() && rig.ip.poll_timeout().is_none());
}

/// RFC 4862 §5.4.3, §5.4.4, RFC 7527: an advertisement or another host's probe means that the address is taken; our own
/// probe looped back, or a solicitation from a host with an address, does not.
#[test]
fn an_ipv6_address_that_another_host_has() {
    let group = ipv6::solicited_node(NEW6);
    let question = |nonce| Message::NeighborSolicitation { target: NEW6, source_link: None, nonce };
    let answer = Message::NeighborAdvertisement {
        target: NEW6,
        target_link: Some(PEER_MAC),
        router: false,
        solicited: false,
        overrides: true,
    };
    let cases = [
        (said(&answer, PEER6_LINK, ipv6::ALL_NODES), true),
        (said(&question(None), Ipv6Addr::UNSPECIFIED, group), true),
        (said(&question(Some([9; 6])), Ipv6Addr::UNSPECIFIED, group), true),
        (said(&question(None), PEER6_LINK, group), false),
    ];
    for (heard, taken) in cases {
        let mut rig = rig(NEW6.into());
        assert_eq!(run(&mut rig, ms(1_000)).len(), 1);
        rig.receive(ms(1_001), &heard);
        assert!(rig.transmit(ms(1_001)).is_empty(), "nothing is answered from it");
        run(&mut rig, ms(60_000));
        assert_eq!(rig.ip.owns(NEW6.into()), !taken);
        let duplicate = crate::Event::Address { interface: 0, change: AddressChange::Duplicate(NEW6.into()) };
        assert_eq!(rig.ip.poll_notice() == Some(duplicate), taken);
    }
    let mut rig = rig(NEW6.into());
    let sent = run(&mut rig, ms(1_000));
    let own = solicitation(&sent[0].1);
    rig.receive(ms(1_001), &said(&own, Ipv6Addr::UNSPECIFIED, group));
    run(&mut rig, ms(60_000));
    assert!(rig.ip.owns(NEW6.into()), "the network looped our own probe back");
}

/// RFC 5227 §2.1.1, §2.3: three probes from 0.0.0.0, a second or two apart; two seconds later the address is ours and
/// announced twice.
#[test]
fn an_ipv4_address_without_a_holder() {
    let mut rig = rig(NEW4.into());
    let sent = run(&mut rig, ms(60_000));
    let packets: Vec<(u64, Packet)> =
        sent.iter().map(|(at, bytes)| (*at, Packet::parse(&bytes[14..]).expect("an ARP packet"))).collect();
    let senders: Vec<Ipv4Addr> = packets.iter().map(|(_, packet)| packet.sender_ip).collect();
    let (nobody, ours) = (Ipv4Addr::UNSPECIFIED, Ipv4Addr::from(NEW4));
    assert_eq!(senders, [nobody, nobody, nobody, ours, ours]);
    assert!(packets.iter().all(|(_, packet)| packet.target_ip == ours && packet.sender_mac == OWN_MAC));
    let gap = |n: usize| packets[n].0 - packets[n - 1].0;
    assert!((1_000..=2_000).contains(&gap(1)) && (1_000..=2_000).contains(&gap(2)));
    assert_eq!((gap(3), gap(4)), (2_000, 2_000));
    assert!(rig.ip.owns(NEW4.into()));
}

/// RFC 5227 §2.1.1: any packet from the address, or a probe for it, means that it is taken.
#[test]
fn an_ipv4_address_that_another_host_has() {
    use wire_arp::Operation::{Reply, Request};
    let cases = [
        (arp_from(PEER_MAC, Reply, NEW4, [0; 4]), true),
        (arp_from(PEER_MAC, Request, NEW4, PEER), true),
        (arp_from(PEER_MAC, Request, [0; 4], NEW4), true),
        (arp_from(OWN_MAC, Request, [0; 4], NEW4), false),
        (arp_from(PEER_MAC, Request, PEER, NEW4), false),
    ];
    for (heard, taken) in cases {
        let mut rig = rig(NEW4.into());
        run(&mut rig, ms(1_500));
        rig.receive(ms(1_501), &heard);
        assert!(rig.transmit(ms(1_501)).is_empty());
        run(&mut rig, ms(60_000));
        assert_eq!(rig.ip.owns(NEW4.into()), !taken);
    }
    // Removing a refused address from the configuration clears the refusal.
    let mut rig = rig(NEW4.into());
    rig.receive(ms(1), &arp_from(PEER_MAC, Reply, NEW4, [0; 4]));
    let with = rig.ip.interfaces[0].configured.clone();
    let without: Vec<Cidr> = with.iter().filter(|cidr| cidr.ip != IpAddr::from(NEW4)).copied().collect();
    rig.ip.set_addresses(0, with.clone());
    assert!(rig.ip.interfaces[0].checks.is_empty(), "it stays refused");
    rig.ip.set_addresses(0, without);
    rig.ip.set_addresses(0, with);
    run(&mut rig, ms(60_000));
    assert!(rig.ip.owns(NEW4.into()));
}

/// RFC 5227 §2.4 (c): an address in use is defended with one announcement, and not again for ten seconds; the claim is not
/// believed.
#[test]
fn defence() {
    let mut rig = Rig::new(Medium::Ethernet, Role::Owned);
    let lie = arp_from(PEER_MAC, wire_arp::Operation::Request, OWN, OWN);
    for (at, announced) in [(0, 1), (1, 0), (9_999, 0), (10_000, 1), (10_001, 0)] {
        rig.receive(ms(at), &lie);
        let sent = rig.transmit(ms(at));
        let own =
            sent.iter().filter(|bytes| Packet::parse(&bytes[14..]).is_some_and(|packet| packet.sender_ip == Ipv4Addr::from(OWN)));
        let broadcast = own.filter(|bytes| bytes[..6] == MacAddress::BROADCAST.0).count();
        assert_eq!(broadcast, announced, "at {at} ms");
        assert_eq!(rig.ip.poll_notice().is_some(), announced == 1);
    }
    assert!(rig.ip.owns(OWN.into()));
}
