use super::super::tests::{OWN_MAC, ms};
use super::super::{Interface, Medium, Role};
use super::*;
use crate::config::StackConfig;
use alloc::vec;

/// Makes an interface with autoconfiguration.
pub(in crate::ip) fn interface(autoconfiguration: Autoconfiguration) -> Interface {
    Interface {
        name: "wire0".into(),
        medium: Medium::Ethernet,
        mac: OWN_MAC,
        mtu: 1_500,
        sends_partial_checksums: false,
        segmentation_max_bytes: 0,
        segmentation_max_segments: u32::MAX,
        segments_udp: false,
        gathers: true,
        role: Role::Owned,
        autoconfiguration,
        detects_duplicates: false,
        vlan: None,
    }
}

fn ip(autoconfiguration: Autoconfiguration, seed: u64) -> Ip {
    let mut ip = Ip::new(&StackConfig { seed, ..StackConfig::default() }, ms(0));
    ip.add_interface(interface(autoconfiguration));
    ip
}

/// Advances the time to `end`.
fn run(ip: &mut Ip, end: Instant) {
    while let Some(at) = ip.poll_timeout().filter(|at| *at <= end) {
        ip.handle_timeout(at.max(Instant::from_millis(1)));
    }
}

fn secs(seconds: u64) -> Instant {
    ms(seconds * 1_000)
}

fn prefix(valid_secs: u32, preferred_secs: u32) -> Prefix {
    Prefix {
        prefix_len: 64,
        on_link: true,
        autonomous: true,
        valid_secs,
        preferred_secs,
        prefix: "2001:db8:5:6::".parse().expect("an address"),
    }
}

fn made(ip: &Ip) -> Vec<IpAddr> {
    ip.interfaces[0].addresses.iter().map(|cidr| cidr.ip).collect()
}

/// RFC 4291 appendix A: 02:00:00:00:00:01 becomes ::ff:fe00:1, in the link-local network and in that of a router.
#[test]
fn identifiers_of_the_link_address() {
    let mut ip = ip(Autoconfiguration::Eui64, 1);
    assert!(made(&ip).is_empty(), "it is checked first");
    run(&mut ip, secs(3));
    assert_eq!(made(&ip), ["fe80::ff:fe00:1".parse::<IpAddr>().expect("an address")]);
    ip.hears_prefix(secs(3), 0, &prefix(600, 300));
    ip.reschedule();
    run(&mut ip, secs(6));
    assert_eq!(made(&ip)[1..], ["2001:db8:5:6:0:ff:fe00:1".parse::<IpAddr>().expect("an address")]);
}

/// RFC 7217: the same network gives the same identifier; another network, another stack, or another attempt a different one.
#[test]
fn stable_identifiers() {
    let other: Ipv6Addr = "2001:db8:5:7::".parse().expect("an address");
    let of = |ip: &Ip, prefix: Ipv6Addr, attempt| u128::from(ip.automatic_address(0, prefix, attempt)) as u64;
    let (one, two) = (ip(Autoconfiguration::Stable, 1), ip(Autoconfiguration::Stable, 2));
    let all = [of(&one, LINK_LOCAL, 0), of(&one, other, 0), of(&one, other, 1), of(&two, other, 0)];
    for (at, identifier) in all.iter().enumerate() {
        assert!(!all[at + 1..].contains(identifier));
    }
    assert_eq!(of(&one, other, 0), of(&ip(Autoconfiguration::Stable, 1), other, 0));
}

/// RFC 7217 §6: a duplicate address is replaced by another of the same prefix, three times at most; identifiers of the link
/// address have no replacement.
#[test]
fn duplicates_are_replaced() {
    for (how, tries) in [(Autoconfiguration::Stable, 4), (Autoconfiguration::Eui64, 1)] {
        let mut ip = ip(how, 1);
        let mut tried = vec![];
        while let Some(check) = ip.interfaces[0].checks.first() {
            tried.push(check.ip);
            ip.address_is_taken(0, check.ip);
            assert_eq!(ip.poll_notice(), Some(duplicate(tried[tried.len() - 1])));
        }
        assert_eq!(tried.len(), tries, "{how:?}");
        run(&mut ip, secs(60));
        assert!(made(&ip).is_empty());
    }
}

