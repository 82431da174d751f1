//! RFC 9768: the handshake and its fallbacks, counters in both directions, paths that garble.

use alloc::vec;
use alloc::vec::Vec;

use super::rig::*;
use crate::config::Ecn;
use crate::family::{Family, in_both_families};
use crate::stats::Counter;
use crate::tcp::accurate::{ace, set_ace};
use crate::wire::tcp::{ACK, ByteCounters, CWR, ECE, Header, SYN};

impl Seg {
    /// Sets AE, CWR and ECE to this number.
    fn ace(mut self, number: u32) -> Seg {
        let mut header = Header { flags: self.flags, ..Header::default() };
        set_ace(&mut header, number);
        (self.flags, self.ae) = (header.flags, header.ae);
        self
    }

    fn counts(mut self, ect_1: u32, ce: u32, ect_0: u32) -> Seg {
        self.options.add_counters(ByteCounters::all([ect_1, ce, ect_0]), 12);
        self
    }

    fn number(&self) -> u32 {
        ace(&Header { flags: self.flags, ae: self.ae, ..Header::default() })
    }
}

fn numbers(sent: &[Seg]) -> Vec<(u32, u8)> {
    sent.iter().map(|segment| (segment.number(), segment.ecn)).collect()
}

fn syn() -> Seg {
    seg(SYN, 0, 0).mss(MSS as u16).ace(0b111)
}

/// A connection opened by a peer that asked for accurate feedback; its last ACK says `last`.
fn accepted(last: Seg) -> Rig {
    let mut rig = Rig::with(speaking(Ecn::AccuratePassive));
    let listener = rig.listen(newreno(), 16);
    rig.receive(syn());
    assert_eq!(numbers(&rig.sent()), vec![(0b010, NOT_ECT)]);
    rig.receive(last);
    rig.id = rig.stack.accept(listener, NAME).expect("one connection waits");
    rig.events();
    rig
}

fn agreed() -> Rig {
    accepted(seg(ACK, 1, 1).ace(0b010).counts(1, 0, 1))
}

/// Table 2: the server's answer, by the request and by the mark that the SYN had.
#[test]
fn passive_handshake() {
    let answer = |ecn: Ecn, syn: Seg| {
        let mut rig = Rig::with(speaking(ecn));
        rig.listen(newreno(), 16);
        rig.receive(syn.mss(MSS as u16));
        let sent = rig.sent();
        (sent[0].number(), sent[0].options.counters().is_some())
    };
    let accurate = Ecn::AccuratePassive;
    assert_eq!(answer(accurate, syn()), (0b010, true));
    assert_eq!(answer(accurate, syn().ecn(ECT_1)), (0b011, true));
    assert_eq!(answer(accurate, syn().ecn(ECT_0)), (0b100, true));
    assert_eq!(answer(accurate, syn().ecn(CE)), (0b110, true));
    assert_eq!(answer(accurate, syn().ace(0b011)), (0b001, false), "a classic client");
    assert_eq!(answer(accurate, syn().ace(0)), (0, false));
    // §3.1.3: whatever later documents may mean by it.
    assert_eq!(answer(accurate, syn().ace(0b100)), (0b010, true));
    assert_eq!(answer(Ecn::Passive, syn()), (0b001, false), "a classic server");
    assert_eq!(answer(Ecn::Off, syn()), (0, false));
}

