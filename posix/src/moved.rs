//! A socket that the kernel goes on with: handover as the program's process sees it (docs/handover.md).
//!
//! The service puts a connection, a listener's port or a datagram socket into the kernel socket that lies under the descriptor, and says
//! so in the slot. From then on the descriptor is the kernel's: its numbers leave the table, its watches move to the kernel's epoll
//! instances, what only this library knows of it goes to the kernel socket, and the hold ends. Each process that has the socket does this
//! for itself, when it next meets the slot: calls that carry bytes look only where they found nothing to do, all others look before.
//!
//! Promises: no call fails because of it, and none is repeated. The one that meets it ends with [`Errno::MOVED`], or with the bytes
//! that it has moved, and its caller makes the kernel's call. A fork sees all of it or nothing. A signal handler that
//! has interrupted the use of an epoll instance leaves the rest to the next call; the kernel's call is right all the same.
//! Does not do: the handover itself, which the service does; a child of `vfork`, which has only borrowed the table, does not change it.

use crate::Posix;
use crate::channel::{Channel, Handover, State};
use crate::descriptions::Flag;
use crate::errno::{Answer, Errno};
use crate::fallback::{Fd, OnExec};
use crate::fd_table::{Descriptor, Entry, SocketRef};
use crate::reasons::Fallback;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// What a process remembers of the sockets that leave the stack.
pub(crate) struct Leaving {
    /// Duplicates of kernel sockets that are on their way to the service; -1: none.
    copies: [AtomicI32; COPIES_MAX],
    /// Sockets that have left last. Their slots may end, and have another socket, while a thread still wakes up for them.
    left: [AtomicU64; LEFT_MAX],
    /// Number of sockets that have left.
    count: AtomicUsize,
    /// The wishes of the service's that were followed.
    wishes: AtomicU32,
    /// The same of requests for connections that come back.
    recalls: AtomicU32,
}

impl Leaving {
    pub(crate) fn new() -> Leaving {
        Leaving {
            copies: std::array::from_fn(|_| AtomicI32::new(-1)),
            left: std::array::from_fn(|_| AtomicU64::new(0)),
            count: AtomicUsize::new(0),
            wishes: AtomicU32::new(0),
            recalls: AtomicU32::new(0),
        }
    }

    fn keep_copy(&self, fd: Fd) -> Option<&AtomicI32> {
        self.copies.iter().find(|place| place.compare_exchange(-1, fd, Ordering::AcqRel, Ordering::Relaxed).is_ok())
    }

    fn note(&self, socket: SocketRef) {
        if !self.has(socket) {
            let place = self.count.fetch_add(1, Ordering::AcqRel) % LEFT_MAX;
            self.left[place].store(word(socket), Ordering::Release);
        }
    }

    fn has(&self, socket: SocketRef) -> bool {
        let used = self.count.load(Ordering::Acquire).min(LEFT_MAX);
        self.left[..used].iter().any(|left| left.load(Ordering::Acquire) == word(socket))
    }
}

impl Posix {
    /// The meaning of a descriptor number, for calls that do not carry bytes: a socket that the kernel goes on with is the kernel's.
    pub fn entry_of(&self, fd: Fd) -> Entry {
        match (self.table.lookup(fd), self.attached()) {
            (Entry::Socket(socket), Some(channel)) if self.has_moved(channel, socket) => Entry::None,
            (entry, _) => entry,
        }
    }

    /// The socket of ours behind a number; see [`entry_of`](Posix::entry_of).
    pub fn socket_of(&self, fd: Fd) -> Option<SocketRef> {
        match self.entry_of(fd) {
            Entry::Socket(socket) => Some(socket),
            _ => None,
        }
    }

    /// The result of a call on a socket of ours. `None`: the kernel has got the socket meanwhile, and its call decides.
    #[inline]
    pub fn settled<T>(&self, at: Descriptor, answer: Answer<T>) -> Option<Answer<T>> {
        match answer {
            Err(Errno::MOVED) => None,
            // Another thread may have ended the slot between the two looks of this one.
            Err(_) if self.has_left(at.socket) => None,
            answer => Some(answer),
        }
    }

    /// Returns true if this process has seen the socket leave.
    pub fn has_left(&self, socket: SocketRef) -> bool {
        self.descriptions.about(socket).is(Flag::LEFT) || self.leaving.has(socket)
    }

    /// Returns true if the kernel goes on with the socket, which then is the kernel's in this process too. Gives the service the kernel
    /// socket if it wants it.
    #[inline]
    pub(crate) fn has_moved(&self, channel: &dyn Channel, socket: SocketRef) -> bool {
        self.look_for_wishes(channel);
        match channel.handover(socket) {
            Some(Handover::Stays) if !self.is_left_behind(channel, socket) => false,
            _ => self.follow_handover(channel, socket),
        }
    }

