//! Read raw(7) and RFC 9293 §3.1 first. Segments that the peer has sent before, shown to the kernel once more.
//!
//! They go out by a raw socket to an address of this machine, so over `lo`. The kernel keeps the route that it has found for such a
//! packet and asks no source validation. Promises: no packet leaves the machine here; the receiver may answer one, to the peer. Does not do:
//! a socket that is bound to an interface, which does not see `lo`: the kernel would answer the peer with RST.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use ringway_stack::handover::ConnectionImage;
use ringway_stack::wire::sequence::SeqNum;
use ringway_stack::wire::tcp::{Options, Timestamps};
use ringway_stack::wire::{checksum, ipv4, ipv6, tcp};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, ipproto, sendto, socket_with};

use super::Refusal;

/// How often, and how long each time, the effect of a segment is waited for.
const WAITS: u32 = 50;
const WAIT: Duration = Duration::from_millis(1);
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

    /// Shows the kernel a segment from `remote`.
    fn inject(&self, remote: IpAddr, local: IpAddr, header: &tcp::Header, payload: &[u8]) -> io::Result<()> {
        let socket = if local.is_ipv4() { &self.ipv4 } else { &self.ipv6 };
        let socket = socket.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        sendto(socket, &packet(remote, local, header, payload), SendFlags::empty(), &SocketAddr::new(local, 0))?;
        Ok(())
    }
}

/// Shows the kernel segments of a connection's peer.
#[derive(Clone, Copy)]
pub(super) struct Peer<'a> {
    pub(super) image: &'a ConnectionImage,
    pub(super) injector: &'a Injector,
}

/// What segments of the peer's differ in.
#[derive(Clone, Copy)]
pub(super) struct Segment {
    pub(super) flags: u8,
    pub(super) sequence: u32,
    pub(super) acknowledgment: u32,
    /// Our timestamp that it echoes.
    pub(super) echo: u32,
}

impl Peer<'_> {
    /// Shows a segment.
    pub(super) fn show(&self, segment: Segment, payload: &[u8]) -> Result<(), Refusal> {
        let (image, Segment { flags, sequence, acknowledgment, echo }) = (self.image, segment);
        let mut options = Options::default();
        options.timestamps = image.terms.timestamps.map(|clock| Timestamps { value: clock.recent.unwrap_or(0), echo });
        let header = tcp::Header {
            source_port: image.remote.port,
            destination_port: image.local.port,
            sequence: SeqNum(sequence),
            acknowledgment: SeqNum(acknowledgment),
            flags,
            ae: false,
            window: u16::try_from(image.sending.wnd >> image.terms.send_scale).unwrap_or(u16::MAX),
            urgent: 0,
            options,
        };
        self.injector.inject(image.remote.ip, image.local.ip, &header, payload).map_err(|_| Refusal::Injection)
    }
}

/// Waits until the kernel has done with a segment what it should have done: as a rule it has when the segment was shown.
pub(super) fn wait_for(mut reached: impl FnMut() -> io::Result<bool>) -> Result<(), Refusal> {
    for wait in 0..=WAITS {
        if reached()? {
            return Ok(());
        }
        if wait < WAITS {
            std::thread::sleep(WAIT);
        }
    }
    Err(Refusal::Injection)
}

/// The packet, with its checksums.
fn packet(source: IpAddr, destination: IpAddr, header: &tcp::Header, payload: &[u8]) -> Vec<u8> {
    let len = header.len() + payload.len();
    let mut segment = vec![0; header.len()];
    header.emit(&mut segment);
    segment.extend(payload);
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
