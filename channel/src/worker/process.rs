//! What to do when a process of the group is gone, however it went.

use super::super::client::{hand_on, sends};
use super::super::layout::{PROCESSES, RINGS, TxClass};
use super::super::lock::owner_process;
use super::super::slot::State;
use super::Attachment;
use ringway_shm::list::{self, EMPTY};
use ringway_shm::sync::{AtomicU32, Ordering};

/// What a dead process leaves behind. The engine closes the orphans (reset when bytes are unread, else
/// FIN, as the kernel does) and aborts the torn.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Gone {
    /// Slots without a holder.
    pub orphans: Vec<u32>,
    /// Connections that others still hold but whose received stream may have a hole, since the
    /// process died while it was reading.
    pub torn: Vec<u32>,
    /// Slots that others still hold and where the process may have died between a deed and its
    /// announcement: look at them as if `Transmit` and `Consumed` had been asked.
    pub revisit: Vec<u32>,
}

impl Attachment {
    /// Returns true when number `index` is that of process `pid`, or reserved for it; 0: for a child that is about to be made. It is
    /// another's as soon as its death has been dealt with.
    pub fn is_number_of(&self, index: u32, pid: u32) -> bool {
        index < PROCESSES && self.map.process(index).entry.load(Ordering::SeqCst) as u32 == pid
    }

    /// The processes that hold `slot`, as the region says.
    pub fn holders_of(&self, slot: u32) -> impl Iterator<Item = u32> + '_ {
        let pid_of = |number| self.map.process(number).entry.load(Ordering::SeqCst) as u32;
        self.map.holders(slot).map(pid_of).filter(|&pid| pid != 0)
    }

    /// Returns true if process `index` holds `slot`, as the region says.
    pub fn is_held_by(&self, slot: u32, index: u32) -> bool {
        self.map.holders(slot).any(|holder| holder == index)
    }

    /// The slots that process `pid` holds, by all its numbers.
    pub fn held_by(&self, pid: u32) -> Vec<u32> {
        let numbers = self.map.processes().used().filter(|&index| self.is_number_of(index, pid));
        let numbers: Vec<u32> = numbers.collect();
        let held = |slot: &u32| self.map.holders(*slot).any(|process| numbers.contains(&process));
        (0..self.map.shape().slots).filter(held).collect()
    }

    /// Clears everything of process `index`: held bits, locks, contexts, chunks in its hands, its
    /// number. Only call it when the process cannot run any more. Looks at every slot that it held.
    pub fn process_gone(&mut self, index: u32) -> Gone {
        let mut gone = Gone::default();
        if index >= PROCESSES {
            return gone;
        }
        let held = self.map.take_held(index);
        for ring in 0..RINGS {
            break_lock(&self.map.ring(ring).lock.0, index);
        }
        let map = self.map.clone();
        for context in map.contexts().used() {
            if map.context(context).owner.0.load(Ordering::Acquire) == index + 1 {
                self.free_context(context);
            }
        }
        self.rescue_chunks(index);
        for slot in held {
            let torn = self.break_slot_locks(slot, index);
            if self.is_unaccepted(slot) {
                continue;
            }
            self.hand_on(slot, index);
            if self.map.holders(slot).next().is_none() {
                gone.orphans.push(slot);
            } else if torn {
                gone.torn.push(slot);
            } else {
                gone.revisit.push(slot);
            }
        }
        // Last: the number is another process's from here on.
        self.map.process(index).entry.store(0, Ordering::SeqCst);
        self.map.processes().give_back(index);
        gone
    }

    /// References to the slot that the dead process had in flight (SCM_RIGHTS) outlive it: another process stands for them, one
    /// that has no descriptor of the slot if there is one.
    fn hand_on(&self, slot: u32, dead: u32) {
        let app_flags = &self.map.slot(slot).app_flags;
        if !sends(app_flags, dead) {
            return;
        }
        let (word, bit) = (slot / 64, 1 << (slot % 64));
        let holds = |process: u32| self.map.held(process, word).load(Ordering::SeqCst) & bit != 0;
        let others = || self.map.processes().used().filter(|process| *process != dead);
        let Some(heir) = others().find(|process| !holds(*process)).or_else(|| others().next()) else { return };
        let has_own = holds(heir);
        self.map.hold(heir, slot);
        if !hand_on(app_flags, dead, heir, has_own) && !has_own {
            // All have arrived meanwhile.
            self.map.held(heir, word).fetch_and(!bit, Ordering::SeqCst);
        }
    }

    fn free_context(&mut self, context: u32) {
        self.signals.forget(context);
        self.map.context(context).owner.0.store(0, Ordering::Release);
        self.map.contexts().give_back(context);
    }

    /// Whether the stream that the slot's readers share may be torn.
    fn break_slot_locks(&mut self, slot: u32, process: u32) -> bool {
        let shared = self.map.slot(slot);
        break_lock(&shared.control_lock, process);
        let reader = break_lock(&shared.rx_lock, process);
        if break_lock(&shared.tx_lock, process) {
            // It may have counted bytes that it never pushed.
            self.take_pushed(slot);
            let taken = self.slots.of(slot).tx_taken;
            self.map.slot(slot).tx_queued.store(taken, Ordering::Release);
        }
        if reader && self.map.slot(slot).state() == State::Listening {
            self.rebuild_accept_queue(slot);
            return false;
        }
        reader
    }

    /// The queue's private part may be torn: make it again from what was never taken.
    fn rebuild_accept_queue(&mut self, listener: u32) {
        let waiting = self.unaccepted(listener);
        let shared = self.map.slot(listener);
        shared.accept_stack.store(EMPTY, Ordering::SeqCst);
        shared.rx_head.store(EMPTY, Ordering::SeqCst);
        let pushed = self.slots.of(listener).accept_pushed;
        shared.accepted.store(pushed.wrapping_sub(waiting.len() as u32), Ordering::SeqCst);
        let mut older = EMPTY;
        for &child in &waiting {
            self.map.slot(child).link.store(older, Ordering::Relaxed);
            older = list::word(child);
        }
        self.map.slot(listener).accept_stack.store(older, Ordering::SeqCst);
        self.signal(listener);
    }

    fn rescue_chunks(&mut self, process: u32) {
        let map = self.map.clone();
        for class in [TxClass::Large, TxClass::Small, TxClass::Bulk] {
            let (list, limit, first) = map.tx_free(class);
            for chunk in first..first + list.touched(limit) {
                if map.tx_record(chunk).owner.load(Ordering::Acquire) == process + 1 {
                    self.rescue_tx(chunk);
                }
            }
        }
    }
}

/// Clears the lock if `process` holds it.
fn break_lock(word: &AtomicU32, process: u32) -> bool {
    let holder = word.load(Ordering::Acquire);
    owner_process(holder) == Some(process) && word.compare_exchange(holder, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}
