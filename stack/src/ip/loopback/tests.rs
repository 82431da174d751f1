use super::super::tests::{OWN, OWN6, Rig, env, ms, tcp_segment};
use super::super::{Flow, OutputError};
use super::*;
use alloc::vec::Vec;
use ringway_shm::{Burst, Checksum};

fn flow(ip: IpAddr) -> Flow {
    Flow { local: ip, remote: ip, protocol: 6, tos: 0x28, ttl: 0, ports: (80, 1_000) }
}

/// A packet to ourselves is received with the next timer, which is due at once; its checksum may be unfinished.
#[test]
fn packets_come_back() {
    for ip in [IpAddr::from(OWN), IpAddr::from(OWN6)] {
        let mut rig = Rig::ipv6(Medium::Ethernet, Role::Owned);
        let path = rig.ip.route(ip, None).expect("ourselves");
        assert_eq!((path.interface, path.source, rig.ip.link(path.interface)), (LOOPBACK, ip, LINK));
        assert_eq!(rig.ip.template(ms(0), &flow(ip)).err(), Some(OutputError::Unresolved));
        let segment = tcp_segment(b"hello");
        let mut burst = Burst::default();
        let mut frame = rig.arena.alloc_from(&segment).expect("a frame");
        frame.set_checksum(Checksum::Partial { start: 0, offset: 16 });
        burst.push(frame);
        let mut out = [Burst::default()];
        rig.ip.send(env!(rig, ms(0)), &flow(ip), &mut burst, &mut out);
        assert!(out[0].is_empty() && rig.transmit(ms(0)).is_empty(), "no device sees it");
        assert_eq!(rig.ip.poll_timeout(), Some(ringway_shm::Instant::ZERO));
        rig.ip.receive_looped(env!(rig, ms(0)), &mut rig.datagrams);
        let header = rig.datagrams.headers[0];
        assert_eq!((header.local(), header.remote(), header.interface, header.tos), (ip, ip, LOOPBACK, 0x28));
        assert_eq!(super::super::tests::packets(&mut rig.datagrams.packets), [segment]);
        assert!(rig.ip.poll_timeout() != Some(ringway_shm::Instant::ZERO));
    }
}

/// The address may have been removed meanwhile; families do not mix, and other hosts' addresses have no loopback path.
#[test]
fn what_is_not_ours() {
    let mut rig = Rig::ipv6(Medium::Ethernet, Role::Owned);
    assert!(rig.ip.route(OWN.into(), Some(OWN6.into())).is_none());
    assert!(rig.ip.route(OWN.into(), Some([10, 0, 0, 9].into())).is_none());
    let mut burst = Burst::default();
    burst.push(rig.arena.alloc_from(&tcp_segment(b"")).expect("a frame"));
    rig.ip.send(env!(rig, ms(0)), &flow(OWN.into()), &mut burst, &mut [Burst::default()]);
    rig.ip.set_addresses(0, Vec::new());
    rig.ip.receive_looped(env!(rig, ms(0)), &mut rig.datagrams);
    assert_eq!((rig.count(Counter::IpInAddrErrors), rig.datagrams.headers.len()), (1, 0));
}
