//! Sockets whose descriptors travel to other processes (SCM_RIGHTS): a reference that is in flight.
//!
//! While one is, the sender's mark in the table of holders stands for it, also when the sender has closed its own descriptor.
//! The receiver takes a mark of its own first and ends the reference then; the last one that is received takes the mark of a
//! sender that has closed with it. So there is a holder at every instant, and none too many afterwards. When a sender dies, another
//! process of the group stands for what it has in flight (`worker/process.rs`).
//!
//! ```text
//!   app_flags:  31..28 flags | 27 closed | 26..20 references in flight | 19..8 the sender | 7..0 flags
//! ```

use super::super::layout::PROCESSES;
use super::super::slot::SlotRef;
use super::Client;
use ringway_shm::sync::{AtomicU32, Ordering};

const SENDER_AT: u32 = 8;
const SENDER: u32 = 0xfff << SENDER_AT;
const ONE: u32 = 1 << 20;
const COUNT: u32 = 0x7f << 20;
const CLOSED: u32 = 1 << 27;

const _: () = assert!(PROCESSES <= 1 << 12, "a sender's number has twelve bits");

impl Client {
    /// A descriptor of the socket is about to be sent. `false`: another process's is under way, or too many are; the caller
    /// keeps its own descriptor's reference.
    pub fn pass(&self, slot: SlotRef) -> bool {
        let own = self.process() << SENDER_AT;
        self.is_current(slot)
            && change(&self.slot(slot.index).app_flags, |word| {
                let free = word & COUNT == 0 || (word & SENDER == own && word & COUNT != COUNT);
                free.then(|| (word & !SENDER | own) + ONE)
            })
            .is_some()
    }

    /// A descriptor that was in flight has arrived at this process, which [holds](Client::hold) the socket already; or it
    /// could not be sent.
    pub fn arrive(&self, slot: SlotRef) {
        if !self.is_current(slot) {
            return;
        }
        let arrived = |word: u32| {
            let left = (word & COUNT).checked_sub(ONE)?;
            Some(if left == 0 { word & !(COUNT | SENDER | CLOSED) } else { word & !COUNT | left })
        };
        let Some(before) = change(&self.slot(slot.index).app_flags, arrived) else { return };
        let sender = (before & SENDER) >> SENDER_AT;
        if before & COUNT == ONE && before & CLOSED != 0 && sender != self.process() {
            self.map.held(sender, slot.index / 64).fetch_and(!(1 << (slot.index % 64)), Ordering::SeqCst);
        }
    }

    /// Whether a descriptor that this process has sent is in flight.
    pub fn is_in_flight(&self, slot: SlotRef) -> bool {
        self.is_current(slot) && sends(&self.slot(slot.index).app_flags, self.process())
    }

    /// None of what this process has sent will be received any more. Its mark stays: the caller owes [`release`](Client::release).
    pub fn lose(&self, slot: SlotRef) {
        let own = self.process() << SENDER_AT;
        let lost = |word: u32| (word & SENDER == own && word & COUNT != 0).then_some(word & !(COUNT | SENDER | CLOSED));
        if self.is_current(slot) {
            change(&self.slot(slot.index).app_flags, lost);
        }
    }

    /// Whether this process's mark has to stay for a reference in flight; if so, the last of these takes it away.
    pub(super) fn leaves_to_receiver(&self, index: u32) -> bool {
        let own = self.process() << SENDER_AT;
        let stays = |word: u32| (word & COUNT != 0 && word & SENDER == own).then_some(word | CLOSED);
        change(&self.slot(index).app_flags, stays).is_some()
    }
}

/// Changes the word unless `to` says `None`; what it was before.
fn change(word: &AtomicU32, to: impl FnMut(u32) -> Option<u32>) -> Option<u32> {
    word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, to).ok()
}

/// Whether references that this process has sent are in flight.
pub(in super::super) fn sends(app_flags: &AtomicU32, process: u32) -> bool {
    let word = app_flags.load(Ordering::SeqCst);
    word & COUNT != 0 && word & SENDER == process << SENDER_AT
}

/// The sender of references in flight has died: `heir`, another process, which is marked as a holder, stands for them. `has_own`: the
/// heir has a descriptor of the socket beside them. `false`: there are none of this sender.
pub(in super::super) fn hand_on(app_flags: &AtomicU32, dead: u32, heir: u32, has_own: bool) -> bool {
    let closed = if has_own { 0 } else { CLOSED };
    let handed = |word: u32| {
        let is_of_dead = word & COUNT != 0 && word & SENDER == dead << SENDER_AT;
        is_of_dead.then_some(word & !(SENDER | CLOSED) | heir << SENDER_AT | closed)
    };
    change(app_flags, handed).is_some()
}
