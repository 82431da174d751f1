//! Receives datagrams: verifies them, queues them on their socket until the application takes them. Read RFC 768,
//! RFC 1122 §4.1.3, RFC 8200 §8.1, RFC 6935 first.
//!
//! A small datagram is copied out of the large frame in which it arrived, so that it does not pin it. Super-datagrams of the
//! link (UDP segmentation offload) are split for sockets without UDP_GRO; for those with it, datagrams of one flow and size
//! that arrive in one iteration are joined.

use ringway_shm::arena::SMALL_BYTES;
use ringway_shm::{Arena, Burst, Checksum, Class, Frame, Instant, SegmentationKind};

use crate::address::SocketAddress;
use crate::admission::FrameUse;
use crate::env::Env;
use crate::event::SocketId;
use crate::ip::{Datagram, Datagrams, trim};
use crate::stats::Counter;
use crate::tcp::demux::FlowKey;
use crate::wire::udp::{HEADER_LEN, Header};
use crate::wire::{checksum, ipv4};

use super::Udp;
use super::socket::Socket;

/// A received message: one datagram, or (when the socket coalesces) several of one flow and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UdpMessage {
    /// The sender.
    pub from: SocketAddress,
    /// Destination address of the datagram.
    pub to: SocketAddress,
    /// Interface of arrival.
    pub interface: u32,
    /// DSCP and ECN.
    pub type_of_service: u8,
    /// Remaining hops.
    pub time_to_live: u8,
    /// Length of the payload, bytes.
    pub len: u32,
    /// Payload of each datagram but the last, bytes; 0: there is one datagram.
    pub segment_size: u16,
    /// Time of arrival.
    pub received_at: Instant,
    /// Frames that hold the payload, and their memory.
    frames: u16,
    memory: u32,
}

impl Udp {
    /// Receives the datagrams of a burst.
    pub(crate) fn receive(&mut self, now: Instant, env: &mut Env, datagrams: &mut Datagrams) {
        if datagrams.headers.is_empty() {
            return;
        }
        self.begin_turn(now);
        for datagram in datagrams.headers.drain(..) {
            let Some(first) = datagrams.packets.pop() else { break };
            let mut more = first.continues();
            while more && let Some(frame) = datagrams.packets.pop() {
                more = frame.continues();
                self.rest.push(frame);
            }
            if let Err(reason) = self.receive_one(env, &datagram, first) {
                env.counters.count(Counter::UdpInErrors);
                if reason != Counter::UdpInErrors {
                    env.counters.count(reason);
                }
            }
            self.rest.clear();
        }
        datagrams.clear();
    }

    /// Receives the datagram of `first` and `self.rest`, which starts at the UDP header.
    fn receive_one(&mut self, env: &mut Env, datagram: &Datagram, mut first: Frame) -> Result<(), Counter> {
        let header = Header::parse(first.bytes()).ok_or(Counter::UdpInErrors)?;
        // RFC 2675 §4: zero means "as long as the packet" in IPv6 only.
        let zero_is_all = header.length == 0 && datagram.local().is_ipv6();
        let len = if zero_is_all { datagram.len } else { u32::from(header.length) };
        if len < HEADER_LEN as u32 || len > datagram.len {
            return Err(Counter::UdpInErrors);
        }
        trim(&mut first, &mut self.rest, len as usize).ok_or(Counter::UdpInErrors)?;
        self.verify(datagram, &header, &first, len)?;
        let key = FlowKey {
            local: datagram.local(),
            remote: datagram.remote(),
            local_port: header.destination_port,
            remote_port: header.source_port,
        };
        if !env.ip.has_flow((key.local, key.local_port), (key.remote, key.remote_port)) {
            env.counters.count(Counter::DropElsewhere);
            return Ok(());
        }
        if datagram.multicast {
            self.receive_for_many(env, datagram, &key, first);
            return Ok(());
        }
        let Some(index) = self.table.find(&key, datagram.interface) else {
            env.counters.count(Counter::UdpNoPorts);
            let (ip, mut env) = env.ip_at(self.now);
            ip.refuse_port(&mut env, datagram, first);
            return Ok(());
        };
        first.pull(HEADER_LEN);
        let mut rest = core::mem::take(&mut self.rest);
        let message = message(self.now, datagram, &key, &first);
        let result = self.queue(env, index, message, core::iter::once(first).chain(rest.drain(..)));
        self.rest = rest;
        result
    }

