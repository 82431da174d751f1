//! Bounds of what other hosts can make the Internet layer keep or send between two iterations, in either family.

use super::*;
use crate::family::{Family, in_both_families};
use crate::ip::{CONTROL_MAX, ERRORS_MAX, REPLIES_MAX};
use crate::wire::arp;
use crate::wire::ndp::Message;
use alloc::vec::Vec;

in_both_families! {
    pings
    errors
    questions
    refusals
}

/// Makes a rig that knows its peer, with frames for a flood.
fn rig(family: Family) -> Rig {
    let mut rig = match family {
        Family::Ipv4 => Rig::new(Medium::Ethernet, Role::Owned),
        Family::Ipv6 => Rig::ipv6(Medium::Ethernet, Role::Owned),
    };
    rig.arena = Arena::new(ArenaConfig { large: 2_048, small: 2_048 });
    rig.ip.set_neighbor(0, family.remote(), Some(PEER_MAC));
    rig.transmit(ms(1));
    rig
}

/// Makes a packet of the peer with its ICMP checksum.
fn packet(family: Family, protocol: u8, payload: &[u8]) -> Vec<u8> {
    match family {
        Family::Ipv6 if protocol == family.icmp() => icmpv6_from_peer(payload, |_| {}),
        Family::Ipv6 => from_peer6(protocol, payload, |_| {}),
        Family::Ipv4 => {
            let mut payload = payload.to_vec();
            if protocol == family.icmp() {
                let sum = !checksum::sum(&payload);
                payload[2..4].copy_from_slice(&sum.to_be_bytes());
            }
            from_peer(protocol, &payload, |_| {})
        }
    }
}

fn assert_no_leak(rig: &Rig) {
    for class in [Class::Large, Class::Small] {
        assert_eq!(rig.arena.free(class), rig.arena.capacity(class));
    }
}

/// Of a flood of pings in one iteration a bounded number is answered; the others are counted, and all frames are returned.
fn pings(family: Family) {
    let mut rig = rig(family);
    let kind = if family == Family::Ipv4 { 8 } else { 128 };
    let ping = packet(family, family.icmp(), &[kind, 0, 0, 0, 0, 7, 0, 1]);
    for turn in 1..4 {
        (0..1_000).for_each(|_| rig.receive(ms(turn), &ping));
        assert_eq!(rig.transmit(ms(turn)).len(), REPLIES_MAX);
        assert_eq!(rig.count(Counter::DropRateLimited), turn * (1_000 - REPLIES_MAX as u64));
        assert_no_leak(&rig);
    }
}

/// Of a flood of errors about our segments a bounded number waits for TCP; after that one more is accepted.
fn errors(family: Family) {
    let mut rig = rig(family);
    let mut message = match family {
        Family::Ipv4 => vec![3, 1, 0, 0, 0, 0, 0, 0],
        Family::Ipv6 => vec![1, 3, 0, 0, 0, 0, 0, 0],
    };
    let mut quoted = vec![0; family.header_len()];
    Family::write_header((family.local(), family.remote()), 6, 0, 1_440, &mut quoted);
    message.extend(quoted);
    message.extend([0, 80, 0x30, 0x39, 1, 2, 3, 4]);
    let error = packet(family, family.icmp(), &message);
    for turn in 1..4 {
        (0..1_000).for_each(|_| rig.receive(ms(turn), &error));
        assert_eq!(core::iter::from_fn(|| rig.ip.poll_error()).count(), ERRORS_MAX);
        assert_eq!(rig.count(Counter::DropIcmpError), turn * (1_000 - ERRORS_MAX as u64), "the others are counted");
        assert_no_leak(&rig);
    }
}

/// Makes the peer's request for our link address.
fn question(family: Family) -> Vec<u8> {
    match family {
        Family::Ipv4 => {
            let mut bytes = vec![0; 14 + arp::LEN];
            let header = ethernet::Header { destination: OWN_MAC, source: PEER_MAC, ether_type: ethernet::TYPE_ARP };
            header.write(&mut bytes[..14]);
            let packet = arp::Packet {
                operation: arp::Operation::Request,
                sender_mac: PEER_MAC,
                sender_ip: PEER.into(),
                target_mac: MacAddress::default(),
                target_ip: OWN.into(),
            };
            packet.write(&mut bytes[14..]);
            bytes
        }
        Family::Ipv6 => {
            let message = Message::NeighborSolicitation { target: OWN6, source_link: Some(PEER_MAC), nonce: None };
            let mut bytes = vec![0; message.len()];
            message.write(&mut bytes);
            icmpv6_from_peer(&bytes, |header| header.hop_limit = 255)
        }
    }
}

/// Of endless requests for our link address in one iteration a bounded number is answered; the others are counted.
fn questions(family: Family) {
    let mut rig = rig(family);
    let question = question(family);
    for turn in 1..4 {
        (0..1_000).for_each(|_| rig.receive(ms(turn), &question));
        assert_eq!(rig.transmit(ms(turn)).len(), CONTROL_MAX);
        assert_eq!(rig.count(Counter::DropNeighborAnswer), turn * (1_000 - CONTROL_MAX as u64));
        assert_no_leak(&rig);
    }
}

/// RFC 1122 §3.2.2, RFC 4443 §2.4 (f): all refusals together are limited to a thousand a second.
fn refusals(family: Family) {
    let mut rig = rig(family);
    let datagram = packet(family, 132, b"12345678more");
    let mut refused = 0;
    for turn in 0..200 {
        let now = ms(10_000 + turn * 10);
        (0..100).for_each(|_| rig.receive(now, &datagram));
        refused += rig.transmit(now).len();
        assert_no_leak(&rig);
    }
    // A thousand at once after the quiet start, and a thousand for each of two seconds.
    assert!((2_900..=3_000).contains(&refused), "{refused}");
}