/// Table 2: the client's reaction to each answer.
#[test]
fn active_handshake() {
    // The answer, the ACE of its ACK, and the mark of data.
    let cases = [
        (0b010, 0b010, ECT_0),
        (0b011, 0b010, NOT_ECT), // our SYN was not marked
        (0b100, 0b010, NOT_ECT),
        (0b110, 0b010, NOT_ECT),
        (0b001, 0, ECT_0),
        (0b101, 0b010, ECT_0), // §3.1.3: reserved
        (0b000, 0, NOT_ECT),
        (0b111, 0, NOT_ECT),
    ];
    for (answer, ack, data) in cases {
        let mut rig = Rig::with(speaking(Ecn::AccurateRequest));
        rig.connect(newreno());
        assert_eq!(numbers(&rig.sent()), vec![(0b111, NOT_ECT)]);
        rig.receive(seg(SYN | ACK, 0, 1).mss(MSS as u16).ace(answer));
        assert_eq!(rig.sent()[0].number(), ack, "{answer:03b}");
        rig.send(1, 100);
        assert_eq!(rig.sent()[0].ecn, data, "{answer:03b}");
    }
}

/// Table 3: the ACK of the SYN-ACK reflects the SYN-ACK's field; a mark on it counts.
#[test]
fn reflection() {
    for (field, reflected, first) in [(NOT_ECT, 0b010, 5), (ECT_1, 0b011, 5), (ECT_0, 0b100, 5), (CE, 0b110, 6)] {
        let mut rig = Rig::with(speaking(Ecn::AccurateRequest));
        rig.connect(newreno());
        rig.sent();
        rig.receive(seg(SYN | ACK, 0, 1).mss(MSS as u16).ace(0b010).ecn(field));
        assert_eq!(numbers(&rig.sent()), vec![(reflected, ECT_0)]);
        rig.send(1, 100);
        assert_eq!(rig.sent()[0].number(), first);
    }
}

/// §3.1.4.1: a lost SYN is sent once more unchanged, then without the request.
#[test]
fn lost_syns() {
    let mut rig = Rig::with(speaking(Ecn::AccurateRequest));
    rig.connect(newreno());
    let tries: Vec<u32> = (0..3).map(|_| rig.next_sent().1[0].number()).collect();
    assert_eq!(tries, vec![0b111, 0b111, 0]);
    // The answer is to one of the first.
    rig.receive(seg(SYN | ACK, 0, 1).mss(MSS as u16).ace(0b010));
    assert!(rig.info().ecn);
    let mut rig = Rig::with(speaking(Ecn::AccurateRequest));
    rig.connect(newreno());
    (0..3).for_each(|_| drop(rig.next_sent()));
    rig.receive(seg(SYN | ACK, 0, 1).mss(MSS as u16));
    assert!(!rig.info().ecn);
}

/// §3.1.1: two ends that open at once agree on the mode that both ask for.
#[test]
fn simultaneous_opens() {
    let cases = [
        (Ecn::AccurateRequest, 0b111, 0b010, ECT_0),
        (Ecn::AccurateRequest, 0b011, 0b001, ECT_0),
        (Ecn::AccurateRequest, 0b000, 0b000, NOT_ECT),
        (Ecn::Request, 0b011, 0b001, ECT_0),
        (Ecn::Request, 0b111, 0b001, ECT_0),
        (Ecn::AccuratePassive, 0b111, 0b000, NOT_ECT),
    ];
    for (ours, theirs, answer, data) in cases {
        let mut rig = Rig::with(speaking(ours));
        rig.connect(newreno());
        rig.sent();
        rig.receive(seg(SYN, 0, 0).mss(MSS as u16).ace(theirs));
        assert_eq!(numbers(&rig.sent()), vec![(answer, NOT_ECT)], "{ours:?} {theirs:03b}");
        let last = if answer == 0b010 { 0b010 } else { 0 };
        rig.receive(seg(ACK, 1, 1).ace(last));
        rig.send(1, 100);
        assert_eq!(rig.sent()[0].ecn, data, "{ours:?} {theirs:03b}");
    }
}

