//! Reasons for which sockets stay on the kernel; with RINGWAY_LOG=fallback each is logged. What the service has refused, `ringway ss`
//! shows too.

use crate::Posix;
use ringway_channel::KernelReason;

/// Reason for leaving something to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// The destination or local address is loopback.
    Loopback,
    /// An IPv6 address that is valid on one link only.
    LinkLocal,
    /// A multicast or broadcast address.
    Multicast,
    /// The stack has no route or address for it.
    NotOurs,
    /// The stack's port is taken by another group.
    PortTaken,
    /// No slot, buffer or port was left.
    NoResources,
    /// The descriptor number is beyond the table.
    NumberTooHigh,
    /// The service did not answer a request.
    NoAnswer,
    /// An epoll instance could not watch a socket that became the stack's.
    WatchLost,
    /// The socket has an option that the stack does not serve.
    OptionNotServed,
    /// The program's sockets go through an io_uring.
    IoUring,
    /// The service does not accept the kernel socket as a right to its port: too many are shown, another user has the
    /// same port, or the socket is of another network.
    NotShown,
    /// An option that the stack does not serve was refused on a stream of the stack.
    OptionRefused,
    /// The host's packet filters may not pass all packets of the port or connection.
    Firewall,
    /// BPF programs of the process's cgroup would not see the socket.
    CgroupProgram,
    /// The connection carries bulk data.
    Bulk,
    /// A rule of the configuration leaves it to the kernel.
    Rule,
    /// The service does not know the kernel's own connections of the port yet.
    PortWaits,
    /// A rule of the configuration denies it, to the kernel too.
    Denied,
}

impl From<KernelReason> for Fallback {
    fn from(reason: KernelReason) -> Fallback {
        match reason {
            KernelReason::Firewall => Fallback::Firewall,
            KernelReason::CgroupProgram => Fallback::CgroupProgram,
            KernelReason::NotOurs => Fallback::NotOurs,
            KernelReason::PortTaken => Fallback::PortTaken,
            KernelReason::NoResources => Fallback::NoResources,
            KernelReason::Bulk => Fallback::Bulk,
            KernelReason::Rule => Fallback::Rule,
            KernelReason::PortWaits => Fallback::PortWaits,
        }
    }
}

impl Fallback {
    const ALL: [(Fallback, &'static str); 19] = [
        (Fallback::Loopback, "loopback"),
        (Fallback::LinkLocal, "link-local"),
        (Fallback::Multicast, "multicast"),
        (Fallback::NotOurs, KernelReason::NotOurs.word()),
        (Fallback::PortTaken, KernelReason::PortTaken.word()),
        (Fallback::NoResources, KernelReason::NoResources.word()),
        (Fallback::NumberTooHigh, "number-too-high"),
        (Fallback::NoAnswer, "no-answer"),
        (Fallback::WatchLost, "watch-lost"),
        (Fallback::OptionNotServed, "option-not-served"),
        (Fallback::IoUring, "io-uring"),
        (Fallback::NotShown, "not-shown"),
        (Fallback::OptionRefused, "option-refused"),
        (Fallback::Firewall, KernelReason::Firewall.word()),
        (Fallback::CgroupProgram, KernelReason::CgroupProgram.word()),
        (Fallback::Bulk, KernelReason::Bulk.word()),
        (Fallback::Rule, KernelReason::Rule.word()),
        (Fallback::PortWaits, KernelReason::PortWaits.word()),
        (Fallback::Denied, "denied"),
    ];

    /// The word for the log line.
    pub fn reason(self) -> &'static str {
        Fallback::ALL[self as usize].1
    }
}

impl Posix {
    /// Logs, if configured, what stays on the kernel.
    pub(crate) fn fall_back(&self, call: &str, what: &dyn std::fmt::Display, reason: Fallback) {
        if self.settings.log_fallback {
            self.kernel.say(&format!("ringway: fallback={} {call} {what}", reason.reason()));
        }
    }
}
