use super::*;

fn header() -> Header {
    Header {
        traffic_class: 0xb9,
        flow_label: 0x1_2345,
        payload_len: 1440,
        next_header: PROTOCOL_TCP,
        hop_limit: 64,
        source: "2001:db8::1".parse().expect("an address"),
        destination: "2001:db8::2".parse().expect("an address"),
    }
}

/// What is written is what is read, and the bytes are those of RFC 8200.
#[test]
fn round_trip() {
    let mut bytes = [0; HEADER_LEN];
    header().write(&mut bytes);
    assert_eq!(bytes[..8], [0x6b, 0x91, 0x23, 0x45, 0x05, 0xa0, 6, 64]);
    assert_eq!(bytes[8..12], [0x20, 0x01, 0x0d, 0xb8]);
    assert_eq!(Header::parse(&bytes), Some(header()));
    for len in 0..HEADER_LEN {
        assert_eq!(Header::parse(&bytes[..len]), None);
    }
    bytes[0] = 0x4b;
    assert_eq!(Header::parse(&bytes), None, "another version");
}

/// The offset counts bytes; its low bits and the reserved ones do not leak.
#[test]
fn fragments() {
    let fragment = Fragment { next_header: 17, offset: 1448, more: true, identification: 0xdead_beef };
    let mut bytes = [0; FRAGMENT_LEN];
    fragment.write(&mut bytes);
    assert_eq!(bytes, [17, 0, 0x05, 0xa9, 0xde, 0xad, 0xbe, 0xef]);
    assert_eq!(Fragment::parse(&bytes), Some(fragment));
    bytes[1] = 0xff;
    bytes[3] |= 6;
    assert_eq!(Fragment::parse(&bytes), Some(fragment));
    assert_eq!(Fragment::parse(&bytes[..7]), None);
    assert!(!fragment.is_atomic() && Fragment { offset: 0, more: false, ..fragment }.is_atomic());
}

/// RFC 4291 §2.7.1, its own example.
#[test]
fn solicited_node_groups() {
    let ip: Ipv6Addr = "4037::01:800:200e:8c6c".parse().expect("an address");
    assert_eq!(solicited_node(ip), "ff02::1:ff0e:8c6c".parse::<Ipv6Addr>().expect("an address"));
}
