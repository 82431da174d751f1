//! Who serves in a measurement, over which wire.

use clap::ValueEnum;

/// Who serves. The program, the requests and the replies are the same for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Target {
    /// The kernel's stack, edge-triggered epoll; what ratios are to
    Linux,
    /// The same, never sleeping in epoll
    LinuxSpin,
    /// The same server by io_uring
    LinuxUring,
    /// The same program as `linux`, unmodified, under `ringway run`
    Preload,
    /// The server and the stack in one loop, by the native API
    Embedded,
    /// The server in a process of its own, by the native API through a channel
    Service,
}

/// What joins client and server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WireKind {
    /// Two network namespaces and a veth pair
    Veth,
    /// A TAP interface: the server is the neighbor of this machine's kernel
    Tap,
    /// Shared memory between two processes, Ringway at both ends
    Memory,
}

/// Whose stack the client stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ClientStack {
    /// The kernel's
    Kernel,
    /// Ringway's, embedded
    Ringway,
}

impl Target {
    /// As it is written on the command line and in rows.
    pub fn name(self) -> String {
        name(self)
    }

    /// Whether the kernel's TCP serves.
    pub fn is_the_kernels(self) -> bool {
        matches!(self, Target::Linux | Target::LinuxSpin | Target::LinuxUring)
    }

    /// Whether a machine may be without it; then rows say so.
    pub fn may_be_missing(self) -> bool {
        self == Target::LinuxUring
    }

    /// Whether it can have a worker on each of several cores.
    pub fn has_workers(self) -> bool {
        !matches!(self, Target::Preload | Target::Service)
    }

    /// Whether it is measured when no target is named.
    pub fn is_usual(self) -> bool {
        !matches!(self, Target::LinuxSpin | Target::LinuxUring)
    }
}

impl WireKind {
    /// As it is written on the command line and in rows.
    pub fn name(self) -> String {
        name(self)
    }

    /// Who can serve over it, in the order in which they take turns.
    pub fn targets(self) -> &'static [Target] {
        match self {
            WireKind::Veth => {
                &[Target::Linux, Target::LinuxSpin, Target::LinuxUring, Target::Preload, Target::Service, Target::Embedded]
            }
            WireKind::Tap | WireKind::Memory => &[Target::Embedded],
        }
    }

    /// Whose clients it takes.
    pub fn clients(self) -> &'static [ClientStack] {
        match self {
            WireKind::Veth => &[ClientStack::Kernel, ClientStack::Ringway],
            WireKind::Tap => &[ClientStack::Kernel],
            WireKind::Memory => &[ClientStack::Ringway],
        }
    }

    /// Whose client it takes when none is named.
    pub fn usual_client(self) -> ClientStack {
        self.clients()[0]
    }
}

impl ClientStack {
    /// As it is written on the command line and in rows.
    pub fn name(self) -> String {
        name(self)
    }
}

fn name(value: impl ValueEnum) -> String {
    value.to_possible_value().expect("no value is hidden").get_name().to_string()
}
