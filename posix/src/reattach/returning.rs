//! Connections that were the stack's come back from the kernel to a later service, or to the same one when it is asked to have them back.
//!
//! A connection that a listener has accepted is noted when the kernel gets it. A process that is attached to a later service offers it at its looks
//! (see the parent), once it has been silent for a while: the service takes it out of the kernel socket when nothing of it is under way. The service that has
//! handed it over is offered it after the operator has asked for some (`Channel::recalls`).
//!
//! Promises: no call on such a socket is in progress meanwhile: only a process without other threads offers. No other process has the socket: a fork, and a
//! message with the descriptor, end it for what there is by then. Does not do: connections that the process has opened itself, and those that were
//! inherited.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

use crate::Posix;
use crate::address::Parsed;
use crate::channel::{Channel, Place};
use crate::descriptions::Flag;
use crate::fallback::Fd;
use crate::fd_table::{Entry, SocketRef};
use crate::options::table::Known;
use ringway_channel::attach::Way;

/// Connections of this process that may return, by their numbers: a number that is another connection's now is that one's.
#[derive(Default)]
pub(super) struct Connections {
    /// True if there are some.
    any: AtomicBool,
    list: Mutex<BTreeMap<Fd, Connection>>,
    /// Where the next look begins.
    next: AtomicI32,
    /// Looks since one was noted, or could have been offered.
    vain: AtomicU32,
}

/// A connection that is the kernel's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Connection {
    pub(super) fd: Fd,
    pub(super) inode: u64,
    /// The attachment that it has left.
    pub(super) left: usize,
    /// What that service had asked for back by then, or when it did not want this one.
    pub(super) recalls: u32,
    /// The options that were set meanwhile.
    pub(super) options: u64,
    /// Offers that a service has refused.
    pub(super) refusals: u32,
}

/// What a look finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// It may be offered.
    May,
    /// Not now.
    Busy,
    /// It stays the kernel's.
    Over,
}

impl Connections {
    /// Notes a connection; one that a signal handler meets stays the kernel's.
    pub(super) fn note(&self, away: Connection) {
        let Ok(mut list) = self.list.try_lock() else { return };
        list.insert(away.fd, away);
        self.any.store(true, Ordering::Release);
        self.vain.store(0, Ordering::Relaxed);
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.any.load(Ordering::Acquire)
    }

    /// Returns true if a look is of use: a while after the last one was noted they wait for the end of the service that they have left, which the
    /// process hears of.
    pub(super) fn seek(&self) -> bool {
        !self.is_empty() && self.vain.load(Ordering::Relaxed) < VAIN_LOOKS
    }

    /// Those that there are stay the kernel's.
    pub(super) fn forget(&self) {
        if !self.is_empty()
            && let Ok(mut list) = self.list.try_lock()
        {
            list.clear();
            self.any.store(false, Ordering::Release);
        }
    }

    /// Takes some out of the list, beginning where the last look has ended.
    fn take(&self) -> Vec<Connection> {
        self.vain.fetch_add(1, Ordering::Relaxed);
        let Ok(mut list) = self.list.try_lock() else { return Vec::new() };
        let taken: Vec<Connection> =
            list.range(self.next.load(Ordering::Relaxed)..).map(|(_, away)| *away).take(LOOKED_AT).collect();
        let last = taken.last().filter(|_| taken.len() == LOOKED_AT);
        self.next.store(last.map_or(0, |away| away.fd + 1), Ordering::Relaxed);
        taken.iter().for_each(|away| _ = list.remove(&away.fd));
        taken
    }

    fn put_back(&self, away: Vec<Connection>) {
        let Ok(mut list) = self.list.try_lock() else { return };
        list.extend(away.into_iter().map(|away| (away.fd, away)));
        self.any.store(!list.is_empty(), Ordering::Release);
    }
}

impl Connection {
    /// The very service that is attached now has handed it over, and has not asked for it since.
    fn waits(self, present: usize, recalls: u32) -> bool {
        self.left == present && self.recalls == recalls
    }

    /// The same after a refusal; `None`: it stays the kernel's. One that was asked for waits until it is asked for again.
    fn refused(self, way: Way, recalls: u32) -> Option<Connection> {
        let refusals = self.refusals + 1;
        match way {
            _ if refusals < OFFERS_MAX => Some(Connection { refusals, ..self }),
            Way::Recalled => Some(Connection { refusals: 0, recalls, ..self }),
            Way::Back | Way::Home => None,
        }
    }
}

impl Posix {
    /// Returns true for a connection that this process alone has, under one number, and that a listener has accepted.
    pub(super) fn may_return(&self, channel: &dyn Channel, socket: SocketRef) -> bool {
        let description = self.descriptions.of(socket);
        description.is(Flag::ACCEPTED)
            && !description.is(Flag::DATAGRAM)
            && description.references() == 1
            && !channel.is_held_elsewhere(socket)
            && !channel.is_in_flight(socket)
    }

    /// Before another process can have what this one has: connections that are the kernel's stay there.
    pub(crate) fn share_connections(&self) {
        self.away.connections.forget();
    }

