//! Context of the attachments while they work: the stack, the port table, the counters, the time.

use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::Range;

use ringway_shm::arena::{LARGE_BYTES, SMALL_BYTES, SMALL_HEADROOM};
use ringway_shm::{Arena, Class, Duration, Instant};
use ringway_stack::{AcceptError, Backlog, FrameUse, Protocol, SocketId, Stack, State, TcpConfig, TcpOptions};

use crate::attach::BulkPolicy;
use crate::command::RegionId;
use crate::handover::Unmoved;
use crate::known_sources::KnownSources;
use crate::metrics::{Metrics, Work};
use crate::port_table::PortTable;
use crate::quota::Quota;

/// Most bytes that are queued at a time.
const PIECE: usize = 64 << 10;
/// A connection may hold one in this many of the free frames.
const SHARE: usize = 8;
/// An application is held back when more of its sockets are unread than one in this many of the frames.
const HOARD: u32 = 16;
/// Bytes that a connection may hold before its peer has taken any, when frames are scarce.
const START: usize = 4 << 10;
/// Longest message that goes into small frames, bytes.
const SMALL_MESSAGE: usize = SMALL_BYTES - SMALL_HEADROOM as usize;

/// End of a connection, in so far as it concerns its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It was never open: nothing is under way.
    Refused,
    /// One side gave it up; segments of the other may be under way.
    Reset,
    /// The peer closed first and has acknowledged our FIN: it sends nothing more.
    Finished,
    /// TIME-WAIT follows.
    Closed,
}

impl Ending {
    /// Ending of a connection that is closed on both sides.
    pub(crate) fn closed(time_wait: bool) -> Ending {
        if time_wait { Ending::Closed } else { Ending::Finished }
    }
}

/// Time that the port of a reset connection stays ours.
const RESET_HOLD: Duration = Duration::from_secs(2);

/// A connection without an application.
#[derive(Debug)]
pub(crate) struct Orphan {
    /// The group that had it.
    pub(crate) region: u32,
    /// The port that it still uses.
    pub(crate) port: Option<(IpAddr, u16)>,
    /// Where a tool listens for its end: the program that had it.
    pub(crate) owner: Option<Box<Owner>>,
}

/// The program of a group.
#[derive(Clone, Debug, Default)]
pub(crate) struct Owner {
    /// The process that made the group.
    pub(crate) pid: u32,
    /// Its user.
    pub(crate) uid: u32,
    /// Its name.
    pub(crate) program: String,
}

/// What lies under an interface.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Link {
    /// The kernel's number; 0: unknown.
    pub(crate) number: u32,
    /// The kernel gets none of its packets.
    pub(crate) is_alone: bool,
    /// Its device delivers packets to multicast groups, whether the kernel gets them too or not.
    pub(crate) copies_multicast: bool,
}

/// The worker's state without its devices and applications.
pub struct Core {
    /// Time of the iteration.
    pub now: Instant,
    /// The protocols.
    pub stack: Stack,
    /// Source of all frames.
    pub arena: Arena,
    pub(crate) ports: PortTable,
    pub(crate) metrics: Metrics,
    /// Sources of accepted connections.
    pub(crate) known_sources: KnownSources,
    /// TCP's settings.
    pub(crate) tcp: TcpConfig,
    /// Time that a closed connection may hold its port.
    pub(crate) time_wait: Duration,
    /// Default size of a connection's buffers, bytes.
    pub(crate) buffer_bytes: u32,
    /// Connections that are to go to the kernel for their bulk data; `None`: none is.
    pub(crate) bulk: Option<BulkPolicy>,
    /// Options of a socket that sets none.
    pub(crate) socket_defaults: TcpOptions,
    /// See [`note_backlog`](Core::note_backlog).
    backlog: Backlog,
    /// What lies under the stack's interfaces.
    links: Vec<Link>,
    /// Groups that programs join at interfaces that the kernel shares are the stack's too.
    pub(crate) multicast_on_stack: bool,
    /// Children that processes have reported: region, process index, process id.
    pub(crate) forks: Vec<(RegionId, u32, u32)>,
    /// A quarter of the frames that send queues may take: large ones, small ones.
    quarters: [u32; 2],
    /// Connections without an application.
    orphans: HashMap<SocketId, Orphan>,
    /// Maximum number of orphans.
    orphans_max: u32,
    /// Orphans that are reset after the next transmission.
    departing: Vec<SocketId>,
    /// Connections that programs were asked for and have not given.
    pub(crate) unmoved: Vec<Unmoved>,
    /// The stack may know other rooms of listeners than it should.
    pub(crate) rooms_are_stale: bool,
}

