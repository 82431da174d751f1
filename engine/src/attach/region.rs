//! One application group: its channel and its sockets.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use ringway_shm::channel::{Attachment, Operation, REQUESTS_MAX, Request, SlotIndex, SlotRef};
use ringway_shm::{Arena, Duration, Instant, Room};
use ringway_stack::{Event, SocketId};

use super::Cookie;
use super::socket::{Kind, Socket, Table};
use crate::claim::Claim;
use crate::command::{RegionId, RegionRequest};
use crate::core::Core;
use crate::metrics::Work;

/// Requests that one group may have executed in one turn.
const REQUESTS_PER_TURN: usize = 1024;
/// Sockets that are tried again at a time; the others of the list follow.
const RETRIES: usize = 512;
/// As so many requests counts one that takes or gives a port, for which the kernel is asked: tens of microseconds.
const PORT_WEIGHT: usize = 16;

/// One application group; see the module's text.
pub(super) struct Region {
    pub(super) number: u32,
    pub(super) owner: RegionRequest,
    pub(super) channel: Attachment,
    pub(super) sockets: Table,
    pub(super) sockets_max: u32,
    /// Sockets whose statistics are out of date.
    pub(super) touched: Vec<SlotIndex>,
    /// Sockets that lack something whose return nobody tells.
    pub(super) retries: Vec<SlotIndex>,
    /// Its listeners.
    pub(super) listeners: Vec<SlotIndex>,
    /// For how many connections more they have been told that there is room.
    pub(super) room: u32,
    /// Listeners that have connections for which there is no socket.
    pub(super) without_room: Vec<SlotIndex>,
    /// Sockets that lack receive chunks; the application tells when some come back.
    pub(super) starved: Vec<SlotIndex>,
    /// The largest share of the send chunks that a socket's limit may be from, bytes.
    pub(super) narrowed: u32,
    /// When that may be looked at again.
    pub(super) narrow_again: Instant,
    /// What applications have shown and not used yet.
    pub(super) claims: HashMap<SlotIndex, (SlotRef, Claim)>,
    /// All processes are gone.
    pub(super) detached: bool,
    doorbell: OwnedFd,
    violations: u64,
}

impl Region {
    /// The worker's side of a new region.
    pub(super) fn new(number: u32, owner: RegionRequest, channel: Attachment, doorbell: OwnedFd, sockets_max: u32) -> Region {
        Region {
            number,
            owner,
            sockets: Table::new(channel.shape().slots),
            channel,
            sockets_max,
            touched: Vec::new(),
            retries: Vec::new(),
            listeners: Vec::new(),
            room: u32::MAX,
            without_room: Vec::new(),
            starved: Vec::new(),
            narrowed: u32::MAX,
            narrow_again: Instant::ZERO,
            claims: HashMap::new(),
            detached: false,
            doorbell,
            violations: 0,
        }
    }

    /// The memory of a region that is over.
    pub(super) fn into_channel(self) -> Attachment {
        self.channel
    }

    pub(super) fn doorbell(&self) -> &OwnedFd {
        &self.doorbell
    }

    pub(super) fn context_bell(&mut self, context: u32, bell: Arc<OwnedFd>) {
        if !self.channel.register_context(context, bell) {
            self.channel.note_violation();
        }
    }

    /// Sockets there are.
    pub(super) fn sockets(&self) -> u32 {
        self.sockets.count()
    }

    /// Whether the socket of a slot is the stack's `id`.
    pub(super) fn has(&mut self, slot: SlotIndex, id: SocketId) -> bool {
        self.sockets.get(slot).is_some_and(|socket| socket.is(id))
    }

    /// Memory of the group's for payload of a connection of its own that still reads.
    pub(super) fn room(&mut self, slot: SlotIndex, id: SocketId, len: usize, arena: &Arena) -> Option<Room> {
        let socket = self.sockets.get(slot).filter(|socket| socket.is(id) && !socket.closing)?;
        if socket.kind != Kind::Connection || self.detached {
            return None;
        }
        self.channel.room_rx(arena, len)
    }

    pub(super) fn cookie(&self, slot: SlotIndex) -> u64 {
        Cookie { region: self.number, slot }.word()
    }

    /// Executes what the group has asked for.
    pub(super) fn serve(&mut self, core: &mut Core) -> bool {
        self.channel.reclaim();
        let (mut count, mut requests) = (0, 0);
        while count < REQUESTS_PER_TURN {
            let Some(request) = self.channel.next_request() else { break };
            count += weight(request.operation);
            requests += 1;
            self.execute(&request, core);
        }
        if count >= REQUESTS_PER_TURN {
            core.metrics.add(Work::TurnsUsedUp, 1);
        }
        core.metrics.add(Work::Requests, requests);
        self.count_violations(core);
        requests > 0
    }

