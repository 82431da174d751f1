//! The connections of a trace: which segment repeats, acknowledges or leaves a gap, and why it was sent.

use std::collections::HashMap;

use ringway_device::Medium;
use ringway_device::pcap::Record;
use ringway_shm::Flow;
use ringway_shm::capture::Direction;
use ringway_trace::segment::{self, FIN, RST, SYN, Segment};
use ringway_trace::{datagram, link};

use super::state;

/// Connections that are remembered at most; with more, all are forgotten.
const CONNECTIONS_MAX: usize = 4_096;
const PROTOCOL_TCP: u8 = 6;
const LINKTYPE_ETHERNET: u32 = 1;
const LINKTYPE_RAW: u32 = 101;

/// A captured segment.
pub(super) struct Captured<'a> {
    /// When, nanoseconds since 1970.
    pub(super) nanos: u64,
    /// `None`: the file does not say; `flow.local` is then the sender.
    pub(super) direction: Option<Direction>,
    pub(super) flow: Flow,
    pub(super) segment: Segment<'a>,
    /// Why it was dropped, if it was.
    pub(super) dropped: Option<&'a str>,
    /// The connection after it, as [`state::text`] has it.
    pub(super) state: Option<&'a str>,
}

impl<'a> Captured<'a> {
    /// Reads a packet of a service. `None`: it is no TCP segment.
    pub(super) fn of_record(record: &Record<'a>, medium: Medium) -> Option<Captured<'a>> {
        let link_type = if medium == Medium::Ethernet { LINKTYPE_ETHERNET } else { LINKTYPE_RAW };
        let direction = record.direction;
        let (segment, flow) = parse(link_type, record.bytes, record.original_len, direction)?;
        Some(Captured { nanos: record.nanos, direction, flow, segment, dropped: record.drop_reason, state: record.comment })
    }

    /// Reads a packet of a file. `None`: it is no TCP segment.
    pub(super) fn of_file(packet: &ringway_trace::Packet<'a>) -> Option<Captured<'a>> {
        let direction = packet.direction.map(|direction| match direction {
            ringway_trace::Direction::Received => Direction::Received,
            ringway_trace::Direction::Sent => Direction::Sent,
        });
        let (segment, flow) = parse(packet.link_type, packet.bytes, packet.original_len, direction)?;
        let is_state = |text: &&&str| text.starts_with(state::FIRST);
        let state = packet.comments.iter().find(is_state).copied();
        let dropped = packet.comments.iter().find(|text| !is_state(text)).copied();
        Some(Captured { nanos: packet.nanos, direction, flow, segment, dropped, state })
    }
}

fn parse(link_type: u32, bytes: &[u8], len: u32, direction: Option<Direction>) -> Option<(Segment<'_>, Flow)> {
    let link::Content::Ip(at) = link::content(link_type, bytes) else { return None };
    let packet = datagram::parse(&bytes[at..], len.checked_sub(at as u32)?).ok()?;
    if packet.protocol != PROTOCOL_TCP || packet.is_fragment {
        return None;
    }
    let segment = segment::parse(packet.payload, packet.payload_len).ok()?;
    let (source, destination) = ((packet.source, segment.source_port), (packet.destination, segment.destination_port));
    let flow = match direction {
        Some(Direction::Received) => Flow { local: destination, remote: source },
        _ => Flow { local: source, remote: destination },
    };
    Some((segment, flow))
}

/// What a segment is to its connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// The connection's number in this trace, from 1.
    pub(super) connection: u32,
    /// It is the connection's first segment.
    pub(super) is_first: bool,
    /// SEG.SEQ counted from the sender's first, and SEG.ACK from the receiver's.
    pub(super) sequence: u32,
    pub(super) acknowledgment: u32,
    /// First sequence number of the receiver: SACK blocks count from there.
    pub(super) acknowledged_from: u32,
    /// Why it was sent, or what it brings.
    pub(super) why: String,
    /// What has changed at the connection.
    pub(super) changes: Option<String>,
}

/// What one end has sent.
#[derive(Clone, Copy, Debug, Default)]
struct Side {
    /// Its first sequence number, once it is known.
    start: Option<u32>,
    /// The end of what it has sent.
    end: u32,
    acknowledgment: Option<u32>,
    window: u16,
}

#[derive(Debug, Default)]
struct Connection {
    number: u32,
    local: Side,
    remote: Side,
    state: String,
}

/// All connections so far.
#[derive(Debug, Default)]
pub(super) struct Followed {
    connections: HashMap<Flow, Connection>,
    count: u32,
}

impl Followed {
    /// Takes the next segment.
    pub(super) fn take(&mut self, captured: &Captured<'_>) -> Seen {
        let Flow { local, remote } = captured.flow;
        let turned = Flow { local: remote, remote: local };
        // Without a direction, the sender of the first segment is on the left.
        let is_turned = captured.direction.is_none() && self.connections.contains_key(&turned);
        let is_sent = captured.direction.map_or(!is_turned, |direction| direction == Direction::Sent);
        let flow = if is_turned { turned } else { captured.flow };
        if self.connections.len() >= CONNECTIONS_MAX && !self.connections.contains_key(&flow) {
            self.connections.clear();
        }
        let is_first = !self.connections.contains_key(&flow);
        self.count += u32::from(is_first);
        let number = self.count;
        let connection = self.connections.entry(flow).or_insert_with(|| Connection { number, ..Connection::default() });
        connection.take(captured, is_sent, is_first)
    }
}

impl Connection {
    fn take(&mut self, captured: &Captured<'_>, is_sent: bool, is_first: bool) -> Seen {
        let segment = &captured.segment;
        let (sender, receiver) = if is_sent { (&mut self.local, &mut self.remote) } else { (&mut self.remote, &mut self.local) };
        if segment.has(SYN) && sender.start.is_some_and(|start| start != segment.sequence) {
            // The same ends, once more.
            (*sender, *receiver) = (Side::default(), Side::default());
        }
        if sender.start.is_none() {
            *sender = Side { start: Some(segment.sequence), end: segment.sequence, ..*sender };
        }
        if segment.has(segment::ACK) && receiver.start.is_none() {
            *receiver = Side { start: Some(segment.acknowledgment), end: segment.acknowledgment, ..*receiver };
        }
        let why = match captured.dropped {
            Some(reason) => format!("dropped: {reason}"),
            None if is_sent => sent(segment, sender, captured.state.unwrap_or(&self.state)),
            None => received(segment, sender),
        };
        let start = sender.start.unwrap_or(0);
        let acknowledged_from = receiver.start.unwrap_or(0);
        if captured.dropped.is_none() {
            sender.note(segment);
        }
        let changes = captured.state.map(|now| {
            let changes = state::changes(&self.state, now);
            now.clone_into(&mut self.state);
            changes
        });
        Seen {
            connection: self.number,
            is_first,
            sequence: segment.sequence.wrapping_sub(start),
            acknowledgment: segment.acknowledgment.wrapping_sub(acknowledged_from),
            acknowledged_from,
            why,
            changes: changes.filter(|changes| !changes.is_empty()),
        }
    }
}

impl Side {
    fn note(&mut self, segment: &Segment<'_>) {
        let end = segment.sequence.wrapping_add(segment.len());
        if is_after(end, self.end) {
            self.end = end;
        }
        if segment.has(segment::ACK) {
            (self.acknowledgment, self.window) = (Some(segment.acknowledgment), segment.window);
        }
    }

