//! Multicast groups of a socket that the stack receives for (`policy.multicast`; ip(7), IP_ADD_MEMBERSHIP).
//!
//! ```text
//!   join:   the stack joins -> the kernel's socket gets a filter -> the kernel's socket joins
//!   leave:  the kernel's socket leaves -> the stack leaves -> the filter is made anew, or taken off
//! ```
//! The kernel's socket is the member that routers and the network card know. Its filter (Documentation/networking/filter.rst) passes
//! what the stack does not receive: what this host itself sends to the group, other interfaces, and other groups. Promises: the
//! result is the kernel's call's; each datagram comes once. A socket that leaves the stack loses the filter with it. Does not do: memberships
//! with sources, those of IPv6, and those from before the socket was the stack's; the kernel's socket receives for them.

use crate::Posix;
use crate::channel::{Channel, ControlAnswer, Membership, Multicast, Request};
use crate::descriptions::Flag;
use crate::errno::Answer;
use crate::fallback::Fd;
use crate::fd_table::{Descriptor, Entry, SocketRef};
use std::net::Ipv4Addr;

/// A change of a socket's memberships.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Join(Multicast),
    Leave(Multicast),
}

impl Change {
    /// The change that setsockopt(2) asks for. `None`: it is none, or one that is the kernel's alone.
    pub(crate) fn of_option(level: i32, name: i32, value: &[u8]) -> Option<Change> {
        if level != libc::IPPROTO_IP {
            return None;
        }
        match name {
            libc::IP_ADD_MEMBERSHIP => of_request(value).map(Change::Join),
            libc::IP_DROP_MEMBERSHIP => of_request(value).map(Change::Leave),
            MCAST_JOIN_GROUP => of_group_request(value).map(Change::Join),
            MCAST_LEAVE_GROUP => of_group_request(value).map(Change::Leave),
            _ => None,
        }
    }
}

/// `struct ip_mreq`, or `struct ip_mreqn`, which has the number of the interface behind it.
fn of_request(value: &[u8]) -> Option<Multicast> {
    let interface = if value.len() >= MREQN_LEN { u32::from_ne_bytes(*value[8..].first_chunk()?) } else { 0 };
    Some(Multicast { group: address_at(value, 0)?, interface, address: address_at(value, 4)? })
}

/// `struct group_req`
fn of_group_request(value: &[u8]) -> Option<Multicast> {
    let interface = u32::from_ne_bytes(*value.first_chunk()?);
    let name = value.get(GROUP_AT..)?;
    let family = u16::from_ne_bytes(*name.first_chunk()?);
    let group = address_at(name, 4).filter(|_| i32::from(family) == libc::AF_INET)?;
    Some(Multicast { group, interface, address: Ipv4Addr::UNSPECIFIED })
}

fn address_at(bytes: &[u8], at: usize) -> Option<Ipv4Addr> {
    let octets: [u8; 4] = *bytes.get(at..)?.first_chunk()?;
    Some(octets.into())
}

impl Posix {
    /// Changes a membership of a socket of ours; `set` is the kernel's call.
    pub(crate) fn change_membership(&self, at: Descriptor, change: Change, set: impl FnOnce() -> Answer<()>) -> Answer<()> {
        let Some(channel) = self.attached() else { return set() };
        match change {
            Change::Join(which) => self.join_multicast(channel, at, which, set),
            Change::Leave(which) => {
                let answer = set();
                if answer.is_err() && !self.is_joined_alone(channel, at.socket, which) {
                    return answer;
                }
                match self.ask(channel, at.socket, Request::LeaveMulticast(which), &mut []) {
                    Some(ControlAnswer::Done) => _ = self.filter_multicast(channel, at),
                    // Only the kernel's socket has joined it.
                    _ => return answer,
                }
                Ok(())
            }
        }
    }

    fn join_multicast(
        &self,
        channel: &dyn Channel,
        at: Descriptor,
        which: Multicast,
        set: impl FnOnce() -> Answer<()>,
    ) -> Answer<()> {
        if self.ask(channel, at.socket, Request::JoinMulticast(which), &mut []) != Some(ControlAnswer::Done) {
            return set();
        }
        let is_filtered = self.filter_multicast(channel, at);
        let answer = set();
        // The kernel has no interface of the stack alone, and may know no way to the group.
        if answer.is_err() && self.is_joined_alone(channel, at.socket, which) {
            return Ok(());
        }
        if answer.is_err() || !is_filtered {
            let left = self.ask(channel, at.socket, Request::LeaveMulticast(which), &mut []);
            debug_assert!(left.is_some(), "the service answers, or has died");
            self.filter_multicast(channel, at);
        }
        answer
    }

    /// Returns true if the stack has joined the group at an interface that the kernel does not have.
    fn is_joined_alone(&self, channel: &dyn Channel, socket: SocketRef, which: Multicast) -> bool {
        let alone = Membership { group: which.group, interface: 0 };
        self.memberships(channel, socket).contains(&alone)
    }

    /// What the stack receives for.
    fn memberships(&self, channel: &dyn Channel, socket: SocketRef) -> Vec<Membership> {
        let mut bytes = [0; MEMBERSHIPS_MAX * Membership::BYTES];
        match self.ask(channel, socket, Request::Memberships, &mut bytes) {
            Some(ControlAnswer::Bytes(len)) => Membership::read_all(&bytes[..len.min(bytes.len())]).collect(),
            _ => Vec::new(),
        }
    }

    /// Makes the kernel's socket pass what the stack does not receive. Returns false if the kernel refuses. Other threads and processes may change
    /// memberships meanwhile: the last filter is of what the stack has then.
    fn filter_multicast(&self, channel: &dyn Channel, Descriptor { fd, socket }: Descriptor) -> bool {
        let mut joined = self.memberships(channel, socket);
        loop {
            if !self.set_filter(fd, socket, &joined) {
                return false;
            }
            let now = self.memberships(channel, socket);
            if now == joined {
                return true;
            }
            joined = now;
        }
    }

