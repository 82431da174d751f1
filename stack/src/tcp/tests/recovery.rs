//! Losses: fast retransmit, NewReno, SACK, timeouts.

use alloc::vec;
use alloc::vec::Vec;

use super::rig::*;
use crate::config::{StackConfig, TcpOptions};
use crate::stats::Counter;
use crate::wire::tcp::{ACK, SYN};

/// A connection with ten segments in flight.
fn ten_under_way(sack: bool) -> Rig {
    let mut config = StackConfig { ..Rig::config() };
    config.tcp.sack = sack;
    config.tcp.rack = false;
    let mut rig = Rig::with(config);
    let syn = seg(SYN, 0, 0).mss(MSS as u16);
    rig.accept_with(newreno(), if sack { syn.sack_permitted() } else { syn });
    rig.send(1, 30 * MSS);
    assert_eq!(rig.sent().len(), 10);
    rig
}

fn at(n: u32) -> u32 {
    1 + n * MSS
}

fn sequences(rig: &mut Rig) -> Vec<u32> {
    rig.sent().iter().map(|segment| (segment.seq - 1) / MSS).collect()
}

/// RFC 5681 §3.2: the third duplicate ACK retransmits; the window is halved; each of the first two releases a new segment
/// (RFC 3042).
#[test]
fn fast_retransmit() {
    let mut rig = ten_under_way(false);
    rig.receive(seg(ACK, 1, at(0)));
    assert_eq!(sequences(&mut rig), vec![10]);
    rig.receive(seg(ACK, 1, at(0)));
    assert_eq!(sequences(&mut rig), vec![11]);
    rig.receive(seg(ACK, 1, at(0)));
    assert_eq!(sequences(&mut rig), vec![0]);
    // Half of the ten: segments added by limited transmit MUST NOT count (RFC 5681 §3.2 (2)).
    assert_eq!(rig.info().ssthresh_bytes, 5 * MSS);
    // PRR (RFC 9937): twelve unacknowledged, three of them arrived, one lost, and the retransmission.
    assert_eq!(rig.info().cwnd_bytes, 9 * MSS);
    assert_eq!(rig.count(Counter::TcpRenoRecovery), 1);
    // A full ACK ends recovery with cwnd = min(ssthresh, flight + MSS).
    rig.receive(seg(ACK, 1, at(12)));
    assert_eq!(rig.info().congestion_state, 0);
    assert!(rig.info().cwnd_bytes <= 5 * MSS);
}

/// Delivers the ACKs of `burst` one after the other, or all at once; returns the segments sent, in order of sequence
/// numbers.
fn sent_after(mut rig: Rig, burst: &[Seg], at_once: bool) -> Vec<u32> {
    let mut sent = Vec::new();
    if at_once {
        rig.receive_burst(burst);
    } else {
        for ack in burst {
            rig.receive(ack.clone());
            sent.extend(sequences(&mut rig));
        }
    }
    sent.extend(sequences(&mut rig));
    sent.sort_unstable();
    sent
}

/// RFC 6675 §5 (3), RFC 3042: limited transmit is not lost to ACKs in one burst with those that begin recovery, and neither
/// are segments that an ACK in front of them has released.
#[test]
fn limited_transmit_within_a_burst() {
    let burst: Vec<Seg> = (2..=9).map(|n| seg(ACK, 1, at(0)).sack(at(1), at(n))).collect();
    // The third SACK begins recovery.
    assert_eq!(sent_after(ten_under_way(true), &burst[..3], true), [0, 10, 11]);
    let one_by_one = sent_after(ten_under_way(true), &burst, false);
    assert_eq!(one_by_one, [0, 10, 11, 12]);
    assert_eq!(sent_after(ten_under_way(true), &burst, true), one_by_one);
    assert_eq!(
        sent_after(ten_under_way(false), &[seg(ACK, 1, at(0)), seg(ACK, 1, at(0)), seg(ACK, 1, at(0))], true),
        [0, 10, 11]
    );

    let burst: Vec<Seg> =
        [seg(ACK, 1, at(2))].into_iter().chain((4..=10).map(|n| seg(ACK, 1, at(2)).sack(at(3), at(n)))).collect();
    let one_by_one = sent_after(ten_under_way(true), &burst, false);
    assert_eq!(one_by_one, [2, 10, 11, 12, 13, 14, 15, 16]);
    // PRR rounds differently when it computes the count in one step.
    assert_eq!(sent_after(ten_under_way(true), &burst, true), one_by_one[..7]);
}

