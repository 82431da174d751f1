//! The worker's table of native sockets: their news from the stack, and the resources that the application holds.
//!
//! The stack names a native socket by a mark and its index in this table, so an event costs an index and no search.
//! News of a socket is merged and reported once; a socket without news costs nothing. Promises: no allocation per event
//! once the table has grown. Does not do: calls of the stack for the application; the crate `ringway` makes them.

mod ahead;
mod returns;
mod timers;

use std::collections::VecDeque;
use std::rc::Rc;

use ringway_shm::{Arena, Burst, Class, Duration, Instant};
use ringway_stack::{Event, FrameUse, SocketError, SocketId};

use crate::core::Core;

pub use ahead::{Ahead, TURN_BYTES};
pub use returns::{Credit, Returns};
pub use timers::{TimerId, Timers};

/// High half of the user token of native sockets. Regions are numbered from zero.
const NATIVE: u64 = (u32::MAX as u64) << 32;
/// A socket may hold one in this many of the free frames in chunks that its application has not given back; queues have
/// the same limit.
const LENT_SHARE: u32 = 8;
/// Interval of that check.
const FEED_INTERVAL: Duration = Duration::from_millis(1);

/// Kind of a table entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// No socket has the index.
    Free,
    /// A TCP listener.
    Listener,
    /// A TCP connection.
    Stream,
    /// A UDP socket.
    Datagram,
}

/// Names a socket of the application; the generation marks stale handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle {
    /// Index in the table.
    pub index: u32,
    /// Number of sockets that had the index before.
    pub generation: u32,
}

/// News of a socket since the application's last event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct News(u8);

impl News {
    /// Something can be read, written or accepted.
    pub const READY: News = News(1);
    /// The connection has been established.
    pub const CONNECTED: News = News(2);
    /// The connection has failed.
    pub const FAILED: News = News(4);
    /// There is news of urgent data.
    pub const URGENT: News = News(8);

    /// Returns true if it has any of `other`.
    #[inline]
    pub fn has(self, other: News) -> bool {
        self.0 & other.0 != 0
    }
}

/// One socket.
#[derive(Debug)]
pub struct Entry {
    /// The stack's id.
    pub socket: SocketId,
    generation: u32,
    /// Kind of the socket.
    pub kind: Kind,
    news: News,
    /// Bits [`LISTED`], [`STARVED`], [`AHEAD`].
    marks: u8,
    /// Reason why the connection has failed.
    pub error: Option<SocketError>,
    /// Frames in chunks that the application holds.
    pub lent: u32,
}

const _: () = assert!(size_of::<Entry>() == 20, "there is one for each connection, idle ones too");

/// In [`Entry::marks`]: the socket is in the ready list.
const LISTED: u8 = 1;
/// In [`Entry::marks`]: the socket was refused frames and is to be told when some are free.
const STARVED: u8 = 2;
/// In [`Entry::marks`]: its copies went too far ahead, and it wants to hear when a transmission is over.
const AHEAD: u8 = 4;

/// All native sockets of a worker, and the application's timers.
pub struct Sockets {
    entries: Vec<Entry>,
    free: Vec<u32>,
    ready: VecDeque<u32>,
    /// What the application has given back since the last iteration.
    pub returns: Rc<Returns>,
    /// Timers of the application.
    pub timers: Timers,
    /// The application has done something for `transmit`.
    pub touched: bool,
    /// Payload bytes copied between frames and the application.
    pub copied: u64,
    /// Scratch: frames of the received datagram.
    pub datagram: Burst,
    starved: Vec<u32>,
    feed_at: Option<Instant>,
    /// Copies of large writes since the last transmission.
    pub ahead: Ahead,
}

impl Sockets {
    pub(crate) fn new() -> Sockets {
        Sockets {
            entries: Vec::new(),
            free: Vec::new(),
            ready: VecDeque::new(),
            returns: Rc::default(),
            timers: Timers::default(),
            touched: false,
            copied: 0,
            datagram: Burst::default(),
            starved: Vec::new(),
            feed_at: None,
            ahead: Ahead::default(),
        }
    }

    /// Index for a new socket, and its user token for the stack. [`open`](Sockets::open) takes it.
    pub fn vacancy(&mut self) -> (u32, u64) {
        let index = self.free.last().copied().unwrap_or_else(|| {
            let index = u32::try_from(self.entries.len()).expect("the stack has fewer sockets");
            self.entries.push(Entry {
                socket: SocketId { index: u32::MAX, generation: 0 },
                generation: 0,
                kind: Kind::Free,
                news: News::default(),
                marks: 0,
                error: None,
                lent: 0,
            });
            self.free.push(index);
            index
        });
        (index, NATIVE | u64::from(index))
    }

