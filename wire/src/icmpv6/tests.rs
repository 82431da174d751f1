use super::*;

/// What is written is what is read; a short header is none.
#[test]
fn round_trip() {
    let header = Header { kind: PACKET_TOO_BIG, code: 0, word: 1400 };
    let mut bytes = [0xff; HEADER_LEN];
    header.write(&mut bytes);
    assert_eq!(bytes, [2, 0, 0, 0, 0, 0, 0x05, 0x78]);
    assert_eq!(Header::parse(&bytes), Some(header));
    assert_eq!(Header::parse(&bytes[..7]), None);
}

/// Types below 128 are errors, also unassigned ones; so is a redirect, about which no error is sent.
#[test]
fn errors() {
    let is_error = |kind| Header { kind, code: 0, word: 0 }.is_error();
    assert!((0..128).all(is_error) && is_error(REDIRECT));
    assert!([ECHO_REQUEST, ECHO_REPLY, NEIGHBOR_SOLICITATION, 255].into_iter().all(|kind| !is_error(kind)));
}
