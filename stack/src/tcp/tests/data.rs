//! Data both ways: segmentation, windows, Nagle, delayed ACKs, reassembly.

use alloc::vec;

use super::rig::*;
use crate::config::TcpOptions;
use crate::error::ReceiveError;
use crate::event::{Event, SocketError};
use crate::stats::Counter;
use crate::wire::tcp::{ACK, FIN, PSH, RST, SYN};

const NO_DELAY: TcpOptions = TcpOptions { no_delay: true, ..DEFAULT };
pub(super) const DEFAULT: TcpOptions = TcpOptions {
    no_delay: false,
    cork: false,
    more: false,
    quick_ack: None,
    keepalive: false,
    keepalive_idle: crate::Duration::ZERO,
    keepalive_interval: crate::Duration::ZERO,
    keepalive_probes: 0,
    user_timeout: crate::Duration::ZERO,
    send_buffer_bytes: 0,
    receive_buffer_bytes: 0,
    maximum_segment_size: 0,
    pacing_rate_max: 0,
    shared_rates: [None; 2],
    congestion_control: crate::CongestionControl::Cubic,
    type_of_service: 0,
    time_to_live: 0,
    fast_open: false,
    fast_open_without_cookie: false,
    fast_open_queue: 0,
    not_sent_low_water: 0,
    defer_accept_retries: 0,
    syn_retries: 0,
    window_clamp: 0,
    fin_timeout: None,
    path_mtu_discovery: crate::config::PathMtuDiscovery::Want,
    reuse_port: false,
};

/// In order: the data is readable, and an answer carries the ACK.
#[test]
fn request_and_response() {
    let mut rig = Rig::accepted(Rig::config(), DEFAULT);
    rig.receive(seg(ACK | PSH, 1, 1).data(100));
    assert_eq!(rig.events(), vec![Event::Ready { socket: rig.id, user_token: NAME }]);
    assert_eq!(rig.brief(), vec![], "the ACK may wait");
    assert_eq!(rig.read(1), Ok(100));
    assert_eq!(rig.send(1, 200), 200);
    let sent = rig.sent();
    assert_eq!(sent[0].brief(), (ACK | PSH, 1, 101, 200));
    assert_eq!(sent[0].payload, stream(1, 200));
    rig.receive(seg(ACK, 101, 201));
    assert_eq!(rig.info().unacked_bytes, 0);
    rig.assert_idle();
    rig.assert_no_leak();
}

/// A lone segment is acknowledged after a delay, two full ones at once.
/// RFC 9293 MUST-40.
#[test]
fn delayed_ack() {
    let mut rig = Rig::accepted(Rig::config(), DEFAULT);
    rig.receive(seg(ACK, 1, 1).data(100));
    let (elapsed, sent) = rig.next_sent();
    assert_eq!((elapsed, sent[0].brief()), (1, (ACK, 1, 101, 0)), "a quarter of a short round trip is 1 ms");
    rig.receive_all([seg(ACK, 101, 1).data(MSS), seg(ACK, 101 + MSS, 1).data(MSS)]);
    assert_eq!(rig.brief(), vec![(ACK, 1, 101 + 2 * MSS, 0)]);
    assert_eq!(rig.count(Counter::DelayedAcks), 1);
}

/// TCP_QUICKACK: at once.
#[test]
fn quick_ack() {
    let mut rig = Rig::accepted(Rig::config(), TcpOptions { quick_ack: Some(true), ..DEFAULT });
    rig.receive(seg(ACK, 1, 1).data(1));
    assert_eq!(rig.brief(), vec![(ACK, 1, 2, 0)]);
}

/// The initial window is ten segments; the rest follows the ACKs.
#[test]
fn segmentation_and_initial_window() {
    let mut rig = Rig::accepted(Rig::config(), DEFAULT);
    assert_eq!(rig.send(1, 20 * MSS), 20 * MSS as usize);
    let sent = rig.sent();
    assert_eq!(sent.len(), 10);
    for (n, segment) in sent.iter().enumerate() {
        assert_eq!(segment.seq, 1 + n as u32 * MSS);
        assert_eq!(segment.payload, stream(segment.seq, MSS));
    }
    rig.receive(seg(ACK, 1, 1 + 2 * MSS));
    assert_eq!(rig.sent().len(), 4, "slow start: two for two, and two more");
}

/// The peer's window is never exceeded, and its opening releases data.
#[test]
fn peers_window() {
    let mut rig = Rig::accepted(Rig::config(), DEFAULT);
    rig.receive(seg(ACK, 1, 1).data(1));
    rig.receive(seg(ACK, 2, 1).data(1).window(3_000));
    assert_eq!(rig.send(1, 10 * MSS), 10 * MSS as usize);
    assert_eq!(rig.sent().iter().map(|s| s.payload.len()).sum::<usize>(), 2 * MSS as usize);
    rig.receive(seg(ACK, 3, 1 + 2 * MSS).window(3_000));
    assert_eq!(rig.sent().len(), 2);
}