    /// Takes the index that `vacancy` has returned last.
    pub fn open(&mut self, index: u32, socket: SocketId, kind: Kind) -> Handle {
        let taken = self.free.pop();
        assert_eq!(taken, Some(index), "vacancy named it");
        let entry = &mut self.entries[index as usize];
        (entry.socket, entry.kind) = (socket, kind);
        Handle { index, generation: entry.generation }
    }

    /// Closes a socket as close(2) does: written data is still sent, then FIN; RST if received data was not read. Does nothing
    /// if the handle is stale.
    pub fn close(&mut self, handle: Handle, core: &mut Core) {
        if let Some(socket) = self.free(handle, core) {
            core.stack.close(core.now, socket);
        }
    }

    /// Resets a connection with RST. Does nothing if the handle is stale.
    pub fn abort(&mut self, handle: Handle, core: &mut Core) {
        if let Some(socket) = self.free(handle, core) {
            core.stack.abort(core.now, socket);
        }
    }

    /// Closes the sockets that the application has dropped.
    #[inline]
    pub fn close_dropped(&mut self, core: &mut Core) {
        if self.returns.has_dropped() {
            self.close_all_dropped(core);
        }
    }

    #[cold]
    fn close_all_dropped(&mut self, core: &mut Core) {
        while let Some(handle) = self.returns.pop_dropped() {
            self.close(handle, core);
        }
    }

    /// Frees the index of a socket that ends, and returns its id. Chunks of the socket that are still held do no harm.
    fn free(&mut self, handle: Handle, core: &mut Core) -> Option<SocketId> {
        // What was read does not count as unread.
        self.take_credits(core);
        let entry = self.entries.get_mut(handle.index as usize)?;
        if entry.generation != handle.generation || entry.kind == Kind::Free {
            return None;
        }
        let socket = entry.socket;
        entry.generation = entry.generation.wrapping_add(1);
        entry.socket = SocketId { index: u32::MAX, generation: 0 };
        (entry.kind, entry.news, entry.error, entry.lent) = (Kind::Free, News::default(), None, 0);
        self.free.push(handle.index);
        self.touched = true;
        Some(socket)
    }

    /// The socket of a handle; `None` if it is stale.
    #[inline]
    pub fn entry(&mut self, handle: Handle, kind: Kind) -> Option<&mut Entry> {
        self.entries.get_mut(handle.index as usize).filter(|entry| entry.generation == handle.generation && entry.kind == kind)
    }

    /// The stack's id of a handle's socket; `None` if the handle is stale.
    #[inline]
    pub fn socket(&self, handle: Handle, kind: Kind) -> Option<SocketId> {
        let entry = self.entries.get(handle.index as usize)?;
        (entry.generation == handle.generation && entry.kind == kind).then_some(entry.socket)
    }

    /// Takes an event of a native socket; returns false for any other.
    #[inline]
    pub(crate) fn deliver(&mut self, event: &Event) -> bool {
        let (socket, user_token, news) = match *event {
            Event::Ready { socket, user_token } => (socket, user_token, News::READY),
            Event::Accepted { listener, user_token } => (listener, user_token, News::READY),
            Event::Connected { socket, user_token } => (socket, user_token, News::CONNECTED),
            Event::Urgent { socket, user_token } => (socket, user_token, News::URGENT),
            Event::Failed { socket, user_token, .. } => (socket, user_token, News::FAILED),
            // Only sockets that the application has closed end so: the index is free.
            Event::Closed { socket, user_token, .. } => (socket, user_token, News::default()),
            Event::ResolveNeighbor { .. } | Event::Address { .. } => return false,
        };
        if user_token & NATIVE != NATIVE {
            return false;
        }
        let index = user_token as u32;
        if let Some(entry) = self.entries.get_mut(index as usize).filter(|entry| entry.socket == socket) {
            if let Event::Failed { error, .. } = *event {
                entry.error = Some(error);
            }
            self.note(index, news);
        }
        true
    }

    /// Adds news of a socket.
    #[inline]
    pub fn note(&mut self, index: u32, news: News) {
        let entry = &mut self.entries[index as usize];
        entry.news.0 |= news.0;
        if entry.marks & LISTED == 0 && entry.news != News::default() {
            entry.marks |= LISTED;
            self.ready.push_back(index);
        }
    }

