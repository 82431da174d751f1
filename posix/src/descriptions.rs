//! State of one process for each socket of which it has descriptors: their number, and the options it has set.
//!
//! Indexed by slot number. An entry is reset when a socket is installed and never freed, so that a call that races with
//! the last `close` in another thread reads stale numbers but never freed memory. `fork` copies the entries with the
//! rest of the memory, as a copy of the descriptor table requires. Status flags (O_NONBLOCK) are not here: they belong
//! to the open file description and live in the slot that all processes share.

use crate::datagram::pieces::Waiting;
use crate::fd_table::SocketRef;
use crate::first_use::{FirstUses, boxed};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

/// State of one socket in this process.
pub(crate) struct Description {
    generation: AtomicU32,
    references: AtomicU32,
    flags: AtomicU32,
    /// The number that it got last; a hint.
    pub(crate) number: AtomicI32,
    /// SO_RCVTIMEO in nanoseconds; 0 = wait for ever.
    pub(crate) receive_timeout: AtomicU64,
    /// SO_SNDTIMEO in nanoseconds; 0 = wait for ever.
    pub(crate) send_timeout: AtomicU64,
    /// SO_LINGER in seconds; -1 = off.
    pub(crate) linger: AtomicI32,
    /// Values of the options listed in `options.rs`, by index; `UNSET` = the default.
    pub(crate) values: [AtomicU32; VALUES],
    /// Parked socket of `spares` that it has; 0: none, because it may be known elsewhere or differ from a fresh one.
    pub(crate) unseen: AtomicU64,
    /// Arrival of the datagram that was read last (SIOCGSTAMP), nanoseconds; 0: the kernel has it.
    pub(crate) stamp: AtomicU64,
    /// Datagram that waits for its last piece.
    pub(crate) pieces: Waiting,
}

/// Flags of a socket, one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flag(u32);

impl Flag {
    /// `shutdown(SHUT_RD)` has been called.
    pub(crate) const READ_SHUT: Flag = Flag(1 << 0);
    /// `shutdown(SHUT_WR)` has been called.
    pub(crate) const WRITE_SHUT: Flag = Flag(1 << 1);
    /// The death of the service has been reported as this socket's failure.
    pub(crate) const DEATH_REPORTED: Flag = Flag(1 << 2);
    /// The success of a connect in the background has been reported.
    pub(crate) const CONNECT_REPORTED: Flag = Flag(1 << 3);
    /// TCP_FASTOPEN_CONNECT or MSG_FASTOPEN: the first bytes go with the SYN, and none has been sent yet.
    pub(crate) const OPENS_WITH_DATA: Flag = Flag(1 << 4);
    /// The program created it as AF_INET6: addresses are shown v4-mapped.
    pub(crate) const INET6: Flag = Flag(1 << 5);
    /// `connect` has reported a failure: the socket is as it was before.
    pub(crate) const CONNECT_FAILED: Flag = Flag(1 << 7);
    /// IP_RECVERR is set: the kernel socket reports errors.
    pub(crate) const KERNEL_ERRORS: Flag = Flag(1 << 8);
    /// The last bytes were sent with MSG_MORE: the stack holds a partial segment as if corked.
    pub(crate) const MORE_COMES: Flag = Flag(1 << 10);
    /// A UDP socket; its kernel socket serves too.
    pub(crate) const DATAGRAM: Flag = Flag(1 << 9);
    /// It was inherited by exec or in a message: what was set before is not known.
    pub(crate) const ADOPTED: Flag = Flag(1 << 16);
    /// The kernel goes on with the socket.
    pub(crate) const LEFT: Flag = Flag(1 << 15);
    /// This process has answered the service's wish for a handover.
    pub(crate) const ASKED: Flag = Flag(1 << 14);
    /// A listener's connection, of which a kernel socket of its own was made.
    pub(crate) const ACCEPTED: Flag = Flag(1 << 17);
    /// Its kernel socket has a filter of this library's.
    pub(crate) const FILTERED: Flag = Flag(1 << 18);
    /// A listener from which this process, or its parent before the fork, has asked for connections.
    pub(crate) const ACCEPTS: Flag = Flag(1 << 19);
    /// UDP_CORK is set.
    pub(crate) const CORKED: Flag = Flag(1 << 11);
    /// A datagram is begun and waits for its last piece.
    pub(crate) const PIECES: Flag = Flag(1 << 12);
    /// The kernel's socket may have begun a datagram: further pieces are for it.
    pub(crate) const KERNELS_PIECES: Flag = Flag(1 << 13);
}

impl Description {
    fn new() -> Description {
        Description {
            generation: AtomicU32::new(0),
            references: AtomicU32::new(0),
            flags: AtomicU32::new(0),
            number: AtomicI32::new(-1),
            receive_timeout: AtomicU64::new(0),
            send_timeout: AtomicU64::new(0),
            linger: AtomicI32::new(-1),
            values: std::array::from_fn(|_| AtomicU32::new(UNSET)),
            unseen: AtomicU64::new(0),
            stamp: AtomicU64::new(0),
            pieces: Waiting::default(),
        }
    }

