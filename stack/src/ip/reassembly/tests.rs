use super::*;
use crate::family::{Family, in_both_families};
use alloc::vec;
use ringway_shm::ArenaConfig;

in_both_families! {
    random_cuts_and_orders
    random_overlaps
    overlap_ends_the_datagram
    contradicting_ends
    impossible_fragments
    bounded_under_flood
    the_arena_is_not_used_up
    expiry
    ecn_of_the_whole
}

fn arena() -> Arena {
    Arena::new(ArenaConfig { large: 512, small: 512 })
}

fn table() -> Reassembly {
    Reassembly::new(1 << 20)
}

fn key(family: Family, source: u8, identification: u32) -> Key {
    let protocol = if family == Family::Ipv4 { 17 } else { 0 };
    Key { remote: family.host(source), local: family.local(), identification, protocol }
}

fn fragment(key: Key, offset: u32, more: bool) -> Fragment {
    let (named_at, header_len) = if key.remote.is_ipv4() { (0, 20) } else { (40, 48) };
    Fragment { key, interface: 0, offset, more, next_header: 17, named_at, header_len, tos: 0, ttl: 64, multicast: false }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 31 % 251) as u8).collect()
}

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

/// Inserts a fragment, headers in front, with a frame for each of `parts`.
fn insert_as(
    table: &mut Reassembly,
    arena: &Arena,
    now: Instant,
    fragment: &Fragment,
    parts: core::slice::Chunks<'_, u8>,
) -> (Outcome, Vec<Frame>) {
    let mut frames: Vec<Frame> = parts
        .enumerate()
        .map(|(at, part)| {
            let mut frame = arena.alloc(Class::Large).expect("the arena is large enough");
            if at == 0 {
                frame.extend(fragment.header_len.into()).fill(0xaa);
            }
            frame.extend(part.len()).copy_from_slice(part);
            frame.pull(if at == 0 { fragment.header_len.into() } else { 0 });
            frame
        })
        .collect();
    let first = frames.remove(0);
    let outcome = table.insert(now, arena, fragment, (first, &mut frames));
    (outcome, frames)
}

fn insert(table: &mut Reassembly, arena: &Arena, fragment: &Fragment, bytes: &[u8]) -> (Outcome, Vec<Frame>) {
    insert_as(table, arena, at(0), fragment, bytes.chunks(1_900))
}

fn join(first: &Frame, rest: &[Frame]) -> Vec<u8> {
    core::iter::once(first).chain(rest).flat_map(Frame::bytes).copied().collect()
}

fn assert_no_leak(arena: &Arena) {
    for class in [Class::Large, Class::Small] {
        assert_eq!(arena.free(class), arena.capacity(class));
    }
}

/// A datagram is reassembled from any cuts, frames, order and repetitions (seeded).
fn random_cuts_and_orders(family: Family) {
    let arena = Arena::new(ArenaConfig { large: 4_096, small: 4_096 });
    for seed in 0..2_000 {
        let mut random = Random(seed);
        let mut table = table();
        let bytes = pattern(9 + random.below(9_000));
        let mut cuts = Vec::new();
        let mut offset = 0;
        while offset < bytes.len() {
            let end = (offset + 8 * (1 + random.below(180))).min(bytes.len());
            cuts.push((offset, end));
            offset = end;
        }
        for at in (1..cuts.len()).rev() {
            cuts.swap(at, random.below(at + 1));
        }
        let mut whole = None;
        for (at, &(from, to)) in cuts.iter().enumerate() {
            let header = fragment(key(family, 2, 7), from as u32, to < bytes.len());
            if at > 0 && random.below(4) == 0 && at + 1 < cuts.len() {
                let (from, to) = cuts[random.below(at)];
                let header = fragment(key(family, 2, 7), from as u32, to < bytes.len());
                assert!(matches!(insert(&mut table, &arena, &header, &bytes[from..to]).0, Outcome::Kept), "seed {seed}");
            }
            match insert_as(&mut table, &arena, super::tests::at(0), &header, bytes[from..to].chunks(100 + random.below(1_800))) {
                (Outcome::Whole(header, first, len), rest) => {
                    assert_eq!((at + 1, len as usize, header.offset), (cuts.len(), bytes.len(), 0), "seed {seed}");
                    assert!(first.len() >= bytes.len().min(60), "seed {seed}");
                    assert_eq!(first.continues(), !rest.is_empty());
                    assert!(rest.iter().enumerate().all(|(n, frame)| frame.continues() == (n + 1 < rest.len())));
                    whole = Some(join(&first, &rest));
                }
                (Outcome::Kept, _) => {}
                (Outcome::Failed, _) => panic!("seed {seed}: fragment {from}..{to} failed"),
            }
        }
        assert_eq!(whole.as_ref(), Some(&bytes), "seed {seed}");
        assert_eq!((table.memory(), table.poll_timeout()), (0, None), "seed {seed}");
        assert_no_leak(&arena);
    }
}

