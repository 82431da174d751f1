use super::*;
use crate::mock::TestKernel;

/// One attempt that finds something at the `hit`-th look (0: at none); whether it found it, and how often it looked.
fn attempt(courtesy: &Courtesy, hit: u32) -> (bool, u32) {
    let kernel = TestKernel::default();
    let mut looks = 0;
    let found = courtesy.give_way(&kernel, || {
        looks += 1;
        looks == hit
    });
    (found, looks)
}

/// What comes at the first look is found, and ends the attempt.
#[test]
fn giving_way_ends_when_something_has_come() {
    let courtesy = Courtesy::default();
    assert_eq!(attempt(&courtesy, 1), (true, 1));
}

/// Attempts end, and when they bring nothing the waits after them sleep at once; later it is tried again.
#[test]
fn in_vain_is_bounded_and_remembered() {
    let courtesy = Courtesy::default();
    for _ in 0..JUDGED {
        let (found, looks) = attempt(&courtesy, 0);
        assert!(!found && (1..=LOOKS_MAX).contains(&looks));
    }
    for _ in 0..SKIPPED {
        assert_eq!(attempt(&courtesy, 1), (false, 0), "no look at all");
    }
    for _ in 0..JUDGED {
        assert!(!attempt(&courtesy, 0).0);
    }
    for _ in 0..2 * SKIPPED {
        assert_eq!(attempt(&courtesy, 1), (false, 0), "twice as long");
    }
    assert_eq!(attempt(&courtesy, 1), (true, 1));
}

/// Half of the attempts are enough.
#[test]
fn every_second_time_is_worth_it() {
    let courtesy = Courtesy::default();
    for number in 0..4 * JUDGED {
        let (found, looks) = attempt(&courtesy, number % 2);
        assert_eq!(found, number % 2 == 1);
        assert!(looks > 0);
    }
}
