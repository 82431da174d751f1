//! Frames over bytes elsewhere behave like all others, and their bytes go back exactly once.
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::{ArenaConfig, FrameQueue, Note};

fn arena() -> Arena {
    Arena::new(ArenaConfig { large: 4, small: 4 })
}

#[test]
fn content_is_sent_without_a_copy_and_lives_as_long_as_its_frames() {
    let arena = arena();
    let content = Content::new(vec![7u8; 100_000]);
    let frame = arena.frame_of(&content, 1000..50_000).expect("an extent");
    assert_eq!(frame.bytes().as_ptr(), content[1000..].as_ptr());
    assert_eq!((frame.len(), frame.tailroom(), frame.headroom()), (49_000, 0, 0));
    assert_eq!(content.references(), 2);
    let again = frame.share();
    drop(frame);
    assert_eq!((content.references(), arena.free_extents()), (2, 3));
    drop(content);
    assert!(again.bytes().iter().all(|&byte| byte == 7));
    drop(again);
    assert_eq!(arena.free_extents(), 4);
}

#[test]
fn content_is_never_written() {
    let arena = arena();
    let content = Content::new(*b"abcdefgh");
    let mut frame = arena.frame_of(&content, 0..8).expect("an extent");
    assert!(!frame.is_exclusive() && !frame.is_in_area());
    frame.truncate(4);
    let mut queue = FrameQueue::default();
    queue.push_back(frame, Note::default());
    assert_eq!(queue.append_bytes(&arena, b"xx"), 0, "nothing is put behind the bytes of an extent");
    assert_eq!(queue.extend_back(&arena, 2, &mut |_| panic!("nothing to fill")), 0);
    queue.clear(&arena);
    assert_eq!(&content[..], b"abcdefgh");
}

#[test]
#[should_panic(expected = "read-only")]
fn the_bytes_of_content_cannot_be_borrowed_to_be_written() {
    let arena = arena();
    arena.frame_of(&Content::new(*b"abc"), 0..3).expect("an extent").bytes_mut();
}

#[test]
#[should_panic(expected = "can be lent")]
fn a_device_ring_gets_only_memory_of_the_arena() {
    let arena = arena();
    arena.frame_of(&Content::new(*b"abc"), 0..3).expect("an extent").into_device();
}

#[test]
fn extents_are_a_queue_s_like_other_frames() {
    let arena = arena();
    let content = Content::new((0..200u8).collect::<Vec<_>>());
    let mut queue = FrameQueue::default();
    let own = arena.alloc_from(b"head").expect("a frame");
    queue.push_back(own, Note::default());
    let slot = queue.push_back(arena.frame_of(&content, 10..110).expect("an extent"), Note { sequence: 5, ..Note::default() });
    arena.pull_queued(slot, 10);
    assert_eq!((arena.queued_len(slot), arena.note(slot).sequence), (90, 5));
    let on_the_way = arena.share(slot, 5, 10);
    assert_eq!(on_the_way.bytes(), &content[25..35]);
    queue.clear(&arena);
    assert_eq!((content.references(), arena.free_extents()), (2, 3), "what is on its way keeps the bytes");
    drop(on_the_way);
    assert_eq!((content.references(), arena.free_extents()), (1, 4));
}

#[test]
fn all_extents_in_use_is_an_answer() {
    let arena = arena();
    let content = Content::new(*b"abc");
    let frames: Vec<_> = (0..4).map(|_| arena.frame_of(&content, 0..3).expect("an extent")).collect();
    assert!(arena.frame_of(&content, 0..3).is_none());
    assert_eq!(content.references(), 5, "who gets no extent keeps no reference");
    drop(frames);
    assert_eq!(content.references(), 1);
    assert_eq!((arena.free(crate::Class::Large), arena.free(crate::Class::Small)), (4, 4));
}

struct Lender(AtomicU32);

impl Backing for Lender {
    fn release(&self, token: u32) {
        self.0.fetch_add(token, Ordering::Relaxed);
    }
}

#[test]
fn the_lender_hears_of_the_end_once_with_the_last_frame() {
    let arena = arena();
    let lender = Arc::new(Lender(AtomicU32::new(0)));
    let mut memory = vec![1u8; 16];
    let bytes = NonNull::from(memory.as_mut_slice());
    // SAFETY: `memory` outlives the frames, and nothing else touches it.
    let frame = unsafe { arena.extent_over(bytes, Access::Write, lender.clone(), 9) }.expect("an extent");
    let other = frame.share();
    drop(arena);
    drop(frame);
    assert_eq!(lender.0.load(Ordering::Relaxed), 0);
    drop(other);
    assert_eq!((lender.0.load(Ordering::Relaxed), Arc::strong_count(&lender)), (9, 1));
}
