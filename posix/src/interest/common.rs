//! The list of watched descriptors of an epoll instance that several processes have (fork): one list, as in the kernel.
//!
//! Promises: an edge and a one-shot event are taken by one process. No process waits for another one, so none can be
//! held up by a death. Every process of the list may write any word of it: what is read is checked, every loop has a
//! bound, and wrong words cost those processes wrong events at most.
//!
//! ```text
//!   header:  changes made | entries used so far | an entry that was freed lately | where to look for a free one |
//!            not 0: the kernel watches descriptors that a process has added
//!   entry:   state | socket | number | reported | events, data | events, data
//!   state:   incarnation 32 | version 16 | flags 16        one compare-and-swap decides each change
//!   reported: version 16 | read sequence 24 | write sequence 24
//! ```
//! An entry has two places for events and data. MOD writes the one that is not in use and makes it the used one together
//! with a new version, so a death in between changes nothing. A report stands for one version.

use super::{EDGE, ONESHOT, State, Watch, edge_bits, wanted};
use crate::channel::Taking;
use crate::fd_table::{Descriptor, SocketRef};
use ringway_shm::shared_words::SharedWords;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// The list; a forked child has the same one.
#[derive(Clone, Debug)]
pub(crate) struct CommonList {
    words: Arc<SharedWords>,
    capacity: u32,
}

/// An entry, and which of the watches that it had one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Number of the entry.
    pub(crate) index: u32,
    incarnation: u32,
    version: u16,
}

impl Place {
    /// No entry: the list belongs to this process alone.
    pub(crate) const NONE: Place = Place { index: u32::MAX, incarnation: 0, version: 0 };

    /// Returns true if both are the same watch, modified or not.
    pub(crate) fn is_same_watch(self, other: Place) -> bool {
        self.index == other.index && self.incarnation == other.incarnation
    }
}

/// Result of a look at a watch for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Nothing is due.
    Nothing,
    /// Other processes change the watch again and again: look later.
    Contended,
    /// The socket is not open any more in any process.
    Closed,
    /// An event for the caller.
    Event {
        /// EPOLL* bits.
        bits: u32,
        /// The program's word.
        data: u64,
        /// The event holds until the state changes: look again.
        again: bool,
    },
}

/// What a process has known of its watch before the list became common.
#[derive(Clone, Copy, Default)]
pub(crate) struct Known {
    /// The sequence numbers of the events that were reported last: read and write.
    pub(crate) reported: Option<(u32, u32)>,
    /// EPOLLONESHOT has been used.
    pub(crate) spent: bool,
}

impl CommonList {
    /// Makes a list with room for twice `count` watches, and for many in any case. `None`: no memory.
    pub(crate) fn new(count: usize) -> Option<CommonList> {
        let capacity = (count * 2).max(CAPACITY_MIN);
        let words = SharedWords::new(HEADER + capacity * ENTRY).ok()?;
        Some(CommonList { words: Arc::new(words), capacity: u32::try_from(capacity).ok()? })
    }

    /// Number of changes made so far, by all processes.
    pub(crate) fn changes(&self) -> u64 {
        self.words[CHANGES].load(SeqCst)
    }

    /// Notes a change, for other processes; returns the number of changes before it.
    fn announce(&self) -> u64 {
        self.words[CHANGES].fetch_add(1, SeqCst)
    }

    /// Notes that a process has added a descriptor that the kernel watches.
    pub(crate) fn note_kernel_files(&self) {
        self.words[KERNEL_FILES].store(1, SeqCst);
    }

    /// Returns true if a process has done so.
    pub(crate) fn has_kernel_files(&self) -> bool {
        self.words[KERNEL_FILES].load(SeqCst) != 0
    }

    /// Entries from here on were never used.
    pub(crate) fn end(&self) -> u32 {
        self.words[END].load(SeqCst).min(self.capacity.into()) as u32
    }

    /// Adds a watch. Returns it with the number of changes
    /// before. `None`: the list is full.
    pub(crate) fn add(
        &self,
        key: Descriptor,
        (events, data): (u32, u64),
        Known { reported, spent }: Known,
    ) -> Option<(Place, u64)> {
        let (index, claimed) = self.claim()?;
        let entry = self.entry(index);
        entry[SOCKET].store(u64::from(key.socket.index) << 32 | u64::from(key.socket.generation), SeqCst);
        entry[NUMBER].store(u64::from(key.fd as u32), SeqCst);
        entry[EVENTS].store(events.into(), SeqCst);
        entry[DATA].store(data, SeqCst);
        if let Some((read, write)) = reported {
            entry[REPORTED].store(report(claimed, read, write), SeqCst);
        }
        let state = claimed & !FLAGS | LIVE | if spent { SPENT } else { 0 };
        entry[STATE].store(state, SeqCst);
        Some((place(index, state), self.announce()))
    }

