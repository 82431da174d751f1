//! Read RFC 792 and RFC 4443 §4 first. Echo requests of a known pattern, as frames and as messages of the kernel's, and a close
//! look at the answers.

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ringway_wire::{ethernet, icmpv4, icmpv6, ipv4, ipv6};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, ipproto, recv, sendto, socket_with};

use super::{Echo, Ends};
use crate::checksum;

const ETHERNET: usize = ethernet::HEADER_LEN;
/// Type, code, checksum, identifier, sequence number.
const HEADER: usize = 8;
/// Where the checksum stands in a message.
pub(super) const CHECKSUM: usize = 2;
/// The neighbor is on the link: no router takes one off (RFC 5082 §3).
const HOPS: u8 = 255;
/// More than any packet of the test has.
const PACKET_MAX: usize = 1 << 16;

/// The kinds of received frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// No answer to a request of this test.
    Other,
    /// Every byte of the answer to the request with this number.
    Right(u16),
    /// An answer that something has changed on its way.
    Wrong(String),
}

/// The lengths of packets of either family, and the names of an echo there.
struct Family {
    header: usize,
    protocol: u8,
    request: u8,
    reply: u8,
}

fn family(ip: IpAddr) -> Family {
    match ip {
        IpAddr::V4(_) => Family {
            header: ipv4::HEADER_LEN,
            protocol: ipv4::PROTOCOL_ICMP,
            request: icmpv4::ECHO_REQUEST,
            reply: icmpv4::ECHO_REPLY,
        },
        IpAddr::V6(_) => Family {
            header: ipv6::HEADER_LEN,
            protocol: ipv6::PROTOCOL_ICMP,
            request: icmpv6::ECHO_REQUEST,
            reply: icmpv6::ECHO_REPLY,
        },
    }
}

