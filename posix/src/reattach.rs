//! After the death of the service: the process attaches again when one is back at the same path, and its listeners return.
//!
//! ```text
//!   attached -- the service dies --> dead -- all its sockets have left or are closed, a service answers --> attached
//! ```
//! A call that goes to the kernel anyway looks, at most once a second: connect, listen, bind, accept, and the waits (poll, select,
//! epoll_wait). What the dead service has left first becomes the kernel's: sockets that moved, listeners, datagram sockets. A connection
//! that failed with it stays what it is until the program closes it, and until then the process stays on the kernel: a number names
//! sockets of one channel at a time. What a thread still holds of an earlier service's socket is none of the new channel
//! (`client.rs`, `salt`).
//!
//! A listener returns if it is the one that has left (by its inode) and still listens. The first process that has it offers it to the
//! service; others find it there by its inode. A blocking one returns only in a process that has not forked: the kernel
//! socket becomes non-blocking with it, and a process that has not attached yet would see that.
//!
//! Connections that a listener has accepted return too, if the service wants them (`returning`); those that the present service has handed over itself, when
//! its operator asks for them.
//!
//! Promises: no call fails or waits because of it, except for the time of one attach. A fork sees all of it or nothing. Without a look
//! due, it costs one relaxed load. Does not do: waking a thread that sleeps in the kernel; its next call looks. A process
//! that has filtered its system calls, a child of `vfork` and a thread with descriptors of its own do not attach again.

mod returning;

use crate::Posix;
use crate::attachment::SERVICES_MAX;
use crate::channel::{Channel, Purpose, State};
use crate::fallback::Fd;
use crate::fd_table::{Entry, SocketRef};
use crate::reasons::Fallback;
use returning::{Connection, Connections};
use ringway_shm::Duration;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// What of this process was the stack's, and is the kernel's. Changed inside the fork gate only.
pub(crate) struct Away {
    connections: Connections,
    listeners: [Listener; LISTENERS_MAX],
}

/// A listener that is away.
struct Listener {
    /// Its number; -1: none, -2: one is being noted.
    fd: AtomicI32,
    inode: AtomicU64,
    /// The attachment that it has left.
    left: AtomicUsize,
    /// Offers that a service has refused.
    refusals: AtomicU32,
}

impl Away {
    pub(crate) fn new() -> Away {
        let listener = |_| Listener {
            fd: AtomicI32::new(EMPTY),
            inode: AtomicU64::new(0),
            left: AtomicUsize::new(0),
            refusals: AtomicU32::new(0),
        };
        Away { connections: Connections::default(), listeners: std::array::from_fn(listener) }
    }

    /// Notes a listener; one too many stays the kernel's.
    fn note(&self, fd: Fd, inode: u64, left: usize) {
        let take = |from: Fd| {
            let mut places = self.listeners.iter();
            places.find(|place| place.fd.compare_exchange(from, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok())
        };
        // An earlier one of this number is closed, or it is the same.
        let Some(place) = take(fd).or_else(|| take(EMPTY)) else { return };
        place.inode.store(inode, Ordering::Relaxed);
        place.left.store(left, Ordering::Relaxed);
        place.refusals.store(0, Ordering::Relaxed);
        place.fd.store(fd, Ordering::Release);
    }

    fn has_no_listener(&self) -> bool {
        self.listeners.iter().all(|place| place.fd.load(Ordering::Acquire) == EMPTY)
    }
}

impl Posix {
    /// For a call that goes to the kernel: attaches again, or has listeners return, if that is due.
    #[inline]
    pub fn before_kernel(&self) {
        if self.attachment.seeks() {
            self.look_for_service();
        }
    }

    #[cold]
    pub(crate) fn look_for_service(&self) {
        if self.is_outside_table() || self.waits.is_confined() {
            return;
        }
        let (now, due) = (self.kernel.now().as_nanos(), self.attachment.next_look.load(Ordering::Relaxed));
        let next = now + LOOK_EVERY.as_nanos();
        let is_due = now >= due;
        if !is_due || self.attachment.next_look.compare_exchange(due, next, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return;
        }
        let _inside = self.fork_gate.enter();
        self.note_service_death();
        if self.service_is_dead() && !self.attachment.alone(|| self.attach_again()) {
            return;
        }
        self.listeners_return();
        self.connections_return();
        if self.away.has_no_listener() && !self.away.connections.seek() {
            self.attachment.rest();
        }
    }

    /// Notes a listener that has become the kernel's, or a connection that no one else has.
    pub(crate) fn note_away(&self, channel: &dyn Channel, fd: Fd, socket: SocketRef) {
        let is_listener = channel.view(socket).is_some_and(|view| view.state == State::Listening);
        if !is_listener && !self.may_return(channel, socket) {
            return;
        }
        let Ok(identity) = self.kernel.identity(fd) else { return };
        let left = self.attachment.present().0;
        if is_listener {
            self.away.note(fd, identity.inode, left);
        } else {
            let (recalls, options) = (channel.recalls(), self.options_of(socket));
            self.away.connections.note(Connection { fd, inode: identity.inode, left, recalls, options, refusals: 0 });
        }
        self.attachment.seek();
    }