/// RFC 6582: a partial ACK retransmits the next hole without waiting.
#[test]
fn newreno_partial_ack() {
    let mut rig = ten_under_way(false);
    for _ in 0..3 {
        rig.receive(seg(ACK, 1, at(0)));
    }
    assert_eq!(sequences(&mut rig)[0], 0);
    rig.receive(seg(ACK, 1, at(4)));
    assert_eq!(sequences(&mut rig)[0], 4);
    assert_eq!(rig.info().congestion_state, 3);
}

/// RFC 3465 §2.3, RFC 6582 §3.2: an ACK of a part of a retransmission retransmits nothing more.
#[test]
fn newreno_divided_ack() {
    let mut rig = ten_under_way(false);
    for _ in 0..3 {
        rig.receive(seg(ACK, 1, at(0)));
    }
    rig.sent();
    for bytes in 1..100 {
        rig.receive(seg(ACK, 1, at(0) + bytes));
        assert!(rig.sent().iter().all(|segment| segment.seq > at(9)), "retransmitted at the ACK of {bytes} bytes");
    }
    rig.receive(seg(ACK, 1, at(1)));
    assert_eq!(sequences(&mut rig)[0], 1);
}

/// RFC 6675: with SACK only the holes are retransmitted, and pipe lets new data follow.
#[test]
fn sack_recovery() {
    let mut rig = ten_under_way(true);
    rig.receive(seg(ACK, 1, at(0)).sack(at(1), at(2)));
    assert_eq!(sequences(&mut rig), vec![10]);
    rig.receive(seg(ACK, 1, at(0)).sack(at(1), at(3)));
    assert_eq!(sequences(&mut rig), vec![11]);
    rig.receive(seg(ACK, 1, at(0)).sack(at(1), at(4)));
    assert_eq!(sequences(&mut rig)[0], 0);
    assert_eq!(rig.count(Counter::TcpSackRecovery), 1);
    // 0 and 5 are lost; 1-4 and 6-9 have arrived.
    rig.receive(seg(ACK, 1, at(0)).sack(at(6), at(10)).sack(at(1), at(5)));
    let again = sequences(&mut rig);
    assert_eq!(again[0], 5);
    assert!(again[1..].iter().all(|&n| n >= 12), "{again:?}");
    rig.receive(seg(ACK, 1, at(10)));
    assert_eq!(rig.info().congestion_state, 3, "recovery lasts until the flight at its start is acknowledged");
    rig.receive(seg(ACK, 1, at(12)));
    assert_eq!(rig.info().congestion_state, 0);
    assert_eq!(rig.info().total_retransmits, 2);
}

/// The fast path resumes when a duplicate ACK turns out to be reordering.
#[test]
fn fast_path_after_a_duplicate_ack() {
    let mut rig = Rig::with(StackConfig::default());
    rig.accept_with(newreno(), seg(SYN, 0, 0).mss(MSS as u16).time(1, 0));
    rig.send(1, 4 * MSS);
    assert_eq!(rig.sent().len(), 5, "timestamps take space");
    let ack = |n: u32| seg(ACK, 1, at(n)).time(1, 1);
    rig.receive(ack(0));
    rig.receive(ack(2));
    let before = rig.count(Counter::TcpHpHits);
    rig.receive(ack(4));
    assert_eq!(rig.count(Counter::TcpHpHits), before + 1);
}

/// With SACK negotiated, ACKs without a report are no duplicates: they answer probes or copies.
#[test]
fn duplicates_without_report() {
    let mut rig = ten_under_way(true);
    for _ in 0..5 {
        rig.receive(seg(ACK, 1, at(0)));
    }
    assert_eq!(sequences(&mut rig), vec![]);
}

/// One ACK with a large report is enough: three segments above the hole.
#[test]
fn sack_without_three_acks() {
    let mut rig = ten_under_way(true);
    rig.receive(seg(ACK, 1, at(0)).sack(at(1), at(4)));
    assert_eq!(sequences(&mut rig)[0], 0);
}

