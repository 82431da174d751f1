//! The flow groups of the workers: whose each is, and which connections are elsewhere.
//!
//! ```text
//!   weigh      a worker tells how busy it is, and hears which of its groups another one should have   (load)
//!   hand_over  its connections in them are kept, then the groups are the other one's                  (filters' tables)
//! ```
//! Promises: a connection is kept in the filters' tables before its group moves, and a group is marked as scattered as long as
//! any worker keeps one of its connections, so a packet finds its connection at every moment. At most [`KEPT_MAX`] are kept; a
//! group with more stays. Does not do: deciding how much to move; see [`load`](super::load).

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ringway_device::steering::{Division, Flows};
use ringway_shm::flow_group::GROUPS;
use ringway_shm::{Flow, FlowGroup, GroupSet, Instant};

use super::load::{Loads, Relief};

/// Connections that are kept at most.
pub(crate) const KEPT_MAX: u32 = 65_536;
/// Of these, the part for connections that arrive while a group moves.
const LATE_MAX: u32 = 4_096;

/// The tables that the filters of the workers' sockets read.
pub(crate) trait Tables: Send {
    /// New connections of `group` come to `worker`; `flows` says whether some are kept by others.
    ///
    /// # Errors
    /// The kernel refuses.
    fn assign(&mut self, group: FlowGroup, worker: usize, flows: Flows) -> io::Result<()>;

    /// Packets of `flow` come to `worker`.
    ///
    /// # Errors
    /// No room.
    fn keep(&mut self, flow: &Flow, worker: usize) -> io::Result<()>;

    /// Packets of `flow` come to the owner of its group.
    ///
    /// # Errors
    /// The kernel refuses.
    fn forget(&mut self, flow: &Flow) -> io::Result<()>;
}

impl Tables for Division {
    fn assign(&mut self, group: FlowGroup, worker: usize, flows: Flows) -> io::Result<()> {
        Division::assign(self, group, worker, flows)
    }

    fn keep(&mut self, flow: &Flow, worker: usize) -> io::Result<()> {
        Division::keep(self, flow, worker)
    }

    fn forget(&mut self, flow: &Flow) -> io::Result<()> {
        Division::forget(self, flow)
    }
}

/// The state that all workers share.
struct Shares {
    tables: Box<dyn Tables>,
    owners: [usize; GROUPS],
    /// Connections of each group that are kept, by whomever.
    kept: [u32; GROUPS],
    loads: Loads,
    /// By worker: the receiver of its groups.
    relief: Vec<Option<usize>>,
    /// The group at which the search for some to give begins.
    next: usize,
}

/// One worker's hand on them.
pub(crate) struct Share {
    shares: Arc<Mutex<Shares>>,
    worker: usize,
}

impl Share {
    /// The hands of so many workers on `tables`, which give each its [first](Division::first_owner) groups. A worker that is
    /// busy for more
    /// than `percent` of its time gives some.
    pub(crate) fn shares(tables: Box<dyn Tables>, workers: usize, percent: u32) -> impl Iterator<Item = Share> {
        let mut owners = [0; GROUPS];
        FlowGroup::all().for_each(|group| owners[group.index()] = Division::first_owner(group, workers));
        let (loads, relief) = (Loads::new(workers, percent), vec![None; workers]);
        let shares = Arc::new(Mutex::new(Shares { tables, owners, kept: [0; GROUPS], loads, relief, next: 0 }));
        (0..workers).map(move |worker| Share { shares: shares.clone(), worker })
    }

    fn shares_mut(&self) -> MutexGuard<'_, Shares> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ringway_engine::Division for Share {
    fn groups(&self) -> GroupSet {
        self.shares_mut().of(self.worker)
    }

    fn weigh(&mut self, now: Instant, busy: f64) -> GroupSet {
        let mut shares = self.shares_mut();
        shares.loads.told(now, self.worker, busy);
        let relief = shares.loads.relief(now, self.worker);
        shares.relief[self.worker] = relief.map(|relief| relief.to);
        relief.map_or(GroupSet::NONE, |relief| shares.choose(self.worker, relief))
    }

    fn hand_over(&mut self, now: Instant, groups: GroupSet, kept: &[Flow]) -> io::Result<()> {
        let mut shares = self.shares_mut();
        let to = shares.relief[self.worker].take().ok_or(io::ErrorKind::InvalidInput)?;
        if shares.kept.iter().sum::<u32>() + kept.len() as u32 > KEPT_MAX - LATE_MAX {
            return Err(io::ErrorKind::StorageFull.into());
        }
        for (count, flow) in kept.iter().enumerate() {
            if let Err(error) = shares.tables.keep(flow, self.worker) {
                kept[..count].iter().for_each(|flow| shares.tables.forget(flow).unwrap_or_else(complain));
                return Err(error);
            }
        }
        kept.iter().for_each(|flow| shares.kept[flow.group().index()] += 1);
        for group in groups.iter() {
            // What the kernel refuses stays where it is; its connections do in any case.
            shares.assign(group, to).unwrap_or_else(complain);
        }
        shares.loads.moved(now, self.worker, to);
        let (from, count) = (self.worker, groups.iter().count());
        tracing::debug!(target: "ringway::steering", from, to, "{count} flow groups go from worker {from} to {to}");
        Ok(())
    }

    fn keep(&mut self, flow: &Flow) -> io::Result<()> {
        let mut shares = self.shares_mut();
        if shares.kept.iter().sum::<u32>() >= KEPT_MAX {
            return Err(io::ErrorKind::StorageFull.into());
        }
        shares.tables.keep(flow, self.worker)?;
        shares.count(flow, 1)
    }

    fn forget(&mut self, flow: &Flow) {
        let mut shares = self.shares_mut();
        // The mark first: without it the filters do not look for the connection.
        shares.count(flow, -1).unwrap_or_else(complain);
        shares.tables.forget(flow).unwrap_or_else(complain);
    }
}

impl Shares {
    fn of(&self, worker: usize) -> GroupSet {
        FlowGroup::all().filter(|group| self.owners[group.index()] == worker).collect()
    }

    /// Some of the worker's groups, other ones each time.
    fn choose(&mut self, worker: usize, relief: Relief) -> GroupSet {
        let own: Vec<FlowGroup> = self.of(worker).iter().collect();
        let count = (own.len() as f64 * relief.share).ceil() as usize;
        let first = own.iter().position(|group| group.index() >= self.next).unwrap_or(0);
        let chosen: Vec<FlowGroup> = own.iter().cycle().skip(first).take(count.min(own.len())).copied().collect();
        self.next = chosen.last().map_or(0, |group| group.index() + 1);
        chosen.into_iter().collect()
    }

    fn assign(&mut self, group: FlowGroup, worker: usize) -> io::Result<()> {
        let flows = if self.kept[group.index()] == 0 { Flows::AllThere } else { Flows::Scattered };
        self.tables.assign(group, worker, flows)?;
        self.owners[group.index()] = worker;
        Ok(())
    }

    /// One connection more is kept, or one less: the first and the last change the mark of the group.
    fn count(&mut self, flow: &Flow, change: i32) -> io::Result<()> {
        let group = flow.group();
        let kept = &mut self.kept[group.index()];
        let before = *kept;
        *kept = before.saturating_add_signed(change);
        if (before == 0) == (*kept == 0) { Ok(()) } else { self.assign(group, self.owners[group.index()]) }
    }
}

fn complain(error: io::Error) {
    tracing::warn!(target: "ringway::steering", "the kernel does not change who gets which packets: {error}");
}

#[cfg(test)]
mod tests;
