//! From packets to flows: which datagram is whose, and what one packet alone can be blamed for.
//!
//! Promises: at most [`FLOWS_MAX`] connections are followed at a time and [`FINDINGS_MAX`] findings kept; what
//! is beyond is counted. Flows are reported in the order of their first packets.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};

use crate::capture::{Ending, Packet};
use crate::datagram::{self, Datagram, Malformed, Sum};
use crate::end::{End, Syn};
use crate::finding::{Finding, Rule, Severity};
use crate::flow::{Carrier, Flow, FlowReport};
use crate::link::{self, Content};
use crate::segment::{self, ACK, RST, SYN, Segment};

/// Connections that are followed at a time.
pub const FLOWS_MAX: usize = 65_536;
/// Findings that are kept.
pub const FINDINGS_MAX: usize = 10_000;

/// Offset of the checksum in a TCP header, and in a UDP header.
const TCP_CHECKSUM_AT: usize = 16;
const UDP_CHECKSUM_AT: usize = 6;
/// ICMPv6 type (RFC 4861 §4.4).
const NEIGHBOR_ADVERTISEMENT: u8 = 136;

/// What the checker is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// Addresses of hosts whose packets were captured as they left: their order is known.
    pub local: Vec<IpAddr>,
    /// Least time to a retransmission of data without a sign of loss, nanoseconds.
    pub least_timeout: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options { local: Vec::new(), least_timeout: 200_000_000 }
    }
}

/// What a capture shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Packets read.
    pub packets: u64,
    /// Connections and conversations, in the order of their first packets.
    pub flows: Vec<FlowReport>,
    /// What was found, by packet.
    pub findings: Vec<Finding>,
    /// Errors, also those that are not kept in `findings`.
    pub errors: u64,
    /// Warnings, likewise.
    pub warnings: u64,
    /// What was not looked at, and how often.
    pub notes: BTreeMap<&'static str, u64>,
}

type Key = (SocketAddr, SocketAddr);

/// A flow, the number of its first packet, and which way the key lies.
struct Followed {
    flow: Flow,
    first_packet: u64,
}

/// Takes packets, gives a report.
pub struct Checker {
    options: Options,
    packets: u64,
    resolved_at: Option<u64>,
    live: HashMap<Key, Followed>,
    conversations: BTreeMap<Key, (u64, FlowReport)>,
    over: Vec<(u64, FlowReport)>,
    loose: Vec<Finding>,
    report: Report,
}

impl Checker {
    /// A checker that has seen nothing.
    pub fn new(options: Options) -> Checker {
        Checker {
            options,
            packets: 0,
            resolved_at: None,
            live: HashMap::new(),
            conversations: BTreeMap::new(),
            over: Vec::new(),
            loose: Vec::new(),
            report: Report::default(),
        }
    }

    fn note(&mut self, what: &'static str) {
        *self.report.notes.entry(what).or_insert(0) += 1;
    }

    /// Takes the next packet.
    pub fn packet(&mut self, packet: &Packet<'_>) {
        self.packets += 1;
        let at = match link::content(packet.link_type, packet.bytes) {
            Content::Ip(at) => at,
            Content::Other => {
                // Most of them ARP; it does not matter which.
                self.resolved_at = Some(packet.nanos);
                return self.note("packets that are not IP");
            }
            Content::UnknownLink => return self.note("packets of an unknown link type"),
        };
        let wire_len = packet.original_len.saturating_sub(at as u32);
        match datagram::parse(packet.bytes.get(at..).unwrap_or_default(), wire_len) {
            Ok(datagram) => self.datagram(packet, &datagram),
            Err(Malformed::Cut) => self.note("packets captured too short"),
            Err(Malformed::Wrong(text)) => self.blame(packet, None, Rule::IpHeader, text.into()),
        }
    }

    /// Records a finding about a packet of no connection.
    fn blame(&mut self, packet: &Packet<'_>, ends: Option<Key>, rule: Rule, text: String) {
        let unspecified = SocketAddr::new(IpAddr::from([0, 0, 0, 0]), 0);
        let (from, to) = ends.unwrap_or((unspecified, unspecified));
        let severity = rule.severity();
        self.report.errors += u64::from(severity == Severity::Error);
        self.report.warnings += u64::from(severity == Severity::Warning);
        if self.loose.len() < FINDINGS_MAX {
            self.loose.push(Finding { packet: packet.number, nanos: packet.nanos, from, to, rule, severity, text });
        }
    }

