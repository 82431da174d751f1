//! Kernel sockets for connections that `accept` takes from the stack.
//!
//! Each accepted connection has its own kernel socket under its number, so inode and cookie (fstat, /proc/PID/fd,
//! SO_COOKIE) name this connection alone, here and wherever the descriptor travels. Making and closing one costs 5 us,
//! so the socket of a closed connection serves a later one: until then a duplicate of it is parked at the top of the
//! numbers.
//!
//! ```text
//!   empty -- socket made and parked --> busy -- closed, unseen --> free -- accept --> busy
//!     ^------ seen, or given up ---------'                          '---- given up ----> empty
//! ```
//!
//! Promises: no two live connections have the same kernel socket. One is reused only if no other process can have it
//! and it is indistinguishable from a fresh one: this process has accepted and closed the connection, has not forked in
//! between, has not passed it on, has set nothing on the kernel's side and has not asked for its cookie. Parked numbers
//! are freed when the program finds none free. Does not do: keeping anything for a process that accepts nothing.

use crate::Posix;
use crate::channel::{Channel, State};
use crate::descriptions::{Description, Flag};
use crate::errno::{Answer, Errno};
use crate::fallback::{Fd, OnExec};
use crate::fd_table::{Entry, SocketRef};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

/// The spare kernel sockets of a process. Changed inside the fork gate only.
pub(crate) struct Spares {
    /// For IPv4 and for IPv6: turn << 33 | busy << 32 | number; 0: empty.
    places: [[AtomicU64; SPARES_MAX]; 2],
    /// Counts parked sockets, so that no two of them have the same word.
    turns: AtomicU32,
    /// Counts forks: a socket taken before the last fork is known elsewhere.
    forks: AtomicU32,
    /// Counts connections for which there was no free place.
    missed: AtomicU32,
    /// Maximum number of spares of a family; `UNKNOWN`: not determined yet.
    limit: AtomicU32,
    /// Lowest number for parked sockets.
    floor: AtomicI32,
}

/// A place and its expected busy word.
#[derive(Clone, Copy)]
struct Parked {
    inet6: bool,
    place: usize,
    word: u64,
}

/// A kernel socket for a connection.
#[derive(Clone, Copy)]
pub(crate) struct Own {
    pub(crate) fd: Fd,
    parked: Option<Parked>,
}

impl Spares {
    pub(crate) fn new() -> Spares {
        let places = || std::array::from_fn(|_| AtomicU64::new(0));
        let count = || AtomicU32::new(0);
        let (limit, floor) = (AtomicU32::new(UNKNOWN), AtomicI32::new(0));
        Spares { places: [places(), places()], turns: count(), forks: count(), missed: count(), limit, floor }
    }

    /// Takes a place with a word that `fits`, and replaces the word by `to` of it.
    fn change(&self, inet6: bool, fits: impl Fn(u64) -> bool, to: impl Fn(u64) -> u64) -> Option<Parked> {
        self.places[usize::from(inet6)].iter().enumerate().find_map(|(place, cell)| {
            let word = cell.load(Ordering::Relaxed);
            let changed = fits(word) && cell.compare_exchange(word, to(word), Ordering::AcqRel, Ordering::Relaxed).is_ok();
            changed.then_some(Parked { inet6, place, word: word | BUSY })
        })
    }

    /// Empties a place, preferably a free one.
    fn give_up(&self, inet6: bool) -> Option<Parked> {
        let is_free = |word: u64| word != 0 && word & BUSY == 0;
        self.change(inet6, is_free, |_| 0).or_else(|| self.change(inet6, |word| word != 0, |_| 0))
    }

    /// A description's mark of its parked socket: forks << 47 | turn << 16 | family << 8 | place + 1.
    fn mark(&self, parked: Parked) -> u64 {
        let forks = u64::from(self.forks.load(Ordering::Acquire) & FORKS);
        forks << 47 | (parked.word >> 33) << 16 | u64::from(parked.inet6) << 8 | (parked.place as u64 + 1)
    }

