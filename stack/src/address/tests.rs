use super::*;

fn cidr(ip: [u8; 4], prefix_len: u8) -> Cidr {
    Cidr { ip: ip.into(), prefix_len }
}

/// A prefix contains exactly its addresses, at both ends of the range of lengths and for both families.
#[test]
fn networks() {
    assert!(cidr([10, 1, 2, 3], 24).contains([10, 1, 2, 255].into()));
    assert!(!cidr([10, 1, 2, 3], 24).contains([10, 1, 3, 0].into()));
    assert!(cidr([0, 0, 0, 0], 0).contains([255, 0, 0, 1].into()));
    assert!(cidr([10, 0, 0, 1], 32).contains([10, 0, 0, 1].into()));
    assert!(!cidr([10, 0, 0, 1], 32).contains([10, 0, 0, 0].into()));
    assert!(!cidr([0, 0, 0, 0], 0).contains([0u16; 8].into()), "families do not mix");
    let all = Cidr { ip: [0u16; 8].into(), prefix_len: 0 };
    assert!(all.contains([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into()));
    let net = Cidr { ip: [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into(), prefix_len: 64 };
    assert!(net.contains([0x2001, 0xdb8, 0, 0, 9, 9, 9, 9].into()) && !net.contains([0x2001, 0xdb8, 0, 1, 0, 0, 0, 1].into()));
}

/// Point-to-point networks have no broadcast address (RFC 3021).
#[test]
fn broadcast_addresses() {
    assert_eq!(cidr([10, 1, 2, 3], 24).broadcast(), Some(Ipv4Addr::new(10, 1, 2, 255)));
    assert_eq!(cidr([10, 1, 2, 3], 31).broadcast(), None);
    assert_eq!(cidr([10, 1, 2, 3], 0).broadcast(), Some(Ipv4Addr::BROADCAST));
}
