//! Passive checker on the wire: rules that every segment of a host must keep. Read RFC 9293 §3.4, §3.8, RFC 7323 §3 first.
//!
//! It sees each packet that a host hands to its device, before faults, and checks that checksums are correct, that
//! acknowledgments and timestamps do not go back, that no end sends beyond the window that the other end has offered (a
//! probe may, by one byte), and that the window's right edge does not shrink.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;

use ringway_device::{Device, pcap};
use ringway_shm::{Burst, Checksum, Frame, Instant};
use ringway_stack::wire::{checksum, ipv4, ipv6};
use ringway_trace::{Checker, Ending, Options, Packet, Report};

/// One TCP segment as a value.
#[derive(Clone, Copy, Debug)]
struct Segment {
    from: (IpAddr, u16),
    to: (IpAddr, u16),
    sequence: u32,
    acknowledgment: u32,
    flags: u8,
    window: u16,
    /// Payload bytes; SYN and FIN do not count.
    payload_len: u32,
    window_scale: Option<u8>,
    timestamp: Option<u32>,
    /// Offset of the TCP header in the first frame.
    transport_at: usize,
}

const LINKTYPE_ETHERNET: u32 = 1;
const LINKTYPE_RAW: u32 = 101;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// Record of what one end of a connection has sent.
#[derive(Clone, Copy, Debug, Default)]
struct End {
    initial_sequence: u32,
    window_scale: Option<u8>,
    /// Highest acknowledgment sent, and the right edge of the window offered.
    acknowledged: Option<u32>,
    edge: u32,
    timestamp: Option<u32>,
    /// True when its SYN offered timestamps.
    offered_timestamps: bool,
    /// True once it has sent a FIN: its next SYN opens another connection, even with the same ISN at the same instant.
    finished: bool,
}

type Key = ((IpAddr, u16), (IpAddr, u16));

/// State of all connections, and the last packets for the report.
#[derive(Default)]
pub struct WireCheck {
    ends: BTreeMap<Key, End>,
    trace: VecDeque<(Instant, Segment)>,
    segments: u64,
    captured: u64,
    violation: Option<String>,
    /// The checker of captures, when it is attached.
    looker: Option<Checker>,
    capture: Option<pcap::Writer<File>>,
}

impl WireCheck {
    /// Attaches the checker of captures; it sees the packets of both hosts as they leave.
    pub fn look_on(&mut self, local: Vec<IpAddr>) {
        self.looker = Some(Checker::new(Options { local, ..Options::default() }));
    }

    /// Returns what the checker of captures found, if it is attached.
    pub fn take_report(&mut self) -> Option<Report> {
        self.looker.take().map(|checker| checker.finish(Ending::default()))
    }

    /// Returns the first violation.
    pub fn violation(&self) -> Option<&str> {
        self.violation.as_deref()
    }

    /// Returns the number of segments seen.
    pub fn segments(&self) -> u64 {
        self.segments
    }

    /// Returns the last packets, one line each.
    pub fn trace(&self) -> String {
        self.trace.iter().map(|(at, segment)| segment.describe(*at)).collect::<Vec<_>>().join("\n")
    }

    /// Writes all packets to a capture file.
    pub fn capture(&mut self, to: pcap::Writer<File>) {
        self.capture = Some(to);
    }

    /// Passes a packet to the attached checker and the capture file. A file that cannot be written ends there.
    fn show(&mut self, now: Instant, is_raw: bool, bytes: &[u8]) {
        let (link_type, original_len) = (if is_raw { LINKTYPE_RAW } else { LINKTYPE_ETHERNET }, bytes.len() as u32);
        if let Some(checker) = &mut self.looker {
            checker.packet(&Packet::bare(self.captured, now.as_nanos(), link_type, (bytes, original_len)));
        }
        let failed =
            self.capture.as_mut().is_some_and(|writer| writer.write(&pcap::Record::whole(now.as_nanos(), bytes)).is_err());
        if failed {
            self.capture = None;
        }
    }

    /// Checks a packet whose IP header follows `link_bytes` of link header.
    fn see(&mut self, now: Instant, link_bytes: usize, packet: &[&Frame]) {
        self.captured += 1;
        if self.looker.is_some() || self.capture.is_some() {
            let bytes: Vec<u8> = packet.iter().flat_map(|frame| frame.bytes()).copied().collect();
            self.show(now, link_bytes == 0, &bytes);
        }
        let Some(segment) = Segment::parse(link_bytes, packet) else { return };
        self.segments += 1;
        if self.trace.len() == TRACE_LINES {
            self.trace.pop_front();
        }
        self.trace.push_back((now, segment));
        if let Err(rule) = self.check(&segment, packet)
            && self.violation.is_none()
        {
            self.violation = Some(format!("{rule}: {}", segment.describe(now)));
        }
    }

