//! For each rule a trace that keeps it and one that breaks it, packet by packet.

use crate::capture::{Ending, Packet};
use crate::checker::{Checker, Options, Report};
use crate::datagram::sum;
use crate::finding::{Rule, Severity};
use crate::segment::{ACK, AE, CWR, ECE, FIN, RST, SYN, URG};

const LINKTYPE_RAW: u32 = 101;
const MILLI: u64 = 1_000_000;

/// The sender.
#[derive(Clone, Copy, PartialEq)]
enum From {
    Client,
    Server,
}
use self::From::{Client, Server};

/// A segment to be written.
#[derive(Clone)]
struct Packet4 {
    from: From,
    flags: u16,
    seq: u32,
    ack: u32,
    window: u16,
    payload: Vec<u8>,
    options: Vec<u8>,
    urgent: u16,
    ecn: u8,
    spoil: u16,
    partial: bool,
}

fn segment(from: From, flags: u16, seq: u32, ack: u32) -> Packet4 {
    let (payload, options) = (Vec::new(), Vec::new());
    Packet4 { from, flags, seq, ack, window: 1000, payload, options, urgent: 0, ecn: 0, spoil: 0, partial: false }
}

impl Packet4 {
    fn data(mut self, len: usize) -> Packet4 {
        let start = self.seq as usize;
        self.payload = (start..start + len).map(|at| at as u8).collect();
        self
    }

    fn bytes(mut self, payload: &[u8]) -> Packet4 {
        self.payload = payload.to_vec();
        self
    }

    fn window(mut self, window: u16) -> Packet4 {
        self.window = window;
        self
    }

    fn options(mut self, options: &[u8]) -> Packet4 {
        self.options.extend(options);
        while !self.options.len().is_multiple_of(4) {
            self.options.push(1);
        }
        self
    }

    fn times(self, value: u32, echo: u32) -> Packet4 {
        let mut option = vec![8, 10];
        option.extend(value.to_be_bytes());
        option.extend(echo.to_be_bytes());
        self.options(&option)
    }

    fn sack(self, blocks: &[(u32, u32)]) -> Packet4 {
        let mut option = vec![5, 2 + 8 * blocks.len() as u8];
        for (left, right) in blocks {
            option.extend(left.to_be_bytes());
            option.extend(right.to_be_bytes());
        }
        self.options(&option)
    }

    fn urgent(mut self, pointer: u16) -> Packet4 {
        self.urgent = pointer;
        self
    }

    fn ecn(mut self, ecn: u8) -> Packet4 {
        self.ecn = ecn;
        self
    }

    fn spoiled(mut self) -> Packet4 {
        self.spoil = 1;
        self
    }

    fn partial(mut self) -> Packet4 {
        self.partial = true;
        self
    }

    fn write(&self) -> Vec<u8> {
        let mut tcp = Vec::new();
        let (source, destination) = if self.from == Client { (1000_u16, 80_u16) } else { (80, 1000) };
        tcp.extend(source.to_be_bytes());
        tcp.extend(destination.to_be_bytes());
        tcp.extend(self.seq.to_be_bytes());
        tcp.extend(self.ack.to_be_bytes());
        tcp.extend((((5 + self.options.len() / 4) << 12) as u16 | self.flags).to_be_bytes());
        tcp.extend(self.window.to_be_bytes());
        tcp.extend([0, 0]);
        tcp.extend(self.urgent.to_be_bytes());
        tcp.extend(&self.options);
        tcp.extend(&self.payload);
        let (a, b) = if self.from == Client { (1, 2) } else { (2, 1) };
        let addresses = [10, 0, 0, a, 10, 0, 0, b];
        let pseudo = sum(sum(sum(0, &addresses), &[0, 6]), &(tcp.len() as u16).to_be_bytes());
        let field = if self.partial { pseudo } else { !sum(pseudo, &tcp) };
        tcp[16..18].copy_from_slice(&field.wrapping_add(self.spoil).to_be_bytes());
        let total = (20 + tcp.len()) as u16;
        let mut ip = vec![0x45, self.ecn, (total >> 8) as u8, total as u8, 0, 0, 0x40, 0, 64, 6, 0, 0];
        ip.extend(addresses);
        let header = !sum(0, &ip);
        ip[10..12].copy_from_slice(&header.to_be_bytes());
        ip.extend(tcp);
        ip
    }
}

