//! RACK and tail loss probes (RFC 8985).

use alloc::vec;
use alloc::vec::Vec;

use ringway_shm::Content;

use super::rig::*;
use crate::config::{CongestionControl, StackConfig, TcpOptions};
use crate::stats::Counter;
use crate::wire::tcp::{ACK, SYN};

/// Round trip in these tests, milliseconds.
pub(super) const RTT_MS: u64 = 40;

pub(super) fn at(n: u32) -> u32 {
    1 + n * MSS
}

pub(super) fn sequences(rig: &mut Rig) -> Vec<u32> {
    rig.sent().iter().map(|segment| (segment.seq - 1) / MSS).collect()
}

/// A connection with a measured round trip and `count` segments in flight from now.
pub(super) fn under_way(count: u32) -> Rig {
    let mut config = StackConfig { ..Rig::config() };
    config.tcp.sack = true;
    let mut rig = Rig::with(config);
    let options = TcpOptions { congestion_control: CongestionControl::NewReno, no_delay: true, ..TcpOptions::default() };
    let listener = rig.listen(options, 1);
    rig.receive(seg(SYN, 0, 0).mss(MSS as u16).sack_permitted());
    assert_eq!(rig.sent().len(), 1);
    rig.wait_ms(RTT_MS);
    rig.receive(seg(ACK, 1, 1));
    rig.id = rig.stack.accept(listener, NAME).expect("one connection waits");
    for n in 0..count {
        rig.send(at(n), MSS);
    }
    rig.sent();
    rig
}

/// Like `under_way`, after a first segment that took a round trip: segments count from 1.
pub(super) fn measured(count: u32) -> Rig {
    let mut rig = under_way(1);
    rig.wait_ms(RTT_MS);
    rig.receive(seg(ACK, 1, at(1)));
    rig.send(at(1), count * MSS);
    assert_eq!(sequences(&mut rig).len() as u32, count);
    rig
}

/// §7: the last segment is lost. The probe comes after two round trips, its SACK or ACK repairs all; there is no timeout.
#[test]
fn tail_loss_is_recovered_by_the_probe() {
    let mut rig = measured(5);
    rig.wait_ms(RTT_MS);
    rig.receive(seg(ACK, 1, at(5)));
    let (elapsed, probe) = rig.next_sent();
    assert!(elapsed <= 2 * RTT_MS + 202, "{elapsed}");
    assert_eq!(probe.iter().map(|s| s.seq).collect::<Vec<_>>(), vec![at(5)]);
    assert_eq!((rig.count(Counter::TcpLossProbes), rig.count(Counter::TcpTimeouts)), (1, 0));
    let before = rig.info().cwnd_bytes;
    rig.wait_ms(RTT_MS);
    rig.receive(seg(ACK, 1, at(6)));
    rig.send(at(6), MSS);
    assert_eq!(sequences(&mut rig), vec![6]);
    rig.wait_ms(RTT_MS);
    rig.receive(seg(ACK, 1, at(7)));
    assert_eq!(rig.count(Counter::TcpLossProbeRecovery), 1);
    assert!(rig.info().cwnd_bytes < before, "the loss was one of congestion");
    assert_eq!(rig.count(Counter::TcpTimeouts), 0);
}

/// §7.2: with several segments in flight the probe comes after two round trips; its SACK shows the losses before it.
#[test]
fn several_lost_at_the_tail() {
    let mut rig = measured(6);
    rig.wait_ms(RTT_MS);
    rig.receive(seg(ACK, 1, at(3)));
    let srtt_ms = rig.info().rtt_us as u64 / 1_000;
    let (elapsed, probe) = rig.next_sent();
    assert!((2 * srtt_ms..=2 * srtt_ms + 10).contains(&elapsed), "{elapsed} for {srtt_ms}");
    assert_eq!(probe.iter().map(|s| s.seq).collect::<Vec<_>>(), vec![at(6)]);
    rig.wait_ms(RTT_MS);
    rig.receive(seg(ACK, 1, at(3)).sack(at(6), at(7)));
    assert_eq!(sequences(&mut rig), vec![3], "what has arrived is replaced");
    assert_eq!(rig.info().congestion_state, 3);
    rig.wait_ms(RTT_MS);
    rig.receive(seg(ACK, 1, at(4)).sack(at(6), at(7)));
    assert_eq!(sequences(&mut rig), vec![4, 5], "and one more as SND.UNA moves (RFC 9937)");
    rig.receive(seg(ACK, 1, at(7)));
    assert_eq!((rig.info().congestion_state, rig.count(Counter::TcpTimeouts)), (0, 0));
}

