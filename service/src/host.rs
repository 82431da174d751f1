//! The service's help for workers: neighbors from the kernel, and an eye on new processes.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use ringway_engine::{Host, RegionId, Unmoved};
use ringway_shm::{Duration, Instant};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use crate::follow::Served;
use crate::netlink::NeighborResolver;

/// So often the broker hears that a worker works.
const LOOK_AGAIN: Duration = Duration::from_millis(2_000);

/// A child that a process of an application group has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fork {
    pub(crate) region: RegionId,
    pub(crate) process: u32,
    /// 0: fork has failed.
    pub(crate) pid: u32,
}

/// Forks on their way from a worker to the broker, and sockets that programs do not give.
#[derive(Clone)]
pub(crate) struct Forks {
    queue: Arc<Mutex<Vec<Fork>>>,
    unmoved: Arc<Mutex<Vec<Unmoved>>>,
    wake_fd: Arc<OwnedFd>,
    worked: Arc<AtomicBool>,
}

impl Forks {
    pub(crate) fn new() -> io::Result<Forks> {
        let wake_fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Forks { queue: Arc::default(), unmoved: Arc::default(), wake_fd: Arc::new(wake_fd), worked: Arc::default() })
    }

    pub(crate) fn push(&self, fork: Fork) {
        self.queue.lock().expect("nobody panics while holding it").push(fork);
        self.ring();
    }

    /// The worker has worked: what applications may do is looked at again.
    pub(crate) fn note_work(&self) {
        self.worked.store(true, Ordering::Release);
        self.ring();
    }

    /// Returns true if it has since the last time.
    pub(crate) fn has_worked(&self) -> bool {
        self.worked.swap(false, Ordering::Acquire)
    }

    fn ring(&self) {
        match rustix::io::write(&*self.wake_fd, &1u64.to_ne_bytes()) {
            // Full: it is readable already.
            Ok(_) | Err(Errno::AGAIN) => {}
            Err(error) => tracing::warn!(target: "ringway::attach", "the broker cannot be woken: {error}"),
        }
    }

    /// Everything pushed since the last time.
    pub(crate) fn take(&self) -> Vec<Fork> {
        let mut count = [0; 8];
        match rustix::io::read(&*self.wake_fd, &mut count) {
            Ok(_) | Err(Errno::AGAIN) => {}
            Err(error) => tracing::warn!(target: "ringway::attach", "an eventfd cannot be read: {error}"),
        }
        std::mem::take(&mut *self.queue.lock().expect("nobody panics while holding it"))
    }

    fn push_unmoved(&self, unmoved: Unmoved) {
        self.unmoved.lock().expect("nobody panics while holding it").push(unmoved);
        self.ring();
    }

    /// Every socket pushed since the last time.
    pub(crate) fn take_unmoved(&self) -> Vec<Unmoved> {
        std::mem::take(&mut *self.unmoved.lock().expect("nobody panics while holding it"))
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
    /// When the broker hears again that the worker works.
    tell_at: Instant,
}

impl ServiceHost {
    pub(crate) fn open(served: Served, forks: Forks) -> io::Result<ServiceHost> {
        Ok(ServiceHost { resolver: NeighborResolver::open()?, served, forks, tell_at: Instant::ZERO })
    }
}

impl Host for ServiceHost {
    fn resolve(&mut self, interface: u32, ip: IpAddr) {
        let Some(link) = self.served.link(interface) else { return };
        if let Err(error) = self.resolver.resolve(link, ip) {
            tracing::warn!(target: "ringway::interface", "the kernel does not resolve {ip}: {error}");
        }
    }

    fn forked(&mut self, region: RegionId, process: u32, pid: u32) {
        self.forks.push(Fork { region, process, pid });
    }

    fn take(&mut self, unmoved: Unmoved) {
        self.forks.push_unmoved(unmoved);
    }

    fn worked(&mut self, now: Instant) {
        if now >= self.tell_at {
            self.tell_at = now + LOOK_AGAIN;
            self.forks.note_work();
            self.served.note_work();
        }
    }
}
