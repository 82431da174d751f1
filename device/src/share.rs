//! One worker's share of an interface that several workers of a process have: middleware over the worker's own device.
//!
//! ```text
//!   device ---> this worker's packets -----------------------------> receive
//!           \-> another worker's packets --> link to that worker
//!           \-> what concerns everyone ----> copies to all, and --> receive
//!   links from the other workers ----------------------------------> receive
//! ```
//! The kernel steers most packets to the right worker's device ([`Groups::enter`]); here is what makes it right always: for
//! wires that do not steer, while a flow group moves, and for the packets that all stacks must see (answers that teach link
//! addresses, fragments). Promises: no lock; a packet that the right worker's device has brought costs reading its headers;
//! what a link has no room for is dropped and counted, as on any wire. What comes from a link is not passed on again: a
//! stack ignores flows that are not its own. Does not do: sending for others; each worker sends on its own device.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use ringway_shm::wire::{self, WireEnd};
use ringway_shm::{Arena, Burst, Frame, Instant};

use crate::memory::link::{CAPACITY, Link, LinkOptions};
use crate::run::{copy_packet, give_packet, take_packet};
use crate::steering::classify::{Addressee, addressee};
use crate::steering::groups::Groups;
use crate::{Capabilities, Counters, Device, Medium};

/// One end of the link to each of the other workers, by worker; none to oneself. They are moved to the worker's thread.
pub type Links = Vec<Option<WireEnd>>;

/// Links between each two of `workers` workers: what each of them gets.
///
/// # Errors
/// No memory or no descriptors.
pub fn links(workers: usize) -> io::Result<Vec<Links>> {
    let mut all: Vec<Links> = (0..workers).map(|_| (0..workers).map(|_| None).collect()).collect();
    for (one, other) in (0..workers).flat_map(|one| (one + 1..workers).map(move |other| (one, other))) {
        let (first, second) = wire::wire(CAPACITY)?;
        (all[one][other], all[other][one]) = (Some(first), Some(second));
    }
    Ok(all)
}

/// The device; see the module's text.
pub struct Share {
    device: Box<dyn Device>,
    medium: Medium,
    groups: Arc<Groups>,
    worker: usize,
    links: Vec<Option<Link>>,
    /// By worker: what is passed on to it at the end of `receive`.
    passing: Vec<Burst>,
    arena: Arena,
    received: Burst,
    packet: Vec<Frame>,
    /// Packets that a link had no room for.
    lost: u64,
}

impl Share {
    /// The share of `worker` in an interface that it reaches by `device`, with its ends of [`links`].
    ///
    /// # Errors
    /// A link is broken.
    pub fn new(device: Box<dyn Device>, groups: Arc<Groups>, worker: usize, links: Links, arena: &Arena) -> io::Result<Share> {
        let Capabilities { medium, mtu, .. } = device.capabilities();
        let open = |end| Link::with(end, LinkOptions { mtu, ..LinkOptions::default() }, arena);
        let links: Vec<Option<Link>> = links.into_iter().map(|end| end.map(open).transpose()).collect::<io::Result<_>>()?;
        let passing = links.iter().map(|_| Burst::default()).collect();
        let (received, packet) = (Burst::default(), Vec::new());
        Ok(Share { device, medium, groups, worker, links, passing, arena: arena.clone(), received, packet, lost: 0 })
    }

    /// For which worker the packet is that begins with `frame`; `None`: for all.
    #[inline]
    fn way(&self, frame: &Frame) -> Option<usize> {
        match addressee(self.medium, frame.bytes()) {
            Addressee::Flow(group) => Some(self.groups.owner(group)),
            Addressee::Everyone => None,
            Addressee::First => Some(0),
        }
    }

    /// Moves what the device has brought to `burst` and to the other workers.
    fn sort(&mut self, burst: &mut Burst) {
        while take_packet(&mut self.received, &mut self.packet) {
            match self.way(&self.packet[0]) {
                Some(worker) if worker == self.worker => give_packet(burst, &mut self.packet),
                Some(worker) => match self.passing.get_mut(worker) {
                    Some(passing) => give_packet(passing, &mut self.packet),
                    None => self.lost += 1,
                },
                None => {
                    self.copy_to_others();
                    give_packet(burst, &mut self.packet);
                }
            }
        }
    }

    fn copy_to_others(&mut self) {
        let me = self.worker;
        for (_, passing) in self.passing.iter_mut().enumerate().filter(|(worker, _)| *worker != me) {
            match copy_packet(&self.arena, &self.packet) {
                Some(mut copy) => give_packet(passing, &mut copy),
                None => self.lost += 1,
            }
        }
    }

    fn pass_on(&mut self, now: Instant) {
        for (link, passing) in self.links.iter_mut().zip(&mut self.passing).filter(|(_, passing)| !passing.is_empty()) {
            let sent = link.as_mut().map_or(Ok(0), |link| link.transmit(now, passing));
            // What is left found no room, or the other worker has broken the link.
            self.lost += passing.packets() as u64 + u64::from(sent.is_err());
            passing.clear();
        }
    }
}

impl crate::Middleware for Share {
    fn inner(&self) -> &dyn Device {
        &*self.device
    }

    fn inner_mut(&mut self) -> &mut dyn Device {
        &mut *self.device
    }

    fn capabilities(&self) -> Capabilities {
        let device = self.device.capabilities();
        // What a worker passes on is as it was on its device, whatever that promises.
        Capabilities { receives_partial_checksums: true, receive_max_bytes: device.receive_max_bytes.max(65_535), ..device }
    }

    fn receive(&mut self, now: Instant, burst: &mut Burst) -> io::Result<usize> {
        let before = burst.packets();
        let mut result = self.device.receive(now, &mut self.received);
        if self.received.heads().all(|head| self.way(head) == Some(self.worker)) {
            burst.append(&mut self.received);
        } else {
            self.sort(burst);
            self.pass_on(now);
        }
        for link in self.links.iter_mut().flatten() {
            if let Err(error) = link.receive(now, burst) {
                result = Err(error);
            }
        }
        result.map(|_| burst.packets() - before)
    }

    fn wait_fds<'a>(&'a self, fds: &mut Vec<BorrowedFd<'a>>) {
        self.device.wait_fds(fds);
        for link in self.links.iter().flatten() {
            link.wait_fds(fds);
        }
    }

    fn arm(&mut self) -> bool {
        let mut ready = self.device.arm();
        for link in self.links.iter_mut().flatten() {
            ready |= link.arm();
        }
        ready
    }

    fn counters(&self) -> Counters {
        let device = self.device.counters();
        let of_links = |count: fn(&Counters) -> u64| self.links.iter().flatten().map(|link| count(&link.counters())).sum::<u64>();
        Counters {
            rx_dropped: device.rx_dropped + self.lost + of_links(|link| link.rx_dropped),
            syscalls: device.syscalls + of_links(|link| link.syscalls),
            ..device
        }
    }
}

#[cfg(test)]
mod tests;
