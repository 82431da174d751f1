//! Datagrams in: which socket, which are dropped and counted, how they are kept.

use alloc::vec;
use alloc::vec::Vec;
use core::net::Ipv4Addr;

use ringway_shm::{Burst, Checksum, Class, Segmentation, SegmentationKind};

use super::rig::{LOCAL, Link, PLAIN, REMOTE, Rig, TOKEN, any, at, datagram, pattern};
use crate::config::UdpOptions;
use crate::error::BindError;
use crate::event::Event;
use crate::ip::Role;
use crate::stats::Counter;

/// A datagram comes whole, with what its headers said; one without payload is a message too.
#[test]
fn one_datagram() {
    let mut rig = Rig::new();
    let id = rig.bind(any(53), UdpOptions::default());
    rig.receive(&[datagram(at(REMOTE, 4_000), at(LOCAL, 53), b"question"), datagram(at(REMOTE, 4_000), at(LOCAL, 53), b"")]);
    assert_eq!(rig.events(), [Event::Ready { socket: id, user_token: TOKEN }]);
    assert!(rig.stack.readiness(id).readable);
    assert_eq!(rig.stack.udp_peek(id).map(|message| message.len), Some(8));
    let (message, payload) = rig.take(id).expect("it has come");
    assert_eq!((message.from, message.to, message.time_to_live), (at(REMOTE, 4_000), at(LOCAL, 53), 61));
    assert_eq!(payload, b"question");
    assert_eq!(rig.take(id).map(|(message, _)| message.len), Some(0));
    assert!(rig.take(id).is_none() && !rig.stack.readiness(id).readable);
    assert_eq!(rig.count(Counter::UdpInDatagrams), 2);
    rig.assert_no_leak();
}

/// The connected socket comes before the one bound to the address, and that before the one bound to all.
#[test]
fn the_closest_socket_has_it() {
    let mut rig = Rig::new();
    let share = UdpOptions { reuse_address: true, ..UdpOptions::default() };
    let all = rig.bind(any(53), share.clone());
    let bound = rig.bind(at(LOCAL, 53), share.clone());
    let connected = rig.bind(any(53), share);
    rig.stack.udp_connect(connected, Some(at(REMOTE, 7))).expect("a route");
    assert_eq!(rig.stack.addresses(connected), Some((at(LOCAL, 53), at(REMOTE, 7))));
    let other = Ipv4Addr::new(10, 0, 0, 9);
    rig.receive(&[
        datagram(at(REMOTE, 7), at(LOCAL, 53), b"connected"),
        datagram(at(REMOTE, 8), at(LOCAL, 53), b"bound"),
        datagram(at(REMOTE, 7), at(other, 53), b"all"),
    ]);
    assert_eq!(rig.payloads(connected), [b"connected".to_vec()]);
    assert_eq!(rig.payloads(bound), [b"bound".to_vec()]);
    assert_eq!(rig.payloads(all), [b"all".to_vec()]);
    // Dissolved, it is like the others again.
    rig.stack.udp_connect(connected, None).expect("always");
    assert_eq!(rig.stack.addresses(connected), Some((any(53), any(0))));
    rig.receive(&[datagram(at(REMOTE, 7), at(LOCAL, 53), b"bound again")]);
    assert_eq!(rig.payloads(bound), [b"bound again".to_vec()]);
}

/// A connected socket receives from its peer only.
#[test]
fn connected_sockets_are_private() {
    let mut rig = Rig::new();
    let id = rig.bind(any(53), UdpOptions::default());
    rig.stack.udp_connect(id, Some(at(REMOTE, 7))).expect("a route");
    rig.receive(&[datagram(at(REMOTE, 8), at(LOCAL, 53), b"of another")]);
    assert!(rig.take(id).is_none());
    assert_eq!((rig.count(Counter::UdpNoPorts), rig.packets().len()), (1, 1));
}

/// SO_REUSEPORT: a flow stays with one socket, flows spread over all.
#[test]
fn reuse_port_shares_out_by_flow() {
    let mut rig = Rig::new();
    let options = UdpOptions { reuse_port: true, ..UdpOptions::default() };
    let ids: Vec<_> = (0..4).map(|_| rig.bind(any(53), options.clone())).collect();
    for round in 0..2 {
        let packets: Vec<_> = (0..64).map(|n| datagram(at(REMOTE, 1_000 + n), at(LOCAL, 53), &[n as u8, round])).collect();
        rig.receive(&packets);
    }
    let mut sum = 0;
    for id in ids {
        let got = rig.payloads(id);
        assert!(got.len() >= 16, "far from an even share: {}", got.len());
        sum += got.len();
        let flows = |round: u8| got.iter().filter(|p| p[1] == round).map(|p| p[0]).collect::<Vec<_>>();
        assert_eq!(flows(0), flows(1));
    }
    assert_eq!(sum, 128);
}

