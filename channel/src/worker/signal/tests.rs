//! Contexts beyond those with a ring of events wake as these do, and no wake-up hangs on an event that was told already.

use std::os::fd::{AsRawFd, OwnedFd};

use super::super::super::layout::NEAR;
use super::super::super::tests::{Bench, SHAPE};
use crate::sys;

/// A context with its wake descriptor that is not among the near ones.
fn distant(bench: &mut Bench) -> (u32, OwnedFd) {
    loop {
        let (context, wake_fd) = bench.context();
        if context >= NEAR {
            return (context, wake_fd);
        }
    }
}

#[test]
fn a_distant_context_is_told_and_rung_as_a_near_one() {
    let mut bench = Bench::new(SHAPE);
    let slots: Vec<_> = (0..3).map(|_| bench.connected(100)).collect();
    let (context, wake_fd) = distant(&mut bench);
    let (other, _other_wake_fd) = bench.context();
    slots.iter().for_each(|slot| assert_eq!(bench.client.watch(*slot, context), crate::Watch::Watching));
    bench.client.watch(slots[1], other);
    bench.client.arm(context);
    for slot in [2, 0, 2] {
        bench.worker.signal(slots[slot].index);
    }
    assert_eq!(bench.worker.flush_wakes(), 1);
    assert_eq!(bench.worker.flush_wakes(), 0);
    assert!(sys::silence_wake_fd(wake_fd.as_raw_fd()));
    let told: Vec<_> = std::iter::from_fn(|| bench.client.next_event(context)).collect();
    assert_eq!(told, [slots[0].index, slots[2].index], "each once");
    assert!(!bench.client.has_event(context) && !bench.client.has_event(other));
    bench.client.unwatch(slots[0], context);
    bench.worker.signal(slots[0].index);
    bench.worker.signal(slots[1].index);
    assert_eq!(bench.client.next_event(context), Some(slots[1].index));
    assert_eq!((bench.client.next_event(context), bench.client.next_event(other)), (None, Some(slots[1].index)));
    assert_eq!(bench.worker.violations(), 0);
}

/// A waiter that has not taken an event before it sleeps is woken by the next one all the same.
#[test]
fn an_event_that_was_not_taken_keeps_no_sleeper_asleep() {
    let mut bench = Bench::new(SHAPE);
    let slot = bench.connected(100);
    let (near, _near_wake_fd) = bench.context();
    let (far, _far_wake_fd) = distant(&mut bench);
    for context in [near, far] {
        bench.client.watch(slot, context);
        bench.worker.signal(slot.index);
        assert_eq!(bench.worker.flush_wakes(), 0, "nobody sleeps");
        bench.client.arm(context);
        bench.worker.signal(slot.index);
        assert_eq!(bench.worker.flush_wakes(), 1);
        bench.client.unwatch(slot, context);
    }
}

#[test]
fn the_next_use_of_a_slot_is_watched_by_no_context() {
    let mut bench = Bench::new(SHAPE);
    let slot = bench.connected(100);
    let (context, _wake_fd) = distant(&mut bench);
    bench.client.watch(slot, context);
    bench.worker.free_slot(slot.index);
    assert_eq!(bench.worker.flush_wakes(), 0, "who watches is told of the end, and nobody sleeps");
    while bench.client.next_event(context).is_some() {}
    let next = bench.connected(100);
    assert_eq!(next.index, slot.index);
    bench.client.arm(context);
    bench.worker.signal(next.index);
    assert_eq!((bench.worker.flush_wakes(), bench.client.next_event(context)), (0, None));
}

/// Two threads take events of one context at random instants while the worker signals: every slot that was signalled is
/// told in the end.
#[test]
fn threads_that_share_a_context_miss_nothing() {
    let mut bench = Bench::new(SHAPE);
    let slots: Vec<_> = (0..40).map(|_| bench.connected(100)).collect();
    let (context, _wake_fd) = distant(&mut bench);
    slots.iter().for_each(|slot| {
        bench.client.watch(*slot, context);
    });
    let Bench { client, worker, .. } = &mut bench;
    let client = &*client;
    let over = std::sync::atomic::AtomicBool::new(false);
    for round in 0..200 {
        over.store(false, std::sync::atomic::Ordering::SeqCst);
        let told = std::thread::scope(|scope| {
            let take = || {
                let mut told = Vec::new();
                loop {
                    let last = over.load(std::sync::atomic::Ordering::SeqCst);
                    told.extend(std::iter::from_fn(|| client.next_event(context)));
                    if last {
                        return told;
                    }
                }
            };
            let takers = [scope.spawn(take), scope.spawn(take)];
            slots.iter().for_each(|slot| worker.signal(slot.index));
            over.store(true, std::sync::atomic::Ordering::SeqCst);
            takers.map(|taker| taker.join().expect("it takes")).concat()
        });
        let rest: Vec<_> = std::iter::from_fn(|| client.next_event(context)).collect();
        let missing = slots.iter().filter(|slot| !told.contains(&slot.index) && !rest.contains(&slot.index)).count();
        assert_eq!(missing, 0, "in round {round}");
    }
}