/// RFC 5722: whatever overlaps, a reassembled datagram never mixes two versions of a byte (seeded).
fn random_overlaps(family: Family) {
    let arena = arena();
    let (mut wholes, mut failures) = (0, 0);
    for seed in 0..3_000 {
        let mut random = Random(seed);
        let mut table = table();
        let blocks = 1 + random.below(4);
        // Every byte of a fragment identifies it.
        for name in 1..=12u8 {
            let from = random.below(blocks);
            let to = from + 1 + random.below(blocks - from);
            let header = fragment(key(family, 2, 7), from as u32 * 8, random.below(4) != 0);
            match insert(&mut table, &arena, &header, &vec![name; (to - from) * 8]) {
                (Outcome::Whole(_, first, len), rest) => {
                    let bytes = join(&first, &rest);
                    assert_eq!(bytes.len(), len as usize);
                    let mut runs: Vec<u8> = bytes.clone();
                    runs.dedup();
                    let mut names = runs.clone();
                    names.sort_unstable();
                    names.dedup();
                    assert_eq!(runs.len(), names.len(), "seed {seed}: a fragment was split: {bytes:?}");
                    wholes += 1;
                }
                (Outcome::Failed, rest) => {
                    assert!(rest.is_empty());
                    failures += 1;
                }
                (Outcome::Kept, rest) => assert!(rest.is_empty()),
            }
        }
        while let Some(deadline) = table.poll_timeout() {
            table.expire(deadline, &mut Vec::new());
        }
        assert_eq!(table.memory(), 0);
        assert_no_leak(&arena);
    }
    assert!(wholes > 500 && failures > 500, "{wholes} and {failures}: the test tests nothing");
}

/// RFC 5722 §3, and Linux in IPv4: an overlap drops the datagram; a repetition does not.
fn overlap_ends_the_datagram(family: Family) {
    let arena = arena();
    let mut table = table();
    let bytes = pattern(48);
    let first = fragment(key(family, 2, 1), 0, true);
    insert(&mut table, &arena, &first, &bytes[..16]);
    assert!(matches!(insert(&mut table, &arena, &first, &bytes[..16]).0, Outcome::Kept));
    assert!(matches!(insert(&mut table, &arena, &fragment(key(family, 2, 1), 8, true), &bytes[8..32]).0, Outcome::Failed));
    assert_eq!(table.memory(), 0);
    // Its remaining fragments start no datagram.
    assert!(matches!(insert(&mut table, &arena, &fragment(key(family, 2, 1), 16, false), &bytes[16..]).0, Outcome::Kept));
    assert!(matches!(insert(&mut table, &arena, &first, &bytes[..8]).0, Outcome::Kept));
}

/// Ends that contradict each other, or received data, drop the datagram.
fn contradicting_ends(family: Family) {
    let arena = arena();
    let bytes = pattern(64);
    for second in [(48, 56, false), (48, 64, true), (0, 8, false)] {
        let mut table = table();
        insert(&mut table, &arena, &fragment(key(family, 2, 1), 24, true), &bytes[24..32]);
        if second.0 != 0 {
            insert(&mut table, &arena, &fragment(key(family, 2, 1), 40, false), &bytes[40..48]);
        }
        let header = fragment(key(family, 2, 1), second.0, second.2);
        let outcome = insert(&mut table, &arena, &header, &bytes[second.0 as usize..second.1]).0;
        assert!(matches!(outcome, Outcome::Failed), "{second:?}");
        assert_eq!(table.memory(), 0);
    }
}

/// The "ping of death", fragments with lengths that are not multiples of eight, and empty ones are refused.
fn impossible_fragments(family: Family) {
    let arena = arena();
    let mut table = table();
    // An IPv6 packet's length does not count its header (RFC 8200 §3).
    let longest = if family == Family::Ipv4 { 65_535 - 20 } else { 65_535 };
    let (eights, over) = (longest / 8 * 8, (longest % 8) as usize);
    for (offset, len, more, good) in [
        (65_528, 8, false, false),
        (eights, over + 1, false, false),
        (eights, over, false, true),
        (0, 12, true, false),
        (8, 16, true, true),
    ] {
        let header = fragment(key(family, 2, offset), offset, more);
        let outcome = insert(&mut table, &arena, &header, &pattern(len)).0;
        assert_eq!(matches!(outcome, Outcome::Kept), good, "{offset} {len}");
    }
    let empty = arena.alloc(Class::Small).expect("there are some");
    assert!(matches!(
        table.insert(at(0), &arena, &fragment(key(family, 2, 5), 0, true), (empty, &mut Vec::new())),
        Outcome::Failed
    ));
}

