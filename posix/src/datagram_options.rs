//! Options of datagram sockets. The kernel's socket underneath has them all, checks and returns them. Options that the
//! stack acts on are passed to it; an option that it lacks makes the socket the kernel's.

use crate::Posix;
use crate::channel::{Channel, SocketOption};
use crate::datagram::control;
use crate::datagram::multicast::Change;
use crate::descriptions::{Flag, UNSET};
use crate::errno::{Answer, Errno};
use crate::fallback::Fd;
use crate::fd_table::{Descriptor, SocketRef};
use crate::options::{put_number, table, without_force};
use crate::reasons::Fallback;
use crate::tcp_info;
use ringway_channel::options::LINUX_OPTIONS;
use std::sync::atomic::Ordering;

/// Options that the stack acts on, each with its level and name. Those of IP apply to AF_INET sockets, those of IPv6 to
/// AF_INET6 sockets.
fn served(inet6: bool) -> impl Iterator<Item = (i32, i32, SocketOption)> {
    let of_family = LINUX_OPTIONS.iter().filter(move |known| is_of_family(known.level, inet6));
    of_family.filter_map(|known| Some((known.level, known.name, known.of_datagram()?)))
}

/// Options that request ancillary data.
const ANCILLARY: [(i32, i32, u32); 11] = [
    (libc::IPPROTO_IP, libc::IP_PKTINFO, control::PACKET_INFO),
    (libc::IPPROTO_IP, libc::IP_RECVTOS, control::TYPE_OF_SERVICE),
    (libc::IPPROTO_IP, libc::IP_RECVTTL, control::TIME_TO_LIVE),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, control::PACKET_INFO_V6),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, control::TRAFFIC_CLASS),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, control::HOP_LIMIT),
    (libc::SOL_UDP, libc::UDP_GRO, control::SEGMENT_SIZE),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMP, control::STAMP),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, control::STAMP_NANOS),
    (libc::SOL_SOCKET, control::SO_TIMESTAMP_NEW, control::STAMP_NEW),
    (libc::SOL_SOCKET, control::SO_TIMESTAMPNS_NEW, control::STAMP_NANOS_NEW),
];

impl Posix {
    /// Copies the options that were set on the kernel socket before it became the stack's.
    pub(crate) fn copy_datagram_options(&self, channel: &dyn Channel, fd: Fd, socket: SocketRef, inet6: bool) {
        for (level, name, option) in served(inet6) {
            if let Some(value) = self.kernel_number(fd, level, name) {
                self.tell_option(channel, socket, option, value);
            }
        }
        self.note_ancillary(fd, socket);
        self.note_cork(fd, socket);
    }

    /// Reads from the kernel socket whether UDP_CORK is set.
    fn note_cork(&self, fd: Fd, socket: SocketRef) {
        let description = self.descriptions.of(socket);
        if self.kernel_number(fd, libc::SOL_UDP, libc::UDP_CORK).is_some_and(|value| value != 0) {
            description.mark(Flag::CORKED);
            return;
        }
        description.unmark(Flag::CORKED);
        self.uncork(fd, socket);
    }

    /// Reads from the kernel socket which ancillary data the program wants, and whether the kernel reports errors.
    pub(crate) fn note_ancillary(&self, fd: Fd, socket: SocketRef) {
        let description = self.descriptions.of(socket);
        let inet6 = description.is(Flag::INET6);
        let is_on = |level, name| self.kernel_number(fd, level, name).is_some_and(|value| value != 0);
        let wanted = ANCILLARY.iter().filter(|known| is_on(known.0, known.1)).fold(0, |bits, known| bits | known.2);
        description.values[ANCILLARY_PLACE].store(wanted, Ordering::Release);
        let errors = is_on(libc::IPPROTO_IP, libc::IP_RECVERR) || (inet6 && is_on(libc::IPPROTO_IPV6, libc::IPV6_RECVERR));
        if errors {
            description.mark(Flag::KERNEL_ERRORS);
        } else {
            description.unmark(Flag::KERNEL_ERRORS)
        };
    }

