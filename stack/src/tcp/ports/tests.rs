use alloc::vec::Vec;
use core::net::Ipv4Addr;

use super::*;

fn key(destination: u8, remote_port: u16) -> FlowKey {
    let (local, remote) = (Ipv4Addr::new(10, 0, 0, 1).into(), Ipv4Addr::new(10, 0, 1, destination).into());
    FlowKey { local, remote, local_port: 0, remote_port }
}

fn find(counters: &mut PortCounters, secrets: &Secrets, range: (u16, u16), free: impl Fn(u16) -> bool) -> Option<u16> {
    let mut search = counters.search(secrets, &key(2, 80), range);
    let port = search.find(|&port| free(port));
    counters.advance(&search);
    port
}

fn some(counters: &mut PortCounters, secrets: &Secrets, key: &FlowKey, count: usize) -> Vec<u16> {
    let one = |_| {
        let mut search = counters.search(secrets, key, (1_000, 1_999));
        let port = search.next().expect("all are free");
        counters.advance(&search);
        port
    };
    (0..count).map(one).collect()
}

/// RFC 6056 §2, §3.3.4: to one destination every port of the range is used once before one is used again.
#[test]
fn no_port_comes_back_early() {
    for seed in 0..20 {
        let (mut counters, secrets) = (PortCounters::new(seed), Secrets::new(seed));
        let mut ports = some(&mut counters, &secrets, &key(2, 80), 1_000);
        ports.sort_unstable();
        assert!(ports.into_iter().eq(1_000..2_000), "seed {seed}");
    }
}

/// Searches start at different ports per destination and per seed; use by one destination rarely shows in the ports of
/// another.
#[test]
fn destinations_are_apart() {
    let (mut counters, secrets) = (PortCounters::new(7), Secrets::new(7));
    let mut first: Vec<u16> = (0..100).map(|number| some(&mut counters, &secrets, &key(number, 80), 1)[0]).collect();
    let again: Vec<u16> = (0..100).map(|number| some(&mut counters, &secrets, &key(number, 80), 1)[0]).collect();
    let moved_by_one = first.iter().zip(&again).filter(|(first, again)| **again == **first + 1).count();
    assert!((10..60).contains(&moved_by_one), "{moved_by_one} of 100 have a counter for themselves");
    first.sort_unstable();
    first.dedup();
    assert!(first.len() > 80, "{} different starts", first.len());
    let (mut counters, secrets) = (PortCounters::new(8), Secrets::new(8));
    let other: Vec<u16> = (0..100).map(|number| some(&mut counters, &secrets, &key(number, 80), 1)[0]).collect();
    assert!(other.iter().zip(&again).filter(|(one, other)| one == other).count() < 10);
}

/// The last free port is found; a full range returns none. An inverted range has no port.
#[test]
fn a_full_range() {
    let (mut counters, secrets) = (PortCounters::new(1), Secrets::new(1));
    assert_eq!(find(&mut counters, &secrets, (1_000, 1_999), |port| port == 1_234), Some(1_234));
    assert_eq!(find(&mut counters, &secrets, (1_000, 1_999), |_| false), None);
    assert_eq!(find(&mut counters, &secrets, (2_000, 1_999), |_| true), None);
    assert_eq!(counters.search(&secrets, &key(2, 80), (0, u16::MAX)).count(), 65_536);
}
