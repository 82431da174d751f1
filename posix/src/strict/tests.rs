//! Traffic that may be the kernel's in strict mode.

use super::*;
use crate::Settings;
use crate::mock::Bench;

const REASONS: [Fallback; 10] = [
    Fallback::NotOurs,
    Fallback::PortTaken,
    Fallback::NoResources,
    Fallback::NoAnswer,
    Fallback::OptionNotServed,
    Fallback::NotShown,
    Fallback::Firewall,
    Fallback::CgroupProgram,
    Fallback::Rule,
    Fallback::PortWaits,
];

#[test]
fn strict_leaves_to_the_kernel_what_is_the_kernels_by_nature_and_nothing_else() {
    let bench = Bench::with(Settings { strict: true, ..Settings::default() });
    for reason in REASONS {
        assert_eq!(bench.posix.leave::<()>("connect", &"it", reason), Some(Err(Errno::NETDOWN)), "{reason:?}");
    }
    for reason in [Fallback::Loopback, Fallback::LinkLocal, Fallback::Multicast] {
        assert_eq!(bench.posix.leave::<()>("connect", &"it", reason), None, "{reason:?}");
    }
    assert_eq!(bench.posix.leave::<()>("connect", &"it", Fallback::Denied), Some(Err(Errno::ACCES)));
}

#[test]
fn without_strict_everything_may_be_the_kernels() {
    let bench = Bench::with(Settings { log_fallback: true, ..Settings::default() });
    for reason in REASONS {
        assert_eq!(bench.posix.leave::<()>("connect", &"it", reason), None, "{reason:?}");
        let said = std::mem::take(&mut *bench.kernel.said.lock().expect("no panic with it"));
        assert_eq!(said, [format!("ringway: fallback={} connect it", reason.reason())]);
    }
    assert_eq!(bench.posix.leave::<()>("connect", &"it", Fallback::Denied), Some(Err(Errno::ACCES)), "the kernel neither");
}

/// Found as a kernel socket in one of 300 runs: the service ended at the moment of the connect.
#[test]
fn a_service_that_has_died_leaves_a_strict_program_no_kernel() {
    let bench = Bench::with(Settings { strict: true, ..Settings::default() });
    let peer = [libc::AF_INET as u8, 0, 0, 80, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(bench.posix.may_kernel_reach(&peer), Err(Errno::NETDOWN));
    let loopback = [libc::AF_INET as u8, 0, 0, 80, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(bench.posix.may_kernel_reach(&loopback), Ok(()));
}
