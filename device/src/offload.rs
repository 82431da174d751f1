//! Read RFC 9293 §3.7.2 (segmentation), RFC 768, RFC 1624 (incremental checksums), RFC 6864 (IPv4 ID) first.
//!
//! Offers partial checksums, segmentation and gathering over a device that lacks any of them.
//! Packets that the device can carry as they are pass through untouched. Super-segments are cut by
//! sharing the payload when the device gathers, by copying otherwise. Does not coalesce on the way in.
//!
//! Needs small (or large) frames of its own, one for each piece: a super-segment may have more pieces than the arena has
//! frames. So it is cut piece by piece as frames come back; when none does for 10 ms, the rest of it is dropped, since
//! frames may be held by connections that wait for the device.

use std::io;

use ringway_shm::{Arena, Burst, Checksum, Class, Duration, Frame, Instant, Segmentation, SegmentationKind};

use crate::checksum::{fold, sum_packet};
use crate::run::{give_packet, linearize, packet_len, take_packet};
use crate::{Capabilities, Counters, Device};

/// Packets that are already cut and wait for the device at most, before no more are taken.
const STAGED_MAX: usize = 256;
/// When to try again while the device takes nothing.
const RETRY: Duration = Duration::from_micros(50);
/// The time for which a packet waits for a frame.
const PATIENCE: Duration = Duration::from_millis(10);
/// The largest super-segment that is offered, bytes with headers.
const SEGMENTATION_MAX: u32 = 65_535;

/// The middleware; see the module's text.
pub struct Offload {
    inner: Box<dyn Device>,
    arena: Arena,
    can: Capabilities,
    staged: Burst,
    retry_at: Option<Instant>,
    /// The packet that is worked on; while `cut` says so, what is left of it.
    packet: Vec<Frame>,
    cut: Option<Cut>,
    /// Since when there is no frame.
    short_since: Option<Instant>,
    piece: Vec<Frame>,
    dropped: u64,
}

/// The progress of cutting a super-segment.
struct Cut {
    headers: Headers,
    /// Payload bytes in all.
    total: usize,
    /// Of how many pieces this is the next.
    count: usize,
    next: usize,
    cursor: Cursor,
}

impl Offload {
    /// Offloads in front of `inner`, with frames of `arena` (the one that packets come from).
    pub fn new(inner: Box<dyn Device>, arena: &Arena) -> Offload {
        let can = inner.capabilities();
        Offload {
            inner,
            arena: arena.clone(),
            can,
            staged: Burst::default(),
            retry_at: None,
            packet: Vec::new(),
            cut: None,
            short_since: None,
            piece: Vec::new(),
            dropped: 0,
        }
    }

    /// As [`new`](Self::new), but cuts even where `inner` carries super-segments: for a wire whose other
    /// end does not.
    pub fn cutting(inner: Box<dyn Device>, arena: &Arena) -> Offload {
        let mut offload = Offload::new(inner, arena);
        offload.can.segments_udp = false;
        offload.can.segmentation_max_bytes = 0;
        offload
    }

    /// `inner` itself when it already can everything, else with the middleware in front.
    pub fn where_needed(inner: Box<dyn Device>, arena: &Arena) -> Box<dyn Device> {
        let can = inner.capabilities();
        if can.sends_partial_checksums && can.gathers && can.segmentation_max_bytes > 0 {
            return inner;
        }
        Box::new(Offload::new(inner, arena))
    }

    /// Takes the first packet of `burst`: to `staged` as it is, or to be cut. `false`: there is none.
    fn take(&mut self, burst: &mut Burst) -> bool {
        if !take_packet(burst, &mut self.packet) {
            return false;
        }
        let segmentation = self.packet[0].segmentation();
        let len = packet_len(&self.packet);
        let segments = len / usize::from(segmentation.size.max(1)) + 1;
        let too_large = len > self.can.segmentation_max_bytes as usize || segments > self.can.segmentation_max_segments as usize;
        let cut = match segmentation.kind {
            SegmentationKind::None => false,
            SegmentationKind::Udp => too_large || !self.can.segments_udp,
            SegmentationKind::TcpIpv4 | SegmentationKind::TcpIpv6 => too_large,
        };
        if cut {
            self.begin_cut(segmentation)
        } else {
            self.stage_whole()
        }
        true
    }