/// Conflicts of bind.
#[test]
fn bind_conflicts() {
    let mut rig = Rig::new();
    let plain = UdpOptions::default;
    let port = UdpOptions { reuse_port: true, ..plain() };
    let first = rig.bind(at(LOCAL, 53), port.clone());
    for (local, options, result) in [
        (any(53), plain(), Some(BindError::InUse)),
        (at(LOCAL, 53), plain(), Some(BindError::InUse)),
        (at(Ipv4Addr::new(10, 0, 0, 9), 53), plain(), None),
        (at(LOCAL, 53), port, None),
        (at(Ipv4Addr::new(10, 0, 0, 77), 54), plain(), Some(BindError::NotLocal)),
    ] {
        assert_eq!(rig.stack.udp_bind(local, options, 0).err(), result);
    }
    let now = rig.now;
    rig.stack.close(now, first);
    assert_eq!(rig.stack.addresses(first), None);
}

/// What is not true is dropped and counted (RFC 768; RFC 1122 §4.1.3.4).
#[test]
fn bad_datagrams() {
    let mut rig = Rig::new();
    let id = rig.bind(any(53), UdpOptions::default());
    let good = || datagram(at(REMOTE, 7), at(LOCAL, 53), b"payload");
    let change = |at: usize, value: u8| {
        let mut bytes = good();
        bytes[at] = value;
        bytes
    };
    // A flipped bit; a length above the packet's; one below the header's; a header cut off.
    rig.receive(&[change(30, 0), change(25, 16), change(25, 7)]);
    let mut short = good();
    short.truncate(27);
    crate::wire::ipv4::Header::atomic(REMOTE, LOCAL, 17, 64, 27).write(&mut short[..20]);
    rig.receive(&[short]);
    assert!(rig.take(id).is_none());
    assert_eq!((rig.count(Counter::UdpInErrors), rig.count(Counter::UdpInCsumErrors)), (4, 1));
    // Without a checksum there is none to verify; bytes behind the length are not payload.
    let mut unsummed = good();
    unsummed[26..28].fill(0);
    let mut padded = unsummed.clone();
    padded[25] = 8 + 3;
    rig.receive(&[unsummed, padded]);
    assert_eq!(rig.payloads(id), [b"payload".to_vec(), b"pay".to_vec()]);
    rig.assert_no_leak();
}

/// A full buffer drops what comes, and counts; room comes back with reading.
#[test]
fn bounded_buffer() {
    let mut rig = Rig::new();
    let id = rig.bind(any(53), UdpOptions { receive_buffer_bytes: 5 * 2_048, ..UdpOptions::default() });
    let packets = vec![datagram(at(REMOTE, 7), at(LOCAL, 53), &pattern(1_000)); 8];
    rig.receive(&packets);
    assert_eq!((rig.payloads(id).len(), rig.count(Counter::UdpRcvbufErrors)), (5, 3));
    assert_eq!(rig.stack.udp_info(id).map(|info| (info.drops, info.receive_memory.0)), Some((3, 0)));
    rig.receive(&packets[..1]);
    assert_eq!(rig.payloads(id).len(), 1);
    // Small ones do not pin large frames: 256 bytes each.
    rig.receive(&vec![datagram(at(REMOTE, 7), at(LOCAL, 53), b"small"); 50]);
    assert_eq!((rig.payloads(id).len(), rig.arena.free(Class::Large)), (40, 512));
    rig.assert_no_leak();
}

/// However many sockets are not read, some frames stay free for others.
#[test]
fn a_flood_leaves_frames() {
    let mut rig = Rig::new();
    let options = UdpOptions { receive_buffer_bytes: 1 << 28, ..UdpOptions::default() };
    let id = rig.bind(any(53), options);
    for _ in 0..100 {
        rig.receive(&vec![datagram(at(REMOTE, 7), at(LOCAL, 53), &pattern(1_400)); 10]);
    }
    assert!(rig.arena.free(Class::Large) >= 512 / 16 - 1, "{} are left", rig.arena.free(Class::Large));
    rig.stack.close(rig.now, id);
    rig.assert_no_leak();
}

