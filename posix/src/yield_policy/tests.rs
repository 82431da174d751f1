use super::*;
use ringway_shm::Instant;

use crate::mock::TestKernel;

const LIMIT: Duration = Duration::from_micros(20);

/// One attempt that finds an event at look number `hit` (0: never); returns whether it found it, and the number of
/// looks.
fn attempt(yield_policy: &YieldPolicy, hit: u32) -> (bool, u32) {
    attempt_of(yield_policy, hit, Duration::from_micros(1))
}

/// Like `attempt`, on a machine where each yield takes so long.
fn attempt_of(yield_policy: &YieldPolicy, hit: u32, takes: Duration) -> (bool, u32) {
    let kernel = TestKernel::default();
    kernel.yield_policy_takes.store(takes.as_nanos(), Ordering::Relaxed);
    let mut looks = 0;
    // The first look comes before the first yield.
    let found = yield_policy.yield_now(&kernel, LIMIT, || {
        looks += 1;
        if looks == hit + 1 && hit > 0 { Look::Found } else { Look::Nothing }
    });
    (found, looks.saturating_sub(1))
}

/// An event at the first look is found, and ends the attempt.
#[test]
fn giving_way_ends_when_something_has_come() {
    let yield_policy = YieldPolicy::default();
    assert_eq!(attempt(&yield_policy, 1), (true, 1));
}

/// Attempts are bounded; after failures waits sleep at once; later yielding is tried again.
#[test]
fn in_vain_is_bounded_and_remembered() {
    let yield_policy = YieldPolicy::default();
    for _ in 0..JUDGED {
        let (found, looks) = attempt(&yield_policy, 0);
        assert!(!found && (1..=LOOKS_MAX).contains(&looks));
    }
    for _ in 0..SKIPPED {
        assert_eq!(attempt(&yield_policy, 1), (false, 0), "no look at all");
    }
    for _ in 0..JUDGED {
        assert!(!attempt(&yield_policy, 0).0);
    }
    for _ in 0..2 * SKIPPED {
        assert_eq!(attempt(&yield_policy, 1), (false, 0), "twice as long");
    }
    assert_eq!(attempt(&yield_policy, 1), (true, 1));
}

/// Half of the attempts are enough.
#[test]
fn every_second_time_is_worth_it() {
    let yield_policy = YieldPolicy::default();
    for number in 0..4 * JUDGED {
        let (found, looks) = attempt(&yield_policy, number % 2);
        assert_eq!(found, number % 2 == 1);
        assert!(looks > 0);
    }
}

/// An event after another task's slice is found, but does not count for yielding.
#[test]
fn late_is_as_good_as_in_vain() {
    let yield_policy = YieldPolicy::default();
    for _ in 0..JUDGED {
        assert_eq!(attempt_of(&yield_policy, 1, Duration::from_millis(3)), (true, 1));
    }
    assert_eq!(attempt(&yield_policy, 1), (false, 0), "the next wait sleeps at once");
}

/// Number of yields in `count` attempts, if each yield takes so long.
fn once_each(yield_policy: &YieldPolicy, count: u32, takes: Duration) -> u64 {
    let kernel = TestKernel::default();
    kernel.yield_policy_takes.store(takes.as_nanos(), Ordering::Relaxed);
    (0..count).for_each(|_| yield_policy.give_way_once(&kernel, LIMIT));
    kernel.now().since(Instant::ZERO).as_nanos() / takes.as_nanos()
}

/// A worker that sends takes some time, and is yielded to each time; slices of other tasks end that for a while.
#[test]
fn giving_way_once_ends_where_another_program_takes_slices() {
    let yield_policy = YieldPolicy::default();
    assert_eq!(once_each(&yield_policy, 4 * JUDGED, Duration::from_micros(100)), u64::from(4 * JUDGED));
    assert_eq!(once_each(&yield_policy, JUDGED + SKIPPED, Duration::from_millis(3)), u64::from(JUDGED));
    assert_eq!(once_each(&yield_policy, JUDGED, Duration::from_micros(100)), u64::from(JUDGED), "it is tried again");
    yield_policy.forbid();
    assert_eq!(once_each(&yield_policy, JUDGED, Duration::from_micros(100)), 0, "the filter may kill");
}

/// With filtered system calls no thread yields: the filter may kill for it.
#[test]
fn a_filtered_process_sleeps_at_once() {
    let yield_policy = YieldPolicy::default();
    yield_policy.forbid();
    for _ in 0..4 * JUDGED {
        assert_eq!(attempt(&yield_policy, 1), (false, 0));
    }
}

/// The service's limit is in shared memory: no thread yields longer than the bound, and none if the limit is zero.
#[test]
fn what_the_service_says_is_bounded() {
    let kernel = TestKernel::default();
    kernel.yield_policy_takes.store(1_000, Ordering::Relaxed);
    let mut looks = 0;
    let yield_policy = YieldPolicy::default();
    assert!(!yield_policy.yield_now(&kernel, Duration::from_secs(4), || {
        looks += 1;
        Look::Nothing
    }));
    assert_eq!(looks - 1, 100, "microseconds");
    assert!(!yield_policy.yield_now(&kernel, Duration::ZERO, || Look::Found));
}

/// While the service sleeps no thread yields for it, and that does not count as a failure.
#[test]
fn no_caller_waits_for_a_service_that_sleeps() {
    let kernel = TestKernel::default();
    kernel.yield_policy_takes.store(1_000, Ordering::Relaxed);
    let yield_policy = YieldPolicy::default();
    for _ in 0..4 * JUDGED {
        let mut looks = 0;
        let found = yield_policy.yield_now(&kernel, LIMIT, || {
            looks += 1;
            Look::Pointless
        });
        assert!(!found);
        assert_eq!(looks, 1, "asleep from the start");
    }
    assert_eq!(attempt(&yield_policy, 1), (true, 1), "no failure was counted");
}

/// Yielding to a service that goes to sleep is a failure: the next waits sleep at once.
#[test]
fn a_service_that_goes_to_sleep_speaks_against_giving_way() {
    let kernel = TestKernel::default();
    kernel.yield_policy_takes.store(1_000, Ordering::Relaxed);
    let yield_policy = YieldPolicy::default();
    for _ in 0..JUDGED {
        let mut looks = [Look::Nothing, Look::Pointless].into_iter();
        assert!(!yield_policy.yield_now(&kernel, LIMIT, || looks.next().expect("no look after it went to sleep")));
    }
    for _ in 0..SKIPPED {
        assert_eq!(attempt(&yield_policy, 1), (false, 0), "no look at all");
    }
    assert_eq!(attempt(&yield_policy, 1), (true, 1));
}
