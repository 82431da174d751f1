//! The marks of `admission.rs`: whatever peers send, and however little applications read, applications can send.

use alloc::vec;
use core::net::{IpAddr, Ipv4Addr};

use ringway_shm::{Burst, Class};

use super::data::DEFAULT;
use super::rig::*;
use crate::address::SocketAddress;
use crate::admission::{Backlog, FrameUse};
use crate::config::{TcpOptions, UdpOptions};
use crate::event::SocketId;
use crate::family::Family;
use crate::stats::Counter;
use crate::wire::ipv4;
use crate::wire::tcp::{ACK, SYN};
use crate::wire::udp::Header;

const NO_DELAY: TcpOptions = TcpOptions { no_delay: true, ..DEFAULT };

/// A rig whose device copies short packets to small frames, or not; and its listener.
fn rig(small: bool) -> (Rig, SocketId) {
    let mut rig = Rig::of(Family::Ipv4, Rig::config());
    rig.small = small;
    let listener = rig.listen(NO_DELAY, 1_000);
    (rig, listener)
}

/// Opens a connection from `port` and accepts it.
fn open(rig: &mut Rig, listener: SocketId, port: u16) {
    (rig.ports.1, rig.iss) = (port, None);
    rig.receive(seg(SYN, 0, 0).mss(1_460));
    assert_eq!(rig.brief(), vec![(SYN | ACK, 0, 1, 0)], "a new peer is answered");
    rig.receive(seg(ACK, 1, 1));
    rig.id = rig.stack.accept(listener, u64::from(port)).expect("it is there");
}

/// Connections whose peers leave gaps.
fn leave_gaps(rig: &mut Rig, listener: SocketId) {
    for port in 1_000..1_040 {
        open(rig, listener, port);
        for gap in 1..150 {
            rig.receive(seg(ACK, 1 + 2 * gap, 1).data(1));
            rig.sent();
        }
    }
    assert!(rig.count(Counter::DropNoBuffer) > 0, "gaps have used all that they may");
}

/// Connections whose data is not read.
fn leave_unread(rig: &mut Rig, listener: SocketId) {
    let before = rig.count(Counter::DropNoBuffer);
    for port in 2_000..2_100 {
        open(rig, listener, port);
        for n in 0..40 {
            rig.receive(seg(ACK, 1 + n * 1_460, 1).data(1_460));
            rig.sent();
        }
    }
    assert!(rig.count(Counter::DropNoBuffer) > before, "unread data has used all that it may");
}

/// A UDP packet from this host of the local network, or the first fragment of one: `more` follow.
fn arrive(rig: &mut Rig, host: u8, identification: u16, more: bool, payload: &[u8]) {
    let IpAddr::V4(destination) = rig.family.local() else { panic!("IPv4") };
    let [a, b, c, _] = destination.octets();
    let len = ipv4::HEADER_LEN + payload.len();
    let mut header = ipv4::Header::atomic(Ipv4Addr::new(a, b, c, host), destination, ipv4::PROTOCOL_UDP, 64, len as u16);
    (header.identification, header.dont_fragment, header.more_fragments) = (identification, false, more);
    let mut frame = rig.arena.alloc(if rig.small { Class::Small } else { Class::Large }).expect("the arena is large enough");
    frame.extend(payload.len()).copy_from_slice(payload);
    header.write(frame.push(ipv4::HEADER_LEN));
    let mut burst = Burst::default();
    burst.push(frame);
    rig.stack.receive(rig.now, 0, &mut burst);
}

/// UDP sockets whose datagrams are not read.
fn leave_datagrams(rig: &mut Rig) {
    for port in 100..110 {
        let local = SocketAddress { ip: rig.family.local(), port };
        rig.stack.udp_bind(local, UdpOptions::default(), 1).expect("the port is free");
        let mut datagram = vec![0; 9];
        Header { source_port: 7, destination_port: port, length: 9, checksum: 0 }.write(&mut datagram[..8]);
        for _ in 0..1_000 {
            arrive(rig, 50, 0, false, &datagram);
        }
    }
    assert!(rig.count(Counter::UdpRcvbufErrors) > 0, "datagrams have used all that they may");
}