/// Checks segments that were captured at these milliseconds, at the client when `local`.
fn check(local: &[From], packets: &[(u64, Packet4)]) -> Report {
    let address = |from: &From| [10, 0, 0, if *from == Client { 1 } else { 2 }].into();
    let mut checker = Checker::new(Options { local: local.iter().map(address).collect(), ..Options::default() });
    for (number, (millis, packet)) in packets.iter().enumerate() {
        let bytes = packet.write();
        let number = number as u64 + 1;
        let original_len = bytes.len() as u32;
        checker.packet(&Packet::bare(number, millis * MILLI, LINKTYPE_RAW, (&bytes, original_len)));
    }
    checker.finish(Ending::default())
}

fn rules(report: &Report) -> Vec<Rule> {
    let mut rules: Vec<Rule> = report.findings.iter().map(|finding| finding.rule).collect();
    rules.dedup();
    rules
}

const OFFERS: &[u8] = &[2, 4, 5, 180, 4, 2];

/// A handshake with MSS 1460 and SACK, windows of 1000, then what is given from 30 ms on.
fn opened(more: &[(u64, Packet4)]) -> Vec<(u64, Packet4)> {
    opened_with(OFFERS, more)
}

fn opened_with(offers: &[u8], more: &[(u64, Packet4)]) -> Vec<(u64, Packet4)> {
    let mut all = vec![
        (0, segment(Client, SYN, 99, 0).options(offers)),
        (10, segment(Server, SYN | ACK, 499, 100).options(offers)),
        (20, segment(Client, ACK, 100, 500)),
    ];
    all.extend_from_slice(more);
    all
}

/// Handshake with timestamps 1 and 50.
fn opened_with_times(more: &[(u64, Packet4)]) -> Vec<(u64, Packet4)> {
    let mut all = vec![
        (0, segment(Client, SYN, 99, 0).times(1, 0)),
        (10, segment(Server, SYN | ACK, 499, 100).times(50, 1)),
        (20, segment(Client, ACK, 100, 500).times(2, 50)),
    ];
    all.extend_from_slice(more);
    all
}

/// `good` keeps every rule; `bad` breaks this one and no other, seen from anywhere.
fn keeps_and_breaks(rule: Rule, good: &[(u64, Packet4)], bad: &[(u64, Packet4)]) {
    keeps_and_breaks_at(&[], rule, good, bad);
}

fn keeps_and_breaks_at(local: &[From], rule: Rule, good: &[(u64, Packet4)], bad: &[(u64, Packet4)]) {
    let report = check(local, good);
    assert_eq!(rules(&report), [], "{:#?}", report.findings);
    let report = check(local, bad);
    assert_eq!(rules(&report), [rule], "{:#?}", report.findings);
    let errors = u64::from(report.findings[0].severity == Severity::Error);
    assert!(report.errors >= errors && report.errors + report.warnings >= 1);
}

/// A whole connection: open, data both ways, a lost segment and its repetition, close.
#[test]
fn a_good_connection() {
    let trace = opened(&[
        (30, segment(Client, ACK, 100, 500).data(300)),
        (40, segment(Server, ACK, 500, 400).data(200)),
        (50, segment(Client, ACK, 400, 700).data(100)),
        (51, segment(Client, ACK, 500, 700).data(100)),
        (60, segment(Server, ACK, 700, 400).sack(&[(500, 600)])),
        (61, segment(Client, ACK, 400, 700).data(100)),
        (70, segment(Server, ACK | FIN, 700, 600)),
        (80, segment(Client, ACK | FIN, 600, 701)),
        (90, segment(Server, ACK, 701, 601)),
    ]);
    for local in [&[][..], &[Client], &[Server], &[Client, Server]] {
        let report = check(local, &trace);
        assert_eq!(report.findings, []);
        assert_eq!((report.packets, report.flows.len()), (12, 1));
        let flow = &report.flows[0];
        assert_eq!((flow.packets, flow.bytes, flow.retransmissions), ([7, 5], [600, 200], [1, 0]));
        assert!(flow.from_start && !flow.incomplete);
    }
}