    fn set_filter(&self, fd: Fd, socket: SocketRef, joined: &[Membership]) -> bool {
        let shared: Vec<&Membership> = joined.iter().filter(|joined| joined.interface != 0).collect();
        if shared.is_empty() {
            self.hear_multicast_again(fd, socket);
            return true;
        }
        let program = filter(&shared);
        // `struct sock_fprog`
        let mut bytes = [0; 16];
        bytes[..2].copy_from_slice(&(program.len() as u16).to_ne_bytes());
        bytes[8..].copy_from_slice(&(program.as_ptr() as usize as u64).to_ne_bytes());
        self.descriptions.of(socket).mark(Flag::FILTERED);
        self.kernel.set_option(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &bytes).is_ok()
    }

    /// Takes the filter off the kernel's socket, which receives everything again. A filter of the program's stays.
    pub(crate) fn hear_multicast_again(&self, fd: Fd, socket: SocketRef) {
        let description = self.descriptions.of(socket);
        let may_have = description.is(Flag::FILTERED) || description.is(Flag::ADOPTED);
        description.unmark(Flag::FILTERED);
        if may_have && self.has_own_filter(fd) {
            let off = self.kernel.set_option(fd, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0_i32.to_ne_bytes());
            debug_assert!(off.is_ok(), "there is a filter, and it is not locked");
        }
    }

    /// The service is dead: what it would have delivered comes to the kernel's sockets, whether the program calls or waits.
    pub(crate) fn hear_all_multicast_again(&self) {
        if self.is_outside_table() {
            return;
        }
        self.table.for_each_in(0, Fd::MAX, |fd, entry| {
            if let Entry::Socket(socket) = entry
                && self.is_datagram(socket)
            {
                self.hear_multicast_again(fd, socket);
            }
        });
    }

    fn has_own_filter(&self, fd: Fd) -> bool {
        // The kernel counts in instructions, and writes as many as the filter has if the room has at least that number.
        let mut room = vec![0; PROGRAM_MAX * INSTRUCTION_BYTES];
        let count = self.kernel.option(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &mut room);
        count.is_ok_and(|count| count > 0) && room[..INSTRUCTION_BYTES] == bytes_of(MARK)
    }
}

/// `struct sock_filter`
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Instruction {
    code: u16,
    if_true: u8,
    if_false: u8,
    value: u32,
}

const fn instruction(code: u16, value: u32) -> Instruction {
    Instruction { code, if_true: 0, if_false: 0, value }
}

fn bytes_of(instruction: Instruction) -> [u8; INSTRUCTION_BYTES] {
    let Instruction { code, if_true, if_false, value } = instruction;
    let (code, value) = (code.to_ne_bytes(), value.to_ne_bytes());
    [code[0], code[1], if_true, if_false, value[0], value[1], value[2], value[3]]
}

/// Drops what comes from outside to one of the groups at its interface.
fn filter(joined: &[&Membership]) -> Vec<Instruction> {
    let pass = instruction(RETURN, u32::MAX);
    let skip_unless = |value, count| Instruction { if_false: count, ..instruction(JUMP_IF_EQUAL, value) };
    let mut program = vec![
        MARK,
        instruction(LOAD_WORD, PACKET_TYPE),
        Instruction { if_false: 1, ..instruction(JUMP_IF_EQUAL, PACKET_LOOPBACK) },
        pass,
        instruction(LOAD_BYTE, NETWORK_HEADER),
        instruction(AND, 0xf0),
        Instruction { if_true: 1, ..instruction(JUMP_IF_EQUAL, 0x40) },
        pass,
    ];
    for Membership { group, interface } in joined {
        program.extend([
            instruction(LOAD_WORD, NETWORK_HEADER + IPV4_DESTINATION),
            skip_unless(u32::from(*group), 3),
            instruction(LOAD_WORD, INTERFACE),
            skip_unless(*interface, 1),
            instruction(RETURN, 0),
        ]);
    }
    program.push(pass);
    program
}

const MREQN_LEN: usize = 12;
/// Where `struct group_req` has the group's `sockaddr_storage`.
const GROUP_AT: usize = 8;
/// linux/in.h
const MCAST_JOIN_GROUP: i32 = 42;
const MCAST_LEAVE_GROUP: i32 = 45;

/// Memberships of one socket at most (the stack's limit).
pub(crate) const MEMBERSHIPS_MAX: usize = 64;
/// BPF_MAXINSNS
const PROGRAM_MAX: usize = 4_096;
const INSTRUCTION_BYTES: usize = size_of::<Instruction>();

// linux/bpf_common.h
const LOAD_WORD: u16 = 0x20;
const LOAD_BYTE: u16 = 0x30;
const AND: u16 = 0x54;
const JUMP_IF_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
/// The filter is ours if it begins with this: a load of a number that is not used.
const MARK: Instruction = instruction(0x00, 0x5257_4d43);
// linux/filter.h: SKF_AD_OFF + SKF_AD_PKTTYPE and SKF_AD_IFINDEX, SKF_NET_OFF.
const PACKET_TYPE: u32 = (-0x1000_i32).cast_unsigned() + 4;
const INTERFACE: u32 = (-0x1000_i32).cast_unsigned() + 8;
const NETWORK_HEADER: u32 = (-0x10_0000_i32).cast_unsigned();
const IPV4_DESTINATION: u32 = 16;
/// linux/if_packet.h: this host's own datagram, on its way back to its sockets.
const PACKET_LOOPBACK: u32 = 5;

#[cfg(test)]
mod tests;
