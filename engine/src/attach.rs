//! The worker's end of all channels: one region per application group, with slots on one side and the stack's sockets
//! on the other.
//!
//! Promises: whatever an application writes into its region, it harms only its own sockets. Requests are checked
//! against the worker's own table, and each costs a bounded amount of work. Sockets, frames and accept queues of each
//! group are limited, so that others keep theirs. Does not do: deciding which processes may attach, or mapping failures
//! to errno.

mod adoption;
mod bulk;
mod claims;
mod close;
mod datagram;
mod deliver;
mod guard;
mod handover;
mod leaving;
mod maker;
mod multicast;
mod options;
mod pace;
mod rate;
mod record;
mod refusal;
mod region;
mod request;
mod room;
mod send;
mod share;
mod socket;
mod unmoved;
mod urgent;
mod usage;

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use ringway_channel::{Attachment, SlotRef};
use ringway_shm::{Arena, Duration, Instant, Room};
use ringway_stack::{Event, SocketId, State};

use crate::claim::Claim;
use crate::command::{RegionId, RegionMemory, RegionRequest};
use crate::core::{Core, Ending};
use crate::guard::Guard;
use crate::idle::Idle;
use crate::metrics::Work;
use crate::quota::{GroupQuotas, Quota, UsageSource, UserQuotas};
use crate::verdict::Ruling;
use crate::worker::WorkerConfig;
use region::Region;

pub(crate) use adoption::AdoptionCommand;
pub use bulk::BulkPolicy;
pub(crate) use handover::HandoverCommand;
pub(crate) use maker::{Maker, NewRegion};

/// Retry interval for resources without a wake-up.
const RETRY: Duration = Duration::from_millis(2);

/// Maximum number of orphans that have statistics.
const ORPHANS_LISTED_MAX: usize = 1024;
/// Orphans are not searched for among more sockets than this, because the search takes time from the data path.
const STRAYS_SOUGHT: u64 = 8192;

/// User token by which the stack names a socket: region and slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct UserToken {
    region: u32,
    slot: u32,
}

impl UserToken {
    fn from_word(word: u64) -> UserToken {
        UserToken { region: (word >> 32) as u32, slot: word as u32 }
    }

    fn word(self) -> u64 {
        u64::from(self.region) << 32 | u64::from(self.slot)
    }

    /// The words of all sockets of a region. Without 0, which the stack has for connections of any region that are not accepted yet.
    fn all_of(region: u32) -> Range<u64> {
        let first = UserToken { region, slot: 0 }.word();
        first.max(1)..first + (1 << 32)
    }
}

/// Large packets that an application may have unread before it is given the processor.
const ROOMS_AT_ONCE: u32 = 2;
/// Packets with more payload are large. Messages of some KiB are not: the more of them are taken at once, the better.
pub(crate) const MESSAGE: usize = 16 << 10;

/// Memory of an ended group of which the stack still sends.
struct Pinned {
    number: u32,
    uid: u32,
    channel: Attachment,
}

/// All regions of a worker.
pub(crate) struct Attachments {
    maker: Arc<Maker>,
    regions_max: usize,
    regions_per_user_max: usize,
    quotas: GroupQuotas,
    /// By region number; numbers are never used again.
    regions: Vec<Option<Box<Region>>>,
    live: Vec<u32>,
    /// Ended groups, the oldest first: their memory holds data that peers have not acknowledged.
    pinned: Vec<Pinned>,
    /// Tells of quotas that are not counted here.
    elsewhere: Option<UsageSource>,
    /// Groups that are over and of whose quotas nothing need be told any more.
    over: Vec<u32>,
    /// Index in `live` of the group that is served first in this iteration.
    first: usize,
    retry_at: Option<Instant>,
    departures: handover::Departures,
    /// Region that a large packet was read to since the last `yield_to_readers`.
    read_to: Option<u32>,
}

impl Attachments {
    pub(crate) fn new(config: &WorkerConfig, maker: Arc<Maker>) -> Attachments {
        Attachments {
            maker,
            regions_max: config.regions_max as usize,
            regions_per_user_max: config.user.groups as usize,
            quotas: config.group,
            regions: Vec::new(),
            live: Vec::new(),
            pinned: Vec::new(),
            elsewhere: None,
            over: Vec::new(),
            first: 0,
            retry_at: None,
            departures: handover::Departures::default(),
            read_to: None,
        }
    }

