//! Descriptors of ours in SCM_RIGHTS messages over AF_UNIX sockets of the kernel.
//!
//! Promises: a connection that was passed on lives until its receiver has closed it, whatever becomes of the sender meanwhile: a
//! reference is in flight from before the message is sent until the receiver holds the socket itself. One whose message is never
//! received ends within a second of the message, while the sender waits or sends.
//!
//! How the sender knows: an epoll instance holds no file open that it watches. The connection's kernel socket, which is the
//! connection's alone, is put into one, and has left it when no process and no message has a descriptor of it any more. Does not
//! do: look after what a process has sent that is dead; that is held until the group ends.

use crate::Posix;
use crate::channel::Channel;
use crate::errno::Errno;
use crate::fallback::Fd;
use crate::fd_table::{Entry, SocketRef};
use libc::epoll_event;
use ringway_shm::{Duration, Instant};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

/// What one message takes with it.
#[derive(Debug, Default)]
pub struct Passage {
    /// Sockets with a reference in flight.
    noted: Vec<SocketRef>,
    /// Sockets for which none could be noted: this process holds them until it ends.
    kept: Vec<SocketRef>,
}

/// What this process has sent and nobody may have received yet. Used inside the fork gate.
pub(crate) struct Flights {
    /// There are some.
    any: AtomicBool,
    sent: Mutex<Vec<SocketRef>>,
    /// The epoll instance with their kernel sockets; -1 until it is needed.
    watch: AtomicI32,
    /// When it was looked at last, nanoseconds.
    looked: AtomicU64,
}

impl Flights {
    pub(crate) fn new() -> Flights {
        let (any, sent) = (AtomicBool::new(false), Mutex::new(Vec::new()));
        Flights { any, sent, watch: AtomicI32::new(-1), looked: AtomicU64::new(0) }
    }
}

impl Posix {
    /// Before the message is sent: `fd` is among its descriptors.
    pub fn before_passing(&self, fd: Fd, passage: &mut Passage) {
        let (Some(channel), Some(socket)) = (self.attached(), self.table.socket(fd)) else { return };
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

    /// The message was not sent.
    pub fn undo_passing(&self, passage: Passage) {
        let Some(channel) = self.attached() else { return };
        passage.noted.into_iter().for_each(|socket| channel.arrive(socket));
        for socket in passage.kept {
            self.release_reference(socket);
        }
    }

    /// A descriptor has come in a message: as [`adopt`](Posix::adopt), and it is in flight no more.
    pub fn receive_passed(&self, fd: Fd) {
        if let (true, Some(channel), Some(socket)) = (self.adopt(fd), self.attached(), self.table.socket(fd)) {
            channel.arrive(socket);
        }
    }

    fn follow(&self, fd: Fd, socket: SocketRef) {
        let _inside = self.fork_gate.enter();
        // A signal handler that finds its own thread here does without.
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

    /// The number is about to be closed: what has arrived needs no watching, and is many where a process passes on all that it accepts.
    pub(crate) fn unfollow(&self, fd: Fd, entry: Entry) {
        let watch = self.flights.watch.load(Ordering::Relaxed);
        if let (true, Entry::Socket(socket), Some(channel)) = (watch >= 0, entry, self.attached())
            && !channel.is_in_flight(socket)
        {
            // ENOENT: it was not passed under this number.
            self.kernel.epoll_control(watch, libc::EPOLL_CTL_DEL, fd, None).ok();
        }
    }

    /// Before a sleep: looks for messages that nobody can receive. How long the sleep may be, while there is something in flight.
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

    /// Ends references whose message nobody has received and nobody can: once a second at most.
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

    /// In a child: what its parent has sent is the parent's to look after.
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

/// No process has a descriptor of the socket, and no message.
fn end_lost(channel: &dyn Channel, socket: SocketRef) {
    channel.lose(socket);
    if channel.release(socket) {
        channel.close(socket, None);
    }
}

/// What an epoll instance says of a socket.
fn word(socket: SocketRef) -> u64 {
    u64::from(socket.index) << 32 | u64::from(socket.generation)
}

const LOOK_EVERY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
