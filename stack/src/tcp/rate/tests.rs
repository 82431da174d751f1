use super::*;

const MSS: u32 = 1_000;
const MS: u64 = 1_000;

fn at(n: u32) -> SeqNum {
    // Every test crosses the wrap.
    SeqNum(u32::MAX - 2_500) + n * MSS
}

/// Sends segment `n` with `in_flight` segments in flight, itself included.
fn send(rate: &mut Rate, now_us: u64, n: u32, in_flight: u32) {
    rate.sent(now_us, in_flight * MSS, Transmission { start: at(n), len: MSS, again: false });
}

/// A segment each millisecond for 10 ms, acknowledged 10 ms later, one per millisecond: a million bytes per second.
#[test]
fn a_steady_stream() {
    let mut rate = Rate::default();
    for n in 0..10 {
        send(&mut rate, n as u64 * MS, n, n + 1);
    }
    for n in 0..30 {
        let now = 10 * MS + n as u64 * MS;
        rate.acknowledged(now, at(n + 1));
        let sample = rate.take_sample(10_000);
        assert_eq!((sample.newly_acked, sample.rtt_us, sample.app_limited), (MSS, 10_000, false));
        if n >= 10 {
            assert_eq!((sample.delivery_rate, sample.delivered), (1_000_000, 10 * MSS as u64), "{n}");
        }
        send(&mut rate, now, n + 10, 10);
    }
    assert_eq!(rate.delivered, 30 * MSS as u64);
}

/// Compressed ACKs: all at once after a pause. The send rate bounds the sample.
#[test]
fn compressed_acks() {
    let mut rate = Rate::default();
    for n in 0..20 {
        send(&mut rate, n as u64 * MS, n, n + 1);
    }
    rate.acknowledged(30 * MS, at(1));
    rate.take_sample(1);
    rate.acknowledged(30 * MS + 1, at(20));
    let sample = rate.take_sample(1);
    // Twenty segments in 30 ms; not nineteen in a microsecond.
    assert!(sample.delivery_rate <= 20 * MSS as u64 * 1_000 / 30, "{sample:?}");
}

/// A sample over less than the smallest round trip is no sample.
#[test]
fn too_short_to_be_true() {
    let mut rate = Rate::default();
    send(&mut rate, 0, 0, 1);
    rate.acknowledged(2 * MS, at(1));
    assert_eq!(rate.take_sample(3_000).delivery_rate, 0);
}

/// After the application has run dry, samples are marked until everything then in flight is delivered.
#[test]
fn application_limited() {
    let mut rate = Rate::default();
    send(&mut rate, 0, 0, 1);
    send(&mut rate, 0, 1, 2);
    rate.mark_application_limited(2 * MSS);
    send(&mut rate, 5 * MS, 2, 3);
    rate.acknowledged(10 * MS, at(2));
    assert!(!rate.take_sample(1).app_limited, "sent before the gap");
    assert!(rate.is_application_limited());
    send(&mut rate, 10 * MS, 3, 2);
    rate.acknowledged(15 * MS, at(3));
    assert!(rate.take_sample(1).app_limited);
    assert!(!rate.is_application_limited(), "the bubble has left");
    send(&mut rate, 15 * MS, 4, 2);
    rate.acknowledged(20 * MS, at(4));
    assert!(rate.take_sample(1).app_limited, "sent while the bubble was in flight");
    rate.acknowledged(25 * MS, at(5));
    assert!(!rate.take_sample(1).app_limited);
}

/// SACKed bytes count once; part of a super-segment counts as part; a lost part and its retransmission have separate
/// records.
#[test]
fn sack_loss_and_retransmission() {
    let mut rate = Rate::default();
    rate.sent(0, 10 * MSS, Transmission { start: at(0), len: 10 * MSS, again: false });
    rate.sacked(10 * MS, at(3), at(5));
    let sample = rate.take_sample(1);
    assert_eq!((sample.newly_acked, sample.rtt_us, sample.in_flight), (2 * MSS, 10_000, 10 * MSS));
    let mut seen = alloc::vec::Vec::new();
    rate.lost(at(0), at(3), &mut |packet, lost| seen.push((packet.len, packet.in_flight, lost - packet.lost)));
    rate.lost(at(0), at(3), &mut |packet, lost| seen.push((packet.len, 0, lost)));
    assert_eq!(seen, [(3 * MSS, 10 * MSS, 3 * MSS as u64)], "once");
    rate.sent(11 * MS, 6 * MSS, Transmission { start: at(0), len: MSS, again: true });
    rate.acknowledged(21 * MS, at(1));
    let sample = rate.take_sample(1);
    assert_eq!((sample.newly_acked, sample.rtt_us, sample.in_flight), (MSS, 0, 6 * MSS));
    rate.acknowledged(22 * MS, at(10));
    let sample = rate.take_sample(1);
    assert_eq!(sample.newly_acked, 7 * MSS);
    assert_eq!((rate.delivered, rate.lost), (10 * MSS as u64, 3 * MSS as u64));
    assert!(rate.packets.is_empty());
}