impl Core {
    /// [`follow_config`](Core::follow_config) completes it.
    pub(crate) fn new(now: Instant, stack: Stack, arena: Arena, ports: PortTable, metrics: Metrics) -> Core {
        Core {
            now,
            stack,
            ports,
            metrics,
            known_sources: KnownSources::new(),
            tcp: TcpConfig::default(),
            time_wait: Duration::ZERO,
            buffer_bytes: 0,
            bulk: None,
            socket_defaults: TcpOptions::default(),
            links: Vec::new(),
            multicast_on_stack: false,
            forks: Vec::new(),
            quarters: [Class::Large, Class::Small].map(|class| Stack::sendable_frames(&arena, class) / 4),
            orphans: HashMap::new(),
            orphans_max: u32::MAX,
            arena,
            departing: Vec::new(),
            unmoved: Vec::new(),
            rooms_are_stale: false,
            backlog: Backlog::default(),
        }
    }

    /// Takes over what TCP's settings mean for sockets of applications.
    pub(crate) fn follow_config(&mut self, tcp: &TcpConfig) {
        self.tcp = tcp.clone();
        self.time_wait = tcp.time_wait;
        self.buffer_bytes = tcp.receive_buffer_bytes;
        self.socket_defaults = TcpOptions { congestion_control: tcp.congestion_control, ..TcpOptions::default() };
    }

    /// Replaces TCP's settings.
    pub(crate) fn set_tcp_config(&mut self, tcp: TcpConfig) {
        self.follow_config(&tcp);
        self.stack.set_tcp_config(tcp);
    }

    /// Accepts a listener's oldest waiting connection; see [`Stack::accept`].
    ///
    /// # Errors
    /// The stack's.
    #[inline]
    pub fn accept(&mut self, listener: SocketId, user_token: u64) -> Result<SocketId, AcceptError> {
        let accepted = self.stack.accept(listener, user_token)?;
        if let Some((_, remote)) = self.stack.addresses(accepted) {
            self.known_sources.add(remote.ip);
        }
        Ok(accepted)
    }

    /// The kernel's number of an interface of the stack; 0: unknown.
    pub(crate) fn kernel_number(&self, interface: u32) -> u32 {
        self.link(interface).number
    }

    /// Sets what lies under an interface.
    pub(crate) fn set_link(&mut self, interface: u32, link: Link) {
        let place = interface as usize;
        self.links.resize(self.links.len().max(place + 1), Link::default());
        self.links[place] = link;
    }

    fn link(&self, interface: u32) -> Link {
        self.links.get(interface as usize).copied().unwrap_or_default()
    }

    /// The interface with this number of the kernel's.
    pub(crate) fn interface_numbered(&self, number: u32) -> Option<u32> {
        self.links.iter().position(|link| link.number == number).map(|at| at as u32)
    }

    /// Returns true if the kernel gets no packet of the interface.
    pub(crate) fn is_alone_at(&self, interface: u32) -> bool {
        self.link(interface).is_alone
    }

    /// Returns true if packets to multicast groups come from the interface.
    pub(crate) fn copies_multicast(&self, interface: u32) -> bool {
        self.link(interface).copies_multicast
    }

    /// Returns true if programs may join multicast groups at the interface: an interface of the stack alone has no one else to receive for them.
    pub(crate) fn hears_multicast(&self, interface: u32) -> bool {
        self.copies_multicast(interface) && (self.is_alone_at(interface) || self.multicast_on_stack)
    }

    /// Returns true if programs may join multicast groups at some interface.
    pub(crate) fn hears_multicast_somewhere(&self) -> bool {
        (0..self.links.len() as u32).any(|interface| self.hears_multicast(interface))
    }