/// §7.2: on a link of a tenth of a millisecond, a peer that gets its processor some milliseconds late causes no probe.
#[test]
fn a_peer_that_is_late_is_not_probed() {
    let mut rig = under_way(1);
    for n in 1..200 {
        rig.now += crate::Duration::from_micros(100);
        rig.receive(seg(ACK, 1, at(n)));
        rig.send(at(n), MSS);
        rig.sent();
    }
    rig.send(at(200), 3 * MSS);
    rig.sent();
    rig.wait_ms(7);
    assert_eq!(sequences(&mut rig), [], "nothing is retransmitted");
    assert_eq!(rig.count(Counter::TcpLossProbes), 0);
    let (elapsed, probe) = rig.next_sent();
    assert!((1..=3).contains(&elapsed), "{elapsed}");
    assert_eq!(probe.iter().map(|s| s.seq).collect::<Vec<_>>(), vec![at(202)]);
}

/// §7.2: more than one segment sent at once after an ACK has the probe timeout of several segments. It was 200 ms longer, as
/// for one segment with a delayed ACK, since the timer had been started by the first of them.
#[test]
fn several_segments_behind_an_ack_are_probed_early() {
    let mut rig = measured(3);
    rig.wait_ms(RTT_MS);
    rig.receive(seg(ACK, 1, at(4)));
    let srtt_ms = rig.info().rtt_us as u64 / 1_000;
    rig.send(at(4), 3 * MSS);
    assert_eq!(rig.sent().len(), 3);
    let (elapsed, probe) = rig.next_sent();
    assert!((2 * srtt_ms..=2 * srtt_ms + 10).contains(&elapsed), "{elapsed} for {srtt_ms}");
    assert_eq!(probe.iter().map(|s| s.seq).collect::<Vec<_>>(), vec![at(6)]);
}

/// The probe is due, but others use the call's budget up; before it is sent, everything is acknowledged. Data that waits for
/// the window is then sent. It stayed for ever: the unneeded probe ended the turn, and with nothing in flight there is no
/// timer.
#[test]
fn acknowledged_before_the_probe_goes() {
    let mut rig = under_way(0);
    rig.send(at(0), 12 * MSS);
    assert_eq!(sequences(&mut rig).len(), 10, "the initial window");
    rig.now = rig.stack.poll_timeout().expect("a probe is due some time");
    rig.stack.handle_timeout(rig.now);
    assert_eq!(rig.count(Counter::TcpLossProbes), 0, "not sent yet");
    rig.receive(seg(ACK, 1, at(10)));
    assert_eq!(sequences(&mut rig), vec![10, 11]);
}

/// §7.4.1: a DSACK of the probe says that nothing was lost: the window stays.
#[test]
fn needless_probe() {
    let mut rig = measured(2);
    let (_, probe) = rig.next_sent();
    assert_eq!(probe[0].seq, at(2));
    let before = rig.info().cwnd_bytes;
    rig.receive(seg(ACK, 1, at(3)));
    rig.wait_ms(RTT_MS);
    rig.receive(seg(ACK, 1, at(3)).sack(at(2), at(3)));
    rig.send(at(3), MSS);
    rig.sent();
    rig.wait_ms(RTT_MS);
    rig.receive(seg(ACK, 1, at(4)));
    assert_eq!((rig.count(Counter::TcpLossProbeRecovery), rig.count(Counter::TcpDsackRecv)), (0, 1));
    assert!(rig.info().cwnd_bytes >= before);
}

/// §7.3: new data is the probe when there is some, even beyond the congestion window.
#[test]
fn probe_with_new_data() {
    let mut rig = under_way(20);
    let (_, probe) = rig.next_sent();
    assert_eq!(probe.iter().map(|s| s.seq).collect::<Vec<_>>(), vec![at(10)]);
    assert_eq!(rig.count(Counter::TcpRetransSegs), 0);
}

/// An unanswered probe is followed by the retransmission timeout.
#[test]
fn unanswered_probe() {
    let mut rig = measured(3);
    rig.next_sent();
    let (_, sent) = rig.next_sent();
    assert_eq!(sent.iter().map(|s| s.seq).collect::<Vec<_>>(), vec![at(1)]);
    assert_eq!((rig.count(Counter::TcpLossProbes), rig.count(Counter::TcpTimeouts)), (1, 1));
}

