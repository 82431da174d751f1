//! A socket leaves the stack for the kernel socket under the program's descriptor. Read docs/handover.md first.
//!
//! ```text
//!   depart:  freeze the slot, export the connection, copy what lies in the slot    -> Departure
//!            requests of the program wait; the stack is silent for the flow
//!   arrived: the kernel goes on: the slot says MOVED; the hold ends a little later  -> Late
//!   returned: the kernel could not: the same connection goes on in the stack, and what waited is executed
//! ```
//! Promises: the bytes of the connection are in exactly one place at each moment: the slot and the stack keep what they have until
//! `arrived`, but for the connection itself, which `returned` brings back. Does not do: the kernel socket and steering; the
//! caller does both between the two calls, in a thread of its own, because the program can make it wait.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use ringway_channel::{ControlAnswer, Failure, Flags, NotWhole, Operation, ProcessDescriptor, Request, SlotIndex, SlotRef};
use ringway_shm::{Duration, Instant};
use ringway_stack::SocketAddress;
use ringway_stack::handover::{ConnectionImage, ExportError};

use super::Attachments;
use super::close::Closing;
use super::leaving::{Leaving, TAKE_AFTER};
use super::region::Region;
use super::socket::Kind;
use crate::command::{RegionId, Reply};
use crate::core::{Core, Ending};
use crate::guard::Guard;
use crate::handover::{Departure, Late, Left, Stays, Wanted};
use crate::metrics::Work;

/// A socket between `depart` and its end.
#[derive(Default)]
struct Moving {
    /// Requests that came meanwhile.
    waiting: Vec<Request>,
    /// The last descriptor was closed meanwhile.
    closed: Option<Closing>,
}

/// The sockets of a group that are on their way.
#[derive(Default)]
pub(super) struct Movings(HashMap<SlotIndex, Moving>);

impl Movings {
    /// Keeps a request for a socket that is on its way. Returns false if it is not on its way.
    #[inline]
    pub(super) fn keep(&mut self, request: &Request) -> bool {
        !self.0.is_empty() && self.put_off(request)
    }

    #[inline(never)]
    fn put_off(&mut self, request: &Request) -> bool {
        let Some(moving) = self.0.get_mut(&request.slot.index) else { return false };
        // Nothing can have been read or written, and an application has one request under way that is answered.
        let counts = !matches!(request.operation, Operation::Transmit | Operation::Consumed);
        if counts && moving.waiting.len() < WAITING_MAX {
            moving.waiting.push(*request);
        }
        true
    }

    /// Keeps the end of a socket that is on its way. Returns false if it is not.
    pub(super) fn close(&mut self, slot: SlotIndex, how: Closing) -> bool {
        self.0.get_mut(&slot).map(|moving| moving.closed = Some(how)).is_some()
    }

    /// Returns true if the socket is on its way.
    pub(super) fn has(&self, slot: SlotIndex) -> bool {
        self.0.contains_key(&slot)
    }
}

impl Region {
    /// Takes a connection out of the stack; `None`: the slot is a listener's, whose port is the kernel's now. `Err(Stays::Busy)`: a thread of the
    /// program is in a call on it, or handshakes of the listener are not over; try again soon.
    pub(super) fn depart(
        &mut self,
        slot: SlotRef,
        place: Option<ProcessDescriptor>,
        core: &mut Core,
    ) -> Result<Option<Departure>, Stays> {
        // What the program has asked for before counts.
        self.finish_requests(core);
        let index = slot.index;
        let socket = self.sockets.get(index).filter(|socket| socket.slot == slot).ok_or(Stays::Unknown)?;
        if socket.kind == Kind::Listener {
            return self.let_listener_go(index, core).map(|()| None);
        }
        let (Kind::Connection, Some(id)) = (socket.kind, socket.id) else { return Err(Stays::NotConnected) };
        if place.is_some() && self.place_of(index) != place {
            return Err(Stays::Unknown);
        }
        let socket = self.sockets.get(index).expect("it has just been seen");
        if socket.closing || self.movings.has(index) {
            return Err(Stays::Ending);
        }
        if self.channel.is_unaccepted(index) {
            return Err(Stays::NotAccepted);
        }
        if !self.channel.freeze(index) {
            return Err(Stays::Busy);
        }
        let departure = self.take_out(index, id, core);
        if departure.is_err() {
            self.channel.thaw(index);
        }
        departure.map(Some)
    }

