//! The words of `path:kernel reason:WORD`, in sentences. `packaging/ringway.7` has them at more length.

use ringway_shm::channel::KernelReason;

/// Why, and what can be done.
pub(super) const fn of(reason: KernelReason) -> (&'static str, &'static str) {
    match reason {
        KernelReason::Firewall => (
            "a packet filter or a rule of the configuration may refuse some of the packets, or the port waits for the kernel's connections",
            "`ringway doctor` names the chain, `ringway config show` the rules",
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
    }
}
