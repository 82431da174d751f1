//! Packets of every size come out whole, and frames that were not needed are kept.
use ringway_shm::Content;

use super::*;
use crate::testing::{arena, arrived};

fn fill(inlet: &mut Inlet, len: usize) -> Vec<u8> {
    let (head, rest) = inlet.frames(len).expect("arena is large enough");
    let bytes: Vec<u8> = (0..len).map(|i| (i * 31) as u8).collect();
    let mut left = &bytes[..];
    for frame in std::iter::once(head).chain(rest.iter_mut().rev()) {
        let count = left.len().min(frame.len());
        frame.bytes_mut()[..count].copy_from_slice(&left[..count]);
        left = &left[count..];
    }
    bytes
}

#[test]
fn packets_of_every_size_come_out_whole() {
    let arena = arena();
    let mut inlet = Inlet::new(&arena, 65_550);
    let mut burst = Burst::default();
    for len in [1, COPY_MAX, COPY_MAX + 1, 1920, 1921, 3968, 3969, 65_550] {
        let bytes = fill(&mut inlet, len);
        assert!(inlet.deliver(len, &mut burst, |_| true));
        assert_eq!(arrived(&mut burst)[0].bytes, bytes, "{len} bytes");
    }
    drop(inlet);
    assert_eq!(arena.free(Class::Large), arena.capacity(Class::Large));
}

/// A large packet lies in one piece; while those before it are unread, it comes in frames of the arena.
#[test]
fn large_packets_are_one_frame_while_there_are_slabs() {
    let arena = arena();
    let mut inlet = Inlet::new(&arena, 65_550);
    let mut bursts = Vec::new();
    for packet in 0..SLABS * 3 {
        let mut burst = Burst::default();
        let bytes = fill(&mut inlet, 65_200);
        assert!(inlet.deliver(65_200, &mut burst, |_| true));
        assert_eq!(burst.iter().count(), 1, "packet {packet}");
        bursts.push((burst, bytes));
    }
    let held: Vec<Frame> = std::iter::from_fn(|| arena.frame_of(&Content::new(*b"x"), 0..1)).collect();
    let mut burst = Burst::default();
    let bytes = fill(&mut inlet, 65_200);
    assert!(inlet.deliver(65_200, &mut burst, |_| true));
    assert!(burst.iter().count() > 30);
    bursts.push((burst, bytes));
    drop(held);
    for (mut burst, bytes) in bursts {
        assert_eq!(arrived(&mut burst)[0].bytes, bytes);
    }
}

#[test]
fn bad_packets_leave_nothing_behind() {
    let arena = arena();
    let mut inlet = Inlet::new(&arena, 1514);
    let mut burst = Burst::default();
    fill(&mut inlet, 1500);
    assert!(!inlet.deliver(1500, &mut burst, |_| false), "described as bad");
    fill(&mut inlet, 1500);
    assert!(!inlet.deliver(5000, &mut burst, |_| true), "larger than its frames");
    assert!(burst.is_empty());
}

#[test]
fn an_empty_arena_is_an_answer() {
    let arena = Arena::new(ringway_shm::ArenaConfig { large: 3, small: 0 });
    let mut inlet = Inlet::new(&arena, 65_550);
    let slabs: Vec<Frame> = std::iter::from_fn(|| arena.frame_of(&Content::new(*b"x"), 0..1)).collect();
    assert!(inlet.frames(65_550).is_none(), "no extent, and not frames enough");
    drop(slabs);
    drop(inlet);
    assert!(Inlet::new(&arena, 1514).frames(1514).is_some());
    assert!(Inlet::new(&arena, 65_550).frames(65_550).is_some());
}
