//! Where packets arrive: a socket with a ring, a second one for those that are larger than a slot of the first, and a third one
//! for short ones when many connections are open.
//!
//! ```text
//!                  short, once many are open -> ring of many small slots
//!   arriving packet  up to 8 KiB (or an MTU) -> ring of whole packets
//!                  larger ------------------> ring of their headers, and the queue of that socket, whole
//! ```
//! A socket has slots of one size, and fills the slot also of a packet that it queues whole because it is larger: the kernel
//! would copy 8 KiB of each into cold memory, where they are not read. And where each of many connections has a request under
//! way, slots of 8 KiB for all of them would be hundreds of megabytes. The sockets are a group (PACKET_FANOUT) in which
//! the length decides. That costs every packet a little, so the second one stands ready, unbound, until [`LARGE_ENOUGH`] large
//! packets have come; it is made beforehand because what makes a ring waits for an RCU grace period, some milliseconds. The third one
//! is made, in a thread of its own, when more connections are open than the first ring has room for, two packets of each.
//! Promises: packets come in the order in which they arrived, by the kernel's stamps. Each of the sockets takes packets of
//! all sizes, so that whatever the kernel brings where is right, and only slower. At the moment of a division a packet may
//! be lost, as on any wire.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread::{Builder, JoinHandle};

use ringway_shm::Duration;

use super::PacketOptions;
use super::sys::{self, Ring, Slot};
use crate::Medium;
use crate::interface::Interface;

/// Bytes of send buffer: the packets that the peer has not yet freed.
const SEND_BUFFER: i32 = 16 << 20;
/// Bytes of receive buffer: super-segments that wait. A bound, not a reservation. It has room for what some hundred senders may
/// have under way at once by their windows: what is lost here, a whole super-segment, is many segments lost.
const RECEIVE_BUFFER: i32 = 128 << 20;
/// The smallest packet that a slot is made for, bytes: a message of 8 KiB in one super-segment.
const PACKET_BYTES_MIN: usize = 8192 + 14 + 40 + 60;
/// Bytes that are kept of a packet that is queued whole: all headers.
const HEADERS_BYTES: usize = 256;
/// So many large packets have come before they get a socket of their own.
pub(super) const LARGE_ENOUGH: u32 = 1024;

/// The largest packet that is short, and slots of the ring for them (32 MiB).
const SHORT_BYTES: usize = 384;
const SHORT_SLOTS: u32 = 65_536;

/// See the module's text.
pub(super) struct Inbound {
    /// The first one is always there; the others by their number in the group.
    sources: Vec<Source>,
    /// Whose the front packet is.
    front: usize,
    interface: u32,
    filter: Option<OwnedFd>,
    /// Bytes behind the link header of the largest packet that fits a slot of the first ring.
    whole_max: u32,
    /// The second socket, while it is not used, and large packets that must come before it is.
    spare: Option<Source>,
    missing: u32,
    growth: Growth,
    /// The number of the sockets' group.
    group: Option<u16>,
    /// Packets that found no room, so far.
    lost: Cell<u64>,
}

struct Source {
    fd: OwnedFd,
    ring: Ring,
}

/// The ring for short packets.
enum Growth {
    /// It is made when more connections are open than this.
    Above(usize),
    /// It is being made.
    Under(JoinHandle<io::Result<Source>>),
    /// It is there, or cannot be had.
    Over,
}

impl Inbound {
    /// Opens what `options` say for `interface`; `direct`: what is sent goes around its queueing discipline.
    pub(super) fn open(
        interface: &Interface,
        filter: Option<BorrowedFd<'_>>,
        direct: bool,
        options: PacketOptions,
    ) -> io::Result<Inbound> {
        let packet_bytes = PACKET_BYTES_MIN.max(interface.mtu as usize + Medium::Ethernet.header_bytes());
        let first = Source::open(options.ring_slots, packet_bytes)?;
        if filter.is_some() {
            sys::set_filter(first.fd.as_fd(), filter)?;
        }
        sys::bind(first.fd.as_fd(), interface.index)?;
        sys::set_bypass(first.fd.as_fd(), direct)?;
        // One socket is enough where the kernel refuses a second one.
        let spare = if options.split_ring { Source::open(options.ring_slots, HEADERS_BYTES).ok() } else { None };
        let growth = if spare.is_some() { Growth::Above(options.ring_slots as usize / 2) } else { Growth::Over };
        Ok(Inbound {
            sources: vec![first],
            front: 0,
            interface: interface.index,
            filter: filter.map(|filter| filter.try_clone_to_owned()).transpose()?,
            whole_max: behind_link(packet_bytes),
            spare,
            missing: LARGE_ENOUGH,
            growth,
            group: None,
            lost: Cell::new(0),
        })
    }

    /// The front packet is larger than its slot.
    #[inline]
    pub(super) fn count_large(&mut self) {
        self.missing = self.missing.saturating_sub(1);
    }

