//! Datagrams out: headers, limits, trains, what is cut.

use alloc::vec;
use alloc::vec::Vec;
use core::net::Ipv4Addr;

use ringway_shm::{Burst, Checksum, Class, Segmentation, SegmentationKind};

use super::rig::{LOCAL, Link, PLAIN, REMOTE, Rig, TOKEN, any, at, datagram, pattern};
use crate::config::{PathMtuDiscovery, UdpOptions};
use crate::error::UdpSendError;
use crate::event::Event;
use crate::stats::Counter;
use crate::udp::UdpSend;
use crate::wire::ipv4;

/// What leaves says what the socket and the call say, and cannot be cut when it fits.
#[test]
fn one_datagram() {
    let mut rig = Rig::new();
    let id = rig.bind(any(53), UdpOptions { type_of_service: 0xb8, time_to_live: 9, ..UdpOptions::default() });
    for payload in [&b""[..], b"x", &pattern(176), &pattern(177), &pattern(1_472)] {
        assert_eq!(rig.send(id, Some(at(REMOTE, 7)), payload), Ok(payload.len()));
        let sent = rig.sent();
        assert_eq!(sent.len(), 1);
        let header = sent[0].header;
        assert_eq!((header.source, header.destination, header.tos, header.ttl), (LOCAL, REMOTE, 0xb8, 9));
        assert!(header.dont_fragment);
        assert_eq!((sent[0].ports, &sent[0].payload[..]), ((53, 7), payload));
    }
    let call = UdpSend {
        len: 2,
        to: Some(at(REMOTE, 7)),
        source: Some(Ipv4Addr::new(10, 0, 0, 9).into()),
        type_of_service: Some(4),
        time_to_live: Some(1),
        ..UdpSend::default()
    };
    rig.send_as(id, &call, b"hi").expect("it fits");
    let header = rig.sent()[0].header;
    assert_eq!((header.source, header.tos, header.ttl), (Ipv4Addr::new(10, 0, 0, 9), 4, 1));
    assert_eq!(rig.count(Counter::UdpOutDatagrams), 6);
    rig.assert_no_leak();
}

/// What is refused, and why.
#[test]
fn refusals() {
    let mut rig = Rig::new();
    let id = rig.bind(any(53), UdpOptions::default());
    let elsewhere = Ipv4Addr::new(192, 168, 1, 1);
    for (to, len, error) in [
        (None, 1, UdpSendError::DestinationRequired),
        (Some(at(REMOTE, 0)), 1, UdpSendError::Invalid),
        (Some(at(elsewhere, 7)), 1, UdpSendError::NoRoute),
        (Some(at(Ipv4Addr::new(10, 0, 0, 255), 7)), 1, UdpSendError::BroadcastForbidden),
        (Some(at(REMOTE, 7)), 65_508, UdpSendError::MessageTooLong),
    ] {
        assert_eq!(rig.send(id, to, &pattern(len)), Err(error));
    }
    rig.stack.udp_connect(id, Some(at(REMOTE, 7))).expect("a route");
    assert_eq!(rig.send(id, None, b"connected"), Ok(9));
    assert_eq!(rig.sent().len(), 1);
    let now = rig.now;
    rig.stack.shutdown_write(now, id);
    assert_eq!(rig.send(id, None, b"more"), Err(UdpSendError::Closed));
    rig.stack.close(now, id);
    assert_eq!(rig.send(id, None, b"more"), Err(UdpSendError::NotOpen));
    rig.assert_no_leak();
}

/// IP_MTU_DISCOVER: what is too large is cut, or refused when it must not be.
#[test]
fn path_mtu_discovery() {
    use PathMtuDiscovery::{Do, Dont, Interface, Omit, Probe, Want};
    let whole = [(Want, true, true), (Do, true, false), (Probe, true, false)];
    let cut = [(Dont, false, true), (Interface, false, false), (Omit, false, true)];
    for (mode, fits_with_df, large) in whole.into_iter().chain(cut) {
        let mut rig = Rig::new();
        let options = UdpOptions { path_mtu_discovery: mode, receive_errors: true, ..UdpOptions::default() };
        let id = rig.bind(any(53), options);
        rig.send(id, Some(at(REMOTE, 7)), &pattern(1_472)).expect("it fits");
        assert_eq!(rig.sent()[0].header.dont_fragment, fits_with_df);
        let result = rig.send(id, Some(at(REMOTE, 7)), &pattern(1_473));
        if large {
            assert_eq!((result, rig.packets().len(), rig.count(Counter::IpFragOks)), (Ok(1_473), 2, 1));
        } else {
            assert_eq!((result, rig.packets().len()), (Err(UdpSendError::MessageTooLong), 0));
            let report = rig.stack.udp_error_report(id).expect("it was asked for");
            assert_eq!((report.mtu, report.offender, report.destination), (1_500, None, at(REMOTE, 7)));
        }
        rig.assert_no_leak();
    }
}