/// §3.1.5: a server that has sent, or received, no ECN in a handshake marks nothing, and gives feedback all the same.
#[test]
fn a_handshake_in_doubt_marks_nothing() {
    for is_asked_again in [false, true] {
        let mut rig = Rig::with(speaking(Ecn::AccuratePassive));
        let listener = rig.listen(newreno(), 16);
        rig.receive(syn().ecn(ECT_0));
        assert_eq!(numbers(&rig.sent()), vec![(0b100, NOT_ECT)]);
        if is_asked_again {
            rig.receive(seg(SYN, 0, 0).mss(MSS as u16));
            let sent = rig.sent();
            assert_eq!((numbers(&sent), sent[0].options.counters()), (vec![(0b010, NOT_ECT)], None));
        } else {
            let tries: Vec<u32> = (0..2).map(|_| rig.next_sent().1[0].number()).collect();
            assert_eq!(tries, vec![0b100, 0]);
        }
        rig.receive(seg(ACK, 1, 1).ace(0b010));
        rig.id = rig.stack.accept(listener, NAME).expect("one connection waits");
        rig.receive(seg(ACK, 1, 1).ace(5).data(100).ecn(CE));
        assert_eq!(numbers(&rig.sent()), vec![(6, NOT_ECT)]);
        rig.send(1, 100);
        assert_eq!(numbers(&rig.sent()), vec![(6, NOT_ECT)]);
    }
}

/// §3.1.4.2, §3.2.3.2.2: a lost SYN-ACK is sent again without the option, then without an answer.
#[test]
fn lost_syn_acks() {
    let mut rig = Rig::with(speaking(Ecn::AccuratePassive));
    rig.listen(newreno(), 16);
    rig.receive(syn());
    let mut tries = Vec::new();
    for _ in 0..3 {
        let sent = rig.next_sent().1;
        tries.push((sent[0].number(), sent[0].options.counters().is_some()));
    }
    assert_eq!(tries, vec![(0b010, true), (0b010, false), (0, false)]);
}

/// §3.2.2: marked packets are counted from 5 on, with or without payload; bytes by their field.
#[test]
fn receiver_counts() {
    let mut rig = agreed();
    rig.receive(seg(ACK, 1, 1).ace(5).data(100).ecn(CE));
    let sent = rig.sent();
    assert_eq!(numbers(&sent), vec![(6, ECT_0)], "at once");
    assert_eq!(sent[0].options.counters(), Some(ByteCounters::all([1, 100, 1])));
    rig.receive(seg(ACK, 101, 1).ace(5).data(100).ecn(ECT_0));
    let sent = rig.sent();
    assert_eq!(sent[0].options.counters(), Some(ByteCounters::all([1, 100, 101])), "a change is reported at once");
    rig.receive(seg(ACK, 201, 1).ace(5).data(100).ecn(ECT_1));
    assert_eq!(rig.sent()[0].options.counters(), Some(ByteCounters::all([101, 100, 101])));
    rig.receive_all([301, 401, 501].map(|at| seg(ACK, at, 1).ace(5).data(100).ecn(CE)));
    assert_eq!(numbers(&rig.sent()), vec![(9 & 7, ECT_0)], "the count wraps in its three bits");
    // Marked ACKs are reported when there are three; the ACKs that report them never answer each other.
    rig.receive(seg(ACK, 601, 1).ace(5).ecn(CE));
    rig.receive(seg(ACK, 601, 1).ace(5).ecn(CE));
    assert_eq!(rig.sent(), vec![]);
    rig.receive(seg(ACK, 601, 1).ace(5).ecn(CE));
    assert_eq!(numbers(&rig.sent()), vec![(12 & 7, ECT_0)]);
}

/// The option goes only to peers that have sent it; and it can be switched off.
#[test]
fn options_only_to_a_peer_that_sends_them() {
    let mut rig = accepted(seg(ACK, 1, 1).ace(0b010));
    rig.receive(seg(ACK, 1, 1).ace(5).data(100).ecn(CE));
    let sent = rig.sent();
    assert_eq!((sent[0].number(), sent[0].options.counters()), (6, None));
    rig.receive(seg(ACK, 101, 1).ace(5).data(100).ecn(CE).counts(1, 0, 1));
    assert!(rig.next_sent().1[0].options.counters().is_some());
}

