use super::super::tests::{OWN, OWN6, OWN6_LINK, PEER, PEER6, PEER6_LINK, Rig};
use super::super::{Medium, Role};
use super::*;
use alloc::vec;
use alloc::vec::Vec;

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn select(addresses: &[(&str, u8)], remote: &str) -> IpAddr {
    let mut rig = Rig::ipv6(Medium::Ethernet, Role::Shared);
    let addresses: Vec<Cidr> =
        addresses.iter().map(|(text, prefix_len)| Cidr { ip: ip(text), prefix_len: *prefix_len }).collect();
    rig.ip.set_addresses(0, addresses);
    rig.ip.route(ip(remote), None).expect("the default route").source
}

/// RFC 6724 §5, rules 2 and 8 with the examples of §10.1; of equals the first one.
#[test]
fn rules() {
    let global = [("fe80::1", 64), ("2001:db8:3::1", 64)];
    assert_eq!(select(&global, "2001:db8:1::1"), ip("2001:db8:3::1"), "appropriate scope");
    assert_eq!(select(&[("2001:db8:3::1", 64), ("fe80::1", 64)], "fe80::9"), ip("fe80::1"), "the smallest scope that reaches");
    let prefixes = [("2001:db8:1::2", 64), ("2001:db8:3::2", 64)];
    assert_eq!(select(&prefixes, "2001:db8:1::1"), ip("2001:db8:1::2"), "longest matching prefix");
    assert_eq!(select(&[prefixes[1], prefixes[0]], "2001:db8:1::1"), ip("2001:db8:1::2"));
    assert_eq!(select(&prefixes, "2400::1"), ip("2001:db8:1::2"), "the first of equals");
    // Bits after the prefix do not count.
    assert_eq!(select(&[("2001:db8::ff", 64), ("2001:db8::1", 64)], "2001:db8::3"), ip("2001:db8::ff"));
}

/// Rule 3: a deprecated address is used only without an alternative, even when it would match longer.
#[test]
fn deprecated_addresses_are_avoided() {
    let mut rig = Rig::ipv6(Medium::Ethernet, Role::Shared);
    let cidr = |text: &str| Cidr { ip: ip(text), prefix_len: 64 };
    let (old, new) = ("2001:db8:1::2", "2001:db8:3::2");
    rig.ip.set_addresses(0, vec![cidr(old), cidr(new)]);
    rig.ip.set_deprecated(0, vec![ip(old)]);
    let source = |rig: &Rig| rig.ip.route(ip("2001:db8:1::1"), None).expect("the default route").source;
    assert_eq!(source(&rig), ip(new));
    rig.ip.set_addresses(0, vec![cidr(old)]);
    assert_eq!(source(&rig), ip(old));
    assert!(rig.ip.owns(ip(old)), "open connections go on");
}

/// Families do not mix, and link-local ends identify their link.
#[test]
fn families_and_links() {
    let rig = Rig::ipv6(Medium::Ethernet, Role::Shared);
    let source = |remote: IpAddr, local: Option<IpAddr>| rig.ip.route(remote, local).map(|path| path.source);
    assert_eq!(source(PEER.into(), None), Some(OWN.into()));
    assert_eq!(source(PEER6.into(), None), Some(OWN6.into()));
    assert_eq!(source(PEER6_LINK.into(), None), Some(OWN6_LINK.into()));
    assert_eq!(source(PEER6.into(), Some(OWN.into())), None);
    assert_eq!(source(PEER.into(), Some(OWN6.into())), None);
    assert_eq!(source(ip("::ffff:10.0.0.2"), None), None, "mapped addresses never leave");
    assert_eq!(source(PEER6_LINK.into(), Some(OWN6_LINK.into())), Some(OWN6_LINK.into()));
    let far = rig.ip.route(ip("2400::1"), None).expect("the default route");
    assert_eq!((far.next_hop, far.source), (ip("fe80::fe"), OWN6.into()), "for the destination, not for the router");
}

/// Two links, the same link-local network on both: our own end identifies the link.
#[test]
fn the_same_network_on_two_links() {
    let mut rig = Rig::ipv6(Medium::Ethernet, Role::Shared);
    let second = super::super::Interface { name: "wire1".into(), ..rig.ip.interfaces[0].interface.clone() };
    let second = rig.ip.add_interface(second);
    rig.ip.set_addresses(second, vec![Cidr { ip: ip("fe80::7"), prefix_len: 64 }]);
    let through = |local: IpAddr| rig.ip.route(PEER6_LINK.into(), Some(local)).map(|path| path.interface);
    assert_eq!((through(OWN6_LINK.into()), through(ip("fe80::7"))), (Some(0), Some(second)));
}
