//! Packetization-layer path MTU discovery: a path that drops large segments, and one that has become wider.

use alloc::vec;
use alloc::vec::Vec;

use super::rig::*;
use crate::config::{CongestionControl, MtuProbing, StackConfig, TcpOptions};
use crate::stats::Counter;
use crate::wire::tcp::{ACK, SYN};

/// A connection with SACK; no ICMP reports a smaller MTU for segments up to `MSS` bytes of payload.
fn open(probing: MtuProbing) -> Rig {
    let mut config = StackConfig { seed: 7, ..StackConfig::default() };
    config.tcp.timestamps = false;
    config.tcp.mtu_probing = probing;
    config.tcp.initial_window = 40;
    let mut rig = Rig::with(config);
    let options = TcpOptions { congestion_control: CongestionControl::NewReno, ..TcpOptions::default() };
    rig.accept_with(options, seg(SYN, 0, 0).mss(MSS as u16).sack_permitted().scale(4));
    rig
}

fn lengths(sent: &[Seg]) -> Vec<usize> {
    sent.iter().map(|segment| segment.payload.len()).collect()
}

/// End of the sent data.
fn end(sent: &[Seg]) -> u32 {
    sent.iter().map(|segment| segment.seq + segment.payload.len() as u32).max().expect("something was sent")
}

/// RFC 4821 §7.7: after three timeouts in a row segments shrink to the base; a size that passes stays.
#[test]
fn black_hole() {
    let mut rig = open(MtuProbing::BlackHole);
    rig.send(1, 4 * MSS);
    assert_eq!(lengths(&rig.sent()), [MSS as usize; 4]);
    let mut again = vec![];
    for _ in 0..8 {
        let (_, sent) = rig.next_sent();
        again.push(sent[0].payload.len());
        if again.last() != Some(&(MSS as usize)) {
            break;
        }
    }
    assert_eq!(again.pop(), Some(1_024));
    assert!(again.len() >= 2, "one or two lost segments are no black hole: {again:?}");
    let mut acknowledged = 1 + 1_024;
    while acknowledged < 1 + 4 * MSS {
        rig.receive(seg(ACK, 1, acknowledged).window(60_000));
        let sent = rig.sent();
        assert!(lengths(&sent).iter().all(|len| *len <= 1_024), "{:?}", lengths(&sent));
        acknowledged = end(&sent).max(acknowledged);
    }
    assert_eq!(rig.info().send_mss, 1_024);
}

/// Without probing only ICMP makes segments smaller.
#[test]
fn off() {
    let mut rig = open(MtuProbing::Off);
    rig.send(1, MSS);
    rig.sent();
    for _ in 0..6 {
        assert_eq!(lengths(&rig.next_sent().1), [MSS as usize]);
    }
}

/// RFC 4821 §7.2-7.6: single larger segments find the size between base and link; the size of one that arrives is used.
#[test]
fn search_upwards() {
    let mut rig = open(MtuProbing::Always);
    let mut sizes = vec![rig.info().send_mss];
    let mut next = 1;
    for _ in 0..40 {
        next += rig.send(next, 60_000) as u32;
        let sent = rig.sent();
        if sent.is_empty() {
            break;
        }
        rig.receive(seg(ACK, 1, end(&sent)).window(60_000));
        sizes.push(rig.info().send_mss);
    }
    sizes.dedup();
    assert_eq!(sizes, [1_024, 1_242, 1_351, 1_406, 1_433, 1_447, 1_454]);
    assert_eq!((rig.count(Counter::TcpMtupSuccess), rig.count(Counter::TcpMtupFail)), (6, 0));
}

/// RFC 4821 §7.6.2: a lost probe is retransmitted in segments that pass, and costs no window.
#[test]
fn lost_probe() {
    let mut rig = open(MtuProbing::Always);
    rig.send(1, 100_000);
    let sent = rig.sent();
    let probe = sent.iter().find(|segment| segment.payload.len() > 1_024).expect("a probe").clone();
    assert_eq!(probe.payload.len(), 1_242);
    let (start, stop) = (probe.seq, probe.seq + 1_242);
    rig.receive(seg(ACK, 1, start).window(60_000));
    rig.sent();
    let window = rig.info().cwnd_bytes;
    rig.receive(seg(ACK, 1, start).window(60_000).sack(stop, stop + 4 * 1_024));
    let again = rig.sent();
    assert_eq!(rig.count(Counter::TcpMtupFail), 1);
    assert_eq!(again[0].brief().1, start);
    assert!(lengths(&again).iter().all(|len| *len <= 1_024));
    for _ in 0..20 {
        let nxt = start + rig.info().unacked_bytes;
        rig.receive(seg(ACK, 1, nxt).window(60_000));
        rig.sent();
        if rig.count(Counter::TcpMtupUndo) == 1 {
            break;
        }
    }
    assert_eq!(rig.count(Counter::TcpMtupUndo), 1);
    assert!(rig.info().cwnd_bytes >= window, "{} < {window}", rig.info().cwnd_bytes);
    assert_eq!(rig.info().send_mss, 1_024);
}
