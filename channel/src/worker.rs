//! The worker's end of a region.
//!
//! Everything that matters is kept privately: which slot is used and how often it was, the holder of each
//! receive chunk, the order of the bytes to send, how much was pushed. Words of the region are read
//! once, checked against that, and a lie is counted in [`violations`](Attachment::violations) and
//! otherwise ignored. Every loop is bounded by the shape. Calls take constant time but for
//! [`process_gone`](Attachment::process_gone), [`unaccepted`](Attachment::unaccepted) and
//! [`free_slot`](Attachment::free_slot) with many unread chunks.
//!
//! A slot's life, as the engine drives it: a request names it (or `allocate_slot` makes one), then
//! `set_state`, `push_rx`, `copy_tx`, `signal`; at the end `free_slot`, after which its generation is
//! over and requests that still name it are dropped here.

mod freeze;
mod lend;
mod process;
mod receive;
mod request;
mod room;
mod signal;
mod slots;
mod transmit;
mod usage;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::layout::{Layout, Map, PROCESSES, Shape};
use ringway_shm::region::Region;

pub use freeze::NotWhole;
pub use process::Gone;

/// The worker's end; one owner, movable to its thread.
pub struct Attachment {
    map: Arc<Map>,
    slots: slots::Table,
    requests: request::Cursors,
    rx: receive::Leases,
    tx: transmit::Taken,
    lender: Arc<lend::Lender>,
    rooms: Arc<room::Rooms>,
    signals: signal::WakeFds,
    violations: u64,
}

impl Attachment {
    /// Makes a region; the descriptor is for [`attach`](super::attach) and [`ProcessTable`](super::ProcessTable).
    ///
    /// # Errors
    /// What the kernel says; `InvalidInput` for a shape that cannot be.
    pub fn create(shape: Shape) -> io::Result<(Attachment, OwnedFd)> {
        if !shape.is_valid() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the shape of the region is not valid"));
        }
        let layout = Layout::of(shape);
        let (region, fd) = Region::create(layout.total)?;
        let map = Arc::new(Map::new(region, layout));
        let attachment = Attachment {
            lender: Arc::new(lend::Lender::new(&map)),
            rooms: Arc::new(room::Rooms::new(&map)),
            map,
            slots: slots::Table::new(&shape),
            requests: request::Cursors::new(),
            rx: receive::Leases::new(&shape),
            tx: transmit::Taken::new(&shape),
            signals: signal::WakeFds::new(),
            violations: 0,
        };
        attachment.limit_processes(PROCESSES);
        Ok((attachment, fd))
    }

    /// The shape it was made with.
    pub fn shape(&self) -> Shape {
        *self.map.shape()
    }

    /// How often the application broke the contract.
    pub fn violations(&self) -> u64 {
        self.violations + self.lender.lost()
    }

    /// Notes that the application broke the contract in a message.
    pub fn note_violation(&mut self) {
        self.violations += 1;
    }

    /// Chunks of the receive side that are free now: large, small.
    pub fn free_rx(&self) -> (u32, u32) {
        self.rx.free()
    }
}

#[cfg(test)]
mod tests;
