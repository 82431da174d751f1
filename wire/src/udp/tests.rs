use super::*;
use crate::checksum;
use core::net::{IpAddr, Ipv4Addr};

/// What is written is what is read, and seven bytes are no header.
#[test]
fn header_round_trip() {
    let header = Header { source_port: 53, destination_port: 40_000, length: 9, checksum: 0xbeef };
    let mut bytes = [0; HEADER_LEN];
    header.write(&mut bytes);
    assert_eq!(bytes, [0, 53, 0x9c, 0x40, 0, 9, 0xbe, 0xef]);
    assert_eq!(Header::parse(&bytes), Some(header));
    assert_eq!(Header::parse(&bytes[..7]), None);
}

/// RFC 768: a computed checksum of zero is sent as all ones, and still verifies.
#[test]
fn zero_is_sent_as_ones() {
    let (a, b) = (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)));
    let pseudo = checksum::pseudo_header(a, b, 17, 10);
    let mut bytes = [0, 1, 0, 2, 0, 10, 0, 0, 0, 0];
    // The payload that makes the sum all ones.
    let rest = checksum::add(pseudo, checksum::sum(&bytes));
    bytes[8..].copy_from_slice(&(!rest).to_be_bytes());
    let sum = checksum::add(pseudo, checksum::sum(&bytes));
    assert_eq!(sum, 0xffff);
    assert_eq!(checksum_field(sum), 0xffff);
    bytes[6..8].copy_from_slice(&checksum_field(sum).to_be_bytes());
    assert_eq!(checksum::add(pseudo, checksum::sum(&bytes)), 0xffff);
    assert_eq!(checksum_field(0x1234), !0x1234);
}
