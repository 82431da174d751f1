//! The failure that tells a program why the kernel serves its socket, and the reason that a failure tells.

use ringway_shm::reason::KernelReason;

use crate::Failure;

impl From<KernelReason> for Failure {
    fn from(reason: KernelReason) -> Failure {
        match reason {
            KernelReason::Firewall => Failure::Guarded,
            KernelReason::CgroupProgram => Failure::CgroupProgram,
            KernelReason::Rule => Failure::Rule,
            KernelReason::PortWaits => Failure::PortWaits,
            KernelReason::PortTaken => Failure::InUse,
            KernelReason::NotOurs => Failure::NotOurs,
            KernelReason::NoResources | KernelReason::Bulk => Failure::NoResources,
        }
    }
}

impl Failure {
    /// Why the kernel serves the socket, where rules of the machine say so.
    pub const fn kernel_reason(self) -> Option<KernelReason> {
        match self {
            Failure::Guarded => Some(KernelReason::Firewall),
            Failure::CgroupProgram => Some(KernelReason::CgroupProgram),
            Failure::Rule => Some(KernelReason::Rule),
            Failure::PortWaits => Some(KernelReason::PortWaits),
            Failure::NotOurs => Some(KernelReason::NotOurs),
            _ => None,
        }
    }
}