    /// EPOLL_CTL_MOD: the watch is as new. Returns its place and the number of changes before. `None`: another process
    /// has removed it.
    pub(crate) fn modify(&self, known: Place, (events, data): (u32, u64)) -> Option<(Place, u64)> {
        let entry = self.entry(known.index);
        for _ in 0..ATTEMPTS {
            let state = self.state_of(known)?;
            let unused = if state & SECOND == 0 { EVENTS + 2 } else { EVENTS };
            entry[unused].store(events.into(), SeqCst);
            entry[unused + 1].store(data, SeqCst);
            let version = (version_of(state).wrapping_add(1) as u64) << VERSION_AT;
            let changed = state & !(VERSION | SPENT) ^ SECOND | version;
            if entry[STATE].compare_exchange(state, changed, SeqCst, SeqCst).is_ok() {
                return Some((place(known.index, changed), self.announce()));
            }
        }
        None
    }

    /// Removes the watch. Returns the number of changes before; `None`: another process has removed it.
    pub(crate) fn remove(&self, known: Place) -> Option<u64> {
        self.take_out(known).map(|(_, before)| before)
    }

    /// Like [`remove`](Self::remove); also returns what the watch asked for.
    pub(crate) fn take_out(&self, known: Place) -> Option<(Watch, u64)> {
        let entry = self.entry(known.index);
        for _ in 0..ATTEMPTS {
            let state = self.state_of(known)?;
            let used = if state & SECOND == 0 { EVENTS } else { EVENTS + 2 };
            let (events, data) = (entry[used].load(SeqCst) as u32, entry[used + 1].load(SeqCst));
            if entry[STATE].compare_exchange(state, state & !FLAGS, SeqCst, SeqCst).is_ok() {
                self.words[FREED].store(known.index.into(), SeqCst);
                return Some((Watch { events, data, spent: state & SPENT != 0 }, self.announce()));
            }
        }
        None
    }

    /// The watch in an entry.
    pub(crate) fn read(&self, index: u32) -> Option<(Place, Descriptor)> {
        let entry = self.entry(index);
        let state = entry[STATE].load(SeqCst);
        if state & LIVE == 0 {
            return None;
        }
        let socket = entry[SOCKET].load(SeqCst);
        let socket = SocketRef { index: (socket >> 32) as u32, generation: socket as u32 };
        let key = Descriptor { fd: entry[NUMBER].load(SeqCst) as u32 as i32, socket };
        let here = place(index, state);
        self.state_of(here).map(|_| (here, key))
    }

    /// Takes the watch's event, if there is one. `state` returns the socket's readiness; `None`: it is not open any more.
    pub(crate) fn take(&self, known: Place, socket: impl FnMut() -> Option<State>) -> Taken {
        self.look(known, socket, Taking::Take)
    }

    /// Like [`take`](Self::take), but leaves the event.
    pub(crate) fn peek(&self, known: Place, socket: impl FnMut() -> Option<State>) -> Taken {
        self.look(known, socket, Taking::Peek)
    }

    fn look(&self, known: Place, mut socket: impl FnMut() -> Option<State>, taking: Taking) -> Taken {
        let entry = self.entry(known.index);
        for _ in 0..ATTEMPTS {
            let Some(state) = self.state_of(known) else { return Taken::Nothing };
            let used = if state & SECOND == 0 { EVENTS } else { EVENTS + 2 };
            let (events, data) = (entry[used].load(SeqCst) as u32, entry[used + 1].load(SeqCst));
            // Read before the readiness: what another process reports in between then fails the exchange below.
            let reported = entry[REPORTED].load(SeqCst);
            if entry[STATE].load(SeqCst) != state {
                continue;
            }
            let Some(ready) = socket() else { return Taken::Closed };
            if state & SPENT != 0 {
                return Taken::Nothing;
            }
            let bits = match events & EDGE {
                0 => wanted(events, ready.bits),
                _ => edge_bits(events, ready.bits, new_sides(state, reported, &ready)),
            };
            if bits == 0 {
                return Taken::Nothing;
            }
            let event = Taken::Event { bits, data, again: events & (EDGE | ONESHOT) == 0 };
            let swap = |word: usize, from, to| entry[word].compare_exchange(from, to, SeqCst, SeqCst).is_ok();
            let told = report(state, ready.read_sequence, ready.write_sequence);
            let is_ours = taking == Taking::Peek
                || (events & EDGE == 0 || swap(REPORTED, reported, told))
                    && (events & ONESHOT == 0 || swap(STATE, state, state | SPENT));
            if is_ours {
                return event;
            }
        }
        Taken::Contended
    }