    /// Bytes that a connection may queue now of a message of `count`. Each connection may hold a share of the free
    /// frames, which is large while few want some (the dynamic threshold of Choudhury and Hahne). When a quarter of the
    /// frames is in use, no connection may hold more than its peer has ever taken plus a little, so that data that many
    /// peers never read stays small. The last quarter is for connections that hold none: those that drain, and new
    /// ones.
    #[inline]
    pub(crate) fn send_allowance(&self, id: SocketId, count: usize) -> usize {
        let held = self.stack.send_memory(id);
        let is_small = count <= SMALL_MESSAGE;
        let (class, bytes) = if is_small { (Class::Small, SMALL_BYTES) } else { (Class::Large, LARGE_BYTES) };
        let quarter = self.quarters[usize::from(is_small)] as usize;
        let free = Stack::sendable_frames(&self.arena, class) as usize;
        if free >= quarter * 3 {
            return (free * bytes / SHARE).saturating_sub(held).min(PIECE);
        }
        self.scarce_allowance(id, held, free, class)
    }

    /// Like [`send_allowance`](Core::send_allowance), if only `free` frames of the class are left.
    #[inline(never)]
    fn scarce_allowance(&self, id: SocketId, held: usize, free: usize, class: Class) -> usize {
        let (bytes, quarter) = match class {
            Class::Small => (SMALL_BYTES, self.quarters[1] as usize),
            Class::Large => (LARGE_BYTES, self.quarters[0] as usize),
        };
        let first = match held {
            0 if self.backlog.starves_senders => {
                self.arena.free(class).saturating_sub(FrameUse::First.leaves(self.arena.capacity(class)))
            }
            0 => free as u32,
            _ => 0,
        };
        let start = START.min(first as usize * bytes);
        let share = free.saturating_sub(quarter) * bytes / SHARE;
        let taken = usize::try_from(self.stack.bytes_acknowledged(id)).unwrap_or(usize::MAX);
        share.min(START.saturating_add(taken)).saturating_sub(held).min(PIECE).max(start)
    }

    /// So many sockets hold received data for which their applications have no chunk; `hoards` are the tokens of the applications that
    /// have more of them than [`hoard_max`](Core::hoard_max). An application may wait until it has sent an answer before it reads on.
    pub(crate) fn note_backlog(&mut self, sockets: usize, hoards: Vec<Range<u64>>) {
        let backlog = Backlog { starves_senders: sockets > self.least(|frames| FrameUse::Sending.leaves(frames)), hoards };
        if backlog != self.backlog {
            self.stack.set_backlog(&backlog);
            self.backlog = backlog;
        }
    }

    /// Returns true if applications leave much unread, as far as is known.
    pub(crate) fn has_backlog(&self) -> bool {
        self.backlog.starves_senders || !self.backlog.hoards.is_empty()
    }

    /// Sockets that an application may leave unread, a frame each in the stack, before it is held back.
    pub(crate) fn hoard_max(&self) -> usize {
        self.least(|frames| frames / HOARD)
    }

    /// The smaller one of what is made of the number of large frames and of small ones: received data may take either.
    fn least(&self, part: impl Fn(u32) -> u32) -> usize {
        part(self.arena.capacity(Class::Large)).min(part(self.arena.capacity(Class::Small))) as usize
    }

    /// Sets the maximum number of orphans.
    pub(crate) fn limit_orphans(&mut self, most: u32) {
        self.orphans_max = most;
    }

    /// Connections that no application has any more: how many there are, and may be.
    pub(crate) fn orphans(&self) -> (usize, u32) {
        (self.orphans.len(), self.orphans_max)
    }

    /// The program that an orphan is of, where a tool listened when it became one.
    pub(crate) fn owner_of_orphan(&self, id: SocketId) -> Option<&Owner> {
        self.orphans.get(&id)?.owner.as_deref()
    }

    /// Those of them whose peers have yet to acknowledge data or the FIN.
    pub(crate) fn sending_orphans(&self) -> impl Iterator<Item = SocketId> {
        self.orphans.keys().copied().filter(|id| self.stack.orphan_sends(*id))
    }

    /// Closes a connection for its group; it lives on until its peer has everything, and gives back its port
    /// at its end. If there are too many orphans it is reset, as by Linux (tcp_max_orphans).
    pub(crate) fn orphan(&mut self, id: SocketId, orphan: Orphan) {
        if self.orphans.len() >= self.orphans_max as usize {
            self.metrics.add(Work::OrphansReset, 1);
            self.metrics.hit(Quota::Orphans, 0);
            self.stack.abort(self.now, id);
            if let Some((ip, port)) = orphan.port {
                self.release_port(ip, port, Ending::Reset);
            }
            return;
        }
        self.orphans.insert(id, orphan);
        self.stack.close(self.now, id);
    }

