use super::*;
use crate::family::{Family, in_both_families};

in_both_families! {
    learnt_for_ten_minutes
    bounded
}

fn secs(n: u64) -> Instant {
    Instant::from_millis(n * 1_000)
}

/// A router's message limits packets for ten minutes; after that only the link does.
fn learnt_for_ten_minutes(family: Family) {
    let mut cache = PathMtus::new(8);
    cache.learn(secs(5), family.host(1), 1_400, 1_500);
    assert_eq!((cache.limit(family.host(1), 1_500), cache.limit(family.host(2), 1_500)), (1_400, 1_500));
    assert_eq!(cache.poll_timeout(), Some(secs(605)));
    cache.handle_timeout(secs(604));
    assert_eq!(cache.limit(family.host(1), 1_500), 1_400);
    cache.handle_timeout(secs(605));
    assert_eq!((cache.limit(family.host(1), 1_500), cache.poll_timeout()), (1_500, None));
}

/// No message makes packets absurdly small (RFC 8201 §4: never below 1280) or larger than they are.
#[test]
fn absurd_sizes_are_not_believed() {
    let (host, other, ipv6) = (Family::Ipv4.host(1), Family::Ipv4.host(2), Family::Ipv6.host(1));
    let mut cache = PathMtus::new(8);
    cache.learn(secs(0), host, 68, 1_500);
    assert_eq!(cache.limit(host, 1_500), 552);
    cache.learn(secs(0), other, 9_000, 1_500);
    assert_eq!((cache.limit(other, 1_500), cache.len()), (1_500, 1));
    cache.learn(secs(0), ipv6, 600, 1_500);
    assert_eq!(cache.limit(ipv6, 1_500), 1_280);
    // A later, larger claim does not undo the smaller one while it lasts.
    cache.learn(secs(1), host, 1_400, 552);
    assert_eq!(cache.limit(host, 1_500), 552);
}

/// RFC 1191 §7.1: a message without an MTU selects the next plateau.
#[test]
fn plateaus() {
    let host = Family::Ipv4.host(1);
    let mut cache = PathMtus::new(8);
    for (current, next) in [(65_535, 32_000), (1_500, 1_492), (1_492, 1_006), (560, 552)] {
        cache = PathMtus::new(8);
        cache.learn(secs(0), host, 0, current);
        assert_eq!(cache.limit(host, current), next);
    }
    assert_eq!(cache.len(), 1);
}

/// A flood of messages about invented destinations costs no more than the bound.
fn bounded(family: Family) {
    let mut cache = PathMtus::new(4);
    for n in 0..200 {
        cache.learn(secs(n.into()), family.host(n), 1_300, 1_500);
    }
    assert_eq!(cache.len(), 4);
    assert_eq!((cache.limit(family.host(199), 1_500), cache.limit(family.host(195), 1_500)), (1_300, 1_500));
}