    /// The parked socket of a mark, if it is still parked.
    fn of_mark(&self, mark: u64) -> Option<Parked> {
        let (place, inet6) = ((mark as u8).checked_sub(1)? as usize, mark & 1 << 8 != 0);
        let word = self.places[usize::from(inet6)].get(place)?.load(Ordering::Acquire);
        let is_it = word & BUSY != 0 && word >> 33 == mark >> 16 & TURNS;
        is_it.then_some(Parked { inet6, place, word })
    }
}

impl Posix {
    /// A kernel socket for a connection, under the lowest free number.
    pub(crate) fn connection_descriptor(&self, inet6: bool, on_exec: OnExec) -> Answer<Own> {
        let own = match self.spare_descriptor(inet6, on_exec) {
            Some(own) => own,
            None => self.make_own(inet6, on_exec)?,
        };
        if self.table.fits(own.fd) {
            return Ok(own);
        }
        own.parked.into_iter().for_each(|parked| self.empty(parked));
        self.kernel.close(own.fd)?;
        Err(Errno::MFILE)
    }

    /// Takes a spare. `None`: there is none, or the only free number was its own.
    fn spare_descriptor(&self, inet6: bool, on_exec: OnExec) -> Option<Own> {
        let parked = self.spares.change(inet6, |word| word != 0 && word & BUSY == 0, |word| word | BUSY)?;
        let fd = self.kernel.duplicate(number(parked.word), 0, on_exec);
        if fd.is_err() {
            self.empty(parked);
        }
        Some(Own { fd: fd.ok()?, parked: Some(parked) })
    }

    fn make_own(&self, inet6: bool, on_exec: OnExec) -> Answer<Own> {
        let kind = libc::SOCK_STREAM | if on_exec == OnExec::Close { libc::SOCK_CLOEXEC } else { 0 };
        let make = || self.kernel.socket(domain(inet6), kind, 0);
        let fd = match make() {
            Err(Errno::MFILE) if self.yield_number() => make()?,
            answer => answer?,
        };
        Ok(Own { fd, parked: self.park_beside(fd, inet6) })
    }

    /// Parks a duplicate. If all places are busy, perhaps for long connections, one of these is evicted now and then.
    fn park_beside(&self, fd: Fd, inet6: bool) -> Option<Parked> {
        let limit = self.spare_limit() as usize;
        let mut places = self.spares.places[usize::from(inet6)].iter().take(limit);
        if places.all(|place| place.load(Ordering::Relaxed) != 0) {
            let missed = self.spares.missed.fetch_add(1, Ordering::Relaxed);
            if limit == 0 || !missed.is_multiple_of(MISSES_PER_EVICTION) {
                return None;
            }
            let place = (missed / MISSES_PER_EVICTION) as usize % limit;
            let word = self.spares.places[usize::from(inet6)][place].load(Ordering::Relaxed);
            self.empty(Parked { inet6, place, word });
        }
        let copy = self.kernel.duplicate(fd, self.spares.floor.load(Ordering::Relaxed), OnExec::Close).ok()?;
        self.table.set(copy, Entry::Internal);
        let turn = u64::from(self.spares.turns.fetch_add(1, Ordering::Relaxed)) & TURNS;
        let word = turn << 33 | BUSY | u64::from(copy.cast_unsigned());
        let cells = self.spares.places[usize::from(inet6)].iter().take(limit).enumerate();
        let mut empty = cells.filter(|(_, cell)| cell.compare_exchange(0, word, Ordering::AcqRel, Ordering::Relaxed).is_ok());
        match empty.next() {
            Some((place, _)) => Some(Parked { inet6, place, word }),
            None => {
                self.discard_internal(copy);
                None
            }
        }
    }

    fn empty(&self, parked: Parked) {
        let cell = &self.spares.places[usize::from(parked.inet6)][parked.place];
        if parked.word != 0 && cell.compare_exchange(parked.word, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            self.discard_internal(number(parked.word));
        }
    }

