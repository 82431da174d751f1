//! The words of `path:kernel reason:WORD`, in sentences. `packaging/ringway.7` has them at more length.

use ringway_channel::KernelReason;

/// Why, and what can be done.
pub(super) const fn of(reason: KernelReason) -> (&'static str, &'static str) {
    match reason {
        KernelReason::Firewall => (
            "a packet filter of the host may refuse or change some of the packets",
            "`ringway doctor` names the chain; policy.firewall",
        ),
        KernelReason::CgroupProgram => (
            "BPF programs of the process's cgroup would not see the packets",
            "start it in a cgroup without IPAddressDeny= and its like",
        ),
        KernelReason::NotOurs => {
            ("no interface that is served has the address", "`ringway doctor` says why an interface is not served")
        }
        KernelReason::PortTaken => {
            ("another worker, program or connection has the port", "none, where it is shared; else `ringway ss -anp`")
        }
        KernelReason::NoResources => {
            ("a limit is reached, or packets cannot be steered", "`ringway ss -s` shows limits and hits")
        }
        KernelReason::Bulk => (
            "the connection carries bulk data, and policy.bulk lets the kernel go on with such",
            "none is needed; policy.bulk = \"stack\"",
        ),
        KernelReason::Rule => ("a rule of the configuration leaves it to the kernel", "`ringway config show` has the rules"),
        KernelReason::PortWaits => (
            "the service does not know yet which connections of the port the kernel has",
            "none is needed; it lasts for a moment",
        ),
    }
}
