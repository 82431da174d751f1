//! Level, edge and one-shot follow epoll(7), each edge once.
use super::*;
use crate::fallback::Fd;

const IN: u32 = libc::EPOLLIN as u32;
const OUT: u32 = libc::EPOLLOUT as u32;

fn key(fd: Fd, slot: u32) -> Descriptor {
    Descriptor { fd, socket: SocketRef { index: slot, generation: 1 } }
}

fn harvest(list: &mut InterestList, state: State) -> Vec<(u32, u64)> {
    let mut out = Vec::new();
    list.harvest(16, |_| Some(state), |bits, data| out.push((bits, data)));
    out
}

fn state(bits: u32, read_sequence: u32, write_sequence: u32) -> State {
    State { bits, read_sequence, write_sequence }
}

#[test]
fn level_reports_as_long_as_it_holds() {
    let mut list = InterestList::default();
    assert!(list.add(key(5, 0), IN, 50).expect("new"));
    assert_eq!(harvest(&mut list, state(IN | OUT, 1, 0)), [(IN, 50)]);
    assert_eq!(harvest(&mut list, state(IN, 1, 0)), [(IN, 50)]);
    assert_eq!(harvest(&mut list, state(0, 1, 0)), []);
    assert_eq!(harvest(&mut list, state(IN, 2, 0)), [], "it was not marked");
    list.mark(0);
    assert_eq!(harvest(&mut list, state(IN, 2, 0)), [(IN, 50)]);
}

#[test]
fn an_edge_is_reported_once() {
    let mut list = InterestList::default();
    list.add(key(5, 0), IN | OUT | EDGE, 50).expect("new");
    assert_eq!(harvest(&mut list, state(OUT, 0, 0)), [(OUT, 50)]);
    list.mark(0);
    assert_eq!(harvest(&mut list, state(OUT, 0, 0)), []);
    list.mark(0);
    assert_eq!(harvest(&mut list, state(IN | OUT, 1, 0)), [(IN | OUT, 50)]);
    list.mark(0);
    assert_eq!(harvest(&mut list, state(IN | OUT, 1, 0)), []);
    list.modify(key(5, 0), IN | EDGE, 51).expect("there");
    assert_eq!(harvest(&mut list, state(IN | OUT, 1, 0)), [(IN, 51)]);
}

#[test]
fn one_shot_is_silent_until_modified() {
    let mut list = InterestList::default();
    list.add(key(5, 0), IN | ONESHOT, 50).expect("new");
    assert_eq!(harvest(&mut list, state(IN, 1, 0)), [(IN, 50)]);
    list.mark(0);
    assert_eq!(harvest(&mut list, state(IN | ALWAYS, 2, 0)), []);
    list.modify(key(5, 0), IN | ONESHOT, 51).expect("there");
    assert_eq!(harvest(&mut list, state(IN, 2, 0)), [(IN, 51)]);
}

#[test]
fn two_numbers_of_one_socket_are_two_interests() {
    let mut list = InterestList::default();
    assert!(list.add(key(5, 7), IN, 50).expect("new"));
    assert!(!list.add(key(6, 7), IN, 60).expect("new"));
    assert_eq!(list.add(key(6, 7), IN, 60), Err(InterestError::Exists));
    assert_eq!(harvest(&mut list, state(IN, 1, 0)).len(), 2);
    assert!(!list.remove(key(5, 7)).expect("there"));
    assert_eq!(harvest(&mut list, state(IN, 1, 0)), [(IN, 60)]);
    assert!(list.remove(key(6, 7)).expect("there"));
    assert_eq!(list.remove(key(6, 7)), Err(InterestError::Missing));
    assert_eq!(harvest(&mut list, state(IN, 1, 0)), []);
    assert!(list.sockets().next().is_none());
}

#[test]
fn a_limit_is_fair() {
    let mut list = InterestList::default();
    for fd in 0..4 {
        list.add(key(fd, fd as u32), IN, fd as u64).expect("new");
    }
    let mut seen = Vec::new();
    for _ in 0..2 {
        list.harvest(2, |_| Some(state(IN, 1, 0)), |_, data| seen.push(data));
    }
    assert_eq!(seen, [0, 1, 2, 3]);
}

#[test]
fn exclusive_is_refused_where_linux_refuses_it() {
    let mut list = InterestList::default();
    assert_eq!(list.add(key(1, 1), IN | EXCLUSIVE | ONESHOT, 0), Err(InterestError::Invalid));
    list.add(key(1, 1), IN | EXCLUSIVE, 0).expect("allowed");
    assert_eq!(list.modify(key(1, 1), IN | EXCLUSIVE, 0), Err(InterestError::Invalid));
}
