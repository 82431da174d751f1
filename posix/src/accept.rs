//! accept4(2): first from the stack, then from the listener's kernel socket (its shadow).
//!
//! A connection of the stack gets its own kernel TCP socket of the listener's family, never connected (`spares`).

use crate::Posix;
use crate::address::SocketName;
use crate::blocking::{Shadow, Wait};
use crate::channel::{Channel, State};
use crate::descriptions::Flag;
use crate::errno::{Answer, Errno};
use crate::fallback::{Fd, OnExec, RawAddress};
use crate::fd_table::SocketRef;
use crate::reasons::Fallback;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering;

impl Posix {
    /// accept4(2) on a socket of ours; returns the new descriptor and the peer's address.
    pub fn accept(&self, fd: Fd, listener: SocketRef, flags: i32) -> Answer<(Fd, RawAddress)> {
        if flags & !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) != 0 {
            return Err(Errno::INVAL);
        }
        let channel = self.attached().ok_or(Errno::INVAL)?;
        if self.service_is_dead() {
            self.before_kernel();
        }
        if !self.descriptions.of(listener).is(Flag::ACCEPTS) {
            self.descriptions.of(listener).mark(Flag::ACCEPTS);
        }
        if let Some(answer) = self.try_accept(channel, fd, listener, flags) {
            return answer;
        }
        if channel.nonblocking(listener) {
            return Err(Errno::AGAIN);
        }
        let deadline = self.deadline_after(self.descriptions.of(listener).receive_timeout.load(Ordering::Acquire));
        let wait = Wait { socket: listener, shadow: Some(Shadow::Traffic(fd)), deadline };
        self.block_on(wait, || self.try_accept(channel, fd, listener, flags))
    }

    fn try_accept(&self, channel: &dyn Channel, fd: Fd, listener: SocketRef, flags: i32) -> Option<Answer<(Fd, RawAddress)>> {
        match channel.view(listener) {
            Some(view) if view.state == State::Listening => {
                if view.readable > 0
                    && let Some(answer) = self.accept_from_stack(channel, listener, flags)
                {
                    return Some(answer);
                }
            }
            _ if self.has_moved(channel, listener) => return Some(Err(Errno::MOVED)),
            _ if self.service_is_dead() => {
                if let Err(error) = self.may_be_kernels(Fallback::NoAnswer) {
                    return Some(Err(error));
                }
            }
            _ => return Some(Err(Errno::INVAL)),
        }
        // Looked at last: a listener moves when the program has accepted all that the stack has.
        if self.has_moved(channel, listener) || self.has_left(listener) {
            return Some(Err(Errno::MOVED));
        }
        let accepted = match self.kernel.accept4(fd, flags) {
            Err(Errno::MFILE) if self.yield_number() => self.kernel.accept4(fd, flags),
            answer => answer,
        };
        match accepted {
            Err(Errno::AGAIN) => None,
            answer => Some(answer.and_then(|(new, peer)| self.accepted_by_kernel(new, peer))),
        }
    }

    /// Programs must treat ENETDOWN like EAGAIN (accept(2)): the listener goes on.
    fn accepted_by_kernel(&self, new: Fd, peer: RawAddress) -> Answer<(Fd, RawAddress)> {
        if let Err(error) = self.may_kernel_reach(peer.as_slice()) {
            self.kernel.close(new)?;
            return Err(error);
        }
        Ok((new, peer))
    }

    /// Connections that the stack has accepted for a listener, and that no process will accept, go into the accept queue of its kernel socket; one
    /// that cannot is reset, since its client would wait.
    pub(crate) fn give_waiting(&self, channel: &dyn Channel, listener: SocketRef) {
        // Where there is no duplicate, they wait.
        self.with_copy(listener, |copy| self.give_waiting_to(channel, listener, copy)).unwrap_or_default();
    }

    /// The same, by a number of the kernel socket that is not the program's, or in a child of vfork. Makes no descriptor and leaves the table alone.
    pub(crate) fn give_waiting_to(&self, channel: &dyn Channel, listener: SocketRef, fd: Fd) {
        while let Some(socket) = channel.accept(listener) {
            let is_kernels = channel.hand_over(socket, fd);
            if channel.release(socket) {
                channel.close(socket, if is_kernels { None } else { Some(0) });
            }
        }
    }

    /// The number first, then the connection: without a free number the connection stays in the queue.
    pub(crate) fn accept_from_stack(
        &self,
        channel: &dyn Channel,
        listener: SocketRef,
        flags: i32,
    ) -> Option<Answer<(Fd, RawAddress)>> {
        let inet6 = self.descriptions.of(listener).is(Flag::INET6);
        let _inside = self.fork_gate.enter();
        let own = match self.connection_descriptor(inet6, OnExec::of(flags & libc::SOCK_CLOEXEC != 0)) {
            Ok(own) => own,
            Err(error) => return Some(Err(error)),
        };
        let new = own.fd;
        let Some(socket) = channel.accept(listener) else {
            return self.kernel.close(new).err().map(Err);
        };
        let description = self.descriptions.install(socket, if inet6 { &[Flag::INET6] } else { &[] });
        description.inherit(self.descriptions.of(listener));
        description.mark(Flag::CONNECT_REPORTED);
        description.mark(Flag::ACCEPTED);
        self.note_unseen(description, own);
        channel.set_nonblocking(socket, flags & libc::SOCK_NONBLOCK != 0);
        self.set_socket(new, socket);
        let unknown = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
        let remote = channel.addresses(socket).map_or(unknown, |(_, remote)| remote);
        Some(Ok((new, SocketName::new(remote, inet6).into())))
    }
}
