//! One socket as both sides see it: 256 bytes, four cache lines, by their writers.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::SlotIndex;
use super::layout::{NEAR_WORDS, PROCESSES};
use super::mark::Mark;
use ringway_shm::sync::{AtomicU32, AtomicU64, Ordering};

/// Names one use of a slot. A reference whose generation is over is refused everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlotRef {
    /// The slot.
    pub index: SlotIndex,
    /// Which use of it.
    pub generation: u32,
}

/// What a socket is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// Free, or its owner has not asked for anything yet.
    #[default]
    Free = 0,
    /// Accepts connections.
    Listening = 1,
    /// The handshake runs.
    Connecting = 2,
    /// Bytes may flow.
    Connected = 3,
    /// Over; what is unread may still be read.
    Closed = 4,
}

impl State {
    fn from_word(word: u32) -> State {
        match word {
            1 => State::Listening,
            2 => State::Connecting,
            3 => State::Connected,
            4 => State::Closed,
            _ => State::Free,
        }
    }
}

/// What has happened to a connection; bits that only ever get set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u32);

impl Flags {
    /// The peer will send no more (FIN), and all it sent is in the slot.
    pub const PEER_CLOSED: Flags = Flags(1);
    /// Neither direction works any more (reset, abort, both closed).
    pub const HUNG_UP: Flags = Flags(2);
    /// Ended by an error; see [`SlotShared::take_error`].
    pub const FAILED: Flags = Flags(4);
    /// Our side will send no more.
    pub const WRITE_CLOSED: Flags = Flags(8);
    /// The handshake is not over: what the application writes first goes with the SYN (RFC 7413).
    pub const OPENING: Flags = Flags(16);
    /// Handover: the kernel socket under the program's descriptor carries the connection, port or datagrams from now on.
    /// Nothing comes through the slot any more.
    pub const MOVED: Flags = Flags(32);
    /// Handover: the service wants the socket to be the kernel's, and asks a holder for its kernel socket.
    pub const WANTED: Flags = Flags(64);
    /// Handover: the service wants what waits at the listener to go into the accept queue of its kernel socket.
    pub const EMPTIES: Flags = Flags(128);

    /// Whether any bit of `other` is set.
    #[inline]
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }
}

/// Why something failed, in the channel's own words; `posix` turns it into errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Failure {
    /// The peer refused (RST to our SYN).
    Refused = 1,
    /// The peer reset the connection.
    Reset = 2,
    /// Too many retransmissions without an answer.
    TimedOut = 3,
    /// ICMP: host unreachable.
    HostUnreachable = 4,
    /// ICMP: network unreachable, or no route.
    NetworkUnreachable = 5,
    /// The address or port is taken.
    InUse = 6,
    /// The address is not one of ours.
    NotAvailable = 7,
    /// Aborted by our side.
    Aborted = 8,
    /// A limit was reached.
    NoResources = 9,
    /// The operation does not fit the state.
    Invalid = 10,
    /// Not known to this worker.
    NotSupported = 11,
    /// The service is gone.
    ServiceGone = 12,
    /// The socket is not connected.
    NotConnected = 13,
    /// ICMP: the peer's host does not serve the protocol.
    ProtocolUnreachable = 14,
    /// ICMPv6: a router's policy forbids the way.
    Prohibited = 15,
    /// A datagram was larger than the path takes.
    MessageTooLong = 16,
    /// The peer reset the connection after it had closed its side, and we had not: what is written is lost.
    Broken = 17,
    /// The host's packet filters may not let all packets pass, and only the kernel obeys them.
    Guarded = 18,
    /// BPF programs of the process's cgroup would not see the socket, and only the kernel runs them.
    CgroupProgram = 19,
    /// A rule of the configuration leaves it to the kernel.
    Rule = 20,
    /// The kernel's own connections of the port are not known yet.
    PortWaits = 21,
    /// A rule of the configuration denies it.
    Denied = 22,
    /// The stack does not get its packets any more.
    NotOurs = 23,
}

