//! Sends datagrams, first half: checks, copies into frames, queues. Read RFC 768, RFC 1122 §4.1.3.4-5, udp(7) first.
//!
//! A batch (UDP_SEGMENT) is split while it is copied, unless the link cuts batches. Nothing is copied before everything is
//! known to fit; `ip::fragment` handles datagrams that do not fit the path, unless the options forbid fragmentation.

use core::net::IpAddr;

use ringway_shm::arena::{LARGE_BYTES, SMALL_BYTES};
use ringway_shm::{Arena, Burst, Class, Frame, Instant};

use crate::address::SocketAddress;
use crate::admission::FrameUse;
use crate::config::PathMtuDiscovery;
use crate::env::Env;
use crate::error::UdpSendError;
use crate::event::SocketId;
use crate::ip::{Flow, Path, network_header_len};
use crate::stats::Counter;
use crate::wire::ipv4;
use crate::wire::udp::HEADER_LEN;

use super::Udp;
use super::error::Severity;
use super::error::{UdpError, UdpErrorReport};
use super::output::{Outgoing, cuts_trains};
use super::receive::frame_memory;
use super::socket::Socket;

/// Arguments of one send call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpSend {
    /// Length of the payload, bytes.
    pub len: usize,
    /// Destination; `None`: the connected remote end.
    pub to: Option<SocketAddress>,
    /// Source address (IP_PKTINFO); `None`: the socket's, or the route's.
    pub source: Option<IpAddr>,
    /// UDP_SEGMENT for this call; `None`: the socket's option.
    pub segment_size: Option<u16>,
    /// IP_TOS for this call.
    pub type_of_service: Option<u8>,
    /// IP_TTL for this call.
    pub time_to_live: Option<u8>,
}

/// Result of the checks before anything is copied.
struct Plan {
    outgoing: Outgoing,
    /// Payload of each datagram, bytes.
    piece: usize,
    /// Number of datagrams.
    count: usize,
}

impl Udp {
    pub(crate) fn set_now(&mut self, now: Instant) {
        self.now = now;
    }

    /// Queues a datagram or a batch.
    pub(crate) fn send(
        &mut self,
        env: &mut Env,
        id: SocketId,
        send: &UdpSend,
        copy: &mut dyn FnMut(&mut [u8]),
    ) -> Result<usize, UdpSendError> {
        let (index, Plan { outgoing, piece, count }) = self.admit(env, id, send)?;
        let Some(socket) = self.table.get_mut(index) else { return Err(UdpSendError::NotOpen) };
        let frames = (count * frames_of(piece)) as u32;
        if !FrameUse::Sending.may_take_any(env.arena) || env.arena.free(Class::Large).min(env.arena.free(Class::Small)) < frames {
            self.starved.insert(index);
            env.counters.count(Counter::UdpSndbufErrors);
            return Err(UdpSendError::WouldBlock);
        }
        for at in 0..count {
            let len = piece.min(send.len - at * piece);
            let memory = fill(env.arena, len, copy, &mut self.outgoing_frames);
            self.outgoing.push_back(Outgoing { len: len as u16, memory, ..outgoing });
            socket.sending_memory += memory;
        }
        Ok(send.len)
    }

    /// Queues one datagram with the payload in `frame`, without a copy.
    pub(crate) fn send_frame(
        &mut self,
        env: &mut Env,
        id: SocketId,
        send: &UdpSend,
        frame: Frame,
    ) -> Result<(), (Frame, UdpSendError)> {
        if frame.headroom() < HEADROOM || !frame.is_exclusive() {
            return Err((frame, UdpSendError::Invalid));
        }
        let send = UdpSend { len: frame.len(), segment_size: Some(0), ..*send };
        let (index, plan) = match self.admit(env, id, &send) {
            Ok(admitted) => admitted,
            Err(error) => return Err((frame, error)),
        };
        let Some(socket) = self.table.get_mut(index) else { return Err((frame, UdpSendError::NotOpen)) };
        let memory = frame_memory(&frame);
        self.outgoing.push_back(Outgoing { len: send.len as u16, memory, ..plan.outgoing });
        socket.sending_memory += memory;
        self.outgoing_frames.push(frame);
        Ok(())
    }

