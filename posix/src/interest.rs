//! The interest list of one epoll instance: the descriptors it watches, and those of them that may be ready (epoll(7)).
//!
//! Promises: the cost of a wait follows the sockets with events, never the sockets watched. Level, edge and one-shot
//! are decided here from two sequence numbers per socket, so that an edge is reported once and by one route. It does
//! not know the channel: its owner reports slots with events (`mark`) and returns a socket's state (`harvest`).
//!
//! Of an instance that fork shares, the watches and what was reported of them are in a [`common::CommonList`]; what is here is
//! then this process's way to them, and which of them it has to check. [`InterestList::follow`] takes what other
//! processes have changed.

pub(crate) mod common;
mod follow;

use common::{Known, Place, Taken};
use follow::Shared;
use std::collections::{HashMap, VecDeque};

use crate::fd_table::{Descriptor, SocketRef};

/// Readiness of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// EPOLL* bits that hold now, requested or not.
    pub(crate) bits: u32,
    /// Changes when more can be read: bytes, FIN, a connection, an error.
    pub(crate) read_sequence: u32,
    /// Changes when there is space to write again, or an error.
    pub(crate) write_sequence: u32,
}

#[derive(Clone, Debug)]
struct Interest {
    key: Descriptor,
    /// Requested events, with EPOLLET, EPOLLONESHOT.
    events: u32,
    data: u64,
    /// Sequence numbers at the last report; `None`: nothing reported since ADD or MOD.
    reported: Option<(u32, u32)>,
    /// EPOLLONESHOT has fired.
    spent: bool,
    queued: bool,
    /// Next interest of the same slot.
    next: u32,
    live: bool,
    /// Its entry of the common list. Events, data, reports and a spent one-shot are then there alone.
    place: Place,
}

/// The list; see the module documentation.
#[derive(Clone, Debug, Default)]
pub(crate) struct InterestList {
    interests: Vec<Interest>,
    free: Vec<u32>,
    by_key: HashMap<Descriptor, u32>,
    /// First interest of each slot that has one.
    by_slot: HashMap<u32, u32>,
    ready: VecDeque<u32>,
    common: Option<Shared>,
}

/// What a watch asks for, when it goes on elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Watch {
    /// Requested events, with EPOLLET, EPOLLONESHOT, EPOLLEXCLUSIVE.
    pub(crate) events: u32,
    /// The program's word.
    pub(crate) data: u64,
    /// EPOLLONESHOT has fired.
    pub(crate) spent: bool,
}

/// Reason why an operation on the list was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InterestError {
    /// EPOLL_CTL_ADD of a present descriptor.
    Exists,
    /// EPOLL_CTL_MOD or DEL of an absent one.
    Missing,
    /// EPOLLEXCLUSIVE in EPOLL_CTL_MOD, or with EPOLLONESHOT.
    Invalid,
    /// The common list has no room.
    Full,
}

impl InterestList {
    /// EPOLL_CTL_ADD. The next harvest checks the new interest. Returns true if it is the first one of its slot.
    ///
    /// # Errors
    /// `Exists`, `Invalid`, `Full`.
    pub(crate) fn add(&mut self, key: Descriptor, events: u32, data: u64) -> Result<bool, InterestError> {
        if events & EXCLUSIVE != 0 && events & !EXCLUSIVE_ALLOWED != 0 {
            return Err(InterestError::Invalid);
        }
        if self.by_key.contains_key(&key) {
            return Err(InterestError::Exists);
        }
        let mut place = Place::NONE;
        if let Some(common) = &mut self.common {
            let (added, before) = common.list.add(key, (events, data), Known::default()).ok_or(InterestError::Full)?;
            common.note(before);
            place = added;
        }
        Ok(self.insert(key, events, data, place))
    }

    /// Returns true if it is the first one of its slot.
    fn insert(&mut self, key: Descriptor, events: u32, data: u64, place: Place) -> bool {
        let first = self.by_slot.get(&key.socket.index).copied();
        let next = first.unwrap_or(NONE);
        let interest = Interest { key, events, data, reported: None, spent: false, queued: false, next, live: true, place };
        let index = match self.free.pop() {
            Some(index) => {
                self.interests[index as usize] = interest;
                index
            }
            None => {
                self.interests.push(interest);
                self.interests.len() as u32 - 1
            }
        };
        self.by_key.insert(key, index);
        self.by_slot.insert(key.socket.index, index);
        if let Some(common) = &mut self.common {
            common.set(place, index);
        }
        self.queue(index);
        first.is_none()
    }

