use super::*;
use alloc::vec::Vec;
use ringway_shm::{Arena, ArenaConfig, Class};

const A: MacAddress = MacAddress([2, 0, 0, 0, 0, 0xa]);
const B: MacAddress = MacAddress([2, 0, 0, 0, 0, 0xb]);

fn key(last: u8) -> Key {
    (0, [10, 0, 0, last].into())
}

fn secs(secs: u64) -> Instant {
    Instant::from_millis(secs * 1_000)
}

fn table(entries: usize) -> NeighborTable {
    NeighborTable::new(Limits { entries, held_each: 2, held: 3 })
}

fn asks(table: &mut NeighborTable) -> Vec<(Key, Option<MacAddress>)> {
    core::iter::from_fn(|| table.poll_task())
        .filter_map(|task| if let Task::Ask(key, known) = task { Some((key, known)) } else { None })
        .collect()
}

fn packet(arena: &Arena, number: u8) -> Burst {
    let mut burst = Burst::default();
    burst.push(arena.alloc_from(&[number]).expect("a frame"));
    burst
}

/// A request at 0 s; again at 1 s and 2 s; the entry is dropped at 3 s.
#[test]
fn three_questions() {
    let mut table = table(8);
    assert_eq!(table.lookup(secs(0), key(2)), None);
    assert_eq!(table.lookup(secs(0), key(2)), None);
    assert_eq!(asks(&mut table), [(key(2), None)], "asked once");
    for second in 1..3 {
        assert_eq!(table.poll_timeout(), Some(secs(second)));
        table.handle_timeout(secs(second));
        assert_eq!(asks(&mut table), [(key(2), None)]);
    }
    table.handle_timeout(secs(3));
    assert_eq!((asks(&mut table).len(), table.poll_timeout(), table.entries.len(), table.asked), (0, None, 0, 0));
}

/// An answer at 0 s; at 60 s it is stale, without effect; used at 100 s it is believed until 105 s, then probed by unicast
/// and in use meanwhile; unanswered, it is dropped at 108 s.
#[test]
fn answers_age() {
    let mut table = table(8);
    table.heard(secs(0), key(2), A, true);
    assert!(table.take_changed());
    assert_eq!(table.lookup(secs(59), key(2)), Some(A));
    table.handle_timeout(secs(60));
    assert!(table.take_changed(), "templates must be renewed, which shows use");
    assert!(asks(&mut table).is_empty());
    assert_eq!(table.lookup(secs(100), key(2)), Some(A));
    assert_eq!((asks(&mut table).len(), table.poll_timeout()), (0, Some(secs(105))));
    for second in 105..108 {
        table.handle_timeout(secs(second));
        assert_eq!((table.lookup(secs(second), key(2)), asks(&mut table)), (Some(A), [(key(2), Some(A))].to_vec()));
    }
    table.handle_timeout(secs(108));
    assert!(table.take_changed() && table.entries.is_empty());
    // Confirmed instead: reachable again for a minute, and nothing changed.
    table.heard(secs(200), key(2), A, true);
    table.handle_timeout(secs(260));
    table.lookup(secs(261), key(2));
    assert!(table.take_changed());
    table.heard(secs(262), key(2), A, false);
    assert!(!table.take_changed());
    assert_eq!(table.poll_timeout(), Some(secs(322)));
    // Unused for ten minutes it is dropped.
    table.handle_timeout(secs(322));
    table.handle_timeout(secs(922));
    assert!(table.entries.is_empty() && table.poll_timeout().is_none());
}

/// RFC 4861 §7.3.1: while data arrives, no request is sent. Confirmation does not extend the lifetime of a neighbor that is
/// not in doubt.
#[test]
fn traffic_confirms() {
    let mut table = table(8);
    table.heard(secs(0), key(2), A, true);
    table.confirm(secs(30), key(2));
    for minute in [60, 125, 190] {
        table.handle_timeout(secs(minute));
        assert_eq!(table.lookup(secs(minute), key(2)), Some(A));
        assert!(table.has_doubted());
        table.confirm(secs(minute + 5), key(2));
        table.confirm(secs(minute + 5), key(9));
        assert_eq!((table.has_doubted(), table.poll_timeout()), (false, Some(secs(minute + 65))));
    }
    // Also while it is being probed.
    table.handle_timeout(secs(255));
    table.lookup(secs(255), key(2));
    assert!(asks(&mut table).is_empty());
    table.handle_timeout(secs(260));
    assert_eq!(asks(&mut table), [(key(2), Some(A))]);
    table.confirm(secs(260), key(2));
    assert_eq!(table.poll_timeout(), Some(secs(320)));
}