    /// Checks a call against all rules and the available space, except frames.
    fn admit(&mut self, env: &mut Env, id: SocketId, send: &UdpSend) -> Result<(u32, Plan), UdpSendError> {
        let (index, socket) = self.resolve(id).ok_or(UdpSendError::NotOpen)?;
        let plan = plan(env, socket, index, send);
        let Some(socket) = self.table.get_mut(index) else { return Err(UdpSendError::NotOpen) };
        if plan.as_ref().is_err_and(|error| *error == UdpSendError::MessageTooLong) {
            socket.report_too_long(env, send);
        }
        let plan = plan?;
        if socket.sending_memory >= socket.send_buffer {
            socket.wants_room = true;
            env.counters.count(Counter::UdpSndbufErrors);
            return Err(UdpSendError::WouldBlock);
        }
        Ok((index, plan))
    }
}

impl Socket {
    /// IP_RECVERR also reports a datagram that is too large to be sent (ip(7)).
    fn report_too_long(&mut self, env: &Env, send: &UdpSend) {
        let Some(destination) = send.to.or(self.remote).filter(|_| self.options.receive_errors) else { return };
        let mtu = env.ip.route(destination.ip, None).map_or(0, |path| path.mtu.into());
        let error = UdpError::MessageTooLong;
        self.report(UdpErrorReport { error, destination, offender: None, icmp_type: 0, icmp_code: 0, mtu }, Severity::Hard);
    }
}

/// Checks a call against all rules except the available space.
fn plan(env: &Env, socket: &Socket, index: u32, send: &UdpSend) -> Result<Plan, UdpSendError> {
    if socket.shut_write {
        return Err(UdpSendError::Closed);
    }
    let to = send.to.or(socket.remote).ok_or(UdpSendError::DestinationRequired)?;
    if to.port == 0 || !socket.speaks(to.ip) {
        return Err(UdpSendError::Invalid);
    }
    if env.ip.is_broadcast(to.ip) && !socket.options.broadcast {
        return Err(UdpSendError::BroadcastForbidden);
    }
    let own = Some(socket.local.ip).filter(|ip| !ip.is_unspecified() && env.ip.owns(*ip));
    let path = path(env, socket, to.ip, send.source.or(own)).ok_or(UdpSendError::NoRoute)?;
    let (piece, count) = pieces(send.len, send.segment_size.unwrap_or(socket.options.segment_size))?;
    let discovery = socket.options.path_mtu_discovery;
    let whole = fits(env, &path, to.ip, piece, discovery);
    let strict = matches!(discovery, PathMtuDiscovery::Do | PathMtuDiscovery::Probe | PathMtuDiscovery::Interface);
    let must_be_whole = count > 1 || strict;
    if piece > payload_max(to.ip) || (must_be_whole && !whole) {
        return Err(UdpSendError::MessageTooLong);
    }
    let multicast = env.ip.names_many(to.ip).then_some(path.interface);
    let options = &socket.options;
    let ttl = if to.ip.is_multicast() { options.multicast_time_to_live } else { options.time_to_live };
    let flow = Flow {
        local: path.source,
        remote: to.ip,
        protocol: ipv4::PROTOCOL_UDP,
        tos: send.type_of_service.unwrap_or(socket.options.type_of_service),
        ttl: send.time_to_live.unwrap_or(ttl),
        ports: (socket.local.port, to.port),
    };
    let outgoing = Outgoing {
        socket: index,
        generation: socket.generation,
        flow,
        local_port: socket.local.port,
        remote_port: to.port,
        len: 0,
        memory: 0,
        segment: 0,
        whole: whole && matches!(discovery, PathMtuDiscovery::Want | PathMtuDiscovery::Do | PathMtuDiscovery::Probe),
        no_checksum: socket.options.no_checksum && to.ip.is_ipv4(),
        multicast,
        loops: options.multicast_loop || !to.ip.is_multicast(),
    };
    let link = env.ip.link(path.interface);
    let packet_len = send.len + HEADER_LEN + network_header_len(to.ip) + LINK_HEADER_MAX;
    let carried = packet_len <= link.segmentation_max_bytes as usize
        && count <= link.segmentation_max_segments as usize
        && send.len <= payload_max(to.ip);
    if count > 1 && outgoing.whole && multicast.is_none() && !outgoing.no_checksum && cuts_trains(&link) && carried {
        return Ok(Plan { outgoing: Outgoing { segment: piece as u16, ..outgoing }, piece: send.len, count: 1 });
    }
    Ok(Plan { outgoing, piece, count })
}

