use super::*;

fn request() -> Packet {
    Packet {
        operation: Operation::Request,
        sender_mac: MacAddress([2, 0, 0, 0, 0, 1]),
        sender_ip: Ipv4Addr::new(10, 0, 0, 1),
        target_mac: MacAddress::default(),
        target_ip: Ipv4Addr::new(10, 0, 0, 2),
    }
}

/// What is written is what is read; padding behind it does not matter.
#[test]
fn round_trip() {
    let mut bytes = [0xaa; 46];
    request().write(&mut bytes[..LEN]);
    assert_eq!(bytes[..8], [0, 1, 8, 0, 6, 4, 0, 1]);
    assert_eq!(Packet::parse(&bytes), Some(request()));
}

/// Short packets, other hardware, other protocols and other operations are refused.
#[test]
fn refuses_what_it_is_not() {
    let mut bytes = [0; LEN];
    request().write(&mut bytes);
    assert_eq!(Packet::parse(&bytes[..LEN - 1]), None);
    for (at, value) in [(1, 6), (2, 0x86), (4, 8), (5, 16), (7, 3), (6, 1)] {
        let mut bad = bytes;
        bad[at] = value;
        assert_eq!(Packet::parse(&bad), None, "byte {at} = {value}");
    }
}
