use super::super::tests::{OWN, OWN6, OWN6_LINK, PEER_MAC, ROUTER6, Rig, from_peer, icmpv6_from_peer, ms};
use super::super::{Medium, Role};
use super::*;
use crate::MacAddress;
use crate::wire::{checksum, ipv4};
use alloc::vec;
use alloc::vec::Vec;
use core::net::Ipv6Addr;

const BETTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0xaa);

fn far() -> Ipv6Addr {
    "2400::1".parse().expect("an address")
}

/// Makes an IPv6 redirect from `router`.
fn redirect(router: Ipv6Addr, target: Ipv6Addr, destination: Ipv6Addr) -> Vec<u8> {
    let mut bytes = vec![137, 0, 0, 0, 0, 0, 0, 0];
    bytes.extend(target.octets());
    bytes.extend(destination.octets());
    bytes.extend([2, 1, 2, 0, 0, 0, 0, 9]);
    icmpv6_from_peer(&bytes, |header| {
        header.source = router;
        header.destination = OWN6;
        header.hop_limit = 255;
    })
}

fn next_hop(rig: &Rig, remote: impl Into<IpAddr>) -> IpAddr {
    rig.ip.route(remote.into(), None).expect("a route").next_hop
}

/// RFC 4861 §8.3: packets to the destination go to the better hop, whose link address the redirect gave, for ten minutes.
#[test]
fn a_better_router() {
    let mut rig = Rig::ipv6(Medium::Ethernet, Role::Owned);
    let before = rig.ip.generation();
    rig.receive(ms(1), &redirect(ROUTER6, BETTER, far()));
    assert_eq!(next_hop(&rig, far()), IpAddr::from(BETTER));
    assert_ne!(rig.ip.generation(), before, "templates are stale");
    assert_eq!(rig.ip.neighbors.lookup(ms(1), (0, BETTER.into())), Some(MacAddress([2, 0, 0, 0, 0, 9])));
    let other: Ipv6Addr = "2400::2".parse().expect("an address");
    assert_eq!(next_hop(&rig, other), IpAddr::from(ROUTER6));
    // From now on only the better hop may redirect further; the destination itself may be on the link.
    rig.receive(ms(2), &redirect(ROUTER6, OWN6_LINK, far()));
    rig.receive(ms(2), &redirect(BETTER, far(), far()));
    assert_eq!(next_hop(&rig, far()), IpAddr::from(far()));
    rig.ip.handle_timeout(ms(600_003));
    assert_eq!(next_hop(&rig, far()), IpAddr::from(ROUTER6));
}

/// RFC 4861 §8.1: a redirect from any but the first hop is not believed, nor one to an off-link address.
#[test]
fn what_is_not_believed() {
    let global: Ipv6Addr = "2001:db8::aa".parse().expect("an address");
    let cases = [
        redirect(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0xbb), BETTER, far()),
        redirect(ROUTER6, global, far()),
        redirect(ROUTER6, ROUTER6, far()),
        redirect(ROUTER6, OWN6_LINK, far()),
        redirect(ROUTER6, BETTER, OWN6),
    ];
    let mut rig = Rig::ipv6(Medium::Ethernet, Role::Owned);
    cases.iter().for_each(|case| rig.receive(ms(1), case));
    assert_eq!(next_hop(&rig, far()), IpAddr::from(ROUTER6));
    let mut shared = Rig::ipv6(Medium::Ethernet, Role::Shared);
    shared.receive(ms(1), &redirect(ROUTER6, BETTER, far()));
    assert_eq!(next_hop(&shared, far()), IpAddr::from(ROUTER6), "the kernel's routes count");
}

/// A hop that does not answer is given up, and the previous route applies again.
#[test]
fn a_hop_that_does_not_answer() {
    let mut rig = Rig::ipv6(Medium::Ethernet, Role::Owned);
    rig.receive(ms(1), &redirect(ROUTER6, BETTER, far()));
    rig.ip.neighbors.suspect(ms(2), (0, BETTER.into()));
    (1..6).for_each(|second| rig.ip.handle_timeout(ms(second * 1_000 + 2)));
    assert_eq!(next_hop(&rig, far()), IpAddr::from(ROUTER6));
}

/// RFC 1122 §3.2.2.2: the same in IPv4; the new router must be on the link of the old one.
#[test]
fn ipv4() {
    let says = |router: [u8; 4], hop: [u8; 4], source: [u8; 4]| {
        let mut rig = Rig::new(Medium::Ethernet, Role::Owned);
        rig.ip.set_neighbor(0, [10, 0, 0, 254].into(), Some(PEER_MAC));
        let mut message = vec![5, 1, 0, 0];
        message.extend(hop);
        let mut quoted = [0; 28];
        ipv4::Header::atomic(source.into(), [8, 8, 8, 8].into(), 6, 60, 60).write(&mut quoted[..20]);
        message.extend(quoted);
        let sum = !checksum::sum(&message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        rig.receive(ms(1), &from_peer(1, &message, |header| header.source = router.into()));
        next_hop(&rig, [8, 8, 8, 8])
    };
    assert_eq!(says([10, 0, 0, 254], [10, 0, 0, 253], OWN), IpAddr::from([10, 0, 0, 253]));
    let old = IpAddr::from([10, 0, 0, 254]);
    assert_eq!(says([10, 0, 0, 3], [10, 0, 0, 253], OWN), old, "not from the first hop");
    assert_eq!(says([10, 0, 0, 254], [192, 168, 0, 1], OWN), old, "not on the link");
    assert_eq!(says([10, 0, 0, 254], [10, 0, 0, 253], [10, 0, 0, 9]), old, "not about a packet of ours");
}

/// The number is bounded, and neighbors of one destination do not evict those of another.
#[test]
fn bounded() {
    let mut rig = Rig::ipv6(Medium::Ethernet, Role::Owned);
    for number in 0..400u16 {
        let destination = Ipv6Addr::new(0x2400, 0, 0, 0, 0, 0, 1, number);
        rig.receive(ms(1), &redirect(ROUTER6, BETTER, destination));
    }
    assert_eq!(rig.ip.redirects.entries.len(), REDIRECTS_MAX);
}