    /// Returns true for a datagram socket of a dead service at which nothing waits: the kernel goes on with it. One that is connected would hear
    /// nothing otherwise, as its kernel socket is not watched.
    #[inline]
    pub(crate) fn is_left_behind(&self, channel: &dyn Channel, socket: SocketRef) -> bool {
        self.service_is_dead() && self.is_datagram(socket) && !self.is_strict() && !self.has_waiting(channel, socket)
    }

    /// Gives the service all sockets that it has begun to wish for, not only the one at hand: a connection in a pool may see no call for hours. No lock
    /// may be held.
    #[inline]
    pub(crate) fn look_for_wishes(&self, channel: &dyn Channel) {
        let wishes = channel.wishes();
        if self.leaving.wishes.load(Ordering::Relaxed) != wishes {
            self.follow_wishes(channel, wishes);
        }
    }

    #[cold]
    fn follow_wishes(&self, channel: &dyn Channel, wishes: u32) {
        if self.is_outside_table() {
            return;
        }
        self.leaving.wishes.store(wishes, Ordering::Relaxed);
        let recalls = channel.recalls();
        if self.leaving.recalls.swap(recalls, Ordering::Relaxed) != recalls {
            self.connections_are_recalled();
        }
        let mut wanted = Vec::new();
        self.table.for_each_in(0, Fd::MAX, |_, entry| match entry {
            Entry::Socket(socket) if matches!(channel.handover(socket), Some(Handover::Wanted | Handover::Empties)) => {
                wanted.push(socket)
            }
            _ => {}
        });
        for socket in wanted {
            self.has_moved(channel, socket);
        }
    }

    #[cold]
    fn follow_handover(&self, channel: &dyn Channel, socket: SocketRef) -> bool {
        match self.handover_of(channel, socket) {
            Handover::Stays => false,
            Handover::Wanted => !self.descriptions.of(socket).mark(Flag::ASKED) && self.hand_over(socket),
            Handover::Empties => {
                self.give_waiting(channel, socket);
                self.handover_of(channel, socket) == Handover::Moved && self.follow_handover(channel, socket)
            }
            Handover::Moved => {
                if channel.handover(socket) != Some(Handover::Moved) && self.is_left_behind(channel, socket) {
                    self.numbers_of(socket).iter().take(1).for_each(|fd| self.fall_back("surrender", fd, Fallback::NoAnswer));
                }
                self.leave_stack(channel, socket);
                true
            }
        }
    }

    /// What there is to do for the socket in this process.
    pub(crate) fn handover_of(&self, channel: &dyn Channel, socket: SocketRef) -> Handover {
        let description = self.descriptions.of(socket);
        match channel.handover(socket) {
            // Another thread was faster, and the slot has ended since.
            None if self.has_left(socket) => Handover::Moved,
            Some(Handover::Stays | Handover::Wanted) if self.is_left_behind(channel, socket) => Handover::Moved,
            // Connections that the stack has accepted come first, and datagrams that it has received.
            Some(Handover::Moved) if self.has_waiting(channel, socket) => Handover::Stays,
            Some(Handover::Wanted) if !description.knows(socket) || description.is(Flag::ASKED) => Handover::Stays,
            Some(Handover::Wanted | Handover::Empties) if !self.may_hand_over() => Handover::Stays,
            handover => handover.unwrap_or(Handover::Stays),
        }
    }

    /// Returns true if the program has not taken all that the stack has accepted for a listener, or received for a datagram socket.
    pub(crate) fn has_waiting(&self, channel: &dyn Channel, socket: SocketRef) -> bool {
        let may_wait = |state| state == State::Listening || self.is_datagram(socket);
        channel.view(socket).is_some_and(|view| view.readable > 0 && may_wait(view.state))
    }

    /// Has the kernel go on with the socket. Returns true if it does; the socket is the kernel's then. No lock may be held.
    ///
    /// # Blocking
    /// Until the service has answered.
    pub(crate) fn hand_over(&self, socket: SocketRef) -> bool {
        let Some(channel) = self.attached().filter(|_| self.may_hand_over()) else { return false };
        // A parked duplicate would keep the connection open behind the program's last close.
        self.note_seen(self.descriptions.of(socket));
        let moved = self.with_copy(socket, |copy| {
            self.make_reusable(copy, socket);
            channel.hand_over(socket, copy)
        });
        let Some(moved) = moved else { return false };
        // A refusal because another process was faster is none.
        (moved || channel.handover(socket) == Some(Handover::Moved)) && self.has_moved(channel, socket)
    }

    /// The kernel's accepted sockets have SO_REUSEADDR as their listener has, so that a server that starts anew can listen beside them. It
    /// matters only to listeners that have it too.
    pub(crate) fn make_reusable(&self, fd: Fd, socket: SocketRef) {
        if self.descriptions.of(socket).is(Flag::ACCEPTED) {
            let on = self.kernel.set_option(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, &1_i32.to_ne_bytes());
            on.unwrap_or_else(|_| self.fall_back("setsockopt", &fd, Fallback::OptionRefused));
        }
    }

    /// A filter of system calls may forbid what it takes. A child of vfork has neither a table nor a connection of its own.
    fn may_hand_over(&self) -> bool {
        !self.waits.is_confined() && !self.is_outside_table() && !self.service_is_dead()
    }