    /// Stages the packet in one piece: summed and made one frame where the device needs it.
    fn stage_whole(&mut self) {
        if !self.can.gathers && self.packet.len() > 1 {
            match linearize(&self.arena, &self.packet) {
                Some(linear) => {
                    self.packet.clear();
                    self.packet.push(linear);
                }
                None => return self.drop_packet(),
            }
        }
        if !self.can.sends_partial_checksums && !complete(&self.arena, &mut self.packet) {
            return self.drop_packet();
        }
        give_packet(&mut self.staged, &mut self.packet);
    }

    fn drop_packet(&mut self) {
        self.dropped += 1;
        self.packet.clear();
    }

    /// The packet is to be cut into pieces of `segmentation.size` payload bytes.
    fn begin_cut(&mut self, segmentation: Segmentation) {
        let Some(headers) = Headers::parse(&self.packet[0], segmentation, self.can.medium.header_bytes()) else {
            return self.drop_packet();
        };
        self.packet[0].pull(headers.len);
        let total = packet_len(&self.packet);
        let count = total.div_ceil(headers.size).max(1);
        self.cut = Some(Cut { headers, total, count, next: 0, cursor: Cursor::default() });
    }

    /// Stages pieces of the packet that is cut, until it is over or enough are staged. `false`: frames are short.
    fn stage_pieces(&mut self) -> bool {
        let Some(mut cut) = self.cut.take() else { return true };
        while cut.next < cut.count {
            if self.staged.packets() >= STAGED_MAX {
                self.cut = Some(cut);
                return true;
            }
            let class = if self.can.gathers { Class::Small } else { Class::Large };
            let Some(head) = self.arena.alloc(class).or_else(|| self.arena.alloc(Class::Large)) else {
                self.cut = Some(cut);
                return false;
            };
            if !self.build_piece(head, &mut cut) {
                self.drop_packet();
                return true;
            }
            give_packet(&mut self.staged, &mut self.piece);
            cut.next += 1;
            self.short_since = None;
        }
        self.packet.clear();
        true
    }

    /// Builds the next piece in `self.piece`, its headers in `head`. `false`: it does not fit there, or there is no memory.
    fn build_piece(&mut self, mut head: Frame, cut: &mut Cut) -> bool {
        let Cut { headers, total, count, next, cursor } = cut;
        let payload = (*total - *next * headers.size).min(headers.size);
        self.piece.clear();
        if head.tailroom() < headers.len + if self.can.gathers { 0 } else { payload } {
            return false;
        }
        head.extend(headers.len).copy_from_slice(&headers.bytes[..headers.len]);
        headers.patch(head.bytes_mut(), *next, *count, payload);
        head.set_checksum(Checksum::Partial { start: headers.transport as u16, offset: headers.checksum_offset() });
        if self.can.gathers {
            self.piece.push(head);
            cursor.share(&self.packet, payload, &mut self.piece);
        } else {
            cursor.copy(&self.packet, head.extend(payload));
            self.piece.push(head);
        }
        self.can.sends_partial_checksums || complete(&self.arena, &mut self.piece)
    }

    /// Fills `staged`. Returns how many packets of `burst` were taken.
    fn stage(&mut self, now: Instant, burst: &mut Burst) -> usize {
        let mut taken = 0;
        while self.staged.packets() < STAGED_MAX {
            if !self.stage_pieces() {
                let since = *self.short_since.get_or_insert(now);
                if now.since(since) < PATIENCE {
                    break;
                }
                (self.cut, self.short_since) = (None, None);
                self.drop_packet();
            }
            if self.cut.is_none() {
                if !self.take(burst) {
                    break;
                }
                taken += 1;
            }
        }
        taken
    }
}

