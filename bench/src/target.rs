//! The targets of a measurement, and the wires.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// A server and its stack. The program, the requests and the replies are the same for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum Target {
    /// The kernel's stack, edge-triggered epoll; the reference of ratios
    Linux,
    /// The same, polling epoll without sleeping
    LinuxSpin,
    /// The same server with io_uring
    LinuxUring,
    /// The program of `linux`, unmodified, under `ringway run`
    Preload,
    /// The same, with `policy.bulk = "kernel"`: connections with bulk data go to the kernel
    PreloadBulk,
    /// The server and the stack in one loop, with the native API
    Embedded,
    /// The server in another process than the service, with the native API through a channel
    Service,
    /// A server with mTCP's interface (`libmtcp.so`) under `ringway run`
    Mtcp,
    /// The same with F-Stack's, on a kqueue
    Fstack,
}

/// The link between client and server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WireKind {
    /// Two network namespaces and a veth pair
    Veth,
    /// A TAP interface: the server is the neighbor of this machine's kernel
    Tap,
    /// Shared memory between two processes, Ringway at both ends
    Memory,
}

/// The client's stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ClientStack {
    /// The kernel's stack
    Kernel,
    /// Ringway's stack, embedded
    Ringway,
}

impl Target {
    /// Name on the command line and in rows.
    pub fn name(self) -> String {
        name(self)
    }

    /// Returns true when the kernel's TCP serves.
    pub fn is_the_kernels(self) -> bool {
        matches!(self, Target::Linux | Target::LinuxSpin | Target::LinuxUring)
    }

    /// Returns true when all packets must be Ringway's.
    pub fn is_ringways_alone(self) -> bool {
        !self.is_the_kernels() && self != Target::PreloadBulk
    }

    /// Returns true when a machine may lack it; its rows then say so.
    pub fn may_be_missing(self) -> bool {
        self == Target::LinuxUring
    }

    /// Returns true when it can have a worker on each of several cores.
    pub fn has_workers(self) -> bool {
        !self.has_service()
    }

    /// Returns true when it is a program of a service.
    pub(crate) fn has_service(self) -> bool {
        matches!(self, Target::Preload | Target::PreloadBulk | Target::Service | Target::Mtcp | Target::Fstack)
    }

    /// Returns true when it needs no address of its own on another machine's network.
    pub(crate) fn can_be_distant(self) -> bool {
        self != Target::Embedded
    }

    /// Returns true when it is measured by default.
    pub fn is_usual(self) -> bool {
        !matches!(self, Target::LinuxSpin | Target::LinuxUring | Target::PreloadBulk | Target::Mtcp | Target::Fstack)
    }
}

impl WireKind {
    /// Name on the command line and in rows.
    pub fn name(self) -> String {
        name(self)
    }

    /// The targets of this wire, in the order of their turns.
    pub fn targets(self) -> &'static [Target] {
        match self {
            WireKind::Veth => &[
                Target::Linux,
                Target::LinuxSpin,
                Target::LinuxUring,
                Target::Preload,
                Target::PreloadBulk,
                Target::Mtcp,
                Target::Fstack,
                Target::Service,
                Target::Embedded,
            ],
            WireKind::Tap | WireKind::Memory => &[Target::Embedded],
        }
    }

    /// The client stacks of this wire.
    pub fn clients(self) -> &'static [ClientStack] {
        match self {
            WireKind::Veth => &[ClientStack::Kernel, ClientStack::Ringway],
            WireKind::Tap => &[ClientStack::Kernel],
            WireKind::Memory => &[ClientStack::Ringway],
        }
    }

    /// The default client stack.
    pub fn usual_client(self) -> ClientStack {
        self.clients()[0]
    }
}

impl ClientStack {
    /// Name on the command line and in rows.
    pub fn name(self) -> String {
        name(self)
    }
}

fn name(value: impl ValueEnum) -> String {
    value.to_possible_value().expect("no value is hidden").get_name().to_string()
}