    /// Makes the region of a new application group.
    pub(crate) fn make(&self, request: RegionRequest) -> io::Result<NewRegion> {
        self.maker.make(request)
    }

    /// Attaches the region of a new application group.
    pub(crate) fn attach(&mut self, made: NewRegion, core: &mut Core, idle: &Idle) -> io::Result<RegionMemory> {
        self.make_room(made.owner.uid, core);
        match self.number_for(&made, idle) {
            Ok(number) => {
                let region = Region::new(number, made.owner, made.channel, made.doorbell, self.quotas);
                self.regions.push(Some(Box::new(region)));
                self.live.push(number);
                Ok(RegionMemory { region: RegionId(number), memory: made.memory, doorbell: made.ringer })
            }
            Err(error) => {
                core.metrics.hit(Quota::Groups, 0);
                self.maker.give_back(made.channel);
                Err(error)
            }
        }
    }

    /// Makes space for a new group. An ended group that has not sent all its data counts for its user while its memory
    /// is needed; if there is no space for a new one, ended groups are given up, the oldest first.
    fn make_room(&mut self, uid: u32, core: &mut Core) {
        self.unpin();
        while self.live.len() + self.pinned.len() >= self.regions_max && self.end_oldest(None, core) {
            core.metrics.hit(Quota::Groups, 0);
        }
        if uid != 0 {
            while self.groups_of(uid) >= self.regions_per_user_max && self.end_oldest(Some(uid), core) {
                core.metrics.hit(Quota::GroupsOfUser, uid);
            }
        }
    }

    fn groups_of(&self, uid: u32) -> usize {
        let live = self.regions.iter().flatten().filter(|region| region.owner.uid == uid).count();
        live + self.pinned.iter().filter(|pinned| pinned.uid == uid).count()
    }

    /// Gives up the unsent data of the oldest ended group (of `uid`, if given). Returns false if there is none.
    fn end_oldest(&mut self, uid: Option<u32>, core: &mut Core) -> bool {
        let is_of = |owner: u32| uid.is_none_or(|uid| uid == owner);
        let pinned = self.pinned.iter().filter(|pinned| is_of(pinned.uid)).map(|pinned| pinned.number);
        let ended = self.regions.iter().flatten().filter(|region| region.detached && is_of(region.owner.uid));
        let Some(number) = pinned.chain(ended.map(|region| region.number)).min() else { return false };
        if let Some(region) = self.region(number) {
            let count = region.abandon(core);
            core.metrics.add(Work::OrphansReset, count);
            self.sweep();
        }
        core.reset_orphans_of(number);
        // Frames under way at a device come back soon, and the memory with them.
        if let Some(place) = self.pinned.iter().position(|pinned| pinned.number == number) {
            self.maker.give_back(self.pinned.remove(place).channel);
        }
        true
    }

    /// Gives back memory of which no frame is under way any more.
    fn unpin(&mut self) {
        let maker = &self.maker;
        let free = self.pinned.extract_if(.., |pinned| pinned.channel.lent_tx() == 0);
        free.for_each(|pinned| maker.give_back(pinned.channel));
    }