impl Failure {
    /// The failure that `word` stands for; unknown words are [`Failure::Reset`], zero is none.
    pub fn from_word(word: u32) -> Option<Failure> {
        Some(match word {
            0 => return None,
            1 => Failure::Refused,
            3 => Failure::TimedOut,
            4 => Failure::HostUnreachable,
            5 => Failure::NetworkUnreachable,
            6 => Failure::InUse,
            7 => Failure::NotAvailable,
            8 => Failure::Aborted,
            9 => Failure::NoResources,
            10 => Failure::Invalid,
            11 => Failure::NotSupported,
            12 => Failure::ServiceGone,
            13 => Failure::NotConnected,
            14 => Failure::ProtocolUnreachable,
            15 => Failure::Prohibited,
            16 => Failure::MessageTooLong,
            17 => Failure::Broken,
            18 => Failure::Guarded,
            19 => Failure::CgroupProgram,
            20 => Failure::Rule,
            21 => Failure::PortWaits,
            22 => Failure::Denied,
            23 => Failure::NotOurs,
            _ => Failure::Reset,
        })
    }
}

/// What can be done with a socket now, as poll(2) asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// A read (or accept) would not block: bytes, end of stream, an error, or a connection.
    pub readable: bool,
    /// A write would not block.
    pub writable: bool,
    /// An error waits to be fetched.
    pub error: bool,
    /// Both directions are over.
    pub hung_up: bool,
    /// The peer will send no more.
    pub peer_closed: bool,
}

/// In place of a descriptor's number: the slot is a member of a listener, and has none.
const MEMBER: u32 = u32::MAX;

/// The bits of [`SlotShared::descriptor`] that say the number, and those below the process.
const NUMBER: u32 = (1 << PROCESS_SHIFT) - 1;
const PROCESS_SHIFT: u32 = 20;
const _: () = assert!(PROCESSES < 1 << (32 - PROCESS_SHIFT), "no place is MEMBER");
/// Bit of the application's flags: a process that has the socket has filtered its system calls.
pub const CONFINED: u32 = 1 << 30;

/// Where a socket has a descriptor number: a process by its number in the region, and the number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessDescriptor {
    /// The process, by its number in the region.
    pub process: u32,
    /// The descriptor.
    pub number: u32,
}

impl ProcessDescriptor {
    /// As it stands in a slot; a number that does not fit is not known.
    fn word(self) -> u32 {
        if self.number < NUMBER { self.process << PROCESS_SHIFT | (self.number + 1) } else { 0 }
    }
}

