//! Packets of every size come out whole, and frames that were not needed are kept.
use super::*;
use crate::testing::{arena, arrived};

fn fill(inlet: &mut Inlet, len: usize) -> Vec<u8> {
    let (head, rest) = inlet.frames().expect("arena is large enough");
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
    assert!(Inlet::new(&arena, 65_550).frames().is_none());
    assert!(Inlet::new(&arena, 1514).frames().is_some());
}
