//! Telling wait contexts that a slot changed, with one wake-up per context and turn.
//!
//! No wake-up is lost, since a ring depends on one word alone, that a sleeper arms before its last look:
//!
//! ```text
//!   worker:       publish, fence, watchers?             .. end of the turn: fence, armed? ring
//!   application:  watch, fence, look                    .. arm, fence, look, sleep
//! ```
//! Either the look sees what was published, or the worker sees that the context watches and is armed. The events say which
//! slot it was; whether one is told already decides nothing about the ring.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use super::super::layout::{Bits, CONTEXTS, DISTANT_WORDS, NEAR, NEAR_WORDS};
use super::Attachment;
use crate::sys;
use ringway_shm::sync::{Ordering, fence};
use ringway_shm::{doorbell, list};

/// The worker's side of the contexts.
pub(super) struct WakeFds {
    /// As far as one was ever registered.
    wake_fds: Vec<Option<Arc<OwnedFd>>>,
    /// Of near contexts.
    tails: [u32; NEAR as usize],
    /// Contexts that have a wake descriptor. A slot's words of distant interest cost time for these alone: each is a descriptor of the
    /// service's, of which an application has so many.
    known: [u64; (CONTEXTS / 64) as usize],
    touched: [u64; (CONTEXTS / 64) as usize],
    /// Which words of `touched` have something.
    touched_words: [u64; 3],
    wakes: u64,
}

const _: () = assert!(CONTEXTS / 64 <= 3 * 64 && NEAR_WORDS <= 64, "a summary has three words, and near contexts the first");

impl WakeFds {
    pub(super) fn new() -> WakeFds {
        let none = [0; (CONTEXTS / 64) as usize];
        WakeFds { wake_fds: Vec::new(), tails: [0; NEAR as usize], known: none, touched: none, touched_words: [0; 3], wakes: 0 }
    }

    pub(super) fn forget(&mut self, context: u32) {
        if let Some(wake_fd) = self.wake_fds.get_mut(context as usize) {
            *wake_fd = None;
        }
        self.known[(context / 64) as usize] &= !(1 << (context % 64));
    }

    fn touch(&mut self, word: usize, bits: u64) {
        self.touched[word] |= bits;
        self.touched_words[word / 64] |= 1 << (word % 64);
    }
}

impl Attachment {
    /// Takes the event descriptor that rings a context, in place of an earlier one. It must be one that no application
    /// has: a write to it must not be able to wait. Events of a distant context are noted from now on. `false`: no such context.
    pub fn register_context(&mut self, context: u32, wake_fd: Arc<OwnedFd>) -> bool {
        if context >= CONTEXTS {
            return false;
        }
        let wake_fds = &mut self.signals.wake_fds;
        wake_fds.resize(wake_fds.len().max(context as usize + 1), None);
        wake_fds[context as usize] = Some(wake_fd);
        self.signals.known[(context / 64) as usize] |= 1 << (context % 64);
        // A waiting thread may have armed before we could ring.
        self.signals.touch((context / 64) as usize, 1 << (context % 64));
        true
    }

    /// Says that the readiness of `slot` may have changed: every context that watches it gets one
    /// event, unless it still has one that it did not take. Publishes what was pushed.
    pub fn signal(&mut self, index: u32) {
        self.publish_rx(index);
        // What was published comes before the look at the watchers; `watch` has the other fence.
        fence(Ordering::SeqCst);
        let slot = self.map.slot(index);
        for word in 0..NEAR_WORDS {
            let interest = slot.interest[word].load(Ordering::SeqCst);
            if interest == 0 {
                continue;
            }
            self.signals.touch(word, interest);
            let before = slot.pending[word].fetch_or(interest, Ordering::SeqCst);
            for bit in Bits(interest & !before) {
                let context = word as u32 * 64 + bit;
                let tail = &mut self.signals.tails[context as usize];
                self.map.event(context, *tail).store(list::word(index), Ordering::Relaxed);
                *tail = tail.wrapping_add(1);
                self.map.context(context).tail.0.store(*tail, Ordering::Release);
            }
        }
        let distant = slot.distant.load(Ordering::SeqCst);
        if distant != 0 {
            self.signal_distant(index, distant);
        }
    }

    #[cold]
    fn signal_distant(&mut self, index: u32, distant: u64) {
        for word in distant_words(distant) {
            let interest = self.map.distant_interest(index)[word].load(Ordering::SeqCst);
            let word = NEAR_WORDS + word;
            let interest = interest & self.signals.known[word];
            if interest == 0 {
                continue;
            }
            self.signals.touch(word, interest);
            for bit in Bits(interest) {
                let context = word as u32 * 64 + bit;
                self.map.distant_events(context).put(index);
                // The application's own count, for its own eyes.
                self.map.context(context).tail.0.fetch_add(1, Ordering::Release);
            }
        }
    }

    /// Ends a turn: wakes the contexts that got events and sleep. How many wake-ups were sent.
    pub fn flush_wakes(&mut self) -> u32 {
        self.feed_starved();
        let mut count = 0;
        for above in 0..self.signals.touched_words.len() {
            for word in Bits(std::mem::take(&mut self.signals.touched_words[above])) {
                let word = above * 64 + word as usize;
                count += self.ring_touched(word);
            }
        }
        self.signals.wakes += u64::from(count);
        count
    }

    fn ring_touched(&mut self, word: usize) -> u32 {
        let mut count = 0;
        for bit in Bits(std::mem::take(&mut self.signals.touched[word])) {
            let context = word as u32 * 64 + bit;
            // Without its wake descriptor a context stays armed: `register_context` looks at it again.
            let Some(Some(wake_fd)) = self.signals.wake_fds.get(context as usize) else { continue };
            if doorbell::must_ring(&self.map.context(context).armed.0) {
                sys::ring(wake_fd.as_raw_fd());
                count += 1;
            }
        }
        count
    }

    /// Wake-ups sent since the start.
    pub fn wakes(&self) -> u64 {
        self.signals.wakes
    }
}

/// The words of distant interest that a slot's word of summary names.
pub(super) fn distant_words(distant: u64) -> impl Iterator<Item = usize> {
    Bits(distant).flat_map(|bit| (bit * DISTANT_WORDS..(bit + 1) * DISTANT_WORDS).map(|word| word as usize))
}

#[cfg(test)]
mod tests;
