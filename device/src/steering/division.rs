//! Among the workers of a service: which worker has which flow group, and which flows stay elsewhere.
//!
//! ```text
//!   groups[group] = worker | SCATTERED          of ports that every worker has
//!   kept[flow]    = worker                      looked up only where the group is SCATTERED
//! ```
//! The sockets' filters read both tables (`program`). A group moves in two steps: first the flows that its old
//! worker goes on with are kept there, then the group is the new worker's; so no packet of theirs ever comes to the new
//! one, whose stack would answer it with a reset. Promises: a group whose flows are all at its worker costs one load more than
//! a division that never changes. Does not do: deciding which worker should have a group, and knowing which flows there are;
//! that is
//! the service's and its workers'.

use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ringway_shm::flow_group::GROUPS;
use ringway_shm::{Flow, FlowGroup};

use super::{WORKERS_MAX, sys};

/// Bit of a group's word: some of its flows are kept by other workers.
pub(super) const SCATTERED: u32 = 1 << 8;
/// The bits of a word that say the worker.
pub(super) const WORKER: u32 = 0xff;

// A key of the second table, and of that of `kernel_flows`, in the order of the packets that arrive: remote and local address (IPv4 mapped), remote and
// local port, as they stand there.
pub(super) const FLOW_ADDRESSES: i16 = 0;
pub(super) const FLOW_PORTS: i16 = 32;
pub(super) const FLOW_BYTES: i16 = 36;

/// Both tables; see the module's text.
#[derive(Debug)]
pub struct Division {
    groups: OwnedFd,
    kept: OwnedFd,
    workers: usize,
}

impl Division {
    /// Gives each of `workers` workers as many groups as the others ([`Division::first_owner`]), with room for `kept_max`
    /// flows that stay where they were.
    ///
    /// # Errors
    /// The kernel refuses BPF; the text names the fix.
    ///
    /// # Panics
    /// When there are fewer than two workers, or more than [`WORKERS_MAX`].
    pub fn new(workers: usize, kept_max: u32) -> io::Result<Division> {
        assert!((2..=WORKERS_MAX).contains(&workers), "2 to {WORKERS_MAX} workers");
        let groups = sys::create_map(sys::MapKind::Array, 4, GROUPS as u32)?;
        let kept = sys::create_map(sys::MapKind::Hash, FLOW_BYTES as u32, kept_max)?;
        let division = Division { groups, kept, workers };
        for group in FlowGroup::all() {
            division.assign(group, Division::first_owner(group, workers), Flows::AllThere)?;
        }
        Ok(division)
    }

    /// The worker that has `group` at first, of so many.
    pub fn first_owner(group: FlowGroup, workers: usize) -> usize {
        group.index() % workers
    }

    /// Returns the number of workers.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// The same tables, for another writer.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn try_clone(&self) -> io::Result<Division> {
        Ok(Division { groups: self.groups.try_clone()?, kept: self.kept.try_clone()?, workers: self.workers })
    }

    /// New flows of `group` are `worker`'s from now on, and so are those that no worker keeps.
    ///
    /// # Errors
    /// The kernel refused, which it does not as long as the table exists.
    ///
    /// # Panics
    /// When there is no such worker.
    pub fn assign(&self, group: FlowGroup, worker: usize, flows: Flows) -> io::Result<()> {
        assert!(worker < self.workers, "{worker} is one of {} workers", self.workers);
        let scattered = if flows == Flows::Scattered { SCATTERED } else { 0 };
        sys::update(self.groups.as_fd(), &(group.index() as u32).to_ne_bytes(), worker as u32 | scattered)
    }

    /// Packets of `flow` come to `worker`, whatever its group's owner.
    ///
    /// # Errors
    /// The table is full.
    pub fn keep(&self, flow: &Flow, worker: usize) -> io::Result<()> {
        sys::update(self.kept.as_fd(), &flow_key(flow), worker as u32)
    }

    /// Packets of `flow` come to its group's owner again. Nothing happens to one that no worker keeps.
    ///
    /// # Errors
    /// The kernel refused, which it does not as long as the table exists.
    pub fn forget(&self, flow: &Flow) -> io::Result<()> {
        sys::delete_if_there(self.kept.as_fd(), &flow_key(flow))
    }

    pub(super) fn groups(&self) -> BorrowedFd<'_> {
        self.groups.as_fd()
    }

    pub(super) fn kept(&self) -> BorrowedFd<'_> {
        self.kept.as_fd()
    }
}

/// Where the flows of a group are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flows {
    /// All at the worker that has the group.
    AllThere,
    /// Some are kept by others.
    Scattered,
}

/// A key of a table of flows.
pub(super) fn flow_key(flow: &Flow) -> [u8; FLOW_BYTES as usize] {
    let octets = |ip: IpAddr| -> Ipv6Addr {
        match ip {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        }
    };
    let mut key = [0; FLOW_BYTES as usize];
    let ends = [flow.remote, flow.local];
    for (place, (ip, _)) in key[FLOW_ADDRESSES as usize..].chunks_exact_mut(16).zip(ends) {
        place.copy_from_slice(&octets(ip).octets());
    }
    for (place, (_, port)) in key[FLOW_PORTS as usize..].chunks_exact_mut(2).zip(ends) {
        place.copy_from_slice(&port.to_be_bytes());
    }
    key
}