/// §3.2.3.2.1: the first data of a client leaves space for the option; no segment exceeds a full one.
#[test]
fn option_beside_the_first_data() {
    let mut rig = Rig::with(speaking(Ecn::AccurateRequest));
    rig.connect(newreno());
    rig.sent();
    rig.receive(seg(SYN | ACK, 0, 1).mss(MSS as u16).ace(0b010).counts(1, 0, 1));
    assert!(rig.sent()[0].options.counters().is_some());
    rig.send(1, 3 * MSS);
    let shape: Vec<_> = rig.sent().iter().map(|s| (s.payload.len() as u32, s.options.counters().is_some())).collect();
    assert_eq!(shape, vec![(MSS - 12, true), (MSS, false), (MSS, false), (12, true)]);
}

/// Data that leaves space for the option carries it; a full segment never grows for it.
#[test]
fn options_beside_data() {
    let mut rig = agreed();
    rig.send(1, MSS + 100);
    let sent = rig.sent();
    let shape: Vec<_> = sent.iter().map(|s| (s.payload.len() as u32, s.options.counters().is_some())).collect();
    assert_eq!(shape, vec![(MSS, false), (100, true)]);
}

/// §3.2.2.5: the sender reduces once per window, however many marks there are, and counts them all.
#[test]
fn sender_reacts() {
    let mut rig = agreed();
    rig.send(1, 40 * MSS);
    assert!(rig.sent().iter().all(|segment| segment.ecn == ECT_0 && segment.number() == 5));
    let mut after = vec![];
    for n in 1..=10 {
        rig.receive(seg(ACK, 1, 1 + n * MSS).ace((5 + n) & 7));
        after.extend(rig.sent());
    }
    assert_eq!(rig.info().marks.delivered_ce, 10);
    assert_eq!(rig.count(Counter::TcpDeliveredCe), 10);
    assert_eq!(rig.info().congestion_state, 2);
    assert_eq!(rig.info().ssthresh_bytes, 5 * MSS);
    assert!(after.iter().all(|segment| segment.number() == 5), "CWR has no meaning of its own here");
}

/// Data that is counted goes into the answer's option, also while the count of marks stays.
#[test]
fn counts_of_data_in_order() {
    let mut rig = agreed();
    rig.receive(seg(ACK, 1, 1).ace(5).data(100).ecn(ECT_0).counts(1, 0, 1));
    rig.sent();
    rig.receive(seg(ACK, 101, 1).ace(5).data(100).ecn(ECT_0).counts(1, 0, 1));
    assert_eq!(rig.next_sent().1[0].options.counters(), Some(ByteCounters::all([1, 0, 201])));
    rig.send(1, 2 * MSS);
    rig.sent();
    rig.receive(seg(ACK, 201, 1 + MSS).ace(6).counts(1, MSS, 1));
    rig.receive(seg(ACK, 201, 1 + 2 * MSS).ace(6).counts(1, MSS, 1 + MSS));
    rig.send(1 + 2 * MSS, MSS);
    rig.sent();
    rig.receive(seg(ACK, 201, 1 + 3 * MSS).ace(6).counts(1, MSS, 1 + 2 * MSS));
    assert_eq!((rig.info().marks.delivered_ce, rig.info().congestion_state), (1, 0));
}

/// Appendix A.2: when one ACK covers more packets than ACE can count, the option decides; without it the worst case counts.
#[test]
fn stretched_acks() {
    for (counts, marks) in [(Some((1, 0, 1 + 11 * MSS)), 0), (Some((1, 8 * MSS, 1 + 3 * MSS)), 8), (None, 8)] {
        let mut rig = agreed();
        rig.send(1, MSS);
        rig.sent();
        // A peer that does not coalesce its ACKs.
        rig.receive(seg(ACK, 1, 1 + MSS).ace(5));
        rig.send(1 + MSS, 10 * MSS);
        rig.sent();
        let ack = seg(ACK, 1, 1 + 11 * MSS).ace(5);
        rig.receive(match counts {
            Some((ect_1, ce, ect_0)) => ack.counts(ect_1, ce, ect_0),
            None => ack,
        });
        assert_eq!(rig.info().marks.delivered_ce, marks, "{counts:?}");
    }
}

