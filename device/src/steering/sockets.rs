//! Read sock_diag(7) first. Which TCP connections the kernel has: one question for each, by its addresses and ports, or one for all of a
//! port of ours.
//!
//! Promises: a connection in TIME-WAIT or SYN-RECEIVED counts; a listener that would take the flow's segments does not. The kernel looks
//! for the connections of a port in its whole table: 150 us for the 262,144 places of a machine with 24 GB of memory.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::OwnedFd;

use ringway_shm::Flow;
use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

use super::kernel_flows::End;
use crate::netlink::{DONE, DUMP, HEADER_BYTES, Messages, REQUEST, attribute, message};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// TCPDIAG_GETSOCK: as a dump it walks the kernel's table once for both families, so that a socket of IPv6 with IPv4 addresses is in it.
const GET_TCP: u16 = 18;
const TCP: u8 = 6;
/// The address family, as the kernel numbers it.
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
/// The attribute with `struct tcp_info`, and where that has `tcpi_bytes_received`.
const INET_DIAG_INFO: u16 = 2;
const RECEIVED_AT: usize = 128;
/// The length of `struct inet_diag_msg`.
const ATTRIBUTES_AT: usize = 72;
/// INET_DIAG_NOCOOKIE
const ANY_COOKIE: [u8; 8] = [0xff; 8];
/// `struct inet_diag_msg` begins with family, state, timer and retries; then comes the socket: our port, the peer's.
const STATE_AT: usize = 1;
const LOCAL_PORT_AT: usize = 4;
const REMOTE_PORT_AT: usize = 6;
const LOCAL_AT: usize = 8;
const REMOTE_AT: usize = 24;
const TCP_LISTEN: u8 = 10;
/// The states that a connection can be in, up to TCP_NEW_SYN_RECV, as bits; TCP_CLOSE is 7.
const CONNECTIONS: u32 = 0x1fff & !(1 << 0 | 1 << 7 | 1 << TCP_LISTEN);
/// Room for an answer with all attributes.
const ANSWER_BYTES: usize = 8192;
/// Room for a part of a list; the kernel makes parts of 32 KiB at most where there is room for them.
const PART_BYTES: usize = 32 << 10;

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
        Ok(self.ask(flow, Details::No)?.is_some())
    }

    /// What the kernel says of its socket for this flow; `None`: there is no connection.
    fn ask(&mut self, flow: &Flow, details: Details) -> io::Result<Option<Vec<u8>>> {
        self.sequence += 1;
        let request = message(SOCK_DIAG_BY_FAMILY, REQUEST, self.sequence, &question(flow, details));
        sendto(&self.socket, &request, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        let mut answer = vec![0; HEADER_BYTES + ANSWER_BYTES];
        let (_, len) = recv(&self.socket, &mut answer, RecvFlags::empty())?;
        // The socket is connected to nothing but the kernel, which answers each question once.
        let found = Messages(&answer[..len.min(answer.len())]).find(|message| message.sequence == self.sequence);
        let found = found.ok_or_else(|| io::Error::other("the kernel's answer about a socket makes no sense"))?;
        match found.error() {
            Some(error) if -error == libc::ENOENT => Ok(None),
            Some(error) => Err(io::Error::from_raw_os_error(-error)),
            None => Ok(is_connection(found.body, flow.remote.1).then(|| found.body.to_vec())),
        }
    }

    /// Returns the peers of all connections that the kernel has at `local`, other than those of this very address; `None`: there are more than `most`.
    ///
    /// # Blocking
    /// For as long as the kernel needs to look through its table.
    pub(super) fn peers_of(mut self, local: End, most: usize) -> io::Result<Option<BTreeSet<End>>> {
        self.sequence += 1;
        let request = message(GET_TCP, REQUEST | DUMP, self.sequence, &question_about(local.1));
        sendto(&self.socket, &request, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        let mut peers = BTreeSet::new();
        let mut part = vec![0; PART_BYTES];
        loop {
            let (_, len) = recv(&self.socket, &mut part, RecvFlags::empty())?;
            let mut is_sense = false;
            for message in Messages(&part[..len.min(part.len())]).filter(|message| message.sequence == self.sequence) {
                is_sense = true;
                match (message.kind, message.error()) {
                    (DONE, _) => return Ok((peers.len() <= most).then_some(peers)),
                    (_, Some(error)) => return Err(io::Error::from_raw_os_error(-error)),
                    _ => peers.extend(peer_of(message.body, local).filter(|peer| peer.0 != local.0)),
                }
            }
            if !is_sense {
                return Err(io::Error::other("the kernel's list of sockets makes no sense"));
            }
            if peers.len() > most {
                return Ok(None);
            }
        }
    }
}

/// Bytes that have come, in order, on the connection that the kernel has between these ends; with the peer's FIN, one more. `None`: it has none.
///
/// # Errors
/// The kernel does not answer such questions (`tcp_diag`).
///
/// # Blocking
/// For as long as the kernel needs to answer.
pub fn received_by_kernel(flow: &Flow) -> io::Result<Option<u64>> {
    let Some(said) = Asker::open()?.ask(flow, Details::Wanted)? else { return Ok(None) };
    let info = said.get(ATTRIBUTES_AT..).and_then(|attributes| attribute(attributes, INET_DIAG_INFO));
    let received = info.and_then(|info| info.get(RECEIVED_AT..)?.first_chunk());
    Ok(Some(received.map_or(0, |bytes| u64::from_ne_bytes(*bytes))))
}

/// Whether `struct tcp_info` is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Details {
    No,
    Wanted,
}

/// The peer of a connection of `local` that this message of a list tells of.
fn peer_of(body: &[u8], local: End) -> Option<End> {
    let port = |at: usize| Some(u16::from_be_bytes(*body.get(at..)?.first_chunk()?));
    let ip = |at: usize| match *body.first()? {
        AF_INET => Some(IpAddr::from(*body.get(at..)?.first_chunk::<4>()?)),
        AF_INET6 => Some(IpAddr::from(*body.get(at..)?.first_chunk::<16>()?).to_canonical()),
        _ => None,
    };
    let is_ours = *body.get(STATE_AT)? != TCP_LISTEN && (ip(LOCAL_AT)?, port(LOCAL_PORT_AT)?) == local;
    Some((ip(REMOTE_AT)?, port(REMOTE_PORT_AT)?)).filter(|_| is_ours)
}

/// `struct inet_diag_req`: what is asked of all connections of a port of ours.
fn question_about(port: u16) -> Vec<u8> {
    let mut body = vec![AF_INET, 0, 0, 0];
    body.extend(port.to_be_bytes());
    // Any port of the peer's, any addresses, any interface.
    body.extend([0; 2 + 32 + 4]);
    body.extend(ANY_COOKIE);
    body.extend(CONNECTIONS.to_ne_bytes());
    body.extend([0; 4]);
    body
}

/// A listener answers too where there is no connection.
fn is_connection(body: &[u8], remote_port: u16) -> bool {
    let port = body.get(REMOTE_PORT_AT..).and_then(|rest| rest.first_chunk()).map(|bytes| u16::from_be_bytes(*bytes));
    body.get(STATE_AT).is_some_and(|state| *state != TCP_LISTEN) && port == Some(remote_port)
}

/// `struct inet_diag_req_v2`
fn question(flow: &Flow, details: Details) -> Vec<u8> {
    let family = if flow.local.0.is_ipv4() { AF_INET } else { AF_INET6 };
    let extensions = if details == Details::Wanted { 1 << (INET_DIAG_INFO - 1) } else { 0 };
    let mut body = vec![family, TCP, extensions, 0];
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
