//! What a worker asks of whoever shares the machine's addresses with the kernel: ports to reserve,
//! packets to steer, neighbors to resolve. The service answers; tests answer with a mock.

use std::io;
use std::net::{IpAddr, SocketAddr};

use ringway_shm::{Flow, GroupSet, Instant};

use crate::command::RegionId;

/// A protocol with ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transport {
    /// TCP
    Tcp,
    /// UDP
    Udp,
}

/// Why a port was not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortError {
    /// Somebody else has it, or (port 0) none is free.
    InUse,
    /// The address is not one of the machine's.
    NotLocal,
    /// The steering table is full or was refused by the kernel.
    NoSteering,
}

/// Reserves ports against the kernel and steers their packets to the worker's devices. Each
/// (address, port) is asked for once: the worker counts its own users.
pub trait Ports: Send {
    /// Takes `port` (0: any ephemeral one) of `ip` so that no kernel socket can have it, until
    /// `release`. Returns the port.
    ///
    /// # Errors
    /// See [`PortError`].
    fn reserve(&mut self, ip: IpAddr, port: u16) -> Result<u16, PortError>;

    /// Gives a reserved port back.
    fn release(&mut self, ip: IpAddr, port: u16);

    /// From now on packets to `ip`:`port` reach the worker's devices, and not the kernel.
    ///
    /// # Errors
    /// See [`PortError`].
    fn own(&mut self, transport: Transport, ip: IpAddr, port: u16) -> Result<(), PortError>;

    /// As `own`, where every worker of the service serves the port for the same programs: this one gets the flows that are
    /// its share.
    ///
    /// # Errors
    /// See [`PortError`].
    fn own_share(&mut self, transport: Transport, ip: IpAddr, port: u16) -> Result<(), PortError> {
        self.own(transport, ip, port)
    }

    /// Packets to `ip`:`port` are the kernel's again.
    fn disown(&mut self, transport: Transport, ip: IpAddr, port: u16);

    /// Whether the host's packet filters let all packets of `ip`:`port` pass, whatever peer they are of; if not, the port is
    /// the kernel's. Asked again after [`rules_changed`](crate::WorkerHandle::rules_changed).
    fn may_serve(&mut self, _transport: Transport, _ip: IpAddr, _port: u16) -> bool {
        true
    }

    /// The same of a TCP connection that is opened.
    fn may_connect(&mut self, _local: SocketAddr, _peer: SocketAddr) -> bool {
        true
    }

    /// How many ports may be reserved; `None`: as many as there are.
    fn reserved_max(&self) -> Option<u64> {
        None
    }

    /// The other workers, among whom the flows of common ports are divided; `None`: there are none.
    fn division(&mut self) -> Option<&mut dyn Division> {
        None
    }
}

/// What a worker asks of whoever divides the flows of a listener among several workers, by flow group.
pub trait Division {
    /// Flow groups that are this worker's.
    fn groups(&self) -> GroupSet;

    /// Tells which share of its time (0 to 1) this worker has been busy lately. Who says nothing for a while sleeps. Returns
    /// those of its groups that are better off at another worker.
    fn weigh(&mut self, now: Instant, busy: f64) -> GroupSet;

    /// Whoever comes to a listener in one of `groups`, which [`weigh`](Division::weigh) has named, comes to the other worker
    /// from now on. Packets of the connections `kept`, which are all that this worker has in these groups and did not keep
    /// before, still come to it.
    ///
    /// # Errors
    /// No room for so many; then nothing has changed.
    fn hand_over(&mut self, now: Instant, groups: GroupSet, kept: &[Flow]) -> io::Result<()>;

    /// As the connections that were kept when their group was handed over: packets of `flow` come to this worker.
    ///
    /// # Errors
    /// No room.
    fn keep(&mut self, flow: &Flow) -> io::Result<()>;

    /// A connection that was kept is over.
    fn forget(&mut self, flow: &Flow);
}

/// What else a worker tells the service. Called in the worker's thread; must never block.
pub trait Host: Send {
    /// Asks for the link address of `ip` on `interface`, whose neighbor table is the kernel's; the
    /// answer comes as [`WorkerHandle::set_neighbor`](crate::WorkerHandle::set_neighbor).
    fn resolve(&mut self, interface: u32, ip: IpAddr);

    /// A process of an application group has made a child, which holds sockets by `process` from
    /// now on: when process `pid` dies, tell
    /// [`WorkerHandle::process_gone`](crate::WorkerHandle::process_gone). Spurious when the application lies.
    fn forked(&mut self, region: RegionId, process: u32, pid: u32);
}
