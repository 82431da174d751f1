//! Records cross whole and in order, wrapping round the end; a full ring, a sleeper, and a peer that lies.
use super::*;

fn opened(capacity: u32) -> (Wire, Wire) {
    let (first, second) = wire(capacity).expect("memory");
    (Wire::open(first).expect("ours"), Wire::open(second).expect("ours"))
}

fn received(wire: &mut Wire) -> Option<Vec<u8>> {
    let len = wire.front().expect("a peer that keeps the rules")?;
    let mut bytes = vec![0; len];
    wire.copy(0, &mut bytes);
    wire.release(len);
    Some(bytes)
}

#[test]
fn records_of_all_sizes_wrap_round_the_end() {
    let (mut a, mut b) = opened(4096);
    for round in 0..500usize {
        let record: Vec<u8> = (0..round * 7 % 1500).map(|i| (i + round) as u8).collect();
        let (left, right) = record.split_at(record.len() / 3);
        assert!(a.send(record.len(), [left, right].into_iter()));
        assert_eq!(received(&mut b), None, "not before the flush");
        a.flush();
        assert_eq!(received(&mut b), Some(record));
        assert!(b.send(2, [&b"ok"[..]].into_iter()));
        b.flush();
        assert_eq!(received(&mut a).as_deref(), Some(&b"ok"[..]));
    }
}

#[test]
fn a_full_ring_takes_more_when_something_was_read() {
    let (mut a, mut b) = opened(4096);
    let record = [7u8; 1000];
    let mut sent = 0;
    while a.send(1000, [&record[..]].into_iter()) {
        sent += 1;
    }
    assert_eq!(sent, 4);
    a.flush();
    assert_eq!(received(&mut b).as_deref(), Some(&record[..]));
    assert!(a.send(1000, [&record[..]].into_iter()));
}

#[test]
fn a_sleeper_is_woken_once() {
    let (mut a, b) = opened(4096);
    assert!(a.send(1, [&b"x"[..]].into_iter()));
    assert!(!a.flush(), "nobody sleeps");
    b.arm();
    assert!(a.send(1, [&b"y"[..]].into_iter()));
    assert!(a.flush());
    assert!(a.send(1, [&b"z"[..]].into_iter()));
    assert!(!a.flush(), "woken already");
    assert!(sys::silence(b.wake_fd().as_raw_fd()));
}

#[test]
fn a_peer_that_lies_is_found_out() {
    let (a, mut b) = opened(4096);
    a.word(a.send_base, TAIL).store(5000, Ordering::Release);
    assert_eq!(b.front(), Err(Broken), "more than the ring holds");
    a.word(a.send_base, TAIL).store(16, Ordering::Release);
    for lie in [9u64, 4096, 1 << 40, u64::MAX] {
        a.put(0, &lie.to_ne_bytes());
        assert_eq!(b.front(), Err(Broken), "length {lie}");
    }
    a.put(0, &8u64.to_ne_bytes());
    assert_eq!(b.front(), Ok(Some(8)));
    // A reader that claims to be ahead makes the ring look full, never larger than it is.
    let (mut a, b) = opened(4096);
    assert!(a.send(4000, [&[0u8; 4000][..]].into_iter()));
    b.word(b.receive_base, HEAD).store(4009, Ordering::Release);
    assert!(!a.send(88, [&[0u8; 88][..]].into_iter()));
    b.word(b.receive_base, HEAD).store(4008, Ordering::Release);
    assert!(a.send(88, [&[0u8; 88][..]].into_iter()));
}

#[test]
fn memory_of_the_wrong_size_is_refused() {
    let (mut first, _second) = wire(4096).expect("memory");
    first.capacity = 8192;
    assert!(Wire::open(first).is_err());
}

/// What a burst holds is counted once for all of it, and what comes meanwhile is found behind it.
#[test]
fn what_waits_is_looked_at_when_it_is_used_up() {
    let (mut a, mut b) = opened(4096);
    for byte in [b"1", b"2"] {
        assert!(a.send(1, [&byte[..]].into_iter()));
    }
    a.flush();
    assert_eq!(b.waiting(), 0, "nobody has looked");
    assert_eq!(received(&mut b).as_deref(), Some(&b"1"[..]));
    assert_eq!(b.waiting(), 16);
    assert!(a.send(1, [&b"3"[..]].into_iter()));
    a.flush();
    assert_eq!(received(&mut b).as_deref(), Some(&b"2"[..]));
    assert_eq!(b.waiting(), 0);
    assert_eq!(received(&mut b).as_deref(), Some(&b"3"[..]));
    assert_eq!(received(&mut b), None);
}