    /// Takes the next socket that has news.
    #[inline]
    pub fn next_ready(&mut self) -> Option<(Handle, SocketId, Kind, News)> {
        while let Some(index) = self.ready.pop_front() {
            let entry = &mut self.entries[index as usize];
            entry.marks &= !LISTED;
            let news = std::mem::take(&mut entry.news);
            // The socket may have been closed while it waited for frames.
            if news != News::default() && entry.kind != Kind::Free {
                return Some((Handle { index, generation: entry.generation }, entry.socket, entry.kind, news));
            }
        }
        None
    }

    /// Returns true if there is an event for the application.
    #[inline]
    pub fn has_news(&self) -> bool {
        !self.ready.is_empty() || self.timers.has_fired()
    }

    /// Returns true if the application has left something to transmit.
    #[inline]
    pub fn is_touched(&self) -> bool {
        self.touched || !self.returns.is_empty()
    }

    /// Takes back what the application has dropped: chunks and sockets.
    #[inline]
    pub(crate) fn settle(&mut self, core: &mut Core) {
        self.take_credits(core);
        self.close_dropped(core);
        self.touched = false;
    }

    #[inline]
    fn take_credits(&mut self, core: &mut Core) {
        while let Some(credit) = self.returns.pop() {
            self.take_back(&credit, core);
        }
    }

    /// Takes back a chunk's credit: its socket's window may open.
    #[inline]
    pub fn take_back(&mut self, credit: &Credit, core: &mut Core) {
        let entry = self.entries.get_mut(credit.index as usize).filter(|entry| entry.socket == credit.socket);
        let Some(entry) = entry else { return };
        let was_lent = entry.lent;
        entry.lent = was_lent.saturating_sub(credit.frames);
        let starved = entry.marks & STARVED != 0;
        if entry.kind == Kind::Stream && credit.bytes > 0 {
            core.stack.consumed(credit.socket, credit.bytes as usize);
        }
        if starved && credit.frames > 0 {
            self.feed(core);
        }
    }

    /// Returns true if an application that holds `lent` frames of a socket may hold one more.
    #[inline]
    pub fn may_lend(lent: u32, arena: &Arena) -> bool {
        lent <= arena.free(Class::Large) / LENT_SHARE
    }

    /// Returns true if the application may have a frame of `class` to write into.
    #[inline]
    pub fn may_reserve(class: Class, arena: &Arena) -> bool {
        FrameUse::Sending.may_take(arena, class)
    }

    /// Returns true if the application may have a frame over bytes elsewhere.
    #[inline]
    pub fn may_extend(arena: &Arena) -> bool {
        arena.free_extents() > FrameUse::Sending.leaves(arena.extents())
    }

    /// Notes that a socket was refused frames; it is told when some are free.
    #[cold]
    pub fn starve(&mut self, index: u32, now: Instant) {
        let entry = &mut self.entries[index as usize];
        if entry.marks & STARVED == 0 {
            entry.marks |= STARVED;
            self.starved.push(index);
        }
        self.feed_at = Some(now + FEED_INTERVAL);
    }

    #[cold]
    fn feed(&mut self, core: &Core) {
        let extents = core.arena.free_extents() > FrameUse::Retry.leaves(core.arena.extents());
        if FrameUse::Retry.may_take_any(&core.arena) && extents {
            self.feed_at = None;
            for index in std::mem::take(&mut self.starved) {
                self.entries[index as usize].marks &= !STARVED;
                self.note(index, News::READY);
            }
        } else if !self.starved.is_empty() {
            self.feed_at = Some(core.now + FEED_INTERVAL);
        }
    }

    /// Notes that a write has copied less than it wanted, so that other sockets' copies leave before they are cold. The socket
    /// is told after the next transmission.
    #[cold]
    pub fn wait_for_transmission(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        if entry.marks & AHEAD == 0 {
            entry.marks |= AHEAD;
            self.ahead.wait(index);
        }
        self.touched = true;
    }

    /// Notes that a transmission is over: what could leave has left.
    #[inline]
    pub(crate) fn transmitted(&mut self) {
        if self.ahead.is_used() {
            self.tell_waiting();
        }
    }

    #[inline(never)]
    fn tell_waiting(&mut self) {
        self.ahead.start_again();
        while let Some(index) = self.ahead.next_waiting() {
            self.entries[index as usize].marks &= !AHEAD;
            self.note(index, News::READY);
        }
    }

    /// Fires due timers and tells sockets that wait for frames; returns true if a timer fired.
    pub(crate) fn handle_timeout(&mut self, core: &Core) -> bool {
        if self.feed_at.is_some_and(|at| at <= core.now) {
            self.feed(core);
        }
        self.timers.expire(core.now)
    }

    /// Time of the next `handle_timeout`.
    #[inline]
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        [self.timers.poll_timeout(), self.feed_at].into_iter().flatten().min()
    }
}