#[test]
fn checksums() {
    let good = opened(&[(30, segment(Client, ACK, 100, 500).data(9).partial()), (40, segment(Server, ACK, 500, 109))]);
    let bad = opened(&[(30, segment(Client, ACK, 100, 500).data(9).spoiled())]);
    keeps_and_breaks(Rule::TcpChecksum, &good, &bad);
    assert_eq!(check(&[], &good).flows[0].partial_checksums, [1, 0]);
}

#[test]
fn flags() {
    let good = opened(&[]);
    keeps_and_breaks(Rule::Flags, &good, &[(0, segment(Client, SYN | FIN, 99, 0))]);
    keeps_and_breaks(Rule::AckFlag, &good, &opened(&[(30, segment(Client, FIN, 100, 0))]));
    keeps_and_breaks(Rule::ReservedBits, &good, &opened(&[(30, segment(Client, ACK | 0x200, 100, 500))]));
}

#[test]
fn options() {
    let good = opened(&[(30, segment(Client, ACK, 100, 500).options(&[254, 4, 0, 0]))]);
    keeps_and_breaks(Rule::OptionForm, &good, &opened(&[(30, segment(Client, ACK, 100, 500).options(&[254, 40]))]));
    keeps_and_breaks(Rule::SynOption, &good, &opened(&[(30, segment(Client, ACK, 100, 500).options(&[2, 4, 5, 180]))]));
    keeps_and_breaks(Rule::WindowScale, &good, &[(0, segment(Client, SYN, 99, 0).options(&[3, 3, 15]))]);
    let unasked = [(0, segment(Client, SYN, 99, 0)), (10, segment(Server, SYN | ACK, 499, 100).options(&[3, 3, 7]))];
    keeps_and_breaks(Rule::SynAckOption, &good, &unasked);
}

#[test]
fn handshake() {
    let good = [(0, segment(Client, SYN, 99, 0)), (1000, segment(Client, SYN, 99, 0)), (3000, segment(Client, SYN, 99, 0))];
    keeps_and_breaks(Rule::SynTimeout, &good, &[(0, segment(Client, SYN, 99, 0)), (300, segment(Client, SYN, 99, 0))]);
    keeps_and_breaks_at(&[Client], Rule::SynTimeout, &good, &[(0, good[0].1.clone()), (900, good[0].1.clone())]);
    let wrong = [(0, segment(Client, SYN, 99, 0)), (10, segment(Server, SYN | ACK, 499, 5000))];
    keeps_and_breaks(Rule::SynAckNumber, &good, &wrong);
}

#[test]
fn acknowledgments() {
    let good = opened(&[(30, segment(Client, ACK, 100, 500).data(100)), (40, segment(Server, ACK, 500, 200))]);
    // The server acknowledges 300 bytes that were never sent; the client goes on where it was.
    let bad = opened(&[
        (30, segment(Client, ACK, 100, 500).data(100)),
        (40, segment(Server, ACK, 500, 500)),
        (50, segment(Client, ACK, 200, 500).data(100)),
    ]);
    keeps_and_breaks(Rule::AckUnsent, &good, &bad);
    let back = opened(&[
        (30, segment(Client, ACK, 100, 500).data(100)),
        (40, segment(Server, ACK, 500, 200)),
        (50, segment(Server, ACK, 500, 150).window(1050)),
    ]);
    keeps_and_breaks_at(&[Server], Rule::AckBackwards, &good, &back);
    // Far from the server the network may have swapped them.
    assert_eq!(rules(&check(&[Client], &back)), []);
    let ahead = opened(&[(30, segment(Client, ACK, 150, 500))]);
    keeps_and_breaks_at(&[Client], Rule::AckSequence, &good, &ahead);
}

/// The client goes on behind what was acknowledged: the capture lacks a packet, and says so.
#[test]
fn missing_packets_are_blamed_on_neither_end() {
    let trace = opened(&[
        (30, segment(Client, ACK, 100, 500).data(100)),
        (40, segment(Server, ACK, 500, 500)),
        (50, segment(Client, ACK, 500, 500).data(100)),
        (60, segment(Server, ACK, 500, 900)),
    ]);
    let report = check(&[], &trace);
    assert_eq!(report.findings, []);
    assert!(report.flows[0].incomplete);
}

