//! Counters of TCP_INFO: segments, bytes, times, rates.

use alloc::vec;

use super::rig::*;
use crate::config::TcpOptions;
use crate::tcp::ActiveOpen;
use crate::wire::tcp::{ACK, PSH};

fn plain() -> Rig {
    Rig::accepted(Rig::config(), TcpOptions { no_delay: true, ..TcpOptions::default() })
}

/// A connection with SACK, so that losses and duplicates are reported.
fn with_sack() -> Rig {
    let mut config = Rig::config();
    config.tcp.sack = true;
    let mut rig = Rig::with(config);
    rig.accept_with(TcpOptions::default(), seg(crate::wire::tcp::SYN, 0, 0).mss(MSS as u16).sack_permitted());
    rig
}

/// Linux counts the SYN and the ACK of a passive open, but not its own SYN-ACK.
#[test]
fn segments() {
    let mut rig = plain();
    let info = rig.info();
    assert_eq!((info.segments_in, info.segments_out, info.data_segments_in, info.data_segments_out), (2, 0, 0, 0));
    assert_eq!((info.delivered, info.bytes_sent), (1, 0));
    rig.send(1, 3 * MSS);
    assert_eq!(rig.sent().len(), 3);
    let info = rig.info();
    assert_eq!((info.segments_out, info.data_segments_out, info.delivered), (3, 3, 1));
    assert_eq!(info.bytes_sent, 3 * MSS as u64);
    rig.receive(seg(ACK, 1, 1 + 2 * MSS));
    assert_eq!(rig.info().delivered, 3);
    rig.receive(seg(ACK | PSH, 1, 1 + 3 * MSS).data(100));
    rig.next_sent();
    let info = rig.info();
    assert_eq!((info.segments_in, info.data_segments_in, info.segments_out, info.data_segments_out), (4, 1, 4, 3));
    assert_eq!((info.delivered, info.bytes_retransmitted), (4, 0));
}

/// A timeout is an episode until something is acknowledged; retransmitted data counts twice as sent.
#[test]
fn timeouts() {
    let mut rig = plain();
    rig.send(1, MSS);
    rig.sent();
    let (first, sent) = rig.next_sent();
    assert_eq!(sent[0].brief(), (ACK | PSH, 1, 1, MSS as usize));
    let (second, _) = rig.next_sent();
    rig.wait_ms(30);
    rig.receive(seg(ACK, 1, 1 + MSS));
    let info = rig.info();
    assert_eq!((info.timeouts, info.timeout_episodes), (2, 1), "after {first} ms");
    assert_eq!(info.timeout_ms as u64, second + 30);
    assert_eq!((info.bytes_sent, info.bytes_retransmitted), (3 * MSS as u64, 2 * MSS as u64));
    assert_eq!(info.delivered, 2);
    rig.wait_ms(500);
    assert_eq!(rig.info().timeout_ms as u64, second + 30, "the episode is over");
}

/// Busy while anything is unacknowledged; limited by the window while that lets nothing out.
#[test]
fn clocks() {
    let mut rig = plain();
    rig.wait_ms(100);
    assert_eq!(rig.info().busy_ms, 0);
    rig.send(1, 1_000);
    rig.sent();
    rig.wait_ms(50);
    assert_eq!((rig.info().busy_ms, rig.info().window_limited_ms), (50, 0));
    rig.receive(seg(ACK, 1, 1_001).window(0));
    rig.wait_ms(70);
    assert_eq!(rig.info().busy_ms, 50);
    rig.send(1_001, 500);
    rig.sent();
    rig.wait_ms(40);
    rig.sent();
    rig.receive(seg(ACK, 1, 1_001).window(5_000));
    assert_eq!(rig.sent().len(), 1);
    rig.wait_ms(10);
    assert_eq!((rig.info().busy_ms, rig.info().window_limited_ms), (100, 40));
    rig.receive(seg(ACK, 1, 1_501).window(5_000));
    rig.wait_ms(1_000);
    assert_eq!((rig.info().busy_ms, rig.info().window_limited_ms, rig.info().buffer_limited_ms), (100, 40, 0));
}

/// Limited by the send buffer while all of it is in flight and the application has more to write.
#[test]
fn full_buffer() {
    let options = TcpOptions { send_buffer_bytes: 4 * MSS, no_delay: true, ..TcpOptions::default() };
    let mut rig = Rig::accepted(Rig::config(), options);
    assert_eq!(rig.send(1, 8 * MSS), 4 * MSS as usize);
    assert_eq!(rig.sent().len(), 4);
    rig.wait_ms(60);
    let info = rig.info();
    assert_eq!((info.busy_ms, info.buffer_limited_ms, info.window_limited_ms), (60, 60, 0));
    rig.receive(seg(ACK, 1, 1 + 4 * MSS));
    rig.send(1 + 4 * MSS, MSS);
    rig.sent();
    rig.wait_ms(15);
    assert_eq!((rig.info().busy_ms, rig.info().buffer_limited_ms), (75, 60), "it has no more to write");
}

/// Two windows of ten segments, each in a round trip of 100 ms: that much is delivered per round trip.
#[test]
fn delivery_rate() {
    let mut rig = plain();
    let window = 10 * MSS;
    for round in 0..2 {
        let start = 1 + round * window;
        // More than fits, so that the application is not the limit.
        rig.send(start + round * 10 * MSS, 2 * window);
        let sent = rig.sent().len() as u32;
        assert!(sent >= 10);
        rig.wait_ms(100);
        rig.receive(seg(ACK, 1, start + window));
    }
    let info = rig.info();
    assert!((info.delivery_rate as i64 - 10 * 10 * MSS as i64).abs() < 3_000, "{}", info.delivery_rate);
    assert!(!info.application_limited);
}

