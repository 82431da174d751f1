use super::super::autoconf;
use super::super::tests::{PEER_MAC, Rig, icmpv6_from_peer, ms};
use super::super::{Flow, Medium, Role};
use super::*;
use alloc::vec;
use alloc::vec::Vec;

const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0xfe);
const SECOND: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0xfd);

/// Makes a rig whose interface 0 has autoconfiguration; its link-local address is ready, and its first solicitations are
/// sent.
fn rig() -> Rig {
    let mut rig = Rig::new(Medium::Ethernet, Role::Owned);
    rig.ip = Ip::new(&crate::StackConfig { seed: 5, ..Default::default() }, ms(0));
    rig.ip.add_interface(autoconf::tests::interface(Autoconfiguration::Stable));
    rig
}

/// Returns all router solicitations until `end`: time and source.
fn solicitations(rig: &mut Rig, end: Instant) -> Vec<(u64, Ipv6Addr)> {
    let mut found = Vec::new();
    let mut now = ms(0);
    while let Some(at) = rig.ip.poll_timeout().filter(|at| *at <= end) {
        now = now.max(at);
        rig.ip.handle_timeout(now);
        for packet in rig.transmit(now) {
            let header = ipv6::Header::parse(&packet[14..]).expect("a header");
            if let Some(Message::RouterSolicitation { source_link }) = Message::parse(&packet[54..]) {
                assert_eq!((header.destination, header.hop_limit), (ipv6::ALL_ROUTERS, 255));
                assert_eq!(source_link.is_none(), header.source.is_unspecified());
                found.push((now.as_millis(), header.source));
            }
        }
    }
    found
}

/// Makes an advertisement: header fields, then options.
fn advertisement(lifetime_secs: u16, options: &[&[u8]]) -> Vec<u8> {
    let mut bytes = vec![134, 0, 0, 0, 33, 0];
    bytes.extend(lifetime_secs.to_be_bytes());
    bytes.extend(20_000u32.to_be_bytes());
    bytes.extend(500u32.to_be_bytes());
    options.iter().for_each(|option| bytes.extend(*option));
    bytes
}

