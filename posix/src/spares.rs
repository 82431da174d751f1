//! Kernel sockets for connections that `accept` takes from the stack.
//!
//! Each accepted connection has a kernel socket of its own under its number, so inode and cookie (fstat, /proc/PID/fd, SO_COOKIE) name
//! this connection alone, here and wherever the descriptor travels. To make one and to end it costs 5 us, so that of a connection that
//! has ended is kept for the next one: a *spare*, parked at the top of the numbers.
//!
//! Promises: no two connections that live at the same time have the same kernel socket. A socket becomes a spare only if no other
//! process can have it and nothing tells it from a fresh one: this process has accepted and closed the connection, has not forked in
//! between, has not passed it on, has set nothing on the kernel's side and has not asked for its cookie. Spares give way when numbers
//! run out. Does not do: keep spares for a process that accepts nothing.

use crate::Posix;
use crate::channel::{Channel, State};
use crate::descriptions::{Description, Flag};
use crate::errno::{Answer, Errno};
use crate::fallback::{Fd, Identity};
use crate::fd_table::{Entry, SocketRef};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

/// The spares of a process. Changed inside the fork gate only.
pub(crate) struct Spares {
    /// Of IPv4 and of IPv6: inode << 32 | number; 0: a free place.
    places: [[AtomicU64; SPARES_MAX]; 2],
    /// Counts forks: a socket made before the last one is known elsewhere.
    forks: AtomicU32,
    /// Spares of a family at most; `UNKNOWN`: not asked yet.
    limit: AtomicU32,
    /// Where they are parked.
    floor: AtomicI32,
}

/// A kernel socket and how to know it again.
#[derive(Clone, Copy)]
pub(crate) struct Own {
    pub(crate) fd: Fd,
    /// 0: not known.
    inode: u32,
}

impl Spares {
    pub(crate) fn new() -> Spares {
        let places = || std::array::from_fn(|_| AtomicU64::new(0));
        let (forks, limit) = (AtomicU32::new(0), AtomicU32::new(UNKNOWN));
        Spares { places: [places(), places()], forks, limit, floor: AtomicI32::new(0) }
    }

    fn take(&self, inet6: bool) -> Option<Own> {
        let taken = |place: &AtomicU64| {
            let word = place.load(Ordering::Relaxed);
            let taken = word != 0 && place.compare_exchange(word, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok();
            taken.then_some(Own { fd: word as u32 as Fd, inode: (word >> 32) as u32 })
        };
        self.places[usize::from(inet6)].iter().find_map(taken)
    }

    /// `false`: there is no place.
    fn put(&self, inet6: bool, limit: u32, spare: Own) -> bool {
        let word = u64::from(spare.inode) << 32 | u64::from(spare.fd.cast_unsigned());
        let mut places = self.places[usize::from(inet6)].iter().take(limit as usize);
        places.any(|place| place.compare_exchange(0, word, Ordering::AcqRel, Ordering::Relaxed).is_ok())
    }

    fn has_place(&self, inet6: bool, limit: u32) -> bool {
        self.places[usize::from(inet6)].iter().take(limit as usize).any(|place| place.load(Ordering::Relaxed) == 0)
    }

    /// What a description says of a kernel socket that is made now and that nobody else knows; never 0.
    fn mark(&self, inode: u32) -> u64 {
        u64::from(inode) << 32 | u64::from(self.forks.load(Ordering::Acquire) | 1 << 31)
    }
}

impl Posix {
    /// A kernel socket for a connection, under the lowest free number.
    pub(crate) fn connection_descriptor(&self, inet6: bool, close_on_exec: bool) -> Answer<Own> {
        let own = match self.spare_descriptor(inet6, close_on_exec) {
            Some(own) => own,
            None => self.make_own(inet6, close_on_exec)?,
        };
        if self.table.fits(own.fd) {
            return Ok(own);
        }
        self.kernel.close(own.fd)?;
        Err(Errno::MFILE)
    }

    fn make_own(&self, inet6: bool, close_on_exec: bool) -> Answer<Own> {
        let kind = libc::SOCK_STREAM | if close_on_exec { libc::SOCK_CLOEXEC } else { 0 };
        let make = || self.kernel.socket(domain(inet6), kind, 0);
        let fd = match make() {
            Err(Errno::MFILE) if self.yield_number() => make()?,
            answer => answer?,
        };
        Ok(Own { fd, inode: self.inode(fd).unwrap_or(0) })
    }

