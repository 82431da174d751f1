//! Two processes with one list: a clone of the list stands for the one that a forked child has.

use super::*;
use crate::interest::follow::Followed;
use crate::interest::{InterestError, InterestList};
use std::sync::atomic::AtomicU32;
use std::thread;

const IN: u32 = libc::EPOLLIN as u32;
const OUT: u32 = libc::EPOLLOUT as u32;

fn socket(index: u32) -> SocketRef {
    SocketRef { index, generation: 1 }
}

fn key(fd: i32, slot: u32) -> Descriptor {
    Descriptor { fd, socket: socket(slot) }
}

fn ready(bits: u32, read_sequence: u32) -> State {
    State { bits, read_sequence, write_sequence: 0 }
}

fn harvest(list: &mut InterestList, state: State) -> Vec<(u32, u64)> {
    list.follow(|_| true);
    let mut out = Vec::new();
    list.harvest(16, |_| Some(state), |bits, data| out.push((bits, data)));
    out
}

/// The list of a parent that watches `fd` 5, slot 0, and that of its child.
fn family(events: u32) -> (InterestList, InterestList) {
    let mut parent = InterestList::default();
    parent.add(key(5, 0), events, 50).expect("new");
    assert!(parent.share());
    let child = parent.clone();
    (parent, child)
}

#[test]
fn what_one_adds_changes_and_removes_the_other_sees() {
    let (mut parent, mut child) = family(IN);
    assert_eq!(child.add(key(6, 1), IN, 60), Ok(true));
    let told = parent.follow(|_| true);
    assert_eq!(told, Followed { watch: vec![socket(1)], unwatch: vec![] });
    assert_eq!(harvest(&mut parent, ready(IN, 1)), [(IN, 50), (IN, 60)]);
    assert_eq!(parent.add(key(6, 1), IN, 0), Err(InterestError::Exists));
    child.modify(key(5, 0), OUT, 51).expect("it is there");
    assert_eq!(harvest(&mut parent, ready(IN | OUT, 1)), [(OUT, 51), (IN, 60)].map(|(bits, data)| (bits, data)));
    assert_eq!(child.remove(key(5, 0)), Ok(true));
    assert_eq!(parent.follow(|_| true), Followed { watch: vec![], unwatch: vec![socket(0)] });
    assert_eq!(harvest(&mut parent, ready(IN | OUT, 1)), [(IN, 60)]);
    assert_eq!(parent.remove(key(5, 0)), Err(InterestError::Missing));
    assert_eq!(parent.remove(key(6, 1)), Ok(true));
    assert_eq!(harvest(&mut child, ready(IN | OUT, 1)), []);
}

#[test]
fn an_edge_and_a_one_shot_are_for_one_process() {
    let (mut parent, mut child) = family(IN | EDGE);
    parent.add(key(6, 1), IN | ONESHOT, 60).expect("new");
    assert_eq!(harvest(&mut child, ready(IN, 1)), [(IN, 50), (IN, 60)]);
    assert_eq!(harvest(&mut parent, ready(IN, 1)), []);
    (0..2).for_each(|slot| parent.mark(slot));
    assert_eq!(harvest(&mut parent, ready(IN, 2)), [(IN, 50)]);
    (0..2).for_each(|slot| child.mark(slot));
    assert_eq!(harvest(&mut child, ready(IN, 2)), []);
    child.modify(key(6, 1), IN | ONESHOT, 61).expect("it is there");
    assert_eq!(harvest(&mut parent, ready(IN, 2)), [(IN, 61)]);
    child.mark(1);
    assert_eq!(harvest(&mut child, ready(IN, 3)), []);
}

#[test]
fn what_was_reported_before_the_fork_is_no_edge_after_it() {
    let mut parent = InterestList::default();
    parent.add(key(5, 0), IN | EDGE, 50).expect("new");
    parent.add(key(6, 1), IN | ONESHOT, 60).expect("new");
    assert_eq!(harvest(&mut parent, ready(IN, 1)).len(), 2);
    assert!(parent.share());
    let mut child = parent.clone();
    child.mark_all();
    assert_eq!(harvest(&mut child, ready(IN, 1)), []);
    child.mark_all();
    assert_eq!(harvest(&mut child, ready(IN, 2)), [(IN, 50)]);
}

#[test]
fn a_socket_that_no_process_has_is_forgotten_by_all() {
    let (mut parent, mut child) = family(IN);
    child.add(key(6, 1), IN, 60).expect("new");
    parent.follow(|_| true);
    parent.follow(|_| true);
    child.add(key(7, 2), IN, 70).expect("new");
    // Slot 1's socket has gone with a process; the next change, whatever it is, cleans up.
    let told = parent.follow(|known| known != socket(1));
    assert_eq!(told, Followed { watch: vec![socket(2)], unwatch: vec![socket(1)] });
    assert_eq!(harvest(&mut child, ready(IN, 1)), [(IN, 50), (IN, 70)]);
    let (mut seen, mut gone) = (Vec::new(), 0);
    child.mark_all();
    child.harvest(
        16,
        |known| {
            if known == socket(2) {
                gone += 1;
                None
            } else {
                Some(ready(IN, 1))
            }
        },
        |_, data| seen.push(data),
    );
    assert_eq!((seen, gone), (vec![50], 1));
    assert_eq!(harvest(&mut parent, ready(IN, 1)), [(IN, 50)]);
    assert_eq!(parent.add(key(7, 2), IN, 71), Ok(true), "its place is free");
}

