use super::*;

fn attribute(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = ((ATTRIBUTE_HEADER + payload.len()) as u16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(payload);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn answer(kind: u16, attributes: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = vec![0; HEADERS];
    bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
    bytes.extend(attributes.concat());
    bytes
}

/// A route of interface 7 with an MTU of 1,300 bytes, and other attributes and metrics.
fn route() -> Vec<u8> {
    let metrics = [attribute(8, &1_260_u32.to_ne_bytes()), attribute(RTAX_MTU, &1_300_u32.to_ne_bytes())].concat();
    let table = attribute(15, &[254]);
    let through = attribute(libc::RTA_OIF, &7_u32.to_ne_bytes());
    answer(libc::RTM_NEWROUTE, &[table, through, attribute(libc::RTA_METRICS | 0x8000, &metrics)])
}

#[test]
fn the_routes_mtu_is_read() {
    assert_eq!(mtu_of(&route(), 7), Some(1_300));
    assert_eq!(mtu_of(&route(), 8), None, "through another interface");
    let plain = answer(libc::RTM_NEWROUTE, &[attribute(libc::RTA_OIF, &7_u32.to_ne_bytes())]);
    assert_eq!(mtu_of(&plain, 7), None);
    assert_eq!(mtu_of(&answer(libc::NLMSG_ERROR as u16, &[]), 7), None);
}

/// Answers that end early, and attributes whose length is not true.
#[test]
fn nonsense_is_no_mtu() {
    let whole = route();
    for len in 0..whole.len() {
        assert_eq!(mtu_of(&whole[..len], 7), None, "{len} bytes");
    }
    for len in [0_u16, 1, 3, 0xffff] {
        let mut wrong = whole.clone();
        wrong[HEADERS..HEADERS + 2].copy_from_slice(&len.to_ne_bytes());
        assert_eq!(mtu_of(&wrong, 7), None, "an attribute of {len} bytes");
    }
}

/// The kernel understands the question: it answers with a route, or says that it has none.
#[test]
fn the_kernel_answers() {
    for remote in ["127.0.0.1", "::1"] {
        let answer = ask(remote.parse().expect("an address")).expect("an answer");
        let kind = u16::from_ne_bytes([answer[4], answer[5]]);
        let error = answer.get(16..20).and_then(|bytes| bytes.first_chunk()).map(|bytes| i32::from_ne_bytes(*bytes));
        let has_none = kind == libc::NLMSG_ERROR as u16 && error == Some(-libc::ENETUNREACH);
        assert!(kind == libc::RTM_NEWROUTE || has_none, "{remote}: {kind} {error:?}");
    }
}
