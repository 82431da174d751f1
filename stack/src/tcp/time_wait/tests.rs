//! Contents and cost of a record.

use super::*;
use crate::tcp::time_wait::Record;
use core::net::Ipv6Addr;

fn ipv4(number: u32) -> Record {
    let key = FlowKey {
        local: Ipv4Addr::new(10, 0, 0, 1).into(),
        remote: Ipv4Addr::from_bits(0x0a01_0000 + number / 50_000).into(),
        local_port: 80,
        remote_port: 1_024 + (number % 50_000) as u16,
    };
    Record::new(key, SeqNum(number), SeqNum(!number), 500, Some(number))
}

fn ipv6(number: u32) -> Record {
    let local = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1).into();
    let remote = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 1, (number / 50_000) as u16).into();
    let record = ipv4(number);
    Record { key: FlowKey { local, remote, ..record.key }, ts_recent: None, ..record }
}

const COUNT: u32 = 100_000;
const MINUTE_US: u64 = 60_000_000;

/// 100,000 records take 32 bytes each; the ring, which doubles when it grows, never takes more than twice that.
#[test]
fn a_hundred_thousand() {
    for make in [ipv4, ipv6] {
        let mut rest = TimeWait::new(COUNT, MINUTE_US);
        let now = Instant::from_millis(1_000);
        let indices: alloc::vec::Vec<u32> = (0..COUNT).map(|number| rest.push(now, make(number))).collect();
        let (records, addresses) = rest.memory();
        assert!(records <= 2 * 32 * COUNT as usize, "{records} bytes");
        assert!(addresses < 1_000, "two pairs of addresses take {addresses} bytes");
        assert!(indices.iter().zip(0..).all(|(&index, number)| rest.get(index) == Some(make(number))));
        assert_eq!(rest.pop_expired(now), None);
        let later = Instant::from_millis(1_000 + 61_000);
        let ended = core::iter::from_fn(|| rest.pop_expired(later));
        assert!(ended.zip(0..COUNT).all(|((_, record), number)| record == make(number)));
        assert_eq!((rest.iter().count(), rest.ends.len()), (0, 0));
    }
}

/// A full ring drops its oldest record, and has space for no more than its maximum.
#[test]
fn full() {
    let mut rest = TimeWait::new(64, MINUTE_US);
    let now = Instant::from_millis(1_000);
    for number in 0..200_u32 {
        let oldest = rest.make_room().map(|(_, record)| record);
        assert_eq!(oldest, number.checked_sub(64).map(ipv6));
        rest.push(now, ipv6(number));
    }
    assert_eq!((rest.iter().count(), rest.memory().0), (64, 64 * 32));
}

/// A wait that restarts, as often as the peer likes, displaces no other record.
#[test]
fn begun_anew() {
    let mut rest = TimeWait::new(64, MINUTE_US);
    let now = Instant::from_millis(1_000);
    let older = rest.push(now, ipv4(1));
    let mut newest = rest.push(now, ipv4(2));
    for _ in 0..200 {
        rest.remove(newest);
        assert_eq!(rest.make_room(), None);
        newest = rest.push(now, ipv4(2));
    }
    assert_eq!((rest.ring.len(), rest.get(older), rest.get(newest)), (2, Some(ipv4(1)), Some(ipv4(2))));
}

/// A removed record releases its addresses once.
#[test]
fn taken_away() {
    let mut rest = TimeWait::new(64, MINUTE_US);
    let now = Instant::from_millis(1_000);
    let [first, second] = [1, 2].map(|number| rest.push(now, ipv6(number)));
    rest.remove(first);
    rest.remove(first);
    assert_eq!((rest.get(first), rest.get(second), rest.ends.len()), (None, Some(ipv6(2)), 1));
    rest.remove(second);
    assert_eq!(rest.ends.len(), 0);
    let third = rest.push(now, ipv6(50_000));
    assert_eq!(rest.get(third), Some(ipv6(50_000)));
}
