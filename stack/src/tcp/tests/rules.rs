//! Rules of RFC 9293 that no other test covers.

use core::net::Ipv4Addr;

use alloc::vec;
use alloc::vec::Vec;

use super::rig::*;
use crate::address::{Cidr, SocketAddress};
use crate::config::{StackConfig, TcpOptions};
use crate::error::ConnectError;
use crate::event::{Event, SocketError};
use crate::tcp::ActiveOpen;
use crate::tcp::State;
use crate::wire::tcp::{ACK, PSH, RST, SYN};

fn open() -> Rig {
    Rig::accepted(Rig::config(), TcpOptions::default())
}

fn options(change: impl FnOnce(&mut TcpOptions)) -> TcpOptions {
    let mut options = TcpOptions { no_delay: true, ..TcpOptions::default() };
    change(&mut options);
    options
}

/// IP headers of the packets that the stack sends now.
fn ip_headers(rig: &mut Rig) -> Vec<Vec<u8>> {
    while rig.stack.transmit(rig.now, &mut rig.out) {}
    let mut headers = Vec::new();
    while !rig.out[0].is_empty() {
        headers.push(rig.out[0].front_packet().next().expect("a frame").bytes()[..20].to_vec());
        rig.out[0].drop_packet();
    }
    headers
}

/// RFC 9293 MUST-1: a window of 65535 is large, not negative.
#[test]
fn windows_are_unsigned() {
    let mut config = Rig::config();
    config.tcp.initial_window = 60;
    let mut rig = Rig::with(config);
    rig.accept_with(TcpOptions::default(), seg(SYN, 0, 0).mss(MSS as u16));
    rig.send(1, 100_000);
    let sent: usize = rig.sent().iter().map(|segment| segment.payload.len()).sum();
    assert_eq!(sent, 65_535 / MSS as usize * MSS as usize);
}

/// RFC 9293 MUST-5, MUST-65: a SYN's option does no harm on data, and we never send it there.
#[test]
fn syn_options_later() {
    let mut rig = open();
    rig.receive(seg(ACK | PSH, 1, 1).data(10).mss(100).scale(3).sack_permitted());
    assert_eq!(rig.read(1), Ok(10));
    rig.send(1, MSS);
    let sent = rig.sent();
    assert_eq!(sent.len(), 1, "the MSS is that of the SYN");
    assert_eq!(sent[0].options.maximum_segment_size, None);
}

/// RFC 9293 MUST-11: refused after a simultaneous open, the application that opened actively gets the error.
#[test]
fn reset_after_a_simultaneous_open() {
    let mut rig = Rig::with(Rig::config());
    rig.connect(TcpOptions::default());
    rig.sent();
    rig.receive(seg(SYN, 0, 0).mss(1_460));
    assert_eq!(rig.brief(), vec![(SYN | ACK, 0, 1, 0)]);
    rig.receive(seg(RST, 1, 0));
    assert_eq!(rig.events(), vec![Event::Failed { socket: rig.id, user_token: NAME, error: SocketError::Refused }]);
}

/// RFC 9293 MUST-15: a peer that names no MSS gets 536 bytes at most.
#[test]
fn default_segment_size() {
    let mut rig = Rig::with(Rig::config());
    rig.accept_with(TcpOptions::default(), seg(SYN, 0, 0));
    rig.send(1, 1_000);
    let lengths: Vec<usize> = rig.sent().iter().map(|segment| segment.payload.len()).collect();
    assert_eq!(lengths[0], 536);
}

/// RFC 9293 MUST-14, MUST-67: our SYN offers the link's size, less both headers.
#[test]
fn announced_segment_size() {
    let mut rig = Rig::with(Rig::config());
    rig.connect(TcpOptions::default());
    assert_eq!(rig.sent()[0].options.maximum_segment_size, Some(1_460));
}

/// RFC 9293 MUST-25, MUST-28: keepalive is off by default, and then starts after two idle hours.
#[test]
fn keepalive_defaults() {
    assert!(!TcpOptions::default().keepalive);
    assert_eq!(StackConfig::default().tcp.keepalive_idle.as_millis(), 7_200_000);
    let mut rig = open();
    rig.assert_idle();
    rig.stack.set_options(rig.now, rig.id, options(|options| options.keepalive = true));
    let (after, probe) = rig.next_sent();
    assert_eq!((after, probe.len()), (7_200_000, 1));
}

/// RFC 9293 MUST-34: the peer withdraws window that was used already; data in flight counts, the rest waits.
#[test]
fn a_window_that_shrinks() {
    let mut rig = open();
    rig.send(1, 6 * MSS);
    assert_eq!(rig.sent().len(), 6);
    rig.receive(seg(ACK, 1, 1 + MSS).window(100));
    rig.send(1 + 6 * MSS, MSS);
    assert_eq!(rig.brief(), vec![], "beyond the edge");
    rig.receive(seg(ACK, 1, 1 + 6 * MSS).window(0));
    rig.receive(seg(ACK, 1, 1 + 6 * MSS));
    assert_eq!(rig.brief().last().map(|segment| segment.1), Some(1 + 6 * MSS));
    assert_eq!(rig.state(), State::Established);
}

/// RFC 9293 MUST-41: listening again on the port of living connections leaves them alone.
#[test]
fn listening_beside_connections() {
    let mut rig = Rig::with(Rig::config());
    let listener = rig.listen(TcpOptions::default(), 1);
    rig.receive(seg(SYN, 0, 0).mss(MSS as u16));
    rig.sent();
    rig.receive(seg(ACK, 1, 1));
    rig.id = rig.stack.accept(listener, NAME).expect("one waits");
    rig.stack.close(rig.now, listener);
    rig.listen(TcpOptions::default(), 1);
    rig.receive(seg(ACK | PSH, 1, 1).data(10));
    assert_eq!(rig.read(1), Ok(10));
}