    fn datagram(&mut self, packet: &Packet<'_>, datagram: &Datagram<'_>) {
        let bare = |ip| SocketAddr::new(ip, 0);
        let ends = (bare(datagram.source), bare(datagram.destination));
        if !datagram.checksum_is_right {
            self.blame(packet, Some(ends), Rule::IpChecksum, "the header's checksum is wrong".into());
            return;
        }
        match datagram.protocol {
            _ if datagram.is_fragment => self.note("fragments"),
            datagram::TCP => self.tcp(packet, datagram),
            datagram::UDP => self.udp(packet, datagram),
            datagram::ICMP | datagram::ICMPV6 => self.icmp(packet.nanos, datagram),
            _ => self.note("datagrams of other protocols"),
        }
    }

    fn udp(&mut self, packet: &Packet<'_>, datagram: &Datagram<'_>) {
        let Some(header) = datagram.payload.first_chunk::<8>() else { return self.note("packets captured too short") };
        let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let from = SocketAddr::new(datagram.source, word(0));
        let to = SocketAddr::new(datagram.destination, word(2));
        let stated = u32::from(word(4));
        let sum = datagram.checksum(UDP_CHECKSUM_AT);
        // Zero is what a datagram beyond 64 KiB says (RFC 2675), or one that an interface is to cut.
        let too_long = stated != 0 && (stated < 8 || stated > datagram.payload_len);
        self.converse(packet.number, (from, to), datagram.payload_len.saturating_sub(8), sum);
        if too_long {
            let text = format!("length {stated} in {} bytes of payload", datagram.payload_len);
            self.blame(packet, Some((from, to)), Rule::UdpLength, text);
        } else if sum == Sum::Wrong && (stated == datagram.payload_len || stated == 0) {
            self.blame(packet, Some((from, to)), Rule::UdpChecksum, "the checksum is wrong".into());
        } else if sum == Sum::Absent && datagram.source.is_ipv6() {
            self.blame(packet, Some((from, to)), Rule::UdpChecksum, "no checksum over IPv6".into());
        }
    }

    /// Counts a datagram of a conversation.
    fn converse(&mut self, number: u64, (from, to): Key, bytes: u32, sum: Sum) {
        let key = if from <= to { (from, to) } else { (to, from) };
        if !self.conversations.contains_key(&key) && self.conversations.len() >= FLOWS_MAX {
            return self.note("datagrams of conversations beyond those followed");
        }
        let fresh = || (number, udp_report(from, to));
        let (_, report) = self.conversations.entry(key).or_insert_with(fresh);
        let me = usize::from(report.from != from);
        report.packets[me] += 1;
        report.bytes[me] += u64::from(bytes);
        report.partial_checksums[me] += u64::from(sum == Sum::Partial);
    }

    /// An error about a segment explains what its sender does next.
    fn icmp(&mut self, nanos: u64, datagram: &Datagram<'_>) {
        if datagram.protocol == datagram::ICMPV6 && datagram.payload.first() == Some(&NEIGHBOR_ADVERTISEMENT) {
            self.resolved_at = Some(nanos);
            return;
        }
        let Some(quoted) = datagram.payload.get(8..) else { return };
        let Ok(inner) = datagram::parse(quoted, u32::MAX) else { return };
        let Some(ports) = inner.payload.first_chunk::<4>().filter(|_| inner.protocol == datagram::TCP) else { return };
        let port = |at: usize| u16::from_be_bytes([ports[at], ports[at + 1]]);
        let from = SocketAddr::new(inner.source, port(0));
        let to = SocketAddr::new(inner.destination, port(2));
        let key = if from <= to { (from, to) } else { (to, from) };
        if let Some(Followed { flow, .. }) = self.live.get_mut(&key)
            && let Some(end) = flow.ends.iter_mut().find(|end| end.address == from)
        {
            end.recover = end.highest;
        }
    }

    fn tcp(&mut self, packet: &Packet<'_>, datagram: &Datagram<'_>) {
        let segment = match segment::parse(datagram.payload, datagram.payload_len) {
            Ok(segment) => segment,
            Err(None) => return self.note("packets captured too short"),
            Err(Some(text)) => {
                let bare = |ip| SocketAddr::new(ip, 0);
                let ends = (bare(datagram.source), bare(datagram.destination));
                return self.blame(packet, Some(ends), Rule::TcpHeader, text.into());
            }
        };
        let from = SocketAddr::new(datagram.source, segment.source_port);
        let to = SocketAddr::new(datagram.destination, segment.destination_port);
        let sum = datagram.checksum(TCP_CHECKSUM_AT);
        if sum == Sum::Wrong {
            // The receiver drops it, so it is no part of the connection.
            return self.blame(packet, Some((from, to)), Rule::TcpChecksum, "the checksum is wrong".into());
        }
        let key = if from <= to { (from, to) } else { (to, from) };
        if !self.belongs(key, from, &segment, packet) {
            return;
        }
        if !self.live.contains_key(&key) && self.live.len() >= FLOWS_MAX {
            self.retire_over();
            if self.live.len() >= FLOWS_MAX {
                return self.note("segments of connections beyond those followed");
            }
        }
        let resolved_at = self.resolved_at;
        let flow = self.follow(key, (from, to), packet.number);
        flow.resolved_at = resolved_at;
        let me = usize::from(flow.ends[0].address != from);
        let (packet, nanos) = (packet.number, packet.nanos);
        flow.segment(me, &segment, Carrier { packet, nanos, sum, ecn: datagram.ecn, ip_len: datagram.len });
    }

