use super::*;

fn peer() -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 8080)
}

#[test]
fn what_is_written_is_read_back_in_both_families() {
    assert_eq!(parse(SocketName::new(peer(), false).bytes()), Parsed::V4 { address: peer(), mapped: false });
    assert_eq!(parse(SocketName::new(peer(), true).bytes()), Parsed::V4 { address: peer(), mapped: true });
}

#[test]
fn short_and_foreign_addresses_are_the_kernels() {
    let name = SocketName::new(peer(), false);
    assert_eq!(parse(&name.bytes()[..15]), Parsed::Other);
    assert_eq!(parse(&[]), Parsed::Other);
    assert_eq!(parse(&[1, 0, b'/', b't']), Parsed::Other);
}

#[test]
fn the_ipv6_wildcard_and_a_true_ipv6_address_differ() {
    let mut bytes = [0; 28];
    bytes[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
    bytes[2..4].copy_from_slice(&80u16.to_be_bytes());
    assert_eq!(parse(&bytes), Parsed::V6Any { port: 80 });
    bytes[8] = 0x20;
    assert_eq!(parse(&bytes), Parsed::V6);
}