    /// Does what processes have asked for that are gone now: a reset that was asked for is no FIN.
    pub(super) fn finish_requests(&mut self, core: &mut Core) {
        for _ in 0..=REQUESTS_MAX as usize * PORT_WEIGHT / REQUESTS_PER_TURN {
            if !self.serve(core) {
                break;
            }
        }
    }

    fn execute(&mut self, request: &Request, core: &mut Core) {
        match request.operation {
            Operation::Reclaim => self.feed_starved(core),
            // The fork has failed: nobody holds anything by that number.
            Operation::Forked { process, pid: 0 } => self.process_gone(process, core),
            Operation::Forked { process, pid } => core.forks.push((RegionId(self.number), process, pid)),
            _ => self.execute_on_socket(request, core),
        }
    }

    fn count_violations(&mut self, core: &mut Core) {
        let violations = self.channel.violations();
        core.metrics.add(Work::Violations, violations - self.violations);
        self.violations = violations;
    }

    /// Hands an event to a socket; `false` when there is none of that name.
    pub(super) fn deliver(&mut self, slot: SlotIndex, id: SocketId, event: Event, core: &mut Core) -> bool {
        if self.sockets.get(slot).is_none_or(|socket| !socket.is(id)) {
            return false;
        }
        self.touch(slot);
        match event {
            Event::Accepted { .. } => self.accept(slot, core),
            Event::Connected { .. } => self.connected(slot, id, core),
            Event::Ready { .. } => self.ready(slot, core),
            Event::Urgent { .. } => self.urgent(slot, id, core),
            Event::Failed { error, .. } => self.failed(slot, error, core),
            Event::Closed { time_wait, .. } => self.closed(slot, time_wait, core),
            Event::ResolveNeighbor { .. } | Event::Address { .. } => {}
        }
        true
    }

    /// Tries again the sockets that lacked something.
    pub(super) fn retry(&mut self, core: &mut Core) {
        let now = self.retries.len().min(RETRIES);
        let later = self.retries.split_off(now);
        for slot in std::mem::replace(&mut self.retries, later) {
            let Some(socket) = self.sockets.get(slot) else { continue };
            socket.retrying = false;
            match socket.kind {
                Kind::Listener => self.accept(slot, core),
                Kind::Connection | Kind::Datagram => self.ready(slot, core),
                Kind::Fresh => {}
            }
        }
    }

    /// Receive chunks came back: goes on with those that lacked some.
    pub(super) fn feed_starved(&mut self, core: &mut Core) {
        self.channel.reclaim();
        for slot in std::mem::take(&mut self.starved) {
            let Some(socket) = self.sockets.get(slot) else { continue };
            socket.starved = false;
            self.ready(slot, core);
        }
    }

    pub(super) fn has_retries(&self) -> bool {
        !self.retries.is_empty()
    }

    /// Puts a socket into the list of those that are tried again.
    pub(super) fn retry_later(&mut self, slot: SlotIndex) {
        if let Some(socket) = self.sockets.get(slot)
            && !std::mem::replace(&mut socket.retrying, true)
        {
            self.retries.push(slot);
        }
    }

    /// The statistics of a socket are out of date.
    #[inline]
    pub(super) fn touch(&mut self, slot: SlotIndex) {
        if let Some(socket) = self.sockets.get(slot)
            && !std::mem::replace(&mut socket.touched, true)
        {
            self.touched.push(slot);
        }
    }

    /// The socket of a slot, made when the slot is first named.
    pub(super) fn socket(&mut self, request: &Request, core: &Core) -> &mut Socket {
        let slot = request.slot;
        if self.sockets.get(slot.index).is_none_or(|socket| socket.slot != slot) {
            self.sockets.insert(Socket::new(slot, core.socket_defaults));
        }
        self.sockets.get(slot.index).expect("it was there or has just been inserted")
    }

    pub(super) fn arm(&mut self, spin_limit: Duration) -> bool {
        self.channel.set_spin_limit(spin_limit);
        !self.channel.arm()
    }

    pub(super) fn tell_busy(&self, per_mille: u32) {
        self.channel.set_busy(per_mille);
    }

    pub(super) fn disarm(&mut self) {
        self.channel.disarm();
    }

    pub(super) fn flush_wakes(&mut self) {
        self.channel.flush_wakes();
    }
}

/// What a request counts of the group's share of a turn.
fn weight(operation: Operation) -> usize {
    match operation {
        Operation::Listen { .. } | Operation::Connect { .. } | Operation::Datagram { .. } => PORT_WEIGHT,
        Operation::Close { .. } | Operation::Abort => PORT_WEIGHT / 4,
        _ => 1,
    }
}
