use super::super::Medium;
use super::super::tests::{OWN, PEER, PEER_MAC, Rig, env, from_peer, ms, packets, tcp_segment};
use super::*;
use alloc::vec;
use alloc::vec::Vec;
use ringway_shm::Class;

fn rig(role: Role) -> Rig {
    let mut rig = Rig::new(Medium::Ethernet, role);
    rig.ip.set_neighbor(0, PEER.into(), Some(PEER_MAC));
    rig
}

fn message(kind: u8, code: u8, low: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 8];
    Header { kind, code, low }.write(&mut bytes);
    bytes.extend(body);
    let sum = !checksum::sum(&bytes);
    bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// Makes a router's quotation of a segment that we sent.
fn quoted(change: impl FnOnce(&mut ipv4::Header)) -> Vec<u8> {
    let mut header = ipv4::Header::atomic(OWN.into(), PEER.into(), 6, 60, 1500);
    change(&mut header);
    let mut bytes = vec![0; 20];
    header.write(&mut bytes);
    bytes.extend([0, 80, 0x30, 0x39, 1, 2, 3, 4]);
    bytes
}

/// An echo request returns with the same data, a valid checksum, swapped addresses and the same TOS.
#[test]
fn echo_is_answered_where_we_own_the_address() {
    let mut rig = rig(Role::Owned);
    let data: Vec<u8> = (0..200).collect();
    let request = message(icmpv4::ECHO_REQUEST, 0, 7, &data);
    rig.receive_in(ms(1), &from_peer(1, &request, |header| header.tos = 0x20), 100);
    let sent = rig.transmit(ms(1));
    assert_eq!(sent.len(), 1);
    let header = ipv4::Header::parse(&sent[0][14..]).expect("a good IP header");
    assert_eq!((header.source, header.destination, header.tos, header.total_len), (OWN.into(), PEER.into(), 0x20, 228));
    assert_eq!(&sent[0][..6], &PEER_MAC.0);
    let reply = &sent[0][34..];
    assert_eq!((reply[0], checksum::sum(reply)), (icmpv4::ECHO_REPLY, 0xffff));
    assert_eq!(reply[4..], request[4..]);
    assert_eq!(rig.count(Counter::IcmpOutEchoReps), 1);
    assert_eq!(rig.arena.free(Class::Large), 64);
}

/// The kernel answers for a shared address; messages with bad checksums and short messages are not answered.
#[test]
fn echo_is_not_answered_otherwise() {
    let mut shared = rig(Role::Shared);
    shared.receive(ms(1), &from_peer(1, &message(icmpv4::ECHO_REQUEST, 0, 7, b"data"), |_| {}));
    assert!(shared.transmit(ms(1)).is_empty());
    let mut rig = rig(Role::Owned);
    let mut bad = message(icmpv4::ECHO_REQUEST, 0, 7, b"data");
    bad[9] ^= 1;
    rig.receive(ms(1), &from_peer(1, &bad, |_| {}));
    rig.receive(ms(1), &from_peer(1, &[8, 0, 0xf7, 0xff, 0, 0, 0], |_| {}));
    assert!(rig.transmit(ms(1)).is_empty());
    assert_eq!(rig.count(Counter::IcmpInErrors), 2);
}

/// Errors about our segments reach TCP with 4-tuple and sequence number; what they quote must be ours. RFC 9293 MUST-54.
#[test]
fn errors_reach_tcp() {
    let kinds = [
        ((3, 0, 0), Some(IcmpErrorKind::NetworkUnreachable)),
        ((3, 1, 0), Some(IcmpErrorKind::HostUnreachable)),
        ((3, 2, 0), Some(IcmpErrorKind::ProtocolUnreachable)),
        ((3, 3, 0), Some(IcmpErrorKind::PortUnreachable)),
        ((3, 4, 1400), Some(IcmpErrorKind::FragmentationNeeded { mtu: 1400 })),
        ((3, 13, 0), Some(IcmpErrorKind::Prohibited)),
        ((11, 0, 0), Some(IcmpErrorKind::TimeExceeded)),
        ((5, 0, 0), None),
        ((0, 0, 0), None),
    ];
    for ((kind, code, low), expected) in kinds {
        let mut rig = rig(Role::Shared);
        rig.receive(ms(1), &from_peer(1, &message(kind, code, low, &quoted(|_| {})), |_| {}));
        let (icmp_type, icmp_code) = (kind, code);
        let expected = expected.map(|kind| IcmpError {
            protocol: 6,
            local: OWN.into(),
            remote: PEER.into(),
            local_port: 80,
            remote_port: 12345,
            sequence: 0x0102_0304,
            kind,
            offender: PEER.into(),
            icmp_type,
            icmp_code,
        });
        assert_eq!(rig.ip.poll_error(), expected, "type {kind} code {code}");
    }
}

