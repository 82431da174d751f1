//! SACK blocks in data segments (RFC 2018 §3), and the space that they take (RFC 6691).

use alloc::vec;
use alloc::vec::Vec;

use super::rig::*;
use crate::config::{StackConfig, TcpOptions};
use crate::family::{Family, in_both_families};
use crate::stats::Counter;
use crate::wire::tcp::{ACK, FIN, PSH, SYN};

/// A SACK block and the two words around it.
const ONE_BLOCK: u32 = 12;
const TIMESTAMPS: u32 = 12;

fn with_sack() -> StackConfig {
    let mut config = Rig::config();
    config.tcp.sack = true;
    config
}

fn accepted(config: StackConfig) -> Rig {
    let mut rig = Rig::with(config);
    rig.accept_with(newreno(), seg(SYN, 0, 0).mss(MSS as u16).sack_permitted());
    rig
}

fn blocks(segment: &Seg) -> Vec<(u32, u32)> {
    segment.options.sack().iter().map(|block| (block.left.0, block.right.0)).collect()
}

/// A response is sent while requests are missing: it carries the SACK block itself, and no ACK goes beside it.
/// RFC 2018 §3.
fn a_response_tells_of_a_gap(family: Family) {
    let mut rig = Rig::of(family, with_sack());
    rig.accept_with(newreno(), seg(SYN, 0, 0).mss(1_000).sack_permitted());
    rig.receive(seg(ACK | PSH, 201, 1).data(100));
    rig.send(1, 50);
    let sent = rig.sent();
    assert_eq!(sent.iter().map(Seg::brief).collect::<Vec<_>>(), vec![(ACK | PSH, 1, 1, 50)]);
    assert_eq!(blocks(&sent[0]), vec![(201, 301)]);
    // Later data reports later gaps, the newest first.
    rig.receive(seg(ACK | PSH, 401, 51).data(100));
    rig.send(51, 50);
    let sent = rig.sent();
    assert_eq!(sent.len(), 1);
    assert_eq!(blocks(&sent[0]), vec![(401, 501), (201, 301)]);
    // The gap is filled: there is nothing more to report.
    rig.receive(seg(ACK | PSH, 1, 101).data(200));
    rig.receive(seg(ACK | PSH, 301, 101).data(100));
    rig.send(101, 50);
    let sent = rig.sent();
    assert_eq!(sent.iter().map(Seg::brief).collect::<Vec<_>>(), vec![(ACK | PSH, 101, 501, 50)]);
    assert_eq!(blocks(&sent[0]), vec![]);
}

/// Blocks take their space from full segments, as many as fit beside timestamps: no segment is longer than the MSS and the
/// header that it was negotiated for.
/// RFC 6691 §2, RFC 9293 MUST-16.
#[test]
fn full_segments_have_room_for_blocks() {
    let mut config = with_sack();
    config.tcp.timestamps = true;
    let mut rig = Rig::with(config);
    rig.accept_with(newreno(), seg(SYN, 0, 0).mss(MSS as u16).sack_permitted().time(5, 0));
    for n in 1..=4 {
        rig.receive(seg(ACK, 1 + 200 * n, 1).time(6, 0).data(100));
        assert_eq!(rig.sent().len(), 1, "nothing else reports it");
    }
    rig.send(1, 5 * MSS);
    let sent = rig.sent();
    let room = MSS - TIMESTAMPS - ONE_BLOCK - 2 * 8;
    let lens: Vec<u32> = sent.iter().map(|segment| segment.payload.len() as u32).collect();
    assert_eq!(lens, [room, room, room, room, room, 5 * MSS - 5 * room]);
    for segment in &sent {
        assert_eq!(blocks(segment), vec![(801, 901), (601, 701), (401, 501)]);
        assert!(segment.payload.len() + segment.options.len() <= MSS as usize);
    }
    let stream: Vec<u8> = sent.iter().flat_map(|segment| segment.payload.clone()).collect();
    assert_eq!(stream, super::rig::stream(1, 5 * MSS));
}

/// A full segment with blocks is a full one to Nagle's rule: the next one may go. Without the gap the size is as before.
#[test]
fn a_full_segment_stays_one() {
    let mut rig = accepted(with_sack());
    rig.receive(seg(ACK, 101, 1).data(100));
    rig.sent();
    rig.send(1, MSS - ONE_BLOCK);
    assert_eq!(rig.brief(), vec![(ACK | PSH, 1, 1, (MSS - ONE_BLOCK) as usize)]);
    rig.send(1 + MSS - ONE_BLOCK, 10);
    assert_eq!(rig.sent().len(), 1);
    rig.receive(seg(ACK, 1, 11 + MSS - ONE_BLOCK).data(100));
    rig.sent();
    rig.send(11 + MSS - ONE_BLOCK, MSS);
    assert_eq!(rig.brief(), vec![(ACK | PSH, 11 + MSS - ONE_BLOCK, 201, MSS as usize)]);
}

