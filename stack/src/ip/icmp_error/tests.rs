use super::super::Medium;
use super::super::tests::{OWN6, PEER, PEER_MAC, PEER6, Rig, env, from_peer, from_peer6, icmpv6_from_peer, ms};
use super::*;

fn send(packet: &[u8], cause: ErrorCause) -> usize {
    let mut rig = Rig::ipv6(Medium::Ethernet, Role::Owned);
    rig.ip.set_neighbor(0, PEER.into(), Some(PEER_MAC));
    rig.ip.set_neighbor(0, PEER6.into(), Some(PEER_MAC));
    let frame = rig.arena.alloc_from(&packet[14..]).expect("a frame");
    rig.ip.send_icmp_error(env!(rig, ms(1_000)), 0, &frame, cause);
    let sent = rig.transmit(ms(1_000));
    sent.first().map_or(0, Vec::len)
}

use alloc::vec::Vec;

/// Errors are never answered with errors, in either family; replies and requests may be.
#[test]
fn no_errors_about_errors() {
    let error = [3, 3, 0, 0, 0, 0, 0, 0];
    let echo = [0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(send(&from_peer(1, &error, |_| {}), ErrorCause::Port), 0);
    assert!(send(&from_peer(1, &echo, |_| {}), ErrorCause::Port) > 0);
    assert_eq!(send(&from_peer(1, &[], |_| {}), ErrorCause::Port), 0, "of unknown type");
    let error = [1, 4, 0, 0, 0, 0, 0, 0];
    let echo = [129, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(send(&icmpv6_from_peer(&error, |_| {}), ErrorCause::Port), 0);
    assert_eq!(send(&icmpv6_from_peer(&[137, 0, 0, 0, 0, 0, 0, 0], |_| {}), ErrorCause::Port), 0, "nor about a redirect");
    assert!(send(&icmpv6_from_peer(&echo, |_| {}), ErrorCause::Port) > 0);
}

/// No errors about packets without a source or to others, nor about later fragments.
#[test]
fn packets_that_no_error_answers() {
    let nobody = |header: &mut ipv6::Header| header.source = Ipv6Addr::UNSPECIFIED;
    assert_eq!(send(&from_peer6(17, &[0; 8], nobody), ErrorCause::Port), 0);
    let to_others = |header: &mut ipv6::Header| header.destination = PEER6;
    assert_eq!(send(&from_peer6(17, &[0; 8], to_others), ErrorCause::Port), 0);
    assert_eq!(send(&from_peer(17, &[0; 8], |header| header.fragment_offset = 8), ErrorCause::Port), 0);
    assert_eq!(send(&from_peer(17, &[0; 8], |header| header.destination = [10, 0, 0, 255].into()), ErrorCause::Port), 0);
    assert_eq!(send(&from_peer(17, &[0; 8], |header| header.source = [10, 0, 0, 255].into()), ErrorCause::Port), 0);
}

/// RFC 4443 §2.4 (c): the error with its quotation fits the minimum MTU; RFC 792: eight bytes after the IPv4 header.
#[test]
fn quotations() {
    assert_eq!(send(&from_peer6(17, &[0; 1_400], |_| {}), ErrorCause::Port), 14 + 1_280);
    assert_eq!(send(&from_peer(17, &[0; 1_400], |_| {}), ErrorCause::Port), 14 + 20 + 8 + 28);
    let mut rig = Rig::ipv6(Medium::Ethernet, Role::Owned);
    rig.ip.set_neighbor(0, PEER6.into(), Some(PEER_MAC));
    let original = from_peer6(132, &[7; 600], |_| {});
    rig.receive(ms(1_000), &original);
    let sent = rig.transmit(ms(1_000));
    assert_eq!(sent[0][62..], original[14..]);
    assert_eq!(ipv6::Header::parse(&sent[0][14..]).map(|header| header.source), Some(OWN6));
}
