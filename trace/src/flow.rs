//! One connection: both ends, and the order in which a segment meets the rules.
//!
//! Promises: a rule that missing packets could excuse is only reported when the flow shows no sign of missing
//! packets, and that is decided when the flow is over. Does not do: find the flow of a segment (`checker`).

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::datagram::Sum;
use crate::end::{End, Syn};
use crate::finding::{Finding, Rule, Severity};
use crate::rules;
use crate::segment::{ACK, FIN, RST, SYN, Segment};

/// Findings of one rule in one flow that are kept; the rest is counted.
const KEPT_PER_RULE: u64 = 5;

/// A segment in its place.
pub(crate) struct View<'a> {
    pub(crate) packet: u64,
    pub(crate) nanos: u64,
    /// Index of the end that sent it.
    pub(crate) me: usize,
    pub(crate) segment: &'a Segment<'a>,
    pub(crate) sum: Sum,
    pub(crate) ecn: u8,
    /// Bytes of the whole datagram.
    pub(crate) ip_len: u32,
    /// Position of the sequence number.
    pub(crate) start: i64,
    /// Position behind the payload, without FIN.
    pub(crate) data_end: i64,
    /// Position behind everything.
    pub(crate) end: i64,
    /// Position of the acknowledgment in the other end's stream.
    pub(crate) ack: Option<i64>,
    /// It must have been sent after everything that was seen of its sender.
    pub(crate) newest: bool,
    /// SND.NXT of the sender before this segment.
    pub(crate) highest_before: i64,
    /// The earlier copy's time, when some of the payload was seen before.
    pub(crate) sent_before: Option<u64>,
}

impl View<'_> {
    /// Where its payload begins.
    pub(crate) fn data_start(&self) -> i64 {
        self.start + i64::from(self.segment.has(SYN))
    }
}

/// What the two ends agreed on about ECN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ecn {
    Unknown,
    Off,
    Classic,
    Accurate,
}

/// A connection.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) ends: [End; 2],
    /// Packets are missing from the capture.
    pub(crate) incomplete: bool,
    /// A SYN that does not belong to this connection, and its sender.
    pub(crate) challenger: Option<(usize, Syn)>,
    /// Least time to a retransmission, nanoseconds.
    pub(crate) least_timeout: u64,
    /// When ARP or ND last answered on this wire, nanoseconds.
    pub(crate) resolved_at: Option<u64>,
    findings: Vec<Finding>,
    counts: BTreeMap<Rule, (u64, Severity)>,
}

/// What is said of a connection in the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowReport {
    /// Sender of the first packet that was seen.
    pub from: SocketAddr,
    /// The other end.
    pub to: SocketAddr,
    /// `tcp` or `udp`.
    pub protocol: &'static str,
    /// Packets of each.
    pub packets: [u64; 2],
    /// Payload of each, every copy counted.
    pub bytes: [u64; 2],
    /// Segments of each with bytes that were seen before.
    pub retransmissions: [u64; 2],
    /// Segments of each that an interface was to cut, or has put together.
    pub super_segments: [u64; 2],
    /// Segments of each whose checksum an interface was to complete.
    pub partial_checksums: [u64; 2],
    /// Both SYNs were seen.
    pub from_start: bool,
    /// The capture lacks packets of it.
    pub incomplete: bool,
    /// Findings that missing packets could explain, which were left out.
    pub excused: u64,
    /// Errors, all of them.
    pub errors: u64,
    /// Warnings, all of them.
    pub warnings: u64,
}

/// The packet that carried a segment.
#[derive(Clone, Copy)]
pub(crate) struct Carrier {
    /// Its number in the capture.
    pub(crate) packet: u64,
    pub(crate) nanos: u64,
    pub(crate) sum: Sum,
    pub(crate) ecn: u8,
    /// Length of the datagram.
    pub(crate) ip_len: u32,
}

impl Flow {
    pub(crate) fn new(ends: [End; 2], least_timeout: u64) -> Flow {
        Flow {
            ends,
            incomplete: false,
            challenger: None,
            least_timeout,
            resolved_at: None,
            findings: Vec::new(),
            counts: BTreeMap::new(),
        }
    }

    /// Both ends have closed, or one has given up.
    pub(crate) fn is_over(&self) -> bool {
        let [a, b] = &self.ends;
        a.reset || b.reset || (a.fin.is_some() && b.fin.is_some())
    }