    fn check(&mut self, segment: &Segment, packet: &[&Frame]) -> Result<(), String> {
        if !segment.checksum_is_true(packet) {
            return Err("wrong TCP checksum".into());
        }
        let (mine, theirs) = ((segment.from, segment.to), (segment.to, segment.from));
        if segment.flags & RST != 0 {
            self.ends.remove(&mine);
            self.ends.remove(&theirs);
            return Ok(());
        }
        if segment.flags & SYN != 0 {
            // A SYN-ACK without a SYN that was seen answers a forged SYN: these ends are no pair.
            let answered =
                self.ends.get(&theirs).is_some_and(|end| end.initial_sequence.wrapping_add(1) == segment.acknowledgment);
            if segment.flags & ACK != 0 && !answered {
                self.ends.remove(&mine);
                self.ends.remove(&theirs);
                return Ok(());
            }
            let is_again = |end: &&End| end.initial_sequence == segment.sequence && !end.finished;
            let old = self.ends.get(&mine).filter(is_again).copied();
            let end = End {
                initial_sequence: segment.sequence,
                window_scale: segment.window_scale,
                offered_timestamps: segment.timestamp.is_some(),
                ..old.unwrap_or_default()
            };
            self.ends.insert(mine, end);
            // A retransmitted SYN changes nothing at the other end.
            if segment.flags & ACK == 0 && old.is_none() {
                self.ends.remove(&theirs);
            }
        }
        self.check_sent_in_window(segment)?;
        let scale = self.scale(mine, theirs, segment.flags & SYN != 0);
        let agreed = self.ends.get(&theirs).is_some_and(|end| end.offered_timestamps);
        let Some(end) = self.ends.get_mut(&mine) else { return Ok(()) };
        end.finished |= segment.flags & FIN != 0;
        end.check_timestamp(segment, agreed)?;
        if segment.flags & ACK != 0 { end.check_acknowledgment(segment, scale) } else { Ok(()) }
    }

    /// Checks that a segment does not exceed the right edge that the other end offered.
    fn check_sent_in_window(&self, segment: &Segment) -> Result<(), String> {
        let Some(receiver) = self.ends.get(&(segment.to, segment.from)) else { return Ok(()) };
        if segment.payload_len == 0 || receiver.acknowledged.is_none() || segment.flags & SYN != 0 {
            return Ok(());
        }
        let beyond = segment.sequence.wrapping_add(segment.payload_len).wrapping_sub(receiver.edge) as i32;
        // One byte beyond the edge is a probe of a closed window (RFC 9293 §3.8.6.1).
        let probe = segment.payload_len == 1 && beyond == 1;
        if beyond > 0 && !probe { Err(format!("{beyond} bytes beyond the window")) } else { Ok(()) }
    }

    /// RFC 7323 §2.2: both sides must have offered; SYNs are never scaled.
    fn scale(&self, mine: Key, theirs: Key, is_syn: bool) -> u8 {
        let offered = |key| self.ends.get(key).and_then(|end: &End| end.window_scale);
        match (offered(&mine), offered(&theirs)) {
            (Some(scale), Some(_)) if !is_syn => scale,
            _ => 0,
        }
    }
}

impl End {
    /// RFC 7323 §3.2: once both SYNs have offered timestamps, every segment has one, and it does not go back.
    fn check_timestamp(&mut self, segment: &Segment, agreed: bool) -> Result<(), String> {
        let before = self.timestamp;
        self.timestamp = segment.timestamp.or(before);
        match (before, segment.timestamp) {
            (Some(before), Some(now)) if (now.wrapping_sub(before) as i32) < 0 => {
                Err(format!("timestamp went back from {before}"))
            }
            (Some(_), None) if agreed && segment.flags & SYN == 0 => Err("timestamp missing".into()),
            _ => Ok(()),
        }
    }

    fn check_acknowledgment(&mut self, segment: &Segment, scale: u8) -> Result<(), String> {
        let edge = segment.acknowledgment.wrapping_add(u32::from(segment.window) << scale);
        let Some(before) = self.acknowledged.replace(segment.acknowledgment) else {
            self.edge = edge;
            return Ok(());
        };
        if (segment.acknowledgment.wrapping_sub(before) as i32) < 0 {
            return Err(format!("acknowledgment went back from {before}"));
        }
        let grown = edge.wrapping_sub(self.edge) as i32;
        // Scaling makes edges coarse; less than one unit is no shrinking (RFC 7323 §2.4). A SYN-ACK that is retransmitted
        // after Fast Open data cannot advertise as much as the ACK of the data did.
        if segment.flags & SYN == 0 && grown <= -(1 << scale) {
            return Err(format!("the window shrank by {}", -grown));
        }
        if grown > 0 {
            self.edge = edge;
        }
        Ok(())
    }
}

/// The IP header's fields for the TCP segment that follows it.
struct Network {
    source: IpAddr,
    destination: IpAddr,
    header_len: usize,
    payload_len: usize,
}

impl Network {
    /// `None`: not TCP, or a fragment of it.
    fn parse(bytes: &[u8]) -> Option<Network> {
        // Packets that are not IP (ARP) fail the test of version or checksum.
        if let Some(header) = ipv4::Header::parse(bytes) {
            let (source, destination) = (header.source.into(), header.destination.into());
            let header_len = usize::from(header.header_len);
            let payload_len = usize::from(header.total_len) - header_len;
            let network = Network { source, destination, header_len, payload_len };
            return Some(network).filter(|_| header.protocol == ipv4::PROTOCOL_TCP && !header.is_fragment());
        }
        let header = ipv6::Header::parse(bytes).filter(|header| header.next_header == ipv6::PROTOCOL_TCP)?;
        let (source, destination) = (header.source.into(), header.destination.into());
        Some(Network { source, destination, header_len: ipv6::HEADER_LEN, payload_len: header.payload_len.into() })
    }
}

