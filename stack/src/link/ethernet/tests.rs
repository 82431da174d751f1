use super::*;
use alloc::vec::Vec;
use ringway_shm::{Arena, ArenaConfig};

const OWN: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const PEER: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);

/// Receives a frame with these bytes after the link addresses on an interface of `vlan`; returns its content and the rest.
fn received(vlan: Option<u16>, behind: &[u8]) -> Option<(Carries, Vec<u8>)> {
    let arena = Arena::new(ArenaConfig { large: 1, small: 1 });
    let bytes: Vec<u8> = OWN.0.iter().chain(&PEER.0).chain(behind).copied().collect();
    let mut frame = arena.alloc_from(&bytes).expect("a frame");
    receive(OWN, vlan, &mut frame).map(|carries| (carries, frame.bytes().to_vec()))
}

/// IEEE 802.1Q: an interface receives only its own VLAN; without one it receives untagged frames and those whose tag has
/// only a priority.
#[test]
fn tags() {
    let ipv4 = Some((Carries::Ipv4, alloc::vec![0x45]));
    assert_eq!(received(None, &[0x08, 0x00, 0x45]), ipv4);
    assert_eq!(received(None, &[0x81, 0x00, 0xe0, 0x00, 0x08, 0x00, 0x45]), ipv4, "a priority");
    assert_eq!(received(None, &[0x81, 0x00, 0x00, 0x07, 0x08, 0x00, 0x45]), None);
    assert_eq!(received(Some(7), &[0x81, 0x00, 0x00, 0x07, 0x08, 0x00, 0x45]), ipv4);
    assert_eq!(received(Some(7), &[0x81, 0x00, 0xf0, 0x07, 0x08, 0x00, 0x45]), ipv4, "with a priority");
    assert_eq!(received(Some(7), &[0x81, 0x00, 0x01, 0x07, 0x08, 0x00, 0x45]), None, "another VLAN");
    assert_eq!(received(Some(7), &[0x81, 0x00, 0x00, 0x00, 0x08, 0x00, 0x45]), None, "only a priority");
    assert_eq!(received(Some(7), &[0x08, 0x00, 0x45]), None, "not tagged");
    assert_eq!(received(Some(7), &[0x81, 0x00, 0x00, 0x07, 0x81, 0x00, 0x00, 0x07]), None, "two tags");
    for len in 2..6 {
        assert_eq!(received(Some(7), &[0x81, 0x00, 0x00, 0x07, 0x08, 0x00][..len]), None, "cut off");
    }
}

/// A header is received as it was written.
#[test]
fn pushed_tags() {
    let arena = Arena::new(ArenaConfig { large: 1, small: 1 });
    for vlan in [None, Some(1), Some(4_094)] {
        let mut frame = arena.alloc_from(&[0x60]).expect("a frame");
        push_header(&mut frame, PEER, OWN, TYPE_IPV6, vlan);
        assert_eq!(frame.len(), if vlan.is_some() { 19 } else { 15 });
        assert_eq!(receive(OWN, vlan, &mut frame), Some(Carries::Ipv6));
        assert_eq!(frame.bytes(), [0x60]);
    }
}