    /// New connections of a listener's port are the kernel's listener's. What the stack has accepted, or is about to, is the program's to accept: it
    /// closes the slot when it has. Where other workers have the port and have not let it go yet, this is all for now: the caller asks them, and then
    /// again.
    fn let_listener_go(&mut self, slot: SlotIndex, core: &mut Core) -> Result<(), Stays> {
        let socket = self.sockets.get(slot).ok_or(Stays::Unknown)?;
        let ids = [socket.id, socket.listening.as_ref().and_then(|listening| listening.second)];
        let listening = socket.listening.as_mut().ok_or(Stays::Unknown)?;
        if listening.is_gone {
            return Ok(());
        }
        let (port, owned) = (listening.port, listening.owned.clone());
        if listening.left.is_none() {
            owned.iter().for_each(|ip| core.let_port_go(*ip, port));
        }
        let since = *listening.left.get_or_insert(core.now);
        if !owned.iter().all(|ip| core.ports.takes_nothing(*ip, port)) {
            listening.left = None;
            // Some of its addresses may have left.
            self.follow_rule(slot, core);
            return Err(Stays::Shared);
        }
        if owned.iter().any(|ip| !core.ports.is_kernels(*ip, port)) {
            return Ok(());
        }
        let has_more = ids.into_iter().flatten().any(|id| core.stack.readiness(id).readable);
        if (has_more || owned.iter().any(|ip| core.is_opening(*ip, port))) && core.now < since + HANDSHAKES_MAX {
            return Err(Stays::Busy);
        }
        listening.is_gone = true;
        core.metrics.add(Work::SocketsHandedOver, 1);
        self.channel.set_flags(slot, Flags::MOVED);
        self.channel.signal(slot);
        Ok(())
    }

    /// Goes on with a listener of which nothing may be asked any more: its program may have ended between two questions. Returns false when that is
    /// done.
    fn follow_listener(&mut self, slot: SlotRef, core: &mut Core) -> bool {
        let socket = self.sockets.get(slot.index).filter(|socket| socket.slot == slot);
        let listening = socket.and_then(|socket| socket.listening.as_ref()).filter(|listening| !listening.is_gone);
        let Some(since) = listening.and_then(|listening| listening.left) else { return false };
        // `Err`: another worker has not let the port go, and the listener serves it again.
        core.now < since + HANDSHAKES_MAX || (self.let_listener_go(slot.index, core).is_ok() && !self.is_gone(slot.index))
    }

    fn is_gone(&mut self, listener: SlotIndex) -> bool {
        let socket = self.sockets.get(listener);
        socket.and_then(|socket| socket.listening.as_ref()).is_some_and(|listening| listening.is_gone)
    }

    /// Ports have left or stay here after all.
    fn ports_have_settled(&mut self, core: &mut Core) {
        self.set_rooms(core);
        if self.guard != Guard::NOTHING {
            for slot in self.listeners.clone() {
                self.leave_listener(slot, core);
            }
        }
    }

    /// The slot is frozen.
    fn take_out(&mut self, slot: SlotIndex, id: ringway_stack::SocketId, core: &mut Core) -> Result<Departure, Stays> {
        let mut delivered = self.channel.copy_unread(slot).map_err(|error| match error {
            NotWhole::Urgent => Stays::Urgent,
            NotWhole::Spoilt => Stays::Spoilt,
        })?;
        self.tell_consumed(slot, core);
        let image = core.stack.export(core.now, id).map_err(|error| match error {
            ExportError::NotAccepted => Stays::NotAccepted,
            ExportError::Full => Stays::TooMany,
            _ => Stays::NotConnected,
        })?;
        let unsent = self.channel.copy_unsent(slot);
        let socket = self.sockets.get(slot).expect("the caller has looked");
        if let Some(leftover) = &socket.leftover {
            let start = delivered.len();
            delivered.resize(start + leftover.len(), 0);
            leftover.payload().copy_to(&mut delivered[start..]);
        }
        socket.id = None;
        let (shuts, options) = (socket.shutdown, socket.options_at_kernel());
        self.movings.0.insert(slot, Moving::default());
        Ok(Departure { image: Box::new(image), options, delivered, unsent, shuts })
    }