/// §6.2, step 4: a segment that is late by less than a quarter of the round trip is not retransmitted.
#[test]
fn reordering_within_the_window() {
    let mut rig = measured(4);
    rig.wait_ms(RTT_MS);
    rig.receive(seg(ACK, 1, at(1)).sack(at(2), at(3)));
    assert_eq!(sequences(&mut rig), vec![]);
    rig.receive(seg(ACK, 1, at(3)));
    rig.receive(seg(ACK, 1, at(5)));
    assert_eq!((rig.info().total_retransmits, rig.info().congestion_state), (0, 0));
    assert_eq!(rig.count(Counter::TcpSackReorder), 1);
    // Now that reordering is known, even three segments above the hole do not count as a loss for a while.
    rig.send(at(5), 6 * MSS);
    assert_eq!(sequences(&mut rig).len(), 6);
    rig.wait_ms(RTT_MS);
    rig.receive(seg(ACK, 1, at(5)).sack(at(6), at(10)));
    assert_eq!(sequences(&mut rig), vec![]);
    rig.receive(seg(ACK, 1, at(11)));
    assert_eq!(rig.info().total_retransmits, 0);
}

/// §6.2, step 2: each arriving segment renews RACK.rtt, also one that was sent before the newest: on a path with growing
/// round trips, the hole has that much more time. Only the newest segment had renewed it.
#[test]
fn a_late_segment_renews_the_round_trip() {
    let mut rig = measured(2);
    rig.wait_ms(5);
    rig.send(at(3), MSS);
    assert_eq!(sequences(&mut rig), vec![3]);
    rig.wait_ms(RTT_MS);
    rig.receive(seg(ACK, 1, at(1)).sack(at(3), at(4)));
    rig.wait_ms(3);
    rig.receive(seg(ACK, 1, at(1)).sack(at(2), at(4)));
    assert_eq!((sequences(&mut rig), rig.count(Counter::TcpSackReorder)), (vec![], 1));
    let (elapsed, sent) = rig.next_sent();
    assert!((RTT_MS / 4..=RTT_MS / 4 + 2).contains(&elapsed), "a quarter of the round trip after it: {elapsed}");
    assert_eq!(sent.iter().map(|s| (s.seq - 1) / MSS).collect::<Vec<_>>(), vec![1]);
}

/// §6.2, step 5: when the reordering timer expires, the segment is lost.
#[test]
fn reordering_timer() {
    let mut rig = measured(4);
    rig.wait_ms(RTT_MS);
    rig.receive(seg(ACK, 1, at(1)).sack(at(2), at(3)));
    let (elapsed, sent) = rig.next_sent();
    assert!(elapsed <= RTT_MS / 4 + 2, "{elapsed}");
    assert_eq!(sent.iter().map(|s| (s.seq - 1) / MSS).collect::<Vec<_>>(), vec![1]);
    assert_eq!((rig.info().congestion_state, rig.count(Counter::TcpTimeouts)), (3, 0));
}

/// Three segments above the hole (DupThresh) and no reordering so far: lost at once.
#[test]
fn three_above() {
    let mut rig = measured(6);
    rig.wait_ms(RTT_MS);
    rig.receive(seg(ACK, 1, at(1)).sack(at(2), at(5)));
    assert_eq!(sequences(&mut rig), vec![1]);
}

/// RFC 5681 §3.1: FlightSize is the bytes in flight when the loss was found. ACKs in one burst with the report of the loss
/// have made space that could not be used yet: when the window was the limit, it is the whole window. It was only what the
/// burst had left in flight.
#[test]
fn a_burst_that_brings_acks_and_the_news_of_a_loss() {
    let mut rig = under_way(0);
    rig.send(at(0), 30 * MSS);
    assert_eq!(sequences(&mut rig).len(), 10, "the initial window");
    rig.wait_ms(RTT_MS);
    let sack = |n| seg(ACK, 1, at(5)).sack(at(6), at(n));
    rig.receive_all([seg(ACK, 1, at(2)), seg(ACK, 1, at(4)), seg(ACK, 1, at(5)), sack(7), sack(8), sack(9)]);
    assert!(sequences(&mut rig).contains(&5));
    assert_eq!(rig.info().ssthresh_bytes, 15 * MSS / 2, "half of ten, and five acknowledged in slow start");
}

