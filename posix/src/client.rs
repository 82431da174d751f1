//! The real channel: `ringway_channel::Client` behind the trait `Channel`; one client for each worker of the
//! service.
//!
//! ```text
//!   SocketRef.index = slot in the worker's region << worker_bits | worker
//! ```
//! A socket belongs to one worker from its first request on. Opened connections are distributed over the workers
//! (`turn`). Datagram sockets, and connections from a port that the program has chosen, are the first worker's, so that
//! each such port has one owner; a listener has a slot at each worker (`members`). With one worker the index is the
//! slot.

mod convert;
mod invitation;
mod names;
mod pick_worker;
mod reuseport;

use crate::channel::{
    Channel, Context, ControlAnswer, Envelope, Handover, Place, Purpose, Received, Request, STATUS_FLAGS, Sleepers, SocketOption,
    State, Taking, Ticket, Workers,
};
use crate::channel::{Failure, TransferError, Urgent, UrgentError, View};
use crate::fallback::Fd;
use crate::fd_table::SocketRef;
pub use invitation::from_environment;

use convert::{ANSWER_BYTES, answer_of, operation_of, receive_error, send_error};
use ringway_channel as shm;
use ringway_channel::attach::{WakeFdKind, Way};
use ringway_shm::{Duration, PayloadMut};
use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// One attachment.
pub(crate) struct Attached {
    /// Indexed by worker.
    clients: Box<[shm::Client]>,
    worker_bits: u32,
    /// Makes a generation here unlike those of earlier services' sockets, which a thread may still hold.
    salt: u32,
    /// For each wait context, which is named by its number at the first worker: its numbers at all workers.
    contexts: Box<[AtomicU32]>,
    /// Counter for the worker of the next connection.
    turn: AtomicU32,
    /// True in a forked child that has no control connections of its own yet.
    must_reattach: AtomicBool,
}

impl Attached {
    /// `earlier`: services that this process was attached to before.
    pub(crate) fn new(clients: Vec<shm::Client>, earlier: u32) -> Attached {
        let contexts = if clients.len() > 1 { clients.len() * shm::CONTEXTS as usize } else { 0 };
        Attached {
            worker_bits: clients.len().next_power_of_two().trailing_zeros(),
            contexts: (0..contexts).map(|_| AtomicU32::new(0)).collect(),
            salt: if earlier == 0 { 0 } else { (clients[0].region().wrapping_mul(SPREAD) >> 32) as u32 },
            clients: clients.into(),
            turn: AtomicU32::new(0),
            must_reattach: AtomicBool::new(false),
        }
    }

    fn operation(&self, socket: SocketRef, operation: shm::Operation) {
        // Sequence 0: no answer is awaited. The next waiting thread notices a dead service.
        for (client, slot) in self.everywhere(socket) {
            client.submit(shm::Request { slot, sequence: 0, operation });
        }
    }

    /// The worker of the next connection.
    fn next_worker(&self) -> usize {
        match self.clients.len() {
            1 => 0,
            workers => {
                let turn = self.turn.fetch_add(1, Ordering::Relaxed);
                pick_worker::choose(turn, workers as u32, |worker| self.clients[worker as usize].busy()) as usize
            }
        }
    }

    /// The number of a wait context at a worker.
    fn context(&self, context: Context, worker: usize) -> shm::ContextIndex {
        match worker {
            0 => context.0.into(),
            worker => self.contexts[context.0 as usize * self.clients.len() + worker].load(Ordering::Acquire),
        }
    }
}

impl Channel for Attached {
    fn alive(&self) -> bool {
        self.clients.iter().all(|client| !client.known_dead())
    }

    fn confirm_death(&self) {
        for client in &self.clients {
            client.service_alive();
        }
    }

    fn control_descriptor(&self) -> Fd {
        self.clients[0].control_fd()
    }

    fn descriptors(&self) -> Vec<Fd> {
        self.clients.iter().flat_map(shm::Client::internal_fds).collect()
    }