/// Quotations of packets that we never sent, of other protocols, or that are too short, are ignored.
#[test]
fn strange_quotations_are_ignored() {
    let mut rig = rig(Role::Owned);
    let mut cases = vec![
        quoted(|header| header.source = [10, 0, 0, 9].into()),
        quoted(|header| header.protocol = 132),
        quoted(|header| header.fragment_offset = 8),
    ];
    cases.extend((0..28).map(|len| quoted(|_| {})[..len].to_vec()));
    for case in cases {
        rig.receive(ms(1), &from_peer(1, &message(3, 1, 0, &case), |_| {}));
        assert_eq!(rig.ip.poll_error(), None);
    }
}

/// Packets of unknown protocols: the sender gets an ICMP error, at a limited rate, with its header and eight bytes.
#[test]
fn unserved_protocols_are_refused() {
    let mut rig = rig(Role::Owned);
    let datagram = from_peer(133, b"12345678more", |_| {});
    rig.receive(ms(1_000), &datagram);
    rig.receive(ms(1_000), &from_peer(132, b"12345678more", |_| {}));
    let sent = rig.transmit(ms(1_000));
    let codes: Vec<(u8, u8)> = sent.iter().map(|packet| (packet[34], packet[35])).collect();
    assert_eq!(codes, [(3, icmpv4::code::PROTOCOL); 2]);
    assert_eq!(checksum::sum(&sent[0][34..]), 0xffff);
    assert_eq!(sent[0][42..], datagram[14..42]);
    let before = rig.count(Counter::IcmpOutMsgs);
    for _ in 0..40 {
        for _ in 0..50 {
            rig.receive(ms(1_000), &datagram);
        }
        rig.transmit(ms(1_000));
    }
    assert_eq!(rig.count(Counter::IcmpOutMsgs) - before, 998, "a thousand a second");
    let mut shared = self::rig(Role::Shared);
    shared.receive(ms(1), &datagram);
    assert!(shared.transmit(ms(1)).is_empty());
}

/// A segment becomes an error of its flow when the neighbor for which it waits does not answer.
#[test]
fn unanswered_neighbors_become_errors() {
    let mut rig = Rig::new(Medium::Ethernet, Role::Owned);
    let flow = Flow { local: OWN.into(), remote: PEER.into(), protocol: 6, tos: 0, ttl: 0, ports: (12_345, 80) };
    let mut burst = Burst::default();
    burst.push(rig.arena.alloc_from(&tcp_segment(b"")).expect("a frame"));
    let mut out = [Burst::default()];
    rig.ip.send(env!(rig, ms(0)), &flow, &mut burst, &mut out);
    assert!(out[0].is_empty());
    for second in 0..3 {
        assert_eq!(rig.transmit(ms(second * 1_000)).len(), 1, "a question each second");
        assert_eq!(rig.ip.poll_error(), None);
        assert_eq!(rig.ip.poll_timeout(), Some(ms(second * 1_000 + 1_000)));
        rig.ip.handle_timeout(ms(second * 1_000 + 1_000));
    }
    let error = rig.ip.poll_error().expect("an error");
    assert_eq!((error.local_port, error.remote_port, error.sequence), (12345, 80, 1));
    assert_eq!(error.kind, IcmpErrorKind::HostUnreachable);
    assert!(packets(&mut out[0]).is_empty() && rig.transmit(ms(3_000)).is_empty());
    assert_eq!(rig.count(Counter::DropNoNeighbor), 1);
    assert_eq!((rig.ip.poll_timeout(), rig.arena.free(Class::Small)), (None, 64));
}

/// RFC 9293 MUST-55: source quench is counted and does not reach TCP (RFC 6633).
#[test]
fn source_quench_is_ignored() {
    let mut rig = rig(Role::Owned);
    rig.receive(ms(1), &from_peer(1, &message(4, 0, 0, &quoted(|_| {})), |_| {}));
    assert_eq!(rig.count(Counter::IcmpInMsgs), 1);
    assert_eq!(rig.ip.poll_error(), None);
}
