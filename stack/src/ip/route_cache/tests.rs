//! A cached route is found again, and dropped as soon as it may be wrong.
use super::super::tests::*;
use super::super::{Medium, Role, Route};
use crate::Cidr;
use alloc::vec;

#[test]
fn changes_are_heard_of_at_once() {
    let mut rig = Rig::new(Medium::Ethernet, Role::Shared);
    let far: core::net::IpAddr = [192, 0, 2, 9].into();
    let next_hop = |rig: &Rig, local: Option<[u8; 4]>| rig.ip.route(far, local.map(Into::into)).map(|path| path.next_hop);
    for _ in 0..2 {
        assert_eq!(next_hop(&rig, None), Some([10, 0, 0, 254].into()));
        assert_eq!(next_hop(&rig, Some([10, 0, 0, 7])), None, "not an address of ours");
        assert_eq!(next_hop(&rig, Some(OWN)), Some([10, 0, 0, 254].into()));
    }
    // Another host with the same index does not get the first one's route.
    let other = core::net::Ipv4Addr::from_bits(core::net::Ipv4Addr::new(192, 0, 2, 9).to_bits() ^ 0x40 ^ 0x1);
    assert_eq!(super::place(other.into()) % super::WAYS, super::place(far) % super::WAYS, "the places are the same");
    assert_eq!(rig.ip.route(other.into(), None).map(|path| path.next_hop), Some([10, 0, 0, 254].into()));
    let default = Cidr { ip: [0; 4].into(), prefix_len: 0 };
    rig.ip.set_routes(vec![Route {
        destination: default,
        gateway: Some([10, 0, 0, 3].into()),
        interface: 0,
        metric: 0,
        source: None,
    }]);
    assert_eq!(next_hop(&rig, Some(OWN)), Some([10, 0, 0, 3].into()), "a new gateway");
    rig.ip.set_addresses(0, vec![]);
    assert_eq!(next_hop(&rig, Some(OWN)), None, "the address is gone");
    rig.ip.set_routes(vec![]);
    assert_eq!(next_hop(&rig, None), None);
}