    /// Marks the connection's kernel socket as just made by `connection_descriptor` and known to this process alone.
    pub(crate) fn note_unseen(&self, description: &Description, own: Own) {
        let mark = own.parked.map_or(0, |parked| self.spares.mark(parked));
        description.unseen.store(mark, Ordering::Release);
    }

    /// Marks the connection's kernel socket as distinguishable from a fresh one, or known elsewhere.
    pub(crate) fn note_seen(&self, description: &Description) {
        let mark = description.unseen.swap(0, Ordering::AcqRel);
        // A child of vfork cannot close the parent's number; the place is reused eventually.
        if mark != 0 && !self.is_borrowed() {
            self.spares.of_mark(mark).into_iter().for_each(|parked| self.empty(parked));
        }
    }

    /// Frees the kernel socket of a connection that no process has any more, after its number was closed, if it is
    /// reusable.
    pub(crate) fn keep_spare(&self, description: &Description) {
        let mark = description.unseen.swap(0, Ordering::AcqRel);
        let Some(parked) = self.spares.of_mark(mark) else { return };
        if self.spares.mark(parked) != mark {
            return self.empty(parked);
        }
        let cell = &self.spares.places[usize::from(parked.inet6)][parked.place];
        // A different word belongs to another socket.
        cell.compare_exchange(parked.word, parked.word & !BUSY, Ordering::AcqRel, Ordering::Relaxed).ok();
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

    /// Frees a parked number for the program. Returns false if there is none.
    pub fn yield_number(&self) -> bool {
        let _inside = self.fork_gate.enter();
        let given = [false, true].into_iter().find_map(|inet6| self.spares.give_up(inet6));
        given.inspect(|parked| self.discard_internal(number(parked.word))).is_some()
    }

    /// Before a fork: present sockets will be in two processes.
    pub(crate) fn count_fork(&self) {
        self.spares.forks.fetch_add(1, Ordering::AcqRel);
        self.share_connections();
    }

    /// Returns true if this process has forked, or was forked.
    pub(crate) fn has_forked(&self) -> bool {
        self.spares.forks.load(Ordering::Acquire) != 0
    }

    /// In a child: drops the parent's spares.
    pub(crate) fn drop_spares(&self) {
        while self.yield_number() {}
    }

    /// Before a filter of system calls, which may forbid socket(2): makes spares if there is a listener for them.
    pub(crate) fn provide_spares(&self, channel: &dyn Channel) {
        let limit = self.spare_limit();
        let is_listener = |socket: &SocketRef| channel.view(*socket).is_some_and(|view| view.state == State::Listening);
        let Some(listener) = channel.held().into_iter().find(is_listener) else { return };
        let inet6 = self.descriptions.of(listener).is(Flag::INET6);
        let _inside = self.fork_gate.enter();
        for _ in 0..limit {
            let Ok(own) = self.make_own(inet6, OnExec::Close) else { return };
            let closed = self.kernel.close(own.fd);
            match (closed, own.parked) {
                (Ok(()), Some(parked)) => {
                    let cell = &self.spares.places[usize::from(inet6)][parked.place];
                    cell.store(parked.word & !BUSY, Ordering::Release);
                }
                _ => return,
            }
        }
    }
}

fn number(word: u64) -> Fd {
    (word as u32).cast_signed()
}

fn domain(inet6: bool) -> i32 {
    if inet6 { libc::AF_INET6 } else { libc::AF_INET }
}

/// Usual number of a server's simultaneous short connections; one spare costs the kernel two KiB.
const SPARES_MAX: usize = 32;
/// A spare takes a number, so a process with few numbers gets few spares.
const NUMBERS_PER_SPARE: u64 = 32;
const UNKNOWN: u32 = u32::MAX;
const MISSES_PER_EVICTION: u32 = 8;
const BUSY: u64 = 1 << 32;
const TURNS: u64 = (1 << 31) - 1;
const FORKS: u32 = (1 << 17) - 1;

#[cfg(test)]
mod tests;
