//! Ancillary data as a C program lays it out.

use super::*;

fn datagram() -> Envelope {
    Envelope {
        len: 100,
        local: Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1))),
        type_of_service: Some(0xb8),
        time_to_live: Some(63),
        interface: 7,
        ..Envelope::default()
    }
}

#[test]
fn what_was_asked_for_is_written_in_the_kernels_order() {
    let control = describe(&datagram(), PACKET_INFO | TYPE_OF_SERVICE | TIME_TO_LIVE, false);
    let kinds: Vec<i32> =
        [0usize, 32, 56].map(|at| i32::from_ne_bytes(control[at + 12..at + 16].try_into().expect("four"))).into();
    assert_eq!(kinds, [libc::IP_PKTINFO, libc::IP_TTL, libc::IP_TOS]);
    assert_eq!(control[16..28], [7, 0, 0, 0, 10, 0, 0, 1, 10, 0, 0, 1]);
    assert_eq!(control.len(), 80);
    assert_eq!(describe(&datagram(), 0, false), []);
}

#[test]
fn what_is_written_is_understood_on_sending() {
    let control = describe(&datagram(), PACKET_INFO | TYPE_OF_SERVICE | TIME_TO_LIVE, false);
    let mut envelope = Envelope { len: 100, interface: 7, ..Envelope::default() };
    assert_eq!(apply(&mut envelope, &control), Ok(()));
    assert_eq!(envelope, datagram());
}

#[test]
fn bad_control_data_is_refused() {
    let mut control = describe(&datagram(), TIME_TO_LIVE, false);
    assert_eq!(apply(&mut Envelope::default(), &control[..18]), Err(Errno::INVAL), "longer than there is");
    control[16..20].copy_from_slice(&0i32.to_ne_bytes());
    assert_eq!(apply(&mut Envelope::default(), &control), Err(Errno::INVAL), "no hop is left");
    control[12..16].copy_from_slice(&999i32.to_ne_bytes());
    assert_eq!(apply(&mut Envelope::default(), &control), Err(Errno::INVAL), "unknown");
}
