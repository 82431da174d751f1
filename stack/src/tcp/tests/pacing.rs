//! Pacing: segments leave by the timer wheel.

use alloc::vec;
use alloc::vec::Vec;

use super::rig::*;
use crate::config::TcpOptions;
use crate::wire::tcp::ACK;

/// RFC 6298 §5.4: a segment that the pace holds back for seconds is sent at the timeout. Otherwise the connection would fail
/// after timeouts in which it has sent nothing.
#[test]
fn a_timeout_does_not_wait_for_the_pace() {
    let options = TcpOptions { pacing_rate_max: 10, ..newreno() };
    let mut rig = Rig::accepted(Rig::config(), options);
    rig.send(1, 3 * MSS);
    assert_eq!(rig.brief(), vec![(ACK, 1, 1, MSS as usize)]);
    for doubling in [1, 2, 4, 8, 16] {
        let (waited_ms, sent) = rig.next_sent();
        assert!((200 * doubling..=210 * doubling).contains(&waited_ms), "{waited_ms}");
        assert_eq!((sent.len(), sent[0].seq), (1, 1));
    }
}

/// At a segment each millisecond: the credit of 2 ms is sent at once, then one segment each tick, and nothing is due after.
#[test]
fn a_segment_each_millisecond() {
    let options = TcpOptions { pacing_rate_max: MSS as u64 * 1_000, ..TcpOptions::default() };
    let mut rig = Rig::accepted(Rig::config(), options);
    rig.send(1, 10 * MSS);
    let mut sent = Vec::new();
    while sent.iter().map(|&(_, count)| count).sum::<usize>() < 10 {
        let (waited_ms, segments) = rig.next_sent();
        sent.push((waited_ms, segments.len()));
    }
    assert_eq!(sent, vec![(0, 3), (1, 1), (1, 1), (1, 1), (1, 1), (1, 1), (1, 1), (1, 1)]);
    assert_eq!((rig.info().pacing_rate, rig.info().pacing_rate_max), (MSS as u64 * 1_000, MSS as u64 * 1_000));
    rig.receive(seg(ACK, 1, 1 + 10 * MSS));
    rig.assert_idle();
}
