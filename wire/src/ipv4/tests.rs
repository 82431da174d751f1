use super::*;

fn header() -> Header {
    let atomic = Header::atomic(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2), PROTOCOL_TCP, 64, 1500);
    Header { tos: 0x10, ..atomic }
}

/// What is written is what is read, and the bytes are those of RFC 791.
#[test]
fn round_trip() {
    let mut bytes = [0; HEADER_LEN];
    header().write(&mut bytes);
    assert_eq!(bytes[..10], [0x45, 0x10, 0x05, 0xdc, 0, 0, 0x40, 0, 64, 6]);
    assert_eq!(checksum::sum(&bytes), 0xffff);
    assert_eq!(Header::parse(&bytes), Some(header()));
    let piece = Header { more_fragments: true, dont_fragment: false, fragment_offset: 1480, identification: 77, ..header() };
    piece.write(&mut bytes);
    assert_eq!(Header::parse(&bytes), Some(piece));
    assert!(piece.is_fragment() && !header().is_fragment());
}

/// Options are skipped, but belong to the checksum and to the header's length.
/// RFC 9293 MUST-50.
#[test]
fn options_are_skipped() {
    let mut bytes = [0; 24];
    header().write(&mut bytes[..20]);
    bytes[0] = 0x46;
    bytes[20..].copy_from_slice(&[1, 1, 1, 0]);
    bytes[10..12].fill(0);
    let checksum = !checksum::sum(&bytes);
    bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
    assert_eq!(Header::parse(&bytes).expect("a good header").header_len, 24);
    assert_eq!(Header::parse(&bytes[..23]), None);
    assert!(Header::parse_unverified(&bytes[..20]).is_some());
}

/// Any single wrong bit is found by the checksum, and impossible lengths are refused.
#[test]
fn refuses_bad_headers() {
    let mut good = [0; HEADER_LEN];
    header().write(&mut good);
    for bit in 0..HEADER_LEN * 8 {
        let mut bad = good;
        bad[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(Header::parse(&bad), None, "bit {bit}");
    }
    for (at, value) in [(0, 0x44), (0, 0x65), (3, 19)] {
        let mut bad = good;
        bad[2] = 0;
        bad[at] = value;
        assert_eq!(Header::parse_unverified(&bad), None, "byte {at} = {value}");
    }
    assert_eq!(Header::parse(&good[..19]), None);
}
