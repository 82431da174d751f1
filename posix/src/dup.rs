//! The life of descriptors: dup, dup2, dup3, F_DUPFD, close, close_range; the last one closes the socket.

use crate::Posix;
use crate::apart::is_apart;
use crate::blocking::Wait;
use crate::errno::{Answer, Errno};
use crate::fallback::{Fd, OnExec};
use crate::fd_table::{Entry, SocketRef};
use ringway_shm::Duration;
use std::sync::atomic::Ordering;

impl Posix {
    /// dup(2) and F_DUPFD of a socket of ours: the lowest free number not below `minimum`.
    pub fn duplicate(&self, fd: Fd, socket: SocketRef, minimum: Fd, on_exec: OnExec) -> Answer<Fd> {
        if self.is_borrowed() {
            self.name_in_borrowed_memory(fd, socket);
            return self.kernel.duplicate(fd, minimum, on_exec);
        }
        let _inside = self.fork_gate.enter();
        let new = self.kernel.duplicate(fd, minimum, on_exec)?;
        if !self.table.fits(new) {
            self.kernel.close(new)?;
            return Err(Errno::MFILE);
        }
        // Otherwise another thread has made it the kernel's meanwhile.
        if self.descriptions.of(socket).refer_again() {
            self.set_socket(new, socket);
        }
        Ok(new)
    }

    /// dup(2) and F_DUPFD of an epoll instance. `None`: an instance that is not known here.
    pub fn duplicate_epoll(&self, fd: Fd, minimum: Fd, on_exec: OnExec) -> Option<Answer<Fd>> {
        let Entry::Epoll(number) = self.table.lookup(fd) else { return None };
        let _inside = self.fork_gate.enter();
        Some(self.kernel.duplicate(fd, minimum, on_exec).inspect(|&new| {
            if self.table.fits(new) {
                self.epoll_duplicated(number);
                self.table.set(new, Entry::Epoll(number));
            }
        }))
    }

    /// dup2(2) and dup3(2) between different numbers. `None`: neither is ours.
    pub fn duplicate_to(&self, old: Fd, new: Fd, on_exec: OnExec) -> Option<Answer<Fd>> {
        let (from, to) = (self.entry_of(old), self.entry_of(new));
        if from == Entry::Internal || to == Entry::Internal {
            return Some(Err(Errno::BADF));
        }
        if from == Entry::None && to == Entry::None {
            return None;
        }
        if from != Entry::None && !self.table.fits(new) {
            return Some(Err(Errno::BADF));
        }
        if self.is_borrowed() {
            if let Entry::Socket(socket) = from {
                self.name_in_borrowed_memory(old, socket);
            }
            return Some(self.kernel.duplicate_to(old, new, on_exec));
        }
        Some(self.replace(from, old, new, on_exec))
    }

    fn replace(&self, from: Entry, old: Fd, new: Fd, on_exec: OnExec) -> Answer<Fd> {
        let inside = self.fork_gate.enter();
        let from = match from {
            // Another thread has made it the kernel's meanwhile.
            Entry::Socket(socket) if !self.descriptions.of(socket).refer_again() => Entry::None,
            Entry::Epoll(number) => {
                self.epoll_duplicated(number);
                from
            }
            Entry::Socket(_) | Entry::Internal | Entry::None => from,
        };
        let answer = self.kernel.duplicate_to(old, new, on_exec);
        let left = match answer {
            Ok(_) => {
                let before = self.table.set(new, from);
                self.forget_number(new, before);
                if let (Entry::Socket(socket), Some(channel)) = (from, self.attached()) {
                    channel.note_descriptor(socket, new);
                }
                self.drop_entry(before)
            }
            Err(_) => self.drop_entry(from),
        };
        drop(inside);
        self.end_socket(left);
        answer
    }

    /// close(2). `None`: not ours.
    pub fn close(&self, fd: Fd) -> Option<Answer<()>> {
        match self.entry_of(fd) {
            Entry::None => None,
            Entry::Internal => Some(Err(Errno::BADF)),
            // A child of vfork closes its own descriptor, not the parent's.
            _ if self.is_borrowed() => None,
            _ => Some(self.close_ours(fd)),
        }
    }

    fn close_ours(&self, fd: Fd) -> Answer<()> {
        let inside = self.fork_gate.enter();
        // Remove it from the table before the kernel can reuse the number.
        let entry = self.table.take(fd);
        self.unfollow(fd, entry);
        self.forget_number(fd, entry);
        let left = self.drop_entry(entry);
        let answer = self.kernel.close(fd);
        if let Some(Left { socket, last: true }) = left {
            self.keep_spare(self.descriptions.of(socket));
        }
        drop(inside);
        self.end_socket(left);
        answer
    }

