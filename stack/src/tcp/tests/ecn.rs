//! RFC 3168: the handshake, marks at the receiver, echoes at the sender.

use alloc::vec;

use super::rig::*;
use crate::config::{CongestionControl, Ecn, StackConfig, TcpOptions};
use crate::stats::Counter;
use crate::tcp::State;
use crate::wire::tcp::{ACK, CWR, ECE, FIN, PSH, RST, SYN};

/// A connection opened by a peer that asked for ECN.
fn accepted() -> Rig {
    accepted_with(speaking(Ecn::Passive), false)
}

fn accepted_with(mut config: StackConfig, sack: bool) -> Rig {
    config.tcp.sack = sack;
    let mut rig = Rig::with(config);
    let listener = rig.listen(newreno(), 16);
    let syn = seg(SYN | ECE | CWR, 0, 0).mss(MSS as u16);
    rig.receive(if sack { syn.sack_permitted() } else { syn });
    assert_eq!(rig.brief(), vec![(SYN | ACK | ECE, 0, 1, 0)]);
    rig.receive(seg(ACK, 1, 1));
    rig.id = rig.stack.accept(listener, NAME).expect("one connection waits");
    rig.events();
    rig
}

fn answers(ecn: Ecn, syn: Seg) -> u8 {
    let mut rig = Rig::with(speaking(ecn));
    rig.listen(newreno(), 16);
    rig.receive(syn.mss(MSS as u16));
    rig.sent()[0].flags
}

/// §6.1.1: the answer to a request is ECE alone; one flag alone, or a mark on the SYN, is no request.
#[test]
fn passive_handshake() {
    let asks = || seg(SYN | ECE | CWR, 0, 0);
    assert_eq!(answers(Ecn::Passive, asks()), SYN | ACK | ECE);
    assert_eq!(answers(Ecn::Request, asks()), SYN | ACK | ECE);
    assert_eq!(answers(Ecn::Off, asks()), SYN | ACK);
    assert_eq!(answers(Ecn::Passive, seg(SYN | ECE, 0, 0)), SYN | ACK);
    assert_eq!(answers(Ecn::Passive, seg(SYN | CWR, 0, 0)), SYN | ACK);
    assert_eq!(answers(Ecn::Passive, asks().ecn(ECT_0)), SYN | ACK);
}

/// Our SYN asks, and data is marked only after the peer has agreed.
#[test]
fn active_handshake() {
    for (answer, agreed) in [(ECE, true), (0, false), (ECE | CWR, false), (CWR, false)] {
        let mut rig = Rig::with(speaking(Ecn::Request));
        rig.connect(newreno());
        let syn = rig.sent();
        assert_eq!((syn[0].flags, syn[0].ecn), (SYN | ECE | CWR, NOT_ECT));
        rig.receive(seg(SYN | ACK | answer, 0, 1).mss(MSS as u16));
        let ack = rig.sent();
        assert_eq!((ack[0].flags, ack[0].ecn), (ACK, NOT_ECT), "pure ACKs are not marked");
        assert_eq!(rig.info().ecn, agreed);
        rig.send(1, 100);
        assert_eq!(rig.sent()[0].ecn, if agreed { ECT_0 } else { NOT_ECT });
    }
}

/// Linux's default does not ask.
#[test]
fn passive_does_not_ask() {
    let mut rig = Rig::with(speaking(Ecn::Passive));
    rig.connect(newreno());
    assert_eq!(rig.sent()[0].flags, SYN);
}

/// §6.1.1.1: a lost SYN is sent again without the request; a late yes does not count then.
#[test]
fn fallback() {
    let mut rig = Rig::with(speaking(Ecn::Request));
    rig.connect(newreno());
    rig.sent();
    assert_eq!(rig.next_sent().1[0].flags, SYN);
    rig.receive(seg(SYN | ACK | ECE, 0, 1).mss(MSS as u16));
    assert!(!rig.info().ecn);
    let mut config = speaking(Ecn::Request);
    config.tcp.ecn_fallback = false;
    let mut rig = Rig::with(config);
    rig.connect(newreno());
    rig.sent();
    assert_eq!(rig.next_sent().1[0].flags, SYN | ECE | CWR);
}

/// Linux: a reset refuses the connection, whatever the SYN has asked for.
#[test]
fn refused() {
    let mut rig = Rig::with(speaking(Ecn::Request));
    rig.connect(newreno());
    rig.sent();
    rig.receive(seg(RST | ACK, 0, 1));
    assert!(matches!(rig.events()[..], [crate::Event::Failed { error: crate::SocketError::Refused, .. }]));
}