/// RFC 9293 MUST-42: one port, two local addresses, two listeners.
#[test]
fn listeners_of_two_addresses() {
    let mut rig = Rig::with(Rig::config());
    let second = Ipv4Addr::new(10, 0, 0, 9);
    let cidr = |ip: Ipv4Addr| Cidr { ip: ip.into(), prefix_len: 24 };
    rig.stack.set_addresses(0, vec![cidr(LOCAL), cidr(second)]);
    for (ip, user_token) in [(LOCAL, 1), (second, 2)] {
        rig.stack.listen(SocketAddress { ip: ip.into(), port: 80 }, 4, TcpOptions::default(), user_token).expect("both are free");
    }
    rig.receive(seg(SYN, 0, 0));
    rig.sent();
    rig.receive(seg(ACK, 1, 1));
    assert!(matches!(rig.events()[..], [Event::Accepted { user_token: 1, .. }]));
}

/// RFC 9293 MUST-43, MUST-44, MUST-45: the local address is the one named, otherwise IP's choice, and stays.
#[test]
fn local_addresses() {
    let remote = SocketAddress { ip: REMOTE.into(), port: 1_000 };
    let second = Ipv4Addr::new(10, 0, 0, 9);
    for (named, expected) in [(Some(second), second), (None, LOCAL)] {
        let mut rig = Rig::with(Rig::config());
        let cidr = |ip: Ipv4Addr| Cidr { ip: ip.into(), prefix_len: 24 };
        rig.stack.set_addresses(0, vec![cidr(LOCAL), cidr(second)]);
        let local = named.map(|ip| SocketAddress { ip: ip.into(), port: 0 });
        let id =
            rig.stack.connect(rig.now, ActiveOpen { local, user_token: 1, ..ActiveOpen::to(remote) }).expect("there is a route");
        rig.id = id;
        let mut headers = ip_headers(&mut rig);
        rig.wait_ms(1_000);
        headers.extend(ip_headers(&mut rig));
        assert_eq!(headers.len(), 2, "SYN and its copy");
        assert!(headers.iter().all(|header| header[12..16] == expected.octets()));
        assert_eq!(rig.stack.addresses(id).map(|(local, _)| local.ip), Some(expected.into()));
    }
}

/// RFC 9293 MUST-46: no connection can be opened to a multicast, broadcast or unspecified address.
#[test]
fn unreachable_addresses() {
    let mut rig = Rig::with(Rig::config());
    for ip in [[224, 0, 0, 1], [255, 255, 255, 255], [0, 0, 0, 0], [240, 0, 0, 1]] {
        let remote = SocketAddress { ip: Ipv4Addr::from(ip).into(), port: 80 };
        let result = rig.stack.connect(rig.now, ActiveOpen { user_token: 1, ..ActiveOpen::to(remote) });
        assert!(matches!(result, Err(ConnectError::NoRoute)), "{ip:?}: {result:?}");
    }
    assert_eq!(rig.brief(), vec![]);
}

/// RFC 9293 MUST-48, MUST-49: the application chooses DSCP and time to live.
#[test]
fn field_values_of_the_application() {
    let mut rig = Rig::accepted(Rig::config(), options(|options| (options.type_of_service, options.time_to_live) = (0x28, 3)));
    rig.send(1, 10);
    let headers = ip_headers(&mut rig);
    assert_eq!((headers.len(), headers[0][1], headers[0][8]), (1, 0x28, 3));
}

/// RFC 9293 MUST-58, MUST-59: segments that arrive together are answered by one ACK, of the last.
#[test]
fn acknowledgments_are_aggregated() {
    let mut rig = open();
    let segment = |n: u32| seg(ACK, 1 + n * MSS, 1).data(MSS);
    rig.receive_all([segment(0), segment(1), segment(2), segment(3)]);
    assert_eq!(rig.brief(), vec![(ACK, 1, 1 + 4 * MSS, 0)]);
    rig.receive_all([segment(5), segment(4)]);
    assert_eq!(rig.brief(), vec![(ACK, 1, 1 + 6 * MSS, 0)]);
}

/// RFC 9293 MUST-60, MUST-61: queued data is sent without a request, and its last segment has PSH.
#[test]
fn the_last_segment_is_pushed() {
    let mut rig = open();
    rig.send(1, 2 * MSS + 10);
    let flags: Vec<u8> = rig.sent().iter().map(|segment| segment.flags).collect();
    assert_eq!(flags, [ACK, ACK, ACK | PSH]);
}

/// RFC 9293 MUST-66: a RST counts while our window is closed; data does not.
#[test]
fn reset_at_a_closed_window() {
    let mut rig = Rig::accepted(Rig::config(), options(|options| options.receive_buffer_bytes = 4 * MSS));
    let mut next = 1;
    for _ in 0..100 {
        let len = rig.info().receive_window.min(MSS);
        if len == 0 {
            break;
        }
        rig.receive(seg(ACK | PSH, next, 1).data(len));
        rig.sent();
        next += len;
    }
    assert_eq!(rig.info().receive_window, 0);
    rig.receive(seg(ACK | PSH, next, 1).data(10));
    assert_eq!(rig.brief(), vec![(ACK, 1, next, 0)], "not taken");
    rig.receive(seg(RST, next, 0));
    assert_eq!(rig.state(), State::Closed);
}
