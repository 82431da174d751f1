//! Frames of slabs never overlap, and a slab is used again when nothing of it is left.
use alloc::vec::Vec;

use super::*;
use crate::ArenaConfig;

fn arena() -> Arena {
    Arena::new(ArenaConfig { large: 16, small: 4 })
}

#[test]
fn frames_lie_behind_each_other_and_do_not_overlap() {
    let mut slabs = Slabs::new(&arena(), 2);
    let mut frames: Vec<Frame> = Vec::new();
    for (number, len) in [100usize, 65_000, 40_000, 65_535, 1].into_iter().enumerate() {
        let mut frame = slabs.take(65_535).expect("room");
        frame.truncate(len);
        slabs.fit(&frame);
        assert_eq!(frame.tailroom(), 0, "what was given back cannot be written");
        frame.bytes_mut().fill(number as u8);
        frames.push(frame);
    }
    for (number, frame) in frames.iter().enumerate() {
        assert!(frame.bytes().iter().all(|&byte| byte == number as u8));
    }
    assert_eq!(frames[1].bytes().as_ptr() as usize - frames[0].bytes().as_ptr() as usize, 128);
}

#[test]
fn a_slab_begins_anew_when_its_last_frame_is_gone() {
    let mut slabs = Slabs::new(&arena(), 1);
    let first = slabs.take(65_535).expect("room");
    let place = first.bytes().as_ptr();
    let rest: Vec<Frame> = (0..3).map(|_| slabs.take(65_535).expect("room")).collect();
    assert!(slabs.take(65_535).is_none(), "the slab is full");
    drop(first);
    assert!(slabs.take(65_535).is_none(), "others are still in it");
    drop(rest);
    assert_eq!(slabs.take(65_535).expect("room").bytes().as_ptr(), place);
}

#[test]
fn memory_lives_as_long_as_its_frames_and_extents_come_back() {
    let arena = arena();
    let mut slabs = Slabs::new(&arena, 1);
    let mut frame = slabs.take(1000).expect("room");
    drop(slabs);
    frame.bytes_mut().fill(3);
    assert_eq!(arena.free_extents(), 15);
    drop(frame);
    assert_eq!(arena.free_extents(), 16);
}

#[test]
fn without_an_extent_there_is_no_frame_and_no_count() {
    let arena = Arena::new(ArenaConfig { large: 1, small: 1 });
    let mut slabs = Slabs::new(&arena, 1);
    let only = slabs.take(10).expect("room");
    assert!(slabs.take(10).is_none());
    drop(only);
    assert!(slabs.take(10).is_some());
}