    fn attach_again(&self) -> bool {
        let (place, Some(channel)) = self.attachment.present() else { return false };
        if place + 1 >= SERVICES_MAX || !self.leave_dead(channel) {
            return false;
        }
        let earlier = u32::try_from(place + 1).expect("SERVICES_MAX is small");
        let Ok(new) = self.attachment.attach.attach(self.internal_floor(), earlier) else { return false };
        self.protect(&new.descriptors());
        let mut new = Some(new);
        let long_dead = self.attachment.before();
        if !self.epoll_renew(|| self.attachment.succeed(new.take().expect("it is asked for once"))) {
            new.iter().for_each(|new| self.unprotect(&new.descriptors()));
            return false;
        }
        self.renew_waiters();
        self.attachment.looks.store(0, Ordering::Relaxed);
        // No call of the time before the last service is in progress any more.
        if let Some(channel) = long_dead {
            self.unprotect(&channel.descriptors());
            channel.retire();
        }
        if !self.settings.quiet && self.attached().is_some_and(Channel::is_first_of_group) {
            self.kernel.say(&format!("ringway: attached again to service {}", self.attachment.attach.service()));
        }
        true
    }

    /// Makes the kernel's what the dead service has left. Returns true if no socket of it is in this process any more. One with datagrams that the
    /// program has not read stays for some looks; a program that never reads must not keep all others from a new service.
    fn leave_dead(&self, channel: &dyn Channel) -> bool {
        let is_patient = self.attachment.looks.fetch_add(1, Ordering::Relaxed) < PATIENT_LOOKS;
        let mut sockets = Vec::new();
        self.table.for_each_in(0, Fd::MAX, |fd, entry| {
            if let Entry::Socket(socket) = entry {
                sockets.push((fd, socket));
            }
        });
        for &(fd, socket) in &sockets {
            if self.has_moved(channel, socket) || self.is_strict() {
                continue;
            }
            if self.is_datagram(socket) {
                if is_patient && self.has_waiting(channel, socket) {
                    continue;
                }
                // Outside strict mode the kernel may have it.
                self.surrender(fd, socket, Fallback::NoAnswer).ok();
            } else if channel.view(socket).is_some_and(|view| view.state == State::Listening) {
                self.leave_stack(channel, socket);
            }
        }
        sockets.iter().all(|(fd, _)| !matches!(self.table.lookup(*fd), Entry::Socket(_)))
    }

    fn listeners_return(&self) {
        let (present, Some(channel)) = self.attachment.present() else { return };
        if self.rings.carry_sockets() {
            return;
        }
        for place in &self.away.listeners {
            let fd = place.fd.load(Ordering::Acquire);
            if fd < 0 {
                continue;
            }
            let is_over = match self.backlog_of_away(fd, place.inode.load(Ordering::Relaxed)) {
                None => true,
                // This very service has handed it over.
                Some(_) if place.left.load(Ordering::Relaxed) == present => false,
                Some(backlog) => {
                    self.listener_returns(channel, fd, backlog) || {
                        // Another process may have offered it at the same moment: it is found there next time.
                        place.refusals.fetch_add(1, Ordering::Relaxed) + 1 >= REFUSALS_MAX
                    }
                }
            };
            if is_over {
                place.fd.compare_exchange(fd, EMPTY, Ordering::AcqRel, Ordering::Relaxed).ok();
            }
        }
    }

    fn listener_returns(&self, channel: &dyn Channel, fd: Fd, backlog: i32) -> bool {
        let Ok(identity) = self.kernel.identity(fd) else { return false };
        let is_known = channel.find_inode(identity.inode).is_some_and(|_| self.adopt(fd));
        if !is_known && self.listen_on_stack(channel, fd, backlog, Purpose::ListenAgain).is_err() {
            return false;
        }
        let Some(socket) = self.table.socket(fd) else { return false };
        self.name_for_travel(channel, socket, fd);
        if is_known {
            self.epoll_adopt(fd, socket);
        }
        true
    }

    /// The backlog of a listener that has left, if the number still stands for it and it may return.
    fn backlog_of_away(&self, fd: Fd, inode: u64) -> Option<i32> {
        let is_same = self.kernel.identity(fd).is_ok_and(|identity| identity.is_socket() && identity.inode == inode);
        if !is_same || self.table.lookup(fd) != Entry::None || !self.is_tcp(fd) {
            return None;
        }
        let blocks = self.kernel.status_flags(fd).is_ok_and(|flags| flags & libc::O_NONBLOCK == 0);
        if blocks && self.has_forked() {
            return None;
        }
        let mut info = [0; INFO_BYTES];
        let len = self.kernel.option(fd, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info).ok()?;
        if len < INFO_BYTES || info[0] != TCP_LISTEN {
            return None;
        }
        i32::from_ne_bytes(*info[BACKLOG_AT..].first_chunk()?).into()
    }
}

const EMPTY: Fd = -1;
const BUSY: Fd = -2;
/// Listeners of one process that may return.
const LISTENERS_MAX: usize = 64;
/// Offers of a listener before it stays the kernel's.
const REFUSALS_MAX: u32 = 3;
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Looks, a second or more apart, for which unread datagrams are kept.
const PATIENT_LOOKS: u32 = 60;
/// `struct tcp_info`: tcpi_state is the first byte, and tcpi_sacked of a listener is its backlog (net/ipv4/tcp.c, tcp_get_info).
const TCP_LISTEN: u8 = 10;
const BACKLOG_AT: usize = 28;
const INFO_BYTES: usize = BACKLOG_AT + 4;

#[cfg(test)]
mod tests;
