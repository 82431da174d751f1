//! Telling wait contexts that a slot changed, with one wake-up per context and turn.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use super::super::layout::{Bits, CONTEXTS};
use super::Attachment;
use crate::sync::{Ordering, fence};
use crate::{doorbell, list, sys};

/// The worker's side of the contexts.
pub(super) struct Bells {
    bells: Vec<Option<Arc<OwnedFd>>>,
    tails: Vec<u32>,
    touched: [u64; 4],
    wakes: u64,
}

impl Bells {
    pub(super) fn new(contexts: u32) -> Bells {
        Bells { bells: (0..contexts).map(|_| None).collect(), tails: vec![0; contexts as usize], touched: [0; 4], wakes: 0 }
    }

    pub(super) fn forget(&mut self, context: u32) {
        self.bells[context as usize] = None;
    }
}

impl Attachment {
    /// Takes the event descriptor that rings a context, in place of an earlier one. It must be one that no application
    /// has: a write to it must not be able to wait. `false`: no such context.
    pub fn register_context(&mut self, context: u32, bell: Arc<OwnedFd>) -> bool {
        if context >= CONTEXTS {
            return false;
        }
        self.signals.bells[context as usize] = Some(bell);
        // Whoever waits may have armed before we could ring.
        self.signals.touched[(context / 64) as usize] |= 1 << (context % 64);
        true
    }

    /// Says that the readiness of `slot` may have changed: every context that watches it gets one
    /// event, unless it still has one that it did not take. Publishes what was pushed.
    pub fn signal(&mut self, index: u32) {
        self.publish_rx(index);
        // What was published comes before the look at who is interested; `watch` has the other fence.
        fence(Ordering::SeqCst);
        let slot = self.map.slot(index);
        for word in 0..4 {
            let interest = slot.interest[word].load(Ordering::SeqCst);
            if interest == 0 {
                continue;
            }
            let before = slot.pending[word].fetch_or(interest, Ordering::SeqCst);
            for bit in Bits(interest & !before) {
                let context = word as u32 * 64 + bit;
                let tail = &mut self.signals.tails[context as usize];
                self.map.event(context, *tail).store(list::word(index), Ordering::Relaxed);
                *tail = tail.wrapping_add(1);
                self.map.context(context).tail.0.store(*tail, Ordering::Release);
                self.signals.touched[word] |= 1 << bit;
            }
        }
    }

    /// Ends a turn: wakes the contexts that got events and sleep. How many wake-ups were sent.
    pub fn flush_wakes(&mut self) -> u32 {
        self.feed_starved();
        let mut count = 0;
        for word in 0..4 {
            for bit in Bits(std::mem::take(&mut self.signals.touched[word])) {
                let context = word as u32 * 64 + bit;
                // Without its bell a context stays armed: `register_context` looks at it again.
                let Some(bell) = &self.signals.bells[context as usize] else { continue };
                if doorbell::must_ring(&self.map.context(context).armed.0) {
                    sys::ring(bell.as_raw_fd());
                    count += 1;
                }
            }
        }
        self.signals.wakes += u64::from(count);
        count
    }

    /// Wake-ups sent since the start.
    pub fn wakes(&self) -> u64 {
        self.signals.wakes
    }
}
