//! Ports shared with the kernel: reserved by sockets of ours, steered by the devices' filters.
//!
//! Promises: a port that was given has no other user until it is given back, and comes back when
//! this process dies; packets are steered only while the port has an owner. Does not do: count
//! users (the worker does) or listen (the application's own kernel socket does).

pub(crate) mod division;
pub(crate) mod listeners;
mod load;
pub(crate) mod port_registry;

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use ringway_engine::{Leave, PortError, Ports, Transport, Verdict};
use ringway_shm::Flow;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with};

use division::Share;
use port_registry::{Ownership, WorkerPorts};

use crate::firewall::Gate;

/// Random ports to try before the kernel is asked for any.
const ATTEMPTS: usize = 16;

/// Steers packets of a port to the stack.
pub trait Steering: Send {
    /// Packets to `ip`:`port` come to the stacks of `workers`, one bit each, from now on.
    ///
    /// # Errors
    /// The table is full, or the kernel refuses.
    fn own(&mut self, transport: Transport, ip: IpAddr, port: u16, workers: u32) -> io::Result<()>;

    /// Datagrams to `group`:`port` come to the stacks of `workers` from now on, and to the kernel too.
    ///
    /// # Errors
    /// The table is full, or the kernel refuses.
    fn own_copies(&mut self, group: IpAddr, port: u16, workers: u32) -> io::Result<()> {
        self.own(Transport::Udp, group, port, workers)
    }

    /// Packets to `ip`:`port` are the kernel's again.
    ///
    /// # Errors
    /// The kernel refuses.
    fn release(&mut self, transport: Transport, ip: IpAddr, port: u16) -> io::Result<()>;

    /// Packets of this flow of TCP are the kernel's from now on, although its port is owned.
    ///
    /// # Errors
    /// There are too many such flows, or no kernel shares the interface: the flow stays the stacks'.
    fn leave_flow(&mut self, flow: &Flow) -> io::Result<()>;

    /// The flow is the stacks' again. Nothing happens to one that was not left to the kernel.
    ///
    /// # Errors
    /// The kernel refuses.
    fn retake_flow(&mut self, flow: &Flow) -> io::Result<()>;

    /// New connections to `ip`:`port` of TCP are the kernel's from now on, although the port is owned: all flows but those to the
    /// peers in `stay`, until the port is released.
    ///
    /// # Errors
    /// There are too many of them, or no kernel shares the interface: nothing has changed.
    fn leave_port(&mut self, ip: IpAddr, port: u16, stay: &[(IpAddr, u16)]) -> io::Result<()>;

    /// Ends [`leave_port`](Steering::leave_port); its packets come to no stack until `own`, and those of the kernel's known flows to
    /// the kernel.
    ///
    /// # Errors
    /// The kernel refuses.
    fn retake_port(&mut self, ip: IpAddr, port: u16) -> io::Result<()>;

    /// Packets of all connections of TCP that the kernel has at `ip`:`port` are the kernel's from now on. Returns false where there are
    /// more than `most` or than there is room for; then nothing has changed.
    ///
    /// # Errors
    /// The kernel does not say which it has; nothing has changed.
    ///
    /// # Blocking
    /// Some hundred microseconds, and two for each connection.
    fn leave_connections(&mut self, ip: IpAddr, port: u16, most: usize) -> io::Result<bool>;

    /// Takes back flows whose kernel socket is gone, some of them with each call; returns how many flows the kernel still has.
    ///
    /// # Errors
    /// The kernel does not say which sockets it has.
    ///
    /// # Blocking
    /// Some milliseconds.
    fn sweep(&mut self) -> io::Result<usize>;

    /// Number of flows that are left to the kernel.
    fn kernel_flows(&self) -> usize {
        0
    }
}

/// Where no kernel competes for packets: a device of its own.
pub struct NoSteering;

impl Steering for NoSteering {
    fn own(&mut self, _: Transport, _: IpAddr, _: u16, _: u32) -> io::Result<()> {
        Ok(())
    }

    fn release(&mut self, _: Transport, _: IpAddr, _: u16) -> io::Result<()> {
        Ok(())
    }

    fn leave_flow(&mut self, _: &Flow) -> io::Result<()> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "no packet of this interface can reach the kernel"))
    }

    fn retake_flow(&mut self, _: &Flow) -> io::Result<()> {
        Ok(())
    }

    fn leave_port(&mut self, _: IpAddr, _: u16, _: &[(IpAddr, u16)]) -> io::Result<()> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "no packet of this interface can reach the kernel"))
    }

    fn retake_port(&mut self, _: IpAddr, _: u16) -> io::Result<()> {
        Ok(())
    }

    fn leave_connections(&mut self, _: IpAddr, _: u16, _: usize) -> io::Result<bool> {
        Ok(true)
    }

    fn sweep(&mut self) -> io::Result<usize> {
        Ok(0)
    }
}