/// Computes a partial checksum and stores it. `false`: its place is outside the first frame, or a
/// copy of a shared first frame was needed and there is none.
pub(crate) fn complete(arena: &Arena, packet: &mut [Frame]) -> bool {
    let Some(first) = packet.first() else { return true };
    let Checksum::Partial { start, offset } = first.checksum() else { return true };
    let field = usize::from(start) + usize::from(offset);
    if field + 2 > first.len() {
        return false;
    }
    let mut sum = !fold(sum_packet(packet, usize::from(start)));
    if sum == 0 {
        sum = 0xffff; // RFC 768: zero would mean "no checksum" to UDP; TCP takes both.
    }
    if !packet[0].is_exclusive() {
        let Some(copy) = linearize(arena, &packet[..1]) else { return false };
        packet[0] = copy;
    }
    packet[0].bytes_mut()[field..field + 2].copy_from_slice(&sum.to_be_bytes());
    packet[0].set_checksum(Checksum::Complete);
    true
}

/// The headers of a super-segment.
struct Headers {
    bytes: [u8; HEADERS_MAX],
    len: usize,
    /// Where the IP header starts.
    ip: usize,
    /// Where the TCP or UDP header starts.
    transport: usize,
    ipv6: bool,
    udp: bool,
    size: usize,
    /// The folded pseudo-header sum without the length.
    pseudo: u16,
}

const UDP_HEADER_LEN: usize = 8;
/// Ethernet, IPv4 with options or IPv6 with some extension headers, TCP with options.
const HEADERS_MAX: usize = 14 + 60 + 60;

const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

impl Headers {
    /// Reads them from the first frame; `None` when they are not whole, or neither TCP nor UDP.
    fn parse(first: &Frame, segmentation: Segmentation, ip: usize) -> Option<Headers> {
        let Checksum::Partial { start, offset } = first.checksum() else { return None };
        let transport = usize::from(start);
        let bytes = first.bytes();
        let (udp, ipv6) = match segmentation.kind {
            SegmentationKind::TcpIpv4 => (false, false),
            SegmentationKind::TcpIpv6 => (false, true),
            SegmentationKind::Udp => (true, bytes.get(ip)? >> 4 == 6),
            SegmentationKind::None => return None,
        };
        let (len, len_min) = match udp {
            true => (transport + UDP_HEADER_LEN, transport + UDP_HEADER_LEN),
            false => (transport + usize::from(*bytes.get(transport + 12)? >> 4) * 4, transport + 20),
        };
        let ip_min = if ipv6 { 40 } else { 20 };
        let whole = transport >= ip + ip_min && len >= len_min && len <= HEADERS_MAX && len <= bytes.len();
        if segmentation.size == 0 || offset != checksum_offset(udp) || !whole {
            return None;
        }
        let mut copy = [0; HEADERS_MAX];
        copy[..len].copy_from_slice(&bytes[..len]);
        let addresses = if ipv6 { ip + 8..ip + 40 } else { ip + 12..ip + 20 };
        let pseudo = fold(crate::checksum::pseudo(&copy[addresses], if udp { 17 } else { 6 }, 0));
        Some(Headers { bytes: copy, len, ip, transport, ipv6, udp, size: usize::from(segmentation.size), pseudo })
    }