/// The shared words of a slot.
#[repr(C, align(64))]
pub struct SlotShared {
    // Line 0: the worker writes.
    pub(crate) generation: AtomicU32,
    pub(crate) state: AtomicU32,
    pub(crate) flags: AtomicU32,
    pub(crate) error: AtomicU32,
    pub(crate) rx_pushed: AtomicU32,
    pub(crate) tx_released: AtomicU32,
    pub(crate) send_limit: AtomicU32,
    pub(crate) notify_bytes: AtomicU32,
    pub(crate) completion: AtomicU64,
    pub(crate) link: AtomicU32,
    /// Of a listener: connections that were put on its queue, ever. Of a connection: when it was put there, microseconds.
    pub(crate) accept_pushed: AtomicU32,
    pub(crate) parent: AtomicU32,
    /// Times that there was room again though nothing of this slot was released: chunks of others, a wider limit.
    pub(crate) openings: AtomicU32,
    /// See [`mark`](super::mark).
    pub(crate) mark: AtomicU64,
    // Line 1: applications write.
    pub(crate) rx_consumed: AtomicU32,
    pub(crate) rx_noted: AtomicU32,
    pub(crate) rx_head: AtomicU32,
    pub(crate) rx_offset: AtomicU32,
    pub(crate) tx_queued: AtomicU32,
    pub(crate) tx_waiting: AtomicU32,
    pub(crate) rx_lock: AtomicU32,
    pub(crate) tx_lock: AtomicU32,
    pub(crate) control_lock: AtomicU32,
    pub(crate) control_sequence: AtomicU32,
    pub(crate) accepted: AtomicU32,
    pub(crate) taken: AtomicU32,
    pub(crate) app_flags: AtomicU32,
    pub(crate) app_closed: AtomicU32,
    /// Inode of the kernel's socket under it; of a member of a listener: the first slot.
    pub(crate) inode: AtomicU32,
    /// `process << 20 | number + 1`: the number of a descriptor, in a process by its number in the region; 0: not known; [`MEMBER`].
    pub(crate) descriptor: AtomicU32,
    // Line 2: waiting contexts, and the holders.
    /// Near contexts that watch.
    pub(crate) interest: [AtomicU64; NEAR_WORDS],
    /// Which words of distant interest may have something; bits that only get set.
    pub(crate) distant: AtomicU64,
    /// Near contexts that have an event which they have not taken.
    pub(crate) pending: [AtomicU64; NEAR_WORDS],
    /// Of the processes that hold it: their numbers modulo 64; bits that only get set.
    pub(crate) holders: AtomicU64,
    // Line 3: hand-over, addresses.
    pub(crate) tx_stack: AtomicU32,
    pub(crate) rx_stack: AtomicU32,
    pub(crate) accept_stack: AtomicU32,
    pub(crate) starved: AtomicU32,
    pub(crate) starved_link: AtomicU32,
    pub(crate) ports: AtomicU32,
    /// The number of the last mark whose byte was taken out of the stream.
    pub(crate) mark_taken: AtomicU32,
    /// Kernel process to which SIGURG is sent; 0: none.
    pub(crate) owner: AtomicU32,
    pub(crate) local_ip: [AtomicU64; 2],
    pub(crate) remote_ip: [AtomicU64; 2],
}

impl SlotShared {
    /// Which use of the slot this is.
    #[inline]
    pub fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    /// What the socket is doing.
    #[inline]
    pub fn state(&self) -> State {
        State::from_word(self.state.load(Ordering::Acquire))
    }

    /// What has happened to it.
    #[inline]
    pub fn flags(&self) -> Flags {
        Flags(self.flags.load(Ordering::Acquire))
    }

    /// Fetches and clears the error (SO_ERROR).
    pub fn take_error(&self) -> Option<Failure> {
        if self.error.load(Ordering::Relaxed) == 0 {
            return None;
        }
        Failure::from_word(self.error.swap(0, Ordering::AcqRel))
    }

    /// Leaves an error that was taken for the next call, unless there is another one meanwhile.
    pub fn put_error_back(&self, failure: Failure) {
        // Either is an error that the next call is to see.
        self.error.compare_exchange(0, failure as u32, Ordering::AcqRel, Ordering::Relaxed).ok();
    }

    /// The error, left in place.
    pub fn error(&self) -> Option<Failure> {
        Failure::from_word(self.error.load(Ordering::Acquire))
    }

    /// Bytes that have arrived and were not read (FIONREAD).
    #[inline]
    pub fn unread(&self) -> u32 {
        ahead(&self.rx_pushed, &self.rx_consumed)
    }

    /// Bytes written that the worker has not released: it releases what it has copied, and lent chunks once they are acknowledged.
    #[inline]
    pub fn unsent(&self) -> u32 {
        self.tx_queued.load(Ordering::Acquire).wrapping_sub(self.tx_released.load(Ordering::Acquire))
    }

    /// Bytes that may be written now.
    #[inline]
    pub fn send_space(&self) -> u32 {
        self.send_limit.load(Ordering::Acquire).saturating_sub(self.unsent())
    }

    /// Bytes that may be unacknowledged at a time.
    pub fn send_limit(&self) -> u32 {
        self.send_limit.load(Ordering::Acquire)
    }

