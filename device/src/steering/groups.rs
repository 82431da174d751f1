//! Which worker has which flow group: one table that all workers of an interface read, and its copy in the kernel.
//!
//! Promises: reading is one load; a change is seen by the kernel's program and by the workers at about the same time, in no
//! order, so for a moment packets reach the worker that had the group: it passes them on ([`share`](crate::share)). Does not
//! do: deciding which worker should have a group, or moving its connections.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use ringway_shm::flow_group::GROUPS;
use ringway_shm::{FlowGroup, GroupSet};

use super::{fanout, sys};
use crate::packet::Packet;

/// Workers at most.
pub const WORKERS_MAX: usize = 64;

/// The table; see the module's text.
#[derive(Debug)]
pub struct Groups {
    owners: [AtomicU8; GROUPS],
    workers: usize,
    kernel: Mutex<Option<Kernel>>,
}

/// The sockets among which the kernel chooses.
#[derive(Debug)]
struct Kernel {
    /// The number of the socket that each group's packets go to.
    map: OwnedFd,
    /// The number of the group of sockets.
    fanout: u16,
    /// The worker of each socket, in the order of joining.
    sockets: Vec<usize>,
}

impl Groups {
    /// A table that gives every one of `workers` workers as many groups as the others.
    ///
    /// # Panics
    /// When there are none, or more than [`WORKERS_MAX`].
    pub fn new(workers: usize) -> Groups {
        assert!((1..=WORKERS_MAX).contains(&workers), "1 to {WORKERS_MAX} workers");
        Groups { owners: std::array::from_fn(|group| AtomicU8::new((group % workers) as u8)), workers, kernel: Mutex::new(None) }
    }

    /// Returns the number of workers.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// The worker that has `group`.
    #[inline]
    pub fn owner(&self, group: FlowGroup) -> usize {
        self.owners[group.index()].load(Ordering::Acquire) as usize
    }

    /// The groups of `worker`.
    pub fn of(&self, worker: usize) -> GroupSet {
        FlowGroup::all().filter(|&group| self.owner(group) == worker).collect()
    }

    /// `worker` has `group` from now on.
    ///
    /// # Errors
    /// The kernel refused, which it does not as long as the map exists; the workers' table is changed nevertheless.
    ///
    /// # Panics
    /// When there is no such worker.
    pub fn assign(&self, group: FlowGroup, worker: usize) -> io::Result<()> {
        assert!(worker < self.workers, "{worker} is one of {} workers", self.workers);
        self.owners[group.index()].store(worker as u8, Ordering::Release);
        match &*self.kernel.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(kernel) => kernel.tell(group, worker),
            None => Ok(()),
        }
    }

    /// The socket of `worker` takes part: packets of the worker's groups arrive at it, and those of workers that have no
    /// socket yet, or of no flow, at the first. A socket that is closed gives its number to the last one, and the packets go
    /// round by the workers then.
    ///
    /// # Errors
    /// The kernel refuses BPF or has no PACKET_FANOUT (the text names the fix), or the sockets are not of one interface.
    pub fn enter(&self, worker: usize, packet: &Packet) -> io::Result<()> {
        let mut kernel = self.kernel.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *kernel {
            None => *kernel = Some(Kernel::found(worker, packet)?),
            Some(kernel) => {
                packet.join(kernel.fanout)?;
                kernel.sockets.push(worker);
            }
        }
        for group in FlowGroup::all().filter(|&group| self.owner(group) == worker) {
            kernel.as_ref().map_or(Ok(()), |kernel| kernel.tell(group, worker))?;
        }
        Ok(())
    }
}

impl Kernel {
    fn found(worker: usize, packet: &Packet) -> io::Result<Kernel> {
        let map = sys::create_map(sys::MapKind::Array, 4, GROUPS as u32)?;
        let program = sys::load(sys::ProgramKind::SocketFilter, &fanout::fanout(map.as_fd()))?;
        let fanout = packet.found(program.as_fd())?;
        Ok(Kernel { map, fanout, sockets: vec![worker] })
    }

    fn tell(&self, group: FlowGroup, worker: usize) -> io::Result<()> {
        let socket = self.sockets.iter().position(|&entered| entered == worker).unwrap_or(0);
        sys::update(self.map.as_fd(), &(group.index() as u32).to_ne_bytes(), socket as u32)
    }
}

#[cfg(test)]
mod tests;
