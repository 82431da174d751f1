use super::*;
use crate::ip::tests::{OWN, PEER, Rig, env, ms, packets};
use crate::ip::{Medium, Role};
use alloc::collections::BTreeSet;

fn flow() -> Flow {
    Flow { local: OWN.into(), remote: PEER.into(), protocol: ipv4::PROTOCOL_UDP, tos: 0x2e, ttl: 3, ports: (53, 53) }
}

/// Makes a datagram of `len` bytes in frames of at most `piece` bytes.
fn datagram(rig: &Rig, len: usize, piece: usize) -> (Vec<u8>, Burst) {
    let bytes: Vec<u8> = (0..len).map(|n| (n * 7 % 251) as u8).collect();
    let mut burst = Burst::default();
    let count = len.div_ceil(piece);
    for (at, part) in bytes.chunks(piece).enumerate() {
        let mut frame = rig.arena.alloc(Class::Large).expect("the arena is large enough");
        frame.extend(part.len()).copy_from_slice(part);
        frame.set_continues(at + 1 < count);
        burst.push(frame);
    }
    (bytes, burst)
}

fn send(rig: &mut Rig, whole: bool, burst: &mut Burst) -> Vec<Vec<u8>> {
    let mut out = [Burst::default()];
    if whole {
        rig.ip.send(env!(rig, ms(1)), &flow(), burst, &mut out);
    } else {
        rig.ip.send_fragmentable(env!(rig, ms(1)), &flow(), burst, &mut out);
    }
    packets(&mut out[0])
}

/// RFC 791: every fragment but the last is full, counts its offset in eights, and all have one identification.
#[test]
fn cut_into_few_pieces() {
    for (len, piece) in [(1_481, 1_000), (4_000, 1_900), (2_960, 700), (20_000, 1_900)] {
        let mut rig = Rig::new(Medium::Ip, Role::Owned);
        let (bytes, mut burst) = datagram(&rig, len, piece);
        let sent = send(&mut rig, false, &mut burst);
        assert_eq!(sent.len(), len.div_ceil(1_480));
        let headers: Vec<ipv4::Header> = sent.iter().map(|packet| ipv4::Header::parse(packet).expect("a header")).collect();
        let mut joined = Vec::new();
        for (packet, header) in sent.iter().zip(&headers) {
            assert_eq!((header.fragment_offset as usize, header.identification), (joined.len(), headers[0].identification));
            assert_eq!((header.total_len as usize, header.tos, header.ttl), (packet.len(), 0x2e, 3));
            assert!(!header.dont_fragment && packet.len() <= 1_500);
            joined.extend_from_slice(&packet[20..]);
            assert_eq!(header.more_fragments, joined.len() < len);
        }
        assert_eq!(joined, bytes);
        assert_eq!((rig.count(Counter::IpFragOks), rig.count(Counter::IpFragCreates)), (1, sent.len() as u64));
        assert_eq!((rig.arena.free(Class::Small), rig.arena.free(Class::Large)), (64, 64));
    }
}

/// A datagram that fits goes as one packet: with "don't fragment" and no identification (RFC 6864 §4.1), or, when routers
/// may fragment it, with an identification.
#[test]
fn what_fits_is_not_cut() {
    let mut rig = Rig::new(Medium::Ip, Role::Owned);
    let mut identifications = Vec::new();
    for whole in [true, false] {
        let (_, mut burst) = datagram(&rig, 1_480, 1_900);
        let sent = send(&mut rig, whole, &mut burst);
        let header = ipv4::Header::parse(&sent[0]).expect("a header");
        assert_eq!((sent.len(), header.dont_fragment, header.is_fragment()), (1, whole, false));
        identifications.push(header.identification);
    }
    assert_eq!(identifications[0], 0);
    assert_ne!(identifications[1], 0);
}

/// Without frames for every fragment none is sent.
#[test]
fn all_pieces_or_none() {
    let mut rig = Rig::new(Medium::Ip, Role::Owned);
    let (_, mut burst) = datagram(&rig, 4_000, 1_900);
    let taken: Vec<Frame> = (0..62).map(|_| rig.arena.alloc(Class::Small).expect("there are 64")).collect();
    assert!(send(&mut rig, false, &mut burst).is_empty());
    assert_eq!((rig.count(Counter::IpFragFails), rig.count(Counter::IpFragCreates)), (1, 0));
    drop(taken);
    assert_eq!((rig.arena.free(Class::Small), rig.arena.free(Class::Large)), (64, 64));
}

/// RFC 7739: the identifications of one destination reveal nothing about those of others, and do not repeat soon.
#[test]
fn identifications_are_not_guessed() {
    let mut source = Identifications::new(7);
    let own = IpAddr::from(OWN);
    let mut first = BTreeSet::new();
    for n in 0..=255 {
        first.insert(source.next(own, IpAddr::from([10, 0, 1, n]), 17) as u16);
    }
    // 256 draws of 65,536 hardly ever collide; sequential counters would give 256 neighboring values.
    assert!(first.len() > 250);
    let (low, high) = (first.first().copied().unwrap_or(0), first.last().copied().unwrap_or(0));
    assert!(high - low > 50_000);
    let mut seen = BTreeSet::new();
    assert!((0..10_000).all(|_| seen.insert(source.next(own, IpAddr::from(PEER), 17))));
}