    /// Whether enough room is free that a writer should be woken: a third of the limit, like the
    /// kernel, so that writers do not wake for every few bytes.
    #[inline]
    pub(crate) fn has_write_room(&self) -> bool {
        let space = self.send_space();
        space > 0 && space >= self.unsent() / 2
    }

    /// Connections that wait to be accepted.
    #[inline]
    pub fn unaccepted(&self) -> u32 {
        ahead(&self.accept_pushed, &self.accepted)
    }

    /// A number that changes with every arrival (bytes, connections, end of stream, failure): for
    /// edge-triggered waits. Read it before what it stands for. All its parts only ever grow.
    #[inline]
    pub fn arrivals(&self) -> u32 {
        let ends = self.flags().0 & (Flags::PEER_CLOSED.0 | Flags::HUNG_UP.0 | Flags::FAILED.0);
        let pushed = self.rx_pushed.load(Ordering::Acquire).wrapping_add(self.accept_pushed.load(Ordering::Acquire));
        pushed.wrapping_add(ends.count_ones()).wrapping_add(self.mark().map_or(0, Mark::news))
    }

    /// A number that changes whenever writing may have become possible, or impossible for good: for
    /// edge-triggered waits. Read it before what it stands for. All its parts only ever grow.
    #[inline]
    pub fn releases(&self) -> u32 {
        let ends = self.flags().0 & (Flags::HUNG_UP.0 | Flags::FAILED.0 | Flags::WRITE_CLOSED.0);
        let state = self.state.load(Ordering::Acquire).min(State::Closed as u32);
        let room = self.tx_released.load(Ordering::Acquire).wrapping_add(self.openings.load(Ordering::Acquire));
        room.wrapping_add(ends.count_ones()).wrapping_add(state)
    }

    /// Flags of the open file description that the application keeps here (O_NONBLOCK and more of
    /// its own choosing); shared by all processes that have the socket.
    pub fn app_flags(&self) -> u32 {
        self.app_flags.load(Ordering::Acquire)
    }

    /// Sets and clears bits of [`app_flags`](Self::app_flags).
    pub fn change_app_flags(&self, set: u32, clear: u32) {
        self.app_flags.fetch_and(!clear, Ordering::AcqRel);
        self.app_flags.fetch_or(set, Ordering::AcqRel);
    }

    /// Inode of the kernel descriptor that backs the socket, for finding it again after exec; 0: not noted.
    pub fn inode(&self) -> u64 {
        if self.first().is_some() { 0 } else { self.inode.load(Ordering::Acquire).into() }
    }

    /// Notes the inode. Those of sockets have 32 bits (get_next_ino() in Linux's fs/inode.c); any other is not found again.
    pub fn set_inode(&self, inode: u64) {
        self.inode.store(u32::try_from(inode).unwrap_or(0), Ordering::Release);
    }

    /// Where the socket has a number, as programs say it.
    pub fn place(&self) -> Option<ProcessDescriptor> {
        let word = self.descriptor.load(Ordering::Acquire);
        let number = (word & NUMBER).checked_sub(1).filter(|_| word != MEMBER)?;
        Some(ProcessDescriptor { process: word >> PROCESS_SHIFT, number })
    }

    /// Notes the number that a process gave the socket last.
    pub fn set_place(&self, place: ProcessDescriptor) {
        self.descriptor.store(place.word(), Ordering::Release);
    }