    /// Records that a rule was broken by this segment.
    pub(crate) fn object(&mut self, view: &View<'_>, rule: Rule, text: String) {
        self.object_as(view, rule, rule.severity(), text);
    }

    /// As `object`, with another severity.
    pub(crate) fn object_as(&mut self, view: &View<'_>, rule: Rule, severity: Severity, text: String) {
        self.object_at((view.packet, view.nanos, view.me), rule, severity, text);
    }

    /// As `object`, of an earlier packet: its number, time and sender.
    pub(crate) fn object_at(&mut self, (packet, nanos, me): (u64, u64, usize), rule: Rule, severity: Severity, text: String) {
        let entry = self.counts.entry(rule).or_insert((0, severity));
        entry.0 += 1;
        if entry.0 <= KEPT_PER_RULE {
            let (from, to) = (self.ends[me].address, self.ends[1 - me].address);
            self.findings.push(Finding { packet, nanos, from, to, rule, severity, text });
        }
    }

    /// Takes a segment of end `me`.
    pub(crate) fn segment(&mut self, me: usize, segment: &Segment<'_>, carrier: Carrier) {
        self.ends[me].bytes += u64::from(segment.payload_len);
        self.ends[me].partial_checksums += u64::from(carrier.sum == Sum::Partial);
        let mut view = self.place(me, segment, carrier);
        rules::form::check(self, &view);
        if segment.has(RST) {
            self.reset(&view);
            self.ends[me].packets += 1;
            return;
        }
        if segment.has(SYN) {
            rules::handshake::check(self, &view);
        }
        rules::handshake::check_flags(self, &view);
        rules::sequence::check(self, &mut view);
        rules::size::check(self, &view);
        rules::window::check_sent(self, &view);
        rules::timestamps::check(self, &view);
        rules::ecn::check(self, &view);
        rules::timing::check(self, &view);
        if let Some(ack) = view.ack {
            rules::ack::check(self, &view, ack);
            rules::sack::check(self, &view, ack);
            rules::delay::check(self, &view, ack);
            rules::window::check_offered(self, &view, ack);
        }
        self.update(&view);
    }

    fn place<'a>(&mut self, me: usize, segment: &'a Segment<'a>, carrier: Carrier) -> View<'a> {
        let Carrier { packet, nanos, sum, ecn, ip_len } = carrier;
        let peer = 1 - me;
        if segment.has(SYN) && self.ends[me].syn.is_none() && !segment.has(RST) {
            self.ends[me].positions.start(segment.sequence);
        }
        let mut unplaced = self.ends[me].positions;
        let places = if segment.has(RST) { &mut unplaced } else { &mut self.ends[me].positions };
        let start = places.of(segment.sequence);
        let ack = segment.has(ACK).then(|| {
            if segment.has(SYN) && !self.ends[peer].seen() {
                self.ends[peer].positions.start(segment.acknowledgment.wrapping_sub(1));
            }
            let mut unplaced = self.ends[peer].positions;
            let places = if segment.has(RST) { &mut unplaced } else { &mut self.ends[peer].positions };
            places.of(segment.acknowledgment)
        });
        let end = start + i64::from(segment.len());
        let data_end = end - i64::from(segment.has(FIN));
        if !self.ends[me].seen() && !segment.has(RST) {
            self.ends[me].highest = start;
            self.ends[me].sent.begin(start + i64::from(segment.has(SYN)));
        }
        let highest_before = self.ends[me].highest;
        let news = end > highest_before || ack.is_some_and(|ack| self.ends[peer].acked.is_none_or(|before| ack > before));
        View {
            packet,
            nanos,
            me,
            segment,
            sum,
            ecn,
            ip_len,
            start,
            data_end,
            end,
            ack,
            newest: self.ends[me].local || news,
            highest_before,
            sent_before: None,
        }
    }

    /// A RST ends the connection when its number could have been believed.
    fn reset(&mut self, view: &View<'_>) {
        let end = &self.ends[view.me];
        let known = end.seen() && (end.syn.is_some() || end.packets > 1);
        let low = end.acked.unwrap_or(end.highest).min(end.highest) - 1;
        let high = end.edge.unwrap_or(end.highest).max(end.highest);
        if !known || (low..=high).contains(&view.start) {
            self.ends[view.me].reset = true;
        }
    }

