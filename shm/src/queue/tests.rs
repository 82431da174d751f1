//! A queue keeps order, owns its slots, and shares them read-only.
use super::*;
use crate::arena::{ArenaConfig, Class};

#[test]
fn order_is_kept_and_everything_returns() {
    let arena = Arena::new(ArenaConfig { large: 2, small: 8 });
    let mut queue = FrameQueue::default();
    let first = queue.push_back(arena.alloc_from(b"one").expect("room"), Note::default());
    queue.push_back(arena.alloc_from(b"three").expect("room"), Note::default());
    queue.insert_after(&arena, first, arena.alloc_from(b"two").expect("room"), Note::default());
    queue.insert_after(&arena, Slot::NONE, arena.alloc_from(b"zero").expect("room"), Note::default());
    let words: Vec<_> = std::iter::from_fn(|| queue.pop_front(&arena)).map(|(f, _)| f.bytes().to_vec()).collect();
    assert_eq!(words, [b"zero".to_vec(), b"one".to_vec(), b"two".to_vec(), b"three".to_vec()]);
    assert_eq!(arena.free(Class::Small), 8);
}

#[test]
fn appending_stops_while_the_slot_is_shared() {
    let arena = Arena::new(ArenaConfig { large: 2, small: 8 });
    let mut queue = FrameQueue::default();
    let slot = queue.push_back(arena.alloc_from(b"ab").expect("room"), Note::default());
    assert_eq!(queue.append_bytes(&arena, b"cd"), 2);
    let shared = arena.share(slot, 1, 2);
    assert_eq!(shared.bytes(), b"bc");
    assert_eq!(queue.append_bytes(&arena, b"ef"), 0);
    drop(shared);
    assert_eq!(queue.append_bytes(&arena, b"ef"), 2);
    queue.clear(&arena);
    assert_eq!(arena.free(Class::Small), 8);
}

#[test]
fn removal_in_the_middle_and_at_the_end_keeps_the_tail_true() {
    let arena = Arena::new(ArenaConfig { large: 2, small: 8 });
    let mut queue = FrameQueue::default();
    let a = queue.push_back(arena.alloc_from(b"a").expect("room"), Note::default());
    queue.push_back(arena.alloc_from(b"b").expect("room"), Note::default());
    let (removed, _) = queue.remove_after(&arena, a).expect("b");
    assert_eq!(removed.bytes(), b"b");
    drop(removed);
    queue.push_back(arena.alloc_from(b"c").expect("room"), Note::default());
    assert_eq!(arena.queued_len(arena.next(a)), 1);
    queue.clear(&arena);
    assert_eq!(arena.free(Class::Small), 8);
}
