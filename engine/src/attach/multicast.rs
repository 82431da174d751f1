//! Multicast groups that programs join (ip(7), IP_ADD_MEMBERSHIP), as far as the stack receives for them.
//!
//! ```text
//!   interface shared with the kernel    packet -> the stack, and the kernel's own sockets (Ports::own_copies)
//!   interface of the stack alone        packet -> the stack, which reports its memberships itself
//! ```
//! The kernel socket of the program joins too: it is what reports the membership to routers and lets packets through the card, and it
//! receives what the stack does not, such as datagrams that this host sends. Promises: for a group that has been joined here each datagram that comes
//! from outside is received here, until the program leaves the group or is told that the socket is the kernel's. Does not do: sources
//! (RFC 3376 §3.1) and groups of IPv6, which stay with the kernel.

use std::net::IpAddr;

use ringway_channel::{ControlAnswer, Failure, KernelReason, Membership, Multicast, Request, SlotIndex};
use ringway_stack::{GroupError, SocketId};

use super::region::Region;
use super::socket::Kind;
use crate::core::Core;
use crate::metrics::Work;
use crate::ports::Transport;
use crate::verdict::Verdict;

/// Groups that the sockets of one application may have joined here together; further ones are the kernel's.
const MEMBERSHIPS_MAX: usize = 64;

/// A group, and the stack's interface at which a socket has joined it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Joined {
    pub(super) group: IpAddr,
    interface: u32,
}

impl Region {
    /// The socket receives for a group from now on.
    pub(super) fn join_multicast(&mut self, slot: SlotIndex, wanted: Multicast, core: &mut Core) -> ControlAnswer {
        let Some((id, port)) = self.open_datagram_socket(slot) else { return ControlAnswer::Failed(Failure::Invalid) };
        let Some(interface) = core.interface_of(wanted).filter(|&at| core.hears_multicast(at)) else {
            return ControlAnswer::NotOurs;
        };
        let group = IpAddr::V4(wanted.group);
        if let Verdict::Kernel(reason) = core.ports.judge_port(Transport::Udp, group, port).within(self.verdict) {
            return ControlAnswer::Failed(reason.into());
        }
        if self.memberships >= MEMBERSHIPS_MAX {
            return ControlAnswer::Failed(Failure::NoResources);
        }
        match core.stack.udp_join_group(id, Some(interface), group) {
            Ok(()) => {}
            Err(GroupError::AlreadyMember) => return ControlAnswer::Failed(Failure::InUse),
            Err(GroupError::Full) => return ControlAnswer::Failed(Failure::NoResources),
            Err(_) => return ControlAnswer::NotOurs,
        }
        if core.ports.add_copies(group, port).is_err() {
            core.leave_multicast(id, Joined { group, interface });
            return ControlAnswer::Failed(Failure::NoResources);
        }
        let socket = self.sockets.get(slot).expect("it is open");
        socket.datagrams.joined.push(Joined { group, interface });
        self.memberships += 1;
        core.metrics.add(Work::MulticastJoined, 1);
        ControlAnswer::Done
    }

    /// The socket receives for a group no more.
    pub(super) fn leave_multicast(&mut self, slot: SlotIndex, wanted: Multicast, core: &mut Core) -> ControlAnswer {
        let Some((id, port)) = self.open_datagram_socket(slot) else { return ControlAnswer::Failed(Failure::Invalid) };
        let group = IpAddr::V4(wanted.group);
        // net/ipv4/igmp.c, ip_mc_leave_group: without an interface, the first that has the group.
        let anywhere = wanted.interface == 0 && wanted.address.is_unspecified();
        let interface = core.interface_of(wanted);
        let socket = self.sockets.get(slot).expect("it is open");
        let is_it = |joined: &Joined| joined.group == group && (anywhere || Some(joined.interface) == interface);
        let Some(at) = socket.datagrams.joined.iter().position(is_it) else { return ControlAnswer::NotOurs };
        let joined = socket.datagrams.joined.remove(at);
        self.memberships -= 1;
        core.leave_multicast(id, joined);
        core.ports.remove_datagrams(group, port);
        ControlAnswer::Done
    }

    /// Answers with what the socket has joined here.
    pub(super) fn tell_memberships(&mut self, request: &Request, core: &mut Core) {
        let joined = self.sockets.get(request.slot.index).map_or(&[][..], |socket| &socket.datagrams.joined[..]);
        let bytes: Vec<u8> = joined.iter().filter_map(|joined| core.membership(joined)).flat_map(Membership::to_bytes).collect();
        if bytes.is_empty() {
            self.channel.answer(request, ControlAnswer::Done);
        } else if !self.channel.answer_with_bytes(request, &bytes) {
            core.metrics.add(Work::RefusedSockets, 1);
        }
    }

    /// The socket receives for no group any more, or is closed.
    pub(super) fn leave_all_multicast(&mut self, slot: SlotIndex, core: &mut Core) {
        let Some(socket) = self.sockets.get(slot) else { return };
        let port = socket.listening.as_ref().map_or(0, |listening| listening.port);
        self.memberships -= socket.datagrams.joined.len();
        for joined in std::mem::take(&mut socket.datagrams.joined) {
            if let Some(id) = socket.id {
                core.leave_multicast(id, joined);
            }
            core.ports.remove_datagrams(joined.group, port);
        }
    }

    /// Why the socket may not receive for one of its groups any more; `None`: it may.
    pub(super) fn objection_to_multicast(&mut self, slot: SlotIndex, core: &mut Core) -> Option<KernelReason> {
        let verdict = self.verdict;
        let socket = self.sockets.get(slot)?;
        let port = socket.listening.as_ref()?.port;
        socket.datagrams.joined.iter().find_map(|joined| {
            match core.ports.judge_port(Transport::Udp, joined.group, port).within(verdict) {
                Verdict::Kernel(reason) => Some(reason),
                // The interface has gone, or has a device now that does not hear for both.
                Verdict::Serve(_) | Verdict::Deny if !core.copies_multicast(joined.interface) => Some(KernelReason::NotOurs),
                Verdict::Serve(_) | Verdict::Deny => None,
            }
        })
    }

    fn open_datagram_socket(&mut self, slot: SlotIndex) -> Option<(SocketId, u16)> {
        let socket = self.sockets.get(slot).filter(|socket| socket.kind == Kind::Datagram)?;
        let listening = socket.listening.as_ref().filter(|listening| listening.given_back.is_none())?;
        Some((socket.id?, listening.port))
    }
}

impl Core {
    /// The stack's interface that is named; where the routes decide, the one that they name.
    fn interface_of(&self, wanted: Multicast) -> Option<u32> {
        match (wanted.interface, wanted.address) {
            (0, address) if address.is_unspecified() => self.stack.interface_to_many(wanted.group.into()),
            (0, address) => self.stack.interface_with(address.into()),
            (number, _) => self.interface_numbered(number),
        }
    }

    fn membership(&self, joined: &Joined) -> Option<Membership> {
        let IpAddr::V4(group) = joined.group else { return None };
        let interface = if self.is_alone_at(joined.interface) { 0 } else { self.kernel_number(joined.interface) };
        Some(Membership { group, interface })
    }

    fn leave_multicast(&mut self, id: SocketId, joined: Joined) {
        let left = self.stack.udp_leave_group(id, Some(joined.interface), joined.group);
        debug_assert!(left.is_ok(), "a group is left once");
    }
}
