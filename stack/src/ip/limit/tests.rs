use super::*;

fn allowed(limit: &mut RateLimit, now: Instant) -> usize {
    (0..10_000).take_while(|_| limit.allow(now)).count()
}

/// After a quiet second 100 replies pass, then one every 10 ms, and no more however long it was quiet.
#[test]
fn a_hundred_a_second() {
    let mut limit = RateLimit::new(100);
    assert_eq!(allowed(&mut limit, Instant::from_millis(5_000)), 100);
    assert_eq!(allowed(&mut limit, Instant::from_millis(5_009)), 0);
    assert_eq!(allowed(&mut limit, Instant::from_millis(5_010)), 1);
    assert_eq!(allowed(&mut limit, Instant::from_millis(5_510)), 50);
    assert_eq!(allowed(&mut limit, Instant::from_millis(90_000)), 100);
}
