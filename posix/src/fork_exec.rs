//! Sockets of ours in children: by fork (memory and descriptors are copied), by exec and by SCM_RIGHTS (only the
//! descriptors travel, and their inode names the socket).
//!
//! A process holds its sockets in the region by a number. `fork` reserves one for the child, with a copy of the
//! parent's holds, before the child exists. An image after exec takes over the number of its process and releases the
//! sockets of which it finds no descriptor. So nothing closes between the parent's `close` and the child's first use.
//!
//! A child of `vfork` or `posix_spawn` borrows the parent's memory while it lives: nothing here changes the tables for
//! it.

use crate::Posix;
use crate::channel::{Channel, Handover};
use crate::descriptions::Flag;
use crate::fallback::{Fd, Identity};
use crate::fd_table::{Entry, SocketRef};
use crate::fork_gate::Inside;
use std::sync::atomic::Ordering;

/// State that `before_exec` prepares and a failed exec takes back.
#[derive(Debug, Default)]
pub struct Departure {
    /// Sockets that close on exec and that this process has released.
    released: Vec<SocketRef>,
    /// A number was reserved for a process that does not exist yet (spawn).
    reserved: bool,
}

impl Posix {
    /// pthread_atfork, prepare; also before a fork by a caller that will learn the child's number. Each call needs its
    /// own [`fork_is_over`](Posix::fork_is_over) in the parent.
    pub fn announce_fork(&self) {
        self.fork_gate.close();
        self.count_fork();
    }

    /// pthread_atfork, parent.
    pub fn fork_is_over(&self) {
        self.epoll_fork_is_over();
        self.fork_gate.open();
    }

