//! The worker end of all channels: one region per application group, slots on one side, the stack's
//! sockets on the other.
//!
//! Promises: nothing an application writes into its region can do more than harm its own sockets;
//! requests are checked against the worker's own table, and each costs a bounded amount of work. One
//! group's sockets, frames and accept queues are limited, so that others keep theirs. Does not do:
//! deciding who may attach, or what errno a failure is.

mod claims;
mod close;
mod datagram;
mod deliver;
mod guard;
mod maker;
mod options;
mod record;
mod region;
mod request;
mod room;
mod send;
mod share;
mod socket;
mod urgent;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use ringway_shm::channel::{Attachment, SlotRef};
use ringway_shm::{Arena, Duration, Instant, Room};
use ringway_stack::{Event, SocketId, State};

use crate::claim::Claim;
use crate::command::{RegionId, RegionMemory};
use crate::core::{Core, Ending};
use crate::idle::Idle;
use crate::metrics::Work;
use crate::worker::WorkerConfig;
use region::Region;

pub(crate) use maker::{Maker, NewRegion};

/// How long it takes until sockets are tried again that lack something whose return nobody tells.
const RETRY: Duration = Duration::from_millis(2);

/// Sockets without an application that have statistics.
const STRAYS_MAX: usize = 1024;
/// They are not looked for among more sockets than these, since that takes time from the data path.
const STRAYS_SOUGHT: u64 = 8192;

/// The name by which the stack returns a socket: region and slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cookie {
    region: u32,
    slot: u32,
}

impl Cookie {
    fn from_word(word: u64) -> Cookie {
        Cookie { region: (word >> 32) as u32, slot: word as u32 }
    }

    fn word(self) -> u64 {
        u64::from(self.region) << 32 | u64::from(self.slot)
    }
}

/// Large packets that an application may have unread before it is given the processor.
const ROOMS_AT_ONCE: u32 = 2;
/// Packets with more payload are large. Messages of some KiB are not: the more of them are taken at once, the better.
pub(crate) const MESSAGE: usize = 16 << 10;

/// The memory of a group that is over, of which the stack still sends.
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
    sockets_max: u32,
    /// By region number; numbers are never used again.
    regions: Vec<Option<Box<Region>>>,
    live: Vec<u32>,
    /// Of groups that are over, the oldest first: their memory holds what peers have not acknowledged.
    pinned: Vec<Pinned>,
    /// Place in `live` of the group that is served first in this turn.
    first: usize,
    retry_at: Option<Instant>,
    /// The region to whose memory a large packet was read last, since somebody asked.
    read_to: Option<u32>,
}

impl Attachments {
    pub(crate) fn new(config: &WorkerConfig, maker: Arc<Maker>) -> Attachments {
        Attachments {
            maker,
            regions_max: config.regions_max as usize,
            regions_per_user_max: config.regions_per_user_max as usize,
            sockets_max: config.sockets_per_region_max,
            regions: Vec::new(),
            live: Vec::new(),
            pinned: Vec::new(),
            first: 0,
            retry_at: None,
            read_to: None,
        }
    }

    /// Takes the region of a new application group.
    pub(crate) fn attach(&mut self, made: NewRegion, core: &mut Core, idle: &Idle) -> io::Result<RegionMemory> {
        self.make_room(made.owner.uid, core);
        match self.number_for(&made, idle) {
            Ok(number) => {
                let region = Region::new(number, made.owner, made.channel, made.doorbell, self.sockets_max);
                self.regions.push(Some(Box::new(region)));
                self.live.push(number);
                Ok(RegionMemory { region: RegionId(number), memory: made.memory, doorbell: made.ringer })
            }
            Err(error) => {
                self.maker.give_back(made.channel);
                Err(error)
            }
        }
    }

    /// A group that is over but has not sent all it has written counts as one of its user's as long as its memory is needed.
    /// Where a new one finds no room, those are given up, the oldest first.
    fn make_room(&mut self, uid: u32, core: &mut Core) {
        self.unpin();
        while self.live.len() + self.pinned.len() >= self.regions_max && self.end_oldest(None, core) {}
        if uid != 0 {
            while self.groups_of(uid) >= self.regions_per_user_max && self.end_oldest(Some(uid), core) {}
        }
    }

    fn groups_of(&self, uid: u32) -> usize {
        let live = self.regions.iter().flatten().filter(|region| region.owner.uid == uid).count();
        live + self.pinned.iter().filter(|pinned| pinned.uid == uid).count()
    }

