//! Read sock_diag(7) first. Which TCP connections the kernel has: one question for each, by its addresses and ports.
//!
//! Promises: a connection in TIME-WAIT counts; a listener that would take the flow's segments does not. Does not do: lists.

use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::OwnedFd;

use ringway_shm::Flow;
use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

use crate::netlink::{HEADER_BYTES, Messages, REQUEST, message};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const TCP: u8 = 6;
/// The address family, as the kernel numbers it.
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
/// INET_DIAG_NOCOOKIE
const ANY_COOKIE: [u8; 8] = [0xff; 8];
/// `struct inet_diag_msg` begins with family, state, timer and retries; then comes the socket: our port, the peer's.
const STATE_AT: usize = 1;
const REMOTE_PORT_AT: usize = 6;
const TCP_LISTEN: u8 = 10;
/// Room for an answer with all attributes.
const ANSWER_BYTES: usize = 8192;

/// A socket that questions go over, in the network namespace of the thread that has opened it.
pub(super) struct Asker {
    socket: OwnedFd,
    sequence: u32,
}

impl Asker {
    pub(super) fn open() -> io::Result<Asker> {
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(SOCK_DIAG))?;
        Ok(Asker { socket, sequence: 0 })
    }

    /// Returns true when the kernel has a socket for this flow, or its TIME-WAIT.
    ///
    /// # Blocking
    /// For as long as the kernel needs to answer.
    pub(super) fn has_connection(&mut self, flow: &Flow) -> io::Result<bool> {
        self.sequence += 1;
        let request = message(SOCK_DIAG_BY_FAMILY, REQUEST, self.sequence, &question(flow));
        sendto(&self.socket, &request, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        let mut answer = vec![0; HEADER_BYTES + ANSWER_BYTES];
        let (_, len) = recv(&self.socket, &mut answer, RecvFlags::empty())?;
        // The socket is connected to nothing but the kernel, which answers each question once.
        let found = Messages(&answer[..len.min(answer.len())]).find(|message| message.sequence == self.sequence);
        let found = found.ok_or_else(|| io::Error::other("the kernel's answer about a socket makes no sense"))?;
        match found.error() {
            Some(error) if -error == libc::ENOENT => Ok(false),
            Some(error) => Err(io::Error::from_raw_os_error(-error)),
            None => Ok(is_connection(found.body, flow.remote.1)),
        }
    }
}

/// A listener answers too where there is no connection.
fn is_connection(body: &[u8], remote_port: u16) -> bool {
    let port = body.get(REMOTE_PORT_AT..).and_then(|rest| rest.first_chunk()).map(|bytes| u16::from_be_bytes(*bytes));
    body.get(STATE_AT).is_some_and(|state| *state != TCP_LISTEN) && port == Some(remote_port)
}

/// `struct inet_diag_req_v2`
fn question(flow: &Flow) -> Vec<u8> {
    let family = if flow.local.0.is_ipv4() { AF_INET } else { AF_INET6 };
    let mut body = vec![family, TCP, 0, 0];
    body.extend(u32::MAX.to_ne_bytes());
    body.extend(flow.local.1.to_be_bytes());
    body.extend(flow.remote.1.to_be_bytes());
    for ip in [flow.local.0, flow.remote.0] {
        let octets = match ip {
            IpAddr::V4(ip) => Ipv6Addr::from(u128::from(ip.to_bits()) << 96).octets(),
            IpAddr::V6(ip) => ip.octets(),
        };
        body.extend(octets);
    }
    // Any interface.
    body.extend([0; 4]);
    body.extend(ANY_COOKIE);
    body
}

#[cfg(test)]
mod tests;
