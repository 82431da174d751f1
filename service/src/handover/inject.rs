//! Read raw(7) and RFC 9293 §3.1 first. Segments that the peer has sent before, shown to the kernel once more.
//!
//! They go out by a raw socket to an address of this machine, so over `lo`. The kernel keeps the route that it has found for such a
//! packet and asks no source validation. Promises: no packet leaves the machine here; the receiver may answer one, to the peer. Does not do:
//! a socket that is bound to an interface, which does not see `lo`: the kernel would answer the peer with RST.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use ringway_stack::wire::{checksum, ipv4, ipv6, tcp};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, ipproto, sendto, socket_with};

/// Hops that the packet may go: none but the first.
const HOPS: u8 = 1;

/// Raw sockets of both families.
#[derive(Debug)]
pub struct Injector {
    ipv4: Option<OwnedFd>,
    ipv6: Option<OwnedFd>,
}

impl Injector {
    /// Opens the sockets in the network namespace of the calling thread; `None`: CAP_NET_RAW is missing.
    pub fn open() -> Option<Injector> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // What is sent by a socket of this protocol begins with its IP header, and nothing is received.
        let open = |family| socket_with(family, SocketType::RAW, flags, Some(ipproto::RAW)).ok();
        let injector = Injector { ipv4: open(AddressFamily::INET), ipv6: open(AddressFamily::INET6) };
        (injector.ipv4.is_some() || injector.ipv6.is_some()).then_some(injector)
    }

    /// Shows the kernel a segment without payload from `remote`.
    pub(super) fn inject(&self, remote: IpAddr, local: IpAddr, header: &tcp::Header) -> io::Result<()> {
        let socket = if local.is_ipv4() { &self.ipv4 } else { &self.ipv6 };
        let socket = socket.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        sendto(socket, &packet(remote, local, header), SendFlags::empty(), &SocketAddr::new(local, 0))?;
        Ok(())
    }
}

/// The packet, with its checksums.
fn packet(source: IpAddr, destination: IpAddr, header: &tcp::Header) -> Vec<u8> {
    let len = header.len();
    let mut segment = vec![0; len];
    header.emit(&mut segment);
    let sum = checksum::pseudo_header(source, destination, ipv4::PROTOCOL_TCP, len as u32);
    let sum = !checksum::add(sum, checksum::sum(&segment));
    segment[tcp::CHECKSUM_OFFSET..][..2].copy_from_slice(&sum.to_be_bytes());
    let ip = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let mut ip = vec![0; ipv4::HEADER_LEN];
            let total = (ipv4::HEADER_LEN + len) as u16;
            ipv4::Header::atomic(source, destination, ipv4::PROTOCOL_TCP, HOPS, total).write(&mut ip);
            ip
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let mut ip = vec![0; ipv6::HEADER_LEN];
            let (traffic_class, flow_label, next_header) = (0, 0, ipv6::PROTOCOL_TCP);
            let payload_len = len as u16;
            ipv6::Header { traffic_class, flow_label, payload_len, next_header, hop_limit: HOPS, source, destination }
                .write(&mut ip);
            ip
        }
        _ => Vec::new(),
    };
    [ip, segment].concat()
}

#[cfg(test)]
mod tests;