    /// Returns true if nothing is watched.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// EPOLL_CTL_MOD: rearms a spent one-shot, and reports current readiness even if it was reported before.
    ///
    /// # Errors
    /// `Missing`, `Invalid`.
    pub(crate) fn modify(&mut self, key: Descriptor, events: u32, data: u64) -> Result<(), InterestError> {
        if events & EXCLUSIVE != 0 {
            return Err(InterestError::Invalid);
        }
        let index = *self.by_key.get(&key).ok_or(InterestError::Missing)?;
        let interest = &mut self.interests[index as usize];
        if let Some(common) = &mut self.common {
            let (place, before) = common.list.modify(interest.place, (events, data)).ok_or(InterestError::Missing)?;
            common.note(before);
            interest.place = place;
        }
        interest.events = events;
        interest.data = data;
        interest.spent = false;
        interest.reported = None;
        self.queue(index);
        Ok(())
    }

    /// EPOLL_CTL_DEL. Returns true if nothing else of its slot is watched here any more.
    ///
    /// # Errors
    /// `Missing`.
    pub(crate) fn remove(&mut self, key: Descriptor) -> Result<bool, InterestError> {
        let index = *self.by_key.get(&key).ok_or(InterestError::Missing)?;
        let mut removed = true;
        if let Some(common) = &mut self.common {
            let before = common.list.remove(self.interests[index as usize].place);
            removed = before.is_some();
            before.into_iter().for_each(|before| common.note(before));
        }
        let last = self.take_out(key);
        // Otherwise another process was faster.
        if removed { Ok(last) } else { Err(InterestError::Missing) }
    }

    /// Removes a watch that goes on elsewhere. `None`: another process has done so.
    pub(crate) fn take_over(&mut self, key: Descriptor) -> Option<Watch> {
        let interest = &self.interests[*self.by_key.get(&key)? as usize];
        let mut watch = Some(Watch { events: interest.events, data: interest.data, spent: interest.spent });
        if let Some(common) = &mut self.common {
            watch = common.list.take_out(interest.place).map(|(watch, before)| {
                common.note(before);
                watch
            });
        }
        self.take_out(key);
        watch
    }

    /// Removes the interest here alone. Returns true if nothing else of its slot is watched here any more.
    fn take_out(&mut self, key: Descriptor) -> bool {
        let Some(index) = self.by_key.remove(&key) else { return false };
        let place = self.interests[index as usize].place;
        if let Some(common) = &mut self.common
            && common.by_place.get(place.index as usize) == Some(&index)
        {
            common.set(place, NONE);
        }
        let next = self.interests[index as usize].next;
        let slot = key.socket.index;
        let head = *self.by_slot.get(&slot).expect("every interest is reachable from its slot");
        if head == index {
            if next == NONE {
                self.by_slot.remove(&slot);
            } else {
                self.by_slot.insert(slot, next);
            }
        } else {
            let mut at = head;
            while self.interests[at as usize].next != index {
                at = self.interests[at as usize].next;
            }
            self.interests[at as usize].next = next;
        }
        self.interests[index as usize].live = false;
        // The harvest that meets a queued index returns it to the free list.
        if !self.interests[index as usize].queued {
            self.free.push(index);
        }
        !self.by_slot.contains_key(&slot)
    }

    /// The keys that watch `slot`, whatever their number.
    pub(crate) fn keys_of_slot(&self, slot: u32) -> Vec<Descriptor> {
        let mut keys = Vec::new();
        let mut at = self.by_slot.get(&slot).copied().unwrap_or(NONE);
        while at != NONE {
            keys.push(self.interests[at as usize].key);
            at = self.interests[at as usize].next;
        }
        keys
    }

