//! Which processes have a descriptor of which slot.
//!
//! Each process has a bitmap of slots with a summary, each slot a word that says in which columns (process number modulo 64)
//! to look. So what is asked of a slot or a process costs what is in use, not what there could be.

use super::layout::{Bits, Map};
use ringway_shm::sync::{AtomicU64, Ordering};

impl Map {
    /// Word `word` of the bitmap of slots that `process` holds.
    pub(crate) fn held(&self, process: u32, word: u32) -> &AtomicU64 {
        &self.held_set(process).words[word as usize]
    }

    /// Notes that `process` holds `slot`. The summaries come first: an application that is killed in between has left nothing.
    pub(crate) fn hold(&self, process: u32, slot: u32) {
        self.slot(slot).holders.fetch_or(1 << (process % 64), Ordering::SeqCst);
        let summary = &self.held_set(process).summary[(slot / 4096) as usize];
        let mark = 1 << (slot / 64 % 64);
        if summary.load(Ordering::Relaxed) & mark == 0 {
            summary.fetch_or(mark, Ordering::SeqCst);
        }
        self.held(process, slot / 64).fetch_or(1 << (slot % 64), Ordering::SeqCst);
    }

    /// The slots that `process` holds.
    pub(crate) fn held_slots(&self, process: u32) -> impl Iterator<Item = u32> + '_ {
        self.held_words(process).flat_map(move |word| {
            let bits = self.held(process, word).load(Ordering::SeqCst);
            Bits(bits).map(move |bit| word * 64 + bit)
        })
    }

    /// The words of the process's bitmap that may not be zero.
    fn held_words(&self, process: u32) -> impl Iterator<Item = u32> + '_ {
        let words = self.shape().slot_words();
        self.held_set(process).summary.iter().zip(0u32..).flat_map(move |(summary, at)| {
            Bits(summary.load(Ordering::SeqCst)).map(move |bit| at * 64 + bit).filter(move |&word| word < words)
        })
    }

    /// Makes `process` hold nothing; what it held.
    pub(crate) fn take_held(&self, process: u32) -> Vec<u32> {
        let mut held = Vec::new();
        for word in self.held_words(process) {
            let bits = self.held(process, word).swap(0, Ordering::SeqCst);
            held.extend(Bits(bits).map(|bit| word * 64 + bit));
        }
        self.held_set(process).summary.iter().for_each(|word| word.store(0, Ordering::SeqCst));
        held
    }

    /// The processes that hold `slot`.
    pub(crate) fn holders(&self, slot: u32) -> impl Iterator<Item = u32> + '_ {
        let columns = self.slot(slot).holders.load(Ordering::SeqCst);
        let used = self.processes().used_of(columns);
        used.filter(move |&process| self.held(process, slot / 64).load(Ordering::SeqCst) & (1 << (slot % 64)) != 0)
    }
}
