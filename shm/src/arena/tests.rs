//! A frame returns to its arena, shared slots are read-only, and device loans come back once.
use super::*;

fn arena() -> Arena {
    Arena::new(ArenaConfig { large: 4, small: 4 })
}

/// A frame belongs to the arena that it came from, also by another handle of that.
#[test]
fn an_arena_knows_its_frames() {
    let (one, other) = (Arena::new(ArenaConfig { large: 1, small: 1 }), Arena::new(ArenaConfig { large: 1, small: 1 }));
    let frame = one.alloc(Class::Small).expect("a frame");
    assert!(one.owns(&frame) && one.clone().owns(&frame.share()));
    assert!(!other.owns(&frame));
}

#[test]
fn a_dropped_frame_is_free_again() {
    let arena = arena();
    let frames: Vec<_> = (0..4).map(|_| arena.alloc(Class::Large).expect("four fit")).collect();
    assert!(arena.alloc(Class::Large).is_none());
    drop(frames);
    assert_eq!(arena.free(Class::Large), 4);
}

#[test]
fn frames_outlive_the_arena_handle() {
    let arena = arena();
    let mut frame = arena.alloc(Class::Small).expect("room");
    drop(arena);
    frame.extend(3).copy_from_slice(b"abc");
    assert_eq!(frame.bytes(), b"abc");
}

#[test]
#[should_panic(expected = "read-only")]
fn a_shared_slot_is_read_only() {
    let arena = arena();
    let mut frame = arena.alloc_from(b"abc").expect("room");
    let _other = frame.share();
    frame.bytes_mut();
}

#[test]
fn a_loan_comes_back_once_and_only_inside_its_slot() {
    let arena = arena();
    let frame = arena.alloc_from(b"hello").expect("room");
    let (address, len) = frame.into_device();
    assert!(arena.from_device(address, 4096).is_none());
    assert!(arena.from_device(u64::MAX, 1).is_none());
    let frame = arena.from_device(address, len).expect("lent");
    assert_eq!(frame.bytes(), b"hello");
    assert!(arena.from_device(address, len).is_none());
}

#[test]
fn the_partial_checksum_place_survives_push_and_pull() {
    use crate::frame::Checksum;
    let arena = arena();
    let mut frame = arena.alloc_from(b"0123456789").expect("room");
    frame.set_checksum(Checksum::Partial { start: 4, offset: 2 });
    frame.pull(2);
    assert_eq!(frame.checksum(), Checksum::Partial { start: 2, offset: 2 });
    frame.push(8);
    assert_eq!(frame.checksum(), Checksum::Partial { start: 10, offset: 2 });
}
