//! DSACK, F-RTO, Eifel, proportional rate reduction.

use alloc::vec;
use alloc::vec::Vec;

use super::rack::{RTT_MS, at, measured, sequences, under_way};
use super::rig::*;
use crate::config::{CongestionControl, StackConfig, TcpOptions};
use crate::stats::Counter;
use crate::wire::tcp::{ACK, SYN};

fn blocks(segment: &Seg) -> Vec<(u32, u32)> {
    segment.options.sack().iter().map(|block| (block.left.0, block.right.0)).collect()
}

/// RFC 2883 §4.1: data below RCV.NXT that comes again, whole or in part, is the first block.
#[test]
fn duplicates_below_the_acknowledgment() {
    let mut rig = under_way(0);
    rig.receive(seg(ACK, 1, 1).data(1_000));
    rig.receive(seg(ACK, 1_001, 1).data(1_000));
    rig.sent();
    rig.receive(seg(ACK, 501, 1).data(500));
    let sent = rig.sent();
    assert_eq!((sent.len(), sent[0].ack), (1, 2_001));
    assert_eq!(blocks(&sent[0]), vec![(501, 1_001)]);
    rig.receive(seg(ACK, 1_501, 1).data(1_000));
    let sent = rig.sent();
    assert_eq!((sent[0].ack, blocks(&sent[0])), (2_501, vec![(1_501, 2_001)]));
    assert_eq!(rig.count(Counter::TcpDsackOldSent), 2);
    // Reported once.
    rig.receive(seg(ACK, 4_001, 1).data(500));
    assert_eq!(blocks(&rig.sent()[0]), vec![(4_001, 4_501)]);
}

/// RFC 2883 §4.2: a range received twice out of order is the first block, the block that contains it the second.
#[test]
fn duplicates_out_of_order() {
    let mut rig = under_way(0);
    rig.receive(seg(ACK, 1_001, 1).data(1_000));
    rig.receive(seg(ACK, 5_001, 1).data(500));
    rig.sent();
    rig.receive(seg(ACK, 1_501, 1).data(500));
    assert_eq!(blocks(&rig.sent()[0]), vec![(1_501, 2_001), (1_001, 2_001), (5_001, 5_501)]);
    assert_eq!(rig.count(Counter::TcpDsackOfoSent), 1);
}

/// RFC 2883 §4.2.2: of two duplicates in one segment the first is reported.
#[test]
fn the_first_of_two_duplicates() {
    let mut rig = under_way(0);
    rig.receive(seg(ACK, 1, 1).data(600));
    rig.receive(seg(ACK, 901, 1).data(300));
    rig.sent();
    rig.receive(seg(ACK, 301, 1).data(1_100));
    let sent = rig.sent();
    assert_eq!((sent[0].ack, blocks(&sent[0])), (1_401, vec![(301, 601)]));
    assert_eq!((rig.count(Counter::TcpDsackOldSent), rig.count(Counter::TcpDsackOfoSent)), (1, 0));
}

/// Without SACK nothing is reported.
#[test]
fn no_report_without_sack() {
    let mut rig = Rig::accepted(Rig::config(), TcpOptions::default());
    rig.receive(seg(ACK, 1, 1).data(100));
    rig.receive(seg(ACK, 1, 1).data(100));
    assert!(rig.sent().iter().all(|segment| blocks(segment).is_empty()));
}

/// A timeout after a probe; returns (cwnd, ssthresh) from before it.
fn timed_out(rig: &mut Rig) -> (u32, u32) {
    rig.next_sent();
    let before = (rig.info().cwnd_bytes, rig.info().ssthresh_bytes);
    assert_eq!(rig.next_sent().1.len(), 1);
    assert_eq!(rig.info().congestion_state, 4);
    before
}

/// RFC 5682 §3, step 3b: after a spurious timeout new data is sent, the ACK of data never retransmitted proves it, and the
/// windows are restored.
#[test]
fn spurious_timeout_is_undone() {
    let mut rig = measured(4);
    let before = timed_out(&mut rig);
    rig.send(at(5), 4 * MSS);
    // The ACK of the first transmission, late.
    rig.receive(seg(ACK, 1, at(2)));
    assert_eq!(sequences(&mut rig), vec![5, 6], "new data, not data that may be lost");
    rig.receive(seg(ACK, 1, at(3)));
    assert_eq!((rig.count(Counter::TcpSpuriousRtos), rig.info().congestion_state), (1, 0));
    assert!(rig.info().cwnd_bytes >= before.0);
    assert_eq!(rig.info().ssthresh_bytes, before.1);
}