    /// Gives up what the oldest ended group, of `uid` if that is given, has not sent. `false`: there is none.
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
        // What is under way at a device comes back soon, and the memory with it.
        if let Some(place) = self.pinned.iter().position(|pinned| pinned.number == number) {
            self.maker.give_back(self.pinned.remove(place).channel);
        }
        true
    }

    /// Gives back the memory of which nothing is under way any more.
    fn unpin(&mut self) {
        let maker = &self.maker;
        let free = self.pinned.extract_if(.., |pinned| pinned.channel.lent_tx() == 0);
        free.for_each(|pinned| maker.give_back(pinned.channel));
    }

    /// The number of a region whose doorbell is listened to from now on.
    fn number_for(&self, made: &NewRegion, idle: &Idle) -> io::Result<u32> {
        if self.live.len() >= self.regions_max {
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, "too many application groups are attached"));
        }
        let number = u32::try_from(self.regions.len()).map_err(|_| io::ErrorKind::QuotaExceeded)?;
        idle.add(&made.doorbell)?;
        Ok(number)
    }

    /// Closes everything of a group whose processes are all gone. Its memory goes when what they had
    /// written is in the stack.
    pub(crate) fn detach(&mut self, id: RegionId, core: &mut Core, idle: &Idle) {
        let Some(region) = self.region(id.0) else { return };
        // A doorbell that cannot be taken out was never in; the region goes either way.
        if idle.remove(region.doorbell()).is_err() {
            core.metrics.add(Work::Violations, 1);
        }
        region.finish_requests(core);
        region.detach(core);
        self.sweep();
    }

    /// Whether no group is attached, and none that was has anything to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// Forgets detached regions that have no sockets any more.
    fn sweep(&mut self) {
        let (regions, pinned, maker) = (&mut self.regions, &mut self.pinned, &self.maker);
        self.live.retain(|&number| {
            let over = regions[number as usize].take_if(|region| region.is_over());
            let is_over = over.is_some();
            if let Some(region) = over {
                let (uid, channel) = (region.owner.uid, region.into_channel());
                match channel.lent_tx() {
                    0 => maker.give_back(channel),
                    _ => pinned.push(Pinned { number, uid, channel }),
                }
            }
            !is_over
        });
    }

    pub(crate) fn context_bell(&mut self, id: RegionId, context: u32, bell: Arc<OwnedFd>) {
        if let Some(region) = self.region(id.0) {
            region.context_bell(context, bell);
        }
    }

    /// Notes a right of the group's; `false` when it has no such slot.
    pub(crate) fn claim(&mut self, id: RegionId, slot: SlotRef, claim: Claim) -> bool {
        self.region(id.0).is_some_and(|region| region.note_claim(slot, claim))
    }

    /// A right of the group's has ended by what the application did to its kernel socket.
    pub(crate) fn revoke(&mut self, id: RegionId, slot: SlotRef, core: &mut Core) {
        if let Some(region) = self.region(id.0) {
            region.revoke(slot, core);
        }
    }

    pub(crate) fn process_gone(&mut self, id: RegionId, process: u32, core: &mut Core) {
        if let Some(region) = self.region(id.0) {
            region.finish_requests(core);
            region.process_gone(process, core);
        }
    }

    /// Hands one event of the stack to the socket that it is about.
    pub(crate) fn deliver(&mut self, event: Event, core: &mut Core) {
        let (id, cookie) = match event {
            Event::Accepted { listener, cookie } => (listener, cookie),
            Event::Connected { socket, cookie } | Event::Ready { socket, cookie } | Event::Urgent { socket, cookie } => {
                (socket, cookie)
            }
            Event::Failed { socket, cookie, .. } | Event::Closed { socket, cookie, .. } => (socket, cookie),
            Event::ResolveNeighbor { .. } | Event::Address { .. } => return,
        };
        let cookie = Cookie::from_word(cookie);
        let region = self.region(cookie.region);
        let known = region.is_some_and(|region| region.deliver(cookie.slot, id, event, core));
        if known && matches!(event, Event::Ready { .. } | Event::Failed { .. } | Event::Closed { .. }) {
            self.sweep_if_detached(cookie.region);
        }
        if !known {
            match event {
                Event::Failed { .. } => core.bury(id, Ending::Reset),
                Event::Closed { time_wait, .. } => core.bury(id, Ending::closed(time_wait)),
                _ => {}
            }
        }
    }

    /// A frame of `len` bytes in the memory of the application that has the socket, for payload that waits at a device.
    pub(crate) fn room(&mut self, cookie: u64, id: SocketId, len: usize, arena: &Arena) -> Option<Room> {
        let cookie = Cookie::from_word(cookie);
        let room = self.region(cookie.region)?.room(cookie.slot, id, len, arena)?;
        if len > MESSAGE {
            self.read_to = Some(cookie.region);
        }
        Some(room)
    }

    /// Whether large packets have been read to an application's memory that has not read those before: it should run now, while
    /// the processor's cache has them.
    pub(crate) fn readers_first(&mut self) -> bool {
        let read_to = self.read_to.take();
        read_to.and_then(|number| self.region(number)).is_some_and(|region| region.channel.used_rooms() > ROOMS_AT_ONCE)
    }

    /// Executes what applications have asked for, and tries again what had to wait.
    pub(crate) fn serve(&mut self, core: &mut Core) -> bool {
        let mut served = false;
        let groups = self.live.len();
        // Who was first in one turn is last in the next.
        self.first = if self.first + 1 < groups { self.first + 1 } else { 0 };
        for index in 0..groups {
            let number = self.live[(self.first + index) % groups];
            if let Some(region) = self.region(number) {
                served |= region.serve(core);
            }
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
        if !self.pinned.is_empty() {
            self.unpin();
        }
        self.note_retries(core.now);
        served
    }

    /// The addresses of the stack have changed: listeners on all of them follow.
    pub(crate) fn addresses_changed(&mut self, core: &mut Core) {
        for number in self.live.clone() {
            if let Some(region) = self.region(number) {
                region.addresses_changed(core);
            }
        }
    }

    /// The host's packet filters have changed.
    pub(crate) fn rules_changed(&mut self, core: &mut Core) {
        for number in self.live.clone() {
            if let Some(region) = self.region(number) {
                region.rules_changed(core);
            }
        }
    }

    /// Asks all applications to ring, and says how long they may look before they sleep; `true` when one has something already.
    pub(crate) fn arm(&mut self, spin_limit: Duration) -> bool {
        let mut ready = false;
        for &number in &self.live {
            ready |= self.regions[number as usize].as_mut().is_some_and(|region| region.arm(spin_limit));
        }
        ready
    }

    /// Tells all applications which part of its time the worker has been busy lately, thousandths.
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

    /// Wakes the waiters whose sockets have changed, each once.
    pub(crate) fn flush_wakes(&mut self) {
        for &number in &self.live {
            if let Some(region) = &mut self.regions[number as usize] {
                region.flush_wakes();
            }
        }
    }

    /// When something is to be tried again.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.retry_at
    }

    /// Writes the statistics of sockets that have changed.
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
            self.write_strays(core)
        } else {
            core.metrics.write_strays(&[]);
            let (half_open, time_wait) = core.stack.records();
            [time_wait, half_open].map(|count| count as u64)
        };
        core.metrics.set(Work::UnlistedTimeWait, time_wait);
        core.metrics.set(Work::UnlistedOthers, others);
    }

    /// Writes the sockets that no application has: half open, closing, in TIME-WAIT. Returns how many in TIME-WAIT, and how
    /// many others, have found no room.
    fn write_strays(&mut self, core: &mut Core) -> [u64; 2] {
        let (mut strays, mut unlisted, now) = (Vec::new(), [0; 2], core.now);
        let regions = &mut self.regions;
        core.stack.for_each_socket(&mut |summary| {
            let cookie = Cookie::from_word(summary.cookie);
            let region = regions.get_mut(cookie.region as usize).and_then(Option::as_deref_mut);
            let owned = region.is_some_and(|region| region.has(cookie.slot, summary.id));
            match owned {
                true => {}
                false if strays.len() < STRAYS_MAX => strays.push(record::stray(summary, now)),
                false => unlisted[usize::from(summary.state != State::TimeWait)] += 1,
            }
        });
        core.metrics.write_strays(&strays);
        unlisted
    }

    /// Bulk receive chunks that no frame and no application has, of all regions.
    #[cfg(test)]
    pub(crate) fn free_rooms(&self) -> u32 {
        self.regions.iter().flatten().map(|region| region.channel.free_rooms()).sum()
    }

    /// Bulk send chunks under way, of all regions.
    #[cfg(test)]
    pub(crate) fn lent_chunks(&self) -> u32 {
        self.regions.iter().flatten().map(|region| region.channel.lent_tx()).sum()
    }

    /// Groups at most, and those of one user.
    #[cfg(test)]
    pub(crate) fn limit_regions(&mut self, all: usize, of_user: usize) {
        (self.regions_max, self.regions_per_user_max) = (all, of_user);
    }

    /// Groups that have ended whose memory is still needed.
    #[cfg(test)]
    pub(crate) fn held_by_ended(&self) -> usize {
        self.pinned.len() + self.regions.iter().flatten().filter(|region| region.detached).count()
    }

    /// Sockets of all regions.
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
