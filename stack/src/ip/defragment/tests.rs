use super::*;
use crate::ip::tests::{OWN6, PEER6, Rig, from_peer, from_peer6, icmpv6_from_peer, ms, tcp_segment, tcp_segment6};
use crate::ip::{Medium, Role};
use crate::wire::checksum;
use alloc::vec;
use alloc::vec::Vec;
use ringway_shm::{ArenaConfig, Class};

const TCP: u8 = 6;

/// Makes a rig whose arena has space for what remote hosts may make the stack keep.
fn rig(ipv6: bool, role: Role) -> Rig {
    let mut rig = if ipv6 { Rig::ipv6(Medium::Ethernet, role) } else { Rig::new(Medium::Ethernet, role) };
    rig.arena = ringway_shm::Arena::new(ArenaConfig { large: 4_096, small: 4_096 });
    rig
}

/// Makes one fragment of the peer: `data` at `offset`.
fn fragment(ipv6: bool, protocol: u8, offset: usize, more: bool, data: &[u8]) -> Vec<u8> {
    if !ipv6 {
        return from_peer(protocol, data, |header| {
            header.identification = 77;
            header.dont_fragment = false;
            header.more_fragments = more;
            header.fragment_offset = offset as u16;
        });
    }
    let mut payload = vec![0; 8];
    ipv6::Fragment { next_header: protocol, offset: offset as u16, more, identification: 77 }.write(&mut payload);
    payload.extend_from_slice(data);
    from_peer6(ipv6::FRAGMENT, &payload, |_| {})
}

/// Makes all fragments of `data`, cut at `size`.
fn fragments(ipv6: bool, protocol: u8, data: &[u8], size: usize) -> Vec<Vec<u8>> {
    let cut = data.chunks(size).enumerate();
    cut.map(|(at, part)| fragment(ipv6, protocol, at * size, at * size + part.len() < data.len(), part)).collect()
}

fn segment(ipv6: bool, len: usize) -> Vec<u8> {
    let payload: Vec<u8> = (0..len).map(|n| (n % 249) as u8).collect();
    if ipv6 { tcp_segment6(&payload) } else { tcp_segment(&payload) }
}

fn assert_no_leak(rig: &Rig) {
    for class in [Class::Large, Class::Small] {
        assert_eq!(rig.arena.free(class), rig.arena.capacity(class));
    }
}

/// TCP gets segments that were fragmented whole, with a verified checksum over all fragments.
#[test]
fn segments_in_fragments() {
    for ipv6 in [false, true] {
        for size in [8, 24, 1_000] {
            let mut rig = rig(ipv6, Role::Shared);
            let whole = segment(ipv6, 1_500);
            let mut cut = fragments(ipv6, TCP, &whole, size);
            cut.reverse();
            for packet in &cut {
                assert!(rig.datagrams.headers.is_empty());
                rig.receive(ms(1), packet);
            }
            let bytes: Vec<u8> = rig.datagrams.packets.frames().flat_map(|frame| frame.bytes().to_vec()).collect();
            assert_eq!((rig.datagrams.headers.len(), rig.datagrams.headers[0].len), (1, 1_520));
            assert_eq!(bytes, whole);
            assert!(rig.datagrams.packets.frames().next().is_some_and(|first| first.len() >= 60), "headers in one frame");
            assert_eq!((rig.count(Counter::IpReasmOks), rig.count(Counter::IpReasmReqds)), (1, cut.len() as u64));
            // A flipped bit in any of them is detected.
            let middle = cut.len() / 2;
            let last = cut[middle].len() - 1;
            cut[middle][last] ^= 4;
            cut.iter().for_each(|packet| rig.receive(ms(2), packet));
            assert_eq!((rig.datagrams.headers.len(), rig.count(Counter::TcpInCsumErrors)), (1, 1));
            rig.datagrams.clear();
            assert_no_leak(&rig);
        }
    }
}

/// Headers in front of the fragment header stay, and then name what the fragment header named.
#[test]
fn options_before_the_fragment_header() {
    let mut rig = rig(true, Role::Shared);
    let whole = segment(true, 1_000);
    for (offset, part) in [(0, &whole[..512]), (512, &whole[512..])] {
        // Destination options: padding.
        let mut payload = vec![ipv6::FRAGMENT, 0, 1, 4, 0, 0, 0, 0];
        let mut header = [0; 8];
        ipv6::Fragment { next_header: TCP, offset, more: offset == 0, identification: 5 }.write(&mut header);
        payload.extend_from_slice(&header);
        payload.extend_from_slice(part);
        rig.receive(ms(1), &from_peer6(ipv6::DESTINATION_OPTIONS, &payload, |_| {}));
    }
    assert_eq!((rig.datagrams.headers.len(), rig.datagrams.headers[0].len), (1, 1_020));
    assert_eq!(rig.datagrams.headers[0].header_len, 48);
    rig.datagrams.clear();
    assert_no_leak(&rig);
}

/// RFC 6946: an atomic fragment does not affect others with the same identification.
#[test]
fn atomic_fragments() {
    let mut rig = rig(true, Role::Shared);
    rig.receive(ms(1), &fragment(true, TCP, 0, true, &[0; 64]));
    rig.receive(ms(1), &fragment(true, TCP, 0, false, &segment(true, 10)));
    assert_eq!((rig.datagrams.headers.len(), rig.count(Counter::IpReasmReqds)), (1, 1));
}