    /// All sockets watched here.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = SocketRef> + '_ {
        self.by_key.keys().map(|key| key.socket)
    }

    /// Makes the next harvest check `slot`, which had an event.
    pub(crate) fn mark(&mut self, slot: u32) {
        let mut at = self.by_slot.get(&slot).copied().unwrap_or(NONE);
        while at != NONE {
            self.queue(at);
            at = self.interests[at as usize].next;
        }
    }

    /// Makes the next harvest check everything (the service died, or a fork made the marks unreliable).
    pub(crate) fn mark_all(&mut self) {
        for index in 0..self.interests.len() as u32 {
            if self.interests[index as usize].live {
                self.queue(index);
            }
        }
    }

    /// Returns true if a harvest would check anything.
    pub(crate) fn has_candidates(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Reports up to `limit` ready descriptors as (events, data), fairly: a reported one that is still ready goes to
    /// the end of the queue. `state` returns a socket's current state; `None`: no process has it open, so it is forgotten.
    pub(crate) fn harvest(
        &mut self,
        limit: usize,
        mut state: impl FnMut(SocketRef) -> Option<State>,
        mut report: impl FnMut(u32, u64),
    ) -> usize {
        let mut reported = 0;
        for _ in 0..self.ready.len() {
            if reported == limit {
                break;
            }
            let index = self.ready.pop_front().expect("the loop is bounded by the length");
            let interest = &mut self.interests[index as usize];
            interest.queued = false;
            if !interest.live {
                self.free.push(index);
                continue;
            }
            let key = interest.key;
            let taken = match &self.common {
                None => interest.take(state(key.socket)),
                Some(common) => common.list.take(interest.place, || state(key.socket)),
            };
            match taken {
                Taken::Nothing => {}
                Taken::Contended => self.queue(index),
                Taken::Closed => self.forget(key),
                Taken::Event { bits, data, again } => {
                    report(bits, data);
                    reported += 1;
                    if again {
                        self.queue(index);
                    }
                }
            }
        }
        reported
    }

    /// Returns true if a harvest would report something; consumes no edge.
    pub(crate) fn is_ready(&mut self, mut state: impl FnMut(SocketRef) -> Option<State>) -> bool {
        while let Some(&index) = self.ready.front() {
            let interest = &mut self.interests[index as usize];
            let mut is_closed = false;
            if interest.live {
                let socket = interest.key.socket;
                let looked = match &self.common {
                    None => interest.clone().take(state(socket)),
                    Some(common) => common.list.peek(interest.place, || state(socket)),
                };
                if matches!(looked, Taken::Event { .. } | Taken::Contended) {
                    return true;
                }
                is_closed = looked == Taken::Closed;
            }
            let (key, live) = (interest.key, interest.live);
            interest.queued = false;
            self.ready.pop_front();
            if !live {
                self.free.push(index);
            } else if is_closed {
                self.forget(key);
            }
        }
        false
    }

    /// Forgets a socket that no process has open. Its slot ends with it, so there is nothing to unwatch.
    fn forget(&mut self, key: Descriptor) {
        if let Some(&index) = self.by_key.get(&key) {
            if let Some(common) = &mut self.common {
                common.list.remove(self.interests[index as usize].place).into_iter().for_each(|before| common.note(before));
            }
            self.take_out(key);
        }
    }

    fn queue(&mut self, index: u32) {
        let interest = &mut self.interests[index as usize];
        if !interest.queued {
            interest.queued = true;
            self.ready.push_back(index);
        }
    }
}

impl Interest {
    /// Takes the event that is due, if there is one; `None`: the socket is not open any more.
    fn take(&mut self, state: Option<State>) -> Taken {
        let Some(state) = state else { return Taken::Closed };
        let bits = self.due(state);
        if bits == 0 {
            return Taken::Nothing;
        }
        self.reported = Some((state.read_sequence, state.write_sequence));
        self.spent = self.events & ONESHOT != 0;
        Taken::Event { bits, data: self.data, again: self.events & (EDGE | ONESHOT) == 0 }
    }

    /// The bits to report now; 0: none.
    fn due(&self, state: State) -> u32 {
        if self.spent {
            return 0;
        }
        if self.events & EDGE == 0 {
            return wanted(self.events, state.bits);
        }
        let new_sides = match self.reported {
            Some((read, write)) => (read != state.read_sequence, write != state.write_sequence),
            None => (true, true),
        };
        edge_bits(self.events, state.bits, new_sides)
    }
}

/// Those of the bits that hold that are reported for these events.
fn wanted(events: u32, bits: u32) -> u32 {
    bits & (events | ALWAYS)
}

/// epoll(7): an edge is a change since the last report; after a change on one side everything that holds is reported.
fn edge_bits(events: u32, bits: u32, (read, write): (bool, bool)) -> u32 {
    let bits = wanted(events, bits);
    let read_edge = read && bits & (READ_SIDE | ALWAYS) != 0;
    let write_edge = write && bits & (WRITE_SIDE | ALWAYS) != 0;
    if read_edge || write_edge { bits } else { 0 }
}

const NONE: u32 = u32::MAX;
const EDGE: u32 = libc::EPOLLET as u32;
pub(crate) const ONESHOT: u32 = libc::EPOLLONESHOT as u32;
const EXCLUSIVE: u32 = libc::EPOLLEXCLUSIVE as u32;
/// epoll_ctl(2): events allowed together with EPOLLEXCLUSIVE.
const EXCLUSIVE_ALLOWED: u32 =
    (libc::EPOLLEXCLUSIVE | libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLERR | libc::EPOLLHUP | libc::EPOLLWAKEUP | libc::EPOLLET)
        as u32;
/// Reported whether requested or not.
const ALWAYS: u32 = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
const READ_SIDE: u32 = (libc::EPOLLIN | libc::EPOLLRDNORM | libc::EPOLLRDHUP | libc::EPOLLPRI) as u32;
const WRITE_SIDE: u32 = (libc::EPOLLOUT | libc::EPOLLWRNORM) as u32;

#[cfg(test)]
mod tests;