    /// The kernel goes on with the connection. Returns what the program has asked for meanwhile.
    fn arrived(&mut self, slot: SlotRef, core: &mut Core) -> Late {
        let mut late = Late::default();
        let Some(moving) = self.movings.0.remove(&slot.index) else { return late };
        core.metrics.add(Work::SocketsHandedOver, 1);
        let index = slot.index;
        self.note_bulk_gone(index, core);
        let socket = self.sockets.get(index).expect("it is kept until here");
        (socket.leftover, socket.moved) = (None, true);
        if let Some((ip, port)) = socket.port.take() {
            core.release_port(ip, port, Ending::Finished);
        }
        self.channel.empty(index);
        self.channel.set_flags(index, Flags::MOVED);
        self.channel.thaw(index);
        self.channel.signal(index);
        self.touch(index);
        let mut closed = moving.closed;
        for request in moving.waiting {
            let answer = match request.operation {
                Operation::Shutdown => {
                    late.shuts = true;
                    ControlAnswer::Done
                }
                Operation::Close { linger_s } => {
                    late.resets |= linger_s == Some(0);
                    closed = Some(Closing::Orderly);
                    ControlAnswer::Done
                }
                Operation::Abort => {
                    (late.resets, closed) = (true, Some(Closing::Reset));
                    ControlAnswer::Done
                }
                _ => ControlAnswer::Failed(Failure::Invalid),
            };
            self.channel.answer(&request, answer);
        }
        if closed.is_some() {
            self.forget(index, core);
        }
        late
    }

    /// The kernel cannot take the connection: it goes on here.
    pub(super) fn returned(&mut self, slot: SlotRef, image: &ConnectionImage, core: &mut Core) {
        let Some(moving) = self.movings.0.remove(&slot.index) else { return };
        core.metrics.add(Work::HandoversUndone, 1);
        let index = slot.index;
        let token = self.user_token(index);
        let imported = core.stack.import(core.now, image, token);
        let socket = self.sockets.get(index).expect("it is kept until here");
        socket.id = imported.ok();
        if let (Some(id), true) = (socket.id, socket.terms.shares()) {
            core.stack.set_options(core.now, id, socket.options);
        }
        self.channel.thaw(index);
        if imported.is_err() {
            // No frames are left for its data. Its hold must not outlive it.
            core.stack.release_hold(image.local, image.remote);
            self.failed(index, ringway_stack::SocketError::Aborted, core);
        }
        self.send(index, core);
        self.ready(index, core);
        for request in moving.waiting {
            self.execute_on_socket(&request, core);
        }
        if let Some(how) = moving.closed {
            self.close(index, how, core);
        }
    }

    /// Asks the holders of the sockets that `which` names for their kernel sockets. Returns how many sockets it asks for. Threads that wait for other
    /// sockets wake up too, as it may be that none waits for these.
    pub(super) fn want(&mut self, which: impl Fn(&Region, SlotIndex) -> bool) -> u32 {
        let mut count = 0;
        for slot in self.sockets.slots() {
            let socket = self.sockets.get(slot).expect("it has just been listed");
            if socket.kind == Kind::Connection && socket.id.is_some() && which(self, slot) {
                self.channel.set_flags(slot, Flags::WANTED);
                count += 1;
            }
        }
        if count > 0 {
            self.wish();
        }
        count
    }

    /// Has each process of the group look for the sockets that are wanted.
    pub(super) fn wish(&mut self) {
        self.channel.note_wishes();
        for slot in self.sockets.slots() {
            self.channel.signal(slot);
        }
    }

    /// Resets the connections that `which` names. Returns how many.
    pub(super) fn kill_all(&mut self, which: impl Fn(&Region, SlotIndex) -> bool, core: &mut Core) -> u32 {
        let mut count = 0;
        for slot in self.sockets.slots() {
            // One that is on its way to the kernel is no longer the stack's.
            let lives = self.sockets.get(slot).is_some_and(|socket| socket.kind == Kind::Connection && socket.id.is_some());
            if lives && which(self, slot) {
                self.kill(slot, core);
                count += 1;
            }
        }
        count
    }

    /// Asks the holders of one socket.
    pub(super) fn want_slot(&mut self, slot: SlotIndex) {
        self.channel.set_flags(slot, Flags::WANTED);
        self.channel.signal(slot);
    }
}

/// What the service asks of a worker in a handover.
pub(crate) enum HandoverCommand {
    Depart(RegionId, SlotRef, Option<ProcessDescriptor>, Reply<Result<Option<Departure>, Stays>>),
    Arrived(RegionId, SlotRef, Box<ConnectionImage>, Reply<Late>),
    Returned(RegionId, SlotRef, Box<ConnectionImage>),
    Want(Wanted, Reply<u32>),
    Recall(Reply<()>),
    Kill(Wanted, Reply<u32>),
    Leave { drain: Duration, limit: Duration, reply: Reply<Left> },
    LeavePorts(Reply<()>),
}