/// A lost retransmission is sent a third time when something sent after it has arrived.
#[test]
fn lost_retransmission() {
    let mut rig = measured(8);
    rig.wait_ms(RTT_MS);
    rig.receive(seg(ACK, 1, at(1)).sack(at(2), at(5)));
    assert_eq!(sequences(&mut rig), vec![1]);
    rig.send(at(9), 4 * MSS);
    rig.wait_ms(1);
    rig.receive(seg(ACK, 1, at(1)).sack(at(2), at(9)));
    assert!(sequences(&mut rig).starts_with(&[9]));
    rig.wait_ms(RTT_MS);
    rig.receive(seg(ACK, 1, at(1)).sack(at(9), at(10)).sack(at(2), at(9)));
    assert_eq!(sequences(&mut rig)[0], 1, "retransmitted after a round trip, without a timeout");
    assert_eq!((rig.count(Counter::TcpLostRetransmit), rig.count(Counter::TcpTimeouts)), (1, 0));
}

/// §6.3: after a timeout the old segments are lost; they follow with the ACK.
#[test]
fn timeout() {
    let mut rig = measured(3);
    rig.next_sent();
    let (_, sent) = rig.next_sent();
    assert_eq!(sent.len(), 1);
    assert_eq!(rig.info().congestion_state, 4);
    rig.wait_ms(RTT_MS);
    rig.receive(seg(ACK, 1, at(2)));
    assert_eq!(sequences(&mut rig), vec![2, 3]);
    rig.receive(seg(ACK, 1, at(4)));
    assert_eq!(rig.info().congestion_state, 0);
}

/// A connection with a measured round trip and one extent of `count` segments, the first of which were sent as one
/// packet (the link splits it); with `reordered`, reordering is known.
fn under_way_in_one_extent(count: u32, reordered: bool) -> Rig {
    let mut config = StackConfig { ..Rig::config() };
    config.tcp.sack = true;
    let mut rig = Rig::on(config, true, 65_535, true);
    rig.unsummed = true;
    let options = TcpOptions { congestion_control: CongestionControl::NewReno, no_delay: true, ..TcpOptions::default() };
    let listener = rig.listen(options, 1);
    rig.receive(seg(SYN, 0, 0).mss(MSS as u16).sack_permitted());
    rig.sent();
    rig.wait_ms(RTT_MS);
    rig.receive(seg(ACK, 1, 1));
    rig.id = rig.stack.accept(listener, NAME).expect("one connection waits");
    rig.send(at(0), 3 * MSS);
    rig.sent();
    rig.wait_ms(RTT_MS);
    if reordered {
        rig.receive(seg(ACK, 1, at(0)).sack(at(1), at(2)));
    }
    rig.receive(seg(ACK, 1, at(3)));
    let content = Content::new(stream(at(3), count * MSS));
    let extent = rig.arena.frame_of(&content, 0..(count * MSS) as usize).expect("there are extents");
    rig.stack.send_frame(rig.id, extent).expect("there is room");
    assert_eq!(rig.sent().len(), 1, "one packet for the link to split");
    rig
}

/// When the link does the splitting, one extent has many segments. A loss among them is found by those behind it like any
/// other. It was not: an extent had only the time of its last byte, and only a probe or timeout repaired it.
#[test]
fn a_loss_within_an_extent() {
    let mut rig = under_way_in_one_extent(8, false);
    rig.wait_ms(RTT_MS);
    rig.receive(seg(ACK, 1, at(5)).sack(at(6), at(9)));
    assert_eq!(sequences(&mut rig), vec![5]);
    // A second one, in the same extent, part of which was retransmitted.
    rig.receive(seg(ACK, 1, at(5)).sack(at(10), at(11)).sack(at(6), at(9)));
    assert_eq!(sequences(&mut rig), vec![9]);
    rig.wait_ms(RTT_MS);
    rig.receive(seg(ACK, 1, at(11)));
    assert_eq!((rig.info().congestion_state, rig.count(Counter::TcpTimeouts)), (0, 0));
}

/// An extent may be sent in parts, as the window opens. Each part has its xmit time: a SACK of the second part shows that
/// what is missing of the first, sent a round trip earlier, is lost, though reordering is known. The whole extent had
/// counted as sent with its last part.
#[test]
fn parts_of_an_extent_have_times_of_their_own() {
    let mut rig = under_way_in_one_extent(40, true);
    assert_eq!(rig.info().cwnd_bytes, 10 * MSS, "a part only");
    rig.wait_ms(RTT_MS);
    rig.receive(seg(ACK, 1, at(5)));
    assert_eq!(sequences(&mut rig), vec![13], "the second part");
    rig.wait_ms(RTT_MS);
    rig.receive(seg(ACK, 1, at(5)).sack(at(6), at(14)));
    assert_eq!(sequences(&mut rig)[0], 5);
}
