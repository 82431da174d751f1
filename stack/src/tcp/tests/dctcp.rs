//! RFC 8257 over a connection: the negotiation, the ACKs, the window.

use alloc::vec;

use super::rig::*;
use crate::config::{CongestionControl, Ecn, TcpOptions};
use crate::wire::tcp::{ACK, CWR, ECE, SYN};

fn dctcp() -> TcpOptions {
    TcpOptions { congestion_control: CongestionControl::Dctcp, ..TcpOptions::default() }
}

fn accepted() -> Rig {
    let mut rig = Rig::with(speaking(Ecn::Off));
    let listener = rig.listen(dctcp(), 16);
    rig.receive(seg(SYN | ECE | CWR, 0, 0).mss(MSS as u16).ecn(ECT_0));
    let answer = rig.sent();
    assert_eq!((answer[0].flags, answer[0].ecn), (SYN | ACK | ECE, ECT_0));
    rig.receive(seg(ACK, 1, 1).ecn(ECT_0));
    rig.id = rig.stack.accept(listener, NAME).expect("one connection waits");
    rig.events();
    rig
}

/// Linux: DCTCP asks for ECN and answers it, whatever is configured; all its packets are marked.
#[test]
fn everything_is_marked() {
    let mut rig = Rig::with(speaking(Ecn::Off));
    rig.connect(dctcp());
    let syn = rig.sent();
    assert_eq!((syn[0].flags, syn[0].ecn), (SYN | ECE | CWR, ECT_0));
    rig.receive(seg(SYN | ACK | ECE, 0, 1).mss(MSS as u16));
    assert_eq!(rig.sent()[0].ecn, ECT_0);
    rig.send(1, 100);
    assert_eq!(rig.sent()[0].ecn, ECT_0);
    let (_, again) = rig.next_sent();
    assert_eq!((again[0].seq, again[0].ecn), (1, ECT_0));
}

/// Without the peer's consent it is Reno and marks nothing.
#[test]
fn without_consent() {
    let mut rig = Rig::with(speaking(Ecn::Passive));
    rig.connect(dctcp());
    rig.sent();
    rig.receive(seg(SYN | ACK, 0, 1).mss(MSS as u16));
    rig.sent();
    rig.send(1, 40 * MSS);
    assert!(rig.sent().iter().all(|segment| segment.ecn == 0));
    rig.receive(seg(ACK | ECE, 1, 1 + MSS));
    assert_eq!(rig.info().congestion_state, 0);
}

/// §3.2, figure 1: when marks begin or end, earlier data is acknowledged separately.
#[test]
fn receiver_reports_exactly() {
    let mut rig = accepted();
    rig.receive(seg(ACK, 1, 1).data(100).ecn(ECT_0));
    assert_eq!(rig.brief(), vec![], "delayed");
    rig.receive(seg(ACK, 101, 1).data(100).ecn(CE));
    assert_eq!(rig.brief(), vec![(ACK, 1, 101, 0), (ACK | ECE, 1, 201, 0)]);
    rig.receive(seg(ACK, 201, 1).data(100).ecn(CE));
    assert_eq!(rig.brief(), vec![], "delayed again");
    rig.receive(seg(ACK | CWR, 301, 1).data(100).ecn(ECT_0));
    assert_eq!(rig.brief(), vec![(ACK | ECE, 1, 301, 0), (ACK, 1, 401, 0)]);
    rig.receive_all([seg(ACK, 401, 1).data(100).ecn(CE), seg(ACK, 501, 1).data(100).ecn(ECT_0)]);
    assert_eq!(rig.brief(), vec![(ACK | ECE, 1, 501, 0), (ACK, 1, 601, 0)], "also within a burst");
}

/// §3.3: the first mark halves the window as alpha is 1; later ones take half of the share of marks.
#[test]
fn sender_reduces_in_proportion() {
    let mut rig = accepted();
    let (mut sent, mut acked) = (0, 0);
    let mut first = u32::MAX;
    for _ in 0..200 {
        sent += rig.send(1 + sent, 60 * MSS) as u32;
        let under_way = rig.sent().iter().map(|segment| segment.payload.len() as u32).sum::<u32>() / MSS;
        for _ in 0..under_way {
            acked += MSS;
            // One segment in forty has a mark.
            let mark = if (acked / MSS).is_multiple_of(40) { ECE } else { 0 };
            rig.receive(seg(ACK | mark, 1, 1 + acked));
        }
        if first == u32::MAX {
            first = rig.info().ssthresh_bytes;
        }
    }
    let window = rig.info();
    let share = window.ssthresh_bytes as f64 / window.cwnd_bytes as f64;
    assert!((0.7..=1.0).contains(&share), "{share}");
    assert!(window.cwnd_bytes > 10 * MSS, "{}", window.cwnd_bytes);
}

/// §3.4: a loss halves the window.
#[test]
fn losses() {
    let mut rig = accepted();
    rig.send(1, 40 * MSS);
    rig.sent();
    for _ in 0..3 {
        rig.receive(seg(ACK, 1, 1));
    }
    assert_eq!(rig.info().ssthresh_bytes, 5 * MSS);
}
