use super::*;

#[test]
fn positions_do_not_wrap() {
    let mut positions = Positions::default();
    positions.start(u32::MAX - 10);
    assert_eq!(positions.of(u32::MAX), 10);
    assert_eq!(positions.of(5), 16);
    for step in 1..40_i64 {
        positions.follow(step * 500_000_000);
    }
    assert_eq!(positions.of((u32::MAX - 10).wrapping_add((39 * 500_000_000_i64) as u32)), 39 * 500_000_000);
}

#[test]
fn copies_are_compared_wherever_they_begin() {
    let mut sent = Sent::default();
    assert_eq!(sent.add(1, 10, 5, b"abcde"), Added::default());
    assert_eq!(sent.add(2, 20, 5, b"klmno"), Added::default());
    // Across both and the hole between them.
    let again = sent.add(3, 8, 20, b"YZabcdefghijklmnopqr");
    assert_eq!(again, Added { differs_at: None, sent_before: Some(2) });
    assert_eq!(sent.add(4, 12, 3, b"cXe").differs_at, Some(13));
    assert_eq!(sent.add(5, 26, 1, b"q").sent_before, Some(3));
}

#[test]
fn holes_are_known() {
    let mut sent = Sent::default();
    sent.begin(1);
    sent.add(1, 1, 9, b"123456789");
    sent.add(1, 15, 5, b"fffff");
    assert_eq!(sent.contiguous(), Some(10));
    assert!(!sent.acknowledged(10));
    assert!(sent.acknowledged(15), "ten to fifteen were never seen");
    assert_eq!(sent.contiguous(), Some(20));
}

#[test]
fn memory_has_a_bound() {
    let mut sent = Sent::default();
    for at in 0..40_000 {
        sent.add(1, at * 2, 1, b"x");
        sent.trim();
    }
    assert!(sent.pieces.len() <= PIECES_MAX);
    let large = vec![7; 1 << 20];
    for at in 0..40 {
        sent.add(1, (at + 1) << 20, 1 << 20, &large);
        sent.trim();
    }
    assert!(sent.kept <= 4 * KEPT_BYTES_MAX);
}
