use super::*;
use crate::mock::Bench;
use ringway_channel::{Flags, State as SlotState};

fn item(level: i32, kind: i32, payload: &[i32]) -> Vec<u8> {
    let len = HEADER + payload.len() * 4;
    let mut bytes = len.to_ne_bytes().to_vec();
    bytes.extend(level.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(payload.iter().flat_map(|fd| fd.to_ne_bytes()));
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

#[test]
fn descriptors_of_all_rights_items_are_found_in_order() {
    let mut control = item(libc::SOL_SOCKET, libc::SCM_RIGHTS, &[7, 8, 9]);
    control.extend(item(libc::SOL_SOCKET, libc::SCM_CREDENTIALS, &[1, 2, 3]));
    control.extend(item(libc::SOL_SOCKET, libc::SCM_RIGHTS, &[4]));
    assert_eq!(ancillary_descriptors(&control), [7, 8, 9, 4]);
}

#[test]
fn a_length_that_lies_ends_the_walk() {
    let mut control = item(libc::SOL_SOCKET, libc::SCM_RIGHTS, &[7, 8]);
    for lie in [0usize, 15, 25, usize::MAX] {
        control[..8].copy_from_slice(&lie.to_ne_bytes());
        assert_eq!(ancillary_descriptors(&control), []);
    }
    assert_eq!(ancillary_descriptors(&control[..12]), []);
}

/// net/ipv4/tcp.c, tcp_inq_hint: bytes left, and one for the end; put_cmsg cuts what does not fit.
#[test]
fn a_message_says_how_much_is_left_to_read() {
    let bench = Bench::new();
    let (_, socket) = bench.socket(SlotState::Connected);
    assert_eq!(bench.posix.describe_stream(socket, 64), (Vec::new(), false), "not asked for");
    bench
        .posix
        .set_option(crate::fd_table::Descriptor { fd: 0, socket }, libc::IPPROTO_TCP, TCP_INQ, &1i32.to_ne_bytes())
        .expect("it is an option");
    bench.arrive(socket, b"seven b");
    assert_eq!(bench.posix.describe_stream(socket, 64), (item(libc::IPPROTO_TCP, TCP_INQ, &[7]), false));
    assert!(bench.posix.describe_stream(socket, 0).1, "no room");
    bench.turn(|worker| worker.set_flags(socket.index, Flags::PEER_CLOSED));
    assert_eq!(bench.posix.describe_stream(socket, 64).0, item(libc::IPPROTO_TCP, TCP_INQ, &[8]));
}
