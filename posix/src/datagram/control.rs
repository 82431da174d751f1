//! Ancillary data of datagrams (cmsg(3), ip(7), ipv6(7), udp(7)): read on sending, written on receiving.

use crate::channel::Envelope;
use crate::errno::{Answer, Errno};
use ringway_shm::Duration;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IP_PKTINFO is wanted; likewise for the others.
pub(crate) const PACKET_INFO: u32 = 1;
/// IP_RECVTOS
pub(crate) const TYPE_OF_SERVICE: u32 = 2;
/// IP_RECVTTL
pub(crate) const TIME_TO_LIVE: u32 = 4;
/// IPV6_RECVPKTINFO
pub(crate) const PACKET_INFO_V6: u32 = 8;
/// IPV6_RECVTCLASS
pub(crate) const TRAFFIC_CLASS: u32 = 16;
/// IPV6_RECVHOPLIMIT
pub(crate) const HOP_LIMIT: u32 = 32;
/// UDP_GRO
pub(crate) const SEGMENT_SIZE: u32 = 64;

/// SO_TIMESTAMP
pub(crate) const STAMP: u32 = 128;
/// SO_TIMESTAMPNS
pub(crate) const STAMP_NANOS: u32 = 256;
/// SO_TIMESTAMP_NEW
pub(crate) const STAMP_NEW: u32 = 512;
/// SO_TIMESTAMPNS_NEW
pub(crate) const STAMP_NANOS_NEW: u32 = 1_024;
/// One of these four is wanted.
pub(crate) const ANY_STAMP: u32 = STAMP | STAMP_NANOS | STAMP_NEW | STAMP_NANOS_NEW;

/// linux/socket.h, 64-bit time.
pub(crate) const SO_TIMESTAMP_NEW: i32 = 63;
pub(crate) const SO_TIMESTAMPNS_NEW: i32 = 64;
const SO_TIMESTAMPING_NEW: i32 = 65;
/// The prefix `::ffff:0.0.0.0/96` (RFC 4291 §2.5.5.2).
const MAPPED_PREFIX: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

/// Kind of send, which decides the levels of control data that it accepts; Linux skips the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sends {
    /// An AF_INET socket.
    Ipv4,
    /// An AF_INET6 socket to an IPv4-mapped address.
    Mapped,
    /// An AF_INET6 socket to an IPv6 address.
    Ipv6,
}

/// Applies the control data of one send.
///
/// # Errors
/// EINVAL: a header or a value that Linux refuses too.
pub(crate) fn apply(envelope: &mut Envelope, control: &[u8], sends: Sends) -> Answer<()> {
    let mut rest = control;
    while let Some(header) = rest.first_chunk::<HEADER>() {
        let len = usize::from_ne_bytes(header[..8].try_into().expect("eight bytes"));
        let level = i32::from_ne_bytes(header[8..12].try_into().expect("four bytes"));
        let kind = i32::from_ne_bytes(header[12..16].try_into().expect("four bytes"));
        if len < HEADER || len > rest.len() {
            return Err(Errno::INVAL);
        }
        let value = &rest[HEADER..len];
        match (level, sends) {
            (libc::SOL_UDP, _) => apply_udp(envelope, kind, value)?,
            (libc::SOL_SOCKET, _) => check_socket(kind, value)?,
            (libc::IPPROTO_IP, Sends::Ipv4 | Sends::Mapped) => apply_ipv4(envelope, kind, value)?,
            (libc::IPPROTO_IPV6, Sends::Ipv6) => apply_ipv6(envelope, kind, value)?,
            (libc::IPPROTO_IPV6, Sends::Mapped) if kind == libc::IPV6_PKTINFO => {
                // net/ipv4/ip_sockglue.c, ip_cmsg_send.
                if !value.starts_with(&MAPPED_PREFIX) {
                    return Err(Errno::INVAL);
                }
                apply_ipv6(envelope, kind, value)?;
            }
            _ => {}
        }
        rest = rest.get(len.next_multiple_of(8)..).unwrap_or(&[]);
    }
    Ok(())
}

