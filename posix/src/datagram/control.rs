//! Ancillary data of datagrams (cmsg(3), ip(7), ipv6(7), udp(7)): read on sending, written on receiving.

use crate::channel::Envelope;
use crate::errno::{Answer, Errno};
use ringway_shm::Duration;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IP_PKTINFO is wanted; so for the others.
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

/// What the control data of one send asks for.
///
/// # Errors
/// EINVAL: a header or a value that Linux refuses, too.
pub(crate) fn apply(envelope: &mut Envelope, control: &[u8]) -> Answer<()> {
    let mut rest = control;
    while let Some(header) = rest.first_chunk::<HEADER>() {
        let len = usize::from_ne_bytes(header[..8].try_into().expect("eight bytes"));
        let level = i32::from_ne_bytes(header[8..12].try_into().expect("four bytes"));
        let kind = i32::from_ne_bytes(header[12..16].try_into().expect("four bytes"));
        if len < HEADER || len > rest.len() {
            return Err(Errno::INVAL);
        }
        apply_one(envelope, level, kind, &rest[HEADER..len])?;
        rest = rest.get(len.next_multiple_of(8)..).unwrap_or(&[]);
    }
    Ok(())
}

fn apply_one(envelope: &mut Envelope, level: i32, kind: i32, value: &[u8]) -> Answer<()> {
    let number = || value.first_chunk::<4>().map(|bytes| i32::from_ne_bytes(*bytes)).ok_or(Errno::INVAL);
    match (level, kind) {
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
            let bytes: &[u8; 12] = value.first_chunk().ok_or(Errno::INVAL)?;
            let source = Ipv4Addr::new(bytes[4], bytes[5], bytes[6], bytes[7]);
            envelope.local = Some(IpAddr::V4(source)).filter(|ip| !ip.is_unspecified());
            envelope.interface = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
            let bytes: &[u8; 16] = value.get(..20).and_then(<[u8]>::first_chunk).ok_or(Errno::INVAL)?;
            envelope.local = Some(IpAddr::V6(Ipv6Addr::from(*bytes)).to_canonical()).filter(|ip| !ip.is_unspecified());
            envelope.interface =
                value.get(16..20).map_or(0, |index| u32::from_ne_bytes([index[0], index[1], index[2], index[3]]));
        }
        (libc::IPPROTO_IP, libc::IP_TOS) if value.len() == 1 => envelope.type_of_service = Some(value[0]),
        (libc::IPPROTO_IP, libc::IP_TOS) => envelope.type_of_service = Some(byte(number()?, 0)?),
        (libc::IPPROTO_IP, libc::IP_TTL) => envelope.time_to_live = Some(byte(number()?, 1)?),
        // -1: the socket's own (RFC 3542 §6.3, §6.5).
        (libc::IPPROTO_IPV6, libc::IPV6_TCLASS | libc::IPV6_HOPLIMIT) if number()? == -1 => {}
        (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => envelope.type_of_service = Some(byte(number()?, 0)?),
        (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => envelope.time_to_live = Some(byte(number()?, 0)?),
        (libc::SOL_UDP, libc::UDP_SEGMENT) => {
            let size: &[u8; 2] = value.first_chunk().ok_or(Errno::INVAL)?;
            envelope.segment_size = Some(u16::from_ne_bytes(*size));
        }
        // Marks, times and priorities are for the kernel's queues.
        (libc::SOL_SOCKET, _) => {}
        _ => return Err(Errno::INVAL),
    }
    Ok(())
}

fn byte(number: i32, least: u8) -> Answer<u8> {
    u8::try_from(number).ok().filter(|&byte| byte >= least).ok_or(Errno::INVAL)
}

/// The control data of a received datagram, in the kernel's order; `wanted`: what the program has asked for, `came`: when it
/// was received, since 1970.
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

/// net/socket.c, __sock_recv_timestamp: one of them, though SO_TIMESTAMP_NEW reads as set beside SO_TIMESTAMPNS_NEW.
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

/// What of the control data goes into `room` bytes, and whether something is missing. As Linux does it (net/core/scm.c,
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

fn put(control: &mut Vec<u8>, level: i32, kind: i32, value: &[u8]) {
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
