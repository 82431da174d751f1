//! Interface between a worker and the owner of the addresses that it shares with the kernel: ports to reserve, packets
//! to steer, neighbors to resolve. The service implements it; tests use a mock.

use std::io;
use std::net::{IpAddr, SocketAddr};

use ringway_shm::{Flow, GroupSet, Instant};

use crate::command::RegionId;
use crate::handover::Unmoved;
use crate::verdict::Verdict;

/// A protocol with ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transport {
    /// TCP
    Tcp,
    /// UDP
    Udp,
}

/// Reason why a port was not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PortError {
    /// Another socket has it, or (port 0) none is free.
    InUse,
    /// The address is not one of the machine's.
    NotLocal,
    /// The steering table is full, or the kernel refused it.
    NoSteering,
    /// The kernel serves the port until the worker is told that the rules have changed.
    Waits,
}

/// What became of a wish that new connections to a port go to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// They do.
    Done,
    /// Other workers have the port too and have not let it go yet: ask [`Ports::has_left`], and take no new connection meanwhile.
    Waits,
    /// That cannot be; nothing has changed.
    Refused,
}

/// Reserves ports against the kernel and steers their packets to the worker's devices. Each
/// (address, port) is asked for once: the worker counts its own users.
pub trait Ports: Send {
    /// Takes `port` (0: any ephemeral one) of `ip`, so that no kernel socket can have it until `release`. Returns the
    /// port.
    ///
    /// # Errors
    /// See [`PortError`].
    fn reserve(&mut self, ip: IpAddr, port: u16) -> Result<u16, PortError>;

    /// Gives a reserved port back.
    fn release(&mut self, ip: IpAddr, port: u16);

    /// Steers packets to `ip`:`port` to the worker's devices instead of the kernel.
    ///
    /// # Errors
    /// See [`PortError`].
    fn own(&mut self, transport: Transport, ip: IpAddr, port: u16) -> Result<(), PortError>;

    /// Like `own`, for a port that every worker of the service serves for the same programs: this worker gets the flows
    /// that are its share.
    ///
    /// # Errors
    /// See [`PortError`].
    fn own_share(&mut self, transport: Transport, ip: IpAddr, port: u16) -> Result<(), PortError> {
        self.own(transport, ip, port)
    }

    /// Steers datagrams to `group`:`port`, a multicast group's, to the worker's devices; where the kernel shares the interface, to the kernel
    /// too. [`disown`](Ports::disown) ends it.
    ///
    /// # Errors
    /// See [`PortError`].
    fn own_copies(&mut self, group: IpAddr, port: u16) -> Result<(), PortError> {
        self.own(Transport::Udp, group, port)
    }

    /// Steers packets to `ip`:`port` to the kernel again.
    fn disown(&mut self, transport: Transport, ip: IpAddr, port: u16);

    /// Steers packets to `ip`:`port` of TCP to the kernel, but those of the connections with the peers in `stay`, until `disown`. Where several
    /// workers have the port, once all of them have asked for it.
    fn leave(&mut self, _ip: IpAddr, _port: u16, _stay: &[(IpAddr, u16)]) -> Leave {
        Leave::Refused
    }

    /// After [`Leave::Waits`]: returns true if the other workers have let the port go too.
    fn has_left(&mut self, _ip: IpAddr, _port: u16) -> bool {
        false
    }

    /// After [`Leave::Waits`]: the port stays as it was. Returns false if the other workers have let it go by now; then it is the kernel's.
    fn stay(&mut self, _ip: IpAddr, _port: u16) -> bool {
        true
    }

    /// Judges `ip`:`port` for all peers: its packets are the stack's where neither the host's packet filters nor rules of the
    /// configuration have an objection. The worker asks again after [`rules_changed`](crate::WorkerHandle::rules_changed).
    fn judge_port(&mut self, _transport: Transport, _ip: IpAddr, _port: u16) -> Verdict {
        Verdict::default()
    }

    /// Judges a TCP connection that is opened.
    fn judge_connection(&mut self, _local: SocketAddr, _peer: SocketAddr) -> Verdict {
        Verdict::default()
    }

    /// Returns true if the host's packet filters alone let the stack have the packets of `ip`:`port`: rules of the configuration are for
    /// what is new, and what is open goes on.
    fn passes_port(&mut self, transport: Transport, ip: IpAddr, port: u16) -> bool {
        self.judge_port(transport, ip, port).serves()
    }

    /// Returns false if no rule of the configuration says anything of ports or connections.
    fn has_rules(&self) -> bool {
        true
    }

    /// The same as [`passes_port`](Ports::passes_port), of a TCP connection that this host has opened.
    fn passes_connection(&mut self, local: SocketAddr, peer: SocketAddr) -> bool {
        self.judge_connection(local, peer).serves()
    }

    /// Steers new connections to `ip`:`port` of TCP here again after [`leave`](Ports::leave): all flows but those that the kernel has by
    /// now. Returns false if that cannot be; then it is left as before, but for the connections with the peers in `stay`.
    fn take_back(&mut self, _ip: IpAddr, _port: u16, _stay: &[(IpAddr, u16)]) -> bool {
        false
    }

    /// Returns the number of ports that may be reserved; `None`: as many as there are.
    fn reserved_max(&self) -> Option<u64> {
        None
    }

    /// The division of common ports' flows among workers; `None`: there is one worker only.
    fn division(&mut self) -> Option<&mut dyn Division> {
        None
    }
}

/// Divides the flows of a listener among several workers, by flow group.
pub trait Division {
    /// Flow groups of this worker.
    fn groups(&self) -> GroupSet;

    /// Reports the recent load of this worker (0 to 1); a worker that reports nothing for a while counts as asleep.
    /// Returns those of its groups that are better off at another worker.
    fn weigh(&mut self, now: Instant, busy: f64) -> GroupSet;

    /// Hands new connections to listeners in `groups`, which [`weigh`](Division::weigh) has named, to the other worker.
    /// Packets of the connections `kept` still come to this one; they are all that it has in these groups and did not
    /// keep before.
    ///
    /// # Errors
    /// No space for so many; then nothing has changed.
    fn hand_over(&mut self, now: Instant, groups: GroupSet, kept: &[Flow]) -> io::Result<()>;

    /// Keeps packets of `flow` at this worker, like those of connections that were kept when their group was handed
    /// over.
    ///
    /// # Errors
    /// No space.
    fn keep(&mut self, flow: &Flow) -> io::Result<()>;

    /// Forgets a kept connection that is over.
    fn forget(&mut self, flow: &Flow);
}

/// Other requests of a worker to the service. They run in the worker's thread and must never block.
pub trait Host: Send {
    /// Requests the link address of `ip` on `interface`, which has the kernel's neighbor table. The answer comes as
    /// [`WorkerHandle::set_neighbor`](crate::WorkerHandle::set_neighbor).
    fn resolve(&mut self, interface: u32, ip: IpAddr);

    /// Reports a child of an application's process, which holds sockets by `process` from now on: when process `pid`
    /// dies, the service must call [`WorkerHandle::process_gone`](crate::WorkerHandle::process_gone). Spurious if the
    /// application lies.
    fn forked(&mut self, region: RegionId, process: u32, pid: u32);

    /// Names a connection that is to go home and whose program does not give its kernel socket: the service may take it from where it is, and
    /// have it [depart](crate::WorkerHandle::depart). Nothing is known but what the program says.
    fn take(&mut self, _unmoved: Unmoved) {}

    /// The worker has worked lately; told some times a second while it does, and never while it sleeps.
    fn worked(&mut self, _now: Instant) {}
}
