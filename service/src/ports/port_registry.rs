//! Which workers of the service own which port, and what the filters are told of it.
//!
//! ```text
//!   own        one worker's port: an ephemeral one, a bound one, of datagrams   filter: its bit
//!   own_share  a listener's that every worker has                               filter: the bits of all
//!   shut       none's                                                           filter: no bit, packets come to nothing
//!
//!   the first owner:  shut -> the kernel's connections are flows of the kernel's -> the bits
//! ```
//! A port belongs to one worker or to all until its last user has gone, so a connection stays where its packets come: a
//! worker that
//! asks for the other kind meanwhile is refused. Promises: the filters change when the first owner comes and the last one
//! goes, and not between; connections that the kernel has of a port before it is owned stay the kernel's, and it accepts none between
//! the look at them and the port's being owned (over AF_XDP it may, and such a connection may be reset). Does not do: counting the users of one worker; that worker does.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use ringway_engine::{PortError, Transport};

use super::Steering;

/// Connections of the kernel's for which a worker stops at most, two microseconds each.
const IN_WORKER_MAX: usize = 1024;

/// The owners of a port, by bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owners {
    workers: u32,
    /// Flows are divided among all workers.
    shared: bool,
}

/// The table of all workers.
struct PortRegistry {
    steering: Box<dyn Steering>,
    all: u32,
    ports: HashMap<(Transport, IpAddr, u16), Owners>,
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
}

impl WorkerPorts {
    /// The hands of so many workers on one table, whose filters are told by `steering`.
    pub(crate) fn for_workers(steering: Box<dyn Steering>, workers: usize) -> impl Iterator<Item = WorkerPorts> {
        let all = (0..workers).fold(0, |bits, worker| bits | 1 << worker);
        let registry =
            Arc::new(Mutex::new(PortRegistry { steering, all, ports: HashMap::new(), on_flows: None, ready: BTreeSet::new() }));
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
        let Some(owners) = registry.ports.get_mut(&(transport, ip, port)) else {
            let workers = if shared { registry.all } else { self.bit };
            if transport == Transport::Tcp && ownership != Ownership::New {
                registry.leave_connections(ip, port)?;
                if registry.steering.kernel_flows() > 0 {
                    registry.on_flows.iter().for_each(|tell| tell());
                }
            }
            let owned = match ownership {
                Ownership::Copies => registry.steering.own_copies(ip, port, workers),
                Ownership::Sole | Ownership::New | Ownership::Shared => registry.steering.own(transport, ip, port, workers),
            };
            owned.map_err(|_| PortError::NoSteering)?;
            registry.ports.insert((transport, ip, port), Owners { workers: self.bit, shared });
            return Ok(());
        };
        // What is this worker's own stays so: its listener gets all flows, and those of the others are refused.
        let joins = owners.shared && shared;
        if owners.workers & self.bit == 0 && !joins {
            return Err(PortError::InUse);
        }
        owners.workers |= self.bit;
        Ok(())
    }

    pub(super) fn disown(&self, transport: Transport, ip: IpAddr, port: u16) -> io::Result<()> {
        let mut registry = self.registry();
        let Some(owners) = registry.ports.get_mut(&(transport, ip, port)) else { return Ok(()) };
        owners.workers &= !self.bit;
        if owners.workers != 0 {
            return Ok(());
        }
        registry.ports.remove(&(transport, ip, port));
        registry.steering.release(transport, ip, port)
    }

    /// New connections to a port that this worker alone owns are the kernel's, those with the peers in `stay` still the worker's. Returns false
    /// where that cannot be: of a port that several workers have, no one of them knows all connections.
    pub(super) fn leave(&self, ip: IpAddr, port: u16, stay: &[(IpAddr, u16)]) -> bool {
        let mut registry = self.registry();
        let owners = registry.ports.get(&(Transport::Tcp, ip, port));
        let is_alone = owners.is_some_and(|owners| owners.workers == self.bit && (!owners.shared || registry.all == self.bit));
        is_alone && registry.steering.leave_port(ip, port, stay).is_ok()
    }

    /// Ends [`leave`](WorkerPorts::leave): the connections that the kernel has got meanwhile stay the kernel's. Returns false where they cannot
    /// be known; then the port is left as before, but for the connections with the peers in `stay`. Packets are lost meanwhile, as on a bad line.
    pub(super) fn take_back(&self, ip: IpAddr, port: u16, stay: &[(IpAddr, u16)]) -> bool {
        let mut registry = self.registry();
        let Some(owners) = registry.ports.get(&(Transport::Tcp, ip, port)).copied() else { return false };
        let workers = if owners.shared { registry.all } else { owners.workers };
        let steering = &mut registry.steering;
        let is_known = steering.retake_port(ip, port).and_then(|()| steering.leave_connections(ip, port, IN_WORKER_MAX));
        let is_back = is_known.is_ok_and(|is_known| is_known);
        if !is_back {
            // `Err`: there is no room for the flows that stay; they are lost.
            steering.leave_port(ip, port, stay).ok();
        }
        let is_owned = steering.own(Transport::Tcp, ip, port, workers).is_ok();
        if is_back && steering.kernel_flows() > 0 {
            registry.on_flows.iter().for_each(|tell| tell());
        }
        is_back && is_owned
    }

    /// Packets of TCP to these addresses and ports come to no worker and not to the kernel, until a worker owns the port or
    /// [`unshut`](WorkerPorts::unshut) is called. Ports that a worker owns stay as they are. Over AF_XDP they come to the kernel meanwhile.
    pub(crate) fn shut(&self, ends: &BTreeSet<(IpAddr, u16)>) {
        let mut registry = self.registry();
        for &(ip, port) in ends {
            if !registry.ports.contains_key(&(Transport::Tcp, ip, port)) {
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
            if !registry.ports.contains_key(&(Transport::Tcp, ip, port)) {
                // `Err`: not as long as there is a table.
                registry.steering.release(Transport::Tcp, ip, port).ok();
            }
        }
    }
}

#[cfg(test)]
mod tests;
