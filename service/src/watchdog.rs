//! Tells a supervisor that every worker still works, as long as that is so.
//!
//! Promises: between two signs each worker has answered a command in a turn of its own; a worker that sleeps is woken for it, one
//! that is stuck keeps the sign from coming. Does not do: repair; the supervisor ends the process (sd_notify(3), WATCHDOG=1).

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use ringway_engine::WorkerHandle;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::privileges;
use crate::workers::Workers;

/// Starts the thread that asks the workers once in `interval` and calls `tell` when all have answered; it ends when `stop` is
/// readable or a worker is gone.
///
/// # Errors
/// There is no thread.
pub(crate) fn start(
    workers: Workers,
    interval: Duration,
    stop: Arc<OwnedFd>,
    tell: impl FnMut() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let all_work = move || workers.each().iter().map(WorkerHandle::settle).all(|answer| answer.is_ok());
    privileges::spawn_without("ringway-watchdog", move || run(interval, &stop, all_work, tell))
}

fn run(interval: Duration, stop: &OwnedFd, mut all_work: impl FnMut() -> bool, mut tell: impl FnMut()) {
    let interval = Timespec::try_from(interval).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
    let stop = stop.as_fd();
    while all_work() {
        tell();
        match poll(&mut [PollFd::new(&stop, PollFlags::IN)], Some(&interval)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) | Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests;