    /// Bytes that the segment acknowledges for the first time; `None`: it is the first that acknowledges.
    fn acknowledges(&self, segment: &Segment<'_>) -> Option<u32> {
        let before = self.acknowledgment?;
        let is_new = is_after(segment.acknowledgment, before);
        Some(if is_new { segment.acknowledgment.wrapping_sub(before) } else { 0 })
    }
}

/// Why our end has sent a segment; `state`: what the connection is like after it.
fn sent(segment: &Segment<'_>, before: &Side, state: &str) -> String {
    let is_again = is_after(before.end, segment.sequence);
    let ca = state::value(state, "ca").unwrap_or_default();
    let is_probing = state::value(state, "tlp").is_some();
    match () {
        () if segment.has(RST) => "resets".to_owned(),
        () if segment.has(SYN) && is_again => "SYN again, after a timeout".to_owned(),
        () if segment.has(SYN) && segment.has(segment::ACK) => "accepts".to_owned(),
        () if segment.has(SYN) => "opens".to_owned(),
        () if is_probe(segment, before) => match state::value(state, "waits") {
            Some("window") => "window probe".to_owned(),
            _ => "keepalive".to_owned(),
        },
        () if segment.len() == 0 => acknowledging(segment, before),
        () if is_again && ca == "loss" => "again, after a timeout".to_owned(),
        () if is_again && ca == "recovery" => "again, found lost".to_owned(),
        () if is_again && is_probing => "again, tail loss probe".to_owned(),
        () if is_again => "again".to_owned(),
        () if segment.has(FIN) => "closes".to_owned(),
        () => "new data".to_owned(),
    }
}

/// What a segment of the peer brings.
fn received(segment: &Segment<'_>, before: &Side) -> String {
    let is_again = is_after(before.end, segment.sequence);
    let gap = segment.sequence.wrapping_sub(before.end);
    match () {
        () if segment.has(RST) => "resets".to_owned(),
        () if segment.has(SYN) && is_again => "SYN again".to_owned(),
        () if segment.has(SYN) && segment.has(segment::ACK) => "accepts".to_owned(),
        () if segment.has(SYN) => "opens".to_owned(),
        () if is_probe(segment, before) => "keepalive or window probe".to_owned(),
        () if segment.len() == 0 => acknowledging(segment, before),
        () if is_again => "again".to_owned(),
        () if gap != 0 => format!("new data after a gap of {gap}"),
        () if segment.has(FIN) => "closes".to_owned(),
        () => "new data".to_owned(),
    }
}

/// Returns true for a segment without data in front of what is next (RFC 9293 §3.8.4).
fn is_probe(segment: &Segment<'_>, before: &Side) -> bool {
    segment.len() == 0 && before.end.wrapping_sub(segment.sequence) == 1
}

/// What a segment without data says.
fn acknowledging(segment: &Segment<'_>, before: &Side) -> String {
    let gaps = if segment.options.sack.is_empty() { "" } else { ", with gaps" };
    match before.acknowledges(segment) {
        None => "acknowledges".to_owned(),
        Some(0) if segment.window != before.window => format!("window update{gaps}"),
        Some(0) => format!("duplicate ack{gaps}"),
        Some(bytes) => format!("acknowledges {bytes}{gaps}"),
    }
}

/// Returns true when `one` is after `other`, modulo 2^32.
fn is_after(one: u32, other: u32) -> bool {
    one.wrapping_sub(other).cast_signed() > 0
}