    /// Drops our entry for a number that was closed behind our back (fclose), or that goes back to the kernel with its
    /// socket. The number itself is left as it is.
    pub fn let_go(&self, fd: Fd) {
        if matches!(self.table.lookup(fd), Entry::None | Entry::Internal) {
            return;
        }
        let inside = self.fork_gate.enter();
        let entry = self.table.take(fd);
        self.forget_number(fd, entry);
        let left = self.drop_entry(entry);
        drop(inside);
        self.end_socket(left);
    }

    /// Drops a stale entry: the kernel has reused this number, so the program has closed it past this library.
    pub fn forget_stale(&self, fd: Fd) {
        // A child of vfork closes its own descriptors; the table is the parent's.
        if !self.is_outside_table() {
            self.let_go(fd);
        }
    }

    /// close_range(2) that closes everything in the range except our own descriptors. `None`: nothing in the range is
    /// ours.
    pub fn close_range(
        &self,
        first: Fd,
        last: Fd,
        mut close_kernel_range: impl FnMut(Fd, Fd) -> Answer<()>,
    ) -> Option<Answer<()>> {
        if is_apart() {
            return None;
        }
        let mut ours = Vec::new();
        // A child of vfork closes its own descriptors and needs the library's until exec closes them: it may have to ask the service.
        let is_borrowed = self.is_borrowed();
        self.table.for_each_in(first, last, |fd, entry| {
            if entry == Entry::Internal || !is_borrowed {
                ours.push((fd, entry));
            }
        });
        if ours.is_empty() {
            return None;
        }
        let mut next = first;
        for (fd, entry) in ours {
            if next < fd
                && let Err(error) = close_kernel_range(next, fd - 1)
            {
                return Some(Err(error));
            }
            if entry != Entry::Internal
                && let Some(Err(error)) = self.close(fd)
            {
                return Some(Err(error));
            }
            next = fd.saturating_add(1);
        }
        Some(if next <= last { close_kernel_range(next, last) } else { Ok(()) })
    }

    /// Drops a reference that belongs to no descriptor.
    pub(crate) fn release_reference(&self, socket: SocketRef) {
        let inside = self.fork_gate.enter();
        let left = self.drop_entry(Entry::Socket(socket));
        drop(inside);
        self.end_socket(left);
    }

    /// Inside the gate: counts one descriptor less. Returns true if it was the last one of a socket in all processes.
    pub(crate) fn drop_reference(&self, entry: Entry) -> bool {
        self.drop_entry(entry).is_some_and(|left| left.last)
    }

    /// Inside the gate: counts one descriptor less. Returns the socket if this process has none of it any more.
    /// Inside the gate: `fd` is out of the table, and its reference is still counted. Another number is noted if this
    /// process has one.
    fn forget_number(&self, fd: Fd, entry: Entry) {
        let (Entry::Socket(socket), Some(channel)) = (entry, self.attached()) else { return };
        let has_others = || self.descriptions.of(socket).references() > 1;
        if channel.forget_descriptor(socket, fd)
            && has_others()
            && let Some(&other) = self.numbers_of(socket).first()
        {
            channel.note_descriptor(socket, other);
        }
    }

    fn drop_entry(&self, entry: Entry) -> Option<Left> {
        match entry {
            Entry::Socket(socket) if self.descriptions.of(socket).unrefer() => {
                let last = self.attached().is_some_and(|channel| channel.release(socket));
                if !last {
                    self.note_seen(self.descriptions.of(socket));
                }
                Some(Left { socket, last })
            }
            Entry::Epoll(number) => {
                self.epoll_released(number);
                None
            }
            _ => None,
        }
    }

    /// Outside the gate, because SO_LINGER may wait: closes the connection if no process has the socket any more.
    fn end_socket(&self, left: Option<Left>) {
        let (Some(Left { socket, last }), Some(channel)) = (left, self.attached()) else { return };
        if last {
            self.epoll_forget(socket);
        }
        // The number may live on with another meaning.
        self.note_seen(self.descriptions.of(socket));
        let linger = self.descriptions.of(socket).linger.load(Ordering::Acquire);
        if !last || self.service_is_dead() {
            return;
        }
        channel.close(socket, u16::try_from(linger).ok());
        if linger > 0 && !channel.nonblocking(socket) {
            let deadline = Some(self.kernel.now() + Duration::from_secs(linger.unsigned_abs().into()));
            let gone = || (channel.view(socket).is_none() || channel.unacknowledged(socket) == 0).then_some(Ok(()));
            // close(2) with SO_LINGER returns after the time, whether or not the data was acknowledged.
            self.block_on(Wait { socket, shadow: None, deadline }, gone).ok();
        }
    }
}

/// A socket of which this process has no descriptor any more.
struct Left {
    socket: SocketRef,
    /// No other process has one either.
    last: bool,
}

#[cfg(test)]
mod tests;
