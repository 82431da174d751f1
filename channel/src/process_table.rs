//! Which processes belong to a region: numbers that the service gives out and applications reserve
//! for children.
//!
//! ```text
//!   entry: state 16 | parent 16 | pid 32      Free -> Attached        (attach)
//!                                             Free -> Reserved        (before fork, by the parent)
//!                                             Reserved -> Attached    (the child, or the image after exec, attaches)
//!                                             Attached -> Reserved    (exec: the connection is gone, the process lives)
//! ```
//! A process holds its sockets by its number for as long as its pid lives; the service watches the
//! pid, not the connection, and tells the worker (`Attachment::process_gone`), which frees the number.

use std::io;
use std::os::fd::BorrowedFd;

use super::ProcessIndex;
use super::attach::Peer;
use super::layout::{Layout, Map, PROCESSES, Shape};
use ringway_shm::region::Region;
use ringway_shm::sync::Ordering;

pub(crate) const RESERVED: u64 = 1 << 48;
pub(crate) const ATTACHED: u64 = 2 << 48;
const STATE: u64 = 0xFFFF << 48;

/// The service's view of a region's processes; a mapping of its own, so it may live in any thread.
pub struct ProcessTable {
    map: Map,
}

impl ProcessTable {
    /// Maps the region.
    ///
    /// # Errors
    /// What the kernel says, or a region that is not of `shape`.
    pub fn new(region: BorrowedFd<'_>, shape: Shape) -> io::Result<ProcessTable> {
        if !shape.is_valid() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the shape of the region is not valid"));
        }
        let layout = Layout::of(shape);
        Ok(ProcessTable { map: Map::new(Region::attach(region, layout.total)?, layout) })
    }

    /// A number for process `pid`, which asks to attach: the one that was reserved for it
    /// (`wanted`, else the reservation with its pid), else a free one.
    pub fn claim(&self, pid: u32, wanted: Option<ProcessIndex>) -> Option<ProcessIndex> {
        let entry = ATTACHED | u64::from(pid);
        let by_wish = wanted.filter(|&index| index < PROCESSES);
        let by_pid = self.map.processes().used().find(|&index| {
            let seen = self.map.process(index).entry.load(Ordering::SeqCst);
            seen & STATE == RESERVED && seen as u32 == pid
        });
        for index in by_wish.into_iter().chain(by_pid) {
            let word = &self.map.process(index).entry;
            let seen = word.load(Ordering::SeqCst);
            let swapped = || word.compare_exchange(seen, entry, Ordering::SeqCst, Ordering::SeqCst).is_ok();
            if seen & STATE == RESERVED && swapped() {
                return Some(index);
            }
        }
        allocate(&self.map, entry)
    }

    /// The number that was reserved under a name which is no process's number in the service's namespace.
    pub fn reserved_as(&self, name: u32) -> Option<ProcessIndex> {
        let named = |&(_, reserved): &(ProcessIndex, u32)| reserved == name && Peer::is_foreign(name);
        self.reserved().into_iter().find(named).map(|(index, _)| index)
    }

    /// The process's connection is gone but the process lives (exec): keep its number for its pid.
    pub fn keep_for(&self, index: ProcessIndex, pid: u32) {
        if index < PROCESSES {
            self.map.process(index).entry.store(RESERVED | u64::from(pid), Ordering::SeqCst);
        }
    }

    /// The numbers that are reserved for processes that have not attached yet, each with the process's
    /// pid; 0: the child is about to be made.
    pub fn reserved(&self) -> Vec<(ProcessIndex, u32)> {
        let entries = self.map.processes().used().map(|index| (index, self.map.process(index).entry.load(Ordering::SeqCst)));
        entries.filter(|(_, entry)| entry & STATE == RESERVED).map(|(index, entry)| (index, entry as u32)).collect()
    }

    /// How many numbers are in use.
    pub fn len(&self) -> usize {
        self.map.processes().used().count()
    }

    /// Returns true if no number is in use.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// As [`allocate`], where the group has fewer processes than the worker lets it have. Several that ask at once may all find
/// room; the service counts them when it hears of them.
pub(crate) fn allocate_within(map: &Map, entry: u64) -> Option<ProcessIndex> {
    let most = map.numbers().processes_max.0.load(Ordering::Relaxed) as usize;
    if map.processes().used().count() < most { allocate(map, entry) } else { None }
}

/// Takes a free number and writes its entry.
pub(crate) fn allocate(map: &Map, entry: u64) -> Option<ProcessIndex> {
    let index = map.processes().claim()?;
    map.process(index).entry.store(entry, Ordering::SeqCst);
    Some(index)
}
