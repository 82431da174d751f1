//! Which workers of the service own which port, and what the filters are told of it.
//!
//! ```text
//!   own        one worker's port: an ephemeral one, a bound one, of datagrams   filter: its bit
//!   own_share  a listener's that every worker has                               filter: the bits of all, once all have it
//!   shut       none's                                                           filter: no bit, packets come to nothing
//!
//!   the first owner:  shut -> the kernel's connections are flows of the kernel's -> the bits
//! ```
//! A port belongs to one worker or to all until its last user has gone, so a connection stays where its packets come: a
//! worker that
//! asks for the other kind meanwhile is refused. Promises: the filters change when the first owner comes and the last one
//! goes, and not between; connections that the kernel has of a port before it is owned stay the kernel's, and it accepts none between
//! the look at them and the port's being owned. Does not do: counting the users of one worker; that worker does.
//! How the workers of a port let it go: see `leaving`.

mod leaving;

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use ringway_engine::{PortError, Transport};

use leaving::Leaving;

use super::Steering;

/// Connections of the kernel's for which a worker stops at most, two microseconds each.
const IN_WORKER_MAX: usize = 1024;

/// The owners of a port, by bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owners {
    workers: u32,
    /// Flows are divided among all workers.
    shared: bool,
    /// The filters know. Those of a common port's learn of it when the last worker has it: one without a listener would answer with resets.
    is_steered: bool,
}

/// The table of all workers.
struct PortRegistry {
    steering: Box<dyn Steering>,
    all: u32,
    ports: HashMap<(Transport, IpAddr, u16), Owners>,
    /// Ports of TCP whose new connections are the kernel's, or are to be.
    leaving: HashMap<(IpAddr, u16), Leaving>,
    on_flows: Option<OnFlows>,
    /// Shut ports of TCP whose connections of the kernel's the filters know.
    ready: BTreeSet<(IpAddr, u16)>,
}

/// Called in a worker's thread; must not block.
pub(crate) type OnFlows = Box<dyn Fn() + Send>;

/// One worker's hand on the table.
#[derive(Clone)]
pub(crate) struct WorkerPorts {
    registry: Arc<Mutex<PortRegistry>>,
    bit: u32,
}

/// Where the packets of a port go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ownership {
    /// To the worker that owns it.
    Sole,
    /// The same of a port that was free until now: the kernel has no connection of it.
    New,
    /// To all workers; the flow group picks one.
    Shared,
    /// To the worker that owns it, and to the kernel: a multicast group's.
    Copies,
}

impl PortRegistry {
    /// Shuts a port of TCP that no worker owns and leaves the kernel's connections of it to the kernel; if that cannot be, the port is the
    /// kernel's as before.
    fn leave_connections(&mut self, ip: IpAddr, port: u16) -> Result<(), PortError> {
        if self.ready.contains(&(ip, port)) {
            return Ok(());
        }
        self.steering.own(Transport::Tcp, ip, port, 0).map_err(|_| PortError::NoSteering)?;
        let left = match self.steering.leave_connections(ip, port, IN_WORKER_MAX) {
            Ok(true) => return Ok(()),
            Ok(false) => PortError::Waits,
            Err(_) => PortError::NoSteering,
        };
        // `Err`: not as long as there is a table.
        self.steering.release(Transport::Tcp, ip, port).ok();
        Err(left)
    }

    /// Packets of a port of TCP come to its workers.
    fn is_steered(&self, ip: IpAddr, port: u16) -> bool {
        self.ports.get(&(Transport::Tcp, ip, port)).is_some_and(|owners| owners.is_steered)
    }

    /// The packets of a port go to these workers, those of the kernel's connections to the kernel as before.
    fn steer(
        &mut self,
        (transport, ip, port): (Transport, IpAddr, u16),
        workers: u32,
        ownership: Ownership,
    ) -> Result<(), PortError> {
        if transport == Transport::Tcp && ownership != Ownership::New {
            self.leave_connections(ip, port)?;
            if self.steering.kernel_flows() > 0 {
                self.on_flows.iter().for_each(|tell| tell());
            }
        }
        let owned = match ownership {
            Ownership::Copies => self.steering.own_copies(ip, port, workers),
            Ownership::Sole | Ownership::New | Ownership::Shared => self.steering.own(transport, ip, port, workers),
        };
        owned.map_err(|_| PortError::NoSteering)
    }
}

