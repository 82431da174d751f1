//! Numbers that a program makes of a kernel socket before the stack gets it: `connect`, `listen` and `bind` are made on one of them and concern all.
//!
//! Promises: a note costs a system call for each dup(2) of what is not the stack's; a socket that was never duplicated costs one load. Does not
//! do: numbers in other processes (fork between socket(2) and `connect`), and more than [`NOTED`] at a time; they go on naming the kernel's socket.

use crate::Posix;
use crate::fallback::{Fd, Identity};
use crate::fd_table::{Entry, SocketRef};
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

/// Numbers noted at a time; the oldest make room.
const NOTED: usize = 64;
const NONE: Fd = -1;

/// Numbers of kernel sockets with more than one.
pub(crate) struct Copies {
    numbers: [AtomicI32; NOTED],
    /// So many were noted.
    count: AtomicUsize,
}

impl Copies {
    pub(crate) fn new() -> Copies {
        Copies { numbers: [const { AtomicI32::new(NONE) }; NOTED], count: AtomicUsize::new(0) }
    }

    fn note(&self, fd: Fd) {
        if !self.noted().any(|(_, known)| known == fd) {
            let place = self.count.fetch_add(1, Ordering::Relaxed) % NOTED;
            self.numbers[place].store(fd, Ordering::Release);
        }
    }

    fn noted(&self) -> impl Iterator<Item = (&AtomicI32, Fd)> {
        let used = self.count.load(Ordering::Relaxed).min(NOTED);
        self.numbers[..used].iter().map(|place| (place, place.load(Ordering::Acquire))).filter(|(_, fd)| *fd != NONE)
    }
}

fn is_same(one: &Identity, other: &Identity) -> bool {
    (one.device, one.inode) == (other.device, other.inode)
}

impl Posix {
    /// After dup(2) or the like of a number that is not a socket of ours: one may become of both.
    pub fn note_copy(&self, old: Fd, new: Fd) {
        // A filter of system calls may forbid the question.
        if self.waits.is_confined() {
            return;
        }
        let protocol = self.kernel_number(new, libc::SOL_SOCKET, libc::SO_PROTOCOL);
        if matches!(protocol, Some(libc::IPPROTO_TCP | libc::IPPROTO_UDP)) && !self.is_outside_table() {
            self.copies.note(old);
            self.copies.note(new);
        }
    }

    /// Makes kernel socket `fd`, under all its numbers in this process, this socket of the stack.
    pub(crate) fn name_all_numbers(&self, fd: Fd, socket: SocketRef) {
        self.name_number(fd, socket);
        self.epoll_adopt(fd, socket);
        let Some(identity) = self.copies.noted().next().and_then(|_| self.kernel.identity(fd).ok()) else { return };
        for (place, number) in self.copies.noted() {
            if number == fd || self.table.lookup(number) != Entry::None {
                continue;
            }
            match self.kernel.identity(number) {
                Ok(other) if is_same(&other, &identity) && self.name_copy(number, socket, &identity) => {
                    self.epoll_adopt(number, socket);
                }
                Ok(other) if other.is_socket() => continue,
                _ => {}
            }
            place.compare_exchange(number, NONE, Ordering::AcqRel, Ordering::Relaxed).ok();
        }
        self.descriptions.of(socket).number.store(fd, Ordering::Relaxed);
    }

    fn name_copy(&self, number: Fd, socket: SocketRef, identity: &Identity) -> bool {
        let _inside = self.fork_gate.enter();
        if !self.table.fits(number) || !self.descriptions.of(socket).refer_again() {
            return false;
        }
        self.set_socket(number, socket);
        // Another thread may have closed it before, and the kernel may have handed it out again: what is made there later meets the entry (`forget_stale`).
        let is_it = self.kernel.identity(number).is_ok_and(|other| is_same(&other, identity));
        if !is_it && self.table.take_exactly(number, Entry::Socket(socket)) {
            self.drop_reference(Entry::Socket(socket));
        }
        is_it
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_numbers_are_noted_once_each() {
        let copies = Copies::new();
        assert_eq!(copies.noted().count(), 0);
        for fd in [3, 4, 3, 4] {
            copies.note(fd);
        }
        assert_eq!(copies.noted().map(|(_, fd)| fd).collect::<Vec<_>>(), [3, 4]);
        (100..100 + NOTED as Fd).for_each(|fd| copies.note(fd));
        let noted: Vec<Fd> = copies.noted().map(|(_, fd)| fd).collect();
        assert!(noted.len() == NOTED && noted.iter().all(|fd| *fd >= 100), "{noted:?}");
    }
}
