use super::*;

fn v4(total: u16, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x45, 0, (total >> 8) as u8, total as u8, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    let header = !sum(0, &bytes);
    bytes[10..12].copy_from_slice(&header.to_be_bytes());
    bytes.extend(payload);
    bytes
}

fn v6(next: u8, payload: &[u8]) -> Vec<u8> {
    let len = payload.len() as u16;
    [&[0x60, 0, 0, 0, (len >> 8) as u8, len as u8, next, 64][..], &[1; 16], &[2; 16], payload].concat()
}

#[test]
fn an_ipv4_header() {
    let bytes = v4(24, TCP, &[1, 2, 3, 4, 0, 0]);
    let datagram = parse(&bytes, 26).expect("it is right");
    // The link padded it.
    assert_eq!((datagram.payload, datagram.payload_len, datagram.len), (&[1, 2, 3, 4][..], 4, 24));
    assert!(datagram.checksum_is_right && !datagram.is_fragment);
    let mut spoiled = bytes.clone();
    spoiled[8] ^= 1;
    assert!(!parse(&spoiled, 26).expect("it can be read").checksum_is_right);
    assert!(matches!(parse(&bytes, 23), Err(Malformed::Wrong(_))));
    assert_eq!(parse(&bytes[..19], 26), Err(Malformed::Cut));
    assert!(matches!(parse(&[&[0x41], &bytes[1..]].concat(), 26), Err(Malformed::Wrong(_))));
}

#[test]
fn extension_headers_are_walked() {
    let plain = v6(TCP, &[9; 20]);
    assert_eq!(parse(&plain, 60).map(|datagram| (datagram.protocol, datagram.payload_len)), Ok((TCP, 20)));
    let hop_by_hop = v6(0, &[&[60, 0, 0, 0, 0, 0, 0, 0][..], &[TCP, 1], &[0; 14], &[9; 20]].concat());
    assert_eq!(parse(&hop_by_hop, 84).map(|datagram| (datagram.protocol, datagram.payload_len)), Ok((TCP, 20)));
    let fragment = |field: u16| v6(44, &[&[TCP, 0][..], &field.to_be_bytes(), &[0; 4], &[9; 8]].concat());
    assert_eq!(parse(&fragment(0), 56).map(|datagram| datagram.is_fragment), Ok(false));
    assert_eq!(parse(&fragment(1), 56).map(|datagram| datagram.is_fragment), Ok(true));
    assert_eq!(parse(&fragment(8), 56).map(|datagram| datagram.is_fragment), Ok(true));
    let endless = v6(0, &[&[0, 255][..], &[0; 6]].concat());
    assert!(matches!(parse(&endless, 48), Err(Malformed::Wrong(_))));
}

#[test]
fn checksums_of_both_versions() {
    for bytes in [v4(28, UDP, &[0; 8]), v6(UDP, &[0; 8])] {
        let with = |bytes: &[u8], field: u16| {
            let mut bytes = bytes.to_vec();
            let at = bytes.len() - 2;
            bytes[at..].copy_from_slice(&field.to_be_bytes());
            let len = bytes.len() as u32;
            parse(&bytes, len).expect("it is right").checksum(6)
        };
        let len = bytes.len() as u32;
        let pseudo = parse(&bytes, len).expect("it is right").pseudo(8);
        assert_eq!(with(&bytes, !pseudo), Sum::Right);
        assert_eq!(with(&bytes, pseudo), Sum::Partial);
        assert_eq!(with(&bytes, 0), Sum::Absent);
        assert_eq!(with(&bytes, 0x1234), Sum::Wrong);
    }
}
