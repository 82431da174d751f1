use super::*;
use alloc::collections::BTreeSet;
use alloc::vec;

fn drain(wheel: &mut TimerWheel, now_ms: u64) -> Vec<(u32, u32)> {
    let mut expired = Vec::new();
    assert!(!wheel.expire(Instant::from_millis(now_ms), usize::MAX, &mut expired));
    expired
}

/// Entries expire at their tick and not before, on every level.
#[test]
fn exact_ticks() {
    let mut wheel = TimerWheel::new(Instant::from_millis(1_000));
    for (owner, tick) in [(1, 1_001), (2, 1_300), (3, 70_000), (4, 20_000_000), (5, 999)] {
        wheel.insert(owner, tick);
    }
    assert_eq!(drain(&mut wheel, 1_000), vec![(5, 999)]);
    assert_eq!(drain(&mut wheel, 1_001), vec![(1, 1_001)]);
    assert_eq!(drain(&mut wheel, 1_299), vec![]);
    assert_eq!(drain(&mut wheel, 1_300), vec![(2, 1_300)]);
    assert_eq!(drain(&mut wheel, 69_999), vec![]);
    assert_eq!(drain(&mut wheel, 70_000), vec![(3, 70_000)]);
    assert_eq!(drain(&mut wheel, 19_999_999), vec![]);
    assert_eq!(drain(&mut wheel, 20_000_000), vec![(4, 20_000_000)]);
    assert_eq!(wheel.next_expiry(), None);
}

/// A limit leaves the rest for the next call, which is due at once.
#[test]
fn bounded_work() {
    let mut wheel = TimerWheel::new(Instant::ZERO);
    for owner in 0..10 {
        wheel.insert(owner, 5);
    }
    let mut expired = Vec::new();
    assert!(wheel.expire(Instant::from_millis(9), 4, &mut expired));
    assert_eq!(expired.len(), 4);
    assert_eq!(wheel.next_expiry(), Some(Instant::from_millis(5)));
    assert_eq!(drain(&mut wheel, 9).len(), 6);
}

/// Entries of one tick expire together, including those that were far away when they were added.
#[test]
fn one_tick_from_two_levels() {
    let mut wheel = TimerWheel::new(Instant::ZERO);
    (0..3).for_each(|owner| wheel.insert(owner, 512));
    assert_eq!(drain(&mut wheel, 400), vec![]);
    (3..6).for_each(|owner| wheel.insert(owner, 512));
    assert_eq!(drain(&mut wheel, 511), vec![]);
    let mut expired = drain(&mut wheel, 512);
    expired.sort_unstable();
    assert_eq!(expired, (0..6).map(|owner| (owner, 512)).collect::<Vec<_>>());
    assert_eq!(wheel.next_expiry(), None);
}

/// Equal to a sorted set: the same entries at the same times; following `next_expiry` misses nothing.
#[test]
fn like_a_sorted_set() {
    for seed in 1..20u64 {
        let mut random = seed;
        let mut next = |bound: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % bound
        };
        // Start close to the wrap of the 32-bit tick.
        let mut now = (1u64 << 32) - 5_000;
        let mut wheel = TimerWheel::new(Instant::from_millis(now));
        let mut model = BTreeSet::new();
        for owner in 0..2_000u32 {
            let spread = [300, 70_000, 18_000_000][next(3) as usize];
            let tick = now + 1 + next(spread);
            wheel.insert(owner, tick as u32);
            model.insert((tick, owner));
            if next(4) == 0 {
                now += next(2_000);
                check(&mut wheel, &mut model, now, seed);
            }
        }
        while let Some(at) = wheel.next_expiry() {
            now = now.max(at.as_millis());
            check(&mut wheel, &mut model, now, seed);
        }
        assert!(model.is_empty(), "seed {seed}");
    }
}

fn check(wheel: &mut TimerWheel, model: &mut BTreeSet<(u64, u32)>, now: u64, seed: u64) {
    let mut expired: Vec<u32> = drain(wheel, now).into_iter().map(|(owner, _)| owner).collect();
    let mut expected: Vec<u32> = model.iter().take_while(|(tick, _)| *tick <= now).map(|&(_, owner)| owner).collect();
    model.retain(|(tick, _)| *tick > now);
    expired.sort_unstable();
    expected.sort_unstable();
    assert_eq!(expired, expected, "seed {seed} at {now}");
    if let Some(&(first, _)) = model.first() {
        assert!(wheel.next_expiry().is_some_and(|at| at.as_millis() <= first), "seed {seed}");
    }
}
