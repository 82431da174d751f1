use super::super::tests::{OWN, OWN6_LINK, PEER6_LINK, Rig, env, from_peer, icmpv6_from_peer, ms};
use super::super::{Medium, Role, autoconf};
use super::*;
use crate::stats::Counter;
use crate::wire::{checksum, ipv4};
use alloc::vec;
use ringway_shm::Burst;

const GROUP4: IpAddr = IpAddr::V4(Ipv4Addr::new(239, 1, 2, 3));
const GROUP6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 1, 3));

/// Returns the reports sent until `end`: time, and records with their groups.
fn reports(rig: &mut Rig, start: Instant, end: Instant) -> Vec<(u64, Vec<(u8, IpAddr)>)> {
    let mut found = Vec::new();
    let mut now = start;
    while let Some(at) = rig.ip.poll_timeout().filter(|at| *at <= end) {
        now = now.max(at);
        rig.ip.handle_timeout(now);
        found.extend(rig.transmit(now).iter().filter_map(|packet| Some((now.as_millis(), parse(packet)?))));
    }
    found
}

/// Returns the records of a report; `None`: another packet.
fn parse(packet: &[u8]) -> Option<Vec<(u8, IpAddr)>> {
    let ip = &packet[14..];
    if let Some(header) = ipv4::Header::parse(ip).filter(|header| header.protocol == 2) {
        assert_eq!((header.destination, header.ttl, header.header_len), (ALL_ROUTERS, 1, 24));
        assert_eq!((&ip[20..24], checksum::sum(&ip[24..])), (&[0x94, 4, 0, 0][..], 0xffff));
        assert_eq!(packet[..6], [1, 0, 0x5e, 0, 0, 22]);
        let record = |bytes: &[u8]| (bytes[0], IpAddr::from([bytes[4], bytes[5], bytes[6], bytes[7]]));
        return Some(ip[32..].chunks(8).map(record).collect());
    }
    let header = ipv6::Header::parse(ip).filter(|header| header.next_header == 0)?;
    assert_eq!((header.destination, header.hop_limit), (ipv6::ALL_MLD_ROUTERS, 1));
    assert_eq!(ip[40..48], [58, 0, 5, 2, 0, 0, 1, 0]);
    let message = &ip[48..];
    let pseudo = checksum::pseudo_header(header.source.into(), header.destination.into(), 58, message.len() as u32);
    assert_eq!((message[0], checksum::add(pseudo, checksum::sum(message))), (143, 0xffff));
    assert_eq!(packet[..6], [0x33, 0x33, 0, 0, 0, 0x16]);
    let record = |bytes: &[u8]| {
        let octets: [u8; 16] = bytes[4..].try_into().expect("sixteen bytes");
        (bytes[0], IpAddr::from(octets))
    };
    Some(message[8..].chunks(20).map(record).collect())
}

/// Joining and leaving are reported at once and again within a second; a second join and the first of two leaves change
/// nothing.
#[test]
fn joining_and_leaving() {
    for group in [GROUP4, GROUP6] {
        let mut rig = Rig::ipv6(Medium::Ethernet, Role::Owned);
        assert!(rig.ip.join_group(0, group) && rig.ip.join_group(0, group));
        let told = reports(&mut rig, ms(1), ms(10_000));
        assert_eq!(told.iter().map(|(_, records)| records.clone()).collect::<Vec<_>>(), vec![vec![(4, group)]; 2]);
        assert!(told[0].0 == 1 && told[1].0 <= 1_001);
        rig.ip.leave_group(0, group);
        assert!(rig.ip.is_member(0, group) && rig.ip.poll_timeout().is_none());
        rig.ip.leave_group(0, group);
        assert!(!rig.ip.is_member(0, group));
        let told = reports(&mut rig, ms(20_000), ms(30_000));
        assert_eq!(told.iter().map(|(_, records)| records.clone()).collect::<Vec<_>>(), vec![vec![(3, group)]; 2]);
        rig.ip.leave_group(0, group);
        assert!(rig.ip.interfaces[0].groups.is_empty() && rig.ip.poll_timeout().is_none());
        assert!(!rig.ip.join_group(0, OWN.into()) && !rig.ip.join_group(9, group), "no group, no interface");
    }
}

/// Every host is in the all-hosts groups; these are not reported, nor are interface-local groups.
#[test]
fn what_is_not_told() {
    let mut rig = Rig::ipv6(Medium::Ethernet, Role::Owned);
    for group in [IpAddr::V4(ALL_SYSTEMS), ipv6::ALL_NODES.into(), "ff01::5".parse().expect("an address")] {
        assert!(rig.ip.join_group(0, group) && rig.ip.is_member(0, group));
        assert_eq!(rig.ip.poll_timeout(), None);
    }
    let mut shared = Rig::ipv6(Medium::Ethernet, Role::Shared);
    assert!(shared.ip.join_group(0, GROUP4) && shared.ip.is_member(0, GROUP4) && shared.ip.poll_timeout().is_none());
}