/// A late old ACK has no effect.
#[test]
fn reordered_acks() {
    let mut rig = agreed();
    rig.send(1, 4 * MSS);
    rig.sent();
    rig.receive(seg(ACK, 1, 1 + 3 * MSS).ace(7));
    assert_eq!(rig.info().marks.delivered_ce, 2);
    rig.receive(seg(ACK, 1, 1 + MSS).ace(6));
    rig.receive(seg(ACK, 1, 1 + 3 * MSS).ace(6));
    assert_eq!(rig.info().marks.delivered_ce, 2);
}

/// §3.2.2.3, §3.2.2.4: when the path changes fields or flags, feedback goes on and marking ends.
#[test]
fn garbled_ways() {
    // The client's ACK says that our SYN-ACK was ECN-capable, or nothing at all.
    for (last, marks) in [(0b011, 0), (0b100, 0), (0b000, 0), (0b110, 1)] {
        let mut rig = accepted(seg(ACK, 1, 1).ace(last));
        assert_eq!(rig.info().marks.delivered_ce, marks, "{last:03b}");
        rig.send(1, 100);
        assert_eq!(rig.sent()[0].ecn, NOT_ECT, "{last:03b}");
        rig.receive(seg(ACK, 1, 101).ace(5).data(100).ecn(CE));
        assert_eq!(numbers(&rig.sent()), vec![(6, NOT_ECT)]);
    }
    // Values unused today are accepted.
    for last in [0b001, 0b101, 0b111] {
        let mut rig = accepted(seg(ACK, 1, 1).ace(last));
        rig.send(1, 100);
        assert_eq!(rig.sent()[0].ecn, ECT_0, "{last:03b}");
    }
    // The path clears the flags of segments other than SYNs.
    let mut rig = agreed();
    rig.send(1, MSS);
    rig.sent();
    rig.receive(seg(ACK, 1, 1 + MSS).ace(0));
    assert_eq!(rig.info().marks.delivered_ce, 0);
    rig.send(1 + MSS, MSS);
    assert_eq!(rig.sent()[0].ecn, NOT_ECT);
}

/// The ACK of the handshake is lost: the first data carries no reflection but a count.
#[test]
fn data_completes_the_handshake() {
    let mut rig = accepted(seg(ACK, 1, 1).ace(6).data(100).ecn(CE));
    assert_eq!(numbers(&rig.sent()), vec![(6, ECT_0)]);
    rig.send(1, 100);
    rig.sent();
    rig.receive(seg(ACK, 101, 101).ace(6));
    assert_eq!(rig.info().marks.delivered_ce, 1);
}

/// With a classic peer an accurate host follows RFC 3168 completely.
#[test]
fn classic_fallback() {
    let mut rig = Rig::with(speaking(Ecn::AccurateRequest));
    rig.connect(newreno());
    rig.sent();
    rig.receive(seg(SYN | ACK | ECE, 0, 1).mss(MSS as u16));
    rig.sent();
    rig.receive(seg(ACK, 1, 1).data(100).ecn(CE));
    assert_eq!(rig.brief(), vec![(ACK | ECE, 1, 101, 0)]);
    rig.receive(seg(ACK | CWR, 101, 1).data(100).ecn(ECT_0));
    assert_eq!(rig.brief(), vec![(ACK, 1, 201, 0)]);
}

in_both_families! {
    marked_for_ever
    acks_that_vanish
    segments_that_vanish
}

