//! ICMP errors: the sockets that they reach, and what is believed.

use alloc::vec::Vec;
use core::net::Ipv4Addr;

use super::rig::{LOCAL, REMOTE, Rig, TOKEN, any, at, pattern};
use crate::config::UdpOptions;
use crate::error::UdpSendError;
use crate::event::{Event, SocketId};
use crate::udp::UdpError;
use crate::wire::{checksum, icmpv4, ipv4};

const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 254);

/// The error that `ROUTER` sends about a packet of ours.
fn icmp(kind: u8, code: u8, low: u16, about: &[u8]) -> Vec<u8> {
    let quoted = &about[..28];
    let mut bytes = alloc::vec![0; 28];
    ipv4::Header::atomic(ROUTER, LOCAL, 1, 64, 56).write(&mut bytes[..20]);
    icmpv4::Header { kind, code, low }.write(&mut bytes[20..28]);
    bytes.extend_from_slice(quoted);
    let sum = !checksum::sum(&bytes[20..]);
    bytes[22..24].copy_from_slice(&sum.to_be_bytes());
    bytes
}

fn sent(rig: &mut Rig, id: SocketId, len: usize) -> Vec<u8> {
    rig.send(id, Some(at(REMOTE, 7)), &pattern(len)).expect("it can be sent");
    rig.packets().remove(0)
}

/// RFC 1122 §4.1.3.3: a connected socket learns that the port is closed; an unconnected one only
/// when it asked for reports.
#[test]
fn port_unreachable() {
    for (connected, asked) in [(true, false), (false, false), (false, true), (true, true)] {
        let mut rig = Rig::new();
        let id = rig.bind(any(53), UdpOptions { receive_errors: asked, ..UdpOptions::default() });
        if connected {
            rig.stack.udp_connect(id, Some(at(REMOTE, 7))).expect("a route");
        }
        let about = sent(&mut rig, id, 100);
        rig.receive(&[icmp(3, 3, 0, &about)]);
        let told = connected || asked;
        let ready = [Event::Ready { socket: id, user_token: TOKEN }];
        assert_eq!(rig.events(), if told { &ready[..] } else { &[] });
        assert_eq!(rig.stack.readiness(id).readable, told);
        assert_eq!(rig.stack.udp_error(id), told.then_some(UdpError::Refused));
        assert_eq!(rig.stack.udp_error(id), None);
        let report = rig.stack.udp_error_report(id);
        assert_eq!(report.is_some(), asked);
        if let Some(report) = report {
            assert_eq!((report.error, report.destination), (UdpError::Refused, at(REMOTE, 7)));
            assert_eq!((report.offender, report.icmp_type, report.icmp_code), (Some(ROUTER.into()), 3, 3));
        }
        assert!(!rig.stack.readiness(id).readable);
        rig.assert_no_leak();
    }
}

/// What may pass (host unreachable, time exceeded) does not trouble a socket that did not ask; what will not does.
#[test]
fn soft_and_hard_errors() {
    for (kind, code, hard, error) in [
        (3, 0, false, UdpError::NetworkUnreachable),
        (3, 1, false, UdpError::HostUnreachable),
        (3, 2, true, UdpError::ProtocolUnreachable),
        (3, 6, true, UdpError::NetworkUnreachable),
        (3, 13, true, UdpError::HostUnreachable),
        (11, 0, false, UdpError::HostUnreachable),
        (12, 0, true, UdpError::ProtocolError),
    ] {
        for asked in [false, true] {
            let mut rig = Rig::new();
            let id = rig.bind(any(53), UdpOptions { receive_errors: asked, ..UdpOptions::default() });
            rig.stack.udp_connect(id, Some(at(REMOTE, 7))).expect("a route");
            let about = sent(&mut rig, id, 1);
            rig.receive(&[icmp(kind, code, 0, &about)]);
            assert_eq!(rig.stack.udp_error(id), (hard || asked).then_some(error), "type {kind} code {code}");
        }
    }
}