/// A ping larger than the link is answered with as many bytes, in fragments.
#[test]
fn large_pings() {
    for ipv6 in [false, true] {
        let mut rig = rig(ipv6, Role::Owned);
        let mut message = vec![if ipv6 { 128 } else { 8 }, 0, 0, 0, 0, 7, 0, 1];
        message.extend((0..5_000).map(|n| (n % 250) as u8));
        if ipv6 {
            // The helper writes the checksum.
            message = icmpv6_from_peer(&message, |_| {})[54..].to_vec();
        } else {
            let sum = !checksum::sum(&message);
            message[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        let protocol = if ipv6 { 58 } else { 1 };
        fragments(ipv6, protocol, &message, 1_400).iter().for_each(|packet| rig.receive(ms(1), packet));
        // The neighbor is known from its packets or must be resolved; the long packet is the answer.
        let peer = if ipv6 { PEER6.into() } else { IpAddr::from(crate::ip::tests::PEER) };
        rig.transmit(ms(1));
        rig.ip.set_neighbor(0, peer, Some(crate::ip::tests::PEER_MAC));
        let sent: Vec<Vec<u8>> = rig.transmit(ms(2)).into_iter().filter(|packet| packet.len() > 200).collect();
        assert_eq!(sent.len(), 4);
        let start = if ipv6 { 14 + 48 } else { 14 + 20 };
        let joined: Vec<u8> = sent.iter().flat_map(|packet| packet[start..].to_vec()).collect();
        assert_eq!((joined[0], &joined[8..]), (if ipv6 { 129 } else { 0 }, &message[8..]));
        assert_no_leak(&rig);
    }
}

/// RFC 792, RFC 8200 §4.5: the sender of the first fragment gets an ICMP error when the others do not arrive, unless the
/// address is shared with the kernel.
#[test]
fn time_exceeded() {
    for (ipv6, seconds) in [(false, 30), (true, 60)] {
        for (role, offset, told) in [(Role::Owned, 0, true), (Role::Owned, 8, false), (Role::Shared, 0, false)] {
            let mut rig = rig(ipv6, role);
            let peer = if ipv6 { PEER6.into() } else { IpAddr::from(crate::ip::tests::PEER) };
            rig.ip.set_neighbor(0, peer, Some(crate::ip::tests::PEER_MAC));
            rig.transmit(ms(0));
            let packet = fragment(ipv6, TCP, offset, true, &[9; 64]);
            rig.receive(ms(1_000), &packet);
            let due = ms(1_000 + seconds * 1_000);
            assert_eq!(rig.ip.poll_timeout(), Some(due));
            rig.ip.handle_timeout(due);
            let sent = rig.transmit(due);
            assert_eq!(sent.len(), usize::from(told));
            if told {
                let (at, kind) = if ipv6 { (54, 3) } else { (34, 11) };
                assert_eq!(sent[0][at..at + 2], [kind, 1]);
                assert_eq!(sent[0][at + 8..at + 8 + 28], packet[14..14 + 28]);
            }
            assert_eq!((rig.count(Counter::IpReasmTimeout), rig.count(Counter::IpReasmFails)), (1, 1));
            assert_no_leak(&rig);
        }
    }
}

/// RFC 8200 §4.5: an ICMP error reports the offset of an impossible length.
#[test]
fn parameter_problems() {
    for (offset, more, len, pointer) in [(0, true, 63, 4), (65_528, false, 16, 42)] {
        let mut rig = rig(true, Role::Owned);
        rig.ip.set_neighbor(0, PEER6.into(), Some(crate::ip::tests::PEER_MAC));
        rig.transmit(ms(0));
        rig.receive(ms(1), &fragment(true, TCP, offset, more, &vec![1; len]));
        let sent = rig.transmit(ms(1));
        assert_eq!(sent.len(), 1);
        assert_eq!(sent[0][54..56], [4, 0]);
        assert_eq!(sent[0][58..62], [0, 0, 0, pointer]);
        assert_eq!(rig.count(Counter::IpReasmFails), 1);
        assert_no_leak(&rig);
    }
    assert_ne!(OWN6, PEER6);
}

/// Random fragments in random frames: nothing panics and every frame is returned (seeded).
#[test]
fn hostile_fragments() {
    let mut state = 3u64;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for ipv6 in [false, true] {
        let mut rig = rig(ipv6, Role::Owned);
        for step in 0..20_000u64 {
            let protocol = [1, 6, 17, 58, 0, 44, 60, 99][random(8)];
            let len = if random(5) == 0 { random(200) } else { 8 * (1 + random(3)) };
            let data: Vec<u8> = (0..len).map(|_| random(256) as u8).collect();
            let mut packet = fragment(ipv6, protocol, random(4) * 8, random(3) != 0, &data);
            if random(4) == 0 {
                let at = 14 + random(packet.len() - 14);
                packet[at] = random(256) as u8;
            }
            if random(8) == 0 {
                packet.truncate(15 + random(packet.len() - 14));
            }
            rig.receive_in(ms(step * 50), &packet, 20 + random(200));
            rig.ip.handle_timeout(ms(step * 50));
            rig.transmit(ms(step * 50));
            while rig.ip.poll_error().is_some() {}
            rig.datagrams.clear();
        }
        assert!(rig.count(Counter::IpReasmOks) > 100, "{} of them were whole", rig.count(Counter::IpReasmOks));
        // Fragments, and then answers that wait for a neighbor, are given up.
        while let Some(at) = rig.ip.poll_timeout() {
            rig.ip.handle_timeout(at);
            rig.transmit(at);
        }
        assert_no_leak(&rig);
    }
}
