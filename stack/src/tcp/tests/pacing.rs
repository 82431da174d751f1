//! Pacing: segments leave by the timer wheel.

use alloc::vec;
use alloc::vec::Vec;

use super::rig::*;
use crate::config::TcpOptions;
use crate::wire::tcp::ACK;

/// At a segment each millisecond: what the credit of 2 ms lets out at once, then one each tick, and nothing is due after.
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
