//! Multicast groups of sockets, and loopback of their own datagrams. Read RFC 1112 §6.1, ip(7) IP_ADD_MEMBERSHIP first.

use core::net::IpAddr;

use ringway_shm::{Class, Frame};

use crate::env::Env;
use crate::error::GroupError;
use crate::event::SocketId;
use crate::ip::{Datagram, Pair};
use crate::tcp::demux::FlowKey;
use crate::wire::udp::HEADER_LEN;

use super::Udp;
use super::output::Outgoing;

impl Udp {
    /// Joins `group` on an interface; `None`: the one of the routes.
    pub(crate) fn join(&mut self, env: &mut Env, id: SocketId, interface: Option<u32>, group: IpAddr) -> Result<(), GroupError> {
        let (_, socket) = self.resolve_mut(id).ok_or(GroupError::NotOpen)?;
        if !group.is_multicast() || !socket.speaks(group) {
            return Err(GroupError::NotMulticast);
        }
        let interface = interface.or_else(|| env.ip.interface_to_many(group)).filter(|&number| env.ip.has_interface(number));
        let membership = (interface.ok_or(GroupError::NoInterface)?, group);
        if socket.groups.contains(&membership) {
            return Err(GroupError::AlreadyMember);
        }
        if socket.groups.len() >= GROUPS_MAX {
            return Err(GroupError::Full);
        }
        if !env.ip.join_group(membership.0, group) {
            return Err(GroupError::Full);
        }
        socket.groups.push(membership);
        Ok(())
    }

    /// Leaves the group.
    pub(crate) fn leave(&mut self, env: &mut Env, id: SocketId, interface: Option<u32>, group: IpAddr) -> Result<(), GroupError> {
        let (_, socket) = self.resolve_mut(id).ok_or(GroupError::NotOpen)?;
        let is_it = |&(number, other): &(u32, IpAddr)| other == group && interface.is_none_or(|wanted| wanted == number);
        let at = socket.groups.iter().position(is_it).ok_or(GroupError::NotMember)?;
        let (interface, group) = socket.groups.remove(at);
        env.ip.leave_group(interface, group);
        Ok(())
    }

    /// Gives sockets of this host a copy of an outgoing multicast or broadcast datagram: `first` starts at the UDP header,
    /// `self.packet` follows.
    pub(super) fn loop_back(&mut self, env: &mut Env, outgoing: &Outgoing, interface: u32, first: &Frame) {
        let group = outgoing.flow.remote;
        if group.is_multicast() && !env.ip.is_joined(interface, group) {
            return;
        }
        let Some(mut copy) = env.arena.alloc(Class::Large) else { return };
        copy.reserve(0);
        copy.extend(first.len()).copy_from_slice(first.bytes());
        copy.set_continues(!self.packet.is_empty());
        let datagram = Datagram {
            pair: Pair::of(group, outgoing.flow.local),
            interface,
            tos: outgoing.flow.tos,
            ttl: outgoing.flow.ttl,
            len: u32::from(outgoing.len) + HEADER_LEN as u32,
            header_len: 0,
            ports: 0,
            multicast: true,
        };
        let key = FlowKey {
            local: group,
            remote: outgoing.flow.local,
            local_port: outgoing.remote_port,
            remote_port: outgoing.local_port,
        };
        self.rest.extend(self.packet.iter().map(Frame::share));
        self.receive_for_many(env, &datagram, &key, copy);
        self.rest.clear();
    }
}

/// Maximum number of groups of one socket; Linux igmp_max_memberships: 20.
const GROUPS_MAX: usize = 64;