/// Retransmissions carry blocks too, and leave space for them.
#[test]
fn retransmissions_tell_of_gaps() {
    let mut config = with_sack();
    config.tcp.rack = false;
    let mut rig = accepted(config);
    rig.send(1, 10 * MSS);
    assert_eq!(rig.sent().len(), 10);
    rig.receive(seg(ACK, 101, 1).sack(1 + 2 * MSS, 1 + 10 * MSS).data(100));
    let room = (MSS - ONE_BLOCK) as usize;
    let sent = rig.sent();
    assert_eq!(sent.iter().map(Seg::brief).collect::<Vec<_>>()[..2], [(ACK, 1, 1, room), (ACK, 1 + room as u32, 1, room)]);
    assert!(sent.iter().all(|segment| blocks(segment) == [(101, 201)]), "{sent:?}");
    // The rest of the two segments.
    assert_eq!(sent[2].brief(), (ACK, 1 + 2 * room as u32, 1, 2 * ONE_BLOCK as usize));
}

/// A duplicate is reported once, in an ACK of its own, in front of the data.
/// RFC 2883 §4.
#[test]
fn duplicates_are_told_once() {
    let mut rig = accepted(with_sack());
    rig.receive(seg(ACK, 101, 1).data(100));
    rig.sent();
    rig.receive(seg(ACK, 101, 1).data(100));
    rig.send(1, 2 * MSS);
    let sent = rig.sent();
    assert_eq!(sent[0].brief(), (ACK, 1, 1, 0));
    assert_eq!(blocks(&sent[0]), vec![(101, 201), (101, 201)]);
    assert_eq!(sent.len(), 4);
    assert!(sent[1..].iter().all(|segment| blocks(segment) == [(101, 201)]), "{sent:?}");
}

/// A peer without SACK counts duplicate ACKs, and those have no data (RFC 5681 §2).
#[test]
fn without_sack_a_gap_has_an_ack_of_its_own() {
    let mut rig = Rig::accepted(Rig::config(), newreno());
    rig.receive(seg(ACK, 101, 1).data(100));
    rig.send(1, 50);
    assert_eq!(rig.brief(), vec![(ACK, 1, 1, 0), (ACK | PSH, 1, 1, 50)]);
}

/// A FIN without data carries blocks as well.
#[test]
fn a_fin_tells_of_a_gap() {
    let mut rig = accepted(with_sack());
    rig.receive(seg(ACK, 101, 1).data(100));
    rig.sent();
    rig.stack.shutdown_write(rig.now, rig.id);
    let sent = rig.sent();
    assert_eq!(sent.iter().map(Seg::brief).collect::<Vec<_>>(), vec![(ACK | FIN, 1, 1, 0)]);
    assert_eq!(blocks(&sent[0]), vec![(101, 201)]);
}

/// The smallest accepted MSS keeps half of its space for data, however many blocks there are.
#[test]
fn the_smallest_segments_carry_data_still() {
    let mut rig = Rig::with(with_sack());
    rig.accept_with(newreno(), seg(SYN, 0, 0).mss(1).sack_permitted());
    for n in 1..=4 {
        rig.receive(seg(ACK, 1 + 200 * n, 1).data(100));
        rig.sent();
    }
    rig.send(1, 1_000);
    let mut got = Vec::new();
    while got.len() < 1_000 {
        let sent = rig.sent();
        assert!(!sent.is_empty(), "after {} bytes", got.len());
        for segment in sent {
            assert!(segment.options.len() <= segment.payload.len() || got.len() + segment.payload.len() == 1_000);
            got.extend(segment.payload);
        }
        rig.receive(seg(ACK, 1, 1 + got.len() as u32));
    }
    assert_eq!(got, stream(1, 1_000));
}

/// Both ends send and both have lost a segment: each learns it from the other's data, without a timer.
#[test]
fn losses_in_both_directions_are_repaired_at_once() {
    let mut config = with_sack();
    config.tcp.rack = false;
    let mut rig = accepted(config);
    rig.send(1, 5 * MSS);
    assert_eq!(rig.sent().len(), 5);
    // The peer's first segment is lost, and so is ours; its data reports what it has of ours.
    rig.receive(seg(ACK, 1_001, 1).sack(1 + MSS, 1 + 5 * MSS).data(1_000));
    let sent = rig.sent();
    assert_eq!(sent[0].brief(), (ACK, 1, 1, (MSS - ONE_BLOCK) as usize));
    assert_eq!(blocks(&sent[0]), vec![(1_001, 2_001)]);
    assert_eq!(rig.count(Counter::TcpSackRecovery), 1);
    assert_eq!(rig.count(Counter::TcpTimeouts), 0);
}