/// Both ends open at once, both ask.
#[test]
fn simultaneous() {
    let mut rig = Rig::with(speaking(Ecn::Request));
    rig.connect(newreno());
    rig.sent();
    rig.receive(seg(SYN | ECE | CWR, 0, 0).mss(MSS as u16));
    assert_eq!(rig.brief(), vec![(SYN | ACK | ECE, 0, 1, 0)]);
    rig.receive(seg(SYN | ACK | ECE, 0, 1).mss(MSS as u16));
    assert_eq!(rig.state(), State::Established);
    assert!(rig.info().ecn);
}

/// §6.1.3: a mark is echoed in every ACK until the sender confirms it.
#[test]
fn receiver_echoes() {
    let mut rig = accepted();
    rig.receive(seg(ACK, 1, 1).data(100).ecn(CE));
    assert_eq!(rig.brief(), vec![(ACK | ECE, 1, 101, 0)], "at once");
    rig.receive(seg(ACK, 101, 1).data(100).ecn(ECT_0));
    let brief = |sent: vec::Vec<Seg>| sent.iter().map(Seg::brief).collect::<vec::Vec<_>>();
    assert_eq!(brief(rig.next_sent().1), vec![(ACK | ECE, 1, 201, 0)]);
    rig.send(1, 10);
    assert_eq!(rig.brief(), vec![(ACK | ECE | PSH, 1, 201, 10)], "data carries it too");
    rig.receive(seg(ACK | CWR, 201, 11).data(100).ecn(ECT_0));
    assert_eq!(rig.brief(), vec![(ACK, 11, 301, 0)]);
    rig.receive(seg(ACK | CWR, 301, 11).data(100).ecn(CE));
    assert_eq!(rig.brief(), vec![(ACK | ECE, 11, 401, 0)], "a new mark on the packet that says CWR");
}

/// Marks count only on data in the window, and only with ECN negotiated.
#[test]
fn marks_that_do_not_count() {
    let mut rig = accepted();
    rig.receive(seg(ACK, 1, 1).ecn(CE));
    rig.send(1, 10);
    assert_eq!(rig.brief(), vec![(ACK | PSH, 1, 1, 10)], "a pure ACK is not ECN-capable");
    rig.receive(seg(ACK, 200_000, 1).data(10).ecn(CE));
    assert_eq!(rig.brief(), vec![(ACK, 11, 1, 0)], "outside the window");
    let mut rig = Rig::accepted(speaking(Ecn::Off), newreno());
    rig.receive(seg(ACK, 1, 1).data(100).ecn(CE));
    assert_eq!(rig.next_sent().1[0].brief(), (ACK, 1, 101, 0));
}

/// §6.1.2: the window is halved once per window, CWR is in the first new data and only there.
#[test]
fn sender_reacts_once() {
    let mut rig = accepted();
    rig.send(1, 40 * MSS);
    assert_eq!(rig.sent().len(), 10);
    let mut after = vec![];
    for n in 1..=10 {
        rig.receive(seg(ACK | ECE, 1, 1 + n * MSS));
        after.extend(rig.sent());
    }
    assert_eq!(rig.info().ssthresh_bytes, 5 * MSS, "once");
    assert_eq!(rig.info().congestion_state, 2);
    let told: vec::Vec<bool> = after.iter().map(|segment| segment.flags & CWR != 0).collect();
    assert!(told[0] && told[1..].iter().all(|told| !told), "{told:?}");
    assert!((4..=6).contains(&after.len()), "half as many as were acknowledged: {}", after.len());
    assert!(after.iter().all(|segment| segment.ecn == ECT_0));
    let end = after.last().expect("some").seq + MSS;
    rig.receive(seg(ACK, 1, end));
    assert_eq!(rig.info().congestion_state, 0);
    assert!((5..=6).contains(&(rig.info().cwnd_bytes / MSS)));
    assert_eq!(rig.info().marks.delivered_ce, 10);
    assert_eq!(rig.count(Counter::TcpDeliveredCe), 10);
    // The next window has its own mark.
    rig.send(1, 40 * MSS);
    let sent = rig.sent();
    rig.receive(seg(ACK | ECE, 1, sent[0].seq + MSS));
    assert!(rig.info().ssthresh_bytes < 5 * MSS);
}

/// §6.1.5: retransmissions are not marked; losses in the window of a mark do not reduce it again.
#[test]
fn losses_with_marks() {
    let mut rig = accepted();
    rig.send(1, 40 * MSS);
    rig.sent();
    rig.receive(seg(ACK | ECE, 1, 1 + MSS));
    rig.sent();
    let ssthresh = rig.info().ssthresh_bytes;
    for _ in 0..3 {
        rig.receive(seg(ACK | ECE, 1, 1 + MSS));
    }
    let sent = rig.sent();
    assert_eq!(sent[0].seq, 1 + MSS);
    assert_eq!((sent[0].ecn, sent[0].flags & CWR), (NOT_ECT, 0));
    assert_eq!(rig.info().congestion_state, 3);
    assert_eq!(rig.info().ssthresh_bytes, ssthresh);
}

