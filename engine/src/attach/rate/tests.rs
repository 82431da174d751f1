use super::*;

/// Requests served in ten seconds by a group that always has more, in turns of a millisecond.
fn served(per_second: u32) -> u64 {
    let (mut rate, mut served) = (Rate::new(per_second), 0);
    for millisecond in 0..10_000 {
        let now = Instant::from_millis(5_000 + millisecond);
        let room = rate.room(now);
        if room == 0 {
            assert!(rate.resumes().is_some_and(|at| at > now), "the group is told when it goes on");
            continue;
        }
        let taken = room.min(1_024);
        rate.spend(now, taken);
        served += taken;
        if taken == room {
            rate.wait();
        }
    }
    served
}

#[test]
fn a_group_gets_its_rate_and_a_tenth_of_a_second_at_once() {
    for per_second in [1, 3, 7, 10, 11, 1_000, 33_333, 1_000_000] {
        let (least, most) = (u64::from(per_second) * 10, u64::from(per_second) * 101 / 10 + 1);
        let served = served(per_second);
        assert!((least * 99 / 100..=most).contains(&served), "{per_second}/s: {served} in 10 s");
    }
}

#[test]
fn what_was_not_used_is_not_saved() {
    let mut rate = Rate::new(1_000);
    assert_eq!(rate.room(Instant::from_millis(60_000)), 100);
    rate.spend(Instant::from_millis(60_000), 100);
    rate.wait();
    assert_eq!(rate.room(Instant::from_millis(60_049)), 0);
    assert_eq!(rate.room(Instant::from_millis(60_050)), 50);
    assert_eq!(rate.room(Instant::from_millis(120_000)), 100);
}
