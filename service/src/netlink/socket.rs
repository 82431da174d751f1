//! A NETLINK_ROUTE socket: dumps and notifications.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recvfrom, sendto, socket_with};

use super::wire::{Message, Received, Table, dump_request, messages};

/// Notifications of links, neighbors, and IPv4/IPv6 addresses, routes and rules of policy routing (RTMGRP_*, RTNLGRP_IPV6_RULE).
const GROUPS: u32 = 0x001 | 0x004 | 0x010 | 0x040 | 0x100 | 0x400 | 0x080 | 0x4_0000;
/// The kernel never sends more at once.
const DATAGRAM_BYTES: usize = 64 << 10;
/// Room for a flood of neighbors before the kernel drops notifications.
const RECEIVE_BUFFER_BYTES: usize = 1 << 20;
/// Dumps that were interrupted by changes are repeated this often.
const ATTEMPTS: usize = 8;

pub(super) struct RouteSocket {
    socket: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

/// The result of `receive`.
pub(super) enum Notifications {
    Messages(Vec<Received>),
    /// Nothing is there now.
    Empty,
    /// The kernel has dropped some: read everything again.
    Lost,
}

impl RouteSocket {
    /// A socket that hears of every change.
    pub(super) fn listening() -> io::Result<RouteSocket> {
        RouteSocket::open(GROUPS)
    }

    /// A socket for requests only.
    pub(super) fn quiet() -> io::Result<RouteSocket> {
        RouteSocket::open(0)
    }

    fn open(groups: u32) -> io::Result<RouteSocket> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        if groups != 0 {
            set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER_BYTES)?;
        }
        bind(&socket, &SocketAddrNetlink::new(0, groups))?;
        Ok(RouteSocket { socket, sequence: 0, buffer: vec![0; DATAGRAM_BYTES] })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Sends a request made for the next sequence number.
    pub(super) fn send(&mut self, request: impl FnOnce(u32) -> Vec<u8>) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let request = request(self.sequence);
        sendto(&self.socket, &request, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        Ok(())
    }

    /// Everything in `table`, consistently.
    ///
    /// # Blocking
    /// For as long as the kernel needs to answer.
    pub(super) fn dump(&mut self, table: Table) -> io::Result<Vec<Message>> {
        for _ in 0..ATTEMPTS {
            if let Some(found) = self.dump_once(table)? {
                return Ok(found);
            }
        }
        Err(io::Error::other("the kernel's tables change too fast to be read"))
    }

    /// `None`: interrupted by a change.
    fn dump_once(&mut self, table: Table) -> io::Result<Option<Vec<Message>>> {
        self.send(|sequence| dump_request(table, sequence))?;
        let (mut found, mut consistent) = (Vec::new(), true);
        loop {
            let received = match self.receive()? {
                Notifications::Messages(received) => received,
                Notifications::Empty => {
                    wait_readable(self.fd())?;
                    continue;
                }
                Notifications::Lost => return Ok(None),
            };
            for Received { sequence, interrupted, message, .. } in received {
                if sequence != self.sequence {
                    continue;
                }
                consistent &= !interrupted;
                match message {
                    Message::Done | Message::Error(0) => return Ok(consistent.then_some(found)),
                    Message::Error(errno) => return Err(io::Error::from_raw_os_error(-errno)),
                    message => found.push(message),
                }
            }
        }
    }

    /// The next datagram of the kernel, without waiting.
    pub(super) fn receive(&mut self) -> io::Result<Notifications> {
        match recvfrom(&self.socket, self.buffer.as_mut_slice(), RecvFlags::empty()) {
            Ok((_, len, from)) => {
                let kernel = from.and_then(|from| SocketAddrNetlink::try_from(from).ok()).is_some_and(|from| from.pid() == 0);
                Ok(Notifications::Messages(if kernel { messages(&self.buffer[..len]) } else { Vec::new() }))
            }
            Err(Errno::AGAIN) => Ok(Notifications::Empty),
            Err(Errno::NOBUFS) => Ok(Notifications::Lost),
            Err(Errno::INTR) => Ok(Notifications::Messages(Vec::new())),
            Err(error) => Err(error.into()),
        }
    }
}

fn wait_readable(fd: BorrowedFd<'_>) -> io::Result<()> {
    use rustix::event::{PollFd, PollFlags, poll};
    match poll(&mut [PollFd::new(&fd, PollFlags::IN)], None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