#[test]
fn windows() {
    let good = opened(&[(30, segment(Client, ACK, 100, 500).data(1000)), (40, segment(Server, ACK, 500, 1100))]);
    keeps_and_breaks(Rule::BeyondWindow, &good, &opened(&[(30, segment(Client, ACK, 100, 500).data(1001))]));
    // A window of 1000 with a shift of one.
    let scaled = opened_with(&[2, 4, 5, 180, 3, 3, 1], &[(25, segment(Server, ACK, 500, 100))]);
    let with = |len| {
        [&scaled[..], &[(30, segment(Client, ACK, 100, 500).data(1400)), (31, segment(Client, ACK, 1500, 500).data(len))]]
            .concat()
    };
    keeps_and_breaks(Rule::BeyondWindow, &with(600), &with(601));
    let shrunk = opened(&[(30, segment(Client, ACK, 100, 500).data(100)), (40, segment(Server, ACK, 500, 200).window(800))]);
    keeps_and_breaks(Rule::WindowShrunk, &good, &shrunk);
}

#[test]
fn probes_of_a_closed_window() {
    let closed = opened(&[(30, segment(Client, ACK, 100, 500).data(1000)), (40, segment(Server, ACK, 500, 1100).window(0))]);
    let then = |at, len| [&closed[..], &[(at, segment(Client, ACK, 1100, 500).data(len))]].concat();
    keeps_and_breaks_at(&[Client], Rule::BeyondWindow, &then(300, 1), &then(300, 2));
    keeps_and_breaks_at(&[Client], Rule::WindowProbe, &then(300, 1), &then(50, 1));
}

#[test]
fn bytes_stay_the_same() {
    let first = (30, segment(Client, ACK, 100, 500).bytes(b"hello"));
    let good = opened(&[first.clone(), (330, segment(Client, ACK, 100, 500).bytes(b"hello, w"))]);
    let bad = opened(&[first.clone(), (330, segment(Client, ACK, 100, 500).bytes(b"help"))]);
    keeps_and_breaks(Rule::Content, &good, &bad);
    // A keepalive repeats an acknowledged octet, whatever its value.
    let keepalive = opened(&[first, (40, segment(Server, ACK, 500, 105)), (900, segment(Client, ACK, 104, 500).bytes(b"?"))]);
    assert_eq!(rules(&check(&[], &keepalive)), []);
}

#[test]
fn nothing_after_fin() {
    let fin = (30, segment(Client, ACK | FIN, 100, 500));
    let good = opened(&[fin.clone(), (40, segment(Server, ACK, 500, 101)), (50, segment(Client, ACK, 101, 500))]);
    keeps_and_breaks(Rule::DataAfterFin, &good, &opened(&[fin.clone(), (40, segment(Client, ACK, 100, 500).data(5))]));
    let data = (29, segment(Client, ACK, 100, 500).data(50));
    let moved = opened(&[data, (30, segment(Client, ACK | FIN, 150, 500)), (500, segment(Client, ACK | FIN, 140, 500))]);
    keeps_and_breaks(Rule::FinMoved, &good, &moved);
}

#[test]
fn nothing_after_reset() {
    let reset = (30, segment(Client, RST | ACK, 100, 500));
    let good = opened(&[reset.clone(), (40, segment(Client, RST, 100, 0))]);
    keeps_and_breaks(Rule::AfterReset, &good, &opened(&[reset, (40, segment(Client, ACK, 100, 500).data(5))]));
}

#[test]
fn timestamps() {
    let good = opened_with_times(&[
        (30, segment(Client, ACK, 100, 500).data(5).times(3, 50)),
        (40, segment(Server, ACK, 500, 105).times(51, 3)),
    ]);
    let with = |packet: Packet4| opened_with_times(&[(30, packet)]);
    keeps_and_breaks(Rule::TimestampMissing, &good, &with(segment(Client, ACK, 100, 500).data(5)));
    keeps_and_breaks(Rule::TimestampBackwards, &good, &with(segment(Client, ACK, 100, 500).data(5).times(0, 50)));
    keeps_and_breaks(Rule::TimestampEcho, &good, &with(segment(Client, ACK, 100, 500).data(5).times(3, 49)));
    let unasked = opened(&[(30, segment(Client, ACK, 100, 500).times(3, 50))]);
    keeps_and_breaks(Rule::TimestampUnasked, &good, &unasked);
}

