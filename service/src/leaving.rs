//! All sockets of programs go home to the kernel: the end of a service that is told to end. See docs/handover.md.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread::{Builder, JoinHandle, scope};

use ringway_engine::WorkerHandle;
use rustix::event::{EventfdFlags, eventfd};

use crate::config::Config;
use crate::workers::Workers;

/// Sockets are on their way home.
pub struct HandingOver {
    done: OwnedFd,
    thread: JoinHandle<u32>,
}

impl HandingOver {
    /// Starts it: connections that have not ended by themselves after `service.drain_s` go home, for `service.handover_s` at most.
    pub(crate) fn start(workers: Workers, config: &Config) -> io::Result<HandingOver> {
        let done = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (ring, drain, limit) = (done.try_clone()?, config.drain, config.handover);
        let thread = Builder::new().name("ringway-leave".to_owned()).spawn(move || {
            let stay: u32 = scope(|scope| {
                // A worker that has stopped has reset its connections.
                let leave = |worker: WorkerHandle| worker.leave(drain, limit).map_or(0, |left| left.connections);
                let threads: Vec<_> = workers.each().iter().cloned().map(|worker| scope.spawn(move || leave(worker))).collect();
                threads.into_iter().map(|thread| thread.join().unwrap_or(0)).sum()
            });
            // Before, a worker that is late could be without a listener while packets still come to it: it would answer with resets.
            workers.each().iter().for_each(|worker| worker.leave_ports().unwrap_or_default());
            // A full counter has been rung.
            rustix::io::write(&ring, &1u64.to_ne_bytes()).ok();
            stay
        })?;
        Ok(HandingOver { done, thread })
    }

    /// Readable when it is over.
    pub fn done_fd(&self) -> BorrowedFd<'_> {
        self.done.as_fd()
    }

    /// Returns how many connections of programs stay.
    ///
    /// # Blocking
    /// Until it is over.
    pub fn finish(self) -> u32 {
        self.thread.join().unwrap_or(0)
    }
}
