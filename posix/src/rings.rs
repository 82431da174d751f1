//! io_uring(7): requests that the kernel takes from a program's memory, past this library.
//!
//! `preload/src/ring.rs` reads what a program has put into a ring before the kernel does, and asks here what becomes of the
//! descriptors that a request names. A socket of ours is handed over; all of them are where the request names an epoll instance that
//! may watch them, and where a ring's requests cannot be read. A program that has named one socket names the others too: what it
//! opens from then on is the kernel's from the start.
//!
//! Promises: what the stack has accepted for a listener before is not lost: [`Posix::accept_for_ring`] takes it, or, where no request can be answered
//! for the kernel, it goes into the accept queue of the kernel's listener. Strict mode, in
//! which no socket may be the kernel's, has no rings. Does not do: rings that a program makes by an instruction of its own
//! (`cli/src/run/program.rs` finds such programs); datagrams that the stack has received and the program has not read.

use crate::Posix;
use crate::channel::{Handover, State};
use crate::errno::Answer;
use crate::fallback::{Fd, RawAddress};
use crate::fd_table::{Entry, SocketRef};
use crate::reasons::Fallback;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether this program's sockets go through rings.
#[derive(Default)]
pub(crate) struct Rings {
    carry: AtomicBool,
}

impl Rings {
    /// Returns true if the sockets that the program opens are the kernel's.
    pub(crate) fn carry_sockets(&self) -> bool {
        self.carry.load(Ordering::Relaxed)
    }
}

impl Posix {
    /// Returns true if the program may have a ring.
    pub fn allows_rings(&self) -> bool {
        if self.settings.strict {
            self.fall_back("io_uring_setup", &"is refused", Fallback::IoUring);
        }
        !self.settings.strict
    }

    /// Before the kernel gets a request that names `fd`.
    ///
    /// # Blocking
    /// Until the service has handed over what it names.
    pub fn before_ring_use(&self, fd: Fd) {
        match self.entry_of(fd) {
            Entry::Socket(socket) => {
                self.note_ring(&fd);
                self.leave_for_ring(socket);
            }
            Entry::Epoll(_) => self.leave_all_for_rings(&fd),
            Entry::None | Entry::Internal => {}
        }
    }

    /// Before a ring keeps `fd` for requests that name it by another number (IORING_REGISTER_FILES): as
    /// [`before_ring_use`](Posix::before_ring_use), also for a socket that is not the stack's yet.
    pub fn before_ring_keeps(&self, fd: Fd) {
        self.before_ring_use(fd);
        self.take_waiting_along(fd);
        let may_become_ours = self.table.lookup(fd) == Entry::None && !self.rings.carry_sockets();
        if may_become_ours && (self.is_tcp(fd) || self.is_udp(fd)) {
            self.note_ring(&fd);
        }
    }

    /// The kernel takes requests from a ring that the library cannot read before.
    ///
    /// # Blocking
    /// As [`before_ring_use`](Posix::before_ring_use).
    pub fn ring_is_unread(&self) {
        self.leave_all_for_rings(&"of which the requests are not seen");
    }

    /// accept4(2) of what the stack has accepted for a listener that leaves for a ring. `None`: nothing, and the kernel's listener
    /// is the only one.
    pub fn accept_for_ring(&self, fd: Fd, flags: i32) -> Option<Answer<(Fd, RawAddress)>> {
        let (channel, listener) = (self.attached()?, self.table.socket(fd)?);
        if self.has_accepted(fd) { self.accept_from_stack(channel, listener, flags) } else { None }
    }

    /// Returns true if the stack has accepted a connection that the program has not.
    pub fn has_accepted(&self, fd: Fd) -> bool {
        let view = self.attached().zip(self.table.socket(fd)).and_then(|(channel, socket)| channel.view(socket));
        view.is_some_and(|view| view.state == State::Listening && view.readable > 0)
    }

    fn leave_for_ring(&self, socket: SocketRef) {
        let Some(channel) = self.attached() else { return };
        // One that waits for the program to accept what it has is on its way already.
        if channel.handover(socket) != Some(Handover::Moved)
            && !self.hand_over(socket)
            && channel.handover(socket) != Some(Handover::Moved)
        {
            self.fall_back("io_uring_enter", &"gets a socket that cannot leave the stack", Fallback::IoUring);
        }
    }

    fn leave_all_for_rings(&self, what: &dyn std::fmt::Display) {
        self.note_ring(what);
        if self.is_outside_table() || !self.table.has_sockets() {
            return;
        }
        let mut numbers = Vec::new();
        self.table.for_each_in(0, Fd::MAX, |fd, _| numbers.push(fd));
        for fd in numbers {
            // All numbers of a socket leave with the first.
            if let Entry::Socket(socket) = self.entry_of(fd) {
                self.leave_for_ring(socket);
                self.take_waiting_along(fd);
            }
        }
    }

    /// What waits at a listener that is on its way to the kernel goes into the accept queue there: no request will be answered for the kernel.
    ///
    /// # Blocking
    /// As [`before_ring_use`](Posix::before_ring_use).
    pub fn take_waiting_along(&self, fd: Fd) {
        if let (Some(channel), Entry::Socket(socket)) = (self.attached(), self.table.lookup(fd))
            && self.waits_behind(channel, socket)
        {
            self.give_waiting(channel, socket);
            self.has_moved(channel, socket);
        }
    }

    /// Says it once.
    fn note_ring(&self, what: &dyn std::fmt::Display) {
        if self.is_outside_table() || self.rings.carry.swap(true, Ordering::Relaxed) {
            return;
        }
        self.fall_back("io_uring", what, Fallback::IoUring);
        if !self.settings.quiet {
            let process = self.kernel.process_id();
            self.kernel.say(&format!(
                "ringway: process {process} gives sockets to an io_uring: they and those it opens from now on are the kernel's"
            ));
        }
    }
}

#[cfg(test)]
mod tests;