/// net/ipv4/udp.c, __udp_cmsg_send.
fn apply_udp(envelope: &mut Envelope, kind: i32, value: &[u8]) -> Answer<()> {
    match (kind, value.try_into()) {
        (libc::UDP_SEGMENT, Ok(size)) => {
            envelope.segment_size = Some(u16::from_ne_bytes(size));
            Ok(())
        }
        _ => Err(Errno::INVAL),
    }
}

/// net/core/sock.c, __sock_cmsg_send: marks, stamps and priorities are for the kernel's queues.
fn check_socket(kind: i32, value: &[u8]) -> Answer<()> {
    match kind {
        libc::SO_MARK | libc::SO_PRIORITY | libc::SO_TIMESTAMPING | SO_TIMESTAMPING_NEW => integer(value).map(|_| ()),
        libc::SCM_RIGHTS | libc::SCM_CREDENTIALS => Ok(()),
        _ => Err(Errno::INVAL),
    }
}

/// net/ipv4/ip_sockglue.c, ip_cmsg_send.
fn apply_ipv4(envelope: &mut Envelope, kind: i32, value: &[u8]) -> Answer<()> {
    match kind {
        libc::IP_PKTINFO => {
            let bytes: [u8; 12] = value.try_into().map_err(|_| Errno::INVAL)?;
            let source = Ipv4Addr::new(bytes[4], bytes[5], bytes[6], bytes[7]);
            envelope.local = Some(IpAddr::V4(source)).filter(|ip| !ip.is_unspecified());
            envelope.interface = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        libc::IP_TOS => {
            envelope.type_of_service = Some(if let [tos] = value { *tos } else { byte(integer(value)?, 0)? });
        }
        libc::IP_TTL => envelope.time_to_live = Some(byte(integer(value)?, 1)?),
        _ => return Err(Errno::INVAL),
    }
    Ok(())
}

/// net/ipv6/datagram.c, ip6_datagram_send_ctl. -1: the socket's own (RFC 3542 §6.3, §6.5).
fn apply_ipv6(envelope: &mut Envelope, kind: i32, value: &[u8]) -> Answer<()> {
    match kind {
        libc::IPV6_PKTINFO => {
            let bytes: &[u8; 20] = value.first_chunk().ok_or(Errno::INVAL)?;
            let (ip, index) = bytes.split_first_chunk::<16>().ok_or(Errno::INVAL)?;
            envelope.local = Some(Ipv6Addr::from(*ip).to_canonical()).filter(|ip| !ip.is_unspecified());
            envelope.interface = u32::from_ne_bytes([index[0], index[1], index[2], index[3]]);
        }
        libc::IPV6_TCLASS | libc::IPV6_HOPLIMIT if integer(value)? == -1 => {}
        libc::IPV6_TCLASS => envelope.type_of_service = Some(byte(integer(value)?, 0)?),
        libc::IPV6_HOPLIMIT => envelope.time_to_live = Some(byte(integer(value)?, 0)?),
        _ => return Err(Errno::INVAL),
    }
    Ok(())
}

fn integer(value: &[u8]) -> Answer<i32> {
    value.try_into().map(i32::from_ne_bytes).map_err(|_| Errno::INVAL)
}

fn byte(number: i32, least: u8) -> Answer<u8> {
    u8::try_from(number).ok().filter(|&byte| byte >= least).ok_or(Errno::INVAL)
}

/// The control data of a received datagram, in the kernel's order; `wanted`: the requested kinds, `came`: the arrival,
/// since 1970.
pub(crate) fn describe(envelope: &Envelope, wanted: u32, came: Duration, inet6: bool) -> Vec<u8> {
    let mut control = Vec::new();
    put_stamp(&mut control, wanted, came);
    let (to, tos) = (envelope.local, envelope.type_of_service.unwrap_or(0));
    let hops = i32::from(envelope.time_to_live.unwrap_or(0)).to_ne_bytes();
    let is_v4 = to.is_none_or(|ip| ip.is_ipv4());
    let interface = envelope.interface.to_ne_bytes();
    if let Some(size) = envelope.segment_size.filter(|_| wanted & SEGMENT_SIZE != 0) {
        put(&mut control, libc::SOL_UDP, libc::UDP_GRO, &i32::from(size).to_ne_bytes());
    }
    if let Some(to) = to.filter(|_| inet6 && wanted & PACKET_INFO_V6 != 0) {
        let ip = match to {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        put(&mut control, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &[&ip.octets()[..], &interface].concat());
    }
    if !is_v4 {
        if wanted & HOP_LIMIT != 0 {
            put(&mut control, libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT, &hops);
        }
        if wanted & TRAFFIC_CLASS != 0 {
            put(&mut control, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &i32::from(tos).to_ne_bytes());
        }
        return control;
    }
    if let Some(IpAddr::V4(ip)) = to.filter(|_| wanted & PACKET_INFO != 0) {
        put(&mut control, libc::IPPROTO_IP, libc::IP_PKTINFO, &[&interface[..], &ip.octets(), &ip.octets()].concat());
    }
    if wanted & TIME_TO_LIVE != 0 {
        put(&mut control, libc::IPPROTO_IP, libc::IP_TTL, &hops);
    }
    if wanted & TYPE_OF_SERVICE != 0 {
        put(&mut control, libc::IPPROTO_IP, libc::IP_TOS, &[tos]);
    }
    control
}

/// Writes one time stamp, even if SO_TIMESTAMP_NEW reads as set beside SO_TIMESTAMPNS_NEW (net/socket.c,
/// __sock_recv_timestamp).
fn put_stamp(control: &mut Vec<u8>, wanted: u32, came: Duration) {
    let kinds = [
        (STAMP_NANOS_NEW, SO_TIMESTAMPNS_NEW),
        (STAMP_NANOS, libc::SCM_TIMESTAMPNS),
        (STAMP_NEW, SO_TIMESTAMP_NEW),
        (STAMP, libc::SCM_TIMESTAMP),
    ];
    let Some((bit, kind)) = kinds.into_iter().find(|(bit, _)| wanted & bit != 0) else { return };
    put(control, libc::SOL_SOCKET, kind, &stamp(came, bit & (STAMP_NANOS | STAMP_NANOS_NEW) != 0));
}

/// A time as a `struct timespec` (`nanos`) or `timeval` of 64-bit words.
pub(crate) fn stamp(time: Duration, nanos: bool) -> [u8; 16] {
    let (seconds, rest) = (time.as_nanos() / 1_000_000_000, time.as_nanos() % 1_000_000_000);
    let rest = if nanos { rest } else { rest / 1_000 };
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&(seconds as i64).to_ne_bytes());
    bytes[8..].copy_from_slice(&(rest as i64).to_ne_bytes());
    bytes
}

/// Cuts the control data to `room` bytes; also returns whether something is missing. Like Linux (net/core/scm.c,
/// put_cmsg): the first value that does not fit is cut, a header that does not fit is left out, padding may be missing.
pub(crate) fn cut(mut control: Vec<u8>, room: usize) -> (Vec<u8>, bool) {
    let (mut at, mut cut) = (0, false);
    while let Some(len) = control.get(at..).and_then(|rest| rest.first_chunk::<8>()).map(|bytes| usize::from_ne_bytes(*bytes)) {
        let left = room - at;
        if left < HEADER {
            cut = true;
            break;
        }
        if left < len {
            control[at..at + 8].copy_from_slice(&left.to_ne_bytes());
            cut = true;
        }
        at += len.next_multiple_of(8).min(left);
    }
    control.truncate(at);
    (control, cut)
}

/// Appends one item.
pub(crate) fn put(control: &mut Vec<u8>, level: i32, kind: i32, value: &[u8]) {
    control.extend_from_slice(&(HEADER + value.len()).to_ne_bytes());
    control.extend_from_slice(&level.to_ne_bytes());
    control.extend_from_slice(&kind.to_ne_bytes());
    control.extend_from_slice(value);
    control.resize(control.len().next_multiple_of(8), 0);
}

/// `struct cmsghdr` on 64-bit Linux: length, level, type.
const HEADER: usize = 16;

#[cfg(test)]
mod tests;