/// Returns the path of a socket's datagrams to `remote`.
pub(super) fn path(env: &Env, socket: &Socket, remote: IpAddr, source: Option<IpAddr>) -> Option<Path> {
    if env.ip.names_many(remote) {
        let asked = socket.options.multicast_interface.filter(|_| remote.is_multicast());
        return env.ip.route_to_many(remote, source, asked.or(socket.options.interface));
    }
    // Sockets of the kernel may serve an address that it has too.
    let path = env.ip.route(remote, source).filter(|_| !env.ip.owns(remote) || env.ip.is_only_ours(remote))?;
    socket.options.interface.is_none_or(|own| own == path.interface).then_some(path)
}

/// Returns the payload of each datagram, and their number.
fn pieces(len: usize, segment_size: u16) -> Result<(usize, usize), UdpSendError> {
    if segment_size == 0 || len <= segment_size.into() {
        return Ok((len, 1));
    }
    let count = len.div_ceil(segment_size.into());
    if len > TRAIN_BYTES_MAX || count > TRAIN_MAX {
        return Err(if len > TRAIN_BYTES_MAX { UdpSendError::MessageTooLong } else { UdpSendError::Invalid });
    }
    Ok((segment_size.into(), count))
}

/// Returns true when a datagram of `len` bytes fits one packet.
fn fits(env: &Env, path: &Path, remote: IpAddr, len: usize, discovery: PathMtuDiscovery) -> bool {
    let link = env.ip.link(path.interface);
    let mtu = if discovery.is_learning() { path.mtu } else { link.mtu };
    let one_frame = link.gathers || len <= FIRST_MAX;
    one_frame && len + HEADER_LEN + network_header_len(remote) <= mtu.into()
}

/// Returns the maximum payload: the length of an IPv4 packet, or of an IPv6 packet's payload, has 16 bits.
fn payload_max(remote: IpAddr) -> usize {
    let ip_header_len = if remote.is_ipv4() { ipv4::HEADER_LEN } else { 0 };
    usize::from(u16::MAX) - HEADER_LEN - ip_header_len
}

/// Returns the number of frames of a datagram of `len` bytes.
fn frames_of(len: usize) -> usize {
    1 + len.saturating_sub(FIRST_MAX).div_ceil(LARGE_BYTES)
}

/// Copies a datagram into frames appended to `to`; the caller must have checked that enough are free. Returns their memory.
fn fill(arena: &Arena, len: usize, copy: &mut dyn FnMut(&mut [u8]), to: &mut Burst) -> u32 {
    let small = len <= SMALL_BYTES - HEADROOM;
    let (mut left, mut memory, mut headroom) = (len, 0, HEADROOM);
    loop {
        let class = if small { Class::Small } else { Class::Large };
        let mut frame = arena.alloc(class).expect("the caller has counted the free frames");
        frame.reserve(headroom);
        let count = left.min(frame.tailroom());
        if count > 0 {
            copy(frame.extend(count));
        }
        left -= count;
        frame.set_continues(left > 0);
        memory += frame_memory(&frame);
        to.push(frame);
        headroom = 0;
        if left == 0 {
            return memory;
        }
    }
}

/// Headroom for UDP, IPv6 and Ethernet headers (62 bytes) in front of the payload, and some spare.
pub const HEADROOM: usize = 80;
/// Maximum payload of a datagram's first frame.
const FIRST_MAX: usize = LARGE_BYTES - HEADROOM;
/// Maximum length of a link header.
const LINK_HEADER_MAX: usize = 18;
/// Maximum number of datagrams of one batch; Linux: UDP_MAX_SEGMENTS.
const TRAIN_MAX: usize = 128;
/// Maximum payload of one batch, bytes: the limit of one call on Linux.
const TRAIN_BYTES_MAX: usize = 65_507;