    /// `None`: there is no spare, or no number for it but its own, which is free now.
    fn spare_descriptor(&self, inet6: bool, close_on_exec: bool) -> Option<Own> {
        let spare = self.spares.take(inet6)?;
        let new = self.kernel.duplicate(spare.fd, 0, close_on_exec);
        self.discard_internal(spare.fd);
        Some(Own { fd: new.ok()?, inode: spare.inode })
    }

    /// The connection's kernel socket is as `connection_descriptor` has made it, and known to this process alone.
    pub(crate) fn note_unseen(&self, description: &Description, own: Own) {
        let mark = if own.inode == 0 { 0 } else { self.spares.mark(own.inode) };
        description.unseen.store(mark, Ordering::Release);
    }

    /// The number of a connection that no process has any more is about to be closed: keeps its kernel socket, if it may.
    pub(crate) fn keep_spare(&self, fd: Fd, socket: SocketRef) {
        let description = self.descriptions.of(socket);
        let (unseen, inet6) = (description.unseen.swap(0, Ordering::AcqRel), description.is(Flag::INET6));
        let (inode, limit) = ((unseen >> 32) as u32, self.spare_limit());
        if unseen == 0 || unseen != self.spares.mark(inode) || !self.spares.has_place(inet6, limit) {
            return;
        }
        // The program may have closed the number past this library; then it may be anything now. A filter may forbid to ask.
        if !self.waits.is_confined() && self.inode(fd) != Some(inode) {
            return;
        }
        let Ok(parked) = self.kernel.duplicate(fd, self.spares.floor.load(Ordering::Relaxed), true) else { return };
        self.table.set(parked, Entry::Internal);
        if !self.spares.put(inet6, limit, Own { fd: parked, inode }) {
            self.discard_internal(parked);
        }
    }

    /// Inodes of sockets are 32-bit numbers (fs/inode.c, get_next_ino).
    fn inode(&self, fd: Fd) -> Option<u32> {
        let identity = self.kernel.identity(fd).ok().filter(Identity::is_socket)?;
        u32::try_from(identity.inode).ok()
    }

    fn spare_limit(&self) -> u32 {
        match self.spares.limit.load(Ordering::Acquire) {
            UNKNOWN => {
                let limit = (self.kernel.descriptor_limit() / NUMBERS_PER_SPARE).min(SPARES_MAX as u64) as u32;
                self.spares.floor.store(self.internal_floor(), Ordering::Relaxed);
                self.spares.limit.store(limit, Ordering::Release);
                limit
            }
            limit => limit,
        }
    }

    /// No number is free for the program: gives up a spare. `false`: there is none.
    pub fn yield_number(&self) -> bool {
        let _inside = self.fork_gate.enter();
        let spare = self.spares.take(false).or_else(|| self.spares.take(true));
        spare.inspect(|spare| self.discard_internal(spare.fd)).is_some()
    }

    /// Before a fork: what there is now will be in two processes.
    pub(crate) fn count_fork(&self) {
        self.spares.forks.fetch_add(1, Ordering::AcqRel);
    }

    /// In a child: the spares are the parent's.
    pub(crate) fn drop_spares(&self) {
        while let Some(spare) = self.spares.take(false).or_else(|| self.spares.take(true)) {
            self.discard_internal(spare.fd);
        }
    }

    /// System calls are about to be filtered, and socket(2) may be among those that are forbidden: makes spares if there is a
    /// listener for them.
    pub(crate) fn provide_spares(&self, channel: &dyn Channel) {
        let limit = self.spare_limit();
        let is_listener = |socket: &SocketRef| channel.view(*socket).is_some_and(|view| view.state == State::Listening);
        let Some(listener) = channel.held().into_iter().find(is_listener) else { return };
        let inet6 = self.descriptions.of(listener).is(Flag::INET6);
        let _inside = self.fork_gate.enter();
        while self.spares.has_place(inet6, limit) {
            let Ok(fresh) = self.make_own(inet6, true) else { return };
            let spare = Own { fd: self.park(fresh.fd), inode: fresh.inode };
            if !self.spares.put(inet6, limit, spare) {
                return self.discard_internal(spare.fd);
            }
        }
    }
}

fn domain(inet6: bool) -> i32 {
    if inet6 { libc::AF_INET6 } else { libc::AF_INET }
}

/// As many as servers have short connections at once in common; one costs the kernel two KiB.
const SPARES_MAX: usize = 32;
/// A spare takes a number: where there are few, there are few spares.
const NUMBERS_PER_SPARE: u64 = 32;
const UNKNOWN: u32 = u32::MAX;

#[cfg(test)]
mod tests;