    /// Number of descriptors.
    pub(crate) fn references(&self) -> u32 {
        self.references.load(Ordering::Acquire)
    }

    /// Returns true if the flag is set.
    pub(crate) fn is(&self, flag: Flag) -> bool {
        self.flags.load(Ordering::Acquire) & flag.0 != 0
    }

    /// Sets the flag; returns true if it was set before.
    pub(crate) fn mark(&self, flag: Flag) -> bool {
        self.flags.fetch_or(flag.0, Ordering::AcqRel) & flag.0 != 0
    }

    /// Clears the flag.
    pub(crate) fn unmark(&self, flag: Flag) {
        self.flags.fetch_and(!flag.0, Ordering::AcqRel);
    }

    /// Counts one more descriptor.
    pub(crate) fn refer(&self) {
        self.references.fetch_add(1, Ordering::AcqRel);
    }

    /// Counts one more descriptor of a socket that still has one. Returns false if it has none: the socket has left this process.
    pub(crate) fn refer_again(&self) -> bool {
        let more = |count: u32| (count > 0).then_some(count + 1);
        self.references.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok()
    }

    /// Sets the number of descriptors to zero, before a recount.
    pub(crate) fn forget_references(&self) {
        self.references.store(0, Ordering::Release);
    }

    /// Counts one descriptor less; returns true if it was the last one of this process.
    pub(crate) fn unrefer(&self) -> bool {
        let last = self.references.fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| count.checked_sub(1)) == Ok(1);
        if last && let Ok(mut pieces) = self.pieces.try_lock() {
            *pieces = None;
        }
        last
    }

    /// Returns true if the entry is of this socket (and not of an earlier one in the same slot).
    pub(crate) fn knows(&self, socket: SocketRef) -> bool {
        self.references.load(Ordering::Acquire) > 0 && self.generation.load(Ordering::Acquire) == socket.generation
    }

    /// Copies the options of its listener to an accepted connection.
    pub(crate) fn inherit(&self, listener: &Description) {
        let copy = |from: &AtomicU64, to: &AtomicU64| to.store(from.load(Ordering::Acquire), Ordering::Release);
        copy(&listener.receive_timeout, &self.receive_timeout);
        copy(&listener.send_timeout, &self.send_timeout);
        self.linger.store(listener.linger.load(Ordering::Acquire), Ordering::Release);
        for (from, to) in listener.values.iter().zip(&self.values) {
            to.store(from.load(Ordering::Acquire), Ordering::Release);
        }
    }

    fn reset(&self, generation: u32, flags: u32) {
        self.generation.store(generation, Ordering::Release);
        self.flags.store(flags, Ordering::Release);
        self.receive_timeout.store(0, Ordering::Release);
        self.send_timeout.store(0, Ordering::Release);
        self.linger.store(-1, Ordering::Release);
        self.unseen.store(0, Ordering::Relaxed);
        self.stamp.store(0, Ordering::Relaxed);
        if let Ok(mut pieces) = self.pieces.try_lock() {
            *pieces = None;
        }
        for value in &self.values {
            value.store(UNSET, Ordering::Release);
        }
        self.references.store(1, Ordering::Release);
    }
}

/// All descriptions of the process. Each program makes it at its start, so it allocates nothing before the first
/// socket.
pub(crate) struct Descriptions {
    shelves: FirstUses<Shelf, SHELVES>,
    /// Stands for sockets of other processes.
    foreign: Description,
}

type Shelf = FirstUses<[Description; PAGE_ENTRIES], SHELF_PAGES>;

impl Descriptions {
    pub(crate) fn new() -> Descriptions {
        Descriptions { shelves: FirstUses::new(), foreign: Description::new() }
    }

    /// The entry of the socket's slot.
    pub(crate) fn of(&self, socket: SocketRef) -> &Description {
        let index = socket.index as usize;
        let place = index / (PAGE_ENTRIES * SHELF_PAGES) % SHELVES;
        let shelf = self.shelves.get_or_init(place, || Box::new(FirstUses::new()));
        &shelf.get_or_init(index / PAGE_ENTRIES % SHELF_PAGES, || boxed(Description::new))[index % PAGE_ENTRIES]
    }

    /// The entry of the socket, of which this process may never have had a descriptor; it is then as without any option.
    pub(crate) fn about(&self, socket: SocketRef) -> &Description {
        let known = self.of(socket);
        if known.generation.load(Ordering::Acquire) == socket.generation { known } else { &self.foreign }
    }

    /// Starts a new description with one descriptor.
    pub(crate) fn install(&self, socket: SocketRef, flags: &[Flag]) -> &Description {
        let description = self.of(socket);
        description.reset(socket.generation, flags.iter().fold(0, |bits, flag| bits | flag.0));
        description
    }
}

/// The program has not set this option.
pub(crate) const UNSET: u32 = u32::MAX;
/// Number of option values that a description holds.
pub(crate) const VALUES: usize = 40;

const PAGE_ENTRIES: usize = 256;
const SHELF_PAGES: usize = 64;
const SHELVES: usize = 64;
