//! The descriptor numbers that are ours, and their meaning.
//!
//! Promises: `lookup` takes no lock, makes no system call and never blocks, so that a call on another descriptor costs
//! two loads on its way to the kernel. All methods may be called from any thread and from a signal handler (only `set`
//! allocates a page of the table). The table holds numbers only; `descriptions` counts the descriptors of a socket.
//!
//! An entry becomes wrong only if the number is closed past this library, by a system call of the program's own or by
//! libc itself (`fclose` is seen). It is dropped when a call that makes descriptors returns the number again
//! (`preload/src/makers.rs`), before the program sees it. Asking the kernel for the inode on slow calls would not close
//! the class, because read and write ask for nothing; so it is asked only where a wrong result would be kept
//! (`spares`).
//!
//! ```text
//!   63      56 55            32 31             0
//!  +----------+----------------+----------------+
//!  |   kind   |     index      |   generation   |     0 = not ours
//!  +----------+----------------+----------------+
//! ```

use crate::apart::is_apart;
use crate::fallback::Fd;
use crate::first_use::{FirstUses, boxed};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A socket's slot in the channel, with the generation under which we know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SocketRef {
    /// Slot number in the region.
    pub index: u32,
    /// Generation of the slot.
    pub generation: u32,
}

/// A descriptor of the program, and the socket it names: as in Linux's epoll, the number *and* the open description.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Descriptor {
    /// The number.
    pub fd: Fd,
    /// The socket.
    pub socket: SocketRef,
}

/// Meaning of a descriptor number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Not ours: the kernel's.
    None,
    /// A socket (connection or listener) of the stack.
    Socket(SocketRef),
    /// One of this library's own descriptors; the program must not close it.
    Internal,
    /// An epoll instance with stack sockets in its interest list, by its number in the epoll module.
    Epoll(u32),
}

/// The table; one per process.
pub struct FdTable {
    pages: FirstUses<[AtomicU64; PAGE_ENTRIES], PAGES>,
    /// Entries of sockets.
    sockets: AtomicUsize,
}

impl Default for FdTable {
    fn default() -> Self {
        FdTable::new()
    }
}

impl FdTable {
    /// Creates an empty table; pages are allocated when needed.
    pub const fn new() -> FdTable {
        FdTable { pages: FirstUses::new(), sockets: AtomicUsize::new(0) }
    }

    /// The meaning of `fd`.
    #[inline]
    pub fn lookup(&self, fd: Fd) -> Entry {
        match self.cell(fd).map(|cell| decode(cell.load(Ordering::Acquire))) {
            Some(Entry::None) | None => Entry::None,
            // The thread has descriptors of its own.
            Some(_) if is_apart() => Entry::None,
            Some(entry) => entry,
        }
    }

    /// The socket behind `fd`, if it is one of ours.
    #[inline]
    pub fn socket(&self, fd: Fd) -> Option<SocketRef> {
        match self.lookup(fd) {
            Entry::Socket(socket) => Some(socket),
            _ => None,
        }
    }

    /// Sets the entry of `fd`; returns the earlier one. Numbers beyond the table stay the kernel's.
    pub fn set(&self, fd: Fd, entry: Entry) -> Entry {
        let Some((page, offset)) = place(fd) else { return Entry::None };
        let page = self.pages.get_or_init(page, || boxed(|| AtomicU64::new(0)));
        let earlier = decode(page[offset].swap(encode(entry), Ordering::AcqRel));
        if matches!(entry, Entry::Socket(_)) {
            self.sockets.fetch_add(1, Ordering::Relaxed);
        }
        self.removed(earlier)
    }

    /// Removes the entry of `fd` and returns it. The caller that gets the entry must release it.
    pub fn take(&self, fd: Fd) -> Entry {
        match self.cell(fd) {
            Some(cell) => self.removed(decode(cell.swap(0, Ordering::AcqRel))),
            None => Entry::None,
        }
    }

    /// Removes the entry of `fd` if it is this one. Returns true if it was; the caller must release it.
    pub fn take_exactly(&self, fd: Fd, entry: Entry) -> bool {
        let exchanged = |cell: &AtomicU64| cell.compare_exchange(encode(entry), 0, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let is_removed = self.cell(fd).is_some_and(exchanged);
        if is_removed {
            self.removed(entry);
        }
        is_removed
    }

    fn removed(&self, entry: Entry) -> Entry {
        if matches!(entry, Entry::Socket(_)) {
            self.sockets.fetch_sub(1, Ordering::Relaxed);
        }
        entry
    }

    /// Returns true if any number is a socket's. One load.
    #[inline]
    pub fn has_sockets(&self) -> bool {
        self.sockets.load(Ordering::Relaxed) > 0
    }

    /// Returns true if the table can hold this number.
    pub fn fits(&self, fd: Fd) -> bool {
        place(fd).is_some()
    }

    /// Calls `visit` for every descriptor in `first..=last` that is ours.
    pub fn for_each_in(&self, first: Fd, last: Fd, mut visit: impl FnMut(Fd, Entry)) {
        let (first, last) = (first.max(0) as usize, (last.max(-1) as i64).min(LIMIT as i64 - 1));
        for (page_index, page) in self.pages.iter() {
            let base = page_index * PAGE_ENTRIES;
            if base as i64 > last || base + PAGE_ENTRIES <= first {
                continue;
            }
            for (offset, cell) in page.iter().enumerate() {
                let fd = base + offset;
                let entry = decode(cell.load(Ordering::Acquire));
                if fd >= first && fd as i64 <= last && entry != Entry::None {
                    visit(fd as Fd, entry);
                }
            }
        }
    }

    #[inline]
    fn cell(&self, fd: Fd) -> Option<&AtomicU64> {
        let (page, offset) = place(fd)?;
        self.pages.get(page).map(|page| &page[offset])
    }
}

#[inline]
fn place(fd: Fd) -> Option<(usize, usize)> {
    let number = usize::try_from(fd).ok()?;
    (number < LIMIT).then_some((number / PAGE_ENTRIES, number % PAGE_ENTRIES))
}

fn encode(entry: Entry) -> u64 {
    match entry {
        Entry::None => 0,
        Entry::Socket(socket) => KIND_SOCKET | (u64::from(socket.index & INDEX_MASK) << 32) | u64::from(socket.generation),
        Entry::Internal => KIND_INTERNAL,
        Entry::Epoll(number) => KIND_EPOLL | u64::from(number),
    }
}

#[inline]
fn decode(word: u64) -> Entry {
    match word & KIND_MASK {
        KIND_SOCKET => Entry::Socket(SocketRef { index: (word >> 32) as u32 & INDEX_MASK, generation: word as u32 }),
        KIND_INTERNAL => Entry::Internal,
        KIND_EPOLL => Entry::Epoll(word as u32),
        _ => Entry::None,
    }
}

/// Descriptor numbers from here on are always the kernel's.
pub const LIMIT: usize = 1 << 20;

const PAGE_ENTRIES: usize = 4096;
const PAGES: usize = LIMIT / PAGE_ENTRIES;
const INDEX_MASK: u32 = 0x00ff_ffff;
const KIND_MASK: u64 = 0xff << 56;
const KIND_SOCKET: u64 = 1 << 56;
const KIND_INTERNAL: u64 = 2 << 56;
const KIND_EPOLL: u64 = 3 << 56;

#[cfg(test)]
mod tests;
