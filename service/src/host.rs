//! The service's help for workers: neighbors from the kernel, and an eye on new processes.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

use ringway::{Host, RegionId};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use crate::follow::Served;
use crate::netlink::NeighborResolver;

/// A child that a process of an application group has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fork {
    pub(crate) region: RegionId,
    pub(crate) process: u32,
    /// 0: fork has failed.
    pub(crate) pid: u32,
}

/// Forks on their way from a worker to the broker.
#[derive(Clone)]
pub(crate) struct Forks {
    queue: Arc<Mutex<Vec<Fork>>>,
    wake_fd: Arc<OwnedFd>,
}

impl Forks {
    pub(crate) fn new() -> io::Result<Forks> {
        let wake_fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Forks { queue: Arc::default(), wake_fd: Arc::new(wake_fd) })
    }

    pub(crate) fn push(&self, fork: Fork) {
        self.queue.lock().expect("nobody panics while holding it").push(fork);
        match rustix::io::write(&*self.wake_fd, &1u64.to_ne_bytes()) {
            // Full: it is readable already.
            Ok(_) | Err(Errno::AGAIN) => {}
            Err(error) => ringway::notice::notice(&format!("the broker cannot be woken: {error}")),
        }
    }

    /// Everything pushed since the last time.
    pub(crate) fn take(&self) -> Vec<Fork> {
        let mut count = [0; 8];
        match rustix::io::read(&*self.wake_fd, &mut count) {
            Ok(_) | Err(Errno::AGAIN) => {}
            Err(error) => ringway::notice::notice(&format!("an eventfd cannot be read: {error}")),
        }
        std::mem::take(&mut *self.queue.lock().expect("nobody panics while holding it"))
    }

    /// Readable when something was pushed.
    pub(crate) fn wait_fd(&self) -> BorrowedFd<'_> {
        self.wake_fd.as_fd()
    }
}

/// The service as a worker sees it.
pub(crate) struct ServiceHost {
    resolver: NeighborResolver,
    served: Served,
    forks: Forks,
}

impl ServiceHost {
    pub(crate) fn open(served: Served, forks: Forks) -> io::Result<ServiceHost> {
        Ok(ServiceHost { resolver: NeighborResolver::open()?, served, forks })
    }
}

impl Host for ServiceHost {
    fn resolve(&mut self, interface: u32, ip: IpAddr) {
        let Some(link) = self.served.link(interface) else { return };
        if let Err(error) = self.resolver.resolve(link, ip) {
            ringway::notice::notice(&format!("the kernel does not resolve {ip}: {error}"));
        }
    }

    fn forked(&mut self, region: RegionId, process: u32, pid: u32) {
        self.forks.push(Fork { region, process, pid });
    }
}