/// RFC 6298: one segment after the timeout, doubled waits, slow start when the ACK comes.
/// RFC 9293 MUST-19.
#[test]
fn retransmission_timeout() {
    let mut rig = ten_under_way(false);
    let rto = rig.info().rto_us as u64 / 1_000;
    assert!((200..=203).contains(&rto), "{rto}");
    for doubling in [1, 2, 4, 8] {
        let (elapsed, sent) = rig.next_sent();
        assert!((rto * doubling..=rto * doubling + 8).contains(&elapsed), "{elapsed} for {doubling} x {rto}");
        assert_eq!(sent.iter().map(|s| s.seq).collect::<Vec<_>>(), vec![1]);
    }
    assert_eq!(rig.info().cwnd_bytes, MSS);
    assert_eq!(rig.info().ssthresh_bytes, 5 * MSS, "halved once, not for every timeout");
    rig.receive(seg(ACK, 1, at(1)));
    assert_eq!(sequences(&mut rig), vec![1, 2]);
    rig.receive(seg(ACK, 1, at(3)));
    assert_eq!(sequences(&mut rig), vec![3, 4, 5, 6]);
    rig.receive(seg(ACK, 1, at(10)));
    assert_eq!(rig.info().congestion_state, 0);
    assert_eq!(rig.count(Counter::TcpTimeouts), 4);
}

/// After a timeout SACKed data is not retransmitted.
#[test]
fn timeout_with_sack() {
    let mut rig = ten_under_way(true);
    rig.receive(seg(ACK, 1, at(0)).sack(at(2), at(3)));
    rig.sent();
    let (_, sent) = rig.next_sent();
    assert_eq!(sent[0].seq, at(0));
    rig.receive(seg(ACK, 1, at(1)));
    assert_eq!(sequences(&mut rig), vec![1, 3]);
}

/// Karn: a segment that was sent twice gives no sample of the round trip.
/// RFC 9293 MUST-18.
#[test]
fn karn() {
    let mut rig = Rig::accepted(Rig::config(), newreno());
    rig.send(1, 100);
    rig.sent();
    rig.wait_ms(20);
    rig.receive(seg(ACK, 1, 101));
    let rtt = rig.info().rtt_us;
    rig.send(101, 100);
    rig.sent();
    assert_eq!(rig.next_sent().1.len(), 1);
    rig.wait_ms(1);
    rig.receive(seg(ACK, 1, 201));
    assert_eq!(rig.info().rtt_us, rtt);
}

/// After fifteen timeouts the connection fails.
/// RFC 9293 MUST-20.
#[test]
fn given_up() {
    let mut rig = Rig::accepted(Rig::config(), newreno());
    rig.send(1, 100);
    rig.sent();
    let mut timeouts = 0;
    while let Some(at) = rig.stack.poll_timeout() {
        rig.now = at;
        rig.stack.handle_timeout(at);
        timeouts += rig.sent().len();
    }
    assert_eq!(timeouts, 15);
    assert!(matches!(rig.events()[..], [crate::Event::Failed { error: crate::SocketError::TimedOut, .. }]));
    assert_eq!(rig.count(Counter::TcpAbortOnTimeout), 1);
}

/// TCP_USER_TIMEOUT ends it sooner.
/// RFC 9293 MUST-21.
#[test]
fn user_timeout() {
    let options = TcpOptions { user_timeout: crate::Duration::from_millis(3_000), ..newreno() };
    let mut rig = Rig::accepted(Rig::config(), options);
    rig.send(1, 100);
    rig.sent();
    let start = rig.now.as_millis();
    while let Some(at) = rig.stack.poll_timeout() {
        rig.now = at;
        rig.stack.handle_timeout(at);
        rig.sent();
    }
    assert!((3_000..7_000).contains(&(rig.now.as_millis() - start)));
}

/// RFC 9937 without SACK: with the window halved, less is sent than duplicate ACKs report, and the window is ssthresh at the
/// end.
#[test]
fn proportional_without_sack() {
    let mut rig = ten_under_way(false);
    let mut sent = Vec::new();
    for _ in 0..9 {
        rig.receive(seg(ACK, 1, at(0)));
        sent.push(sequences(&mut rig).len());
    }
    // Limited transmit twice, the retransmission, then half of the arrivals until five are in flight, which then stay.
    assert_eq!(sent, vec![1, 1, 1, 0, 0, 1, 0, 0, 1]);
    rig.receive(seg(ACK, 1, at(14)));
    assert_eq!((rig.info().congestion_state, rig.info().ssthresh_bytes), (0, 5 * MSS));
}