    /// Remembers the segment.
    fn update(&mut self, view: &View<'_>) {
        let segment = view.segment;
        let me = &mut self.ends[view.me];
        me.packets += 1;
        me.highest = me.highest.max(view.end);
        me.positions.follow(view.end);
        if segment.has(FIN) {
            me.fin.get_or_insert(view.data_end);
        }
        if let Some((value, _)) = segment.options.timestamps {
            me.clock.sent(value);
        }
        me.sent.trim();
        if let Some(ack) = view.ack {
            self.acknowledge(view, ack);
        }
    }

    /// The other end's stream is acknowledged up to `ack`.
    fn acknowledge(&mut self, view: &View<'_>, ack: i64) {
        let closed_for = view.segment.window == 0 && !view.segment.has(SYN);
        let peer = &mut self.ends[1 - view.me];
        if peer.acked.is_none_or(|before| ack >= before) {
            peer.closed_since = if closed_for { peer.closed_since.or(Some(view.nanos)) } else { None };
            peer.last_window = view.segment.window;
        }
        peer.acked = Some(peer.acked.map_or(ack, |before| before.max(ack)));
        if !peer.seen() || peer.doubt.is_some() {
            return;
        }
        let data = peer.fin.map_or(ack, |fin| ack.min(fin));
        // A SYN's own number is no byte of the stream.
        if data > 0 && peer.sent.acknowledged(data.min(peer.highest)) {
            self.incomplete = true;
        }
    }

    /// What was agreed on, when both SYNs were seen.
    pub(crate) fn agreed<T>(&self, what: impl Fn(&Syn) -> T) -> Option<[T; 2]> {
        let [Some(a), Some(b)] = [&self.ends[0].syn, &self.ends[1].syn] else { return None };
        (a.has_ack || b.has_ack).then(|| [what(a), what(b)])
    }

    /// The shift of windows that end `me` offers in segments without SYN.
    pub(crate) fn window_scale(&self, me: usize) -> Option<u8> {
        let scales = self.agreed(|syn| syn.window_scale)?;
        Some(match scales {
            [Some(_), Some(_)] => scales[me].map_or(0, |scale| scale.min(14)),
            _ => 0,
        })
    }

    /// Ends the flow: its report, and what is left of its findings.
    pub(crate) fn finish(mut self, capture_dropped: bool) -> (FlowReport, Vec<Finding>) {
        self.incomplete |= capture_dropped || self.ends.iter().any(|end| end.doubt.is_some());
        let excused = |rule: &Rule| self.incomplete && rule.needs_all_packets();
        let mut totals = (0, 0, 0);
        for (rule, (count, severity)) in &self.counts {
            match severity {
                _ if excused(rule) => totals.0 += count,
                Severity::Error => totals.1 += count,
                Severity::Warning => totals.2 += count,
            }
        }
        let both = |value: fn(&End) -> u64| [value(&self.ends[0]), value(&self.ends[1])];
        let report = FlowReport {
            from: self.ends[0].address,
            to: self.ends[1].address,
            protocol: "tcp",
            packets: both(|end| end.packets),
            bytes: both(|end| end.bytes),
            retransmissions: both(|end| end.retransmissions),
            super_segments: both(|end| end.super_segments),
            partial_checksums: both(|end| end.partial_checksums),
            from_start: self.agreed(|_| ()).is_some(),
            incomplete: self.incomplete,
            excused: totals.0,
            errors: totals.1,
            warnings: totals.2,
        };
        let findings = self.findings.iter().filter(|finding| !excused(&finding.rule)).cloned().collect();
        (report, findings)
    }
}

impl Ecn {
    /// What the SYNs agreed on (RFC 3168 §6.1.1, RFC 9768 §3.1).
    pub(crate) fn of(flow: &Flow) -> Ecn {
        use crate::segment::{AE, CWR, ECE};
        let (Some([a, b]), Some([a_acks, _])) = (flow.agreed(|syn| syn.ecn), flow.agreed(|syn| syn.has_ack)) else {
            return Ecn::Unknown;
        };
        let (asked, answered) = if a_acks { (b, a) } else { (a, b) };
        match (asked, answered) {
            (asked, answered) if asked == ECE | CWR && answered & (ECE | CWR) == ECE => Ecn::Classic,
            // An old peer reflects all bits; it means nothing.
            (asked, answered) if asked == AE | ECE | CWR && answered != 0 && answered != AE | ECE | CWR => {
                if answered == ECE {
                    Ecn::Classic
                } else {
                    Ecn::Accurate
                }
            }
            _ => Ecn::Off,
        }
    }
}
