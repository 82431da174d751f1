//! One application group: its channel and its sockets.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use ringway_channel::{Attachment, Operation, REQUESTS_MAX, Request, SlotIndex, SlotRef};
use ringway_shm::{Arena, Duration, Instant, Room};
use ringway_stack::{Event, SocketId};

use super::UserToken;
use super::handover::Movings;
use super::rate::Rate;
use super::refusal::Refusals;
use super::socket::{Kind, Socket, Table};
use crate::claim::Claim;
use crate::command::{RegionId, RegionRequest};
use crate::core::Core;
use crate::guard::Guard;
use crate::metrics::Work;
use crate::quota::{GroupQuotas, Quota};
use crate::verdict::{Allowance, Verdict};

/// Requests of one group that one iteration executes.
const REQUESTS_PER_TURN: usize = 1024;
/// Sockets that one retry covers; the others of the list follow.
const RETRIES: usize = 512;
/// Weight of a request that takes or gives back a port, which asks the kernel: tens of microseconds.
const PORT_WEIGHT: usize = 16;
/// Weight of a request to listen, for which the kernel also looks for its own connections of the port: some hundred microseconds.
const LISTEN_WEIGHT: usize = 64;

/// One application group; see the module documentation.
pub(super) struct Region {
    pub(super) number: u32,
    pub(super) owner: RegionRequest,
    pub(super) channel: Attachment,
    pub(super) sockets: Table,
    pub(super) quotas: GroupQuotas,
    /// Those of every group, of which rules of the configuration may leave it less.
    group_quotas: GroupQuotas,
    rate: Rate,
    /// Sockets whose statistics are out of date.
    pub(super) touched: Vec<SlotIndex>,
    /// Multicast groups that its sockets have joined, each counted.
    pub(super) memberships: usize,
    /// Sockets that wait for resources without a wake-up.
    pub(super) retries: Vec<SlotIndex>,
    /// Sockets of UDP whose next message may leave then.
    pub(super) paced: BTreeSet<(Instant, SlotIndex)>,
    /// Listeners of the group.
    pub(super) listeners: Vec<SlotIndex>,
    /// Number of further connections that the listeners were told they may have.
    pub(super) room: u32,
    /// Listeners with connections for which there is no socket.
    pub(super) without_room: Vec<SlotIndex>,
    /// Sockets that lack receive chunks; the application reports chunks that come back.
    pub(super) starved: VecDeque<SlotIndex>,
    /// Largest share of the send chunks on which a socket's limit may be based, bytes.
    pub(super) narrowed: u32,
    /// Time of the next update of `narrowed`.
    pub(super) narrow_again: Instant,
    /// Claims that are shown and not used yet.
    pub(super) claims: HashMap<SlotIndex, (SlotRef, Claim)>,
    /// The latest sockets that were the kernel's.
    pub(super) refusals: Refusals,
    /// The kinds of sockets that are the kernel's for the whole group.
    pub(super) guard: Guard,
    /// Rules of the configuration said something of its sockets when it last looked.
    pub(super) has_rules: bool,
    /// What rules of the configuration say of the whole group.
    pub(super) verdict: Verdict,
    /// Sockets that are on their way to the kernel.
    pub(super) movings: Movings,
    /// All sockets are to go there: no connection is accepted any more.
    pub(super) leaving: bool,
    /// The holders of all connections are asked for their kernel sockets.
    pub(super) wants_all: bool,
    /// True when all processes are gone.
    pub(super) detached: bool,
    doorbell: OwnedFd,
    violations: u64,
    /// Forks of its processes that found no number, as far as they are counted.
    pub(super) forks_refused: u32,
}