#[test]
fn entries_are_used_again() {
    let (mut parent, mut child) = family(IN);
    for round in 0..10_000 {
        let (one, other) = if round % 2 == 0 { (&mut parent, &mut child) } else { (&mut child, &mut parent) };
        one.add(key(6, 1), IN, round).expect("new");
        other.follow(|_| true);
        other.remove(key(6, 1)).expect("it is there");
        one.follow(|_| true);
    }
    assert!(parent.common.as_ref().expect("it is common").list.end() < 100);
}

#[test]
fn a_full_list_says_so_and_a_free_place_is_found() {
    let mut list = InterestList::default();
    assert!(list.share());
    let room = CAPACITY_MIN as u32;
    for slot in 0..room {
        assert_eq!(list.add(key(5, slot), IN, 0), Ok(true));
    }
    assert_eq!(list.add(key(5, room), IN, 0), Err(InterestError::Full));
    assert_eq!(list.remove(key(5, 77)), Ok(true));
    assert_eq!(list.remove(key(5, 33_000)), Ok(true));
    assert_eq!(list.add(key(5, room), IN, 0), Ok(true));
    assert_eq!(list.add(key(5, room + 1), IN, 0), Ok(true));
    assert_eq!(list.add(key(5, room + 2), IN, 0), Err(InterestError::Full));
}

/// Both processes have added before either has looked: one watch is left, for both.
#[test]
fn two_that_add_the_same_at_once_have_one_watch() {
    let (mut parent, mut child) = family(IN);
    parent.add(key(6, 1), IN, 60).expect("new");
    child.add(key(6, 1), IN, 61).expect("it has not looked");
    assert_eq!(harvest(&mut child, ready(IN, 1)), [(IN, 50), (IN, 60)]);
    assert_eq!(harvest(&mut parent, ready(IN, 1)), [(IN, 50), (IN, 60)]);
    child.remove(key(6, 1)).expect("it is there");
    assert_eq!(harvest(&mut parent, ready(IN, 1)), [(IN, 50)]);
}

/// A process that dies while it writes an entry, or that writes nonsense, costs that entry.
#[test]
fn any_words_are_borne() {
    let (mut parent, mut child) = family(IN);
    let words = parent.common.as_ref().expect("it is common").list.words.clone();
    words[HEADER + ENTRY].store(7 << INCARNATION_AT | CLAIMED, SeqCst);
    words[END].store(2, SeqCst);
    child.add(key(6, 1), IN, 60).expect("new");
    assert_eq!(harvest(&mut parent, ready(IN, 1)), [(IN, 50), (IN, 60)]);
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 0..200_000 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        words[(random >> 40) as usize % (HEADER + 40 * ENTRY)].store(random % 0x7_0000_0010, SeqCst);
        let fd = (random >> 20) as i32 % 8;
        match round % 4 {
            0 => drop(parent.add(key(fd, fd as u32), IN | EDGE, 1)),
            1 => drop(parent.modify(key(fd, fd as u32), IN | ONESHOT, 2)),
            2 => drop(parent.remove(key(fd, fd as u32))),
            _ => {}
        }
        words[END].store(words[END].load(SeqCst) % 60, SeqCst);
        harvest(&mut child, ready(IN, round));
        parent.mark_all();
        parent.is_ready(|_| None);
    }
}

/// Threads stand for processes: no arrival is reported twice, and the last one is reported.
#[test]
fn each_edge_is_reported_once_among_many() {
    const ARRIVALS: u32 = 20_000;
    let (parent, _) = family(IN | EDGE);
    let list = &parent.common.as_ref().expect("it is common").list;
    let place = list.read(0).expect("a watch").0;
    let arrived = AtomicU32::new(0);
    let takes = || {
        let mut reported = Vec::new();
        loop {
            let over = arrived.load(SeqCst) == ARRIVALS;
            let mut seen = 0;
            let now = || {
                seen = arrived.load(SeqCst);
                Some(ready(IN, seen))
            };
            match list.take(place, now) {
                Taken::Event { .. } => reported.push(seen),
                Taken::Nothing if over => return reported,
                _ => thread::yield_now(),
            }
        }
    };
    let mut reported: Vec<u32> = thread::scope(|scope| {
        let takers = [(); 3].map(|()| scope.spawn(takes));
        for _ in 0..ARRIVALS {
            arrived.fetch_add(1, SeqCst);
            thread::yield_now();
        }
        takers.into_iter().flat_map(|taker| taker.join().expect("it does not panic")).collect()
    });
    reported.sort_unstable();
    assert!(reported.windows(2).all(|pair| pair[0] != pair[1]), "an edge was reported twice");
    assert_eq!(reported.last(), Some(&ARRIVALS));
}
