//! IP_MTU_DISCOVER: the headers of segments, and the reaction to routers. Linux 6.18 answers the same messages in this way.

use alloc::vec::Vec;

use super::hostile::icmp;
use super::rig::*;
use crate::config::{PathMtuDiscovery, TcpOptions};
use crate::wire::ipv4;
use crate::wire::tcp::{ACK, SYN};

fn asking(discovery: PathMtuDiscovery) -> TcpOptions {
    TcpOptions { path_mtu_discovery: discovery, no_delay: true, ..newreno() }
}

/// IP headers of the packets that the stack transmits now; their checksums are valid.
fn headers(rig: &mut Rig) -> Vec<ipv4::Header> {
    while rig.stack.transmit(rig.now, &mut rig.out) {}
    let mut headers = Vec::new();
    while !rig.out[0].is_empty() {
        headers.extend(rig.out[0].front_packet().next().and_then(|first| ipv4::Header::parse(first.bytes())));
        rig.out[0].drop_packet();
    }
    headers
}

const ALL: [PathMtuDiscovery; 6] = [
    PathMtuDiscovery::Dont,
    PathMtuDiscovery::Want,
    PathMtuDiscovery::Do,
    PathMtuDiscovery::Probe,
    PathMtuDiscovery::Interface,
    PathMtuDiscovery::Omit,
];

/// `Want` and `Do` set "don't fragment"; other packets each have an identification of their own (RFC 6864 §4.1), also the
/// SYN.
#[test]
fn may_be_cut() {
    for (mode, whole) in ALL.into_iter().zip([false, true, true, false, false, false]) {
        let mut rig = Rig::with(Rig::config());
        rig.connect(asking(mode));
        rig.stack.transmit(rig.now, &mut rig.out);
        let syn = rig.out[0].front_packet().next().map(|frame| frame.bytes().to_vec()).expect("a SYN");
        rig.out[0].clear();
        let header = ipv4::Header::parse(&syn).expect("a good header");
        assert_eq!(header.dont_fragment, whole, "{mode:?}");
        rig.iss = crate::wire::tcp::Header::parse(&syn[20..]).map(|(header, _)| header.sequence);
        rig.receive(seg(SYN | ACK, 0, 1).mss(MSS as u16));
        let mut sent = headers(&mut rig);
        rig.send(1, 3 * MSS + 10);
        sent.extend(headers(&mut rig));
        assert_eq!(sent.len(), 5, "an ACK, four segments");
        assert!(sent.iter().all(|sent| sent.dont_fragment == whole), "{mode:?}");
        let mut identifications: Vec<u16> = sent.iter().map(|sent| sent.identification).collect();
        identifications.push(header.identification);
        identifications.sort_unstable();
        identifications.dedup();
        assert_eq!(identifications.len(), if whole { 1 } else { 6 }, "{mode:?}");
    }
}

/// Each segment that the link splits a packet into gets a number: the next packet's number is not among them.
#[test]
fn numbers_of_super_segments() {
    let mut rig = Rig::on(Rig::config(), true, 65_536, true);
    rig.unsummed = true;
    rig.listen_and_accept(asking(PathMtuDiscovery::Dont), seg(SYN, 0, 0).mss(MSS as u16));
    rig.send(1, 4 * MSS);
    let first = headers(&mut rig);
    rig.send(1 + 4 * MSS, MSS);
    let second = headers(&mut rig);
    assert_eq!((first.len(), second.len()), (1, 1));
    assert!(second[0].identification.wrapping_sub(first[0].identification) >= 4);
}

/// An accepted connection has its listener's choice, and a new one from the next segment on.
#[test]
fn inherited_and_changed() {
    let mut rig = Rig::accepted(Rig::config(), asking(PathMtuDiscovery::Dont));
    rig.send(1, 10);
    assert!(!headers(&mut rig)[0].dont_fragment);
    rig.stack.set_options(rig.now, rig.id, asking(PathMtuDiscovery::Want));
    rig.send(11, 10);
    assert!(headers(&mut rig)[0].dont_fragment);
}

/// RFC 1191 §6.4, Linux: `Want`, `Do` and `Probe` make segments smaller at once; the others let routers fragment.
#[test]
fn routers_are_heard_or_not() {
    for (mode, heard) in ALL.into_iter().zip([false, true, true, true, false, false]) {
        let mut rig = Rig::accepted(Rig::config(), asking(mode));
        rig.send(1, 2 * MSS);
        assert_eq!(rig.sent().len(), 2);
        icmp(&mut rig, 3, 4, 1_300, 1);
        let again: Vec<_> = rig.sent().iter().map(|segment| segment.payload.len()).collect();
        assert_eq!(again, if heard { &[1_260][..] } else { &[] }, "{mode:?}");
        assert_eq!(rig.info().send_mss, if heard { 1_260 } else { MSS }, "{mode:?}");
    }
}
