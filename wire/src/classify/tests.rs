//! Reading a packet from outside.

use alloc::vec;
use alloc::vec::Vec;
use core::net::{Ipv4Addr, Ipv6Addr};

use super::*;

const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const DESTINATION: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const SOURCE_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
const DESTINATION_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
const PORTS: [u8; 8] = [0x13, 0x88, 0, 80, 1, 2, 3, 4];

fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let total_len = (ipv4::HEADER_LEN + payload.len()) as u16;
    let mut bytes = vec![0; ipv4::HEADER_LEN];
    ipv4::Header::atomic(SOURCE, DESTINATION, protocol, 64, total_len).write(&mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}

fn ipv6(next_header: u8, payload: &[u8]) -> Vec<u8> {
    let (source, destination) = (SOURCE_V6, DESTINATION_V6);
    let payload_len = payload.len() as u16;
    let header = ipv6::Header { traffic_class: 0, flow_label: 0, payload_len, next_header, hop_limit: 64, source, destination };
    let mut bytes = vec![0; ipv6::HEADER_LEN];
    header.write(&mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}

fn ethernet(ether_type: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; ethernet::HEADER_LEN];
    bytes[ethernet::TYPE_AT..].copy_from_slice(&ether_type.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

fn packet(medium: Medium, bytes: &[u8]) -> Option<Packet<'_>> {
    match classify(medium, bytes)? {
        Payload::Ip(packet) => Some(packet),
        Payload::Arp(_) => None,
    }
}

#[test]
fn a_segment_has_addresses_ports_and_lengths_on_both_media() {
    for protocol in [ipv4::PROTOCOL_TCP, ipv4::PROTOCOL_UDP] {
        let bytes = ipv4(protocol, &PORTS);
        let v4 = packet(Medium::Ip, &bytes).expect("whole");
        assert_eq!((v4.source, v4.destination), (SOURCE.into(), DESTINATION.into()));
        assert_eq!((v4.ports(), v4.header_len, v4.total_len, v4.is_fragment), (Some((5000, 80)), 20, 28, false));
        assert_eq!(packet(Medium::Ethernet, &ethernet(ethernet::TYPE_IPV4, &bytes)), Some(v4));
        let bytes = ipv6(protocol, &PORTS);
        let v6 = packet(Medium::Ip, &bytes).expect("whole");
        assert_eq!((v6.source, v6.destination), (SOURCE_V6.into(), DESTINATION_V6.into()));
        assert_eq!((v6.ports(), v6.header_len, v6.total_len, v6.is_fragment), (Some((5000, 80)), 40, 48, false));
        assert_eq!(packet(Medium::Ethernet, &ethernet(ethernet::TYPE_IPV6, &bytes)), Some(v6));
    }
}

#[test]
fn ports_stand_behind_ipv4_options() {
    let mut bytes = ipv4(ipv4::PROTOCOL_TCP, &[&[1; 4], &PORTS[..]].concat());
    bytes[0] = 0x46;
    assert_eq!(packet(Medium::Ip, &bytes).and_then(|packet| packet.ports()), Some((5000, 80)));
}

#[test]
fn the_first_fragment_too_is_a_fragment() {
    let mut bytes = ipv4(ipv4::PROTOCOL_UDP, &PORTS);
    for fragment in [ipv4::MORE_FRAGMENTS, 1, ipv4::MORE_FRAGMENTS | 1] {
        bytes[ipv4::FRAGMENT_AT..][..2].copy_from_slice(&fragment.to_be_bytes());
        assert!(packet(Medium::Ip, &bytes).is_some_and(|packet| packet.is_fragment));
    }
    assert!(packet(Medium::Ip, &ipv6(ipv6::FRAGMENT, &PORTS)).is_some_and(|packet| packet.is_fragment));
}

#[test]
fn an_icmp_error_quotes_a_packet_and_other_messages_do_not() {
    let segment = ipv4(ipv4::PROTOCOL_TCP, &PORTS);
    for kind in 0..=255 {
        let message = [&[kind, 0, 0, 0, 0, 0, 0, 0], &segment[..]].concat();
        let bytes = ipv4(ipv4::PROTOCOL_ICMP, &message);
        let error = packet(Medium::Ip, &bytes).expect("whole");
        assert_eq!((error.icmp_type(), error.ports()), (Some(kind), None));
        let quoted = error.quoted().and_then(|packet| packet.ports());
        assert_eq!(quoted, icmpv4::ERRORS.contains(&kind).then_some((5000, 80)), "type {kind}");
        let message = [&[kind, 0, 0, 0, 0, 0, 0, 0], &ipv6(ipv6::PROTOCOL_TCP, &PORTS)[..]].concat();
        let bytes = ipv6(ipv6::PROTOCOL_ICMP, &message);
        let error = packet(Medium::Ip, &bytes).expect("whole");
        let quoted = error.quoted().and_then(|packet| packet.ports());
        assert_eq!(quoted, icmpv6::ERRORS.contains(&kind).then_some((5000, 80)), "type {kind}");
    }
}

#[test]
fn arp_is_told_from_ip() {
    let bytes = ethernet(ethernet::TYPE_ARP, &[7; 28]);
    assert_eq!(classify(Medium::Ethernet, &bytes), Some(Payload::Arp(&[7; 28])));
    assert_eq!(classify(Medium::Ethernet, &ethernet(ethernet::TYPE_VLAN, &[7; 28])), None);
}

#[test]
fn what_is_cut_off_anywhere_is_read_as_far_as_it_goes() {
    let quoted = ipv4(ipv4::PROTOCOL_TCP, &PORTS);
    let error = ipv4(ipv4::PROTOCOL_ICMP, &[&[3, 1, 0, 0, 0, 0, 0, 0], &quoted[..]].concat());
    for bytes in [ipv4(ipv4::PROTOCOL_TCP, &PORTS), ipv6(ipv6::PROTOCOL_TCP, &PORTS), error] {
        for len in 0..bytes.len() {
            let cut = packet(Medium::Ip, &bytes[..len]);
            let header_len = if bytes[0] >> 4 == 4 { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN };
            assert_eq!(cut.is_some(), len >= header_len);
            let ports = cut.as_ref().and_then(|packet| packet.ports());
            assert!(ports.is_none() || len >= header_len + 4);
            let quoted = cut.as_ref().and_then(|packet| packet.quoted());
            assert!(quoted.is_none_or(|packet| packet.ports().is_none() || len >= 52));
        }
    }
}
