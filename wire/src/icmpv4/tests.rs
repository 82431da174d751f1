use super::*;

/// What is written is what is read; the MTU of RFC 1191 is in the last two bytes.
#[test]
fn round_trip() {
    let header = Header { kind: UNREACHABLE, code: code::FRAGMENTATION_NEEDED, low: 1400 };
    let mut bytes = [0xff; HEADER_LEN];
    header.write(&mut bytes);
    assert_eq!(bytes, [3, 4, 0, 0, 0, 0, 0x05, 0x78]);
    assert_eq!(Header::parse(&bytes), Some(header));
    assert_eq!(Header::parse(&bytes[..7]), None);
}

/// Only errors are errors: replies to them would loop.
#[test]
fn which_kinds_are_errors() {
    for kind in 0..=255u8 {
        let expected = [3, 4, 5, 11, 12].contains(&kind);
        assert_eq!(Header { kind, code: 0, low: 0 }.is_error(), expected, "type {kind}");
    }
}
