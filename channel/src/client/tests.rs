//! Locks: what a waiter does.

use super::super::lock::{LockError, acquire, owner_process, owner_word, try_acquire};
use ringway_shm::sync::{AtomicU32, Ordering};

#[test]
fn a_lock_is_one_holders_and_is_free_afterwards() {
    let word = AtomicU32::new(0);
    let (mine, theirs) = (owner_word(3, 1), owner_word(3, 2));
    let held = try_acquire(&word, mine).expect("it is free");
    assert!(try_acquire(&word, theirs).is_none());
    assert_eq!(acquire(&word, mine, || true).err(), Some(LockError::Reentered), "a signal handler must not wait for itself");
    drop(held);
    assert!(acquire(&word, theirs, || true).is_ok());
    assert_eq!(word.load(Ordering::Relaxed), 0);
}

#[test]
fn a_waiter_gives_up_when_no_process_is_left_to_free_the_lock() {
    let word = AtomicU32::new(owner_word(200, 5));
    assert_eq!(acquire(&word, owner_word(1, 1), || false).err(), Some(LockError::ServiceGone));
    assert_eq!(owner_process(word.load(Ordering::Relaxed)), Some(200));
}

#[test]
fn a_lock_that_was_taken_away_is_not_released_twice() {
    let word = AtomicU32::new(0);
    let held = try_acquire(&word, owner_word(1, 1)).expect("it is free");
    word.store(0, Ordering::Relaxed);
    let other = try_acquire(&word, owner_word(2, 1)).expect("the worker freed it");
    drop(held);
    assert_eq!(owner_process(word.load(Ordering::Relaxed)), Some(2));
    drop(other);
}
