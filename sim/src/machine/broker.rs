//! The service's side of attaching, for the one program of a machine: it hands over the region and makes wake descriptors.
//!
//! A thread answers, because the client waits for each answer. It decides nothing, so it changes no order of events.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use ringway_channel::attach::{ClientMessage, ControlConnection, ControlListener, make_wake_fd};
use ringway_channel::{ProcessTable, Shape};
use ringway_engine::{RegionId, RegionMemory, WorkerHandle};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The place at which the program attaches; gone when this is dropped.
pub(super) struct Entrance(PathBuf);

impl Entrance {
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Entrance {
    fn drop(&mut self) {
        // A file that is gone already is as good as removed.
        std::fs::remove_file(&self.0).ok();
    }
}

/// Starts the broker of a region.
pub(super) fn start(region: RegionMemory, handle: WorkerHandle, shape: Shape) -> Entrance {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("ringway-sim-{}-{number}", std::process::id()));
    let listener = ControlListener::bind(&path).expect("a path of this process");
    let RegionMemory { region: id, memory, doorbell, .. } = region;
    thread::spawn(move || {
        if let Some(connection) = next_connection(&listener) {
            serve(&connection, (&memory, &doorbell), id, &handle, shape);
        }
    });
    Entrance(path)
}

/// Waits for the program; it attaches at once or never.
fn next_connection(listener: &ControlListener) -> Option<ControlConnection> {
    let patience = Timespec { tv_sec: 10, tv_nsec: 0 };
    is_readable(listener.as_fd(), Some(&patience)).then(|| listener.accept().ok()).flatten()
}

fn is_readable(fd: BorrowedFd<'_>, limit: Option<&Timespec>) -> bool {
    poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], limit).is_ok_and(|ready| ready > 0)
}

/// Serves the program until it ends the connection.
fn serve(
    connection: &ControlConnection,
    (memory, doorbell): (&OwnedFd, &OwnedFd),
    region: RegionId,
    handle: &WorkerHandle,
    shape: Shape,
) {
    let processes = ProcessTable::new(memory.as_fd(), shape).expect("the region has this shape");
    while is_readable(connection.as_fd(), None) {
        let answered = match connection.receive() {
            Ok(ClientMessage::Hello { wanted, .. }) => {
                let process = processes.claim(connection.credentials().pid, wanted).expect("a number is free");
                connection.welcome(shape, process, memory.as_fd(), doorbell.as_fd())
            }
            Ok(ClientMessage::Context { context, kind, .. }) => make_wake_fd(kind).and_then(|(ringer, wake_fd)| {
                handle.context_wake_fd(region, context, Arc::new(ringer))?;
                connection.give_wake_fd([1; 16], wake_fd.as_fd())
            }),
            Ok(ClientMessage::Claim { .. } | ClientMessage::Settle) => connection.done(),
            Ok(ClientMessage::Handover { .. } | ClientMessage::Want(_)) => connection.refuse("no handover here"),
            Ok(ClientMessage::Child { .. }) => Ok(()),
            Ok(ClientMessage::Nonsense(..) | ClientMessage::Gone) | Err(_) => return,
        };
        if answered.is_err() {
            return;
        }
    }
}
