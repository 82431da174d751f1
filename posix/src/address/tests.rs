use super::*;

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

#[test]
fn what_is_written_is_read_back_in_both_families() {
    let (v4, v6) = (address("10.0.0.1:8080"), address("[fd00::1]:8080"));
    assert_eq!(parse(SocketName::new(v4, false).bytes()), Parsed::Inet { address: v4, inet6: false });
    assert_eq!(parse(SocketName::new(v4, true).bytes()), Parsed::Inet { address: v4, inet6: true });
    assert_eq!(parse(SocketName::new(v6, true).bytes()), Parsed::Inet { address: v6, inet6: true });
    assert_eq!(SocketName::new(v4, true).bytes()[18..24], [0xff, 0xff, 10, 0, 0, 1], "v4-mapped");
}

#[test]
fn short_and_foreign_addresses_are_the_kernels() {
    let name = SocketName::new(address("10.0.0.1:8080"), false);
    assert_eq!(parse(&name.bytes()[..15]), Parsed::Other);
    assert_eq!(parse(&SocketName::new(address("[fd00::1]:80"), true).bytes()[..23]), Parsed::Other);
    assert_eq!(parse(&[]), Parsed::Other);
    assert_eq!(parse(&[1, 0, b'/', b't']), Parsed::Other);
}

#[test]
fn the_scope_is_not_needed() {
    let name = SocketName::new(address("[fd00::1]:80"), true);
    assert_eq!(parse(&name.bytes()[..24]), Parsed::Inet { address: address("[fd00::1]:80"), inet6: true });
}

#[test]
fn loopback_groups_and_link_local_addresses_are_the_kernels() {
    for ip in ["127.0.0.2", "224.0.0.1", "255.255.255.255", "::1", "ff02::1", "fe80::1", "febf::1"] {
        assert!(is_kernels(ip.parse().expect("an address")), "{ip}");
    }
    for ip in ["10.0.0.1", "0.0.0.0", "::", "fd00::1", "2001:db8::1"] {
        assert!(!is_kernels(ip.parse().expect("an address")), "{ip}");
    }
}