    /// Does something with a duplicate of the kernel socket, which the service may be given: it is the library's own. `None`: there is none.
    pub(crate) fn with_copy<T>(&self, socket: SocketRef, act: impl FnOnce(Fd) -> T) -> Option<T> {
        let (copy, place) = self.copy_of(socket)?;
        let done = act(copy);
        let _inside = self.fork_gate.enter();
        place.store(-1, Ordering::Release);
        self.discard_internal(copy);
        Some(done)
    }

    /// A duplicate of the kernel socket, which names it even if another thread closes the number meanwhile.
    fn copy_of(&self, socket: SocketRef) -> Option<(Fd, &AtomicI32)> {
        let _inside = self.fork_gate.enter();
        let fd = *self.numbers_of(socket).first()?;
        let copy = self.kernel.duplicate(fd, self.internal_floor(), OnExec::Close).ok()?;
        self.table.set(copy, Entry::Internal);
        // The entry goes before the number is closed.
        let place = if self.table.lookup(fd) == Entry::Socket(socket) { self.leaving.keep_copy(copy) } else { None };
        if place.is_none() {
            self.discard_internal(copy);
        }
        place.map(|place| (copy, place))
    }

    /// In a forked child: closes the duplicates that other threads of the parent were giving to the service.
    pub(crate) fn forget_copies(&self) {
        for place in &self.leaving.copies {
            let copy = place.swap(-1, Ordering::Relaxed);
            if copy >= 0 {
                self.discard_internal(copy);
            }
        }
    }

    /// Makes the socket the kernel's, under all its numbers in this process.
    pub(crate) fn leave_stack(&self, channel: &dyn Channel, socket: SocketRef) {
        if self.is_outside_table() {
            return;
        }
        let inside = self.fork_gate.enter();
        let numbers = self.numbers_of(socket);
        let Some(&fd) = numbers.first() else { return };
        self.descriptions.of(socket).mark(Flag::LEFT);
        self.leaving.note(socket);
        self.give_to_kernel(channel, fd, socket);
        self.note_away(channel, fd, socket);
        if !self.epoll_leave(socket, &numbers) {
            return;
        }
        self.note_seen(self.descriptions.of(socket));
        let entry = Entry::Socket(socket);
        let mut is_last = false;
        for number in numbers {
            self.unfollow(number, entry);
            if self.table.take_exactly(number, entry) {
                is_last |= self.drop_reference(entry);
            }
        }
        drop(inside);
        if is_last {
            self.epoll_forget(socket);
            // The slot ends; the connection does not. A dead service has none.
            if !self.service_is_dead() {
                channel.close(socket, None);
            }
        }
    }

    /// Gives the kernel socket what only this side knows of the socket. The first process that does so decides for all: what a program
    /// sets later it sets on the kernel socket.
    fn give_to_kernel(&self, channel: &dyn Channel, fd: Fd, socket: SocketRef) {
        let is_datagram = self.is_datagram(socket);
        if !is_datagram && !self.waits.is_confined() {
            // The service may have taken the socket without asking.
            self.make_reusable(fd, socket);
        }
        if self.waits.is_confined() && !is_datagram || !channel.leaves_first(socket) {
            return;
        }
        let owner = channel.owner(socket);
        if owner != 0 && self.kernel.set_owner(fd, owner).is_err() {
            self.fall_back("setsockopt", &fd, Fallback::OptionRefused);
        }
        self.give_back_status(channel, fd, socket);
        if is_datagram {
            self.hear_multicast_again(fd, socket);
            self.give_back_peer(channel, fd, socket);
        } else {
            self.give_options(fd, socket);
        }
        let may_return = is_datagram || channel.view(socket).is_some_and(|view| view.state == State::Listening);
        if may_return && channel.handover(socket) == Some(Handover::Moved) {
            self.keep_with_kernel(fd);
        }
    }

    /// All numbers of the socket in this process. The table is long, and most sockets have one number.
    pub(crate) fn numbers_of(&self, socket: SocketRef) -> Vec<Fd> {
        let description = self.descriptions.about(socket);
        let number = description.number.load(Ordering::Relaxed);
        match description.references() {
            0 => return Vec::new(),
            1 if self.table.lookup(number) == Entry::Socket(socket) => return vec![number],
            _ => {}
        }
        let mut numbers = Vec::new();
        self.table.for_each_in(0, Fd::MAX, |number, entry| {
            if entry == Entry::Socket(socket) {
                numbers.push(number);
            }
        });
        numbers
    }
}

/// A socket as a word that is not zero.
fn word(socket: SocketRef) -> u64 {
    u64::from(socket.index) << 32 | u64::from(socket.generation) | PRESENT
}

const PRESENT: u64 = 1 << 63;
/// Threads of a process that hand over at the same time; others are refused.
const COPIES_MAX: usize = 16;
/// More than slots can end between the ring that wakes a thread and its look.
const LEFT_MAX: usize = 64;

#[cfg(test)]
mod tests;