    /// Enters the fork gate: while the guard lives, no other thread forks, so that a child finds no lock taken that it can
    /// never get. Waits while another thread forks.
    pub fn enter_fork_gate(&self) -> Inside<'_> {
        self.fork_gate.enter()
    }

    /// Like [`announce_fork`](Posix::announce_fork); reserves a number for the child too.
    pub fn before_fork(&self) {
        self.announce_fork();
        self.epoll_before_fork();
        if let Some(channel) = self.attached() {
            channel.before_fork();
        }
    }

    /// After fork(2) in the parent; `None`: it failed. (A fork inside libc does not come here: its child reports
    /// itself.)
    pub fn after_fork_in_parent(&self, child: Option<u32>) {
        self.epoll_fork_is_over();
        if let Some(channel) = self.attached() {
            channel.after_fork_in_parent(child);
        }
        if child.is_some() {
            self.epoll_after_fork_in_parent();
        }
    }

    /// pthread_atfork, child.
    pub fn after_fork_in_child(&self) {
        self.fork_gate.reset();
        self.epoll_fork_is_over();
        self.process.store(self.kernel.process_id(), Ordering::Relaxed);
        self.forget_apart();
        self.attachment.forget_others();
        self.epoll_after_fork_in_child();
        let Some(channel) = self.attached() else { return };
        self.drop_spares();
        self.forget_flights();
        self.forget_copies();
        self.forget_waiters();
        if !channel.after_fork_in_child() && !self.settings.quiet {
            self.kernel.say("ringway: the application has too many processes; the sockets of this one have failed");
        }
        self.count_references(channel);
    }

    /// In a forked child, recounts from the table: sockets that another thread of the parent was opening or closing
    /// have no descriptor here.
    fn count_references(&self, channel: &dyn Channel) {
        let held = channel.held();
        held.iter().for_each(|socket| self.descriptions.of(*socket).forget_references());
        self.table.for_each_in(0, Fd::MAX, |_, entry| {
            if let Entry::Socket(socket) = entry {
                self.descriptions.of(socket).refer();
            }
        });
        for socket in held {
            if !self.descriptions.of(socket).knows(socket) && channel.release(socket) {
                channel.close(socket, None);
            }
        }
    }

    /// Before exec: names each socket of ours that the new image inherits, so that the image can find it; releases the
    /// others.
    pub fn before_exec(&self) -> Departure {
        self.share_connections();
        let Some(channel) = self.attached() else { return Departure::default() };
        let (stay, travel) = self.sort_for_exec();
        for (socket, fd) in &travel {
            self.name_for_travel(channel, *socket, *fd);
        }
        if self.is_borrowed() {
            if !travel.is_empty() || self.named_for.load(Ordering::Relaxed) == self.kernel.process_id() {
                // The process after exec needs its own number; the parent keeps its own.
                channel.before_borrowed_exec();
            }
            return Departure::default();
        }
        // The last holder waits for the new image (or the end of the process), because the exec may fail.
        let released: Vec<SocketRef> = stay.into_iter().filter(|socket| channel.is_held_elsewhere(*socket)).collect();
        for socket in &released {
            if channel.release(*socket) {
                channel.close(*socket, None);
            }
        }
        Departure { released, reserved: false }
    }

    /// Before libc starts a shell itself (system, popen): names the sockets that the shell inherits.
    pub fn before_shell(&self) {
        self.share_connections();
        let Some(channel) = self.attached() else { return };
        for (socket, fd) in self.sort_for_exec().1 {
            self.name_for_travel(channel, socket, fd);
        }
    }

    /// Before posix_spawn: like `before_exec`, but this process goes on.
    pub fn before_spawn(&self) -> Departure {
        self.share_connections();
        let Some(channel) = self.attached() else { return Departure::default() };
        let (_, travel) = self.sort_for_exec();
        for (socket, fd) in &travel {
            self.name_for_travel(channel, *socket, *fd);
        }
        let reserved = !travel.is_empty();
        if reserved {
            channel.before_fork();
        }
        Departure { released: Vec::new(), reserved }
    }

    /// Before exec or posix_spawn of a program that this library does not reach: the kernel goes on with the sockets that the program
    /// inherits. What the service refuses stays as it is. Connections that wait at a listener go along where its processes are managers of
    /// sockets (inetd), which have never accepted.
    pub fn before_unreached(&self) {
        let Some(channel) = self.attached() else { return };
        if self.is_borrowed() {
            self.hand_over_borrowed(channel);
        } else if !self.is_outside_table() {
            for (socket, _) in self.sort_for_exec().1 {
                self.hand_over(socket);
                self.empty_managers(channel, socket);
            }
        }
    }

    /// After [`before_unreached`](Posix::before_unreached), if this image is about to end: connections that wait at a listener of no other process
    /// go along too.
    pub fn before_replaced(&self) {
        let Some(channel) = self.attached().filter(|_| !self.is_borrowed() && !self.is_outside_table()) else { return };
        for (socket, _) in self.sort_for_exec().1 {
            if self.waits_behind(channel, socket) && !channel.is_held_elsewhere(socket) {
                self.give_waiting(channel, socket);
                self.leave_stack(channel, socket);
            }
        }
    }

    /// What waits at a listener whose processes are managers of sockets goes along with it.
    pub(crate) fn empty_managers(&self, channel: &dyn Channel, socket: SocketRef) {
        if self.waits_at_manager(channel, socket) {
            self.give_waiting(channel, socket);
        }
    }

    fn waits_at_manager(&self, channel: &dyn Channel, socket: SocketRef) -> bool {
        self.waits_behind(channel, socket) && !self.descriptions.of(socket).is(Flag::ACCEPTS)
    }

    /// Returns true for a listener whose port is the kernel's, and at which connections of the stack wait.
    pub(crate) fn waits_behind(&self, channel: &dyn Channel, socket: SocketRef) -> bool {
        let has_moved = matches!(channel.handover(socket), Some(Handover::Moved | Handover::Empties));
        has_moved && !self.is_datagram(socket) && self.has_waiting(channel, socket)
    }

    /// The same in a child of vfork. Its numbers are its own by now, so sockets are found by the inodes of the numbers that stay
    /// open. The table is the parent's, which sees the move like any other process.
    fn hand_over_borrowed(&self, channel: &dyn Channel) {
        for (socket, fd) in self.sort_for_exec().1 {
            self.name_for_travel(channel, socket, fd);
        }
        for fd in self.kernel.open_descriptors().unwrap_or_default() {
            let stays_open = self.kernel.descriptor_flags(fd).is_ok_and(|flags| flags & libc::FD_CLOEXEC == 0);
            let identity = self.kernel.identity(fd).ok().filter(|identity| stays_open && identity.is_socket());
            let socket = identity.and_then(|identity| channel.find_inode(identity.inode));
            let Some(socket) = socket.filter(|socket| channel.handover(*socket) == Some(Handover::Stays)) else { continue };
            self.make_reusable(fd, socket);
            if channel.hand_over(socket, fd) {
                self.give_back_status(channel, fd, socket);
                if self.waits_at_manager(channel, socket) {
                    self.give_waiting_to(channel, socket, fd);
                }
            }
        }
    }

    /// After posix_spawn; `child` is the new process, if there is one.
    pub fn after_spawn(&self, departure: &Departure, child: Option<u32>) {
        if let (true, Some(channel)) = (departure.reserved, self.attached()) {
            channel.after_fork_in_parent(child);
        }
    }

    /// After a failed exec: this image goes on.
    pub fn undo_exec(&self, departure: &Departure) {
        if let Some(channel) = self.attached() {
            departure.released.iter().for_each(|socket| channel.hold(*socket));
        }
    }

    /// Adopts a descriptor from another process if it is a socket of the stack.
    #[inline]
    pub fn adopt(&self, fd: Fd) -> bool {
        let identity = self.kernel.identity(fd).ok().filter(Identity::is_socket);
        identity.is_some_and(|identity| self.adopt_socket(fd, identity))
    }

    fn adopt_socket(&self, fd: Fd, identity: Identity) -> bool {
        if !self.table.fits(fd) || !(self.is_tcp(fd) || self.is_udp(fd)) {
            return false;
        }
        let adopted = matches!(self.channel(), Ok(Some(channel)) if self.adopt_as(channel, fd, identity));
        if !adopted {
            // The options that another program has set are read when they matter.
            self.mark_foreign(fd);
        }
        adopted
    }

    /// At the start of a program: adopts the sockets that it has inherited by exec, and releases those of the previous
    /// image of which it has no descriptor.
    pub fn adopt_inherited(&self) {
        let mut adopt = |fd| {
            self.adopt(fd);
        };
        if self.kernel.for_each_descriptor(&mut adopt).is_err() {
            // Without /proc: the numbers with which a program usually starts.
            (0..INHERITED_MAX).for_each(adopt);
        }
        let Some(channel) = self.attached() else { return };
        for socket in channel.held() {
            if !self.descriptions.of(socket).knows(socket) && channel.release(socket) {
                channel.close(socket, None);
            }
        }
    }

    /// Before this process gives up rights (setuid, chroot, seccomp): acquires what it may need later.
    pub fn before_confinement(&self) {
        if self.attach_early() {
            self.provide_waiter();
        }
    }

    /// Like [`before_confinement`](Self::before_confinement), before a filter of system calls: from then on only calls
    /// are made that a program without this library would make too.
    pub fn before_filter(&self) {
        self.confine_waits();
        self.before_confinement();
        if let Some(channel) = self.attached() {
            self.provide_spares(channel);
            self.table.for_each_in(0, Fd::MAX, |_, entry| {
                if let Entry::Socket(socket) = entry {
                    channel.note_confined(socket);
                }
            });
        }
        self.yield_policy.forbid();
        self.writers_yield_policy.forbid();
    }

    fn adopt_as(&self, channel: &dyn Channel, fd: Fd, identity: Identity) -> bool {
        let Some(socket) = channel.find_inode(identity.inode) else { return false };
        let _inside = self.fork_gate.enter();
        let description = self.descriptions.of(socket);
        if description.knows(socket) {
            description.refer();
        } else {
            channel.hold(socket);
            let inet6 = self.kernel_number(fd, libc::SOL_SOCKET, libc::SO_DOMAIN) == Some(libc::AF_INET6);
            let description = self.descriptions.install(socket, if inet6 { &[Flag::INET6] } else { &[] });
            description.mark(Flag::CONNECT_REPORTED);
            description.mark(Flag::ADOPTED);
            if self.is_udp(fd) {
                self.descriptions.of(socket).mark(Flag::DATAGRAM);
                self.note_ancillary(fd, socket);
            }
        }
        self.set_socket(fd, socket);
        true
    }

    /// Our sockets that close on exec, and those that travel, each with a descriptor that stays open.
    fn sort_for_exec(&self) -> (Vec<SocketRef>, Vec<(SocketRef, Fd)>) {
        let mut stay: Vec<SocketRef> = Vec::new();
        let mut travel: Vec<(SocketRef, Fd)> = Vec::new();
        self.table.for_each_in(0, Fd::MAX, |fd, _| {
            let Some(socket) = self.socket_of(fd) else { return };
            match self.kernel.descriptor_flags(fd) {
                Ok(flags) if flags & libc::FD_CLOEXEC == 0 => {
                    if travel.iter().all(|(known, _)| *known != socket) {
                        travel.push((socket, fd));
                    }
                }
                _ => stay.push(socket),
            }
        });
        stay.retain(|socket| travel.iter().all(|(traveller, _)| traveller != socket));
        stay.dedup();
        (stay, travel)
    }

    /// Names the socket of a descriptor that a child of vfork moves (dup2 before exec): the tables, which are the
    /// parent's, will not know its new number.
    pub(crate) fn name_in_borrowed_memory(&self, fd: Fd, socket: SocketRef) {
        let Some(channel) = self.attached() else { return };
        self.name_for_travel(channel, socket, fd);
        self.named_for.store(self.kernel.process_id(), Ordering::Relaxed);
    }

    /// Names the socket by the inode of its descriptor.
    pub(crate) fn name_for_travel(&self, channel: &dyn Channel, socket: SocketRef, fd: Fd) {
        self.note_seen(self.descriptions.of(socket));
        if let Ok(identity) = self.kernel.identity(fd) {
            channel.set_inode(socket, identity.inode);
        }
    }
}

/// Without /proc, inherited sockets are searched below this number.
const INHERITED_MAX: Fd = 64;
