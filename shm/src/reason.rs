//! Why the kernel serves a socket although its program runs on Ringway: the words that programs' logs, the service and `ringway ss` share.
//!
//! Does not do: reasons that only a program's library knows; they are its own.

/// A reason of the service's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelReason {
    /// The host's packet filters may refuse or change some of the packets.
    Firewall = 1,
    /// BPF programs of a process's cgroup would not see the socket.
    CgroupProgram = 2,
    /// No interface that is served has such an address; the service says why an interface is not served, as for programs of others at it.
    NotOurs = 3,
    /// The port is in use.
    PortTaken = 4,
    /// A limit or quota is reached.
    NoResources = 5,
    /// The connection carries bulk data (`policy.bulk`).
    Bulk = 6,
    /// A rule of the configuration says so.
    Rule = 7,
    /// The service does not know the kernel's own connections of the port yet.
    PortWaits = 8,
}

impl KernelReason {
    /// All of them.
    pub const ALL: [KernelReason; 8] = [
        KernelReason::Firewall,
        KernelReason::CgroupProgram,
        KernelReason::NotOurs,
        KernelReason::PortTaken,
        KernelReason::NoResources,
        KernelReason::Bulk,
        KernelReason::Rule,
        KernelReason::PortWaits,
    ];

    /// The word for people.
    pub const fn word(self) -> &'static str {
        match self {
            KernelReason::Firewall => "firewall",
            KernelReason::CgroupProgram => "cgroup-bpf",
            KernelReason::NotOurs => "not-ours",
            KernelReason::PortTaken => "port-taken",
            KernelReason::NoResources => "no-resources",
            KernelReason::Bulk => "bulk",
            KernelReason::Rule => "rule",
            KernelReason::PortWaits => "port-waits",
        }
    }

    /// The reason with this number.
    pub(crate) fn of(number: u32) -> Option<KernelReason> {
        KernelReason::ALL.into_iter().find(|reason| *reason as u32 == number)
    }
}

/// What is known of a socket that the kernel serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelPath {
    /// Why.
    pub reason: KernelReason,
    /// How often such a socket was wanted.
    pub count: u32,
}