    /// Number of a new region; its doorbell ends waits from now on.
    fn number_for(&self, made: &NewRegion, idle: &Idle) -> io::Result<u32> {
        if self.live.len() >= self.regions_max {
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, "too many application groups are attached"));
        }
        let number = u32::try_from(self.regions.len()).map_err(|_| io::ErrorKind::QuotaExceeded)?;
        idle.add(&made.doorbell)?;
        Ok(number)
    }

    /// Closes everything of a group after its last process. Its memory goes when its data is in the stack.
    pub(crate) fn detach(&mut self, id: RegionId, core: &mut Core, idle: &Idle) {
        let Some(region) = self.region(id.0) else { return };
        // A doorbell that cannot be removed was never added; the region goes either way.
        if idle.remove(region.doorbell()).is_err() {
            core.metrics.add(Work::Violations, 1);
        }
        region.finish_requests(core);
        region.detach(core);
        self.sweep();
    }

    /// Returns true if no group is attached and no ended one has data left to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// Forgets detached regions without sockets.
    fn sweep(&mut self) {
        let (regions, pinned, maker, ended) = (&mut self.regions, &mut self.pinned, &self.maker, &mut self.over);
        self.live.retain(|&number| {
            let over = regions[number as usize].take_if(|region| region.is_over());
            let is_over = over.is_some();
            if let Some(region) = over {
                ended.push(number);
                let (uid, channel) = (region.owner.uid, region.into_channel());
                match channel.lent_tx() {
                    0 => maker.give_back(channel),
                    _ => pinned.push(Pinned { number, uid, channel }),
                }
            }
            !is_over
        });
    }

    pub(crate) fn context_wake_fd(&mut self, id: RegionId, context: u32, wake_fd: Arc<OwnedFd>) {
        if let Some(region) = self.region(id.0) {
            region.context_wake_fd(context, wake_fd);
        }
    }

    /// Sets the maximum number of groups; those that there are stay.
    pub(crate) fn limit_groups_to(&mut self, most: u32) {
        self.regions_max = most as usize;
    }

    /// Records a right of the group; returns false if it has no such slot.
    pub(crate) fn claim(&mut self, id: RegionId, slot: SlotRef, claim: Claim) -> bool {
        self.region(id.0).is_some_and(|region| region.note_claim(slot, claim))
    }

    /// Ends a right of the group, because the application has changed its kernel socket.
    pub(crate) fn revoke(&mut self, id: RegionId, slot: SlotRef, core: &mut Core) {
        if let Some(region) = self.region(id.0) {
            region.revoke(slot, core);
        }
    }

    /// Closes what process `pid` held under this number. Its death may be reported again when the number is another's.
    pub(crate) fn process_gone(&mut self, id: RegionId, process: u32, pid: u32, core: &mut Core) {
        if let Some(region) = self.region(id.0)
            && region.is_number_of(process, pid)
        {
            region.finish_requests(core);
            region.process_gone(process, core);
        }
    }

    /// Hands an event of the stack to its socket.
    pub(crate) fn deliver(&mut self, event: Event, core: &mut Core) {
        let (id, user_token) = match event {
            Event::Accepted { listener, user_token } => (listener, user_token),
            Event::Connected { socket, user_token }
            | Event::Ready { socket, user_token }
            | Event::Urgent { socket, user_token } => (socket, user_token),
            Event::Failed { socket, user_token, .. } | Event::Closed { socket, user_token, .. } => (socket, user_token),
            Event::ResolveNeighbor { .. } | Event::Address { .. } => return,
        };
        let user_token = UserToken::from_word(user_token);
        let region = self.region(user_token.region);
        let known = region.is_some_and(|region| region.deliver(user_token.slot, id, event, core));
        if known && matches!(event, Event::Ready { .. } | Event::Failed { .. } | Event::Closed { .. }) {
            self.sweep_if_detached(user_token.region);
        }
        if !known {
            match event {
                Event::Failed { .. } => core.reap(id, Ending::Reset),
                Event::Closed { time_wait, .. } => core.reap(id, Ending::closed(time_wait)),
                _ => {}
            }
        }
    }

    /// Reserves a frame of `len` bytes in the memory of the socket's application, for payload that waits at a device.
    pub(crate) fn room(&mut self, user_token: u64, id: SocketId, len: usize, arena: &Arena) -> Option<Room> {
        let user_token = UserToken::from_word(user_token);
        let room = self.region(user_token.region)?.room(user_token.slot, id, len, arena)?;
        if len > MESSAGE {
            self.read_to = Some(user_token.region);
        }
        Some(room)
    }

    /// Returns true if an application has large packets unread while more were read to its memory: it should run now,
    /// while the processor's cache has them.
    pub(crate) fn yield_to_readers(&mut self) -> bool {
        let read_to = self.read_to.take();
        read_to.and_then(|number| self.region(number)).is_some_and(|region| region.channel.used_rooms() > ROOMS_AT_ONCE)
    }

    /// Tells the stack what applications leave unread: on so many sockets all together.
    #[cold]
    fn note_backlog(&mut self, sockets: usize, core: &mut Core) {
        let hoard_max = core.hoard_max();
        let hoards = |region: &&Region| region.starved.len() > hoard_max;
        let live = self.live.iter().filter_map(|&number| self.regions.get(number as usize)?.as_deref());
        let hoards = live.filter(hoards).map(|region| UserToken::all_of(region.number)).collect();
        core.note_backlog(sockets, hoards);
    }

    /// Executes the requests of applications and retries those that had to wait.
    pub(crate) fn serve(&mut self, core: &mut Core) -> bool {
        let (mut served, mut unread) = (false, 0);
        let groups = self.live.len();
        // The group that was first in one iteration is last in the next.
        self.first = if self.first + 1 < groups { self.first + 1 } else { 0 };
        for index in 0..groups {
            let number = self.live[(self.first + index) % groups];
            if let Some(region) = self.region(number) {
                served |= region.serve(core);
                unread += region.starved.len();
            }
        }
        if unread > 0 || core.has_backlog() {
            self.note_backlog(unread, core);
        }
        if self.retry_at.is_some_and(|at| at <= core.now) {
            self.retry_at = None;
            for number in self.live.clone() {
                if let Some(region) = self.region(number) {
                    region.retry(core);
                }
            }
            self.sweep();
            served = true;
        }
        if core.rooms_are_stale || self.departures.due().is_some_and(|at| at <= core.now) {
            self.follow_departures(core);
            served = true;
        }
        if !self.pinned.is_empty() {
            self.unpin();
        }
        self.note_retries(core.now);
        served
    }

    /// Follows a change of the stack's addresses: listeners on all of them change too.
    pub(crate) fn addresses_changed(&mut self, core: &mut Core) {
        for number in self.live.clone() {
            if let Some(region) = self.region(number) {
                region.addresses_changed(core);
            }
        }
    }

    /// Follows a change of the host's packet filters.
    pub(crate) fn rules_changed(&mut self, core: &mut Core) {
        for number in self.live.clone() {
            if let Some(region) = self.region(number) {
                region.rules_changed(core);
            }
        }
    }

    /// More is the kernel's for a group; see [`Guard`].
    pub(crate) fn guard(&mut self, id: RegionId, guard: Guard, core: &mut Core) {
        if let Some(region) = self.region(id.0) {
            region.confine(guard, core);
        }
    }

    /// Each user and each group may have so much from now on.
    pub(crate) fn set_quotas(&mut self, user: UserQuotas, group: GroupQuotas, core: &mut Core) {
        (self.regions_per_user_max, self.quotas) = (user.groups as usize, group);
        for number in self.live.clone() {
            if let Some(region) = self.region(number) {
                region.set_quotas(group, core);
            }
        }
    }

    /// Rules of the configuration say this of a group now.
    pub(crate) fn rule(&mut self, id: RegionId, ruling: Ruling, core: &mut Core) {
        if let Some(region) = self.region(id.0) {
            region.obey(ruling, core);
        }
    }

    /// Asks all applications to ring, and tells them how long they may spin; returns true if one has a request already.
    pub(crate) fn arm(&mut self, spin_limit: Duration) -> bool {
        let mut ready = false;
        for &number in &self.live {
            ready |= self.regions[number as usize].as_mut().is_some_and(|region| region.arm(spin_limit));
        }
        ready
    }

    /// Publishes the recent load of the worker to all applications, in thousandths.
    pub(crate) fn tell_busy(&self, per_mille: u32) {
        for &number in &self.live {
            if let Some(region) = &self.regions[number as usize] {
                region.tell_busy(per_mille);
            }
        }
    }

    pub(crate) fn disarm(&mut self) {
        for &number in &self.live {
            if let Some(region) = &mut self.regions[number as usize] {
                region.disarm();
            }
        }
    }

    /// Wakes the waiters of changed sockets, each once.
    pub(crate) fn flush_wakes(&mut self) {
        for &number in &self.live {
            if let Some(region) = &mut self.regions[number as usize] {
                region.flush_wakes();
            }
        }
    }

    /// Time of the next retry.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let waiting = self.live.iter().filter_map(|&number| self.regions[number as usize].as_ref()?.served_again());
        waiting.chain(self.retry_at).chain(self.departures.due()).min()
    }

    /// Writes the statistics of changed sockets.
    pub(crate) fn write_records(&mut self, core: &mut Core) {
        let (mut sockets, mut lent, mut rooms) = (0, 0, 0);
        for &number in &self.live {
            if let Some(region) = &mut self.regions[number as usize] {
                region.write_records(core);
                sockets += u64::from(region.sockets());
                lent += u64::from(region.channel.lent_tx());
                rooms += u64::from(region.channel.free_rooms());
            }
        }
        core.metrics.set(Work::Regions, self.live.len() as u64);
        core.metrics.set(Work::Sockets, sockets);
        core.metrics.set(Work::BulkChunksLent, lent);
        core.metrics.set(Work::RoomsFree, rooms);
        let [time_wait, others] = if sockets <= STRAYS_SOUGHT {
            self.write_orphans(core)
        } else {
            core.metrics.write_orphans(&[]);
            let (half_open, time_wait) = core.stack.records();
            [time_wait, half_open].map(|count| count as u64)
        };
        core.metrics.set(Work::UnlistedTimeWait, time_wait);
        core.metrics.set(Work::UnlistedOthers, others);
    }

    /// Writes the records of orphans: half open, closing, in TIME-WAIT. Returns the numbers of unlisted ones: in
    /// TIME-WAIT, and others.
    fn write_orphans(&mut self, core: &mut Core) -> [u64; 2] {
        let (mut orphans, mut unlisted, now) = (Vec::new(), [0; 2], core.now);
        let regions = &mut self.regions;
        core.stack.for_each_socket(&mut |summary| {
            let user_token = UserToken::from_word(summary.user_token);
            let region = regions.get_mut(user_token.region as usize).and_then(Option::as_deref_mut);
            let owned = region.is_some_and(|region| region.has(user_token.slot, summary.id));
            match owned {
                true => {}
                false if orphans.len() < ORPHANS_LISTED_MAX => orphans.push(record::orphan(summary, now)),
                false => unlisted[usize::from(summary.state != State::TimeWait)] += 1,
            }
        });
        core.metrics.write_orphans(&orphans);
        unlisted
    }

    /// Number of bulk receive chunks of all regions that no frame and no application holds.
    #[cfg(test)]
    pub(crate) fn free_rooms(&self) -> u32 {
        self.regions.iter().flatten().map(|region| region.channel.free_rooms()).sum()
    }

    /// Number of bulk send chunks under way, of all regions.
    #[cfg(test)]
    pub(crate) fn lent_chunks(&self) -> u32 {
        self.regions.iter().flatten().map(|region| region.channel.lent_tx()).sum()
    }

    /// Maximum number of groups, and of those of one user.
    #[cfg(test)]
    pub(crate) fn limit_regions(&mut self, all: usize, of_user: usize) {
        (self.regions_max, self.regions_per_user_max) = (all, of_user);
    }

    /// Sets the quotas of groups that attach from now on.
    #[cfg(test)]
    pub(crate) fn limit_groups(&mut self, quotas: GroupQuotas) {
        self.quotas = quotas;
    }

    /// Why the kernel gets the connections of a listener.
    #[cfg(test)]
    pub(crate) fn kernel_path_of(
        &mut self,
        id: RegionId,
        slot: ringway_channel::SlotIndex,
        core: &mut Core,
    ) -> Option<ringway_channel::KernelPath> {
        let region = self.region(id.0)?;
        let (guard, verdict) = (region.guard, region.verdict);
        region.sockets.get(slot)?.listening.as_ref()?.kernel_path(guard, verdict, core)
    }

    /// The latest refusals of a group.
    #[cfg(test)]
    pub(crate) fn refused_rows(&mut self, id: RegionId) -> Vec<ringway_shm::stats::SocketRecord> {
        self.region(id.0).map(|region| region.refused_rows()).unwrap_or_default()
    }

    /// Number of ended groups with memory that is still needed.
    #[cfg(test)]
    pub(crate) fn held_by_ended(&self) -> usize {
        self.pinned.len() + self.regions.iter().flatten().filter(|region| region.detached).count()
    }

    /// Number of sockets of all regions.
    #[cfg(test)]
    pub(crate) fn sockets(&self) -> u32 {
        self.regions.iter().flatten().map(|region| region.sockets()).sum()
    }

    fn sweep_if_detached(&mut self, number: u32) {
        if self.region(number).is_some_and(|region| region.is_over()) {
            self.sweep();
        }
    }

    fn region(&mut self, number: u32) -> Option<&mut Region> {
        self.regions.get_mut(number as usize)?.as_deref_mut()
    }

    fn note_retries(&mut self, now: Instant) {
        if self.retry_at.is_none() {
            let waits = self.live.iter().any(|&n| self.regions[n as usize].as_ref().is_some_and(|r| r.has_retries()));
            self.retry_at = waits.then(|| now + RETRY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::UserToken;

    #[test]
    fn connections_that_are_not_accepted_are_no_region_s_own() {
        let word = |region, slot| UserToken { region, slot }.word();
        assert!(!UserToken::all_of(0).contains(&0) && UserToken::all_of(0).contains(&word(0, 1)));
        assert!(!UserToken::all_of(0).contains(&word(1, 0)) && UserToken::all_of(1).contains(&word(1, 0)));
        assert!(UserToken::all_of(1).contains(&word(1, u32::MAX)) && !UserToken::all_of(1).contains(&word(2, 0)));
    }
}