/// Nagle with Minshall's change: one small segment in flight holds the next small one back.
/// RFC 9293 SHLD-7.
#[test]
fn nagle() {
    let mut rig = Rig::accepted(Rig::config(), DEFAULT);
    rig.send(1, 10);
    assert_eq!(rig.brief(), vec![(ACK | PSH, 1, 1, 10)]);
    rig.send(11, 10);
    rig.send(21, 10);
    assert_eq!(rig.brief(), vec![]);
    rig.receive(seg(ACK, 1, 11));
    assert_eq!(rig.brief(), vec![(ACK | PSH, 11, 1, 20)], "both writes in one segment");
}

/// The tail of a large write does not wait for full segments in flight.
#[test]
fn nagle_lets_a_tail_go() {
    let mut rig = Rig::accepted(Rig::config(), DEFAULT);
    rig.send(1, 2 * MSS + 10);
    let lengths: alloc::vec::Vec<usize> = rig.sent().iter().map(|s| s.payload.len()).collect();
    assert_eq!(lengths, vec![MSS as usize, MSS as usize, 10]);
}

/// Autocork: data written before the stack transmits leaves together, also with TCP_NODELAY; no timer holds anything.
#[test]
fn writes_of_one_turn() {
    let mut rig = Rig::accepted(Rig::config(), NO_DELAY);
    for n in 0..5 {
        rig.send(1 + n * 10, 10);
    }
    assert_eq!(rig.brief(), vec![(ACK | PSH, 1, 1, 50)]);
    rig.send(51, 10);
    assert_eq!(rig.brief(), vec![(ACK | PSH, 51, 1, 10)], "later writes do not wait");
}

/// TCP_NODELAY sends each write; TCP_CORK only full segments until it is removed.
/// RFC 9293 MUST-17.
#[test]
fn no_delay_and_cork() {
    let mut rig = Rig::accepted(Rig::config(), NO_DELAY);
    for n in 0..3 {
        rig.send(1 + n * 10, 10);
        assert_eq!(rig.brief(), vec![(ACK | PSH, 1 + n * 10, 1, 10)]);
    }
    let now = rig.now;
    rig.stack.set_options(now, rig.id, TcpOptions { cork: true, ..DEFAULT });
    rig.send(31, MSS + 5);
    assert_eq!(rig.brief(), vec![(ACK, 31, 1, MSS as usize)]);
    rig.stack.set_options(now, rig.id, NO_DELAY);
    assert_eq!(rig.brief(), vec![(ACK | PSH, 31 + MSS, 1, 5)]);
}

/// A gap: duplicate ACKs at once; when it is filled everything is delivered and acknowledged.
/// RFC 9293 SHLD-31.
#[test]
fn out_of_order() {
    let mut rig = Rig::accepted(Rig::config(), DEFAULT);
    rig.receive(seg(ACK, 101, 1).data(100));
    assert_eq!(rig.brief(), vec![(ACK, 1, 1, 0)]);
    rig.receive(seg(ACK, 201, 1).data(100));
    assert_eq!(rig.brief(), vec![(ACK, 1, 1, 0)]);
    assert_eq!(rig.read(1), Ok(0));
    rig.receive(seg(ACK, 1, 1).data(100));
    assert_eq!(rig.brief(), vec![(ACK, 1, 301, 0)]);
    assert_eq!(rig.read(1), Ok(300));
    assert_eq!(rig.count(Counter::TcpOfoQueue), 2);
    rig.assert_no_leak();
}

/// RFC 2018 §8: out-of-order data may fill the buffer's memory; the next data in order displaces the farthest of it, so that
/// the stream goes on.
#[test]
fn data_in_order_displaces_data_out_of_order() {
    let mut rig = Rig::accepted(Rig::config(), TcpOptions { receive_buffer_bytes: 4_096, ..DEFAULT });
    for n in 1..13 {
        rig.receive(seg(ACK, 1 + 300 * n, 1).data(300));
        rig.sent();
    }
    assert!(rig.count(Counter::DropNoBuffer) > 0, "the memory is full");
    rig.receive(seg(ACK, 1, 1).data(300));
    assert!(rig.count(Counter::OfoPruned) > 0);
    let read = rig.read(1).expect("the stream goes on");
    assert!(read >= 300 && read.is_multiple_of(300), "{read}");
    for n in (read as u32 / 300)..13 {
        rig.receive(seg(ACK, 1 + 300 * n, 1).data(300));
        rig.sent();
        assert_eq!(rig.read(1 + 300 * n), Ok(300), "{n}");
    }
    rig.assert_no_leak();
}