/// A loss reduces the window and sends CWR; echoes in its recovery have no further effect.
#[test]
fn marks_in_recovery() {
    let mut rig = accepted_with(speaking(Ecn::Passive), true);
    rig.send(1, 40 * MSS);
    rig.sent();
    rig.receive(seg(ACK, 1, 1).sack(1 + MSS, 1 + 5 * MSS));
    rig.wait_ms(10);
    let mut sent = rig.sent();
    let ssthresh = rig.info().ssthresh_bytes;
    assert_eq!(rig.info().congestion_state, 3);
    rig.receive(seg(ACK | ECE, 1, 1 + 5 * MSS));
    sent.extend(rig.sent());
    assert_eq!(rig.info().ssthresh_bytes, ssthresh);
    rig.receive(seg(ACK | ECE, 1, 1 + 9 * MSS));
    sent.extend(rig.sent());
    let new: vec::Vec<_> = sent.iter().filter(|segment| segment.seq > 10 * MSS).collect();
    assert!(new[0].flags & CWR != 0);
}

/// A timeout sends CWR too; the probe of a closed window and FINs are not marked.
#[test]
fn what_is_not_marked() {
    let mut rig = accepted();
    rig.send(1, 100);
    assert_eq!(rig.sent()[0].ecn, ECT_0);
    let (_, again) = rig.next_sent();
    assert_eq!((again[0].seq, again[0].ecn), (1, NOT_ECT));
    rig.receive(seg(ACK, 1, 101).window(0));
    rig.send(101, 100);
    let (_, probe) = rig.next_sent();
    assert_eq!(probe[0].ecn, NOT_ECT);
    rig.receive(seg(ACK, 1, 101));
    let sent = rig.sent();
    assert_eq!((sent[0].flags & CWR, sent[0].ecn), (CWR, ECT_0));
    rig.receive(seg(ACK, 1, 201));
    rig.stack.shutdown_write(rig.now, rig.id);
    let sent = rig.sent();
    assert_eq!((sent[0].flags, sent[0].ecn), (FIN | ACK, NOT_ECT));
}

/// IP_TOS leaves the ECN field alone.
#[test]
fn type_of_service() {
    let mut rig = Rig::with(speaking(Ecn::Request));
    rig.connect(TcpOptions { type_of_service: 0xff, ..newreno() });
    assert_eq!(rig.sent()[0].ecn, NOT_ECT);
    rig.receive(seg(SYN | ACK | ECE, 0, 1).mss(MSS as u16));
    rig.sent();
    rig.send(1, 100);
    assert_eq!(rig.sent()[0].ecn, ECT_0);
}

/// The kernel's counters by ECN field.
#[test]
fn counters() {
    let mut rig = accepted();
    rig.receive(seg(ACK, 1, 1).data(10).ecn(ECT_0));
    rig.receive(seg(ACK, 11, 1).data(10).ecn(1));
    rig.receive(seg(ACK, 21, 1).data(10).ecn(CE));
    let counts = [Counter::IpInNoEctPkts, Counter::IpInEct0Pkts, Counter::IpInEct1Pkts, Counter::IpInCePkts];
    assert_eq!(counts.map(|counter| rig.count(counter)), [2, 1, 1, 1]);
}

/// BBR has a model of its own: marks are answered with CWR, its window stays.
#[test]
fn modelled_path() {
    let mut rig = Rig::with(speaking(Ecn::Passive));
    let options = TcpOptions { congestion_control: CongestionControl::Bbr, ..TcpOptions::default() };
    let listener = rig.listen(options, 16);
    rig.receive(seg(SYN | ECE | CWR, 0, 0).mss(MSS as u16));
    rig.sent();
    rig.receive(seg(ACK, 1, 1));
    rig.id = rig.stack.accept(listener, NAME).expect("one connection waits");
    rig.send(1, 4 * MSS);
    rig.sent();
    let before = rig.info();
    rig.receive(seg(ACK | ECE, 1, 1 + MSS));
    rig.receive(seg(ACK | ECE, 1, 1 + 2 * MSS));
    assert!(rig.info().cwnd_bytes >= before.cwnd_bytes);
    assert_eq!(rig.info().ssthresh_bytes, before.ssthresh_bytes);
    rig.send(1 + 4 * MSS, 100);
    assert!(rig.next_sent().1[0].flags & CWR != 0);
}