    fn is_first_of_group(&self) -> bool {
        self.clients[0].process() == 0
    }

    fn retire(&self) {
        self.clients.iter().for_each(shm::Client::retire);
    }

    fn open(&self, place: Place) -> Option<SocketRef> {
        let worker = match place {
            Place::Any => self.next_worker(),
            Place::First => 0,
            Place::At(number) => number as usize % self.clients.len(),
            Place::Every => return self.open_everywhere(),
        };
        Some(self.socket(worker, self.clients[worker].open_slot()?))
    }

    fn view(&self, socket: SocketRef) -> Option<View> {
        let (client, named) = self.place(socket);
        let slot = client.is_current(named).then(|| client.slot(named.index))?;
        // Read before the values that they count: a change meanwhile is then one edge more, not one less.
        let (mut receive_sequence, send_sequence) = (slot.arrivals(), slot.releases());
        let (mut state, flags) = (slot.state(), slot.flags());
        if state == State::Connecting && flags.has(shm::Flags::HUNG_UP) {
            // The worker reports the failure, gives the port back, then reports the end of the attempt.
            state = State::Closed;
        }
        // If there is no space, `readiness` also asks the worker to report space.
        let writable = state == State::Connected && client.readiness(named).writable;
        let mut readable = if state == State::Listening { slot.unaccepted() } else { slot.unread() };
        if state == State::Listening {
            for (client, member) in self.members(socket) {
                receive_sequence = receive_sequence.wrapping_add(client.slot(member.index).arrivals());
                readable += client.slot(member.index).unaccepted();
            }
        }
        Some(View {
            state,
            readable: readable as usize,
            writable: if writable { slot.send_space().max(1) as usize } else { 0 },
            peer_closed: flags.has(shm::Flags::PEER_CLOSED),
            write_closed: flags.has(shm::Flags::WRITE_CLOSED),
            hung_up: flags.has(shm::Flags::HUNG_UP),
            is_opening: flags.has(shm::Flags::OPENING),
            urgent: slot.urgent().filter(|_| state != State::Listening).map(|urgent| Urgent {
                distance: urgent.distance as usize,
                fetchable: urgent.fetchable,
                in_line: slot.is_urgent_in_line(),
            }),
            failure: slot.error(),
            receive_sequence,
            send_sequence,
        })
    }

    fn nonblocking(&self, socket: SocketRef) -> bool {
        self.current(socket).is_some_and(|slot| slot.app_flags() & NONBLOCKING != 0)
    }

    fn set_nonblocking(&self, socket: SocketRef, on: bool) {
        if let Some(slot) = self.current(socket) {
            if on { slot.change_app_flags(NONBLOCKING, 0) } else { slot.change_app_flags(0, NONBLOCKING) }
        }
    }

    fn status_flags(&self, socket: SocketRef) -> i32 {
        let kept = self.current(socket).map_or(0, |slot| slot.app_flags());
        STATUS_FLAGS.iter().enumerate().filter(|(place, _)| kept & (NONBLOCKING << place) != 0).map(|(_, flag)| flag).sum()
    }

    fn set_status_flags(&self, socket: SocketRef, flags: i32) {
        let Some(slot) = self.current(socket) else { return };
        let all = (NONBLOCKING << STATUS_FLAGS.len()) - NONBLOCKING;
        let places = STATUS_FLAGS.iter().enumerate().filter(|(_, flag)| flags & **flag != 0);
        let set = places.fold(0, |set, (place, _)| set | NONBLOCKING << place);
        slot.change_app_flags(set, all & !set);
    }

    fn take_failure(&self, socket: SocketRef) -> Option<Failure> {
        self.current(socket)?.take_error()
    }

    fn put_failure_back(&self, socket: SocketRef, failure: Failure) {
        if let Some(slot) = self.current(socket) {
            slot.put_error_back(failure);
        }
    }

