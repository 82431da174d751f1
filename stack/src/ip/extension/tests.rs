use super::*;
use crate::wire::ipv6::{Header, PROTOCOL_TCP};
use alloc::vec::Vec;
use core::net::Ipv6Addr;

/// Makes a packet whose extension headers are `headers` (kind, bytes from the second on), then TCP.
fn packet(headers: &[(u8, &[u8])]) -> Vec<u8> {
    let first = headers.first().map_or(PROTOCOL_TCP, |(kind, _)| *kind);
    let header = Header {
        traffic_class: 0,
        flow_label: 0,
        payload_len: 0,
        next_header: first,
        hop_limit: 64,
        source: Ipv6Addr::LOCALHOST,
        destination: Ipv6Addr::LOCALHOST,
    };
    let mut bytes = alloc::vec![0; HEADER_LEN];
    header.write(&mut bytes);
    for (number, (_, rest)) in headers.iter().enumerate() {
        bytes.push(headers.get(number + 1).map_or(PROTOCOL_TCP, |(kind, _)| *kind));
        bytes.extend(*rest);
    }
    bytes.extend([0; 20]);
    bytes
}

const PADDED: &[u8] = &[0, OPTION_PADN, 4, 0, 0, 0, 0];

/// Harmless headers are skipped, in any order but hop-by-hop first.
#[test]
fn harmless_headers() {
    let tcp = |at, named_at| Ok(Found::Transport { protocol: PROTOCOL_TCP, at, named_at });
    assert_eq!(walk(&packet(&[])), tcp(40, 6));
    assert_eq!(walk(&packet(&[(HOP_BY_HOP, PADDED), (DESTINATION_OPTIONS, PADDED)])), tcp(56, 48));
    assert_eq!(walk(&packet(&[(ROUTING, &[0, 0, 0, 0, 0, 0, 0])])), tcp(48, 40));
    // Pad1 six times; a router alert; an unknown option that may be skipped.
    assert_eq!(walk(&packet(&[(HOP_BY_HOP, &[0; 7])])), tcp(48, 40));
    assert_eq!(walk(&packet(&[(HOP_BY_HOP, &[0, OPTION_ROUTER_ALERT, 2, 0, 0, 0, 0])])), tcp(48, 40));
    assert_eq!(walk(&packet(&[(DESTINATION_OPTIONS, &[0, 0x1e, 4, 0, 0, 0, 0])])), tcp(48, 40));
    // RFC 6946: an atomic fragment is a whole datagram.
    assert_eq!(walk(&packet(&[(FRAGMENT, &[0, 0, 0, 1, 2, 3, 4])])), tcp(48, 40));
    assert_eq!(walk(&packet(&[(NO_NEXT_HEADER, &[])])), Ok(Found::Nothing));
}

/// RFC 8200 §4.2: unknown options are treated according to their high bits.
#[test]
fn options_that_refuse() {
    let with = |kind: u8| walk(&packet(&[(DESTINATION_OPTIONS, &[0, 0, kind, 2, 0, 0, 0])]));
    assert_eq!(with(0x40), Err(Refused::Silently(Counter::IpInHdrErrors)));
    let told = |even_multicast| Err(Refused::Problem { code: problem::OPTION, pointer: 43, even_multicast });
    assert_eq!(with(0x80), told(true));
    assert_eq!(with(0xc2), told(false));
}

/// A host is never an intermediate stop, hop-by-hop options come first or not at all, and there are no keys.
#[test]
fn headers_that_refuse() {
    let told = |code, pointer| Err(Refused::Problem { code, pointer, even_multicast: false });
    assert_eq!(walk(&packet(&[(ROUTING, &[0, 0, 1, 0, 0, 0, 0])])), told(problem::FIELD, 42));
    assert_eq!(walk(&packet(&[(ROUTING, &[0, 77, 3, 0, 0, 0, 0])])), told(problem::FIELD, 42));
    assert_eq!(walk(&packet(&[(DESTINATION_OPTIONS, PADDED), (HOP_BY_HOP, PADDED)])), told(problem::NEXT_HEADER, 40));
    for kind in [ENCRYPTED, AUTHENTICATION] {
        assert_eq!(walk(&packet(&[(kind, PADDED)])), Err(Refused::Silently(Counter::IpInUnknownProtos)));
    }
}

/// A fragment stops the walk: its payload may start anywhere in the datagram.
#[test]
fn fragments_stop_the_walk() {
    let found = walk(&packet(&[(HOP_BY_HOP, PADDED), (FRAGMENT, &[0, 0x05, 0xa9, 1, 2, 3, 4])]));
    let header = Fragment { next_header: PROTOCOL_TCP, offset: 1448, more: true, identification: 0x0102_0304 };
    assert_eq!(found, Ok(Found::Fragment { header, at: 48, named_at: 40 }));
}

/// The number of headers is bounded; lengths beyond the end, wherever they are, are detected (every cut).
#[test]
fn bounded_and_cut_off() {
    let many: Vec<(u8, &[u8])> = (0..HEADERS_MAX).map(|_| (DESTINATION_OPTIONS, PADDED)).collect();
    assert!(walk(&packet(&many)).is_ok());
    let too_many: Vec<(u8, &[u8])> = (0..HEADERS_MAX + 1).map(|_| (DESTINATION_OPTIONS, PADDED)).collect();
    assert_eq!(walk(&packet(&too_many)), Err(TOO_SHORT));
    let good = packet(&[(HOP_BY_HOP, PADDED), (ROUTING, &[0; 7]), (FRAGMENT, &[0; 7])]);
    for len in HEADER_LEN..64 {
        assert_eq!(walk(&good[..len]), Err(TOO_SHORT), "{len} bytes");
    }
    assert_eq!(walk(&packet(&[(DESTINATION_OPTIONS, &[0, OPTION_PADN, 5, 0, 0, 0, 0])])), Err(TOO_SHORT));
    assert_eq!(walk(&packet(&[(DESTINATION_OPTIONS, &[0, 0, 0, 0, 0, 0, 1])])), Err(TOO_SHORT));
    assert_eq!(walk(&packet(&[(DESTINATION_OPTIONS, &[9, 0, 0, 0, 0, 0, 0])])), Err(TOO_SHORT));
}