    /// RFC 768: zero means no checksum. RFC 8200 §8.1: IPv6 requires one.
    fn verify(&self, datagram: &Datagram, header: &Header, first: &Frame, len: u32) -> Result<(), Counter> {
        if header.checksum == 0 {
            return if datagram.local().is_ipv4() { Ok(()) } else { Err(Counter::UdpInCsumErrors) };
        }
        if first.checksum() != Checksum::Complete {
            return Ok(());
        }
        let pseudo = checksum::pseudo_header(datagram.remote(), datagram.local(), ipv4::PROTOCOL_UDP, len);
        let parts = core::iter::once(first.payload()).chain(self.rest.iter().map(Frame::payload));
        let good = checksum::add(pseudo, checksum::sum_of_parts(parts)) == 0xffff;
        good.then_some(()).ok_or(Counter::UdpInCsumErrors)
    }

    /// RFC 1122 §4.1.3.5, as Linux: every socket bound to the multicast or broadcast address gets a copy.
    pub(super) fn receive_for_many(&mut self, env: &mut Env, datagram: &Datagram, key: &FlowKey, mut first: Frame) {
        first.pull(HEADER_LEN);
        let mut recipients = core::mem::take(&mut self.recipients);
        self.table.find_all(key, datagram.interface, &mut recipients);
        let rest = core::mem::take(&mut self.rest);
        for index in recipients.drain(..) {
            let copies = core::iter::once(&first).chain(&rest).map(Frame::share);
            let message = message(self.now, datagram, key, &first);
            if let Err(reason) = self.queue(env, index, message, copies) {
                env.counters.count(Counter::UdpInErrors);
                env.counters.count(reason);
            }
        }
        self.recipients = recipients;
        self.rest = rest;
    }

    /// Queues a message with the payload in `frames`, of which there is one at least, on a socket.
    fn queue(
        &mut self,
        env: &mut Env,
        index: u32,
        mut message: UdpMessage,
        mut frames: impl Iterator<Item = Frame>,
    ) -> Result<(), Counter> {
        let (Some(socket), Some(first)) = (self.table.get_mut(index), frames.next()) else { return Ok(()) };
        let mut kept = Burst::default();
        let only = !first.continues();
        let first = if only { unpin(env.arena, first) } else { first };
        for mut frame in core::iter::once(first).chain(frames).filter(|frame| !frame.is_empty()) {
            frame.set_continues(false);
            message.len += frame.len() as u32;
            message.memory += frame_memory(&frame);
            message.frames += 1;
            kept.push(frame);
        }
        if message.len <= message.segment_size.into() {
            message.segment_size = 0;
        }
        let frame_use = match socket.received_memory {
            _ if self.backlog.is_hoarded(socket.user_token) => FrameUse::Hoard,
            0 => FrameUse::Next,
            _ => FrameUse::Unread,
        };
        let spare = frame_use.may_take_any(env.arena);
        let fits = socket.received_memory == 0 || socket.received_memory.saturating_add(message.memory) <= socket.receive_buffer;
        if socket.shut_read || !spare || !fits {
            socket.drops = socket.drops.wrapping_add(1);
            return Err(Counter::UdpRcvbufErrors);
        }
        socket.keep(message, &mut kept);
        self.signal(env, index);
        Ok(())
    }

    /// Returns the next message, without taking it.
    pub(crate) fn peek(&self, id: SocketId) -> Option<UdpMessage> {
        self.resolve(id)?.1.messages.front().copied()
    }

    /// Takes the next message; its frames are appended to `frames`, as one packet. A message without payload has no frames.
    pub(crate) fn take(&mut self, env: &mut Env, id: SocketId, frames: &mut Burst) -> Option<UdpMessage> {
        let (_, socket) = self.resolve_mut(id)?;
        let message = socket.messages.pop_front()?;
        for left in (0..message.frames).rev() {
            let mut frame = socket.frames.pop()?;
            frame.set_continues(left > 0);
            frames.push(frame);
        }
        socket.received_memory -= message.memory;
        // The next event is signalled again.
        socket.signalled = false;
        env.counters.add(Counter::UdpInDatagrams, message.datagrams().into());
        Some(message)
    }
}

