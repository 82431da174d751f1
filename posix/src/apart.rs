//! Threads with a descriptor table of their own: close_range(2) with CLOSE_RANGE_UNSHARE and unshare(2) with
//! CLONE_FILES by one thread of several.
//!
//! From then on a number may name one file for that thread and another for the rest, to which this library's table
//! applies. So for such a thread nothing is ours: its calls are the kernel's, where a connection of the stack is an
//! unconnected socket, and what it closes stays open for the others. Does not do: recognizing threads made by such a
//! thread, which share its descriptors.

use crate::Posix;
use crate::errno::Answer;
use crate::fallback::Fd;
use crate::fd_table::Entry;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

/// There is, or was, such a thread in this process.
static ANY: AtomicBool = AtomicBool::new(false);

thread_local! {
    static APART: Cell<bool> = const { Cell::new(false) };
}

/// Returns true if this thread has its own table.
#[inline]
pub(crate) fn is_apart() -> bool {
    ANY.load(Ordering::Relaxed) && APART.get()
}

impl Posix {
    /// Notes that the calling thread has got descriptors of its own.
    pub fn note_unshared(&self) {
        // A child of vfork has had its own all along.
        if self.is_borrowed() {
            return;
        }
        // First, because reading /proc takes a number, which may be a socket's for the others.
        let was_apart = APART.replace(true);
        ANY.store(true, Ordering::Relaxed);
        APART.set(was_apart || self.kernel.has_other_threads());
    }

    /// close_range(2) with CLOSE_RANGE_UNSHARE. `None`: no other thread shares the descriptors, so nothing is unshared.
    pub fn close_range_apart(
        &self,
        first: Fd,
        last: Fd,
        mut close_kernel_range: impl FnMut(Fd, Fd) -> Answer<()>,
    ) -> Option<Answer<()>> {
        if self.is_borrowed() || !self.kernel.has_other_threads() {
            return None;
        }
        let mut internal = Vec::new();
        self.table.for_each_in(first, last, |fd, entry| {
            if entry == Entry::Internal {
                internal.push(fd);
            }
        });
        let mut next = first;
        for fd in internal {
            if next < fd
                && let Err(error) = close_kernel_range(next, fd - 1)
            {
                return Some(Err(error));
            }
            next = fd.saturating_add(1);
        }
        let answer = if next <= last { close_kernel_range(next, last) } else { Ok(()) };
        self.note_unshared();
        Some(answer)
    }

    /// In a child of fork: its thread's own table is the child's only table now. Nothing in it is ours.
    pub(crate) fn forget_apart(&self) {
        if is_apart() {
            self.table.for_each_in(0, Fd::MAX, |fd, _| {
                self.table.take(fd);
            });
            APART.set(false);
        }
    }
}

#[cfg(test)]
mod tests;
