//! Timers on the worker's clock.

use ringway_shm::Duration;

use super::harness::Pair;
use crate::Event;

/// A timer fires once, in order of time; a stopped one never; a periodic one keeps its beat and does not pile up.
#[test]
fn timers_fire_in_order_and_keep_their_beat() {
    let mut pair = Pair::new();
    let start = pair.now;
    pair.nets[0].turn_at(start);
    let net = &mut pair.nets[0];
    net.after(std::time::Duration::from_millis(3), 3);
    net.after(std::time::Duration::from_millis(1), 1);
    let stopped = net.after(std::time::Duration::from_millis(2), 2);
    let beat = net.every(std::time::Duration::from_millis(10), 10);
    assert!(net.cancel(stopped));
    assert!(!net.cancel(stopped), "it is stopped already");
    assert_eq!(net.poll_timeout(), Some(start + Duration::from_millis(1)));
    let mut fired = |ms: u64| -> Vec<Event> {
        net.turn_at(start + Duration::from_millis(ms));
        std::iter::from_fn(|| net.next_event()).collect()
    };
    assert_eq!(fired(0), []);
    assert_eq!(fired(5), [Event::Timer(1), Event::Timer(3)]);
    assert_eq!(fired(10), [Event::Timer(10)]);
    assert_eq!(fired(45), [Event::Timer(10)], "three beats were missed: one firing");
    assert_eq!(fired(49), []);
    assert_eq!(fired(50), [Event::Timer(10)], "the beat is that of the start");
    assert!(net.cancel(beat));
    assert_eq!(net.poll_timeout(), None, "an idle program has nothing to wake for");
}
