//! Groups and broadcast: the receivers, and what leaves.

use core::net::Ipv4Addr;

use ringway_shm::Burst;

use super::rig::{LOCAL, Link, PLAIN, REMOTE, Rig, any, at, datagram, pattern};
use crate::config::UdpOptions;
use crate::error::{GroupError, UdpSendError};
use crate::event::SocketId;
use crate::ip::Medium;
use crate::stats::Counter;
use crate::udp::UdpSend;
use crate::wire::ipv4;

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);
const OTHER: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 4);

fn listener(rig: &mut Rig, options: UdpOptions) -> SocketId {
    rig.bind(any(5_000), UdpOptions { reuse_address: true, ..options })
}

/// A group is heard from joining to leaving, by the sockets that joined and those that hear all.
#[test]
fn groups_are_joined_and_left() {
    let mut rig = Rig::new();
    let member = listener(&mut rig, UdpOptions::default());
    let hears_all = listener(&mut rig, UdpOptions::default());
    let hears_own = listener(&mut rig, UdpOptions { multicast_all: false, ..UdpOptions::default() });
    let packet = || [datagram(at(REMOTE, 1), at(GROUP, 5_000), b"to all")];
    rig.receive(&packet());
    assert_eq!(rig.count(Counter::IpInAddrErrors), 1, "nobody has joined");
    rig.stack.udp_join_group(member, None, GROUP.into()).expect("there is an interface");
    rig.receive(&packet());
    assert_eq!([member, hears_all, hears_own].map(|id| rig.payloads(id).len()), [1, 1, 0]);
    rig.stack.udp_join_group(hears_own, Some(0), GROUP.into()).expect("there is an interface");
    rig.stack.udp_leave_group(member, None, GROUP.into()).expect("it is in");
    rig.receive(&packet());
    assert_eq!([member, hears_all, hears_own].map(|id| rig.payloads(id).len()), [1, 1, 1]);
    let now = rig.now;
    rig.stack.close(now, hears_own);
    rig.receive(&packet());
    assert_eq!([member, hears_all].map(|id| rig.payloads(id).len()), [0, 0]);
    assert_eq!(rig.count(Counter::IpInAddrErrors), 2);
    rig.assert_no_leak();
}

/// What cannot be joined or left.
#[test]
fn refusals() {
    let mut rig = Rig::new();
    let id = listener(&mut rig, UdpOptions::default());
    let join = |rig: &mut Rig, interface, group: Ipv4Addr| rig.stack.udp_join_group(id, interface, group.into());
    assert_eq!(join(&mut rig, None, LOCAL), Err(GroupError::NotMulticast));
    assert_eq!(rig.stack.udp_join_group(id, None, "ff02::5".parse().expect("an address")), Err(GroupError::NotMulticast));
    assert_eq!(join(&mut rig, Some(7), GROUP), Err(GroupError::NoInterface));
    assert_eq!(join(&mut rig, None, GROUP), Ok(()));
    assert_eq!(join(&mut rig, Some(0), GROUP), Err(GroupError::AlreadyMember));
    assert_eq!(rig.stack.udp_leave_group(id, None, OTHER.into()), Err(GroupError::NotMember));
    for n in 1..64 {
        assert_eq!(join(&mut rig, None, Ipv4Addr::new(239, 9, 9, n)), Ok(()));
    }
    assert_eq!(join(&mut rig, None, OTHER), Err(GroupError::Full));
}

