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

/// Headers go in front of queued bytes, once: while the packet is under way the slot is read-only, and the holder that lets go
/// last gives it back.
#[test]
fn a_packet_of_a_queued_frame_holds_its_slot() {
    let arena = Arena::new(ArenaConfig { large: 2, small: 2 });
    let mut queue = FrameQueue::default();
    let (frame, sum) = arena.alloc_filled(Class::Small, 3, |bytes| bytes.copy_from_slice(b"abc")).expect("room");
    let (slot, note) = (queue.push_back(frame, Note::default()), Note { sequence: 7, ..Note::default() });
    assert!(arena.packet_of(slot, 129, |_, note| Some(note), |_, _| ()).is_none(), "no room");
    assert!(arena.packet_of(slot, 128, |_, _| None, |_, _| ()).is_none(), "not wanted");
    let packet = arena.packet_of(
        slot,
        2,
        |len, old| (len == 3 && old == Note::default()).then_some(note),
        |headers, payload| {
            headers.copy_from_slice(b"xy");
            assert_eq!(payload, b"abc");
        },
    );
    let packet = packet.expect("room for two bytes");
    assert_eq!((sum, packet.bytes(), arena.note(slot), packet.is_exclusive()), ((), &b"xyabc"[..], note, false));
    assert!(arena.packet_of(slot, 2, |_, note| Some(note), |_, _| ()).is_none(), "its headers are on their way");
    assert_eq!((arena.share(slot, 0, 3).bytes(), queue.append_bytes(&arena, b"d")), (&b"abc"[..], 0));
    assert_eq!(queue.free_front_if(&arena, |len, note| len == 3 && note.sequence == 8), None);
    assert_eq!(queue.free_front_if(&arena, |len, note| len == 3 && note.sequence == 7), Some((note, 256)));
    assert_eq!((queue.is_empty(), packet.bytes(), arena.free(Class::Small)), (true, &b"xyabc"[..], 1));
    drop(packet);
    assert_eq!(arena.free(Class::Small), 2);
}

/// Bytes are read where they lie, across frames and up to the middle of one; what is read whole goes back.
#[test]
fn bytes_are_taken_from_the_front() {
    let arena = Arena::new(ArenaConfig { large: 1, small: 2 });
    let mut queue = FrameQueue::default();
    for word in [b"abc", b"def"] {
        queue.push_back(arena.alloc_from(word).expect("room"), Note::default());
    }
    let mut heard = Vec::new();
    let mut take = |queue: &mut FrameQueue, max| queue.take_bytes(&arena, max, &mut |piece| heard.extend_from_slice(piece));
    assert_eq!(take(&mut queue, 2), Some((2, 0)));
    assert_eq!(take(&mut queue, 9), Some((1, 256)));
    assert_eq!((take(&mut queue, 3), take(&mut queue, 3)), (Some((3, 256)), None));
    assert_eq!((heard.as_slice(), arena.free(Class::Small)), (&b"abcdef"[..], 2));
}