impl Region {
    /// The worker's side of a new region.
    pub(super) fn new(number: u32, owner: RegionRequest, channel: Attachment, doorbell: OwnedFd, quotas: GroupQuotas) -> Region {
        let allowed = quotas.allowed(owner.allowance);
        channel.limit_processes(allowed.processes);
        Region {
            number,
            owner,
            sockets: Table::new(channel.shape().slots),
            channel,
            group_quotas: quotas,
            quotas: allowed,
            rate: Rate::new(quotas.requests_per_second),
            forks_refused: 0,
            touched: Vec::new(),
            retries: Vec::new(),
            paced: BTreeSet::new(),
            listeners: Vec::new(),
            memberships: 0,
            room: u32::MAX,
            without_room: Vec::new(),
            starved: VecDeque::new(),
            narrowed: u32::MAX,
            narrow_again: Instant::ZERO,
            claims: HashMap::new(),
            refusals: Refusals::default(),
            guard: Guard::default(),
            has_rules: true,
            verdict: Verdict::default(),
            movings: Movings::default(),
            leaving: false,
            wants_all: false,
            detached: false,
            doorbell,
            violations: 0,
        }
    }

    /// Every group may have so much from now on.
    pub(super) fn set_quotas(&mut self, quotas: GroupQuotas, core: &mut Core) {
        if quotas.requests_per_second != self.group_quotas.requests_per_second {
            self.rate = Rate::new(quotas.requests_per_second);
        }
        self.group_quotas = quotas;
        self.allow(self.owner.allowance);
        self.note_room(core);
    }

    /// Rules of the configuration allow it this from now on.
    pub(super) fn allow(&mut self, allowance: Allowance) {
        self.owner.allowance = allowance;
        self.quotas = self.group_quotas.allowed(allowance);
        self.channel.limit_processes(self.quotas.processes);
    }

    /// Returns the memory of an ended region.
    pub(super) fn into_channel(self) -> Attachment {
        self.channel
    }

    pub(super) fn doorbell(&self) -> &OwnedFd {
        &self.doorbell
    }

    pub(super) fn context_wake_fd(&mut self, context: u32, wake_fd: Arc<OwnedFd>) {
        if !self.channel.register_context(context, wake_fd) {
            self.channel.note_violation();
        }
    }

    /// Number of sockets.
    pub(super) fn sockets(&self) -> u32 {
        self.sockets.count()
    }

    /// Returns true if the socket of a slot is the stack's `id`.
    pub(super) fn has(&mut self, slot: SlotIndex, id: SocketId) -> bool {
        self.sockets.get(slot).is_some_and(|socket| socket.is(id))
    }

    /// Reserves memory of the group for payload of one of its connections that still reads.
    pub(super) fn room(&mut self, slot: SlotIndex, id: SocketId, len: usize, arena: &Arena) -> Option<Room> {
        let socket = self.sockets.get(slot).filter(|socket| socket.is(id) && !socket.closing)?;
        if socket.kind != Kind::Connection || self.detached {
            return None;
        }
        self.channel.room_rx(arena, len)
    }

    pub(super) fn user_token(&self, slot: SlotIndex) -> u64 {
        UserToken { region: self.number, slot }.word()
    }

    /// Executes what the group has asked for, no more than it may ask for in a second.
    #[inline]
    pub(super) fn serve(&mut self, core: &mut Core) -> bool {
        let has_sent = !self.paced.is_empty() && self.send_paced(core);
        let room = self.rate.room(core.now);
        self.execute_up_to(room, core) | has_sent
    }

    /// When requests are served again that wait since the group has made too many, or a datagram may leave that waits for its time.
    pub(super) fn served_again(&self) -> Option<Instant> {
        self.rate.resumes().into_iter().chain(self.paced.first().map(|(at, _)| *at)).min()
    }

    fn execute_up_to(&mut self, room: u64, core: &mut Core) -> bool {
        self.channel.reclaim();
        let (mut count, mut requests) = (0, 0);
        while count < REQUESTS_PER_TURN && requests < room {
            let Some(request) = self.channel.next_request() else { break };
            count += weight(request.operation);
            requests += 1;
            self.execute(&request, core);
        }
        if count >= REQUESTS_PER_TURN {
            core.metrics.add(Work::TurnsUsedUp, 1);
            self.channel.pass_on();
        }
        self.rate.spend(core.now, requests);
        if requests == room && room > 0 {
            self.rate.wait();
            core.metrics.hit(Quota::RequestsOfGroup, self.number);
        }
        core.metrics.add(Work::Requests, requests);
        self.count_violations(core);
        requests > 0
    }