impl WorkerPorts {
    /// The hands of so many workers on one table, whose filters are told by `steering`.
    pub(crate) fn for_workers(steering: Box<dyn Steering>, workers: usize) -> impl Iterator<Item = WorkerPorts> {
        let all = (0..workers).fold(0, |bits, worker| bits | 1 << worker);
        let registry = Arc::new(Mutex::new(PortRegistry {
            steering,
            all,
            ports: HashMap::new(),
            leaving: HashMap::new(),
            on_flows: None,
            ready: BTreeSet::new(),
        }));
        (0..workers).map(move |worker| WorkerPorts { registry: registry.clone(), bit: 1 << worker })
    }

    /// Calls `tell` when the kernel has flows of a port that a worker owns now; for all workers.
    pub(crate) fn on_flows(&self, tell: OnFlows) {
        self.registry().on_flows = Some(tell);
    }

    fn registry(&self) -> std::sync::MutexGuard<'_, PortRegistry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn own(&self, transport: Transport, ip: IpAddr, port: u16, ownership: Ownership) -> Result<(), PortError> {
        let shared = ownership == Ownership::Shared;
        let mut registry = self.registry();
        let known = registry.ports.get(&(transport, ip, port)).copied();
        let before = known.unwrap_or(Owners { workers: 0, shared, is_steered: false });
        // What is this worker's own stays so: its listener gets all flows, and those of the others are refused.
        let joins = known.is_none() || (before.shared && shared);
        if before.workers & self.bit == 0 && !joins {
            return Err(PortError::InUse);
        }
        let workers = before.workers | self.bit;
        let is_due = !before.is_steered && (!before.shared || workers == registry.all);
        if is_due {
            registry.steer((transport, ip, port), workers, ownership)?;
        }
        let is_steered = before.is_steered || is_due;
        registry.ports.insert((transport, ip, port), Owners { workers, is_steered, ..before });
        Ok(())
    }

    pub(super) fn disown(&self, transport: Transport, ip: IpAddr, port: u16) -> io::Result<()> {
        let mut registry = self.registry();
        let Some(owners) = registry.ports.get_mut(&(transport, ip, port)) else { return Ok(()) };
        owners.workers &= !self.bit;
        let is_steered = owners.is_steered;
        if owners.workers != 0 {
            return Ok(());
        }
        registry.ports.remove(&(transport, ip, port));
        if transport == Transport::Tcp {
            registry.leaving.remove(&(ip, port));
        }
        if is_steered { registry.steering.release(transport, ip, port) } else { Ok(()) }
    }

    /// Packets of TCP to these addresses and ports come to no worker and not to the kernel, until a worker owns the port or
    /// [`unshut`](WorkerPorts::unshut) is called. Ports that a worker owns stay as they are.
    pub(crate) fn shut(&self, ends: &BTreeSet<(IpAddr, u16)>) {
        let mut registry = self.registry();
        for &(ip, port) in ends {
            if !registry.is_steered(ip, port) {
                // `Err`: the table is full, and the port stays open.
                registry.steering.own(Transport::Tcp, ip, port, 0).ok();
            }
        }
    }

    /// The filters know all connections that the kernel has of these ports, which are shut.
    pub(crate) fn note_ready(&self, ends: &BTreeSet<(IpAddr, u16)>) {
        self.registry().ready.extend(ends);
    }

    /// Packets to those that no worker owns are the kernel's again.
    pub(crate) fn unshut(&self, ends: &BTreeSet<(IpAddr, u16)>) {
        let mut registry = self.registry();
        for &(ip, port) in ends {
            registry.ready.remove(&(ip, port));
            if !registry.is_steered(ip, port) {
                // `Err`: not as long as there is a table.
                registry.steering.release(Transport::Tcp, ip, port).ok();
            }
        }
    }
}

#[cfg(test)]
mod tests;
