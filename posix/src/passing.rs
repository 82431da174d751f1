//! Passing descriptors of ours in SCM_RIGHTS messages over AF_UNIX sockets of the kernel.
//!
//! Promises: a passed connection lives until its receiver has closed it, whatever happens to the sender: a reference is
//! in flight from before the message is sent until the receiver holds the socket itself. If the message is never
//! received, the connection ends within a second of the message, while the sender waits or sends.
//!
//! Detection: an epoll instance does not keep the files open that it watches. The connection's kernel socket, which
//! belongs to the connection alone, is put into one, and has left it when no process and no message has a descriptor of
//! it any more. Does not do: cleaning up after a dead sender; its passed connections are held until the group ends.

use crate::Posix;
use crate::channel::Channel;
use crate::errno::Errno;
use crate::fallback::Fd;
use crate::fd_table::{Entry, SocketRef};
use libc::epoll_event;
use ringway_shm::{Duration, Instant};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

/// References of one message.
#[derive(Debug, Default)]
pub struct Passage {
    /// Sockets with a reference in flight.
    noted: Vec<SocketRef>,
    /// Sockets for which no reference could be recorded: this process holds them until it ends.
    kept: Vec<SocketRef>,
}

/// Descriptors that this process has sent and that may not be received yet. Used inside the fork gate.
pub(crate) struct Flights {
    /// True if there are some.
    any: AtomicBool,
    sent: Mutex<Vec<SocketRef>>,
    /// The epoll instance with their kernel sockets; -1 until it is needed.
    watch: AtomicI32,
    /// Time of the last check, nanoseconds.
    looked: AtomicU64,
}

impl Flights {
    pub(crate) fn new() -> Flights {
        let (any, sent) = (AtomicBool::new(false), Mutex::new(Vec::new()));
        Flights { any, sent, watch: AtomicI32::new(-1), looked: AtomicU64::new(0) }
    }
}

impl Posix {
    /// Before `fd` is sent to a process that has no part in the channel: the kernel goes on with its socket, and with what waits at a listener of a
    /// manager of sockets, which has never accepted. What the service refuses, and all in strict mode, stays as it is.
    pub fn before_leaving(&self, fd: Fd) {
        // A child of vfork gives the service numbers of its own.
        self.share_connections();
        if self.settings.strict || self.is_outside_table() {
            return;
        }
        if let (Some(channel), Some(socket)) = (self.attached(), self.socket_of(fd)) {
            self.hand_over(socket);
            self.empty_managers(channel, socket);
        }
    }

    /// Records, before the message is sent, that `fd` is among its descriptors.
    pub fn before_passing(&self, fd: Fd, passage: &mut Passage) {
        self.share_connections();
        let (Some(channel), Some(socket)) = (self.attached(), self.socket_of(fd)) else { return };
        self.until_next_look(None);
        self.name_for_travel(channel, socket, fd);
        if channel.pass(socket) {
            passage.noted.push(socket);
            self.follow(fd, socket);
        } else {
            self.descriptions.of(socket).refer();
            passage.kept.push(socket);
        }
    }

    /// Takes the references back, because the message was not sent.
    pub fn undo_passing(&self, passage: Passage) {
        let Some(channel) = self.attached() else { return };
        passage.noted.into_iter().for_each(|socket| channel.arrive(socket));
        for socket in passage.kept {
            self.release_reference(socket);
        }
    }

    /// Adopts a received descriptor like [`adopt`](Posix::adopt), and ends its flight.
    pub fn receive_passed(&self, fd: Fd) {
        if let (true, Some(channel), Some(socket)) = (self.adopt(fd), self.attached(), self.table.socket(fd)) {
            channel.arrive(socket);
        }
    }

