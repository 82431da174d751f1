//! Pacing: segments leave by the timer wheel.

use alloc::vec;
use alloc::vec::Vec;

use super::rig::*;
use crate::SharedRate;
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

/// Two connections share a segment each millisecond: each sends every other millisecond, and together no more than one could.
#[test]
fn a_shared_rate_is_divided_evenly() {
    static RATE: SharedRate = SharedRate::new(MSS as u64 * 1_000);
    let options = TcpOptions { shared_rates: [Some(&RATE), None], ..newreno() };
    let mut rigs = [Rig::accepted(Rig::config(), options), Rig::accepted(Rig::config(), options)];
    for rig in &mut rigs {
        rig.send(1, 10 * MSS);
    }
    let mut sent = [Vec::new(), Vec::new()];
    for ms in 0..40 {
        for (rig, sent) in rigs.iter_mut().zip(&mut sent) {
            let new = rig.sent();
            sent.extend(new.iter().map(|_| ms));
            if let Some(last) = new.last() {
                let end = last.seq + last.payload.len() as u32;
                rig.receive(seg(ACK, 1, end));
            }
            rig.wait_ms(1);
        }
    }
    assert_eq!(sent.each_ref().map(Vec::len), [10, 10]);
    let mut all: Vec<u32> = sent.concat();
    all.sort_unstable();
    // The credit of two milliseconds, and the tick that rounds up.
    for (count, ms) in all.into_iter().enumerate() {
        assert!(count as u32 <= ms + 3, "{count} segments before {ms} ms");
    }
    // The first one has had the credit.
    let halves = sent.each_ref().map(|sent| sent.iter().filter(|&&ms| ms < 9).count());
    assert!(halves[0].abs_diff(halves[1]) <= 3, "{halves:?}");
    rigs.iter_mut().for_each(Rig::assert_idle);
}

/// Nothing is booked for ever by a connection that has ended, and a rate of its own holds beside a shared one.
#[test]
fn a_shared_rate_holds_beside_another_and_after_an_end() {
    static SLOW: SharedRate = SharedRate::new(MSS as u64 * 100);
    static FAST: SharedRate = SharedRate::new(MSS as u64 * 1_000_000);
    let options = TcpOptions { shared_rates: [Some(&FAST), Some(&SLOW)], ..newreno() };
    let mut ended = Rig::accepted(Rig::config(), options);
    ended.send(1, 5 * MSS);
    ended.sent();
    let mut rig = Rig::accepted(Rig::config(), options);
    rig.send(1, 3 * MSS);
    let mut waited = Vec::new();
    while waited.len() < 3 {
        let (waited_ms, segments) = rig.next_sent();
        waited.extend(segments.iter().map(|_| waited_ms));
    }
    assert!(waited.iter().all(|&ms| ms <= 30), "{waited:?}");
    assert!(waited.iter().sum::<u64>() >= 20, "{waited:?}");
    assert_eq!(rig.info().pacing_rate_max, 0, "the program has asked for none");
}
