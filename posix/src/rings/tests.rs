//! What becomes of the sockets that requests of a ring name.

use crate::Settings;
use crate::mock::Bench;
use ringway_channel::Flags;

#[test]
fn a_socket_that_a_request_names_is_handed_over() {
    let bench = Bench::new();
    let ((named, _), (other, _)) = (bench.paired(), bench.paired());
    bench.accepts_handover();
    bench.posix.before_ring_use(named.fd);
    assert_eq!((bench.handovers(), bench.has_gone(named), bench.has_gone(other)), (1, true, false));
    bench.posix.before_ring_use(named.fd);
    bench.posix.before_ring_use(-1);
    assert_eq!(bench.handovers(), 1, "the kernel's own are no news");
}

#[test]
fn a_ring_that_is_not_read_takes_all_sockets() {
    let bench = Bench::new();
    let ((one, _), (other, _)) = (bench.paired(), bench.paired());
    bench.accepts_handover();
    bench.posix.ring_is_unread();
    assert_eq!((bench.handovers(), bench.has_gone(one), bench.has_gone(other)), (2, true, true));
}

#[test]
fn a_listener_waits_for_what_it_has_accepted() {
    let bench = Bench::new();
    let (at, _) = bench.paired();
    bench.say(at.socket, Flags::MOVED);
    assert!(!bench.posix.has_accepted(at.fd), "it is no listener");
    assert!(bench.posix.accept_for_ring(at.fd, 0).is_none());
    assert!(bench.posix.accept_for_ring(-1, 0).is_none());
}

#[test]
fn strict_mode_has_no_rings() {
    assert!(Bench::new().posix.allows_rings());
    assert!(!Bench::with(Settings { strict: true, ..Settings::default() }).posix.allows_rings());
}