/// A connection with SACK, and options both ways.
fn agreed_with_sack(family: Family) -> Rig {
    let mut config = speaking(Ecn::AccuratePassive);
    config.tcp.sack = true;
    let mut rig = Rig::of(family, config);
    let listener = rig.listen(newreno(), 16);
    rig.receive(syn().sack_permitted());
    rig.sent();
    rig.receive(seg(ACK, 1, 1).ace(0b010).counts(1, 0, 1));
    rig.id = rig.stack.accept(listener, NAME).expect("one connection waits");
    rig.events();
    rig
}

/// RFC 9768 §3.2.2.3: a path that marks everything, whatever the sender does, indicates no congestion: packets are no longer
/// ECN-capable. After one packet without a mark they stay ECN-capable.
fn marked_for_ever(family: Family) {
    for (spared, field) in [(None, NOT_ECT), (Some(3), ECT_0)] {
        let mut rig = agreed_with_sack(family);
        rig.send(1, 40 * MSS);
        assert!(rig.sent().iter().all(|segment| segment.ecn == ECT_0));
        let mut count = 5;
        for n in 1..=35 {
            count += u32::from(spared != Some(n));
            rig.receive(seg(ACK, 1, 1 + n * MSS).ace(count & 7));
            rig.sent();
        }
        assert_eq!(rig.info().cwnd_bytes, 2 * MSS, "every mark was counted");
        rig.receive(seg(ACK, 1, 1 + 40 * MSS).ace((count + 5) & 7));
        rig.send(1 + 40 * MSS, 100);
        let sent = rig.sent();
        assert_eq!(sent.iter().map(|segment| segment.ecn).collect::<Vec<_>>(), vec![field], "spared: {spared:?}");
        assert!(rig.info().marks.unmarked == spared.is_none() && sent[0].number() == 5, "feedback goes on");
    }
}

/// RFC 9768 §3.2.3.2.3: an ACK with the option and a D-SACK seems not to have reached the peer: the next go without.
fn acks_that_vanish(family: Family) {
    let mut rig = agreed_with_sack(family);
    let data = |at: u32| seg(ACK, at, 1).ace(5).data(100).ecn(ECT_0);
    let has_option = |rig: &mut Rig, segment: Seg| rig.receive_and_next(segment)[0].options.counters().is_some();
    assert!(has_option(&mut rig, data(1)));
    assert!(has_option(&mut rig, data(1)), "the first report");
    assert!(has_option(&mut rig, data(101)), "which has arrived");
    assert!(has_option(&mut rig, data(101)), "a report about another range");
    assert!(!has_option(&mut rig, data(101)), "which seems not to have arrived");
    assert!(!has_option(&mut rig, data(201)), "and so it stays");
    assert_eq!(rig.receive_and_next(data(301).ecn(CE))[0].number(), 6, "the header reports marks as before");
}

/// Two timeouts in a row: the path may drop segments with the option.
fn segments_that_vanish(family: Family) {
    let mut rig = agreed_with_sack(family);
    rig.send(1, 100);
    assert!(rig.sent()[0].options.counters().is_some());
    let mut options = vec![];
    while rig.count(Counter::TcpTimeouts) < 3 {
        let (_, sent) = rig.next_sent();
        let timeouts = rig.count(Counter::TcpTimeouts);
        options.extend(sent.iter().map(|segment| (timeouts, segment.options.counters().is_some())));
    }
    assert!(options.iter().all(|&(timeouts, option)| option == (timeouts < 2)), "{options:?}");
    rig.receive(seg(ACK, 1, 101).ace(5).counts(1, 0, 101));
    rig.send(101, 100);
    assert_eq!(rig.sent()[0].options.counters(), None, "and so it stays");
}

impl Rig {
    /// Segments sent after `segment` has arrived, at once or soon.
    fn receive_and_next(&mut self, segment: Seg) -> Vec<Seg> {
        self.receive(segment);
        let sent = self.sent();
        if sent.is_empty() { self.next_sent().1 } else { sent }
    }
}
