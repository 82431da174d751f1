use super::*;

/// What is written is what is read, and shorter bytes are refused.
#[test]
fn round_trip() {
    let header = Header { destination: MacAddress::BROADCAST, source: MacAddress([2, 0, 0, 0, 0, 9]), ether_type: TYPE_ARP };
    let mut bytes = [0; HEADER_LEN];
    header.write(&mut bytes);
    assert_eq!(bytes, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 9, 8, 6]);
    assert_eq!(Header::parse(&bytes), Some(header));
    assert_eq!(Header::parse(&bytes[..13]), None);
}