/// First fragments of datagrams that never become whole, from many hosts.
fn leave_fragments(rig: &mut Rig) {
    for identification in 1..4_000u16 {
        arrive(rig, 100 + (identification % 100) as u8, identification, true, &[0; 8]);
    }
}

fn applications_send_beside_all_of_them(small: bool) {
    let (mut rig, listener) = rig(small);
    leave_gaps(&mut rig, listener);
    leave_unread(&mut rig, listener);
    leave_datagrams(&mut rig);
    leave_fragments(&mut rig);
    for class in [Class::Large, Class::Small] {
        let (free, all) = (rig.arena.free(class), rig.arena.capacity(class));
        assert!(free > FrameUse::Retry.leaves(all), "{class:?}: {free} of {all} are free");
    }
    open(&mut rig, listener, 3_000);
    rig.receive(seg(ACK, 1, 1).data(5));
    assert_eq!(rig.read(1), Ok(5));
    assert_eq!(rig.send(1, 100), 100);
    assert_eq!(rig.send(1, 20_000), 20_000);
}

#[test]
fn applications_send_beside_gaps_and_unread_data_in_large_frames() {
    applications_send_beside_all_of_them(false);
}

#[test]
fn applications_send_beside_gaps_and_unread_data_in_small_frames() {
    applications_send_beside_all_of_them(true);
}

/// Data in order goes on on connections that are read, beside those that are not.
#[test]
fn connections_that_are_read_go_on() {
    let (mut rig, listener) = rig(false);
    leave_unread(&mut rig, listener);
    open(&mut rig, listener, 3_000);
    for n in 0..20 {
        rig.receive(seg(ACK, 1 + n * 1_460, 1).data(1_460));
        assert_eq!(rig.read(1 + n * 1_460), Ok(1_460));
    }
}

/// An application that leaves a frame unread on each of many sockets leaves half of the frames to the others, datagrams included.
#[test]
fn sockets_of_a_hoard_leave_half_of_the_frames() {
    let (mut rig, listener) = rig(false);
    let free = |rig: &Rig| rig.arena.free(Class::Large);
    rig.stack.set_backlog(&Backlog { starves_senders: false, hoards: core::iter::once(1_000..2_000).collect() });
    let half = FrameUse::Hoard.leaves(rig.arena.capacity(Class::Large));
    let mut port = 1_000;
    while free(&rig) > half + 1 && port < 2_000 {
        open(&mut rig, listener, port);
        (0..40).for_each(|n| rig.receive(seg(ACK, 1 + n * 1_460, 1).data(1_460)));
        rig.sent();
        port += 1;
    }
    assert!(port < 1_999, "{} of {half} are left", free(&rig));
    let refused = rig.count(Counter::DropNoBuffer);
    open(&mut rig, listener, port);
    rig.receive(seg(ACK, 1, 1).data(5));
    assert_eq!(rig.count(Counter::DropNoBuffer), refused + 1, "not even a first one");
    rig.receive(seg(ACK, 100, 1).data(5));
    assert_eq!(rig.count(Counter::DropNoBuffer), refused + 2, "nor one out of order");
    rig.sent();
    // A short datagram is copied to a small frame first, and its own comes back.
    let last = rig.arena.alloc(Class::Large);
    let mut datagram = vec![0; 9];
    Header { source_port: 7, destination_port: 100, length: 9, checksum: 0 }.write(&mut datagram[..8]);
    let local = SocketAddress { ip: rig.family.local(), port: 100 };
    for (user_token, drops) in [(1_500, 1), (2_500, 1)] {
        let socket = rig.stack.udp_bind(local, UdpOptions::default(), user_token).expect("the port is free");
        arrive(&mut rig, 50, 0, false, &datagram);
        assert_eq!(rig.count(Counter::UdpRcvbufErrors), drops, "{user_token}");
        rig.stack.close(rig.now, socket);
    }
    drop(last);
    open(&mut rig, listener, 3_000);
    for n in 0..20 {
        rig.receive(seg(ACK, 1 + n * 1_460, 1).data(1_460));
    }
    assert_eq!(rig.read(1), Ok(29_200), "others may leave unread what they like");
    rig.sent();
    rig.stack.set_backlog(&Backlog::default());
    open(&mut rig, listener, 1_999);
    rig.receive(seg(ACK, 1, 1).data(5));
    assert_eq!(rig.read(1), Ok(5), "it has read");
}