/// RFC 5682 §3, step 3a: a duplicate ACK after the new data says that the loss was real.
#[test]
fn real_timeout_is_not_undone() {
    let mut rig = measured(4);
    timed_out(&mut rig);
    rig.send(at(5), 4 * MSS);
    rig.wait_ms(RTT_MS);
    rig.receive(seg(ACK, 1, at(2)));
    assert_eq!(sequences(&mut rig), vec![5, 6]);
    rig.wait_ms(RTT_MS);
    rig.receive(seg(ACK, 1, at(2)).sack(at(5), at(6)));
    assert_eq!(sequences(&mut rig)[0], 2);
    assert_eq!((rig.count(Counter::TcpSpuriousRtos), rig.info().congestion_state), (0, 4));
    assert_eq!(rig.info().ssthresh_bytes, 5 * MSS, "half of the window that was there");
}

/// RFC 3522: the ACK echoes a timestamp older than the retransmission: fast recovery is undone.
#[test]
fn eifel() {
    let mut config = StackConfig { ..Rig::config() };
    (config.tcp.sack, config.tcp.timestamps) = (true, true);
    let mut rig = Rig::with(config);
    let options = TcpOptions { congestion_control: CongestionControl::NewReno, ..TcpOptions::default() };
    rig.accept_with(options, seg(SYN, 0, 0).mss(MSS as u16).sack_permitted().time(1_000, 0));
    let mss = rig.info().send_mss;
    let end = |n: u32| 1 + n * mss;
    rig.send(1, 10 * mss);
    let echo = rig.sent()[0].options.timestamps.expect("agreed").value;
    let before = (rig.info().cwnd_bytes, rig.info().ssthresh_bytes);
    rig.wait_ms(RTT_MS);
    rig.receive(seg(ACK, 1, 1).sack(end(1), end(5)).time(1_040, echo));
    assert_eq!(rig.sent()[0].seq, 1);
    rig.wait_ms(2);
    rig.receive(seg(ACK, 1, 1).sack(end(1), end(6)).time(1_040, echo));
    assert_eq!(rig.info().congestion_state, 3, "duplicate ACKs echo a timestamp from before the gap");
    rig.receive(seg(ACK, 1, end(6)).time(1_042, echo));
    assert_eq!((rig.info().congestion_state, rig.count(Counter::TcpFullUndo)), (0, 1));
    assert!(rig.info().cwnd_bytes >= before.0);
    assert_eq!(rig.info().ssthresh_bytes, before.1);
}

/// A DSACK for all retransmitted data undoes the reduction.
#[test]
fn dsack_undoes() {
    let mut rig = measured(6);
    let before = (rig.info().cwnd_bytes, rig.info().ssthresh_bytes);
    rig.wait_ms(RTT_MS);
    rig.receive(seg(ACK, 1, at(1)).sack(at(2), at(6)));
    assert_eq!(sequences(&mut rig), vec![1]);
    rig.receive(seg(ACK, 1, at(7)));
    assert!(rig.info().cwnd_bytes < before.0);
    rig.wait_ms(RTT_MS);
    rig.receive(seg(ACK, 1, at(7)).sack(at(1), at(2)));
    assert_eq!((rig.count(Counter::TcpDsackRecv), rig.count(Counter::TcpDsackUndo)), (1, 1));
    assert!(rig.info().cwnd_bytes >= before.0);
    assert_eq!(rig.info().ssthresh_bytes, before.1);
}

/// RFC 9937: ten in flight, one lost, the window halved: a segment for every other ACK, and at the end the window is
/// ssthresh.
#[test]
fn proportional_rate() {
    let mut rig = measured(10);
    rig.send(at(11), 20 * MSS);
    rig.sent();
    let flight = rig.info().unacked_bytes / MSS;
    rig.wait_ms(RTT_MS);
    rig.receive(seg(ACK, 1, at(1)).sack(at(2), at(5)));
    let mut sent = sequences(&mut rig);
    assert_eq!(sent[0], 1);
    for n in 6..=flight {
        rig.receive(seg(ACK, 1, at(1)).sack(at(2), at(n)));
        let now = sequences(&mut rig);
        assert!(now.len() <= 1, "no bursts: {now:?}");
        sent.extend(now);
    }
    let ssthresh = rig.info().ssthresh_bytes / MSS;
    assert!((ssthresh - 1..=ssthresh).contains(&(sent.len() as u32)), "{} for {ssthresh}", sent.len());
    let end = rig.info().unacked_bytes;
    rig.wait_ms(RTT_MS);
    rig.receive(seg(ACK, 1, at(1) + end));
    assert_eq!((rig.info().congestion_state, rig.info().cwnd_bytes), (0, ssthresh * MSS));
}