/// What is sent to a group leaves with one hop, by the group's link address, and is received here by
/// sockets that have joined, unless the sender does not want that.
#[test]
fn sending_to_a_group() {
    let mut rig = Rig::on(Link { medium: Medium::Ethernet, ..PLAIN });
    rig.packets();
    let member = listener(&mut rig, UdpOptions::default());
    rig.stack.udp_join_group(member, None, GROUP.into()).expect("there is an interface");
    let sender = rig.bind(any(1), UdpOptions::default());
    rig.send(sender, Some(at(GROUP, 5_000)), &pattern(3_000)).expect("there is room");
    let sent = rig.packets();
    assert_eq!(sent.len(), 3);
    assert_eq!(sent[0][..6], [1, 0, 0x5e, 1, 2, 3]);
    let header = ipv4::Header::parse(&sent[0][14..]).expect("a header");
    assert_eq!((header.source, header.destination, header.ttl), (LOCAL, GROUP, 1));
    let (message, payload) = rig.take(member).expect("it is heard here");
    assert_eq!((message.from, message.to, payload), (at(LOCAL, 1), at(GROUP, 5_000), pattern(3_000)));
    rig.stack.udp_set_options(sender, UdpOptions { multicast_loop: false, multicast_time_to_live: 4, ..UdpOptions::default() });
    rig.send(sender, Some(at(GROUP, 5_000)), b"abroad").expect("there is room");
    assert_eq!(ipv4::Header::parse(&rig.packets()[0][14..]).map(|header| header.ttl), Some(4));
    assert!(rig.take(member).is_none());
    let here = UdpSend { len: 4, to: Some(at(GROUP, 5_000)), time_to_live: Some(0), ..UdpSend::default() };
    rig.stack.udp_set_options(sender, UdpOptions::default());
    rig.send_as(sender, &here, b"here").expect("there is room");
    assert!(rig.packets().is_empty());
    assert_eq!(rig.payloads(member), [b"here".to_vec()]);
    rig.assert_no_leak();
}

/// Broadcast needs SO_BROADCAST, and goes to the broadcast link address without address resolution.
#[test]
fn sending_to_all_hosts() {
    for destination in [Ipv4Addr::BROADCAST, Ipv4Addr::new(10, 0, 0, 255)] {
        let mut rig = Rig::on(Link { medium: Medium::Ethernet, ..PLAIN });
        rig.packets();
        let id = rig.bind(any(67), UdpOptions::default());
        assert_eq!(rig.send(id, Some(at(destination, 67)), b"x"), Err(UdpSendError::BroadcastForbidden));
        rig.stack.udp_set_options(id, UdpOptions { broadcast: true, ..UdpOptions::default() });
        rig.send(id, Some(at(destination, 67)), b"x").expect("there is room");
        let sent = rig.packets();
        assert_eq!((sent.len(), &sent[0][..6]), (1, &[0xff; 6][..]));
        let header = ipv4::Header::parse(&sent[0][14..]).expect("a header");
        assert_eq!((header.source, header.destination, header.ttl), (LOCAL, destination, 64));
        assert_eq!(rig.payloads(id), [b"x".to_vec()], "the sender hears it too");
        rig.assert_no_leak();
    }
}

/// IPv6 groups, with the interface that the socket names.
#[test]
fn ipv6_groups() {
    let mut rig = Rig::on(Link { medium: Medium::Ethernet, ..PLAIN });
    let own = crate::Cidr { ip: "fd00::1".parse().expect("an address"), prefix_len: 64 };
    rig.stack.set_addresses(0, alloc::vec![own]);
    rig.packets();
    let group = "ff02::fb".parse().expect("an address");
    let any = crate::SocketAddress { ip: core::net::Ipv6Addr::UNSPECIFIED.into(), port: 5_353 };
    let options = UdpOptions { multicast_interface: Some(0), multicast_time_to_live: 255, ..UdpOptions::default() };
    let id = rig.bind(any, options);
    rig.stack.udp_join_group(id, Some(0), group).expect("there is an interface");
    let to = crate::SocketAddress { ip: group, port: 5_353 };
    rig.send(id, Some(to), b"who is there").expect("there is room");
    let mut out = [Burst::default()];
    rig.stack.transmit(rig.now, &mut out);
    let bytes = out[0].pop().expect("one packet");
    assert_eq!(bytes.bytes()[..6], [0x33, 0x33, 0, 0, 0, 0xfb]);
    assert_eq!(bytes.bytes()[14 + 7], 255);
    assert_eq!(rig.payloads(id), [b"who is there".to_vec()]);
    drop(bytes);
    rig.assert_no_leak();
}
