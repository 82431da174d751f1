//! Effect of a lying receiver on a rate-based congestion control (Savage et al., 1999).
//!
//! A bottleneck of a megabyte a second and 20 ms are between the sender and the receiver's ACKs.

use alloc::collections::VecDeque;

use super::rig::*;
use crate::config::{CongestionControl, TcpOptions};
use crate::family::{Family, in_both_families};
use crate::wire::tcp::ACK;

in_both_families! {
    divided_acknowledgments
    acknowledgments_before_the_data
    acknowledgments_of_the_future
}

/// Bytes that the bottleneck passes per millisecond.
const PER_MS: u32 = 1_000;
const DELAY_MS: u64 = 20;
const RUN_MS: u64 = 3_000;

/// Largest values that the sender has believed (of the pace: once it has started), bytes per second.
#[derive(Debug, Default)]
struct Believed {
    rate: u64,
    pacing: u64,
    /// At the end of the run.
    last_pacing: u64,
    /// Most bytes sent in one millisecond.
    sent_per_ms: u32,
    acknowledged: u32,
}

fn sender(family: Family) -> Rig {
    let options = TcpOptions { congestion_control: CongestionControl::Bbr, no_delay: true, ..TcpOptions::default() };
    Rig::accepted_over(family, Rig::config(), options)
}

/// Runs a sender that always has data against a receiver that splits each ACK into `parts`, or (`honest` false) acknowledges
/// data that has only been sent.
fn run(family: Family, parts: u32, honest: bool) -> Believed {
    let mut rig = sender(family);
    let (mut queued, mut sent, mut served, mut acked) = (1, 1, 1, 1);
    let mut acks = VecDeque::new();
    let mut believed = Believed::default();
    for ms in 0..RUN_MS {
        queued += rig.send(queued, 20_000) as u32;
        let mut now_sent = 0;
        for segment in rig.sent() {
            let end = segment.seq + segment.payload.len() as u32;
            now_sent += end.saturating_sub(sent);
            sent = sent.max(end);
        }
        believed.sent_per_ms = believed.sent_per_ms.max(now_sent);
        served = (served + PER_MS).min(sent);
        acks.push_back((ms + if honest { DELAY_MS } else { 1 }, if honest { served } else { sent }));
        while acks.front().is_some_and(|&(due, _)| due <= ms) {
            let (_, up_to) = acks.pop_front().expect("it is there");
            let news = up_to - acked;
            let parts = parts.min(news);
            for part in 1..=parts {
                rig.receive(seg(ACK, 1, acked + news * part / parts));
                let info = rig.info();
                believed.rate = believed.rate.max(info.delivery_rate);
                // The pace starts with the handshake's round trip, which is 0 here, and the first window.
                if ms > RUN_MS / 2 {
                    believed.pacing = believed.pacing.max(info.pacing_rate);
                }
            }
            acked = up_to;
        }
        rig.wait_ms(1);
    }
    Believed { last_pacing: rig.info().pacing_rate, acknowledged: acked - 1, ..believed }
}

/// Split ACKs report no more delivered data: the estimate stays at the bottleneck's rate, and so does the pace.
fn divided_acknowledgments(family: Family) {
    let (honest, divided) = (run(family, 1, true), run(family, 50, true));
    let bottleneck = u64::from(PER_MS) * 1_000;
    for believed in [&honest, &divided] {
        assert!(believed.rate <= bottleneck * 11 / 10, "{believed:?}");
        // BBR probes with 1.25 times the estimate.
        assert!(believed.pacing <= bottleneck * 14 / 10, "{believed:?}");
        assert!(believed.last_pacing <= bottleneck * 14 / 10, "{believed:?}");
        assert!(believed.acknowledged > PER_MS * RUN_MS as u32 / 2, "{believed:?}");
    }
    assert!(divided.last_pacing <= honest.last_pacing * 3 / 2, "{divided:?} and {honest:?}");
}

/// Acknowledging data still on its way makes the path look short, but not faster than the sender has sent.
fn acknowledgments_before_the_data(family: Family) {
    for parts in [1, 20] {
        let believed = run(family, parts, false);
        assert!(believed.rate <= u64::from(believed.sent_per_ms) * 1_000, "{parts}: {believed:?}");
        // No more than the window that the receiver has offered in each of its round trips.
        assert!(believed.rate <= 65_535 * 1_000, "{parts}: {believed:?}");
    }
}

/// ACKs of data never sent are not believed.
fn acknowledgments_of_the_future(family: Family) {
    let mut rig = sender(family);
    rig.send(1, 10_000);
    rig.sent();
    let before = rig.info();
    for step in 1..=50 {
        rig.wait_ms(1);
        rig.receive(seg(ACK, 1, 10_001 + step * MSS));
        assert!(rig.sent().iter().all(|segment| segment.payload.is_empty()));
    }
    let after = rig.info();
    assert_eq!((after.delivery_rate, after.delivered, after.cwnd_bytes), (0, before.delivered, before.cwnd_bytes));
}