    /// Decides whether a SYN begins another connection of the same addresses. `false`: the segment is set aside.
    fn belongs(&mut self, key: Key, from: SocketAddr, segment: &Segment<'_>, packet: &Packet<'_>) -> bool {
        let Some(Followed { flow, .. }) = self.live.get_mut(&key) else { return true };
        if !segment.has(SYN) || segment.has(RST) {
            return true;
        }
        let me = usize::from(flow.ends[0].address != from);
        if flow.ends[me].syn.as_ref().is_some_and(|syn| syn.sequence == segment.sequence) {
            return true;
        }
        let peer_knows = flow.ends[1 - me].seen();
        let first = !flow.ends[me].seen() && !flow.is_over();
        if segment.has(ACK) {
            let answers = |syn: &Syn| segment.acknowledgment == syn.sequence.wrapping_add(1);
            if let Some((_, syn)) = flow.challenger.take_if(|(by, syn)| *by != me && answers(syn)) {
                let to = flow.ends[1 - me].address;
                self.retire(key);
                let flow = self.follow(key, (to, from), packet.number);
                flow.ends[0].positions.start(syn.sequence);
                flow.ends[0].sent.begin(1);
                flow.ends[0].highest = 1;
                flow.ends[0].packets = 1;
                flow.ends[0].syn = Some(syn);
                flow.incomplete = true;
                return true;
            }
        }
        if first {
            return true;
        }
        if flow.is_over() || !peer_knows || segment.has(ACK) {
            self.retire(key);
            return true;
        }
        flow.challenger = Some((me, Syn::new(segment, packet.nanos)));
        self.note("SYNs into connections that exist");
        false
    }

    fn follow(&mut self, key: Key, (from, to): Key, number: u64) -> &mut Flow {
        let options = &self.options;
        let end = |address: SocketAddr| End::new(address, options.local.contains(&address.ip()));
        let fresh = || Followed { flow: Flow::new([end(from), end(to)], options.least_timeout), first_packet: number };
        &mut self.live.entry(key).or_insert_with(fresh).flow
    }

    fn retire(&mut self, key: Key) {
        if let Some(followed) = self.live.remove(&key) {
            let dropped = false;
            self.close(followed, dropped);
        }
    }

    /// Makes room: connections that are over are reported now.
    fn retire_over(&mut self) {
        let keys: Vec<Key> = self.live.iter().filter(|(_, followed)| followed.flow.is_over()).map(|(key, _)| *key).collect();
        keys.into_iter().for_each(|key| self.retire(key));
    }

    fn close(&mut self, followed: Followed, dropped: bool) {
        let (report, findings) = followed.flow.finish(dropped);
        self.report.errors += report.errors;
        self.report.warnings += report.warnings;
        self.over.push((followed.first_packet, report));
        let room = FINDINGS_MAX.saturating_sub(self.loose.len());
        self.loose.extend(findings.into_iter().take(room));
    }

    /// The report.
    pub fn finish(mut self, ending: Ending) -> Report {
        let mut left: Vec<Followed> = self.live.drain().map(|(_, followed)| followed).collect();
        left.sort_by_key(|followed| followed.first_packet);
        left.into_iter().for_each(|followed| self.close(followed, ending.dropped > 0));
        if ending.truncated {
            self.note("capture ends inside a packet");
        }
        if ending.dropped > 0 {
            self.report.notes.insert("packets that the capturing side lost", ending.dropped);
        }
        let mut flows = self.over;
        flows.extend(self.conversations.into_values());
        flows.sort_by_key(|(first, _)| *first);
        let mut report = self.report;
        report.packets = self.packets;
        report.flows = flows.into_iter().map(|(_, flow)| flow).collect();
        report.findings = self.loose;
        report.findings.sort_by_key(|finding| (finding.packet, finding.rule));
        report
    }
}

fn udp_report(from: SocketAddr, to: SocketAddr) -> FlowReport {
    FlowReport {
        from,
        to,
        protocol: "udp",
        packets: [0; 2],
        bytes: [0; 2],
        retransmissions: [0; 2],
        super_segments: [0; 2],
        partial_checksums: [0; 2],
        from_start: true,
        incomplete: false,
        excused: 0,
        errors: 0,
        warnings: 0,
    }
}

#[cfg(test)]
mod tests;
