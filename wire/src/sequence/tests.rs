use super::SeqNum;

/// Order holds across the wrap from 2^32 - 1 to 0.
#[test]
fn order_across_the_wrap() {
    let last = SeqNum(u32::MAX);
    assert!(last.before(last + 1) && (last + 1).after(last));
    assert!(last.at_or_before(last) && last.at_or_after(last));
    assert_eq!((last + 5) - last, 5);
    assert_eq!(last.latest(SeqNum(3)), SeqNum(3));
    assert_eq!(last.earliest(SeqNum(3)), last);
}

/// A window contains its first byte and not the byte after its last.
#[test]
fn windows_are_half_open() {
    let start = SeqNum(u32::MAX - 1);
    assert!(start.within(start, 1));
    assert!(!(start + 1).within(start, 1));
    assert!((start + 9).within(start, 10));
    assert!(!(start - 1).within(start, 10));
    assert!(!start.within(start, 0));
}
