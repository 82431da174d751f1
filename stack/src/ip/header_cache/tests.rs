//! A template made for one flow serves others with the same header fields, and no other.
use super::super::tests::*;
use super::super::{Medium, Role};
use super::*;
use crate::address::MacAddress;
use crate::wire::arp::{Operation, Packet};
use crate::wire::ethernet::{Header, TYPE_ARP};
use alloc::vec;

fn flow() -> Flow {
    Flow { local: OWN.into(), remote: PEER.into(), protocol: 6, tos: 0, ttl: 0, ports: (80, 1_000) }
}

/// Ports do not matter; all other header fields do, and so does any change of the neighbor.
#[test]
fn only_flows_that_are_alike() {
    let mut rig = Rig::new(Medium::Ethernet, Role::Shared);
    rig.ip.set_neighbor(0, PEER.into(), Some(PEER_MAC));
    rig.ip.template(ms(0), &flow()).expect("the neighbor is known");
    let is_remembered = |rig: &Rig, at, flow: Flow| rig.ip.header_cache.find(at, &flow, rig.ip.generation()).is_some();
    assert!(is_remembered(&rig, ms(999), Flow { ports: (80, 2_000), ..flow() }));
    for other in [
        Flow { remote: [10, 0, 0, 3].into(), ..flow() },
        Flow { local: [10, 0, 0, 9].into(), ..flow() },
        Flow { protocol: 17, ..flow() },
        Flow { tos: 2, ..flow() },
        Flow { ttl: 1, ..flow() },
    ] {
        assert!(!is_remembered(&rig, ms(0), other));
    }
    assert!(!is_remembered(&rig, ms(1_000), flow()), "too old");
    rig.ip.set_neighbor(0, PEER.into(), Some(MacAddress([2, 0, 0, 0, 0, 9])));
    assert!(!is_remembered(&rig, ms(0), flow()), "the neighbor has another address");
    let template = rig.ip.template(ms(0), &flow()).expect("the neighbor is known");
    assert_eq!(template.bytes[..6], [2, 0, 0, 0, 0, 9]);
}

/// RFC 4861 §7.3.3, RFC 1122 §2.3.2.1: a neighbor that was silent for long is probed while packets go to it, cached headers
/// or not.
#[test]
fn a_silent_neighbor_is_asked() {
    let mut rig = Rig::new(Medium::Ethernet, Role::Owned);
    rig.ip.template(ms(0), &flow()).expect_err("the neighbor is not known");
    rig.transmit(ms(0));
    let answer = Packet {
        operation: Operation::Reply,
        sender_mac: PEER_MAC,
        sender_ip: PEER.into(),
        target_mac: OWN_MAC,
        target_ip: OWN.into(),
    };
    let mut bytes = vec![0; 42];
    Header { destination: OWN_MAC, source: PEER_MAC, ether_type: TYPE_ARP }.write(&mut bytes[..14]);
    answer.write(&mut bytes[14..]);
    rig.receive(ms(1), &bytes);
    let asked = (0..1_200).map(|n| ms(1 + 100 * n)).find(|&now| {
        rig.ip.handle_timeout(now);
        rig.ip.template(now, &flow()).expect("it stays in use");
        !rig.transmit(now).is_empty()
    });
    assert!(asked.is_some(), "two minutes without a question");
}
