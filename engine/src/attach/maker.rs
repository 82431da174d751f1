//! Where the memory of groups is made and given back: in the threads of the service, not in a worker's turn.
//!
//! Promises: mapping and unmapping of a region, which take the kernel tens of milliseconds, hold up no packet. Does not do:
//! deciding how many groups there may be.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::thread::Builder;

use ringway_shm::channel::{Attachment, Shape};
use rustix::event::{EventfdFlags, eventfd};

use crate::command::RegionRequest;

/// A region that no worker has yet.
pub(crate) struct NewRegion {
    pub(super) owner: RegionRequest,
    pub(super) channel: Attachment,
    /// What the application maps.
    pub(super) memory: OwnedFd,
    pub(super) doorbell: OwnedFd,
    /// The application's handle of the doorbell.
    pub(super) ringer: OwnedFd,
}

/// Makes regions for one worker, and takes back those that are over.
pub(crate) struct Maker {
    shape: Shape,
    /// To the thread that unmaps; started with the first region. `None`: it could not be started.
    over: OnceLock<Option<Sender<Attachment>>>,
}

impl Maker {
    pub(crate) fn new(shape: Shape) -> Maker {
        Maker { shape, over: OnceLock::new() }
    }

    /// Makes a region in the caller's thread.
    pub(crate) fn make(&self, owner: RegionRequest) -> io::Result<NewRegion> {
        self.over.get_or_init(|| {
            let (sender, regions) = channel();
            let thread = Builder::new().name("ringway-reaper".to_owned());
            thread.spawn(move || regions.into_iter().for_each(drop)).is_ok().then_some(sender)
        });
        let (channel, memory) = Attachment::create(self.shape)?;
        let doorbell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let ringer = doorbell.try_clone()?;
        Ok(NewRegion { owner, channel, memory, doorbell, ringer })
    }

    /// Unmaps a region soon, in another thread; at once where that is not to be had.
    pub(super) fn give_back(&self, channel: Attachment) {
        if let Some(Some(reaper)) = self.over.get() {
            // A thread that is gone hands the region back, and it is dropped here.
            reaper.send(channel).ok();
        }
    }
}