fn igmp_query(group: [u8; 4]) -> Vec<u8> {
    let mut message = vec![0x11, 100, 0, 0];
    message.extend(group);
    message.extend([2, 125, 0, 0]);
    let sum = !checksum::sum(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    from_peer(2, &message, |header| header.destination = if group == [0; 4] { ALL_SYSTEMS } else { group.into() })
}

/// RFC 3376 §5.2, RFC 3810 §6.2: a query is answered with the joined groups, within the time that it allows.
#[test]
fn queries() {
    let mut rig = Rig::ipv6(Medium::Ethernet, Role::Owned);
    let second: IpAddr = [239, 9, 9, 9].into();
    for group in [GROUP4, second, GROUP6] {
        rig.ip.join_group(0, group);
    }
    reports(&mut rig, ms(1), ms(10_000));
    rig.receive(ms(20_000), &igmp_query([0; 4]));
    let told = reports(&mut rig, ms(20_000), ms(30_000));
    let mut groups: Vec<_> = told.iter().flat_map(|(_, records)| records.clone()).collect();
    groups.sort_unstable();
    assert_eq!(groups, [(2, GROUP4), (2, second)]);
    rig.receive(ms(40_000), &igmp_query([239, 9, 9, 9]));
    assert_eq!(reports(&mut rig, ms(40_000), ms(50_000)).into_iter().map(|(_, told)| told).collect::<Vec<_>>(), [[(2, second)]]);
    rig.receive(ms(50_000), &igmp_query([239, 7, 7, 7]));
    let mut mld = vec![130, 0, 0, 0, 0x27, 0x10, 0, 0];
    mld.extend([0; 16]);
    mld.extend([2, 125, 0, 0]);
    let query = |source, hop_limit| {
        icmpv6_from_peer(&mld, |header| {
            header.source = source;
            header.destination = ipv6::ALL_NODES;
            header.hop_limit = hop_limit;
        })
    };
    let routed: Ipv6Addr = "2001:db8::9".parse().expect("an address");
    rig.receive(ms(50_000), &query(routed, 1));
    rig.receive(ms(50_000), &query(PEER6_LINK, 2));
    assert!(reports(&mut rig, ms(50_000), ms(60_000)).is_empty(), "not a group of ours, or not from a router of this link");
    rig.receive(ms(60_000), &query(PEER6_LINK, 1));
    assert_eq!(reports(&mut rig, ms(60_000), ms(70_000)).into_iter().map(|(_, told)| told).collect::<Vec<_>>(), [[(2, GROUP6)]]);
}

/// Datagrams to a joined group reach UDP, marked as multicast; TCP never gets them.
#[test]
fn datagrams_to_groups() {
    let mut rig = Rig::ipv6(Medium::Ethernet, Role::Owned);
    let IpAddr::V4(group) = GROUP4 else { panic!("an IPv4 address") };
    let datagram = |protocol| {
        let mut bytes = from_peer(protocol, &[0, 1, 0, 2, 0, 8, 0, 0], |header| header.destination = group);
        bytes[..6].copy_from_slice(&MacAddress::of_group(group.into()).0);
        bytes
    };
    let heard = |rig: &mut Rig, bytes: &[u8]| {
        let mut burst = Burst::default();
        burst.push(rig.arena.alloc_from(bytes).expect("a frame"));
        rig.ip.receive(env!(rig, ms(1)), 0, &mut burst, &mut rig.datagrams);
        let mut datagrams = super::super::Datagrams::default();
        rig.ip.exchange_udp(&mut datagrams);
        let marks: Vec<bool> = datagrams.headers.iter().map(|header| header.multicast).collect();
        datagrams.clear();
        marks
    };
    assert_eq!(heard(&mut rig, &datagram(17)), []);
    rig.ip.join_group(0, GROUP4);
    assert_eq!(heard(&mut rig, &datagram(17)), [true]);
    assert_eq!(heard(&mut rig, &datagram(6)), []);
    assert_eq!(rig.count(Counter::IpInAddrErrors), 2);
}

/// RFC 4861 §7.2.1, RFC 3810: an autoconfigured interface reports the groups of its addresses, from the unspecified address
/// while it has none.
#[test]
fn groups_of_addresses() {
    let mut rig = Rig::new(Medium::Ethernet, Role::Owned);
    rig.ip = Ip::new(&crate::StackConfig { seed: 5, ..Default::default() }, ms(0));
    rig.ip.add_interface(autoconf::tests::interface(Autoconfiguration::Eui64));
    let told = reports(&mut rig, ms(0), ms(10_000));
    let group: IpAddr = "ff02::1:ff00:1".parse().expect("an address");
    assert_eq!(told.iter().map(|(_, records)| records.clone()).collect::<Vec<_>>(), vec![vec![(4, group)]; 2]);
    assert_ne!(rig.ip.link_local(0), OWN6_LINK);
}