#[test]
fn sack() {
    let sent = opened(&[(30, segment(Client, ACK, 100, 500).data(400)), (31, segment(Client, ACK, 500, 500).data(400))]);
    let with = |blocks: &[(u32, u32)]| [&sent[..], &[(40, segment(Server, ACK, 500, 200).sack(blocks))]].concat();
    let good = with(&[(500, 600), (300, 400), (700, 800)]);
    // RFC 2883: a duplicate below the acknowledgment, or inside the second block.
    for duplicate in [&[(150, 200), (500, 600)][..], &[(520, 560), (500, 600)]] {
        assert_eq!(rules(&check(&[], &with(duplicate))), []);
    }
    keeps_and_breaks(Rule::SackForm, &good, &with(&[(600, 500)]));
    keeps_and_breaks(Rule::SackForm, &good, &with(&[(500, 600), (550, 700)]));
    keeps_and_breaks(Rule::SackForm, &good, &with(&[(500, 600), (150, 180)]));
    keeps_and_breaks(Rule::SackUnsent, &good, &with(&[(500, 5000)]));
    let data = [(30, segment(Client, ACK, 100, 500).data(400)), (40, segment(Server, ACK, 500, 200).sack(&[(300, 400)]))];
    keeps_and_breaks(Rule::SackUnasked, &good, &opened_with(&[2, 4, 5, 180], &data));
}

#[test]
fn segment_size() {
    // The server's MSS is 100.
    let small = |len, partial: bool| {
        let data = segment(Client, ACK, 100, 500).data(len);
        vec![
            (0, segment(Client, SYN, 99, 0)),
            (10, segment(Server, SYN | ACK, 499, 100).options(&[2, 4, 0, 100])),
            (20, if partial { data.partial() } else { data }),
        ]
    };
    keeps_and_breaks(Rule::SegmentSize, &small(100, false), &small(101, false));
    // What an interface is to cut is no violation.
    let report = check(&[], &small(1000, true));
    assert_eq!((rules(&report), report.flows[0].super_segments), (vec![], [1, 0]));
}

#[test]
fn retransmission() {
    let sent = opened(&[(30, segment(Client, ACK, 100, 500).data(100)), (31, segment(Client, ACK, 200, 500).data(100))]);
    let again = |at| [&sent[..], &[(at, segment(Client, ACK, 100, 500).data(100))]].concat();
    keeps_and_breaks(Rule::RetransmitTimeout, &again(235), &again(80));
    // A SACK block is a sign of loss, and the last segment may be a probe (RFC 8985 §7).
    let told =
        [&sent[..], &[(40, segment(Server, ACK, 500, 100).sack(&[(200, 300)])), (41, segment(Client, ACK, 100, 500).data(100))]];
    assert_eq!(rules(&check(&[Client], &told.concat())), []);
    let probe = [&sent[..], &[(80, segment(Client, ACK, 200, 500).data(100))]];
    assert_eq!(rules(&check(&[Client], &probe.concat())), []);
}

#[test]
fn delayed_acknowledgments() {
    let answer = |at| opened(&[(30, segment(Client, ACK, 100, 500).data(100)), (at, segment(Server, ACK, 500, 200))]);
    keeps_and_breaks_at(&[Server], Rule::DelayedAck, &answer(230), &answer(700));
    // Far from the receiver the way takes time too.
    assert_eq!(rules(&check(&[Client], &answer(700))), []);
    let full = |count: u32| {
        let data = |at: u32| (30 + u64::from(at), segment(Client, ACK, 100 + 300 * at, 500).data(300));
        let mut all = vec![
            (0, segment(Client, SYN, 99, 0)),
            (10, segment(Server, SYN | ACK, 499, 100).options(&[2, 4, 1, 44])),
            (20, segment(Client, ACK, 100, 500)),
        ];
        all.extend((0..count).map(data));
        all.push((50, segment(Server, ACK, 500, 100 + 300 * count)));
        all
    };
    keeps_and_breaks_at(&[Server], Rule::StretchAck, &full(2), &full(3));
}