    /// Executes the requests of processes that are gone: a requested reset must not become a FIN.
    pub(super) fn finish_requests(&mut self, core: &mut Core) {
        for _ in 0..=REQUESTS_MAX as usize * LISTEN_WEIGHT / REQUESTS_PER_TURN {
            if !self.execute_up_to(u64::MAX, core) {
                break;
            }
        }
    }

    fn execute(&mut self, request: &Request, core: &mut Core) {
        match request.operation {
            Operation::Reclaim => self.feed_starved(core),
            // The fork has failed: no process holds anything by that number.
            Operation::Forked { process, pid: 0 } => self.process_gone(process, core),
            Operation::Forked { process, pid } => {
                core.forks.push((RegionId(self.number), process, pid));
                self.touch_listeners();
            }
            _ => self.execute_on_socket(request, core),
        }
    }

    fn count_violations(&mut self, core: &mut Core) {
        let violations = self.channel.violations();
        core.metrics.add(Work::Violations, violations - self.violations);
        self.violations = violations;
    }

    /// Hands an event to a socket; returns false if there is none by that name.
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

    /// Retries the sockets that lacked something.
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

    /// Goes on with starved sockets after receive chunks came back, the longest starved first, as far as the chunks go. The one that
    /// finds none has asked the application to tell when some come back.
    pub(super) fn feed_starved(&mut self, core: &mut Core) {
        self.channel.reclaim();
        for _ in 0..self.starved.len() {
            let Some(slot) = self.starved.pop_front() else { break };
            let Some(socket) = self.sockets.get(slot) else { continue };
            socket.starved = false;
            self.ready(slot, core);
            if self.starved.back() == Some(&slot) && self.channel.free_rx() == (0, 0) {
                self.starved.rotate_right(1);
                break;
            }
        }
    }

    pub(super) fn has_retries(&self) -> bool {
        !self.retries.is_empty()
    }

    /// Adds a socket to the retry list.
    pub(super) fn retry_later(&mut self, slot: SlotIndex) {
        if let Some(socket) = self.sockets.get(slot)
            && !std::mem::replace(&mut socket.retrying, true)
        {
            self.retries.push(slot);
        }
    }

    /// Marks the statistics of a socket as stale.
    #[inline]
    pub(super) fn touch(&mut self, slot: SlotIndex) {
        if let Some(socket) = self.sockets.get(slot)
            && !std::mem::replace(&mut socket.touched, true)
        {
            self.touched.push(slot);
        }
    }

    /// Processes have come or gone that have the group's listeners.
    pub(super) fn touch_listeners(&mut self) {
        for at in 0..self.listeners.len() {
            self.touch(self.listeners[at]);
        }
    }

    /// The socket of a slot; created when the slot is first named.
    pub(super) fn socket(&mut self, request: &Request, core: &Core) -> &mut Socket {
        let slot = request.slot;
        if self.sockets.get(slot.index).is_none_or(|socket| socket.slot != slot) {
            self.sockets.insert(Socket::new(slot, core.socket_defaults));
        }
        self.sockets.get(slot.index).expect("it was there or has just been inserted")
    }

    pub(super) fn arm(&mut self, spin_limit: Duration) -> bool {
        self.channel.set_spin_limit(spin_limit);
        // Requests that wait for their time are no reason to stay awake, and more of them none to wake up.
        self.served_again().is_none() && !self.channel.arm()
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

/// Weight of a request in the group's budget of one iteration.
fn weight(operation: Operation) -> usize {
    match operation {
        Operation::Listen { .. } => LISTEN_WEIGHT,
        Operation::Connect { .. } | Operation::Datagram { .. } => PORT_WEIGHT,
        Operation::Close { .. } | Operation::Abort => PORT_WEIGHT / 4,
        _ => 1,
    }
}
