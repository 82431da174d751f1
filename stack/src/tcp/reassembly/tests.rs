use super::*;
use alloc::vec;
use ringway_shm::{ArenaConfig, Class, Note};

fn arena() -> Arena {
    Arena::new(ArenaConfig { large: 512, small: 1024 })
}

/// Frames that hold the stream's bytes from `start` on: byte n of the stream is `n % 251`.
fn stream(arena: &Arena, start: u32, len: u32) -> FrameQueue {
    let mut queue = FrameQueue::default();
    let bytes: Vec<u8> = (start..start + len).map(|n| (n % 251) as u8).collect();
    for (n, chunk) in bytes.chunks(100).enumerate() {
        let frame = arena.alloc_from(chunk).expect("the arena is large enough");
        queue.push_back(frame, Note { sequence: start + n as u32 * 100, ..Note::default() });
    }
    queue
}

fn blocks(reassembly: &Reassembly) -> Vec<(u32, u32)> {
    let mut options = Options::default();
    reassembly.report(&mut options, usize::MAX);
    options.sack().iter().map(|b| (b.left.0, b.right.0)).collect()
}

fn range(start: u32, len: u32) -> Range<SeqNum> {
    SeqNum(start)..SeqNum(start) + len
}

/// RFC 2018 §4: the block of the newest segment comes first, then those reported before.
#[test]
fn newest_block_first() {
    let arena = arena();
    let mut reassembly = Reassembly::default();
    for start in [1_000, 3_000, 5_000, 2_000, 9_000] {
        assert_eq!(reassembly.insert(&arena, SeqNum(0), range(start, 500), stream(&arena, start, 500)), Insertion::Taken);
    }
    assert_eq!(blocks(&reassembly), vec![(9_000, 9_500), (2_000, 2_500), (5_000, 5_500), (3_000, 3_500)]);
    assert_eq!(reassembly.insert(&arena, SeqNum(0), range(3_500, 100), stream(&arena, 3_500, 100)), Insertion::Taken);
    assert_eq!(blocks(&reassembly)[0], (3_000, 3_600));
    reassembly.clear(&arena);
}

/// Intervals that a report of the youngest leaves out are reported before it, the oldest first; all are reported twice.
/// RFC 2018 §4.
#[test]
fn what_a_report_leaves_out_is_told_before() {
    let arena = arena();
    let mut reassembly = Reassembly::default();
    for start in [5_000, 1_000, 9_000, 3_000, 7_000] {
        assert_eq!(reassembly.insert(&arena, SeqNum(0), range(start, 500), stream(&arena, start, 500)), Insertion::Taken);
    }
    let before =
        |reassembly: &Reassembly| reassembly.untold_before(3).iter().map(|untold| untold.block.left.0).collect::<Vec<_>>();
    for _ in 0..2 {
        assert_eq!((reassembly.untold_count(), before(&reassembly)), (5, vec![5_000, 1_000]));
        reassembly.all_told();
    }
    assert_eq!(reassembly.insert(&arena, SeqNum(0), range(1_500, 100), stream(&arena, 1_500, 100)), Insertion::Taken);
    assert_eq!((reassembly.untold_count(), before(&reassembly)), (1, vec![]), "it has grown");
    reassembly.clear(&arena);
}

/// The list is bounded, and refused data is freed.
#[test]
fn bounded() {
    let arena = arena();
    let mut reassembly = Reassembly::default();
    for n in 0..INTERVALS_MAX as u32 {
        assert_eq!(reassembly.insert(&arena, SeqNum(0), range(n * 10, 1), stream(&arena, n * 10, 1)), Insertion::Taken);
    }
    assert_eq!(reassembly.insert(&arena, SeqNum(0), range(6_000, 1), stream(&arena, 6_000, 1)), Insertion::Refused);
    assert_eq!(reassembly.insert(&arena, SeqNum(0), range(630, 1), stream(&arena, 630, 1)), Insertion::Held);
    assert_eq!(reassembly.insert(&arena, SeqNum(0), range(631, 1), stream(&arena, 631, 1)), Insertion::Taken);
    reassembly.clear(&arena);
    assert_eq!(arena.free(Class::Small) + arena.free(Class::Large), 1536);
}

/// RFC 2018 §8: the farthest interval is dropped first, and its memory is freed.
#[test]
fn the_farthest_is_given_up_first() {
    let arena = arena();
    let mut reassembly = Reassembly::default();
    for start in [5_000, 1_000, 3_000] {
        assert_eq!(reassembly.insert(&arena, SeqNum(0), range(start, 500), stream(&arena, start, 500)), Insertion::Taken);
    }
    let freed = [(); 4].map(|()| reassembly.drop_last(&arena));
    assert!(freed[..3].iter().all(|bytes| bytes.is_some_and(|bytes| bytes >= 500)) && freed[3].is_none(), "{freed:?}");
    assert_eq!(arena.free(Class::Small) + arena.free(Class::Large), 1536);
}

/// Pieces in any order, overlapping in any way, come out as the stream; no frame is lost.
#[test]
fn any_order_any_overlap() {
    for seed in 1..60u64 {
        let arena = arena();
        let mut random = seed;
        let mut next = |bound: u32| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as u32 % bound
        };
        let mut reassembly = Reassembly::default();
        let base = 1_000;
        let mut received = 0;
        while received < 3_000 {
            let start = base + received + next(600).min(3_000 - received - 1);
            let len = 1 + next(400);
            reassembly.insert(&arena, SeqNum(0), range(start, len), stream(&arena, start, len));
            if next(3) == 0 {
                let at = base + received;
                reassembly.insert(&arena, SeqNum(0), range(at, 10), stream(&arena, at, 10));
            }
            while let Some((mut frames, len)) = reassembly.take(&arena, SeqNum(base + received)) {
                let mut at = base + received;
                while let Some((frame, note)) = frames.pop_front(&arena) {
                    assert_eq!(note.sequence, at, "seed {seed}");
                    for &byte in frame.bytes() {
                        assert_eq!(byte, (at % 251) as u8, "seed {seed} at {at}");
                        at += 1;
                    }
                }
                assert_eq!(at, base + received + len, "seed {seed}");
                received += len;
            }
        }
        reassembly.clear(&arena);
        assert_eq!(arena.free(Class::Small) + arena.free(Class::Large), 1536, "seed {seed}");
    }
}