/// With SACK negotiated, gaps are reported, the newest block first.
#[test]
fn sack_blocks() {
    let mut config = Rig::config();
    config.tcp.sack = true;
    let mut rig = Rig::with(config);
    rig.accept_with(DEFAULT, seg(SYN, 0, 0).mss(1_460).sack_permitted());
    for (seq, blocks) in [(101, vec![(101, 201)]), (301, vec![(301, 401), (101, 201)]), (201, vec![(101, 401)])] {
        rig.receive(seg(ACK, seq, 1).data(100));
        let sent = rig.sent();
        assert_eq!(sent.len(), 1);
        let told: alloc::vec::Vec<(u32, u32)> = sent[0].options.sack().iter().map(|b| (b.left.0, b.right.0)).collect();
        assert_eq!(told, blocks);
    }
}

/// Bytes received before are trimmed, duplicates are acknowledged again.
#[test]
fn overlap() {
    let mut rig = Rig::accepted(Rig::config(), DEFAULT);
    rig.receive(seg(ACK, 1, 1).data(100));
    rig.receive(seg(ACK, 51, 1).data(100));
    assert_eq!(rig.read(1), Ok(150));
    assert_eq!(rig.brief(), vec![(ACK, 1, 151, 0)]);
    rig.receive(seg(ACK, 1, 1).data(100));
    assert_eq!(rig.brief(), vec![(ACK, 1, 151, 0)]);
}

/// A FIN that arrives before the data in front of it closes when the gap is filled.
#[test]
fn early_fin() {
    let mut rig = Rig::accepted(Rig::config(), DEFAULT);
    rig.receive(seg(ACK | FIN, 101, 1).data(50));
    rig.receive(seg(ACK, 1, 1).data(100));
    assert_eq!(rig.brief(), vec![(ACK, 1, 152, 0)]);
    assert_eq!(rig.read(1), Ok(150));
    assert_eq!(rig.read(151), Err(ReceiveError::EndOfStream));
}

/// A reset is no end of stream: the data before it is read, then the error.
#[test]
fn reset_after_data() {
    let mut rig = Rig::accepted(Rig::config(), DEFAULT);
    rig.receive(seg(ACK, 1, 1).data(100));
    rig.receive(seg(RST, 101, 0));
    assert_eq!(rig.read(1), Ok(100));
    assert_eq!(rig.read(101), Err(ReceiveError::Failed(SocketError::Reset)));
}

/// The window closes as the buffer fills, never shrinks, and its reopening is announced.
/// RFC 9293 MUST-39.
#[test]
fn own_window() {
    let mut rig = Rig::accepted(Rig::config(), TcpOptions { receive_buffer_bytes: 8_192, ..DEFAULT });
    let mut edge = 0;
    for n in 0..5 {
        rig.receive(seg(ACK, 1 + n * 1_000, 1).data(1_000));
        rig.receive(seg(ACK, 1 + n * 1_000, 1).data(1_000));
        for segment in rig.sent() {
            let right = segment.ack + segment.window as u32;
            assert!(right >= edge, "the right edge moved left");
            edge = right;
        }
    }
    for seq in (5_001..edge).step_by(1_000) {
        rig.receive(seg(ACK, seq, 1).data(1_000.min(edge - seq)));
    }
    let full = rig.next_sent().1;
    assert_eq!((full[0].ack, full[0].window), (edge, 0));
    // Beyond the window: dropped and acknowledged.
    rig.receive(seg(ACK, edge, 1).data(10));
    assert_eq!(rig.brief(), vec![(ACK, 1, edge, 0)]);
    assert_eq!(rig.read(1), Ok(edge as usize - 1));
    let update = rig.sent();
    assert_eq!((update.len(), update[0].ack, update[0].window), (1, edge, 8_192));
}

/// A scaled window's promise is kept to the last byte, despite the rounding of its edge.
#[test]
fn scaled_window() {
    let mut rig = Rig::with(Rig::config());
    rig.accept_with(TcpOptions { receive_buffer_bytes: 100_000, ..DEFAULT }, seg(SYN, 0, 0).mss(1_460).scale(0));
    let scale = rig.info().receive_scale;
    assert!(scale > 0);
    let (mut next, mut edge, mut acknowledged) = (1, 60_000, 1);
    while next < edge {
        let len = 1_111.min(edge - next);
        rig.receive(seg(ACK, next, 1).data(len));
        next += len;
        for segment in rig.sent() {
            acknowledged = segment.ack;
            edge = edge.max(segment.ack + ((segment.window as u32) << scale));
        }
    }
    if acknowledged != edge {
        acknowledged = rig.next_sent().1[0].ack;
    }
    assert_eq!(acknowledged, edge);
    assert_eq!(rig.read(1), Ok(edge as usize - 1));
}

