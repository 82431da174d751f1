//! What a worker asks of whoever shares the machine's addresses with the kernel: ports to reserve,
//! packets to steer, neighbors to resolve. The service answers; tests answer with a mock.

use std::net::IpAddr;

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

    /// From now on packets to `ip`:`port` reach the worker's devices, and not the kernel's TCP.
    ///
    /// # Errors
    /// See [`PortError`].
    fn own(&mut self, ip: IpAddr, port: u16) -> Result<(), PortError>;

    /// Packets to `ip`:`port` are the kernel's again.
    fn disown(&mut self, ip: IpAddr, port: u16);
}

/// Resolves neighbors on interfaces whose neighbor table is the kernel's.
pub trait Resolver: Send {
    /// Asks for the link address of `ip` on `interface`; the answer comes as
    /// [`WorkerHandle::set_neighbor`](crate::WorkerHandle::set_neighbor). Never blocks.
    fn resolve(&mut self, interface: u32, ip: IpAddr);
}