in_both_families!(a_response_tells_of_a_gap);

/// A burst in which five packets are missing leaves five intervals. One ACK has space for three beside timestamps, so there
/// are two, the first of which reports the older ones. With one ACK, the peer's RACK took the unreported segments for lost
/// or reordered: a sender with BBR on a path of 1 Gbit/s, 20 ms and 1 % loss counted ten reorderings in 3 s (none with a
/// kernel as receiver) and had 0.86 times the rate.
/// RFC 2018 §4, RFC 5681 §4.2.
#[test]
fn a_burst_with_many_gaps_has_several_acks() {
    let mut config = with_sack();
    config.tcp.timestamps = true;
    let mut rig = Rig::with(config);
    rig.accept_with(newreno(), seg(SYN, 0, 0).mss(MSS as u16).sack_permitted().time(5, 0));
    let burst = |rig: &mut Rig, starts: &[u32]| {
        rig.receive_burst(&starts.iter().map(|&start| seg(ACK, start, 1).time(6, 0).data(100)).collect::<Vec<_>>());
        rig.sent().iter().map(blocks).collect::<Vec<_>>()
    };
    let told = burst(&mut rig, &[201, 401, 601, 801, 1_001]);
    assert_eq!(told, [vec![(401, 501), (201, 301)], vec![(1_001, 1_101), (801, 901), (601, 701)]]);
    // Once more, since an ACK may be lost.
    let told = burst(&mut rig, &[301, 1_201]);
    assert_eq!(told, [vec![(801, 901), (601, 701)], vec![(1_201, 1_301), (201, 501), (1_001, 1_101)]]);
    // Intervals reported twice are reported again as far as there is space.
    let told = burst(&mut rig, &[1_401]);
    assert_eq!(told, [vec![(1_401, 1_501), (1_201, 1_301), (201, 501)]]);
    // Duplicates take one of the blocks.
    let told = burst(&mut rig, &[1_601, 1_801, 1_601]);
    assert_eq!(told, [vec![(1_401, 1_501)], vec![(1_601, 1_701), (1_601, 1_701), (1_801, 1_901)]]);
}

/// Intervals that came before a hole was filled are reported with the acknowledgment of that time. The hole's repair was
/// sent later than the rest of the burst: a kernel that heard of it first, on a path of 1 Gbit/s, 20 ms and 1 % loss,
/// retransmitted 60 segments that had arrived. Intervals that came after it are reported with the new number. RFC 2018 §4,
/// RFC 8985 §6.2.
#[test]
fn gaps_are_told_with_what_was_acknowledged_when_they_grew() {
    let mut config = with_sack();
    config.tcp.timestamps = true;
    let told = |starts: &[u32], scaled: bool| {
        let mut rig = Rig::with(config.clone());
        let syn = seg(SYN, 0, 0).mss(MSS as u16).sack_permitted().time(5, 0);
        // Without a scale, small enough for the window's field.
        let options = TcpOptions { receive_buffer_bytes: if scaled { 0 } else { 32 << 10 }, ..newreno() };
        rig.accept_with(options, if scaled { syn.scale(7) } else { syn });
        let scale = rig.info().receive_scale;
        assert_eq!(scale > 0, scaled);
        let edge_of = |segment: &Seg| segment.ack + (u32::from(segment.window) << scale);
        // A segment out of the window is answered, with a scaled window.
        rig.receive(seg(ACK, 0, 1).time(6, 0));
        let mut edge = edge_of(&rig.sent()[0]);
        rig.receive_burst(&starts.iter().map(|&start| seg(ACK, start, 1).time(6, 0).data(100)).collect::<Vec<_>>());
        let sent = rig.sent();
        for segment in &sent {
            let next = edge_of(segment);
            assert!(next >= edge, "the window's edge moves left, from {edge} to {next}");
            edge = next;
        }
        sent.iter().map(|segment| (segment.ack, blocks(segment))).collect::<Vec<_>>()
    };
    let before = [(1, vec![(401, 501), (201, 301)]), (101, vec![(1_001, 1_101), (801, 901), (601, 701)])];
    let after = [(101, vec![(401, 501), (201, 301)]), (101, vec![(1_001, 1_101), (801, 901), (601, 701)])];
    let between = [(301, vec![(901, 1_001), (701, 801)]), (601, vec![(1_501, 1_601), (1_301, 1_401), (1_101, 1_201)])];
    for scaled in [false, true] {
        assert_eq!(told(&[201, 401, 601, 801, 1_001, 1], scaled), before);
        assert_eq!(told(&[1, 101, 201, 701, 901, 1_101, 1_301, 1_501, 301, 401, 501], scaled), between);
        assert_eq!(told(&[1, 201, 401, 601, 801, 1_001], scaled), after);
    }
}