/// At 5 s packets get lost: the request is broadcast, the old address stays in use, and a new one replaces it. Without an
/// answer it is dropped at 8 s. The kernel's entries are never doubted.
#[test]
fn doubts() {
    let mut table = table(8);
    table.heard(secs(0), key(2), A, true);
    table.suspect(secs(5), key(2));
    table.suspect(secs(5), key(2));
    assert_eq!(asks(&mut table), [(key(2), None)], "asked once, by broadcast");
    assert_eq!(table.lookup(secs(5), key(2)), Some(A));
    assert!(table.take_changed());
    table.heard(secs(6), key(2), B, true);
    assert!(table.take_changed());
    assert_eq!(table.lookup(secs(6), key(2)), Some(B));
    table.suspect(secs(10), key(2));
    (11..14).for_each(|second| table.handle_timeout(secs(second)));
    assert_eq!(table.lookup(secs(14), key(2)), None);
    table.told(key(3), Some(A));
    asks(&mut table);
    table.suspect(secs(10), key(3));
    table.suspect(secs(10), key(4));
    assert!(asks(&mut table).is_empty());
}

/// ARP updates known neighbors and adds new ones only when the packet was for us; the kernel's entries stay.
#[test]
fn which_arp_packets_to_believe() {
    let mut table = table(8);
    table.heard(secs(0), key(2), A, false);
    assert!(table.entries.is_empty());
    table.heard(secs(0), key(2), A, true);
    table.heard(secs(1), key(2), B, false);
    assert_eq!(table.lookup(secs(1), key(2)), Some(B));
    table.told(key(3), Some(A));
    table.heard(secs(1), key(3), B, true);
    assert_eq!(table.lookup(secs(1), key(3)), Some(A));
    assert_eq!(table.lookup(secs(1_000_000), key(3)), Some(A), "until told otherwise");
    table.told(key(3), None);
    assert_eq!(table.lookup(secs(1), key(3)), None);
}

/// Of too many waiting packets the oldest are dropped first; the rest leave in order.
#[test]
fn waiting_packets_are_bounded() {
    let arena = Arena::new(ArenaConfig { large: 1, small: 16 });
    let mut table = table(8);
    for neighbor in [2, 3] {
        table.lookup(secs(0), key(neighbor));
        for number in 0..4 {
            table.hold(key(neighbor), &mut packet(&arena, number));
        }
    }
    // Two for the first; for the second only one more in total, always the latest.
    assert_eq!((table.held, table.take_dropped()), (3, 5));
    let mut released = Vec::new();
    table.told(key(2), Some(A));
    table.told(key(3), None);
    while let Some(task) = table.poll_task() {
        match task {
            Task::Release(key, mac, mut burst) => {
                released.extend(core::iter::from_fn(|| burst.pop()).map(|frame| (key, mac, frame.bytes()[0])))
            }
            Task::Fail(burst) => assert_eq!(burst.packets(), 1),
            Task::Ask(..) | Task::Lost(..) => {}
        }
    }
    assert_eq!(released, [(key(2), A, 2), (key(2), A, 3)]);
    assert_eq!((table.held, table.take_dropped(), arena.free(Class::Small)), (0, 1, 16));
    table.hold(key(9), &mut packet(&arena, 0));
    assert_eq!((table.take_dropped(), arena.free(Class::Small)), (1, 16), "no entry for it");
}

/// Other hosts can fill only half of the table with requests, and a full table makes space.
#[test]
fn the_table_is_bounded() {
    let mut table = table(4);
    table.told(key(1), Some(A));
    for last in 10..20 {
        table.lookup(secs(0), key(last));
    }
    assert_eq!((table.entries.len(), asks(&mut table).len()), (3, 2));
    for last in 20..30 {
        table.heard(secs(1), key(last), B, true);
        assert!(table.entries.len() <= 4);
    }
    assert_eq!(table.lookup(secs(1), key(1)), Some(A), "what the kernel told stays");
    assert_eq!(table.lookup(secs(1), key(29)), Some(B));
    assert_eq!(table.deadlines.len(), 3);
    for last in 40..50 {
        table.told(key(last), Some(A));
    }
    assert_eq!((table.entries.len(), table.deadlines.len(), table.asked, table.doubted), (4, 0, 0, 0));
    assert_eq!(table.lookup(secs(1), key(49)), Some(A));
}