    /// Ancillary data that the program wants, as bits of `control`.
    pub(crate) fn ancillary(&self, socket: SocketRef) -> u32 {
        match self.descriptions.of(socket).values[ANCILLARY_PLACE].load(Ordering::Acquire) {
            UNSET => 0,
            bits => bits,
        }
    }

    fn tell_option(&self, channel: &dyn Channel, socket: SocketRef, option: SocketOption, value: i32) {
        let value = match option {
            // The kernel doubles a requested size; the stack chooses a size that was not requested.
            SocketOption::SendBuffer | SocketOption::ReceiveBuffer if value == BUFFER_DEFAULT => return,
            SocketOption::SendBuffer | SocketOption::ReceiveBuffer => value / 2,
            _ => value.max(0),
        };
        channel.set_option(socket, option, value as u32);
    }

    /// setsockopt(2) on a datagram socket of ours.
    pub(crate) fn set_datagram_option(&self, at: Descriptor, level: i32, name: i32, value: &[u8]) -> Answer<()> {
        let Descriptor { fd, socket } = at;
        if (level, name) == (libc::SOL_SOCKET, libc::SO_LOCK_FILTER) && value.iter().any(|&byte| byte != 0) {
            // What locks the filter makes the socket the kernel's below.
            self.hear_multicast_again(fd, socket);
        }
        match Change::of_option(level, name, value) {
            Some(change) => self.change_membership(at, change, || self.kernel.set_option(fd, level, name, value))?,
            None => self.kernel.set_option(fd, level, name, value)?,
        }
        self.mark_option(fd, level, name, value);
        if table::find(level, name).is_some_and(|option| option.datagram().claims(value)) {
            return self.surrender(fd, socket, Fallback::OptionNotServed);
        }
        let name = without_force(level, name);
        if (level, name) == (libc::SOL_UDP, libc::UDP_CORK) {
            self.note_cork(fd, socket);
            return Ok(());
        }
        let inet6 = self.descriptions.of(socket).is(Flag::INET6);
        let served = served(inet6).find(|known| (known.0, known.1) == (level, name));
        if let (Some((_, _, option)), Some(channel)) = (served, self.attached())
            && let Some(value) = self.kernel_number(fd, level, name)
        {
            self.tell_option(channel, socket, option, value);
        }
        let is_error_switch =
            matches!((level, name), (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR));
        if is_error_switch || ANCILLARY.iter().any(|known| (known.0, known.1) == (level, name)) {
            self.note_ancillary(fd, socket);
        }
        Ok(())
    }

    /// getsockopt(2) on a datagram socket of ours.
    pub(crate) fn datagram_option(&self, at: Descriptor, level: i32, name: i32, out: &mut [u8]) -> Answer<usize> {
        let Descriptor { fd, socket } = at;
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_ERROR) if !self.descriptions.of(socket).is(Flag::KERNEL_ERRORS) => {
                match self.take_failure(socket) {
                    Some(error) => put_number(out, error.0),
                    None => self.kernel.option(fd, level, name, out),
                }
            }
            // SO_GET_FILTER: a socket with a filter of the program's is the kernel's.
            (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER) => Ok(0),
            (libc::IPPROTO_IP, libc::IP_MTU) | (libc::IPPROTO_IPV6, libc::IPV6_MTU) => {
                let channel = self.attached().ok_or(Errno::NOTCONN)?;
                if !self.is_connected_datagram(socket) {
                    return Err(Errno::NOTCONN);
                }
                let mut info = [0; tcp_info::LEN];
                self.tcp_info(channel, socket, &mut info)?;
                put_number(out, tcp_info::path_mtu(&info) as i32)
            }
            _ => self.kernel.option(fd, level, name, out),
        }
    }
}

fn is_of_family(level: i32, inet6: bool) -> bool {
    match level {
        libc::IPPROTO_IP => !inet6,
        libc::IPPROTO_IPV6 => inet6,
        _ => true,
    }
}

/// Index of the bits of `ANCILLARY` in a datagram socket's description.
const ANCILLARY_PLACE: usize = 0;
/// net.core.rmem_default and wmem_default, unless configured otherwise.
const BUFFER_DEFAULT: i32 = 212_992;