    /// So many connections are open: there is to be room for a packet or two of each.
    pub(super) fn expect(&mut self, connections: usize) {
        if matches!(self.growth, Growth::Above(enough) if connections > enough) {
            let thread = Builder::new().name("ringway-ring".to_owned());
            // `Err`: what comes finds the first ring, or no room there.
            let made = thread.spawn(|| Source::open(SHORT_SLOTS, SHORT_BYTES));
            self.growth = made.map_or(Growth::Over, Growth::Under);
        }
    }

    /// Takes further sockets into use when they are worth it.
    #[inline]
    pub(super) fn divide(&mut self) {
        if self.missing == 0 && self.spare.is_some() {
            self.divide_large();
        }
        if matches!(&self.growth, Growth::Under(thread) if thread.is_finished()) {
            self.divide_short();
        }
    }

    #[cold]
    fn divide_large(&mut self) {
        if let Some(large) = self.spare.take() {
            self.group = sys::found_division(self.fd(), behind_link(SHORT_BYTES), self.whole_max).ok();
            self.join(large);
        }
    }

    #[cold]
    fn divide_short(&mut self) {
        if let Growth::Under(thread) = std::mem::replace(&mut self.growth, Growth::Over)
            && let Ok(Ok(short)) = thread.join()
        {
            // Numbers in the group are given out in turn: that of the large ones comes first.
            self.divide_large();
            self.join(short);
        }
    }

    /// Takes a further socket into use; without it the others get its packets.
    fn join(&mut self, source: Source) {
        let (Some(group), fd) = (self.group, source.fd.as_fd()) else { return };
        let filter = self.filter.as_ref().map(AsFd::as_fd);
        // It would get everything between its binding and the division.
        let joined = sys::refuse_all(fd)
            .and_then(|()| sys::bind(fd, self.interface))
            .and_then(|()| sys::join_division(fd, group))
            .and_then(|()| sys::set_filter(fd, filter));
        if joined.is_ok() {
            self.sources.push(source);
        }
    }

    /// The socket that sends.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.sources[0].fd.as_fd()
    }

    #[cfg(test)]
    pub(super) fn sockets(&self) -> usize {
        self.sources.len()
    }

    pub(super) fn wait_fds<'a>(&'a self, fds: &mut Vec<BorrowedFd<'a>>) {
        fds.extend(self.sources.iter().map(|source| source.fd.as_fd()));
    }

    /// Returns true if there is a packet.
    pub(super) fn is_ready(&self) -> bool {
        self.sources.iter().any(|source| source.ring.is_ready())
    }

    /// When the next packet arrived, on the wall clock since 1970.
    pub(super) fn first_arrival(&self) -> Option<Duration> {
        self.sources.iter().filter_map(|source| source.ring.first_arrival()).min()
    }

    /// Makes the packet that arrived first the front one; `false`: there is none.
    #[inline]
    pub(super) fn choose(&mut self) -> bool {
        match &self.sources[..] {
            [only] => only.ring.is_ready(),
            _ => self.choose_among(),
        }
    }

    /// All are looked at once more when one was seen to have a packet: what of the others is not seen then arrived after it.
    fn choose_among(&mut self) -> bool {
        let is_ready = self.is_ready();
        if is_ready {
            let arrivals = self.sources.iter().enumerate();
            let first = arrivals.filter_map(|(number, source)| Some((source.ring.first_arrival()?, number))).min();
            self.front = first.map_or(0, |(_, number)| number);
        }
        is_ready
    }

    /// The packet that was chosen.
    #[inline]
    pub(super) fn front(&self) -> Option<Slot<'_>> {
        self.sources[self.front].ring.front()
    }

    /// Where it is read from when it is queued.
    pub(super) fn front_fd(&self) -> BorrowedFd<'_> {
        self.sources[self.front].fd.as_fd()
    }

    /// Gives its slot back to the kernel.
    #[inline]
    pub(super) fn release(&mut self) {
        self.sources[self.front].ring.release();
    }

    /// Takes the error that one of the sockets has pending.
    pub(super) fn take_error(&self) -> Option<io::Error> {
        // Both are asked: an error that stays keeps the worker awake.
        let errors: Vec<io::Error> = self.sources.iter().filter_map(|source| sys::take_error(source.fd.as_fd())).collect();
        errors.into_iter().next()
    }

    /// Packets that found no room, so far.
    pub(super) fn lost(&self) -> u64 {
        let lost: u64 = self.sources.iter().map(|source| u64::from(sys::lost(source.fd.as_fd()))).sum();
        self.lost.set(self.lost.get() + lost);
        self.lost.get()
    }
}

/// Of a packet of so many bytes, those behind its link header.
fn behind_link(bytes: usize) -> u32 {
    (bytes - Medium::Ethernet.header_bytes()) as u32
}

impl Source {
    /// A socket with a ring for packets of `packet_bytes`; nothing arrives before it is bound.
    fn open(slots: u32, packet_bytes: usize) -> io::Result<Source> {
        let fd = sys::open()?;
        sys::prepare(fd.as_fd(), SEND_BUFFER, RECEIVE_BUFFER)?;
        let ring = Ring::map(fd.as_fd(), slots, packet_bytes)?;
        Ok(Source { fd, ring })
    }
}
