//! The fork gate: no fork happens while a thread changes the meaning of a descriptor number.
//!
//! fork(2) copies the descriptors first and the memory after them (kernel/fork.c, copy_process). If a thread accepts,
//! closes or duplicates between the two copies, the child's table would differ from its descriptors: the next open(2)
//! of the child would get a number that its table calls a connection. So:
//!
//! **An entry of the table is valid because only the library changes it, and fork sees no half-done change.** The
//! library gets a number from the kernel or gives it back, and changes the entry, inside the gate
//! ([`enter`](ForkGate::enter)). Fork closes the gate ([`close`](ForkGate::close)), which waits for the threads inside
//! and holds back the others; in the child, references and held slots are recounted from the table. Entries of the
//! library's own descriptors stay outside: they are near the top of the range, and a stale one reveals nothing.
//!
//! A wait in an epoll instance does not enter. The thread that forks holds the locks of all instances instead (`epoll.rs`).
//!
//! Rules: nothing inside waits for the peer or the service, except an attach. A lock taken inside
//! must not be held by a thread that enters. A signal handler on a thread inside may do anything inside, fork included.
//! Waiting costs no processor time; entering is one addition to a cache line that few threads share.

use ringway_channel::sys::{wait_on, wake_all};
use ringway_shm::Duration;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

/// Number of counters over which threads are spread.
const LANES: usize = 16;
/// A thread that a signal handler keeps inside for longer than this no longer stops forks.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Default)]
#[repr(align(64))]
struct Lane(AtomicU32);

/// The gate of a process.
#[derive(Default)]
pub(crate) struct ForkGate {
    /// Threads inside.
    lanes: [Lane; LANES],
    /// 1: a fork is in progress, or waits for the threads inside.
    closed: AtomicU32,
    /// Changes when a thread leaves while the gate is closed.
    left: AtomicU32,
}

thread_local! {
    /// Nesting depth of this thread inside.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// True if this thread is counted in its lane.
    static COUNTED: Cell<bool> = const { Cell::new(false) };
    /// Number of times that this thread has closed the gate.
    static CLOSINGS: Cell<u32> = const { Cell::new(0) };
    /// This thread's lane + 1; 0: not chosen yet.
    static LANE: Cell<usize> = const { Cell::new(0) };
}

/// Guard; while it lives, no other thread forks.
pub struct Inside<'a> {
    gate: &'a ForkGate,
    /// This guard counted the thread, and its drop takes that back.
    counted: bool,
}

impl ForkGate {
    /// Enters; waits while another thread forks. A thread that is inside already, or that forks itself, does not wait.
    pub(crate) fn enter(&self) -> Inside<'_> {
        let outermost = DEPTH.replace(DEPTH.get() + 1) == 0 && CLOSINGS.get() == 0;
        if outermost {
            self.join();
            COUNTED.set(true);
        }
        Inside { gate: self, counted: outermost }
    }

    fn join(&self) {
        loop {
            self.lane().fetch_add(1, Ordering::SeqCst);
            if self.closed.load(Ordering::SeqCst) == 0 {
                return;
            }
            self.part();
            wait_on(&self.closed, 1, None);
        }
    }

    fn part(&self) {
        self.lane().fetch_sub(1, Ordering::SeqCst);
        if self.closed.load(Ordering::SeqCst) != 0 {
            self.left.fetch_add(1, Ordering::SeqCst);
            wake_all(&self.left);
        }
    }

    fn lane(&self) -> &AtomicU32 {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        if LANE.get() == 0 {
            LANE.set(NEXT.fetch_add(1, Ordering::Relaxed) as usize % LANES + 1);
        }
        &self.lanes[LANE.get() - 1].0
    }

    /// Before fork: waits until no other thread is inside. One thread forks at a time. The same thread may close the
    /// gate again; it is open after as many [opens](ForkGate::open).
    pub(crate) fn close(&self) {
        if CLOSINGS.replace(CLOSINGS.get() + 1) > 0 {
            return;
        }
        while self.closed.compare_exchange(0, 1, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            wait_on(&self.closed, 1, None);
        }
        let own = u32::from(COUNTED.get());
        loop {
            let left = self.left.load(Ordering::SeqCst);
            if self.inside() <= own || !wait_on(&self.left, left, Some(PATIENCE)) {
                return;
            }
        }
    }

    fn inside(&self) -> u32 {
        self.lanes.iter().map(|lane| lane.0.load(Ordering::SeqCst)).sum()
    }

    /// Opens the gate after fork, in the parent.
    pub(crate) fn open(&self) {
        let closings = CLOSINGS.get().saturating_sub(1);
        CLOSINGS.set(closings);
        if closings == 0 {
            self.closed.store(0, Ordering::SeqCst);
            wake_all(&self.closed);
        }
    }

    /// After fork, in the child: resets the gate; this thread is the only one, and may be inside.
    pub(crate) fn reset(&self) {
        // What is not written is not copied: most children start another program at once.
        for lane in self.lanes.iter().filter(|lane| lane.0.load(Ordering::SeqCst) != 0) {
            lane.0.store(0, Ordering::SeqCst);
        }
        if COUNTED.get() {
            self.lane().store(1, Ordering::SeqCst);
        }
        CLOSINGS.set(0);
        self.closed.store(0, Ordering::SeqCst);
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        if self.counted {
            COUNTED.set(false);
            self.gate.part();
        }
        DEPTH.set(DEPTH.get() - 1);
    }
}

#[cfg(test)]
mod tests;