    /// The number is closed. Returns true if it was the one noted, which it is no more.
    pub fn forget_place(&self, place: ProcessDescriptor) -> bool {
        self.descriptor.compare_exchange(place.word(), 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Of a member of a listener that every worker has: the listener's slot in the first worker's region.
    pub fn first(&self) -> Option<SlotIndex> {
        (self.descriptor.load(Ordering::Acquire) == MEMBER).then(|| self.inode.load(Ordering::Relaxed))
    }

    /// Makes the slot a member; see [`first`](Self::first).
    pub fn set_first(&self, first: SlotIndex) {
        self.inode.store(first, Ordering::Relaxed);
        self.descriptor.store(MEMBER, Ordering::Release);
    }

    /// Of a listener that every worker has: its slot in the next worker's region; of the last one, nothing. Whether a slot
    /// is such a listener's the application must know. The word is the one that a connection has for urgent data.
    pub fn member(&self) -> Option<SlotIndex> {
        self.mark_taken.load(Ordering::Acquire).checked_sub(1)
    }

    /// Sets [`member`](Self::member).
    pub fn set_partner(&self, member: SlotIndex) {
        self.mark_taken.store(member + 1, Ordering::Release);
    }

    /// The process that is signalled for urgent data (F_SETOWN): a kernel process number; 0: none.
    pub fn owner(&self) -> u32 {
        self.owner.load(Ordering::Acquire)
    }

    /// Sets [`owner`](Self::owner).
    pub fn set_owner(&self, pid: u32) {
        self.owner.store(pid, Ordering::Release);
    }

    /// The local address; IPv4 comes back as IPv4.
    pub fn local(&self) -> SocketAddr {
        SocketAddr::new(load_ip(&self.local_ip), self.ports.load(Ordering::Acquire) as u16)
    }

    /// The peer's address.
    pub fn remote(&self) -> SocketAddr {
        SocketAddr::new(load_ip(&self.remote_ip), (self.ports.load(Ordering::Acquire) >> 16) as u16)
    }

    pub(crate) fn set_addresses(&self, local: SocketAddr, remote: SocketAddr) {
        store_ip(&self.local_ip, local.ip());
        store_ip(&self.remote_ip, remote.ip());
        self.ports.store(u32::from(remote.port()) << 16 | u32::from(local.port()), Ordering::Release);
    }

    /// Makes every word but the generation, the links of lists that others still walk, and the
    /// pending bits (which match entries in event rings) as in a fresh region.
    pub(crate) fn reset(&self) {
        self.completion.store(0, Ordering::Relaxed);
        self.mark.store(0, Ordering::Relaxed);
        let words = [
            &self.state,
            &self.flags,
            &self.error,
            &self.rx_pushed,
            &self.tx_released,
            &self.send_limit,
            &self.notify_bytes,
            &self.accept_pushed,
            &self.parent,
            &self.rx_consumed,
            &self.rx_noted,
            &self.rx_head,
            &self.rx_offset,
            &self.tx_queued,
            &self.tx_waiting,
            &self.rx_lock,
            &self.tx_lock,
            &self.control_lock,
            &self.control_sequence,
            &self.accepted,
            &self.taken,
            &self.app_flags,
            &self.app_closed,
            &self.inode,
            &self.descriptor,
            &self.tx_stack,
            &self.rx_stack,
            &self.accept_stack,
            &self.ports,
            &self.mark_taken,
            &self.owner,
        ];
        for word in words {
            word.store(0, Ordering::Relaxed);
        }
        self.distant.store(0, Ordering::Relaxed);
        self.holders.store(0, Ordering::Relaxed);
        for word in self.interest.iter().chain(&self.local_ip).chain(&self.remote_ip) {
            word.store(0, Ordering::Relaxed);
        }
    }
}

/// By how much `made` is ahead of `used`. A user may be quicker than the maker's count: then by none.
#[inline]
fn ahead(made: &AtomicU32, used: &AtomicU32) -> u32 {
    let used = used.load(Ordering::Acquire);
    let ahead = made.load(Ordering::Acquire).wrapping_sub(used);
    if ahead as i32 >= 0 { ahead } else { 0 }
}

fn load_ip(words: &[AtomicU64; 2]) -> IpAddr {
    let high = u128::from(words[0].load(Ordering::Acquire));
    let low = u128::from(words[1].load(Ordering::Acquire));
    IpAddr::V6(Ipv6Addr::from(high << 64 | low)).to_canonical()
}

fn store_ip(words: &[AtomicU64; 2], ip: IpAddr) {
    let bits = super::request::wide(ip);
    words[0].store((bits >> 64) as u64, Ordering::Release);
    words[1].store(bits as u64, Ordering::Release);
}