/// A flood of incomplete fragments costs no more than the bound, leaves space to other sources, and does not stop a datagram
/// whose fragments arrive together.
fn bounded_under_flood(family: Family) {
    let arena = Arena::new(ArenaConfig { large: 2_048, small: 2_048 });
    let mut table = Reassembly::new(256 << 10);
    for n in 0..20_000u32 {
        let source = (n % 64) as u8 + 3;
        insert(&mut table, &arena, &fragment(key(family, source, n), 8, true), &pattern(1_400));
        assert!(table.memory() <= 256 << 10);
        if n % 100 == 0 {
            insert(&mut table, &arena, &fragment(key(family, 2, n), 0, true), &pattern(16));
            assert!(matches!(insert(&mut table, &arena, &fragment(key(family, 2, n), 16, false), b"end").0, Outcome::Whole(..)));
        }
    }
    // One source alone gets a quarter.
    let mut table = Reassembly::new(256 << 10);
    for n in 0..5_000 {
        insert(&mut table, &arena, &fragment(key(family, 3, n), 8, true), &pattern(1_400));
    }
    assert!(table.memory() <= 64 << 10);
    insert(&mut table, &arena, &fragment(key(family, 2, 1), 0, true), &pattern(16));
    assert!(matches!(insert(&mut table, &arena, &fragment(key(family, 2, 1), 16, false), b"end").0, Outcome::Whole(..)));
    // Tiny fragments do not pin large frames, and one datagram has a bounded number of frames.
    let mut table = Reassembly::new(1 << 20);
    let failed = (0..400)
        .filter(|n| matches!(insert(&mut table, &arena, &fragment(key(family, 4, 1), n * 16, true), &[0; 8]).0, Outcome::Failed));
    assert_eq!(failed.count(), 1);
    assert!(table.memory() <= 256 * 256);
}

/// All fragments together leave most of the arena free, whatever limit is configured.
fn the_arena_is_not_used_up(family: Family) {
    let arena = arena();
    let mut table = Reassembly::new(u32::MAX);
    for n in 0..2_000u32 {
        insert(&mut table, &arena, &fragment(key(family, n as u8, n), 8, true), &pattern(1_400));
    }
    assert!(arena.free(Class::Large) > 512 * 3 / 4, "{} are left", arena.free(Class::Large));
}

/// An incomplete datagram is dropped after 30 seconds (60 in IPv6); its first fragment is returned for an ICMP error.
fn expiry(family: Family) {
    let arena = arena();
    let mut table = table();
    let (lifetime, header_len) = if family == Family::Ipv4 { (30_000, 20) } else { (60_000, 48) };
    insert_as(&mut table, &arena, at(1_000), &fragment(key(family, 2, 1), 0, true), pattern(16).chunks(1_900));
    insert_as(&mut table, &arena, at(2_000), &fragment(key(family, 2, 2), 8, true), pattern(16).chunks(1_900));
    let mut expired = Vec::new();
    let due = lifetime + 1_000;
    assert_eq!(table.poll_timeout(), Some(at(due)));
    assert_eq!(table.expire(at(due - 1), &mut expired), 0);
    assert_eq!((table.expire(at(due), &mut expired), expired.len()), (1, 1));
    assert!(expired[0].1.bytes()[..header_len].iter().all(|byte| *byte == 0xaa), "from its headers on");
    assert_eq!(expired[0].1.bytes()[header_len..], pattern(16));
    assert_eq!((table.expire(at(due + 1_000), &mut expired), expired.len()), (1, 1));
    assert_eq!((table.memory(), table.poll_timeout()), (0, None));
    expired.clear();
    assert_no_leak(&arena);
}

/// RFC 3168 §5.3: a mark on any fragment marks the datagram; when only some fragments are ECN-capable there is no datagram.
fn ecn_of_the_whole(family: Family) {
    let arena = arena();
    for (first, second, whole) in
        [(2, 2, Some(2)), (2, 3, Some(3)), (3, 1, Some(3)), (1, 1, Some(1)), (0, 0, Some(0)), (0, 3, None), (2, 0, None)]
    {
        let mut table = table();
        let header = Fragment { tos: 0xb8 | first, ..fragment(key(family, 2, 1), 0, true) };
        insert(&mut table, &arena, &header, &pattern(16));
        let header = Fragment { tos: 0x10 | second, ..fragment(key(family, 2, 1), 16, false) };
        let tos = match insert(&mut table, &arena, &header, b"end").0 {
            Outcome::Whole(header, ..) => Some(header.tos),
            _ => None,
        };
        assert_eq!(tos, whole.map(|ecn| 0xb8 | ecn));
        assert_eq!(table.memory(), 0);
    }
}