fn duplicate(ip: IpAddr) -> crate::Event {
    crate::Event::Address { interface: 0, change: AddressChange::Duplicate(ip) }
}

/// RFC 4862 §5.5.4: after its preferred lifetime an address is for old flows only, after its valid lifetime it is gone.
#[test]
fn lifetimes() {
    let mut ip = ip(Autoconfiguration::Stable, 1);
    ip.hears_prefix(ms(1), 0, &prefix(600, 300));
    ip.reschedule();
    run(&mut ip, secs(299));
    assert_eq!((made(&ip).len(), ip.interfaces[0].deprecated.len()), (2, 0));
    let global = made(&ip)[1];
    run(&mut ip, secs(301));
    assert_eq!((made(&ip).len(), &ip.interfaces[0].deprecated[..]), (2, &[global][..]));
    while ip.poll_notice().is_some() {}
    run(&mut ip, secs(610));
    let removed = crate::Event::Address { interface: 0, change: AddressChange::Removed(global) };
    assert_eq!((made(&ip).len(), ip.poll_notice()), (1, Some(removed)));
    assert_eq!(ip.poll_timeout(), None, "link-local addresses stay");
}

/// RFC 4862 §5.5.3 (e): no advertisement ends an address in less than two hours; longer lifetimes take effect at once. A new
/// advertisement makes a deprecated address preferred again.
#[test]
fn the_two_hour_rule() {
    let valid = |first: u32, then: u32| {
        let mut ip = ip(Autoconfiguration::Stable, 1);
        ip.hears_prefix(secs(0), 0, &prefix(first, 0));
        assert!(ip.interfaces[0].automatic[1].deprecated);
        ip.hears_prefix(secs(0), 0, &prefix(then, then.min(1)));
        assert_eq!(ip.interfaces[0].automatic[1].deprecated, then == 0);
        ip.interfaces[0].automatic[1].valid_until.map(|until| until.as_millis() / 1_000)
    };
    assert_eq!(valid(10_000, 20_000), Some(20_000), "longer than two hours");
    assert_eq!(valid(10_000, 8_000), Some(8_000), "longer than two hours");
    assert_eq!(valid(600, 700), Some(700), "longer than what is left");
    assert_eq!(valid(10_000, 1), Some(7_200));
    assert_eq!(valid(u32::MAX, 0), Some(7_200));
    assert_eq!(valid(600, 0), Some(600), "less than two hours are left: ignored");
    assert_eq!(valid(600, u32::MAX), None, "for ever");
}

/// RFC 4862 §5.5.3 (a) to (d): prefixes from which no addresses are made; and the limit.
#[test]
fn prefixes_that_are_not_used() {
    let mut ip = ip(Autoconfiguration::Stable, 1);
    let good = prefix(600, 300);
    let link_local = LINK_LOCAL;
    let bad = [
        Prefix { autonomous: false, ..good },
        Prefix { preferred_secs: 601, ..good },
        Prefix { prefix_len: 63, ..good },
        Prefix { prefix: link_local, ..good },
        Prefix { valid_secs: 0, preferred_secs: 0, ..good },
    ];
    bad.iter().for_each(|bad| ip.hears_prefix(secs(1), 0, bad));
    assert_eq!(ip.interfaces[0].automatic.len(), 1);
    for number in 0..40u16 {
        let prefix = Ipv6Addr::new(0x2001, 0xdb8, 0, number, 0, 0, 0, 0);
        ip.hears_prefix(secs(1), 0, &Prefix { prefix, ..good });
    }
    assert_eq!((ip.interfaces[0].automatic.len(), ip.interfaces[0].checks.len()), (AUTOMATIC_MAX, AUTOMATIC_MAX));
}