/// A message about another host's datagram changes nothing.
#[test]
fn errors_about_datagrams_of_other_hosts() {
    let mut rig = Rig::new();
    let id = rig.bind(any(53), UdpOptions::default());
    rig.stack.udp_connect(id, Some(at(REMOTE, 7))).expect("a route");
    let about = sent(&mut rig, id, 100);
    for byte in [15, 19, 21, 23] {
        let mut other = about.clone();
        other[byte] ^= 1;
        rig.receive(&[icmp(3, 3, 0, &other)]);
    }
    assert_eq!((rig.stack.udp_error(id), rig.events().len()), (None, 0));
}

/// RFC 1191: what a router says of the path limits later datagrams, for ten minutes.
#[test]
fn path_mtu() {
    let mut rig = Rig::new();
    let id = rig.bind(any(53), UdpOptions::default());
    rig.stack.udp_connect(id, Some(at(REMOTE, 7))).expect("a route");
    let mtu = |rig: &mut Rig| rig.stack.udp_info(id).and_then(|info| info.path_mtu);
    assert_eq!(mtu(&mut rig), Some(1_500));
    let about = sent(&mut rig, id, 1_472);
    rig.receive(&[icmp(3, 4, 1_300, &about)]);
    assert_eq!((rig.stack.udp_error(id), mtu(&mut rig)), (Some(UdpError::MessageTooLong), Some(1_300)));
    rig.send(id, None, &pattern(1_472)).expect("it is cut now");
    assert_eq!(rig.packets().len(), 2);
    let strict = UdpOptions { path_mtu_discovery: crate::PathMtuDiscovery::Do, ..UdpOptions::default() };
    rig.stack.udp_set_options(id, strict);
    assert_eq!(rig.send(id, None, &pattern(1_273)), Err(UdpSendError::MessageTooLong));
    assert_eq!(rig.send(id, None, &pattern(1_272)), Ok(1_272));
    let expiry = rig.stack.poll_timeout().expect("it is forgotten some day");
    assert_eq!(expiry, rig.now + crate::Duration::from_secs(600));
    rig.stack.handle_timeout(expiry);
    assert_eq!((mtu(&mut rig), rig.send(id, None, &pattern(1_472))), (Some(1_500), Ok(1_472)));
}

/// RFC 5927 §7: a message about a datagram that fits anyway, or that was not sent from here, is a lie.
#[test]
fn path_mtu_lies() {
    let mut rig = Rig::new();
    let id = rig.bind(any(53), UdpOptions::default());
    let other = rig.bind(any(54), UdpOptions::default());
    let mut about = sent(&mut rig, id, 100);
    rig.receive(&[icmp(3, 4, 600, &about)]);
    // As if socket 54 had sent a large one to a host that it has never spoken to.
    about[21] = 54;
    about[24..26].copy_from_slice(&1_480u16.to_be_bytes());
    rig.receive(&[icmp(3, 4, 600, &about)]);
    rig.stack.udp_connect(other, Some(at(REMOTE, 9))).expect("a route");
    assert_eq!(rig.stack.udp_info(other).and_then(|info| info.path_mtu), Some(1_500));
}

/// An error that comes after the last one was taken is told of, even if no datagram came in between.
#[test]
fn one_error_after_the_other() {
    let mut rig = Rig::new();
    let id = rig.bind(any(53), UdpOptions::default());
    rig.stack.udp_connect(id, Some(at(REMOTE, 7))).expect("a route");
    for _ in 0..3 {
        let about = sent(&mut rig, id, 100);
        rig.receive(&[icmp(3, 3, 0, &about)]);
        assert_eq!(rig.events(), [Event::Ready { socket: id, user_token: TOKEN }]);
        assert_eq!(rig.stack.udp_error(id), Some(UdpError::Refused));
    }
}