    /// Takes a free entry; returns its state word.
    fn claim(&self) -> Option<(u32, u64)> {
        let end = self.end();
        if let Some(claimed) = self.try_claim(self.words[FREED].load(SeqCst).min(u32::MAX.into()) as u32, end) {
            return Some(claimed);
        }
        let from = self.words[CURSOR].fetch_add(PROBES.into(), SeqCst) as u32;
        let near = (0..PROBES.min(end)).find_map(|step| self.try_claim(from.wrapping_add(step) % end, end));
        if near.is_some() {
            return near;
        }
        let next = |end: u64| (end < self.capacity.into()).then_some(end + 1);
        if let Ok(fresh) = self.words[END].fetch_update(SeqCst, SeqCst, next) {
            return self.try_claim(fresh as u32, self.capacity);
        }
        (0..self.capacity).find_map(|index| self.try_claim(index, self.capacity))
    }

    fn try_claim(&self, index: u32, end: u32) -> Option<(u32, u64)> {
        if index >= end {
            return None;
        }
        let word = &self.entry(index)[STATE];
        let state = word.load(SeqCst);
        if state & (LIVE | CLAIMED) != 0 {
            return None;
        }
        let incarnation = u64::from(((state >> INCARNATION_AT) as u32).wrapping_add(1)) << INCARNATION_AT;
        let version = u64::from(version_of(state).wrapping_add(1)) << VERSION_AT;
        let claimed = incarnation | version | CLAIMED;
        word.compare_exchange(state, claimed, SeqCst, SeqCst).ok().map(|_| (index, claimed))
    }

    /// The state word of the watch; `None`: it is not there any more.
    fn state_of(&self, known: Place) -> Option<u64> {
        let state = self.entry(known.index)[STATE].load(SeqCst);
        (state & LIVE != 0 && place(known.index, state).is_same_watch(known)).then_some(state)
    }

    fn entry(&self, index: u32) -> &[AtomicU64] {
        &self.words[HEADER + index as usize * ENTRY..][..ENTRY]
    }
}

fn place(index: u32, state: u64) -> Place {
    Place { index, incarnation: (state >> INCARNATION_AT) as u32, version: version_of(state) }
}

fn version_of(state: u64) -> u16 {
    (state >> VERSION_AT) as u16
}

/// The word that says that these sequences were reported for the version in `state`.
fn report(state: u64, read: u32, write: u32) -> u64 {
    u64::from(version_of(state)) << 48 | u64::from(read & SEQUENCE) << 24 | u64::from(write & SEQUENCE)
}

/// Returns for the read and the write side: true if it has changed since the last report.
fn new_sides(state: u64, reported: u64, ready: &State) -> (bool, bool) {
    if (reported >> 48) as u16 != version_of(state) {
        return (true, true);
    }
    let differs = |at: u32, now: u32| (reported >> at) as u32 & SEQUENCE != now & SEQUENCE;
    (differs(24, ready.read_sequence), differs(0, ready.write_sequence))
}

// Words of the header.
const CHANGES: usize = 0;
const END: usize = 1;
const FREED: usize = 2;
const CURSOR: usize = 3;
const KERNEL_FILES: usize = 4;
const HEADER: usize = 8;

// Words of an entry.
const STATE: usize = 0;
const SOCKET: usize = 1;
const NUMBER: usize = 2;
const REPORTED: usize = 3;
const EVENTS: usize = 4;
const DATA: usize = 5;
const ENTRY: usize = 8;

const INCARNATION_AT: u32 = 32;
const VERSION_AT: u32 = 16;
const VERSION: u64 = 0xffff << VERSION_AT;
const FLAGS: u64 = 0xffff;
/// The entry is a watch.
const LIVE: u64 = 1;
/// A process writes a new watch. If it dies, the entry is lost until the list ends.
const CLAIMED: u64 = 2;
/// EPOLLONESHOT has fired.
const SPENT: u64 = 4;
/// The second place for events and data is in use.
const SECOND: u64 = 8;
const SEQUENCE: u32 = 0x00ff_ffff;

/// Watches for which there is room in any case.
const CAPACITY_MIN: usize = 1 << 16;
/// Attempts at a change that other processes may disturb.
const ATTEMPTS: u32 = 64;
/// Entries among which a free one is looked for before a new one is used.
const PROBES: u32 = 32;

#[cfg(test)]
mod tests;
