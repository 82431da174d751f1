//! Ancillary data in the layout of a C program.

use super::*;
use crate::fallback::Kernel;
use ringway_shm::Instant;

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
    let control = describe(&datagram(), PACKET_INFO | TYPE_OF_SERVICE | TIME_TO_LIVE, Duration::ZERO, false);
    let kinds: Vec<i32> =
        [0usize, 32, 56].map(|at| i32::from_ne_bytes(control[at + 12..at + 16].try_into().expect("four"))).into();
    assert_eq!(kinds, [libc::IP_PKTINFO, libc::IP_TTL, libc::IP_TOS]);
    assert_eq!(control[16..28], [7, 0, 0, 0, 10, 0, 0, 1, 10, 0, 0, 1]);
    assert_eq!(control.len(), 80);
    assert_eq!(describe(&datagram(), 0, Duration::ZERO, false), []);
}

#[test]
fn what_is_written_is_understood_on_sending() {
    let control = describe(&datagram(), PACKET_INFO | TYPE_OF_SERVICE | TIME_TO_LIVE, Duration::ZERO, false);
    let mut envelope = Envelope { len: 100, ..Envelope::default() };
    assert_eq!(apply(&mut envelope, &control, Sends::Ipv4), Ok(()));
    assert_eq!(envelope, datagram());
}

#[test]
fn bad_control_data_is_refused() {
    let mut control = describe(&datagram(), TIME_TO_LIVE, Duration::ZERO, false);
    assert_eq!(apply(&mut Envelope::default(), &control[..18], Sends::Ipv4), Err(Errno::INVAL), "longer than there is");
    control[16..20].copy_from_slice(&0i32.to_ne_bytes());
    assert_eq!(apply(&mut Envelope::default(), &control, Sends::Ipv4), Err(Errno::INVAL), "no hop is left");
    control[12..16].copy_from_slice(&999i32.to_ne_bytes());
    assert_eq!(apply(&mut Envelope::default(), &control, Sends::Ipv4), Err(Errno::INVAL), "unknown");
}

/// One value of control data.
fn one(level: i32, kind: i32, value: &[u8]) -> Vec<u8> {
    let mut control = Vec::new();
    put(&mut control, level, kind, value);
    control
}

/// Each kind of send skips the levels of the others; a value has exactly its type's length.
#[test]
fn control_data_of_other_levels_changes_nothing() {
    let (ttl, hops) = (one(0, libc::IP_TTL, &[9, 0, 0, 0]), one(41, libc::IPV6_HOPLIMIT, &[9, 0, 0, 0]));
    let asked = |control: &[u8], sends| {
        let mut envelope = Envelope::default();
        apply(&mut envelope, control, sends).map(|()| envelope.time_to_live)
    };
    for (sends, from_ttl, from_hops) in
        [(Sends::Ipv4, Some(9), None), (Sends::Mapped, Some(9), None), (Sends::Ipv6, None, Some(9))]
    {
        assert_eq!((asked(&ttl, sends), asked(&hops, sends)), (Ok(from_ttl), Ok(from_hops)), "{sends:?}");
        assert_eq!(asked(&one(99, 1, b"any"), sends), Ok(None), "{sends:?}: an unknown level");
        assert_eq!(asked(&one(libc::SOL_SOCKET, 9_999, b"any"), sends), Err(Errno::INVAL), "{sends:?}: a kind of a known one");
        assert_eq!(asked(&one(libc::SOL_UDP, libc::UDP_SEGMENT, &[1, 2, 3]), sends), Err(Errno::INVAL), "{sends:?}: a length");
    }
    assert_eq!(asked(&one(0, libc::IP_TTL, &[9, 0, 0, 0, 0]), Sends::Ipv4), Err(Errno::INVAL), "longer than an int");
}

/// net/ipv4/ip_sockglue.c, ip_cmsg_send: an IPv4-mapped source, or none.
#[test]
fn an_ipv4_mapped_peer_wants_an_ipv4_mapped_source() {
    for (source, answer) in [("::ffff:10.0.0.1", Ok(())), ("::ffff:0.0.0.0", Ok(())), ("fd00::1", Err(Errno::INVAL))] {
        let source: Ipv6Addr = source.parse().expect("an address");
        let control = one(41, libc::IPV6_PKTINFO, &[&source.octets()[..], &[0; 4]].concat());
        assert_eq!(apply(&mut Envelope::default(), &control, Sends::Mapped), answer, "{source}");
    }
}

/// net/socket.c, __sock_recv_timestamp: before all other values, in the requested form.
#[test]
fn stamps_have_the_form_that_was_asked_for() {
    let came = Duration::from_nanos(1_000_000_000_123_456_789);
    let forms = [
        (STAMP, 29, 123_456),
        (STAMP_NANOS, 35, 123_456_789),
        (STAMP_NEW, 63, 123_456),
        (STAMP_NANOS_NEW, 64, 123_456_789),
        (STAMP_NEW | STAMP_NANOS_NEW, 64, 123_456_789),
    ];
    for (wanted, kind, rest) in forms {
        let control = describe(&datagram(), wanted | TIME_TO_LIVE, came, false);
        let word = |at: usize| i64::from_ne_bytes(control[at..at + 8].try_into().expect("eight"));
        assert_eq!(control[8..16], [&libc::SOL_SOCKET.to_ne_bytes()[..], &i32::to_ne_bytes(kind)].concat());
        assert_eq!((word(0), word(16), word(24)), (32, 1_000_000_000, rest));
        assert_eq!(control.len(), 32 + 24, "and what else was asked for");
    }
}

/// Stamps are made on the monotonic clock; the wall clock may have been set since.
#[test]
fn stamps_are_of_the_wall_clock() {
    let bench = crate::mock::Bench::new();
    let now = bench.kernel.now();
    let ahead = Duration::from_secs(1_000_000_000).as_nanos();
    let then = bench.posix.on_wall_clock(now).as_nanos();
    assert!(then.abs_diff(now.as_nanos() + ahead) < 1_000_000_000, "{then}");
    let earlier = bench.posix.on_wall_clock(Instant::from_nanos(now.as_nanos() - 5_000_000_000)).as_nanos();
    assert!((then - earlier).abs_diff(5_000_000_000) < 1_000_000_000, "{earlier}");
}

/// Two values of four bytes, 24 bytes each with header and padding.
fn two() -> Vec<u8> {
    describe(&datagram(), TIME_TO_LIVE | TYPE_OF_SERVICE, Duration::ZERO, false)
}

fn length_at(control: &[u8], at: usize) -> usize {
    usize::from_ne_bytes(control[at..at + 8].try_into().expect("eight bytes"))
}

#[test]
fn what_does_not_fit_is_cut_as_the_kernel_cuts_it() {
    assert_eq!(cut(two(), 48), (two(), false));
    assert_eq!(cut(two(), 41), (two()[..41].to_vec(), false), "the padding of the last one may be missing");
    for room in [24, 25, 39] {
        assert_eq!(cut(two(), room), (two()[..24].to_vec(), true), "{room}: no room for the second header");
    }
    let (short, missing) = cut(two(), 18);
    assert_eq!((short.len(), length_at(&short, 0), missing), (18, 18, true), "the first value has two bytes of four");
    let (short, missing) = cut(two(), 40);
    assert_eq!((short.len(), length_at(&short, 24), missing), (40, 16, true), "the second value has none");
    assert_eq!(cut(two(), 15), (Vec::new(), true));
    assert_eq!(cut(two(), 0), (Vec::new(), true));
    assert_eq!(cut(Vec::new(), 0), (Vec::new(), false));
}