#[test]
fn ecn() {
    let agreed = |more: &[(u64, Packet4)]| {
        let mut all = vec![
            (0, segment(Client, SYN | ECE | CWR, 99, 0)),
            (10, segment(Server, SYN | ACK | ECE, 499, 100)),
            (20, segment(Client, ACK, 100, 500)),
        ];
        all.extend_from_slice(more);
        all
    };
    let marked = (30, segment(Client, ACK, 100, 500).data(100).ecn(3));
    let good = agreed(&[marked.clone(), (40, segment(Server, ACK | ECE, 500, 200))]);
    keeps_and_breaks(Rule::EcnUnasked, &good, &opened(&[(30, segment(Client, ACK, 100, 500).data(100).ecn(2))]));
    keeps_and_breaks(Rule::EcnUnasked, &good, &opened(&[(30, segment(Client, ACK | CWR, 100, 500).data(100))]));
    keeps_and_breaks(Rule::EcnControl, &good, &agreed(&[(30, segment(Client, ACK, 100, 500).ecn(2))]));
    keeps_and_breaks_at(&[Server], Rule::EcnEcho, &good, &agreed(&[marked, (40, segment(Server, ACK, 500, 200))]));
    // RFC 9768: the bits count, whatever they are.
    let accurate = [
        (0, segment(Client, SYN | ECE | CWR | AE, 99, 0)),
        (10, segment(Server, SYN | ACK | CWR, 499, 100)),
        (20, segment(Client, ACK | ECE, 100, 500)),
        (30, segment(Client, ACK | ECE | AE, 100, 500).data(100).ecn(1)),
    ];
    assert_eq!(rules(&check(&[], &accurate)), []);
}

#[test]
fn urgent() {
    let first = (30, segment(Client, ACK | URG, 100, 500).data(10).urgent(50));
    let then = |pointer| opened(&[first.clone(), (31, segment(Client, ACK | URG, 110, 500).data(10).urgent(pointer))]);
    keeps_and_breaks(Rule::Urgent, &then(40), &then(39));
    // Sent again from further back the pointer reaches less far than before: its field ends there.
    let far = (30, segment(Client, ACK | URG, 200, 500).data(10).urgent(u16::MAX));
    let back = |pointer| opened(&[far.clone(), (31, segment(Client, ACK | URG, 100, 500).data(10).urgent(pointer))]);
    keeps_and_breaks(Rule::Urgent, &back(u16::MAX), &then(39));
    keeps_and_breaks(Rule::Urgent, &then(60), &opened(&[(30, segment(Client, ACK, 100, 500).urgent(7))]));
}

/// A second connection of the same addresses is another flow.
#[test]
fn ports_are_used_again() {
    let close = [
        (30, segment(Client, ACK | FIN, 100, 500)),
        (40, segment(Server, ACK | FIN, 500, 101)),
        (50, segment(Client, ACK, 101, 501)),
    ];
    let mut trace = opened(&close);
    trace.push((5_000, segment(Client, SYN, 7_000_000, 0)));
    trace.push((5_010, segment(Server, SYN | ACK, 90, 7_000_001)));
    trace.push((5_020, segment(Client, ACK, 7_000_001, 91)));
    let report = check(&[Client, Server], &trace);
    assert_eq!((report.findings.len(), report.flows.len()), (0, 2));
}

/// A forged SYN (RFC 5961 §4) is no new connection, and what follows is still checked.
#[test]
fn a_forged_syn_changes_nothing() {
    let mut trace = opened(&[(30, segment(Client, SYN, 123_456, 0)), (40, segment(Client, ACK, 100, 500).data(10))]);
    let report = check(&[], &trace);
    assert_eq!((report.findings.len(), report.flows.len()), (0, 1));
    trace.push((50, segment(Client, ACK, 110, 500).data(1100)));
    assert_eq!(rules(&check(&[], &trace)), [Rule::BeyondWindow]);
}

/// One direction alone, from the middle: nothing can be said, so nothing is.
#[test]
fn half_a_connection() {
    let trace: Vec<_> = (0..20).map(|at| (at, segment(Client, ACK, 100 + 500 * at as u32, 500).data(500))).collect();
    let report = check(&[Client], &trace);
    assert_eq!(report.findings, []);
    assert!(!report.flows[0].from_start);
}

/// Every rule has a name of its own and says where it is written.
#[test]
fn rules_are_told_apart() {
    let mut names: Vec<&str> = Rule::ALL.iter().map(|rule| rule.id()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Rule::ALL.len());
    assert!(Rule::ALL.iter().all(|rule| rule.document().starts_with("RFC ")));
}