/// A multicast address reaches every socket of the port; without one there is no error.
#[test]
fn broadcast() {
    let mut rig = Rig::new();
    let share = UdpOptions { reuse_address: true, ..UdpOptions::default() };
    let ids = [rig.bind(any(67), share.clone()), rig.bind(any(67), share)];
    let all = Ipv4Addr::BROADCAST;
    let net = Ipv4Addr::new(10, 0, 0, 255);
    rig.receive(&[datagram(at(REMOTE, 68), at(all, 67), b"a"), datagram(at(REMOTE, 68), at(net, 67), &pattern(900))]);
    for id in ids {
        assert_eq!(rig.payloads(id), [b"a".to_vec(), pattern(900)]);
    }
    rig.receive(&[datagram(at(REMOTE, 68), at(all, 99), b"nobody")]);
    assert!(rig.packets().is_empty());
    rig.assert_no_leak();
}

/// A closed port is answered where the stack alone has the address, and never where the kernel has it too.
#[test]
fn closed_ports() {
    for (role, answers) in [(Role::Owned, 1), (Role::Shared, 0)] {
        let mut rig = Rig::on(Link { role, ..PLAIN });
        let packet = datagram(at(REMOTE, 7), at(LOCAL, 53), b"hello");
        rig.receive(core::slice::from_ref(&packet));
        let sent = rig.packets();
        assert_eq!((sent.len(), rig.count(Counter::UdpNoPorts)), (answers, 1));
        for reply in sent {
            // Type 3, code 3, and the head of what it is about.
            assert_eq!((reply[9], &reply[20..22], &reply[28..56]), (1, &[3, 3][..], &packet[..28]));
        }
    }
}

/// A super-datagram of the link is cut for sockets that have not asked for it, and whole for those that have.
#[test]
fn super_datagrams() {
    for coalesce in [false, true] {
        let mut rig = Rig::new();
        let id = rig.bind(any(53), UdpOptions { coalesce, ..UdpOptions::default() });
        let bytes = datagram(at(REMOTE, 7), at(LOCAL, 53), &pattern(2_500));
        let mut burst = Burst::default();
        for (part, more) in [(&bytes[..1_500], true), (&bytes[1_500..], false)] {
            let mut frame = rig.arena.alloc(Class::Large).expect("there are some");
            frame.extend(part.len()).copy_from_slice(part);
            frame.set_continues(more);
            frame.set_checksum(Checksum::Verified);
            frame.set_segmentation(Segmentation { kind: SegmentationKind::Udp, size: 1_000 });
            burst.push(frame);
        }
        rig.stack.receive(rig.now, 0, &mut burst);
        let all = pattern(2_500);
        if coalesce {
            let (message, payload) = rig.take(id).expect("it has come");
            assert_eq!((message.segment_size, message.datagrams(), payload), (1_000, 3, all));
        } else {
            assert_eq!(rig.payloads(id), [&all[..1_000], &all[1_000..2_000], &all[2_000..]]);
        }
        assert_eq!(rig.count(Counter::UdpInDatagrams), 3);
        rig.assert_no_leak();
    }
}

/// UDP_GRO: neighbors of one flow and size join; a shorter one ends the train; other flows and later turns stand alone.
#[test]
fn coalescing() {
    let mut rig = Rig::new();
    let id = rig.bind(any(53), UdpOptions { coalesce: true, ..UdpOptions::default() });
    let from = |port: u16, len: usize| datagram(at(REMOTE, port), at(LOCAL, 53), &pattern(len));
    rig.receive(&[from(7, 500), from(7, 500), from(7, 100), from(7, 500), from(8, 500), from(8, 600)]);
    rig.now += crate::Duration::from_millis(1);
    rig.receive(&[from(8, 600)]);
    let seen: Vec<_> = core::iter::from_fn(|| rig.take(id)).map(|(message, _)| (message.len, message.segment_size)).collect();
    assert_eq!(seen, [(1_100, 500), (500, 0), (500, 0), (600, 0), (600, 0)]);
    // At most 64 in one.
    rig.receive(&vec![from(7, 10); 70]);
    let seen: Vec<_> = core::iter::from_fn(|| rig.take(id)).map(|(message, _)| message.datagrams()).collect();
    assert_eq!(seen, [64, 6]);
    rig.assert_no_leak();
}