impl Segment {
    fn parse(link_bytes: usize, packet: &[&Frame]) -> Option<Segment> {
        let network = packet.first()?.bytes().get(link_bytes..)?;
        let ip = Network::parse(network)?;
        let tcp = network.get(ip.header_len..)?;
        let fixed: &[u8; 20] = tcp.first_chunk()?;
        let word = |at: usize| u16::from_be_bytes([fixed[at], fixed[at + 1]]);
        let long = |at: usize| u32::from(word(at)) << 16 | u32::from(word(at + 2));
        let header_len = usize::from(fixed[12] >> 4) * 4;
        let (window_scale, timestamp) = options(tcp.get(20..header_len)?);
        Some(Segment {
            from: (ip.source, word(0)),
            to: (ip.destination, word(2)),
            sequence: long(4),
            acknowledgment: long(8),
            flags: fixed[13],
            window: word(14),
            payload_len: (ip.payload_len - header_len) as u32,
            window_scale,
            timestamp,
            transport_at: link_bytes + ip.header_len,
        })
    }

    fn checksum_is_true(&self, packet: &[&Frame]) -> bool {
        if packet[0].checksum() != Checksum::Complete {
            return true;
        }
        let skip = self.transport_at;
        let parts = packet.iter().enumerate().map(|(at, frame)| &frame.bytes()[if at == 0 { skip } else { 0 }..]);
        let len = packet.iter().map(|frame| frame.len()).sum::<usize>() - skip;
        let pseudo = checksum::pseudo_header(self.from.0, self.to.0, ipv4::PROTOCOL_TCP, len as u32);
        checksum::add(pseudo, checksum::sum_of_parts(parts)) == 0xffff
    }

    fn describe(&self, now: Instant) -> String {
        let letters = [(SYN, 'S'), (FIN, 'F'), (RST, 'R'), (ACK, '.')];
        let flags: String = letters.iter().filter(|(bit, _)| self.flags & bit != 0).map(|(_, letter)| letter).collect();
        format!(
            "{:>12} us {} {} > {} {} {flags} seq {} len {} ack {} win {} ts {:?}",
            now.as_micros(),
            self.from.0,
            self.from.1,
            self.to.0,
            self.to.1,
            self.sequence,
            self.payload_len,
            self.acknowledgment,
            self.window,
            self.timestamp
        )
    }
}

/// Returns window scale and timestamp value.
fn options(mut bytes: &[u8]) -> (Option<u8>, Option<u32>) {
    let (mut scale, mut timestamp) = (None, None);
    while let [kind, rest @ ..] = bytes {
        match (kind, rest) {
            (0, _) => break,
            (1, _) => bytes = rest,
            (kind, [len, ..]) if *len >= 2 && usize::from(*len) <= bytes.len() => {
                match (kind, &bytes[2..usize::from(*len)]) {
                    (3, [shift]) => scale = Some(*shift),
                    (8, [a, b, c, d, ..]) => timestamp = Some(u32::from_be_bytes([*a, *b, *c, *d])),
                    _ => {}
                }
                bytes = &bytes[usize::from(*len)..];
            }
            _ => break,
        }
    }
    (scale, timestamp)
}

/// Middleware that shows every outgoing packet to the checker.
pub struct Watch {
    inner: Box<dyn Device>,
    check: Rc<RefCell<WireCheck>>,
    seen: usize,
}

impl Watch {
    /// Wraps `inner`.
    pub fn new(inner: Box<dyn Device>, check: Rc<RefCell<WireCheck>>) -> Watch {
        Watch { inner, check, seen: 0 }
    }
}

impl ringway_device::Middleware for Watch {
    fn inner(&self) -> &dyn Device {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Device {
        &mut *self.inner
    }

    fn transmit(&mut self, now: Instant, burst: &mut Burst) -> io::Result<usize> {
        let link_bytes = self.inner.capabilities().medium.header_bytes();
        // The checker has already seen packets that the device left in the burst.
        let mut fresh = Burst::default();
        let mut left = self.seen;
        while !burst.is_empty() {
            let mut packet = Vec::new();
            while let Some(frame) = burst.pop() {
                let last = !frame.continues();
                packet.push(frame);
                if last {
                    break;
                }
            }
            if left == 0 {
                self.check.borrow_mut().see(now, link_bytes, &packet.iter().collect::<Vec<_>>());
            }
            left = left.saturating_sub(1);
            packet.into_iter().for_each(|frame| fresh.push(frame));
        }
        burst.append(&mut fresh);
        let sent = self.inner.transmit(now, burst)?;
        self.seen = burst.packets();
        Ok(sent)
    }
}

const TRACE_LINES: usize = 60;

#[cfg(test)]
mod tests;
