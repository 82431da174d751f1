//! Taking accepted connections off a listener, and holding slots.

use super::super::request::{Operation, Request};
use super::super::slot::{SlotRef, SlotShared};
use super::Client;
use ringway_shm::list::{self, EMPTY, word};
use ringway_shm::sync::{AtomicU64, Ordering};

impl Client {
    /// Since when the connection waits that [`accept`](Client::accept) would return, microseconds modulo 2^32; `None`: there is
    /// none, or another thread is just taking it.
    pub fn waits_since(&self, listener: SlotRef) -> Option<u32> {
        let shared = self.slot(listener.index);
        if shared.unaccepted() == 0 || !self.is_current(listener) || self.known_dead() {
            return None;
        }
        let _lock = self.lock(&shared.rx_lock).ok()?;
        let index = list::node(self.first_waiting(shared), self.slots())?;
        Some(self.slot(index).accept_pushed.load(Ordering::Relaxed))
    }

    /// The connection that waits longest on `listener`, held by this process from now on.
    pub fn accept(&self, listener: SlotRef) -> Option<SlotRef> {
        let shared = self.slot(listener.index);
        if shared.unaccepted() == 0 || !self.is_current(listener) || self.known_dead() {
            return None;
        }
        let accepted = self.take_accepted(listener, shared);
        if accepted.is_some() && shared.notify_bytes.load(Ordering::SeqCst) != 0 {
            self.announce(listener, Operation::Consumed);
        }
        accepted
    }

    fn take_accepted(&self, listener: SlotRef, shared: &SlotShared) -> Option<SlotRef> {
        let _lock = self.lock(&shared.rx_lock).ok()?;
        if !self.is_current(listener) || shared.app_closed.load(Ordering::Relaxed) != 0 {
            return None;
        }
        let limit = self.slots();
        // A connection that died while it waited is still handed out, as the kernel does; one whose
        // slot was freed for other reasons is skipped.
        for _ in 0..limit {
            let index = list::node(self.first_waiting(shared), limit)?;
            let child = self.slot(index);
            let good = child.parent.load(Ordering::Relaxed) == listener.index + 1;
            // Held first, marked taken next, off the list last: a crash in between loses nothing.
            let slot = SlotRef { index, generation: child.generation() };
            let next = child.link.load(Ordering::Relaxed);
            if good {
                self.hold(index);
                child.taken.store(slot.generation.wrapping_add(1), Ordering::Release);
            }
            shared.rx_head.store(next, Ordering::Relaxed);
            shared.accepted.fetch_add(1, Ordering::SeqCst);
            if good {
                return Some(slot);
            }
        }
        None
    }

    /// The head of the list of those that wait, under the lock; those that have come since it was made are put behind it when
    /// it has ended.
    fn first_waiting(&self, shared: &SlotShared) -> u32 {
        if shared.rx_head.load(Ordering::Relaxed) == EMPTY {
            let taken = list::take_all(&shared.accept_stack);
            shared.rx_head.store(self.reverse_accepted(taken), Ordering::Relaxed);
        }
        shared.rx_head.load(Ordering::Relaxed)
    }

    fn reverse_accepted(&self, mut at: u32) -> u32 {
        let limit = self.slots();
        let mut before = EMPTY;
        for _ in 0..limit {
            let Some(index) = list::node(at, limit) else { break };
            let link = &self.slot(index).link;
            at = link.load(Ordering::Relaxed);
            link.store(before, Ordering::Relaxed);
            before = word(index);
        }
        before
    }

    fn held_bit(&self, index: u32) -> (&AtomicU64, u64) {
        let process = self.process.load(Ordering::Relaxed);
        (self.map.held(process, index / 64), 1 << (index % 64))
    }

    /// Notes that this process has a descriptor of the slot.
    pub fn hold(&self, index: u32) {
        if self.known_dead() {
            return;
        }
        self.map.hold(self.process.load(Ordering::Relaxed), index);
    }

    /// Whether this process holds the slot.
    pub fn holds(&self, index: u32) -> bool {
        let (word, bit) = self.held_bit(index);
        word.load(Ordering::SeqCst) & bit != 0
    }

    /// Notes that this process has no descriptor of the slot any more. `true`: no process has, and none is in flight; the
    /// caller owes [`close`](Self::close).
    pub fn release(&self, index: u32) -> bool {
        if self.known_dead() || self.leaves_to_receiver(index) {
            return false;
        }
        let (word, bit) = self.held_bit(index);
        let had = word.fetch_and(!bit, Ordering::SeqCst) & bit != 0;
        had && self.map.holders(index).next().is_none()
    }

    /// Whether another process holds the slot.
    pub fn is_held_elsewhere(&self, index: u32) -> bool {
        let own = self.process.load(Ordering::Relaxed);
        self.map.holders(index).any(|process| process != own)
    }

    /// Returns true if the reference is good and some process holds the slot, or a message does that is under way.
    pub fn is_held(&self, slot: SlotRef) -> bool {
        self.is_current(slot) && self.map.holders(slot.index).next().is_some()
    }

    /// The slot with this inode (see [`set_inode`](super::super::slot::SlotShared::set_inode)) among those that any
    /// process holds.
    pub fn find_inode(&self, inode: u64) -> Option<SlotRef> {
        let held = self.map.processes().used().flat_map(|process| self.map.held_slots(process));
        let mut found = held.filter(|&index| inode != 0 && self.slot(index).inode() == inode);
        found.next().map(|index| SlotRef { index, generation: self.slot(index).generation() })
    }

    /// Every slot that this process holds, for a new image after exec.
    pub fn held_slots(&self) -> impl Iterator<Item = SlotRef> + '_ {
        let process = self.process.load(Ordering::Relaxed);
        let held = self.map.held_slots(process);
        held.map(|index| SlotRef { index, generation: self.slot(index).generation() })
    }

    /// Ends the socket for everybody: gives unread chunks back and hands the slot to the worker. The
    /// worker sends FIN, or RST when bytes were unread or `linger_s` is `Some(0)`.
    pub fn close(&self, slot: SlotRef, linger_s: Option<u16>) -> bool {
        if !self.is_current(slot) || self.known_dead() {
            return false;
        }
        let shared = self.slot(slot.index);
        let unread = shared.unread() > 0;
        if let Ok(lock) = self.lock(&shared.rx_lock) {
            shared.app_closed.store(1, Ordering::Release);
            if shared.accept_pushed.load(Ordering::Relaxed) == 0 {
                self.drop_received(shared);
            }
            drop(lock);
        }
        // The bytes stay "unread" in the counters, so that the worker knows.
        let linger_s = if unread { Some(0) } else { linger_s };
        self.submit(Request { slot, sequence: 0, operation: Operation::Close { linger_s } })
    }
}
