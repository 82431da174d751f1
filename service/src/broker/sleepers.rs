//! Kernel sockets of programs that do not give them, as none of their threads runs code of the library's: the service takes them out of the processes
//! (pidfd_getfd(2)), where the configuration allows it (`service.take_sockets`).

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use ringway_channel::ProcessDescriptor;
use ringway_engine::Unmoved;
use rustix::io::Errno;
use rustix::process::{PidfdGetfdFlags, pidfd_getfd};

use super::Broker;
use super::handovers::{HandedOver, KernelSocket, Task};
use super::members::ProcessKey;

impl Broker {
    /// Has the kernel go on with the connections that the worker has named.
    pub(super) fn take_unmoved(&mut self) {
        let unmoved = self.config.forks.take_unmoved();
        if !self.config.handovers.takes() {
            return;
        }
        let mut pidfds = BTreeMap::new();
        for Unmoved { region, slot, place } in unmoved {
            let process = ProcessKey { region, index: place.process };
            let pidfd = pidfds.entry(process).or_insert_with(|| self.members.pidfd(process).map(Arc::new));
            // A process that is not watched has died, or never was.
            let Some(pidfd) = pidfd.clone() else { continue };
            let (worker, socket) = (self.config.worker.clone(), KernelSocket::Held(pidfd, place));
            let taken = HandedOver { control: None, worker, region, slot, socket };
            if let Err(text) = self.config.handovers.begin(self.members.owner(region), Task::Home(taken)) {
                tracing::warn!(target: "ringway::handover", "a socket stays with the stack: {text}");
            }
        }
    }
}

/// The descriptor that the process has in this place.
pub(super) fn take(pidfd: &OwnedFd, place: ProcessDescriptor) -> io::Result<OwnedFd> {
    let number = i32::try_from(place.number).map_err(|_| io::ErrorKind::InvalidInput)?;
    pidfd_getfd(pidfd, number, PidfdGetfdFlags::empty()).map_err(|error| match error {
        Errno::PERM => io::Error::new(
            io::ErrorKind::PermissionDenied,
            "without CAP_SYS_PTRACE the service may not take it out of the program",
        ),
        error => error.into(),
    })
}
