//! Creation and release of groups' memory, in threads of the service instead of the worker's iterations.
//!
//! Promises: mapping and unmapping of a region, which take the kernel tens of milliseconds, delay no packet. Does not
//! do: limiting the number of groups.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::thread::Builder;

use ringway_channel::{Attachment, Shape};
use rustix::event::{EventfdFlags, eventfd};

use crate::command::RegionRequest;

/// A region that belongs to no worker yet.
pub(crate) struct NewRegion {
    pub(super) owner: RegionRequest,
    pub(super) channel: Attachment,
    /// Memory that the application maps.
    pub(super) memory: OwnedFd,
    pub(super) doorbell: OwnedFd,
    /// Doorbell's descriptor for the application.
    pub(super) ringer: OwnedFd,
}

/// Makes regions for one worker and releases ended ones.
pub(crate) struct Maker {
    shape: Shape,
    /// Sender to the thread that unmaps, which starts with the first region. `None`: the thread could not start.
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

    /// Unmaps a region soon, in another thread; at once if there is none.
    pub(super) fn give_back(&self, channel: Attachment) {
        if let Some(Some(reaper)) = self.over.get() {
            // If the thread is gone, the region comes back and is dropped here.
            reaper.send(channel).ok();
        }
    }
}