/// A connection that is to leave as soon as the program is in no call on it.
struct Awaited {
    region: RegionId,
    slot: SlotRef,
    /// Where its kernel socket was found, if the program has not given it.
    place: Option<ProcessDescriptor>,
    until: Instant,
    reply: Reply<Result<Option<Departure>, Stays>>,
}

/// The worker's side of handovers that take time.
#[derive(Default)]
pub(super) struct Departures {
    awaited: Vec<Awaited>,
    /// Flows that have arrived, until their last packets have come out of the devices' rings: those must find silence.
    held: VecDeque<(Instant, [SocketAddress; 2])>,
    /// Listeners that have left, or that wait for other workers.
    listeners: Vec<(RegionId, SlotRef)>,
    /// When the service is told what programs have not given.
    pub(super) take_at: Option<Instant>,
    pub(super) leaving: Option<Leaving>,
    /// Connections of the kernel's that are expected here; see `adoption`.
    pub(super) expected: u32,
    /// The next look at these.
    look_at: Option<Instant>,
}

impl Departures {
    /// When there is something to do.
    pub(super) fn due(&self) -> Option<Instant> {
        self.held.front().map(|&(at, _)| at).into_iter().chain(self.look_at).chain(self.take_at).min()
    }

    /// Forgets the flows whose time is over.
    fn forget(&mut self, core: &mut Core) {
        while let Some(&(_, [local, remote])) = self.held.front().filter(|(at, _)| *at <= core.now) {
            core.stack.release_hold(local, remote);
            self.held.pop_front();
        }
    }

    /// When what waits for programs is to be looked at again; `None`: nothing does.
    fn looks_at(&self, core: &Core) -> Option<Instant> {
        let leaving = self.leaving.as_ref().map(|leaving| if leaving.asks_at.is_some() { DRAINING } else { ASKING });
        let asks = !self.awaited.is_empty() || !self.listeners.is_empty() || core.ports.has_partings();
        asks.then_some(ASKING).or(leaving).map(|span| core.now + span)
    }
}

impl Attachments {
    /// Obeys a command.
    pub(crate) fn hand_over(&mut self, command: HandoverCommand, core: &mut Core) {
        match command {
            HandoverCommand::Depart(region, slot, place, reply) => {
                let until = core.now + BUSY_MAX;
                self.departures.awaited.push(Awaited { region, slot, place, until, reply });
                self.follow_departures(core);
            }
            HandoverCommand::Arrived(region, slot, image, reply) => {
                let late = self.region(region.0).map(|region| region.arrived(slot, core));
                self.departures.held.push_back((core.now + RING_MAX, [image.local, image.remote]));
                reply.answer(late.unwrap_or_default());
                self.follow_departures(core);
            }
            HandoverCommand::Returned(region, slot, image) => {
                if let Some(region) = self.region(region.0) {
                    region.returned(slot, &image, core);
                }
            }
            HandoverCommand::Want(wanted, reply) => {
                self.departures.take_at = Some(core.now + TAKE_AFTER);
                reply.answer(self.each(wanted, |region, which| region.want(which)));
            }
            HandoverCommand::Recall(reply) => {
                for number in self.live.clone() {
                    if let Some(region) = self.region(number) {
                        region.channel.note_recall();
                        region.wish();
                    }
                }
                reply.answer(());
            }
            HandoverCommand::Kill(wanted, reply) => reply.answer(self.each(wanted, |region, which| region.kill_all(which, core))),
            HandoverCommand::Leave { drain, limit, reply } => {
                for number in self.live.clone() {
                    if let Some(region) = self.region(number) {
                        region.leave(core);
                    }
                }
                self.departures.leaving = Some(Leaving::new(core.now, drain, limit, reply));
                self.follow_departures(core);
            }
            HandoverCommand::LeavePorts(reply) => {
                for number in self.live.clone() {
                    if let Some(region) = self.region(number) {
                        region.leave_ports(core);
                    }
                }
                reply.answer(());
            }
        }
        self.sweep();
        self.note_retries(core.now);
    }

    /// All sockets are to go home.
    pub(super) fn is_leaving(&self) -> bool {
        self.departures.leaving.is_some()
    }

    /// So many more connections of the kernel's are expected.
    pub(super) fn count_expected(&mut self, more: i32) {
        self.departures.expected = self.departures.expected.saturating_add_signed(more);
    }

