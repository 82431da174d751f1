//! Where packets arrive: a socket with a ring, and a second one for those that are larger than a slot of the first.
//!
//! ```text
//!                  up to 8 KiB (or an MTU) -> ring of whole packets
//!   arriving packet
//!                  larger -----------------> ring of their headers, and the queue of that socket, whole
//! ```
//! A socket has slots of one size, and fills the slot also of a packet that it queues whole because it is larger: the kernel
//! would copy 8 KiB of each into cold memory, where nobody reads them. The two sockets are a group (PACKET_FANOUT) in which
//! the length decides. That costs every packet a little, so the second one stands ready, unbound, until [`LARGE_ENOUGH`] large
//! packets have come; it is made beforehand because what makes a ring waits for an RCU grace period, some milliseconds.
//! Promises: packets come in the order in which they arrived, by the kernel's stamps. Each of both sockets takes packets of
//! all sizes, so that whatever the kernel brings where is right, and only slower. At the moment of the division a packet may
//! be lost, as on any wire.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

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
/// What is kept of a packet that is queued whole: all headers.
const HEADERS_BYTES: usize = 256;
/// So many large packets have come before they get a socket of their own.
pub(super) const LARGE_ENOUGH: u32 = 1024;

/// See the module's text.
pub(super) struct Inbound {
    small: Source,
    large: Option<Source>,
    /// The front packet is `large`'s.
    is_large: bool,
    /// The second socket, while it is not used.
    spare: Option<Spare>,
    /// Packets that found no room, so far.
    lost: Cell<u64>,
}

struct Source {
    fd: OwnedFd,
    ring: Ring,
}

/// A socket for large packets, at which nothing arrives yet.
struct Spare {
    source: Source,
    interface: u32,
    filter: Option<OwnedFd>,
    /// Bytes behind the link header of the largest packet that is not for it.
    bytes_max: u32,
    /// Large packets that must come before.
    missing: u32,
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
        let small = Source::open(options.ring_slots, packet_bytes)?;
        if filter.is_some() {
            sys::set_filter(small.fd.as_fd(), filter)?;
        }
        sys::bind(small.fd.as_fd(), interface.index)?;
        sys::set_bypass(small.fd.as_fd(), direct)?;
        let bytes_max = (packet_bytes - Medium::Ethernet.header_bytes()) as u32;
        // One socket is enough where the kernel refuses a second one.
        let spare = match options.large_apart {
            true => Spare::open(interface.index, filter, bytes_max, options.ring_slots).ok(),
            false => None,
        };
        Ok(Inbound { small, large: None, is_large: false, spare, lost: Cell::new(0) })
    }

    /// The front packet is larger than its slot.
    #[inline]
    pub(super) fn count_large(&mut self) {
        if let Some(spare) = &mut self.spare {
            spare.missing = spare.missing.saturating_sub(1);
        }
    }

    /// Takes the second socket into use when it is worth it.
    #[inline]
    pub(super) fn divide(&mut self) {
        if let Some(spare) = self.spare.take_if(|spare| spare.missing == 0) {
            self.large = spare.join(self.small.fd.as_fd()).ok();
        }
    }

    /// The socket that sends.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.small.fd.as_fd()
    }

    fn sources(&self) -> impl Iterator<Item = &Source> {
        std::iter::once(&self.small).chain(&self.large)
    }

    pub(super) fn wait_fds<'a>(&'a self, fds: &mut Vec<BorrowedFd<'a>>) {
        fds.extend(self.sources().map(|source| source.fd.as_fd()));
    }

    /// Whether there is a packet.
    pub(super) fn is_ready(&self) -> bool {
        self.sources().any(|source| source.ring.is_ready())
    }

    /// When the next packet arrived, on the wall clock since 1970.
    pub(super) fn first_arrival(&self) -> Option<Duration> {
        self.sources().filter_map(|source| source.ring.first_arrival()).min()
    }

    /// Makes the packet that arrived first the front one; `false`: there is none.
    #[inline]
    pub(super) fn choose(&mut self) -> bool {
        let is_small_ready = self.small.ring.is_ready();
        // What of the large ones is not seen now arrived after the small one that was.
        let Some(large) = self.large.as_ref().filter(|large| large.ring.is_ready()) else {
            self.is_large = false;
            return is_small_ready;
        };
        self.is_large = self.is_before_small(&large.ring);
        true
    }

    /// Whether the front packet of `large` arrived before any small one that waits. Those are looked for once more: one that is
    /// not seen after a large one arrived after it.
    fn is_before_small(&self, large: &Ring) -> bool {
        self.small.ring.first_arrival().is_none_or(|small| large.first_arrival().is_some_and(|large| large < small))
    }

    fn source(&self) -> &Source {
        self.large.as_ref().filter(|_| self.is_large).unwrap_or(&self.small)
    }

    /// The packet that was chosen.
    #[inline]
    pub(super) fn front(&self) -> Option<Slot<'_>> {
        self.source().ring.front()
    }

    /// Where it is read from when it is queued.
    pub(super) fn front_fd(&self) -> BorrowedFd<'_> {
        self.source().fd.as_fd()
    }

    /// Gives its slot back to the kernel.
    #[inline]
    pub(super) fn release(&mut self) {
        match &mut self.large {
            Some(large) if self.is_large => large.ring.release(),
            _ => self.small.ring.release(),
        }
    }

    /// Takes the error that one of the sockets has pending.
    pub(super) fn take_error(&self) -> Option<io::Error> {
        // Both are asked: an error that stays keeps the worker awake.
        let errors: Vec<io::Error> = self.sources().filter_map(|source| sys::take_error(source.fd.as_fd())).collect();
        errors.into_iter().next()
    }

    /// Packets that found no room, so far.
    pub(super) fn lost(&self) -> u64 {
        let lost: u64 = self.sources().map(|source| u64::from(sys::lost(source.fd.as_fd()))).sum();
        self.lost.set(self.lost.get() + lost);
        self.lost.get()
    }
}

impl Spare {
    fn open(interface: u32, filter: Option<BorrowedFd<'_>>, bytes_max: u32, slots: u32) -> io::Result<Spare> {
        let source = Source::open(slots, HEADERS_BYTES)?;
        let filter = filter.map(|filter| filter.try_clone_to_owned()).transpose()?;
        Ok(Spare { source, interface, filter, bytes_max, missing: LARGE_ENOUGH })
    }

    /// Takes it into use beside `small`.
    #[cold]
    fn join(self, small: BorrowedFd<'_>) -> io::Result<Source> {
        let large = self.source.fd.as_fd();
        // It would get everything between its binding and the division.
        sys::refuse_all(large)?;
        sys::bind(large, self.interface)?;
        sys::divide_by_size(small, large, self.bytes_max)?;
        sys::set_filter(large, self.filter.as_ref().map(|filter| filter.as_fd()))?;
        Ok(self.source)
    }
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