/// Ports of the machine's addresses, and of addresses that only the stack has.
pub struct SharedPorts {
    registry: WorkerPorts,
    /// `None`: there are no other workers, or nothing moves between them.
    division: Option<Share>,
    /// `None`: no request is made.
    gate: Option<Gate>,
    /// A bound socket keeps the kernel from giving the port to any other program.
    reserved: HashMap<(IpAddr, u16), OwnedFd>,
    /// Descriptors that may be spent so: others are needed for attaching, devices and what programs show.
    reserved_max: usize,
    /// Addresses that the kernel does not have (tap).
    own_addresses: HashSet<IpAddr>,
    /// The stack makes its IPv6 addresses itself: the kernel has none of them.
    own_ipv6: bool,
    own_reserved: HashSet<(IpAddr, u16)>,
    ephemeral: (u16, u16),
    next: u16,
    /// Ephemeral ports of the kernel's addresses.
    shared: (u16, u16),
    /// Of the kernel's addresses: where the next search for a free port starts.
    random: u64,
}

impl SharedPorts {
    /// `own_addresses`: those that the kernel does not have; their ephemeral ports are taken from
    /// `ephemeral`, starting somewhere that `seed` says.
    pub(crate) fn new(registry: WorkerPorts, own_addresses: HashSet<IpAddr>, ephemeral: (u16, u16), seed: u64) -> SharedPorts {
        let count = u64::from(ephemeral.1 - ephemeral.0) + 1;
        let next = ephemeral.0 + (seed % count) as u16;
        SharedPorts {
            registry,
            division: None,
            gate: None,
            reserved: HashMap::new(),
            reserved_max: descriptor_limit() / 4 * 3,
            own_addresses,
            own_ipv6: false,
            own_reserved: HashSet::new(),
            ephemeral,
            next,
            shared: kernel_range().unwrap_or(ephemeral),
            random: seed,
        }
    }

    /// Not as many as the descriptors of this process allow, but so many ports are reserved at most, if that is said.
    pub(crate) fn limited(self, most: Option<u64>) -> SharedPorts {
        SharedPorts { reserved_max: most.map_or(self.reserved_max, |most| most as usize), ..self }
    }

    /// All IPv6 addresses are such that the kernel does not have them.
    pub fn with_own_ipv6(self) -> SharedPorts {
        SharedPorts { own_ipv6: true, ..self }
    }

    /// The host's firewall is asked what may be served.
    pub(crate) fn behind(self, gate: Gate) -> SharedPorts {
        SharedPorts { gate: Some(gate), ..self }
    }

    /// Flow groups may be handed over to other workers.
    pub(crate) fn divided(self, share: Option<Share>) -> SharedPorts {
        SharedPorts { division: share, ..self }
    }

    fn is_own(&self, ip: IpAddr) -> bool {
        self.own_addresses.contains(&ip) || self.own_ipv6 && ip.is_ipv6() && !ip.is_unspecified() && !ip.is_loopback()
    }

    /// A random free port of the kernel's range. The kernel itself searches one by one when it is asked
    /// for any port, which takes milliseconds when half of them are taken.
    fn bind_any(&mut self, ip: IpAddr) -> Result<(OwnedFd, u16), Errno> {
        let (first, last) = self.shared;
        for _ in 0..ATTEMPTS {
            // A linear congruential generator spreads well enough: what protects a connection is its ISN.
            self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let candidate = first + ((self.random >> 33) % (u64::from(last - first) + 1)) as u16;
            match bind_socket(ip, candidate) {
                Err(Errno::ADDRINUSE | Errno::ACCESS) => {}
                found => return found,
            }
        }
        bind_socket(ip, 0)
    }

    /// Owns a port; one of which the kernel has many connections waits until the service has told the filters of them: see [`Gate`].
    fn own_or_wait(&mut self, (transport, ip, port): (Transport, IpAddr, u16), ownership: Ownership) -> Result<(), PortError> {
        let gate = self.gate.as_ref().filter(|_| transport == Transport::Tcp);
        if gate.is_some_and(|gate| gate.waits(ip, port)) {
            return Err(PortError::Waits);
        }
        let owned = self.registry.own(transport, ip, port, ownership);
        // Ports of connections come and go by the thousand.
        if owned.is_ok() && !(self.ephemeral.0..=self.ephemeral.1).contains(&port) {
            tracing::debug!(target: "ringway::steering", "{transport:?} {} is a worker's", SocketAddr::new(ip, port));
        }
        match gate {
            Some(gate) if owned == Err(PortError::Waits) => gate.hold_port(ip, port),
            _ => {}
        }
        owned
    }

    fn reserve_own(&mut self, ip: IpAddr, port: u16) -> Result<u16, PortError> {
        if port != 0 {
            return if self.own_reserved.insert((ip, port)) { Ok(port) } else { Err(PortError::InUse) };
        }
        let (first, last) = self.ephemeral;
        for _ in first..=last {
            let candidate = self.next;
            self.next = if candidate == last { first } else { candidate + 1 };
            if self.own_reserved.insert((ip, candidate)) {
                return Ok(candidate);
            }
        }
        Err(PortError::InUse)
    }
}

