use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};

use super::*;

fn record(port: u16, listener: u32) -> HalfOpen {
    let ip = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    HalfOpen {
        key: FlowKey { local: ip, remote: ip, local_port: 80, remote_port: port },
        irs: SeqNum(0),
        iss: SeqNum(0),
        agreed: Agreed::default(),
        listener,
        retries: 0,
        acknowledged: false,
        from_cookie: false,
        deadline: 0,
        sent_at: 0,
    }
}

/// A line keeps the order of arrival when records are removed from its front, middle and end.
#[test]
fn lines() {
    let mut queue = SynQueue::new(8);
    let mut line = Line::default();
    let indexes: Vec<u32> = (0..5).map(|port| queue.insert(&mut line, record(port, 0)).expect("there is room")).collect();
    assert_eq!((line.len(), line.oldest()), (5, Some(indexes[0])));
    for at in [2, 0, 4] {
        assert_eq!(queue.remove(&mut line, indexes[at]).map(|record| record.key.remote_port), Some(at as u16));
        assert!(queue.remove(&mut line, indexes[at]).is_none());
    }
    assert_eq!((line.len(), line.oldest()), (2, Some(indexes[1])));
    let newest = queue.insert(&mut line, record(9, 0)).expect("there is room");
    queue.remove(&mut line, indexes[1]);
    queue.remove(&mut line, indexes[3]);
    assert_eq!((line.len(), line.oldest()), (1, Some(newest)));
    queue.remove(&mut line, newest);
    assert_eq!((line.len(), line.oldest()), (0, None));
}

/// Two listeners' records share the slots but not the line; the limit is the stack's.
#[test]
fn two_lines() {
    let mut queue = SynQueue::new(4);
    let (mut one, mut two) = (Line::default(), Line::default());
    for port in 0..4 {
        let (line, listener) = if port % 2 == 0 { (&mut one, 0) } else { (&mut two, 1) };
        assert!(queue.insert(line, record(port, listener)).is_some());
    }
    assert!(queue.is_full() && queue.insert(&mut one, record(9, 0)).is_none());
    assert!((0..100).all(|random| queue.pick(random).is_some()));
    let oldest = two.oldest().expect("two");
    queue.remove(&mut two, oldest);
    assert!(!queue.is_full());
    assert_eq!((one.len(), two.len()), (2, 1));
}

/// A slot that is reused many times has one entry in the wheel, which moves on when it expires.
#[test]
fn one_entry_per_slot() {
    let mut queue = SynQueue::new(1);
    let mut line = Line::default();
    let index = queue.insert(&mut line, record(0, 0)).expect("there is room");
    assert!(queue.postpone(index, 1_000));
    for n in 1..100 {
        queue.remove(&mut line, index);
        assert_eq!(queue.insert(&mut line, record(n, 0)), Some(index));
        assert!(!queue.postpone(index, 1_000 + n as u32), "the old entry serves");
    }
    assert_eq!(queue.expire(index, 999), Expiry::Outdated);
    assert_eq!(queue.expire(index, 1_000), Expiry::Later(1_099));
    assert_eq!(queue.expire(index, 1_099), Expiry::Due);
    queue.remove(&mut line, index);
    assert_eq!(queue.expire(index, 1_099), Expiry::Outdated);
}