    /// Resets the orphans of the group `region`; returns their number.
    pub(crate) fn reset_orphans_of(&mut self, region: u32) -> u64 {
        let left = self.orphans.iter().filter(|(_, orphan)| orphan.region == region);
        let mut left: Vec<SocketId> = left.map(|(&id, _)| id).collect();
        left.sort_unstable();
        let mut count = 0;
        for id in left {
            count += u64::from(self.stack.reset_orphan(self.now, id));
            self.reap(id, Ending::Reset);
        }
        self.metrics.add(Work::OrphansReset, count);
        count
    }

    /// Like [`orphan`](Core::orphan), for a connection that is reset once the queued bytes that its windows allow are
    /// sent.
    pub(crate) fn reset_behind_data(&mut self, id: SocketId, orphan: Orphan) {
        self.orphans.insert(id, orphan);
        self.departing.push(id);
    }

    /// Resets, after a transmission, the connections that waited for it. Returns true if there were any.
    #[inline]
    pub(crate) fn reset_departing(&mut self) -> bool {
        let any = !self.departing.is_empty();
        if any {
            self.reset_all_departing();
        }
        any
    }

    fn reset_all_departing(&mut self) {
        let mut departing = std::mem::take(&mut self.departing);
        for id in departing.drain(..) {
            self.stack.abort(self.now, id);
            self.reap(id, Ending::Reset);
        }
        self.departing = departing;
    }

    /// Reaps an orphan that has ended.
    pub(crate) fn reap(&mut self, id: SocketId, ending: Ending) {
        if let Some((ip, port)) = self.orphans.remove(&id).and_then(|orphan| orphan.port) {
            self.release_port(ip, port, ending);
        }
    }

    /// The peers of all connections of the stack at `ip`:`port`, half-open ones and those in TIME-WAIT too.
    pub(crate) fn peers_of(&self, ip: IpAddr, port: u16) -> Vec<(IpAddr, u16)> {
        let mut peers = Vec::new();
        self.stack.for_each_socket(&mut |socket| {
            let is_here = (socket.local.ip, socket.local.port) == (ip, port);
            if is_here && socket.protocol == Protocol::Tcp && socket.state != State::Listen {
                peers.push((socket.remote.ip, socket.remote.port));
            }
        });
        peers
    }

    /// New connections of a listener's port are to be the kernel's: until they are, or it is known that they stay here, no SYN is taken. The
    /// listeners' rooms are stale then.
    pub(crate) fn let_port_go(&mut self, ip: IpAddr, port: u16) {
        let mut listeners = Vec::new();
        self.stack.for_each_socket(&mut |socket| {
            let serves = socket.local.ip == ip || (socket.local.ip.is_unspecified() && socket.local.ip.is_ipv4() == ip.is_ipv4());
            if serves && socket.local.port == port && socket.state == State::Listen {
                listeners.push(socket.id);
            }
        });
        listeners.into_iter().for_each(|id| self.stack.set_room(id, 0));
        self.rooms_are_stale = true;
        let stay = self.peers_of(ip, port);
        self.ports.let_go((ip, port), &stay, self.now);
    }

    /// New connections of a port are the stack's again, if they can be.
    pub(crate) fn take_port_back(&mut self, ip: IpAddr, port: u16) {
        let stay = self.peers_of(ip, port);
        self.ports.take_back((ip, port), &stay);
        self.rooms_are_stale = true;
    }

    /// Returns true if the stack has answered a SYN to this address and port and waits for the peer's ACK.
    pub(crate) fn is_opening(&self, ip: IpAddr, port: u16) -> bool {
        if self.stack.records().0 == 0 {
            return false;
        }
        let mut opening = false;
        self.stack.for_each_socket(&mut |socket| {
            opening |= (socket.local.ip, socket.local.port, socket.state) == (ip, port, State::SynReceived);
        });
        opening
    }

    /// Gives back the port of a connection when none of its packets can arrive any more: the kernel's TCP must not see
    /// them.
    pub(crate) fn release_port(&mut self, ip: IpAddr, port: u16, ending: Ending) {
        match ending {
            Ending::Refused | Ending::Finished => self.ports.remove(ip, port),
            Ending::Reset => self.ports.remove_late(self.now, self.time_wait.min(RESET_HOLD), ip, port),
            Ending::Closed => self.ports.remove_late(self.now, self.time_wait, ip, port),
        }
    }
}