    fn follow(&self, fd: Fd, socket: SocketRef) {
        let _inside = self.fork_gate.enter();
        // A signal handler that interrupts its own thread here skips this.
        let Ok(mut sent) = self.flights.sent.try_lock() else { return };
        if self.flights.watch.load(Ordering::Relaxed) < 0 {
            let Ok(watch) = self.kernel.epoll_create(libc::EPOLL_CLOEXEC) else { return };
            self.flights.watch.store(self.park(watch), Ordering::Relaxed);
        }
        let named = epoll_event { events: libc::EPOLLET as u32, u64: word(socket) };
        match self.kernel.epoll_control(self.flights.watch.load(Ordering::Relaxed), libc::EPOLL_CTL_ADD, fd, Some(named)) {
            Ok(()) | Err(Errno::EXIST) => {
                sent.push(socket);
                if !self.flights.any.swap(true, Ordering::AcqRel) {
                    self.flights.looked.store(self.kernel.now().as_nanos(), Ordering::Relaxed);
                }
            }
            Err(_) => {}
        }
    }

    /// Stops watching a number that is about to be closed, once its message has arrived; a process may pass on all that
    /// it accepts.
    pub(crate) fn unfollow(&self, fd: Fd, entry: Entry) {
        let watch = self.flights.watch.load(Ordering::Relaxed);
        if let (true, Entry::Socket(socket), Some(channel)) = (watch >= 0, entry, self.attached())
            && !channel.is_in_flight(socket)
        {
            // ENOENT: it was not passed under this number.
            self.kernel.epoll_control(watch, libc::EPOLL_CTL_DEL, fd, None).ok();
        }
    }

    /// Before a sleep: checks for lost messages. Returns the longest sleep, bounded while a descriptor is in flight.
    #[inline]
    pub(crate) fn until_next_look(&self, timeout: Option<Duration>) -> Option<Duration> {
        if !self.flights.any.load(Ordering::Relaxed) || self.waits.is_confined() {
            return timeout;
        }
        self.look_for_lost();
        if self.flights.any.load(Ordering::Relaxed) {
            return Some(timeout.map_or(LOOK_EVERY, |timeout| timeout.min(LOOK_EVERY)));
        }
        timeout
    }

    /// Ends references in messages that can no longer be received; at most once a second.
    #[cold]
    fn look_for_lost(&self) {
        let now = self.kernel.now();
        let Some(channel) = self.attached() else { return };
        let looked = Instant::from_nanos(self.flights.looked.load(Ordering::Relaxed));
        if now.since(looked) < LOOK_EVERY {
            return;
        }
        let inside = self.fork_gate.enter();
        let Ok(mut sent) = self.flights.sent.try_lock() else { return };
        self.flights.looked.store(now.as_nanos(), Ordering::Relaxed);
        let Ok(alive) = self.kernel.watched_words(self.flights.watch.load(Ordering::Relaxed)) else { return };
        let mut lost = Vec::new();
        sent.retain(|socket| {
            let is_lost = channel.is_in_flight(*socket) && !alive.contains(&word(*socket));
            if is_lost {
                lost.push(*socket);
            }
            channel.is_in_flight(*socket) && !is_lost
        });
        self.flights.any.store(!sent.is_empty(), Ordering::Relaxed);
        drop(sent);
        drop(inside);
        lost.into_iter().for_each(|socket| end_lost(channel, socket));
    }

    /// In a child: the parent tracks what it has sent.
    pub(crate) fn forget_flights(&self) {
        if let Ok(mut sent) = self.flights.sent.try_lock() {
            sent.clear();
        }
        self.flights.any.store(false, Ordering::Relaxed);
        let watch = self.flights.watch.swap(-1, Ordering::Relaxed);
        if watch >= 0 {
            self.discard_internal(watch);
        }
    }
}

/// Ends a socket of which neither a process nor a message has a descriptor.
fn end_lost(channel: &dyn Channel, socket: SocketRef) {
    channel.lose(socket);
    if channel.release(socket) {
        channel.close(socket, None);
    }
}

/// An epoll instance's data word for a socket.
fn word(socket: SocketRef) -> u64 {
    u64::from(socket.index) << 32 | u64::from(socket.generation)
}

const LOOK_EVERY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
