//! Fork's view of threads that change two things together.

use super::*;
use std::sync::atomic::AtomicBool;
use std::thread;

#[test]
fn fork_sees_no_change_half_done() {
    let (gate, stop) = (ForkGate::default(), AtomicBool::new(false));
    let pairs: Vec<[AtomicU32; 2]> = (0..3).map(|_| Default::default()).collect();
    thread::scope(|scope| {
        for [first, second] in &pairs {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let _inside = gate.enter();
                    first.fetch_add(1, Ordering::Relaxed);
                    let _deeper = gate.enter();
                    second.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for _ in 0..2_000 {
            gate.close();
            for [first, second] in &pairs {
                assert_eq!(first.load(Ordering::Relaxed), second.load(Ordering::Relaxed));
            }
            gate.open();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(gate.inside(), 0);
}

#[test]
fn a_thread_that_forks_may_enter_and_fork_inside() {
    let gate = ForkGate::default();
    let inside = gate.enter();
    gate.close();
    gate.close();
    drop(gate.enter());
    gate.open();
    assert_eq!(gate.closed.load(Ordering::SeqCst), 1, "it was closed twice");
    gate.open();
    assert_eq!((gate.closed.load(Ordering::SeqCst), gate.inside()), (0, 1));
    drop(inside);
    assert_eq!(gate.inside(), 0);
}

#[test]
fn two_threads_fork_one_after_the_other() {
    let (gate, forking) = (ForkGate::default(), AtomicU32::new(0));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..500 {
                    gate.close();
                    assert_eq!(forking.fetch_add(1, Ordering::SeqCst), 0);
                    forking.fetch_sub(1, Ordering::SeqCst);
                    gate.open();
                }
            });
        }
    });
}

#[test]
fn the_child_begins_with_an_open_gate() {
    let gate = ForkGate::default();
    let inside = gate.enter();
    gate.lanes[LANES - 1].0.fetch_add(5, Ordering::SeqCst);
    gate.close_for_tests();
    gate.reset();
    assert_eq!((gate.closed.load(Ordering::SeqCst), gate.inside()), (0, 1));
    drop(inside);
    drop(gate.enter());
    assert_eq!(gate.inside(), 0);
}

impl ForkGate {
    fn close_for_tests(&self) {
        CLOSINGS.set(1);
        self.closed.store(1, Ordering::SeqCst);
    }
}
