//! A listener of a service with several workers: a slot at each of them, which are one socket to the program.
//!
//! ```text
//!   worker 0: first slot --member--> worker 1: slot --member--> worker 2: slot
//!                 ^------------ first ------|------------ first ------'
//! ```
//! The chain is in shared memory, so that every process that has the listener finds it. Connections wait at the worker
//! that has their flow; `accept` takes the one that has waited longest. Promises: the program's reference is the first
//! slot's, also in events; members are held, watched, changed and closed with it. If a worker has no slot left, the
//! listener is the first worker's alone.

use super::Attached;
use super::convert::answer_of;
use crate::channel::{AnswerForm, ControlAnswer, MEMBERS_MAX, Ticket};
use crate::fallback::Fd;
use crate::fd_table::SocketRef;
use ringway_channel as shm;

/// The slot is the first of a listener that has members.
const REUSEPORT_GROUP: u32 = 1 << 7;

impl Attached {
    /// Opens a slot at each worker, for a listener.
    pub(super) fn open_everywhere(&self) -> Option<SocketRef> {
        let first = self.clients[0].open_slot()?;
        let socket = self.socket(0, first);
        let others: Vec<shm::SlotRef> = self.clients[1..].iter().map_while(shm::Client::open_slot).collect();
        if others.len() + 1 < self.clients.len() {
            for (client, &slot) in self.clients[1..].iter().zip(&others) {
                client.release(slot.index);
                client.close(slot, None);
            }
            return Some(socket);
        }
        let mut before = self.clients[0].slot(first.index);
        for (client, slot) in self.clients[1..].iter().zip(others) {
            before.set_partner(slot.index);
            before = client.slot(slot.index);
            before.set_first(first.index);
        }
        if self.clients.len() > 1 {
            self.clients[0].slot(first.index).change_app_flags(REUSEPORT_GROUP, 0);
            self.operation(socket, shm::Operation::SetOption { option: shm::SocketOption::EveryWorker, value: 1 });
        }
        Some(socket)
    }

    /// The slots of a listener at the other workers; empty for any other socket.
    pub(super) fn members(&self, socket: SocketRef) -> impl Iterator<Item = (&shm::Client, shm::SlotRef)> {
        self.numbered_partners(socket).map(|(worker, slot)| (&self.clients[worker], slot))
    }

    /// The socket's slot and its members.
    pub(super) fn everywhere(&self, socket: SocketRef) -> impl Iterator<Item = (&shm::Client, shm::SlotRef)> {
        std::iter::once(self.place(socket)).chain(self.members(socket))
    }

    /// Like `everywhere`, with the workers' numbers.
    pub(super) fn places(&self, socket: SocketRef) -> impl Iterator<Item = (usize, shm::SlotRef)> {
        let (_, slot) = self.place(socket);
        std::iter::once((self.worker_of(socket), slot)).chain(self.numbered_partners(socket))
    }

    fn numbered_partners(&self, socket: SocketRef) -> impl Iterator<Item = (usize, shm::SlotRef)> {
        let first = if self.clients.len() > 1 { self.current(socket) } else { None };
        let mut before = first.filter(|slot| slot.app_flags() & REUSEPORT_GROUP != 0);
        self.clients.iter().enumerate().skip(1).map_while(move |(worker, client)| {
            // Another process with the region may have written anything there.
            let index = before?.member().filter(|&index| index < client.slots())?;
            before = Some(client.slot(index));
            Some((worker, shm::SlotRef { index, generation: client.slot(index).generation() }))
        })
    }

    /// The socket of an event about slot `index` of a worker.
    pub(super) fn named(&self, worker: usize, index: u32) -> SocketRef {
        let client = &self.clients[worker];
        let first = if worker == 0 { None } else { client.slot(index).first() };
        let (worker, client, index) = match first.filter(|&first| first < self.clients[0].slots()) {
            Some(first) => (0, &self.clients[0], first),
            None => (worker, client, index),
        };
        self.socket(worker, shm::SlotRef { index, generation: client.slot(index).generation() })
    }

    /// Accepts the connection that has waited longest, at any worker: programs may know the order of arrival.
    pub(super) fn accept_anywhere(&self, listener: SocketRef) -> Option<SocketRef> {
        let take = |(worker, slot): (usize, shm::SlotRef)| Some(self.socket(worker, self.clients[worker].accept(slot)?));
        if self.clients.len() == 1 {
            return self.places(listener).find_map(take);
        }
        let mut first: Option<(u32, usize, shm::SlotRef)> = None;
        for (worker, slot) in self.places(listener) {
            let Some(since) = self.clients[worker].waits_since(slot) else { continue };
            if first.is_none_or(|(before, ..)| since.wrapping_sub(before).cast_signed() < 0) {
                first = Some((since, worker, slot));
            }
        }
        // Another thread may have taken it meanwhile.
        first.and_then(|(_, worker, slot)| take((worker, slot))).or_else(|| self.places(listener).find_map(take))
    }

    /// Has the kernel go on with the socket. The workers of a listener let its port go together, when the last one is asked; the first slot says
    /// when all of them are done.
    pub(super) fn hand_over_everywhere(&self, socket: SocketRef, fd: Fd) -> bool {
        let ask = |(client, slot): (&shm::Client, shm::SlotRef)| client.hand_over(slot, fd).is_ok();
        let mut members = self.members(socket).peekable();
        self.everywhere(socket).all(ask) && (members.peek().is_none() || members.chain([self.place(socket)]).all(ask))
    }

    /// Makes a request to the socket's worker alone.
    pub(super) fn ask_first(&self, socket: SocketRef, operation: shm::Operation) -> Option<Ticket> {
        let (client, slot) = self.place(socket);
        let first = client.control(slot, operation)?;
        let form = AnswerForm::of(&operation);
        Some(Ticket { worker: self.worker_of(socket) as u8, first, form, members: [None; MEMBERS_MAX] })
    }

    /// Makes a request to the socket's worker, and to a listener's members if the answer of all of them counts.
    pub(super) fn ask_everywhere(&self, socket: SocketRef, operation: shm::Operation) -> Option<Ticket> {
        let mut ticket = self.ask_first(socket, operation)?;
        if matches!(operation, shm::Operation::Listen { .. } | shm::Operation::SetOption { .. }) {
            for ((client, member), place) in self.members(socket).zip(&mut ticket.members) {
                *place = client.control(member, operation);
            }
        }
        Some(ticket)
    }

    /// The members' common answer, once all of them have answered.
    pub(super) fn members_answer(&self, ticket: &Ticket) -> Option<ControlAnswer> {
        let mut answer = ControlAnswer::Done;
        for (client, member) in self.clients.iter().skip(1).zip(ticket.members) {
            let Some(member) = member else { break };
            match client.completed(member, &mut [])? {
                // The port is the first worker's alone, as the first worker knows.
                shm::ControlResult::Answer(shm::ControlAnswer::Failed(shm::Failure::InUse)) => {}
                shm::ControlResult::Answer(shm::ControlAnswer::Done) | shm::ControlResult::Bytes(_) => {}
                shm::ControlResult::Answer(other) => answer = answer_of(other),
            }
        }
        Some(answer)
    }
}

#[cfg(test)]
mod tests;