    /// The stack's silence about a flow that is the kernel's ends when the devices have been emptied.
    pub(super) fn silence_ends(&mut self, ends: [SocketAddress; 2], core: &mut Core) {
        self.departures.held.push_back((core.now + RING_MAX, ends));
        self.departures.look_at = self.departures.looks_at(core);
    }

    /// Goes on with what waits for programs.
    pub(super) fn follow_departures(&mut self, core: &mut Core) {
        self.departures.forget(core);
        self.follow_ports(core);
        self.let_depart(core);
        self.follow_leaving(core);
        self.name_unmoved(core);
        self.departures.look_at = self.departures.looks_at(core);
    }

    /// Goes on with ports that several workers let go together.
    fn follow_ports(&mut self, core: &mut Core) {
        if core.ports.follow_partings(core.now) | std::mem::take(&mut core.rooms_are_stale) {
            for number in self.live.clone() {
                if let Some(region) = self.region(number) {
                    region.ports_have_settled(core);
                }
            }
        }
        let mut listeners = std::mem::take(&mut self.departures.listeners);
        listeners.retain(|&(region, slot)| self.region(region.0).is_some_and(|region| region.follow_listener(slot, core)));
        self.departures.listeners = listeners;
    }

    /// Takes out the connections whose programs are in no call on them any more.
    fn let_depart(&mut self, core: &mut Core) {
        for awaited in std::mem::take(&mut self.departures.awaited) {
            let Awaited { region, slot, place, until, .. } = awaited;
            let left = self.region(region.0).map_or(Err(Stays::Unknown), |region| region.depart(slot, place, core));
            match left {
                Err(Stays::Busy) if core.now < until => self.departures.awaited.push(awaited),
                left => {
                    if matches!(left, Ok(None)) && !self.departures.listeners.contains(&(region, slot)) {
                        self.departures.listeners.push((region, slot));
                    }
                    awaited.reply.answer(left);
                }
            }
        }
    }

    /// Number of requests that wait for the end of a socket's way.
    #[cfg(test)]
    pub(crate) fn waiting_requests(&mut self, id: RegionId, slot: SlotRef) -> usize {
        let region = self.region(id.0).expect("it lives");
        region.movings.0.get(&slot.index).map_or(0, |moving| moving.waiting.len())
    }

    /// Takes the locks of a slot, as a thread in a call does, or frees them.
    #[cfg(test)]
    pub(crate) fn hold_slot(&mut self, id: RegionId, slot: SlotRef, holds: bool) {
        let region = self.region(id.0).expect("it lives");
        if holds { assert!(region.channel.freeze(slot.index)) } else { region.channel.thaw(slot.index) }
    }

    /// Does a deed to the sockets that are meant, region by region. Returns the sum of what it returns.
    fn each(&mut self, wanted: Wanted, mut deed: impl FnMut(&mut Region, &dyn Fn(&Region, SlotIndex) -> bool) -> u32) -> u32 {
        let mut count = 0;
        for number in self.live.clone() {
            let Some(region) = self.region(number) else { continue };
            let of_process = match wanted {
                Wanted::Process(pid) => region.channel.held_by(pid),
                _ => Vec::new(),
            };
            count += deed(region, &|region, slot| {
                let shared = region.channel.slot(slot);
                let (local, remote): (SocketAddr, SocketAddr) = (shared.local(), shared.remote());
                match wanted {
                    Wanted::All => true,
                    Wanted::Process(_) => of_process.contains(&slot),
                    Wanted::Port(port) => [local.port(), remote.port()].contains(&port),
                    Wanted::Flow(one, other) => [(one, other), (other, one)].contains(&(local, remote)),
                }
            });
        }
        count
    }
}

/// Programs that were asked for a socket are looked at so often, and connections that may end by themselves.
const ASKING: Duration = Duration::from_millis(2);
const DRAINING: Duration = Duration::from_millis(50);
/// A packet that a device has taken for the stack comes out of its ring within this time.
const RING_MAX: Duration = Duration::from_secs(1);
/// Requests that wait for the end of one socket's way; those of an application that makes more are lost.
const WAITING_MAX: usize = 16;
/// A call on a socket takes so long at most, unless its thread is stopped in it.
const BUSY_MAX: Duration = Duration::from_millis(200);
/// Handshakes that a leaving listener waits for; those that take longer are reset.
const HANDSHAKES_MAX: Duration = Duration::from_millis(150);