    fn addresses(&self, socket: SocketRef) -> Option<(SocketAddr, SocketAddr)> {
        let slot = self.current(socket)?;
        Some((slot.local(), slot.remote()))
    }

    fn unacknowledged(&self, socket: SocketRef) -> usize {
        self.current(socket).map_or(0, |slot| slot.unsent() as usize)
    }

    fn send(&self, socket: SocketRef, pieces: &[IoSlice<'_>]) -> Result<usize, TransferError> {
        let (client, slot) = self.place(socket);
        client.send(slot, pieces).map_err(send_error)
    }

    fn send_in_place(
        &self,
        socket: SocketRef,
        count: usize,
        fill: &mut dyn FnMut(PayloadMut<'_>) -> usize,
    ) -> Result<usize, TransferError> {
        let (client, slot) = self.place(socket);
        client.send_in_place(slot, count, fill).map_err(send_error)
    }

    fn send_urgent(&self, socket: SocketRef, pieces: &[IoSlice<'_>]) -> Result<usize, TransferError> {
        let (client, slot) = self.place(socket);
        client.send_urgent(slot, pieces).map_err(send_error)
    }

    fn receive_urgent(&self, socket: SocketRef, taking: Taking) -> Result<Option<u8>, UrgentError> {
        let (client, slot) = self.place(socket);
        match client.receive_urgent(slot, taking == Taking::Peek) {
            Ok(byte) => Ok(Some(byte)),
            Err(shm::UrgentError::Over) => Ok(None),
            Err(shm::UrgentError::Nothing) => Err(UrgentError::Nothing),
            Err(shm::UrgentError::WouldBlock) => Err(UrgentError::WouldBlock),
            Err(shm::UrgentError::Stale) => Err(UrgentError::NotConnected),
        }
    }

    fn set_urgent_in_line(&self, socket: SocketRef, on: bool) {
        if let Some(slot) = self.current(socket) {
            slot.set_urgent_in_line(on);
        }
    }

    fn set_owner(&self, socket: SocketRef, pid: u32) {
        if let Some(slot) = self.current(socket) {
            slot.set_owner(self.place(socket).0.number_outside(pid));
        }
    }

    fn owner(&self, socket: SocketRef) -> u32 {
        self.current(socket).map_or(0, |slot| self.place(socket).0.number_inside(slot.owner()))
    }

    fn receive(&self, socket: SocketRef, pieces: &mut [IoSliceMut<'_>], taking: Taking) -> Result<usize, TransferError> {
        let (client, slot) = self.place(socket);
        let received = match taking {
            Taking::Take => client.receive(slot, pieces),
            Taking::Peek => client.peek(slot, pieces),
        };
        received.map_err(receive_error)
    }

    fn discard(&self, socket: SocketRef, count: usize) -> Result<usize, TransferError> {
        let (client, slot) = self.place(socket);
        client.discard(slot, count).map_err(receive_error)
    }

    fn send_datagram(&self, socket: SocketRef, envelope: &Envelope, pieces: &[IoSlice<'_>]) -> Result<(), TransferError> {
        let (client, slot) = self.place(socket);
        client.send_datagram(slot, envelope, pieces).map_err(send_error)
    }

    fn receive_datagram(
        &self,
        socket: SocketRef,
        pieces: &mut [IoSliceMut<'_>],
        taking: Taking,
    ) -> Result<Received, TransferError> {
        let (client, slot) = self.place(socket);
        client.receive_datagram(slot, pieces, taking == Taking::Peek).map_err(receive_error)
    }

    fn next_datagram(&self, socket: SocketRef) -> Option<usize> {
        let (client, slot) = self.place(socket);
        client.next_datagram_len(slot)
    }

    fn is_served_by_several(&self, socket: SocketRef) -> bool {
        self.members(socket).next().is_some()
    }

    fn accept(&self, listener: SocketRef) -> Option<SocketRef> {
        let accepted = self.accept_anywhere(listener)?;
        if self.current(listener).is_some_and(shm::slot::SlotShared::is_urgent_in_line) {
            self.set_urgent_in_line(accepted, true);
        }
        Some(accepted)
    }

    fn show(&self, socket: SocketRef, purpose: Purpose, fd: Fd) -> bool {
        self.is_attached_itself() && self.everywhere(socket).all(|(client, slot)| client.show(slot, purpose, fd).is_ok())
    }

    fn hand_over(&self, socket: SocketRef, fd: Fd) -> bool {
        self.is_attached_itself() && self.hand_over_everywhere(socket, fd)
    }

    fn adopt(&self, way: Way, offers: &[(SocketRef, Fd)]) -> Option<Vec<bool>> {
        let (mut answers, mut is_wanted) = (vec![false; offers.len()], true);
        for client in self.clients.iter().filter(|_| self.is_attached_itself()) {
            let is_here = |(_, (socket, _)): &(usize, &(SocketRef, Fd))| std::ptr::eq(self.place(*socket).0, client);
            let here = offers.iter().enumerate().filter(is_here);
            let (numbers, here): (Vec<_>, Vec<_>) =
                here.map(|(number, &(socket, fd))| (number, (self.place(socket).1, fd))).unzip();
            let adopted = if here.is_empty() { Some(Vec::new()) } else { client.adopt(way, &here) };
            is_wanted &= adopted.is_some();
            numbers.into_iter().zip(adopted.unwrap_or_default()).for_each(|(number, is_adopted)| answers[number] = is_adopted);
        }
        (is_wanted || answers.contains(&true)).then_some(answers)
    }

    fn wishes(&self) -> u32 {
        self.clients.iter().fold(0, |sum, client| sum.wrapping_add(client.wishes()))
    }

    fn recalls(&self) -> u32 {
        self.clients.iter().fold(0, |sum, client| sum.wrapping_add(client.recalls()))
    }

    fn handover(&self, socket: SocketRef) -> Option<Handover> {
        Some(match self.current(socket)?.flags() {
            flags if flags.has(shm::Flags::EMPTIES) && self.view(socket)?.readable > 0 => Handover::Empties,
            flags if flags.has(shm::Flags::MOVED) => Handover::Moved,
            flags if flags.has(shm::Flags::WANTED) => Handover::Wanted,
            _ => Handover::Stays,
        })
    }

    fn leaves_first(&self, socket: SocketRef) -> bool {
        self.current(socket).is_some_and(|slot| {
            let is_first = slot.app_flags() & LEFT == 0;
            slot.change_app_flags(LEFT, 0);
            is_first
        })
    }

    fn settle(&self) {
        if self.is_attached_itself() {
            // A dead service holds nothing.
            self.clients.iter().for_each(|client| client.settle().unwrap_or_default());
        }
    }

    fn network(&self) -> Option<u64> {
        self.clients[0].network()
    }

    fn request(&self, socket: SocketRef, request: Request) -> Option<Ticket> {
        if let Request::Connect { local: Some(local), .. } = request {
            let (client, slot) = self.place(socket);
            client.set_bound(slot, local);
        }
        match request {
            Request::Listen { workers: Workers::First, .. } => self.ask_first(socket, operation_of(request)),
            _ => self.ask_everywhere(socket, operation_of(request)),
        }
    }

    fn answer(&self, ticket: Ticket, bytes: &mut [u8]) -> Option<ControlAnswer> {
        // The first worker's answer last: until then no other request for the socket can begin.
        let members = self.members_answer(&ticket)?;
        let mut record = [0; ANSWER_BYTES];
        let answer = match self.clients[ticket.worker as usize].completed(ticket.first, &mut record)? {
            shm::ControlResult::Answer(answer) => answer_of(answer),
            shm::ControlResult::Bytes(count) => {
                ControlAnswer::Bytes(ticket.form.convert(&record[..count.min(ANSWER_BYTES)], bytes))
            }
        };
        Some(if answer == ControlAnswer::Done { members } else { answer })
    }

    fn abandon(&self, ticket: Ticket) {
        for (client, member) in self.clients.iter().skip(1).zip(ticket.members) {
            member.into_iter().for_each(|member| client.abandon(member));
        }
        self.clients[ticket.worker as usize].abandon(ticket.first);
    }

    fn shutdown_write(&self, socket: SocketRef) {
        self.operation(socket, shm::Operation::Shutdown);
    }

    fn close(&self, socket: SocketRef, linger_s: Option<u16>) {
        // The chain begins at the first slot, which is therefore closed last.
        for (client, member) in self.members(socket) {
            client.close(member, linger_s);
        }
        let (client, slot) = self.place(socket);
        client.close(slot, linger_s);
    }

    fn set_option(&self, socket: SocketRef, option: SocketOption, value: u32) {
        self.operation(socket, shm::Operation::SetOption { option, value });
    }

    fn set_fast_open_keys(&self, socket: SocketRef, primary: [u8; 16], backup: Option<[u8; 16]>) {
        self.operation(socket, shm::Operation::FastOpenKey { key: primary, backup: false });
        if let Some(key) = backup {
            self.operation(socket, shm::Operation::FastOpenKey { key, backup: true });
        }
    }

    fn hold(&self, socket: SocketRef) {
        for (client, slot) in self.everywhere(socket) {
            client.hold(slot.index);
        }
    }

    fn pass(&self, socket: SocketRef) -> bool {
        // A listener of several workers has many slots.
        let (client, slot) = self.place(socket);
        self.members(socket).next().is_none() && client.pass(slot)
    }

    fn arrive(&self, socket: SocketRef) {
        let (client, slot) = self.place(socket);
        client.arrive(slot);
    }

    fn is_in_flight(&self, socket: SocketRef) -> bool {
        let (client, slot) = self.place(socket);
        client.is_in_flight(slot)
    }

    fn lose(&self, socket: SocketRef) {
        let (client, slot) = self.place(socket);
        client.lose(slot);
    }

    fn release(&self, socket: SocketRef) -> bool {
        let (client, slot) = self.place(socket);
        if !client.is_current(slot) {
            return false;
        }
        // The last holder of the first slot closes all of them.
        for (client, member) in self.members(socket) {
            client.release(member.index);
        }
        client.release(slot.index)
    }

    fn is_held_elsewhere(&self, socket: SocketRef) -> bool {
        let (client, slot) = self.place(socket);
        client.is_held_elsewhere(slot.index)
    }

    fn is_open(&self, socket: SocketRef) -> bool {
        let (client, slot) = self.place(socket);
        client.is_held(slot)
    }

    fn held(&self) -> Vec<SocketRef> {
        let held = |(worker, client): (usize, &shm::Client)| {
            let own = client.held_slots().filter(|slot| client.slot(slot.index).first().is_none());
            own.map(|slot| self.socket(worker, slot)).collect::<Vec<SocketRef>>()
        };
        self.clients.iter().enumerate().flat_map(held).collect()
    }

    fn set_inode(&self, socket: SocketRef, inode: u64) {
        self.current(socket).inspect(|slot| slot.set_inode(inode));
    }

    fn note_descriptor(&self, socket: SocketRef, fd: Fd) {
        self.known_as(socket, fd).inspect(|(slot, place)| slot.set_place(*place));
    }

    fn forget_descriptor(&self, socket: SocketRef, fd: Fd) -> bool {
        self.known_as(socket, fd).is_some_and(|(slot, place)| slot.forget_place(place))
    }

    fn note_confined(&self, socket: SocketRef) {
        self.current(socket).inspect(|slot| slot.change_app_flags(shm::CONFINED, 0));
    }

    fn find_inode(&self, inode: u64) -> Option<SocketRef> {
        let mut workers = self.clients.iter().enumerate();
        workers.find_map(|(worker, client)| Some(self.socket(worker, client.find_inode(inode)?)))
    }

    fn claim_context(&self, sleepers: Sleepers) -> Option<(Context, OwnedFd)> {
        if !self.is_attached_itself() {
            return None;
        }
        let (usage, kind) = match sleepers {
            Sleepers::One => (shm::Usage::OneThread, WakeFdKind::Epoll),
            Sleepers::Confined => (shm::Usage::OneThread, WakeFdKind::Socket),
            Sleepers::Several => (shm::Usage::Threads, WakeFdKind::Epoll),
        };
        let (first, wake_fd) = self.clients[0].open_context(usage, kind).ok()?;
        let named = Context(first as u16);
        for (worker, client) in self.clients.iter().enumerate().skip(1) {
            let Ok(context) = client.share_context(usage, wake_fd.key) else {
                for (before, client) in self.clients[..worker].iter().enumerate().rev() {
                    client.close_context(self.context(named, before));
                }
                return None;
            };
            self.contexts[first as usize * self.clients.len() + worker].store(context, Ordering::Release);
        }
        Some((named, wake_fd.fd))
    }

    fn release_context(&self, context: Context) {
        // The first worker's last: its number may be claimed again at once.
        for (worker, client) in self.clients.iter().enumerate().rev() {
            client.close_context(self.context(context, worker));
        }
    }

    fn watch(&self, socket: SocketRef, context: Context) {
        // A stale socket is ready for everything; its next user learns that.
        for (worker, slot) in self.places(socket) {
            self.clients[worker].watch(slot, self.context(context, worker));
        }
    }

    fn unwatch(&self, socket: SocketRef, context: Context) {
        for (worker, slot) in self.places(socket) {
            self.clients[worker].unwatch(slot, self.context(context, worker));
        }
    }

    fn arm(&self, context: Context) {
        for (worker, client) in self.clients.iter().enumerate() {
            client.arm(self.context(context, worker));
        }
    }

    fn disarm(&self, context: Context) {
        for (worker, client) in self.clients.iter().enumerate() {
            client.disarm(self.context(context, worker));
        }
    }

    fn spin_limit(&self) -> Duration {
        self.clients[0].spin_limit()
    }

    fn sleeps(&self) -> bool {
        self.clients.iter().all(|client| client.worker_sleeps())
    }

    fn has_event(&self, context: Context) -> bool {
        self.clients.iter().enumerate().any(|(worker, client)| client.has_event(self.context(context, worker)))
    }

    fn next_event(&self, context: Context) -> Option<SocketRef> {
        let mut workers = self.clients.iter().enumerate();
        workers.find_map(|(worker, client)| {
            let index = client.next_event(self.context(context, worker))?;
            Some(self.named(worker, index))
        })
    }

    fn before_fork(&self) {
        for client in &self.clients {
            client.before_fork();
        }
    }

    fn after_fork_in_parent(&self, child: Option<u32>) {
        self.clients.iter().for_each(|client| client.after_fork_in_parent(child));
    }

    fn before_borrowed_exec(&self) {
        self.clients.iter().for_each(|client| client.before_borrowed_exec());
    }

    fn after_fork_in_child(&self) -> bool {
        let numbered = self.clients.iter().filter(|client| client.after_fork_in_child()).count();
        self.must_reattach.store(true, Ordering::Release);
        numbered == self.clients.len()
    }
}

/// An odd number with bits everywhere, which makes a salt of an inode: processes that fork has parted have the same for a service.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
/// Bit of O_NONBLOCK, the first of `STATUS_FLAGS`, in the slot's application flags; the others follow.
const NONBLOCKING: u32 = 1;
/// The bit behind them: a process has given the kernel socket the rest of the state.
const LEFT: u32 = NONBLOCKING << STATUS_FLAGS.len();

#[cfg(test)]
mod tests;