    /// Offers some of the connections to the service.
    pub(super) fn connections_return(&self) {
        let (present, Some(channel)) = self.attachment.present() else { return };
        if self.away.connections.is_empty() {
            return;
        }
        if self.rings.carry_sockets() || self.kernel.has_other_threads() {
            return self.share_connections();
        }
        let (mut offered, mut kept) = (Vec::new(), Vec::new());
        let taken = self.away.connections.take();
        if taken.iter().any(|away| !away.waits(present, channel.recalls())) {
            self.away.connections.vain.store(0, Ordering::Relaxed);
        }
        for away in taken {
            match self.look_at(channel, away, present) {
                Found::May if offered.len() < OFFERED => offered.extend(self.open_for(channel, away)),
                Found::May | Found::Busy => kept.push(away),
                Found::Over => {}
            }
        }
        let (recalled, earlier): (Vec<_>, Vec<_>) = offered.into_iter().partition(|(away, _)| away.left == present);
        let recalled = self.offer(channel, Way::Recalled, recalled);
        let earlier = self.offer(channel, Way::Back, earlier);
        let is_wanted = earlier.is_some();
        kept.extend(recalled.into_iter().chain(earlier).flatten());
        self.away.connections.put_back(kept);
        if !is_wanted {
            self.share_connections();
        }
    }

    /// Offers connections with the fresh sockets that are to have them. Returns those that may be offered again; `None`: the service wants none.
    fn offer(&self, channel: &dyn Channel, way: Way, offered: Vec<(Connection, SocketRef)>) -> Option<Vec<Connection>> {
        let offers: Vec<_> = offered.iter().map(|&(away, socket)| (socket, away.fd)).collect();
        let answers = if offers.is_empty() { Some(Vec::new()) } else { channel.adopt(way, &offers) };
        let is_wanted = answers.is_some();
        let otherwise = false;
        let answers = answers.unwrap_or_default().into_iter().chain(std::iter::repeat(otherwise));
        let mut kept = Vec::new();
        for ((away, socket), is_adopted) in offered.into_iter().zip(answers) {
            if is_adopted {
                let description = self.descriptions.of(socket);
                description.mark(Flag::ACCEPTED);
                description.mark(Flag::CONNECT_REPORTED);
                self.name_all_numbers(away.fd, socket);
                continue;
            }
            self.abandon(channel, socket);
            kept.extend(away.refused(way, channel.recalls()));
        }
        is_wanted.then_some(kept)
    }

    /// The operator of the service has asked for connections back: the next call looks.
    pub(crate) fn connections_are_recalled(&self) {
        if !self.away.connections.is_empty() {
            self.away.connections.vain.store(0, Ordering::Relaxed);
            self.attachment.seek_now();
        }
    }

    /// A socket of the stack for the connection, with its options.
    fn open_for(&self, channel: &dyn Channel, away: Connection) -> Option<(Connection, SocketRef)> {
        let Parsed::Inet { address: local, inet6 } = self.local_name(away.fd) else { return None };
        // The next offer is another worker's: only the one to which the flow's packets come takes it.
        let socket = self.open_socket(channel, away.fd, inet6, Place::At(away.refusals))?;
        self.copy_options(channel, (away.fd, socket), Some(local.ip()), away.options);
        Some((away, socket))
    }

    fn look_at(&self, channel: &dyn Channel, away: Connection, present: usize) -> Found {
        let Connection { fd, inode, .. } = away;
        let is_same = self.kernel.identity(fd).is_ok_and(|identity| identity.is_socket() && identity.inode == inode);
        if !is_same || self.table.lookup(fd) != Entry::None {
            return Found::Over;
        }
        if away.waits(present, channel.recalls()) {
            return Found::Busy;
        }
        let signals = self.kernel.status_flags(fd).is_ok_and(|flags| flags & libc::O_ASYNC != 0);
        if signals || self.kernels_option(fd, Known::stream).is_some() || self.is_elsewhere(channel, fd) {
            return Found::Over;
        }
        match self.is_silent(fd) {
            None => Found::Over,
            Some(false) => Found::Busy,
            Some(true) => Found::May,
        }
    }

    /// Returns true if nothing of an established connection is under way, or was a moment ago; `None`: it is not established.
    fn is_silent(&self, fd: Fd) -> Option<bool> {
        let mut info = [0; INFO_BYTES];
        let len = self.kernel.option(fd, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info).ok()?;
        if len < INFO_BYTES || info[0] != TCP_ESTABLISHED {
            return None;
        }
        let word = |at: usize| info[at..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
        Some(word(UNACKNOWLEDGED_AT) == 0 && word(SENT_AT).min(word(RECEIVED_AT)) >= SILENT_MS)
    }
}

/// `struct tcp_info` (include/uapi/linux/tcp.h): tcpi_state is the first byte; tcpi_unacked, tcpi_last_data_sent, tcpi_last_data_recv.
const TCP_ESTABLISHED: u8 = 1;
const UNACKNOWLEDGED_AT: usize = 24;
const SENT_AT: usize = 44;
const RECEIVED_AT: usize = 52;
const INFO_BYTES: usize = RECEIVED_AT + 4;
/// As the service wants it, and a little more.
const SILENT_MS: u32 = 120;
/// Offers of a connection before it stays the kernel's: what comes from the peer meanwhile is a reason to refuse one.
const OFFERS_MAX: u32 = 20;
/// Looks, a second or more apart, that find only connections of the service that is there still.
const VAIN_LOOKS: u32 = 60;
/// Connections that one look asks the kernel about, a microsecond or two each.
const LOOKED_AT: usize = 2_048;
/// Connections that are offered together, for which the service makes the process wait once.
const OFFERED: usize = 64;