/// The largest datagram, on a link that gathers and on one that does not: every piece is a packet, all bytes are there.
#[test]
fn the_largest_datagram() {
    for gathers in [true, false] {
        let mut rig = Rig::on(Link { gathers, mtu: if gathers { 1_500 } else { 9_000 }, ..PLAIN });
        let id = rig.bind(any(53), UdpOptions::default());
        let payload = pattern(65_507);
        assert_eq!(rig.send(id, Some(at(REMOTE, 7)), &payload), Ok(65_507));
        let mut out = [Burst::default()];
        rig.stack.transmit(rig.now, &mut out);
        assert!(gathers || out[0].frames().all(|frame| !frame.continues()));
        let mut joined = Vec::new();
        while !out[0].is_empty() {
            let bytes: Vec<u8> = out[0].front_packet().flat_map(|frame| frame.bytes()).copied().collect();
            out[0].drop_packet();
            let header = ipv4::Header::parse(&bytes).expect("a header");
            assert_eq!(usize::from(header.fragment_offset), joined.len());
            joined.extend_from_slice(&bytes[20..]);
        }
        assert_eq!(joined.split_off(8), payload);
        rig.assert_no_leak();
    }
}

/// UDP_SEGMENT: a train leaves as datagrams of its size, the last one shorter.
#[test]
fn trains() {
    let mut rig = Rig::new();
    let id = rig.bind(any(53), UdpOptions { segment_size: 700, ..UdpOptions::default() });
    let payload = pattern(3_000);
    assert_eq!(rig.send(id, Some(at(REMOTE, 7)), &payload), Ok(3_000));
    let sent = rig.sent();
    assert_eq!(sent.iter().map(|wire| wire.payload.len()).collect::<Vec<_>>(), [700, 700, 700, 700, 200]);
    assert_eq!(sent.iter().flat_map(|wire| wire.payload.clone()).collect::<Vec<_>>(), payload);
    let train =
        |len, segment_size| UdpSend { len, to: Some(at(REMOTE, 7)), segment_size: Some(segment_size), ..UdpSend::default() };
    for (len, size, result) in [
        (3_000, 1_473, Err(UdpSendError::MessageTooLong)),
        (129, 1, Err(UdpSendError::Invalid)),
        (65_508, 1_400, Err(UdpSendError::MessageTooLong)),
        (1_400, 1_400, Ok(1_400)),
    ] {
        assert_eq!(rig.send_as(id, &train(len, size), &pattern(len)), result);
    }
    assert_eq!(rig.sent().len(), 1);
    rig.assert_no_leak();
}

/// A full send buffer refuses, counts, and tells when there is room again.
#[test]
fn send_buffer() {
    let mut rig = Rig::new();
    let id = rig.bind(any(53), UdpOptions { send_buffer_bytes: 3 * 2_048, ..UdpOptions::default() });
    for _ in 0..3 {
        rig.send(id, Some(at(REMOTE, 7)), &pattern(1_000)).expect("there is room");
    }
    assert!(!rig.stack.readiness(id).writable);
    assert_eq!(rig.send(id, Some(at(REMOTE, 7)), b"x"), Err(UdpSendError::WouldBlock));
    assert_eq!((rig.count(Counter::UdpSndbufErrors), rig.events().len()), (1, 0));
    assert_eq!(rig.sent().len(), 3);
    assert_eq!(rig.events(), [Event::Ready { socket: id, user_token: TOKEN }]);
    assert!(rig.stack.readiness(id).writable);
    rig.assert_no_leak();
}

/// Without frames a send is refused before anything is copied; the application is told when there are some.
#[test]
fn no_frames() {
    let mut rig = Rig::new();
    let id = rig.bind(any(53), UdpOptions::default());
    let taken: Vec<_> = (0..400).map(|_| rig.arena.alloc(Class::Large).expect("there are 512")).collect();
    assert_eq!(rig.send(id, Some(at(REMOTE, 7)), &pattern(1_000)), Err(UdpSendError::WouldBlock));
    let retry = rig.stack.poll_timeout().expect("it tries again");
    rig.stack.handle_timeout(retry);
    assert_eq!(rig.events(), vec![]);
    drop(taken);
    rig.stack.handle_timeout(retry);
    assert_eq!(rig.events(), [Event::Ready { socket: id, user_token: TOKEN }]);
    assert_eq!(rig.stack.poll_timeout(), None);
}