fn bytes_of(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

/// The message of an IP packet of `len` bytes, without its checksum. No two places of the pattern look alike for long.
fn message(kind: u8, header: usize, (identifier, sequence): (u16, u16), len: usize) -> Vec<u8> {
    let mut bytes = vec![kind, 0, 0, 0];
    bytes.extend(identifier.to_be_bytes());
    bytes.extend(sequence.to_be_bytes());
    let pattern = |at: usize| ((at as u32 ^ u32::from(identifier) << 12).wrapping_mul(0x9e37_79b1) >> 24) as u8;
    bytes.extend((HEADER..len - header).map(pattern));
    bytes
}

/// The sum of the pseudo-header that the checksum of a message covers: none over IPv4.
fn pseudo(source: IpAddr, destination: IpAddr, len: usize) -> u64 {
    match source {
        IpAddr::V4(_) => 0,
        IpAddr::V6(_) => checksum::pseudo(&[bytes_of(source), bytes_of(destination)].concat(), ipv6::PROTOCOL_ICMP, len as u32),
    }
}

/// A frame with an echo request, an IP packet of `len` bytes, and where its message starts. The field of the checksum holds the
/// sum of the pseudo-header.
pub(super) fn request(ends: &Ends, numbers: (u16, u16), len: usize) -> (Vec<u8>, usize) {
    let Family { header, protocol, request, .. } = family(ends.neighbor);
    let mut frame = [ends.neighbor_mac, ends.own_mac].concat();
    let addresses = [bytes_of(ends.own), bytes_of(ends.neighbor)].concat();
    if ends.neighbor.is_ipv4() {
        frame.extend([0x08, 0x00, 0x45, 0]);
        frame.extend((len as u16).to_be_bytes());
        frame.extend([0, 0, 0x40, 0, HOPS, protocol, 0, 0]);
        frame.extend(addresses);
        let sum = !checksum::fold(checksum::add(0, &frame[ETHERNET..]));
        frame[ETHERNET + 10..ETHERNET + 12].copy_from_slice(&sum.to_be_bytes());
    } else {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend(((len - header) as u16).to_be_bytes());
        frame.extend([protocol, HOPS]);
        frame.extend(addresses);
    }
    let start = frame.len();
    frame.extend(message(request, header, numbers, len));
    let sum = checksum::fold(pseudo(ends.own, ends.neighbor, len - header));
    frame[start + CHECKSUM..start + CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
    (frame, start)
}

/// Completes the checksum of the message at `start`.
pub(super) fn sum(frame: &mut [u8], start: usize) {
    let sum = !checksum::fold(checksum::add(0, &frame[start..]));
    frame[start + CHECKSUM..start + CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
}

/// Classifies `frame`, if request number N with this `identifier` had an IP packet of `lengths[N]` bytes.
pub(super) fn judge(frame: &[u8], ends: &Ends, identifier: u16, lengths: &[usize]) -> Answer {
    let Family { header, protocol, reply, .. } = family(ends.neighbor);
    let (ethertype, at_protocol): ([u8; 2], usize) = if ends.neighbor.is_ipv4() { ([0x08, 0x00], 9) } else { ([0x86, 0xdd], 6) };
    let is_of_kind = frame.get(12..ETHERNET) == Some(&ethertype[..]) && frame.get(ETHERNET + at_protocol) == Some(&protocol);
    let Some(got) = frame.get(ETHERNET + header..).filter(|got| is_of_kind && got.len() >= HEADER && got[0] == reply) else {
        return Answer::Other;
    };
    let sequence = u16::from_be_bytes([got[6], got[7]]);
    let len = match lengths.get(usize::from(sequence)) {
        Some(len) if got[4..6] == identifier.to_be_bytes() => *len,
        _ => return Answer::Other,
    };
    let wanted = message(reply, header, (identifier, sequence), len);
    let what = format!("the answer to an echo request of {len} bytes");
    // A short frame is padded.
    let Some(got) = got.get(..wanted.len()) else {
        return Answer::Wrong(format!("{what} came with {} bytes", got.len() + header));
    };
    let differs = (0..wanted.len()).filter(|at| !(CHECKSUM..CHECKSUM + 2).contains(at)).find(|at| got[*at] != wanted[*at]);
    if let Some(at) = differs {
        return Answer::Wrong(format!("{what} came with another byte at {}", at + header));
    }
    let sum = checksum::add(pseudo(ends.neighbor, ends.own, wanted.len()), got);
    if checksum::fold(sum) != 0xffff {
        return Answer::Wrong(format!("{what} came with a wrong checksum"));
    }
    Answer::Right(sequence)
}

/// Echo requests by the kernel, from one address of ours to one neighbor.
pub(super) struct KernelEcho {
    socket: OwnedFd,
    to: SocketAddr,
    identifier: u16,
}

impl KernelEcho {
    /// From `own` to `neighbor` on interface `index`.
    ///
    /// # Errors
    /// The kernel refuses the socket (CAP_NET_RAW) or the address.
    pub(super) fn open(index: u32, own: IpAddr, neighbor: IpAddr, identifier: u16) -> io::Result<KernelEcho> {
        let (domain, protocol) = match own {
            IpAddr::V4(_) => (AddressFamily::INET, ipproto::ICMP),
            IpAddr::V6(_) => (AddressFamily::INET6, ipproto::ICMPV6),
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(domain, SocketType::RAW, flags, Some(protocol))?;
        bind(&socket, &SocketAddr::new(own, 0))?;
        let to = match neighbor {
            IpAddr::V6(ip) if ip.is_unicast_link_local() => SocketAddrV6::new(ip, 0, 0, index).into(),
            ip => SocketAddr::new(ip, 0),
        };
        Ok(KernelEcho { socket, to, identifier })
    }
}

impl Echo for KernelEcho {
    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    /// The kernel sums it over IPv6.
    fn send(&self, sequence: u16, len: usize) -> io::Result<()> {
        let Family { header, request, .. } = family(self.to.ip());
        let mut bytes = message(request, header, (self.identifier, sequence), len);
        if self.to.is_ipv4() {
            sum(&mut bytes, 0);
        }
        sendto(&self.socket, &bytes, SendFlags::empty(), &self.to)?;
        Ok(())
    }

    fn answered(&self) -> Vec<u16> {
        let Family { reply, .. } = family(self.to.ip());
        let (mut packet, mut answered) = (vec![0; PACKET_MAX], Vec::new());
        while let Ok((len, _)) = recv(&self.socket, packet.as_mut_slice(), RecvFlags::empty()) {
            // Over IPv4 the packet begins with its header.
            let header = if self.to.is_ipv4() { usize::from(packet[0] & 0xf) * 4 } else { 0 };
            let Some(got) = packet[..len].get(header..).filter(|got| got.len() >= HEADER) else { continue };
            if got[0] == reply && got[4..6] == self.identifier.to_be_bytes() {
                answered.push(u16::from_be_bytes([got[6], got[7]]));
            }
        }
        answered
    }
}
