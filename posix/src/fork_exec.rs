//! Sockets of ours in children: by fork (memory and descriptors are copied), by exec and by SCM_RIGHTS (only the
//! descriptors travel, and the inode behind them is the socket's name).
//!
//! A child of `vfork` or `posix_spawn` shares this memory while it lives: nothing here changes the tables for it; giving a
//! descriptor a socket of its own (`name_for_travel`) changes only the child's descriptor table.

use crate::Posix;
use crate::channel::Channel;
use crate::descriptions::Flag;
use crate::errno::Answer;
use crate::fallback::{Fd, Identity};
use crate::fd_table::{Entry, SocketRef};

impl Posix {
    /// pthread_atfork, prepare.
    pub fn before_fork(&self) {
        if let Some(channel) = self.attached() {
            channel.before_fork();
        }
    }

    /// pthread_atfork, parent.
    pub fn after_fork_in_parent(&self) {
        if let Some(channel) = self.attached() {
            channel.after_fork_in_parent();
        }
    }

    /// pthread_atfork, child.
    pub fn after_fork_in_child(&self) {
        let Some(channel) = self.attached() else { return };
        self.forget_waiters();
        if !channel.after_fork_in_child() {
            self.note_service_death();
        }
        self.protect(&channel.descriptors());
        self.epoll_after_fork_in_child();
    }

    /// Before exec: every descriptor of ours that the new image will have gets a name that the new image can find.
    /// Answers the names, for `undo_exec`.
    pub fn before_exec(&self) -> Vec<u64> {
        let mut travellers: Vec<(SocketRef, Vec<Fd>)> = Vec::new();
        self.table.for_each_in(0, Fd::MAX, |fd, entry| {
            let Entry::Socket(socket) = entry else { return };
            if !self.kernel.descriptor_flags(fd).is_ok_and(|flags| flags & libc::FD_CLOEXEC == 0) {
                return;
            }
            match travellers.iter_mut().find(|(known, _)| *known == socket) {
                Some((_, descriptors)) => descriptors.push(fd),
                None => travellers.push((socket, vec![fd])),
            }
        });
        let Some(channel) = self.attached() else { return Vec::new() };
        travellers.iter().filter_map(|(socket, descriptors)| self.name_for_travel(channel, *socket, descriptors).ok()).collect()
    }

    /// The exec failed: nobody travels.
    pub fn undo_exec(&self, names: &[u64]) {
        if let Some(channel) = self.attached() {
            for &inode in names {
                channel.claim_in_flight(inode);
            }
        }
    }

    /// Before a descriptor of ours leaves in an SCM_RIGHTS message.
    pub fn before_passing(&self, fd: Fd) {
        if let (Some(channel), Some(socket)) = (self.attached(), self.table.socket(fd))
            && self.name_for_travel(channel, socket, &[fd]).is_err()
        {
            self.fall_back("sendmsg", &fd, crate::Fallback::NoResources);
        }
    }

    /// A descriptor has arrived from another process: if it is a socket of the stack, it is ours from now on.
    pub fn adopt(&self, fd: Fd) -> bool {
        let Ok(identity) = self.kernel.identity(fd) else { return false };
        if !identity.is_socket() || !self.table.fits(fd) || !self.is_tcp(fd) {
            return false;
        }
        match self.channel() {
            Ok(Some(channel)) => self.adopt_as(channel, fd, identity),
            _ => false,
        }
    }

    /// At the start of a program: adopts the sockets that it has inherited by exec.
    pub fn adopt_inherited(&self) {
        let Ok(descriptors) = self.kernel.open_descriptors() else { return };
        for fd in descriptors {
            self.adopt(fd);
        }
    }

    /// Before this process gives up its rights (setuid, chroot, seccomp): takes what it may need later.
    pub fn before_confinement(&self) {
        if self.attach_early() {
            self.provide_waiter();
        }
    }

    fn adopt_as(&self, channel: &dyn Channel, fd: Fd, identity: Identity) -> bool {
        let Some(socket) = channel.claim_in_flight(identity.inode) else { return false };
        let description = self.descriptions.of(socket);
        if description.knows(socket) {
            description.refer();
        } else {
            channel.hold(socket);
            let inet6 = self.kernel_number(fd, libc::SOL_SOCKET, libc::SO_DOMAIN) == Some(libc::AF_INET6);
            let flags: &[Flag] = if inet6 { &[Flag::KERNEL_TCP, Flag::INET6] } else { &[Flag::KERNEL_TCP] };
            self.descriptions.install(socket, flags).mark(Flag::CONNECT_REPORTED);
        }
        self.table.set(fd, Entry::Socket(socket));
        true
    }

    /// Gives the descriptors (all of one socket) a kernel socket of their own if they are blanks; answers its inode.
    fn name_for_travel(&self, channel: &dyn Channel, socket: SocketRef, descriptors: &[Fd]) -> Answer<u64> {
        let description = self.descriptions.of(socket);
        if !description.is(Flag::KERNEL_TCP) {
            let domain = if description.is(Flag::INET6) { libc::AF_INET6 } else { libc::AF_INET };
            let named = self.kernel.socket(domain, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0)?;
            for &fd in descriptors {
                let close_on_exec = self.kernel.descriptor_flags(fd)? & libc::FD_CLOEXEC != 0;
                self.kernel.duplicate_to(named, fd, close_on_exec)?;
            }
            self.kernel.close(named)?;
        }
        let inode = self.kernel.identity(descriptors[0])?.inode;
        channel.hold_in_flight(socket, inode);
        Ok(inode)
    }
}
