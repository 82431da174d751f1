use super::super::Medium;
use super::super::tests::{OWN6, OWN6_LINK, PEER_MAC, PEER6, PEER6_LINK, Rig, icmpv6_from_peer, ms};
use super::*;
use alloc::vec;
use alloc::vec::Vec;
use core::net::Ipv6Addr;
use ringway_shm::Class;

fn rig(role: Role) -> Rig {
    let mut rig = Rig::ipv6(Medium::Ethernet, role);
    rig.ip.set_neighbor(0, PEER6.into(), Some(PEER_MAC));
    rig.ip.set_neighbor(0, PEER6_LINK.into(), Some(PEER_MAC));
    rig
}

fn message(kind: u8, code: u8, word: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 8];
    Header { kind, code, word }.write(&mut bytes);
    bytes.extend(body);
    bytes
}

/// Makes a router's quotation of a segment that we sent.
fn quoted(change: impl FnOnce(&mut ipv6::Header)) -> Vec<u8> {
    let mut header = ipv6::Header {
        traffic_class: 0,
        flow_label: 7,
        payload_len: 1440,
        next_header: 6,
        hop_limit: 60,
        source: OWN6,
        destination: PEER6,
    };
    change(&mut header);
    let mut bytes = vec![0; 40];
    header.write(&mut bytes);
    bytes.extend([0, 80, 0x30, 0x39, 1, 2, 3, 4]);
    bytes
}

/// An echo request returns with the same data and swapped addresses; one to all nodes is answered from our own address.
#[test]
fn echo_is_answered_where_we_own_the_address() {
    let data: Vec<u8> = (0..200).collect();
    let cases = [(PEER6, OWN6, OWN6), (PEER6_LINK, OWN6_LINK, OWN6_LINK), (PEER6_LINK, ipv6::ALL_NODES, OWN6_LINK)];
    for (source, destination, answers) in cases {
        let mut rig = rig(Role::Owned);
        let request = icmpv6_from_peer(&message(icmpv6::ECHO_REQUEST, 0, 0x0007_0001, &data), |header| {
            header.source = source;
            header.destination = destination;
            header.traffic_class = 0x20;
        });
        rig.receive_in(ms(1), &request, 100);
        let sent = rig.transmit(ms(1));
        assert_eq!(sent.len(), 1);
        let header = ipv6::Header::parse(&sent[0][14..]).expect("a good header");
        assert_eq!((header.source, header.destination, header.traffic_class), (answers, source, 0x20));
        let reply = &sent[0][54..];
        let pseudo = checksum::pseudo_header(answers.into(), source.into(), 58, reply.len() as u32);
        assert_eq!((reply[0], checksum::add(pseudo, checksum::sum(reply))), (icmpv6::ECHO_REPLY, 0xffff));
        assert_eq!(reply[4..], request[58..]);
        assert_eq!((rig.count(Counter::IcmpOutEchoReps), rig.arena.free(Class::Large)), (1, 64));
    }
}

/// The kernel answers for a shared address; messages with bad checksums and short messages are not answered.
#[test]
fn echo_is_not_answered_otherwise() {
    let good = icmpv6_from_peer(&message(icmpv6::ECHO_REQUEST, 0, 7, b"data"), |_| {});
    let mut shared = rig(Role::Shared);
    shared.receive(ms(1), &good);
    assert!(shared.transmit(ms(1)).is_empty());
    let mut rig = rig(Role::Owned);
    let mut bad = good.clone();
    bad[63] ^= 1;
    rig.receive(ms(1), &bad);
    rig.receive(ms(1), &icmpv6_from_peer(&[128, 0, 0, 0, 0, 0, 0], |_| {}));
    assert!(rig.transmit(ms(1)).is_empty());
    assert_eq!(rig.count(Counter::IcmpInErrors), 2);
}

/// Errors about our segments reach TCP with 4-tuple and sequence number; an MTU below the minimum is not believed.
#[test]
fn errors_reach_tcp() {
    let kinds = [
        ((1, 0, 0), Some(IcmpErrorKind::NetworkUnreachable)),
        ((1, 1, 0), Some(IcmpErrorKind::Prohibited)),
        ((1, 2, 0), Some(IcmpErrorKind::NetworkUnreachable)),
        ((1, 3, 0), Some(IcmpErrorKind::HostUnreachable)),
        ((1, 4, 0), Some(IcmpErrorKind::PortUnreachable)),
        ((1, 6, 0), Some(IcmpErrorKind::Prohibited)),
        ((2, 0, 1400), Some(IcmpErrorKind::FragmentationNeeded { mtu: 1400 })),
        ((2, 0, 68), Some(IcmpErrorKind::FragmentationNeeded { mtu: 1280 })),
        ((2, 0, 1 << 20), Some(IcmpErrorKind::FragmentationNeeded { mtu: 65_535 })),
        ((3, 0, 0), Some(IcmpErrorKind::TimeExceeded)),
        ((4, 1, 6), Some(IcmpErrorKind::ProtocolUnreachable)),
        ((4, 0, 0), Some(IcmpErrorKind::ParameterProblem)),
        ((100, 0, 0), None),
        ((129, 0, 0), None),
    ];
    for ((kind, code, word), expected) in kinds {
        let mut rig = rig(Role::Shared);
        rig.receive(ms(1), &icmpv6_from_peer(&message(kind, code, word, &quoted(|_| {})), |_| {}));
        let expected = expected.map(|what| IcmpError {
            protocol: 6,
            kind: what,
            offender: PEER6.into(),
            icmp_type: kind,
            icmp_code: code,
            local: OWN6.into(),
            remote: PEER6.into(),
            local_port: 80,
            remote_port: 12345,
            sequence: 0x0102_0304,
        });
        assert_eq!(rig.ip.poll_error(), expected, "type {kind} code {code}");
    }
}

/// Quotations of packets that we never sent, of other protocols, or that are too short, are ignored.
#[test]
fn strange_quotations_are_ignored() {
    let mut rig = rig(Role::Owned);
    let elsewhere: Ipv6Addr = "2001:db8::9".parse().expect("an address");
    let mut cases = vec![quoted(|header| header.source = elsewhere), quoted(|header| header.next_header = 59)];
    cases.extend((0..48).map(|len| quoted(|_| {})[..len].to_vec()));
    for case in cases {
        rig.receive(ms(1), &icmpv6_from_peer(&message(1, 3, 0, &case), |_| {}));
        assert_eq!(rig.ip.poll_error(), None);
    }
}