    /// Makes `bytes`, a copy of the headers, those of piece `index` of `count` with `payload` bytes.
    fn patch(&self, bytes: &mut [u8], index: usize, count: usize, payload: usize) {
        let (ip, transport) = (self.ip, self.transport);
        let transport_len = self.len - transport + payload;
        if self.ipv6 {
            put16(bytes, ip + 4, (transport - ip - 40 + transport_len) as u16);
        } else {
            put16(bytes, ip + 2, (transport - ip + transport_len) as u16);
            let identification = u16::from_be_bytes([bytes[ip + 4], bytes[ip + 5]]);
            put16(bytes, ip + 4, identification.wrapping_add(index as u16));
            put16(bytes, ip + 10, 0);
            let sum = !fold(crate::checksum::add(0, &bytes[ip..transport]));
            put16(bytes, ip + 10, sum);
        }
        let pseudo = fold(u64::from(self.pseudo) + transport_len as u64);
        put16(bytes, transport + usize::from(self.checksum_offset()), pseudo);
        if self.udp {
            put16(bytes, transport + 4, transport_len as u16);
            return;
        }
        let tcp = transport;
        let sequence = u32::from_be_bytes(self.bytes[tcp + 4..tcp + 8].try_into().expect("four bytes"));
        let sequence = sequence.wrapping_add((index * self.size) as u32);
        bytes[tcp + 4..tcp + 8].copy_from_slice(&sequence.to_be_bytes());
        if index + 1 != count {
            bytes[tcp + 13] &= !(FIN | PSH);
        }
        if index != 0 {
            bytes[tcp + 13] &= !CWR; // RFC 3168 §6.1.2: once per window.
        }
    }

    /// Where the checksum is, from the transport header on.
    fn checksum_offset(&self) -> u16 {
        checksum_offset(self.udp)
    }
}

fn checksum_offset(udp: bool) -> u16 {
    if udp { 6 } else { 16 }
}

fn put16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// A place in a packet's frames.
#[derive(Default)]
struct Cursor {
    frame: usize,
    offset: usize,
}

impl Cursor {
    /// The next at most `count` bytes that lie in one frame: its index, where they start, how many.
    fn step(&mut self, packet: &[Frame], count: usize) -> Option<(usize, usize, usize)> {
        while packet.get(self.frame)?.len() == self.offset {
            self.frame += 1;
            self.offset = 0;
        }
        let here = (self.frame, self.offset);
        let count = count.min(packet[self.frame].len() - self.offset);
        self.offset += count;
        Some((here.0, here.1, count))
    }

    /// Appends views of the next `count` bytes to `piece`.
    fn share(&mut self, packet: &[Frame], mut count: usize, piece: &mut Vec<Frame>) {
        while count > 0 {
            let Some((frame, offset, len)) = self.step(packet, count) else { return };
            let mut view = packet[frame].share();
            view.pull(offset);
            view.truncate(len);
            piece.push(view);
            count -= len;
        }
    }

    /// Copies the next bytes into `to`.
    fn copy(&mut self, packet: &[Frame], mut to: &mut [u8]) {
        while !to.is_empty() {
            let Some((frame, offset, len)) = self.step(packet, to.len()) else { return };
            let (head, tail) = to.split_at_mut(len);
            packet[frame].payload().slice(offset..offset + len).copy_to(head);
            to = tail;
        }
    }
}

impl crate::Middleware for Offload {
    fn inner(&self) -> &dyn Device {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Device {
        &mut *self.inner
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            sends_partial_checksums: true,
            segmentation_max_bytes: self.can.segmentation_max_bytes.max(SEGMENTATION_MAX),
            segmentation_max_segments: u32::MAX,
            segments_udp: true,
            gathers: true,
            ..self.can
        }
    }

    fn transmit(&mut self, now: Instant, burst: &mut Burst) -> io::Result<usize> {
        let mut taken = 0;
        let mut result = Ok(());
        loop {
            taken += self.stage(now, burst);
            // A device that has asked for a time has packets of its own to try again.
            if self.staged.is_empty() && self.inner.poll_timeout().is_none() {
                break;
            }
            match self.inner.transmit(now, &mut self.staged) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        self.retry_at = (!self.staged.is_empty() || self.cut.is_some()).then_some(now + RETRY);
        result.map(|()| taken)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        [self.retry_at, self.inner.poll_timeout()].into_iter().flatten().min()
    }

    fn counters(&self) -> Counters {
        let inner = self.inner.counters();
        Counters { tx_dropped: inner.tx_dropped + self.dropped, ..inner }
    }
}

#[cfg(test)]
mod tests;