impl UdpMessage {
    /// Returns the number of datagrams in the message.
    pub fn datagrams(&self) -> u32 {
        match self.segment_size {
            0 => 1,
            size => self.len.div_ceil(size.into()),
        }
    }
}

impl Socket {
    /// Queues a message: whole, split into its datagrams, or joined with the last one.
    fn keep(&mut self, message: UdpMessage, frames: &mut Burst) {
        self.received_memory += message.memory;
        if message.segment_size != 0 && !self.options.coalesce {
            self.keep_cut(&message, frames);
            return;
        }
        self.frames.append(frames);
        if self.options.coalesce && message.segment_size == 0 && self.messages.back_mut().is_some_and(|last| last.join(&message))
        {
            return;
        }
        self.messages.push_back(message);
    }

    /// Queues the datagrams of a super-datagram one by one. They share its frames.
    fn keep_cut(&mut self, message: &UdpMessage, frames: &mut Burst) {
        let size = u32::from(message.segment_size);
        let mut piece = UdpMessage { len: 0, segment_size: 0, frames: 0, memory: 0, ..*message };
        while let Some(mut frame) = frames.pop() {
            // The memory of a frame counts with the first datagram in it.
            let mut memory = frame_memory(&frame);
            while !frame.is_empty() {
                let count = (size - piece.len).min(frame.len() as u32);
                let mut view = frame.share();
                view.truncate(count as usize);
                frame.pull(count as usize);
                self.frames.push(view);
                piece.len += count;
                piece.frames += 1;
                piece.memory += core::mem::take(&mut memory);
                if piece.len == size {
                    self.messages.push_back(piece);
                    piece = UdpMessage { len: 0, frames: 0, memory: 0, ..piece };
                }
            }
        }
        if piece.len > 0 {
            self.messages.push_back(piece);
        }
    }
}

/// A message of the datagram, still without its payload.
fn message(now: Instant, datagram: &Datagram, key: &FlowKey, first: &Frame) -> UdpMessage {
    let segmentation = first.segmentation();
    UdpMessage {
        from: SocketAddress { ip: key.remote, port: key.remote_port },
        to: SocketAddress { ip: key.local, port: key.local_port },
        interface: datagram.interface,
        type_of_service: datagram.tos,
        time_to_live: datagram.ttl,
        len: 0,
        segment_size: if segmentation.kind == SegmentationKind::Udp { segmentation.size } else { 0 },
        received_at: now,
        frames: 0,
        memory: 0,
    }
}

impl UdpMessage {
    /// Joins the next datagram of the same flow, if it has arrived in the same iteration and is not larger than those
    /// before, which all have one size.
    fn join(&mut self, next: &UdpMessage) -> bool {
        let size = if self.segment_size == 0 { self.len } else { self.segment_size.into() };
        let same = (self.from, self.to, self.interface, self.type_of_service, self.time_to_live, self.received_at)
            == (next.from, next.to, next.interface, next.type_of_service, next.time_to_live, next.received_at);
        let whole = size > 0 && self.len.is_multiple_of(size);
        let room = self.len + next.len <= JOINED_BYTES_MAX && self.datagrams() < JOINED_DATAGRAMS_MAX;
        if !same || !whole || next.len == 0 || next.len > size || !room {
            return false;
        }
        self.segment_size = size as u16;
        self.len += next.len;
        self.frames += next.frames;
        self.memory += next.memory;
        true
    }
}

/// Returns a copy in a small frame, if the payload fits and one is free; otherwise the frame itself.
fn unpin(arena: &Arena, frame: Frame) -> Frame {
    if frame.is_empty() || frame.len() > SMALL_BYTES || frame_memory(&frame) as usize <= SMALL_BYTES {
        return frame;
    }
    let Some(mut small) = arena.alloc(Class::Small) else { return frame };
    small.reserve(0);
    frame.payload().copy_to(small.extend(frame.len()));
    small
}

/// Returns the memory of one frame, bytes.
pub(super) fn frame_memory(frame: &Frame) -> u32 {
    (frame.headroom() + frame.len() + frame.tailroom()) as u32
}

/// Maximum payload of joined datagrams, the same as of a super-datagram.
const JOINED_BYTES_MAX: u32 = 65_507;
/// Linux: UDP_GRO_CNT_MAX.
const JOINED_DATAGRAMS_MAX: u32 = 64;