/// After random calls, held packets, deadlines and counts agree with the entries (seeded).
#[test]
fn the_books_balance() {
    for seed in 0..20u64 {
        let arena = Arena::new(ArenaConfig { large: 1, small: 64 });
        let mut table = table(6);
        let mut state = seed;
        let mut now = secs(0);
        for step in 0..2_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (what, who) = ((state >> 40) % 9, key((state >> 50) as u8 % 12));
            now += Duration::from_millis(state >> 54);
            match what {
                0..=2 => drop(table.lookup(now, who)),
                3 => table.hold(who, &mut packet(&arena, 1)),
                4 => table.heard(now, who, A, step % 2 == 0),
                5 => table.told(who, (step % 3 == 0).then_some(B)),
                6 => table.confirm(now, who),
                _ => table.handle_timeout(now),
            }
            while table.poll_task().is_some() {}
            let held: usize = table.entries.values().map(|entry| entry.held.packets()).sum();
            let asked = table.entries.values().filter(|entry| entry.state.is_asked()).count();
            let doubted = table.entries.values().filter(|entry| entry.state.is_doubted()).count();
            assert_eq!(table.doubted, doubted, "seed {seed} step {step}");
            let due: Vec<_> = table.entries.iter().filter_map(|(key, entry)| entry.deadline.map(|at| (at, *key))).collect();
            assert_eq!((table.held, table.asked, table.deadlines.len()), (held, asked, due.len()), "seed {seed} step {step}");
            assert!(due.iter().all(|due| table.deadlines.contains(due)) && table.entries.len() <= 6);
            assert_eq!(arena.free(Class::Small) as usize, 64 - held);
        }
    }
}

/// RFC 4861 §7.2.5, appendix C: effect of an advertisement on a known neighbor.
#[test]
fn advertisements() {
    let known = |state: &str| {
        let mut table = table(8);
        match state {
            "asked" => drop(table.lookup(secs(0), key(2))),
            "reachable" => table.heard(secs(0), key(2), A, true),
            _ => table.noticed(secs(0), key(2), A),
        }
        asks(&mut table);
        table.take_changed();
        table
    };
    // (before, link address, solicited, overrides) -> (link address in use, whether it is probed on use).
    let cases = [
        (("asked", Some(B), true, false), (Some(B), false)),
        (("asked", Some(B), false, false), (Some(B), true)),
        (("asked", None, true, true), (None, false)),
        (("reachable", Some(A), false, false), (Some(A), false)),
        (("reachable", Some(B), true, false), (Some(A), true)),
        (("reachable", Some(B), true, true), (Some(B), false)),
        (("reachable", Some(B), false, true), (Some(B), true)),
        (("stale", None, true, false), (Some(A), false)),
        (("stale", Some(A), true, false), (Some(A), false)),
        (("stale", Some(A), false, true), (Some(A), true)),
        (("stale", Some(B), true, false), (Some(A), true)),
        (("stale", Some(B), false, true), (Some(B), true)),
    ];
    for ((before, mac, solicited, overrides), (in_use, confirmed)) in cases {
        let mut table = known(before);
        table.advertised(secs(1), key(2), Advertised { mac, solicited, overrides });
        assert_eq!(table.lookup(secs(2), key(2)), in_use, "{before} {mac:?} {solicited} {overrides}");
        table.handle_timeout(secs(7));
        let asked = asks(&mut table).contains(&(key(2), in_use));
        assert_eq!(asked && in_use.is_some(), confirmed, "{before} {mac:?} {solicited} {overrides}");
    }
    let mut table = table(8);
    table.advertised(secs(1), key(2), Advertised { mac: Some(A), solicited: true, overrides: true });
    table.told(key(3), Some(A));
    table.advertised(secs(1), key(3), Advertised { mac: Some(B), solicited: true, overrides: true });
    assert_eq!((table.knows(key(2)), table.lookup(secs(1), key(3))), (false, Some(A)));
}

/// A router's times apply only to IPv6 neighbors of its link.
#[test]
fn times_of_a_router() {
    let mut table = table(8);
    let six = (1, "2001:db8::1".parse().expect("an address"));
    table.set_times(1, Times { reachable: Duration::from_secs(5), retransmit: Duration::from_millis(100) });
    table.lookup(secs(0), six);
    assert_eq!(table.poll_timeout(), Some(Instant::from_millis(100)));
    table.advertised(secs(0), six, Advertised { mac: Some(A), solicited: true, overrides: true });
    assert_eq!(table.poll_timeout(), Some(secs(5)));
    table.heard(secs(0), key(2), A, true);
    table.handle_timeout(secs(5));
    assert_eq!(table.poll_timeout(), Some(secs(60)), "IPv4 as ever");
}

/// Answered at 0 s, 1 s, 2 s and so on: the oldest go.
#[test]
fn a_smaller_limit_holds_from_the_next_entry_on() {
    let mut table = table(4);
    for last in 2..6 {
        table.heard(secs(u64::from(last)), key(last), A, true);
    }
    table.set_limits(Limits { entries: 2, held_each: 2, held: 3 });
    assert_eq!(table.entries.len(), 4, "nothing is taken away at once");
    table.heard(secs(6), key(5), B, true);
    assert_eq!(table.entries.len(), 4, "it was there before");
    table.heard(secs(7), key(7), A, true);
    assert_eq!(table.entries.keys().copied().collect::<Vec<_>>(), [key(5), key(7)]);
}
