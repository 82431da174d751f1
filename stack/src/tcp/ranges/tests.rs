use alloc::vec;
use alloc::vec::Vec;

use super::*;

fn list(ranges: &Ranges<u8>) -> Vec<(u32, u32, u8)> {
    ranges.iter().map(|r| (r.start.0, r.end.0, r.value)).collect()
}

/// Later values replace earlier ones; equal neighbors merge; the count of bytes follows.
#[test]
fn add_and_remove() {
    let mut ranges = Ranges::default();
    ranges.add(SeqNum(10), SeqNum(20), 1);
    ranges.add(SeqNum(20), SeqNum(30), 1);
    assert_eq!(list(&ranges), vec![(10, 30, 1)]);
    ranges.add(SeqNum(15), SeqNum(18), 2);
    assert_eq!(list(&ranges), vec![(10, 15, 1), (15, 18, 2), (18, 30, 1)]);
    ranges.remove(SeqNum(12), SeqNum(16));
    assert_eq!(list(&ranges), vec![(10, 12, 1), (16, 18, 2), (18, 30, 1)]);
    assert_eq!(ranges.bytes(), 16);
    ranges.acknowledge(SeqNum(17));
    assert_eq!(list(&ranges), vec![(17, 18, 2), (18, 30, 1)]);
    ranges.add(SeqNum(10), SeqNum(40), 3);
    assert_eq!((list(&ranges), ranges.bytes()), (vec![(10, 40, 3)], 30));
}

/// Visits the pieces in ranges and between them, also across the wrap.
#[test]
fn pieces() {
    let base = SeqNum(u32::MAX - 15);
    let mut ranges = Ranges::default();
    ranges.add(base + 10, base + 20, ());
    ranges.add(base + 30, base + 40, ());
    let mut outside = Vec::new();
    ranges.for_each_outside(base + 5, base + 35, &mut |a, b| outside.push((a - base, b - base)));
    assert_eq!(outside, vec![(5, 10), (20, 30)]);
    let mut inside = Vec::new();
    ranges.for_each_inside(base + 15, base + 35, &mut |r| inside.push((r.start - base, r.end - base)));
    assert_eq!(inside, vec![(15, 20), (30, 35)]);
}