fn prefix_option(prefix: &str, flags: u8, valid_secs: u32) -> Vec<u8> {
    let mut bytes = vec![3, 4, 64, flags];
    bytes.extend(valid_secs.to_be_bytes());
    bytes.extend(valid_secs.to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(prefix.parse::<Ipv6Addr>().expect("an address").octets());
    bytes
}

fn hear(rig: &mut Rig, now: Instant, router: Ipv6Addr, message: &[u8]) {
    let bytes = icmpv6_from_peer(message, |header| {
        header.source = router;
        header.destination = ipv6::ALL_NODES;
        header.hop_limit = 255;
    });
    rig.receive(now, &bytes);
}

fn far() -> IpAddr {
    "2400::1".parse().expect("an address")
}

/// §6.3.7: three solicitations four seconds apart, the first within a second; none after a router has answered.
#[test]
fn asking_for_routers() {
    let mut rig = rig();
    let asked = solicitations(&mut rig, ms(60_000));
    assert_eq!(asked.len(), 3);
    assert!(asked[0].0 <= 1_000 && asked[1].0 == asked[0].0 + 4_000 && asked[2].0 == asked[1].0 + 4_000);
    assert!(asked[2].1.is_unicast_link_local());
    let mut answered = self::rig();
    solicitations(&mut answered, ms(2_000));
    hear(&mut answered, ms(2_001), ROUTER, &advertisement(1_800, &[]));
    assert!(solicitations(&mut answered, ms(60_000)).is_empty());
}

/// §6.3.4: router, hop limit, MTU, times and prefixes are taken over; all end with their lifetimes.
#[test]
fn what_a_router_tells() {
    let mut rig = rig();
    solicitations(&mut rig, ms(3_000));
    assert!(rig.ip.route(far(), None).is_none());
    let link = [1, 1, 2, 0, 0, 0, 0, 2];
    let mtu = [5, 1, 0, 0, 0, 0, 0x05, 0x78];
    let told = advertisement(1_800, &[&link, &mtu, &prefix_option("2001:db8:7::", 0xc0, 3_600)]);
    hear(&mut rig, ms(3_001), ROUTER, &told);
    solicitations(&mut rig, ms(10_000));
    let path = rig.ip.route(far(), None).expect("a default router");
    assert_eq!((path.next_hop, path.mtu), (ROUTER.into(), 1_400));
    assert_eq!(path.source, rig.ip.interfaces[0].addresses[1].ip, "the address made of the prefix");
    let neighbor: IpAddr = "2001:db8:7::99".parse().expect("an address");
    assert_eq!(rig.ip.route(neighbor, None).map(|path| path.next_hop), Some(neighbor), "on the link");
    let flow = Flow { local: path.source, remote: far(), protocol: 6, tos: 0, ttl: 0, ports: (1, 2) };
    let template = rig.ip.template(ms(10_000), &flow).expect("the link address was told");
    assert_eq!((template.bytes[21], &template.bytes[..6]), (33, &PEER_MAC.0[..]));
    solicitations(&mut rig, ms(1_804_000));
    assert!(rig.ip.route(far(), None).is_none() && rig.ip.route(neighbor, None).is_some());
    solicitations(&mut rig, ms(3_610_000));
    assert!(rig.ip.route(neighbor, None).is_none());
    hear(&mut rig, ms(4_000_000), ROUTER, &told);
    hear(&mut rig, ms(4_000_001), ROUTER, &advertisement(0, &[]));
    assert!(rig.ip.route(far(), None).is_none(), "a lifetime of 0 ends it");
}

/// §6.1.2: not from off-link senders, not through a router, not without autoconfiguration.
#[test]
fn advertisements_that_are_not_believed() {
    let told = advertisement(1_800, &[]);
    let mut rig = rig();
    let elsewhere: Ipv6Addr = "2001:db8::1".parse().expect("an address");
    hear(&mut rig, ms(1), elsewhere, &told);
    let routed = icmpv6_from_peer(&told, |header| {
        header.source = ROUTER;
        header.destination = ipv6::ALL_NODES;
        header.hop_limit = 254;
    });
    rig.receive(ms(1), &routed);
    assert_eq!((rig.count(Counter::IcmpInErrors), rig.ip.interfaces[0].routers.len()), (2, 0));
    // An impossible MTU is ignored.
    for mtu in [1_279u16, 1_501] {
        let [high, low] = mtu.to_be_bytes();
        hear(&mut rig, ms(2), ROUTER, &advertisement(1_800, &[&[5, 1, 0, 0, 0, 0, high, low]]));
        assert_eq!(rig.ip.interfaces[0].ipv6_mtu, 1_500);
    }
    let mut fixed = Rig::ipv6(Medium::Ethernet, Role::Owned);
    hear(&mut fixed, ms(1), SECOND, &told);
    assert!(fixed.ip.interfaces[0].routers.is_empty());
}

/// §6.3.6, §7.2.5: a router that does not answer is replaced by another one; a router that announces its end is removed.
#[test]
fn routers_that_fail() {
    let mut rig = rig();
    solicitations(&mut rig, ms(3_000));
    for router in [ROUTER, SECOND] {
        hear(&mut rig, ms(3_001), router, &advertisement(9_000, &[]));
    }
    let hop = |rig: &Rig| rig.ip.route(far(), None).map(|path| path.next_hop);
    assert_eq!(hop(&rig), Some(ROUTER.into()));
    let source = rig.ip.interfaces[0].addresses[0].ip;
    let flow = Flow { local: source, remote: far(), protocol: 6, tos: 0, ttl: 0, ports: (1, 2) };
    assert!(rig.ip.template(ms(3_002), &flow).is_err(), "it is being asked for");
    solicitations(&mut rig, ms(10_000));
    assert_eq!(hop(&rig), Some(SECOND.into()));
    let IpAddr::V6(own) = source else { panic!("an IPv6 address") };
    let mut no_router = vec![0; 24];
    let says =
        Message::NeighborAdvertisement { target: SECOND, target_link: None, router: false, solicited: true, overrides: true };
    says.write(&mut no_router);
    rig.receive(
        ms(10_001),
        &icmpv6_from_peer(&no_router, |header| {
            header.source = SECOND;
            header.destination = own;
            header.hop_limit = 255;
        }),
    );
    assert_eq!(hop(&rig), Some(ROUTER.into()));
    assert_eq!(rig.ip.interfaces[0].routers.len(), 1);
}

/// The numbers of routers and prefixes are bounded.
#[test]
fn bounded() {
    let mut rig = rig();
    for number in 0..100u16 {
        let router = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 1, number);
        let prefixes: Vec<Vec<u8>> =
            (0..20).map(|n| prefix_option(&alloc::format!("2001:db8:{number:x}:{n:x}::"), 0xc0, 9_000)).collect();
        let options: Vec<&[u8]> = prefixes.iter().map(Vec::as_slice).collect();
        hear(&mut rig, ms(1), router, &advertisement(9_000, &options));
    }
    let state = &rig.ip.interfaces[0];
    assert_eq!((state.routers.len(), state.on_link.len()), (ROUTERS_MAX, ON_LINK_MAX));
    assert!(state.automatic.len() <= 16);
}
