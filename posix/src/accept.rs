//! accept4(2): first from the stack, then from the listener's kernel twin.
//!
//! A connection of the stack gets a duplicate of one parked, never connected kernel TCP socket of the listener's family
//! (the *blank*): 0.3 us instead of 5 us for a socket of its own. All blanks of a family share one inode; before a descriptor leaves this process by exec
//! or SCM_RIGHTS it is given a socket of its own (`fork_exec`), because only there the inode is its name.

use crate::Posix;
use crate::address::SocketName;
use crate::blocking::Wait;
use crate::channel::{Channel, State};
use crate::counters::Fallback;
use crate::descriptions::Flag;
use crate::errno::{Answer, Errno};
use crate::fallback::{Fd, RawAddress};
use crate::fd_table::{Entry, SocketRef};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering;

impl Posix {
    /// accept4(2) on a socket of ours: the new descriptor and the peer's address.
    pub fn accept(&self, fd: Fd, listener: SocketRef, flags: i32) -> Answer<(Fd, RawAddress)> {
        if flags & !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) != 0 {
            return Err(Errno::INVAL);
        }
        let channel = self.attached().ok_or(Errno::INVAL)?;
        if let Some(answer) = self.try_accept(channel, fd, listener, flags) {
            return answer;
        }
        if channel.nonblocking(listener) {
            return Err(Errno::AGAIN);
        }
        let deadline = self.deadline_after(self.descriptions.of(listener).receive_timeout.load(Ordering::Acquire));
        let wait = Wait { socket: listener, twin: Some(fd), deadline };
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
            _ if self.service_is_dead() => {
                if let Err(error) = self.may_be_kernels(Fallback::NoAnswer) {
                    return Some(Err(error));
                }
            }
            _ => return Some(Err(Errno::INVAL)),
        }
        match self.kernel.accept4(fd, flags) {
            Err(Errno::AGAIN) => None,
            answer => Some(answer.and_then(|(new, peer)| self.accepted_by_kernel(new, peer))),
        }
    }

    /// accept(2) tells programs to treat ENETDOWN as EAGAIN: the listener goes on.
    fn accepted_by_kernel(&self, new: Fd, peer: RawAddress) -> Answer<(Fd, RawAddress)> {
        if let Err(error) = self.may_kernel_reach(peer.as_slice()) {
            self.kernel.close(new)?;
            return Err(error);
        }
        Ok((new, peer))
    }

    /// The number first, the connection second: when no number is free, the connection stays in the queue.
    fn accept_from_stack(&self, channel: &dyn Channel, listener: SocketRef, flags: i32) -> Option<Answer<(Fd, RawAddress)>> {
        let inet6 = self.descriptions.of(listener).is(Flag::INET6);
        let _inside = self.fork_gate.enter();
        let new = match self.blank_descriptor(inet6, flags & libc::SOCK_CLOEXEC != 0) {
            Ok(new) => new,
            Err(error) => return Some(Err(error)),
        };
        let Some(socket) = channel.accept(listener) else {
            return self.kernel.close(new).err().map(Err);
        };
        let description = self.descriptions.install(socket, if inet6 { &[Flag::INET6] } else { &[] });
        description.inherit(self.descriptions.of(listener));
        description.mark(Flag::CONNECT_REPORTED);
        channel.set_nonblocking(socket, flags & libc::SOCK_NONBLOCK != 0);
        self.table.set(new, Entry::Socket(socket));
        let unknown = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
        let remote = channel.addresses(socket).map_or(unknown, |(_, remote)| remote);
        Some(Ok((new, SocketName::new(remote, inet6).into())))
    }

    /// The lowest free number, as a duplicate of the blank.
    fn blank_descriptor(&self, inet6: bool, close_on_exec: bool) -> Answer<Fd> {
        let new = self.kernel.duplicate(self.blank(inet6)?, 0, close_on_exec)?;
        if self.table.fits(new) {
            return Ok(new);
        }
        self.kernel.close(new)?;
        Err(Errno::MFILE)
    }

    /// The parked socket of a family.
    pub(crate) fn blank(&self, inet6: bool) -> Answer<Fd> {
        let (place, family) = if inet6 { (&self.blanks[1], libc::AF_INET6) } else { (&self.blanks[0], libc::AF_INET) };
        let known = place.load(Ordering::Acquire);
        if known >= 0 {
            return Ok(known);
        }
        let fresh = self.park(self.kernel.socket(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0)?);
        match place.compare_exchange(-1, fresh, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(fresh),
            Err(earlier) => {
                self.discard_internal(fresh);
                Ok(earlier)
            }
        }
    }
}
