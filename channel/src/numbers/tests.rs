//! Numbers are given out once, lowest first.

use super::*;

fn fresh() -> Numbers<131> {
    Numbers { summary: [const { AtomicU64::new(0) }; 3], words: [const { AtomicU64::new(0) }; 131] }
}

#[test]
fn every_number_is_given_out_once_and_then_none() {
    let numbers = fresh();
    for expected in 0..131 * 64 {
        assert_eq!(numbers.claim(), Some(expected));
    }
    assert_eq!(numbers.claim(), None);
    assert_eq!(numbers.used().count(), 131 * 64);
    numbers.give_back(8000);
    numbers.give_back(70);
    assert_eq!((numbers.claim(), numbers.claim(), numbers.claim()), (Some(70), Some(8000), None));
    assert_eq!(numbers.used_of(1 << 6).take(3).collect::<Vec<_>>(), [6, 70, 134]);
}

#[test]
fn what_an_application_writes_into_the_summary_leads_nowhere() {
    let numbers = fresh();
    numbers.summary.iter().for_each(|word| word.store(u64::MAX, Ordering::Relaxed));
    assert_eq!(numbers.used().count(), 0);
    assert_eq!(numbers.claim(), Some(0));
}