/// A message and its acknowledgment: the rate is its size per round trip, limited by the application.
#[test]
fn rate_of_messages() {
    let mut rig = plain();
    for n in 0..4 {
        rig.send(1 + n * 100, 100);
        rig.sent();
        rig.wait_ms(10);
        rig.receive(seg(ACK, 1, 101 + n * 100));
    }
    let info = rig.info();
    let expected = 100 * 1_000_000 / info.rtt_us as u64;
    assert_eq!((info.delivery_rate, info.application_limited), (expected, true));
}

/// The third segment arrives first, and one arrives twice.
#[test]
fn disorder() {
    let mut rig = with_sack();
    rig.receive(seg(ACK, 1 + 2 * MSS, 1).data(MSS));
    rig.receive(seg(ACK, 1 + MSS, 1).data(MSS));
    assert_eq!(rig.info().out_of_order, 2);
    rig.receive(seg(ACK, 1, 1).data(MSS));
    rig.sent();
    rig.send(1, 6 * MSS);
    rig.sent();
    rig.wait_ms(20);
    rig.receive(seg(ACK, 1 + 3 * MSS, 1).sack(1 + 4 * MSS, 1 + 5 * MSS));
    rig.receive(seg(ACK, 1 + 3 * MSS, 1 + 5 * MSS));
    let info = rig.info();
    assert_eq!((info.reordered, info.reordering), (1, 5), "the first was five segments late");
    rig.receive(seg(ACK, 1 + 3 * MSS, 1 + 6 * MSS).sack(1, 1 + 2 * MSS));
    assert_eq!(rig.info().duplicates, 2);
}

/// Times since payload was sent and received are separate from the time since any segment arrived.
#[test]
fn last_times() {
    let mut rig = plain();
    rig.send(1, 10);
    rig.sent();
    rig.wait_ms(100);
    rig.receive(seg(ACK | PSH, 1, 11).data(5));
    rig.wait_ms(100);
    rig.receive(seg(ACK, 6, 11).window(60_000));
    rig.wait_ms(7);
    let info = rig.info();
    assert_eq!((info.last_data_sent_ms, info.last_data_received_ms, info.last_received_ms), (207, 107, 7));
}

/// A reused block starts at zero, rare statistics included.
#[test]
fn a_block_used_again() {
    let mut rig = plain();
    rig.send(1, 3 * MSS);
    rig.sent();
    rig.next_sent();
    let info = rig.info();
    assert!(info.bytes_retransmitted > 0 && info.timeouts == 1);
    rig.stack.abort(rig.now, rig.id);
    rig.sent();
    rig.events();
    let first = rig.id.index;
    let end = |port| crate::SocketAddress { ip: if port == 81 { LOCAL.into() } else { REMOTE.into() }, port };
    rig.ports = (81, 1_000);
    rig.id = rig
        .stack
        .connect(rig.now, ActiveOpen { local: Some(end(81)), user_token: NAME, ..ActiveOpen::to(end(1_000)) })
        .expect("there is a route");
    assert_eq!(rig.id.index, first);
    rig.sent();
    let info = rig.info();
    assert_eq!((info.bytes_retransmitted, info.timeouts, info.segments_in, info.segments_out), (0, 0, 0, 1));
    assert_eq!(rig.events(), vec![]);
}

/// A connection without data has no statistics, and reports its counts all the same; a later window update makes one, and the
/// time since data arrived is the time since the connection was opened.
#[test]
fn opened_only() {
    let mut rig = plain();
    rig.wait_ms(50);
    let info = rig.info();
    assert_eq!((info.segments_in, info.segments_out, info.data_segments_in, info.data_segments_out), (2, 0, 0, 0));
    assert_eq!((info.last_data_sent_ms, info.last_data_received_ms, info.last_received_ms), (50, 50, 50));
    assert_eq!(rig.stack.tcp().shared.conn_stats.memory(), 0);
    rig.receive(seg(ACK, 1, 1).window(60_000));
    rig.wait_ms(10);
    let info = rig.info();
    assert_eq!((info.segments_in, info.last_data_sent_ms, info.last_data_received_ms, info.last_received_ms), (3, 60, 60, 10));
    assert!(rig.stack.tcp().shared.conn_stats.memory() > 0);
}

/// There are as many conn_stats as have had data at the same time: they are reused.
#[test]
fn a_tally_used_again() {
    let mut rig = plain();
    for port in 0..3 {
        rig.send(1, MSS);
        rig.sent();
        let info = rig.info();
        assert_eq!((info.segments_in, info.segments_out, info.data_segments_out), (2, 1, 1));
        rig.stack.abort(rig.now, rig.id);
        rig.sent();
        rig.events();
        (rig.ports, rig.iss) = ((90 + port, 1_000), None);
        rig.accept_with(TcpOptions { no_delay: true, ..TcpOptions::default() }, seg(crate::wire::tcp::SYN, 0, 0).mss(MSS as u16));
    }
    assert_eq!(rig.stack.tcp().shared.conn_stats.memory(), 40);
}