/// Where the link sums, the field holds the pseudo-header's sum; SO_NO_CHECK leaves it zero.
#[test]
fn checksums_of_the_link() {
    let mut rig = Rig::on(Link { partial_checksums: true, ..PLAIN });
    let id = rig.bind(any(53), UdpOptions::default());
    rig.send(id, Some(at(REMOTE, 7)), b"abcd").expect("it fits");
    let mut out = [Burst::default()];
    rig.stack.transmit(rig.now, &mut out);
    let frame = out[0].pop().expect("one packet");
    assert_eq!(frame.checksum(), Checksum::Partial { start: 20, offset: 6 });
    let pseudo = crate::wire::checksum::pseudo_header(LOCAL.into(), REMOTE.into(), 17, 12);
    assert_eq!(frame.bytes()[26..28], pseudo.to_be_bytes());
    // A cut datagram has its checksum: no link can make that.
    rig.send(id, Some(at(REMOTE, 7)), &pattern(2_000)).expect("it is cut");
    rig.stack.transmit(rig.now, &mut out);
    assert!(out[0].frames().all(|frame| frame.checksum() == Checksum::Complete));
    out[0].clear();
    rig.stack.udp_set_options(id, UdpOptions { no_checksum: true, ..UdpOptions::default() });
    rig.send(id, Some(at(REMOTE, 7)), b"abcd").expect("it fits");
    rig.stack.transmit(rig.now, &mut out);
    let frame = out[0].pop().expect("one packet");
    assert_eq!((frame.checksum(), &frame.bytes()[26..28]), (Checksum::Complete, &[0, 0][..]));
}

/// A socket that is gone has its queued datagrams sent, and its memory is free.
#[test]
fn close_sends_what_is_queued() {
    let mut rig = Rig::new();
    let id = rig.bind(any(53), UdpOptions::default());
    rig.receive(&[datagram(at(REMOTE, 7), at(LOCAL, 53), b"unread")]);
    rig.send(id, Some(at(REMOTE, 7)), b"last words").expect("it fits");
    rig.events();
    let now = rig.now;
    rig.stack.close(now, id);
    assert_eq!(rig.events(), [Event::Closed { socket: id, user_token: TOKEN, time_wait: false }]);
    let heir = rig.bind(any(53), UdpOptions::default());
    assert_ne!(heir, id);
    assert_eq!(rig.sent()[0].payload, b"last words");
    assert_eq!(rig.stack.udp_info(heir).map(|info| info.send_memory.0), Some(0));
    let mut seen = 0;
    rig.stack.for_each_socket(&mut |socket| seen += u32::from(socket.id == heir));
    assert_eq!(seen, 1);
    rig.assert_no_leak();
}

/// A train of more segments than the link takes in one packet is cut here.
#[test]
fn few_segments_to_a_packet() {
    let mut rig = Rig::on(Link { partial_checksums: true, segments: true, segments_max: 4, ..PLAIN });
    let id = rig.bind(any(53), UdpOptions { segment_size: 700, ..UdpOptions::default() });
    let mut out = [Burst::default()];
    for (bytes, packets) in [(4 * 700, 1), (4 * 700 + 1, 5)] {
        rig.send(id, Some(at(REMOTE, 7)), &pattern(bytes)).expect("there is room");
        rig.stack.transmit(rig.now, &mut out);
        assert_eq!(out[0].packets(), packets);
        out[0].clear();
    }
    rig.assert_no_leak();
}

/// Where the link cuts trains, they leave in one packet; what cannot (no checksum, may be cut by routers) is cut here.
#[test]
fn trains_for_the_link() {
    let mut rig = Rig::on(Link { partial_checksums: true, segments: true, ..PLAIN });
    let id = rig.bind(any(53), UdpOptions { segment_size: 700, ..UdpOptions::default() });
    let mut out = [Burst::default()];
    let payload = pattern(50_000);
    rig.send(id, Some(at(REMOTE, 7)), &payload).expect("there is room");
    rig.stack.transmit(rig.now, &mut out);
    assert_eq!(out[0].packets(), 1);
    let first = out[0].front_packet().next().expect("one packet");
    assert_eq!(first.segmentation(), Segmentation { kind: SegmentationKind::Udp, size: 700 });
    assert_eq!(first.checksum(), Checksum::Partial { start: 20, offset: 6 });
    let bytes: Vec<u8> = out[0].front_packet().flat_map(|frame| frame.bytes()).copied().collect();
    assert_eq!(bytes[2..4], 50_028u16.to_be_bytes());
    assert_eq!(bytes[28..], payload);
    assert_eq!(rig.count(Counter::UdpOutDatagrams), 72);
    out[0].clear();
    for options in [
        UdpOptions { segment_size: 700, no_checksum: true, ..UdpOptions::default() },
        UdpOptions { segment_size: 700, path_mtu_discovery: PathMtuDiscovery::Dont, ..UdpOptions::default() },
    ] {
        rig.stack.udp_set_options(id, options);
        rig.send(id, Some(at(REMOTE, 7)), &pattern(1_400)).expect("there is room");
        rig.stack.transmit(rig.now, &mut out);
        assert_eq!(out[0].packets(), 2);
        out[0].clear();
    }
    rig.assert_no_leak();
}