/// Tiny segments share frames: the arena is not used up by them.
#[test]
fn tiny_segments() {
    let mut rig = Rig::accepted(Rig::config(), DEFAULT);
    let before = rig.arena.free(ringway_shm::Class::Large);
    for n in 0..1_000 {
        rig.receive(seg(ACK, 1 + n, 1).data(1));
        rig.sent();
    }
    assert!(before - rig.arena.free(ringway_shm::Class::Large) <= 2);
    assert_eq!(rig.read(1), Ok(1_000));
}

/// A cork holds less than a segment only while there is space to complete it.
#[test]
fn a_full_buffer_is_not_corked() {
    let mut rig = Rig::accepted(Rig::config(), TcpOptions { cork: true, send_buffer_bytes: 4_096, ..DEFAULT });
    let room = rig.send(1, 100_000);
    let segments = rig.sent();
    assert_eq!(segments.iter().map(|segment| segment.payload.len()).sum::<usize>(), room);
    rig.receive(seg(ACK, 1, 1 + room as u32));
    assert_eq!(rig.send(1 + room as u32, 100), 100);
    assert_eq!(rig.sent().len(), 0, "held again");
}

/// The send buffer bounds queued data; acknowledged data makes space and signals it.
#[test]
fn send_buffer() {
    let mut rig = Rig::accepted(Rig::config(), TcpOptions { send_buffer_bytes: 10_000, ..DEFAULT });
    assert_eq!(rig.send(1, 20_000), 10_000);
    assert_eq!(rig.stack.send_space(rig.id), 0);
    assert!(!rig.stack.readiness(rig.id).writable);
    rig.sent();
    rig.receive(seg(ACK, 1, 5_001));
    assert_eq!(rig.events(), vec![Event::Ready { socket: rig.id, user_token: NAME }]);
    assert_eq!(rig.stack.send_space(rig.id), 5_000);
}

/// Bytes that move between frames keep their checksums: many odd writes, resegmented.
#[test]
fn odd_writes() {
    let mut rig = Rig::accepted(Rig::config(), DEFAULT);
    let mut at = 1;
    for len in [1u32, 3, 129, 77, 2_049, 5, 131, 4_001] {
        rig.send(at, len);
        at += len;
    }
    let mut seen = 1;
    for segment in rig.sent() {
        assert_eq!((segment.seq, &segment.payload), (seen, &stream(seen, segment.payload.len() as u32)));
        seen += segment.payload.len() as u32;
    }
    assert!(seen > at - MSS);
}

/// The MTU of our own link becomes smaller: data in flight is resegmented, and later segments fit.
#[test]
fn a_smaller_link_gets_smaller_segments() {
    let mut rig = Rig::accepted(Rig::config(), NO_DELAY);
    assert_eq!(rig.send(1, 3_000), 3_000);
    let mss = MSS as usize;
    let sent: vec::Vec<usize> = rig.brief().iter().map(|segment| segment.3).collect();
    assert_eq!(sent, [mss, mss, 3_000 - 2 * mss]);
    rig.stack.set_interface(rig.now, 0, link(1_000));
    assert_eq!(rig.sent().iter().map(|segment| segment.payload.len()).max(), Some(960), "retransmitted in smaller pieces");
    rig.receive(seg(ACK, 1, 3_001));
    assert_eq!(rig.send(3_001, 2_000), 2_000);
    assert!(rig.sent().iter().all(|segment| segment.payload.len() <= 960));
    // A larger link changes nothing for connections with a smaller negotiated size.
    rig.stack.set_interface(rig.now, 0, link(9_000));
    rig.receive(seg(ACK, 1, 5_001));
    assert_eq!(rig.send(5_001, 2_000), 2_000);
    assert!(rig.sent().iter().all(|segment| segment.payload.len() <= 960));
}

/// MSG_MORE holds a partial segment until the next packet of the peer, which the data acknowledges; a push sends it before.
#[test]
fn more_to_come() {
    let more = TcpOptions { more: true, ..NO_DELAY };
    let mut rig = Rig::accepted(Rig::config(), NO_DELAY);
    rig.stack.set_options(rig.now, rig.id, more);
    rig.send(1, 30);
    assert_eq!(rig.brief(), vec![], "it waits for more");
    rig.receive(seg(ACK | PSH, 1, 1).data(10));
    assert_eq!(rig.brief(), vec![(ACK | PSH, 1, 11, 30)]);
    rig.stack.set_options(rig.now, rig.id, more);
    rig.send(31, 20);
    assert_eq!(rig.brief(), vec![]);
    rig.stack.push(rig.now, rig.id);
    assert_eq!(rig.brief(), vec![(ACK | PSH, 31, 11, 20)]);
}