impl Ports for SharedPorts {
    fn reserve(&mut self, ip: IpAddr, port: u16) -> Result<u16, PortError> {
        if self.is_own(ip) {
            return self.reserve_own(ip, port);
        }
        if self.reserved.len() >= self.reserved_max {
            return Err(PortError::NoSteering);
        }
        let bound = if port == 0 { self.bind_any(ip) } else { bind_socket(ip, port) };
        let (socket, port) = bound.map_err(|error| match error {
            Errno::ADDRNOTAVAIL => PortError::NotLocal,
            _ => PortError::InUse,
        })?;
        self.reserved.insert((ip, port), socket);
        Ok(port)
    }

    fn release(&mut self, ip: IpAddr, port: u16) {
        self.own_reserved.remove(&(ip, port));
        self.reserved.remove(&(ip, port));
    }

    fn own(&mut self, transport: Transport, ip: IpAddr, port: u16) -> Result<(), PortError> {
        if self.is_own(ip) {
            return Ok(());
        }
        let is_new = self.reserved.contains_key(&(ip, port));
        self.own_or_wait((transport, ip, port), if is_new { Ownership::New } else { Ownership::Sole })
    }

    fn own_share(&mut self, transport: Transport, ip: IpAddr, port: u16) -> Result<(), PortError> {
        if self.is_own(ip) {
            return Ok(());
        }
        self.own_or_wait((transport, ip, port), Ownership::Shared)
    }

    fn own_copies(&mut self, group: IpAddr, port: u16) -> Result<(), PortError> {
        self.registry.own(Transport::Udp, group, port, Ownership::Copies)
    }

    fn disown(&mut self, transport: Transport, ip: IpAddr, port: u16) {
        if self.is_own(ip) {
            return;
        }
        if let Err(error) = self.registry.disown(transport, ip, port) {
            tracing::warn!(target: "ringway::steering", "packets to {} may still be kept from the kernel: {error}",
                SocketAddr::new(ip, port));
        }
    }

    fn leave(&mut self, ip: IpAddr, port: u16, stay: &[(IpAddr, u16)]) -> Leave {
        if self.is_own(ip) { Leave::Refused } else { self.registry.leave(ip, port, stay) }
    }

    fn has_left(&mut self, ip: IpAddr, port: u16) -> bool {
        self.registry.has_left(ip, port)
    }

    fn stay(&mut self, ip: IpAddr, port: u16) -> bool {
        self.registry.stay(ip, port)
    }

    fn judge_port(&mut self, transport: Transport, ip: IpAddr, port: u16) -> Verdict {
        match &self.gate {
            None => Verdict::default(),
            Some(gate) if self.is_own(ip) => unknown_to_the_kernel(gate.policy().rules().judge_port(transport, ip, port)),
            Some(gate) => gate.judge_port(transport, ip, port),
        }
    }

    fn judge_connection(&mut self, local: SocketAddr, peer: SocketAddr) -> Verdict {
        match &self.gate {
            None => Verdict::default(),
            Some(gate) if self.is_own(local.ip()) => unknown_to_the_kernel(gate.policy().rules().judge_connection(local, peer)),
            Some(gate) => gate.judge_connection(local, peer),
        }
    }

    fn passes_port(&mut self, transport: Transport, ip: IpAddr, port: u16) -> bool {
        let gate = self.gate.as_ref().filter(|_| !self.is_own(ip));
        gate.is_none_or(|gate| gate.objection_to_port(transport, ip, port).is_none())
    }

    fn passes_connection(&mut self, local: SocketAddr, peer: SocketAddr) -> bool {
        let gate = self.gate.as_ref().filter(|_| !self.is_own(local.ip()));
        gate.is_none_or(|gate| gate.objection_to_connection(local, peer).is_none())
    }

    fn has_rules(&self) -> bool {
        self.gate.as_ref().is_some_and(|gate| gate.policy().rules().names_packets())
    }

    fn take_back(&mut self, ip: IpAddr, port: u16, stay: &[(IpAddr, u16)]) -> bool {
        !self.is_own(ip) && self.registry.take_back(ip, port, stay)
    }

    fn reserved_max(&self) -> Option<u64> {
        Some(self.reserved_max as u64)
    }

    fn division(&mut self) -> Option<&mut dyn ringway_engine::Division> {
        self.division.as_mut().map(|share| share as &mut dyn ringway_engine::Division)
    }
}

/// The verdict on an address that the kernel does not have, so that it cannot serve it either.
fn unknown_to_the_kernel(verdict: Verdict) -> Verdict {
    if let Verdict::Kernel(_) = verdict { Verdict::default() } else { verdict }
}

/// Descriptors that this process may have.
fn descriptor_limit() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

/// The range that connections of this network namespace take their ports from.
fn kernel_range() -> Option<(u16, u16)> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut words = text.split_whitespace().map(str::parse);
    let range = (words.next()?.ok()?, words.next()?.ok()?);
    (range.0 <= range.1).then_some(range)
}

/// A kernel socket that is bound and does nothing else.
fn bind_socket(ip: IpAddr, port: u16) -> Result<(OwnedFd, u16), Errno> {
    let family = if ip.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    bind(&socket, &SocketAddr::new(ip, port))?;
    let bound = SocketAddr::try_from(getsockname(&socket)?)?;
    Ok((socket, bound.port()))
}

#[cfg(test)]
mod tests;
