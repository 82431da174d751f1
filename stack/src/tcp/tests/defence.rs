//! Invalid and hostile segments: RFC 5961, PAWS, hostile options.

use alloc::vec;

use super::rig::*;
use crate::config::TcpOptions;
use crate::stats::Counter;
use crate::tcp::State;
use crate::wire::tcp::{ACK, FIN, PSH, RST, SYN, URG};

fn open() -> Rig {
    Rig::accepted(Rig::config(), TcpOptions::default())
}

/// RFC 5961 §3.2: a RST in the window but not at RCV.NXT gets a challenge ACK; outside it is dropped.
#[test]
fn blind_reset() {
    let mut rig = open();
    rig.receive(seg(RST, 100, 0));
    assert_eq!(rig.brief(), vec![(ACK, 1, 1, 0)]);
    assert_eq!(rig.count(Counter::TcpChallengeAck), 1);
    rig.receive(seg(RST, 900_000, 0));
    assert_eq!(rig.brief(), vec![]);
    assert_eq!(rig.state(), State::Established);
    rig.receive(seg(RST, 1, 0));
    assert_eq!(rig.state(), State::Closed);
}

/// RFC 5961 §4.2: a SYN in a synchronized state gets a challenge ACK.
#[test]
fn blind_syn() {
    let mut rig = open();
    rig.receive(seg(SYN, 10, 0));
    assert_eq!(rig.brief(), vec![(ACK, 1, 1, 0)]);
    assert_eq!(rig.count(Counter::TcpSynChallenge), 1);
    assert_eq!(rig.state(), State::Established);
}

/// RFC 5961 §5.2: data with an ACK that is far off is not accepted.
#[test]
fn blind_data() {
    let mut rig = open();
    rig.receive(seg(ACK, 1, 500_000).data(10));
    assert_eq!(rig.brief(), vec![(ACK, 1, 1, 0)]);
    rig.wait_ms(500);
    rig.receive(seg(ACK, 1, 0u32.wrapping_sub(500_000)).data(10));
    assert_eq!(rig.brief(), vec![(ACK, 1, 1, 0)]);
    assert_eq!(rig.read(1), Ok(0));
}

/// RFC 7323 §5.3: an old timestamp is dropped and acknowledged; a RST is exempt.
#[test]
fn paws() {
    let mut rig = Rig::with(crate::StackConfig::default());
    rig.accept_with(TcpOptions::default(), seg(SYN, 0, 0).mss(1_460).time(1_000, 0));
    rig.receive(seg(ACK, 1, 1).time(2_000, 0).data(10));
    rig.next_sent();
    rig.receive(seg(ACK, 11, 1).time(1_500, 0).data(10));
    assert_eq!(rig.brief(), vec![(ACK, 1, 11, 0)]);
    assert_eq!(rig.count(Counter::PawsEstab), 1);
    assert_eq!(rig.read(1), Ok(10));
    rig.receive(seg(RST, 11, 0));
    assert_eq!(rig.state(), State::Closed);
}

/// RFC 7323 §5.5: after 24 days without a segment any timestamp takes the place of TS.Recent, and the segments after it are compared with that one.
#[test]
fn paws_after_24_days() {
    let mut rig = Rig::with(crate::StackConfig::default());
    rig.accept_with(TcpOptions::default(), seg(SYN, 0, 0).mss(1_460).time(1_000, 0));
    rig.receive(seg(ACK, 1, 1).time(2_000, 0).data(10));
    rig.next_sent();
    for hours in 0..24 * 24 + 1 {
        rig.wait_ms(if hours == 0 { 1 } else { 3_600_000 });
    }
    for (sequence, time) in [(11, 1_000), (21, 1_001)] {
        rig.receive(seg(ACK, sequence, 1).time(time, 0).data(10));
        assert_eq!(rig.count(Counter::PawsEstab), 0, "at {time}");
    }
    rig.brief();
    rig.receive(seg(ACK, 31, 1).time(999, 0).data(10));
    assert_eq!((rig.count(Counter::PawsEstab), rig.brief()), (1, vec![(ACK, 1, 31, 0)]), "it is old again");
}

/// The first segment to a connection whose TS.Recent is not known may be one out of order: its time does not count, and the next ones are not old.
#[test]
fn paws_without_a_known_time() {
    let start = 0x9000_0000;
    let mut rig = Rig::with(crate::StackConfig::default());
    rig.accept_with(TcpOptions::default(), seg(SYN, 0, 0).mss(1_460).time(start, 0));
    let mut image = rig.stack.export(rig.now, rig.id).expect("it is open");
    image.terms.timestamps.as_mut().expect("they are on").recent = None;
    rig.id = rig.stack.import(rig.now, &image, 7).expect("it is sound");
    rig.receive(seg(ACK, 11, 1).time(start + 5, 0).data(10));
    rig.receive(seg(ACK, 1, 1).time(start + 6, 0).data(10));
    assert_eq!(rig.count(Counter::PawsEstab), 0);
    assert_eq!(rig.stack.unread(rig.id), 20, "both are in order now");
    rig.brief();
    rig.receive(seg(ACK, 21, 1).time(start, 0).data(10));
    assert_eq!((rig.count(Counter::PawsEstab), rig.brief()), (1, vec![(ACK, 1, 21, 0)]), "it is old");
}

/// RFC 7323 §3.2: with timestamps negotiated, a segment without one is dropped, unless Linux's behavior is configured.
#[test]
fn without_timestamp() {
    for (required, taken) in [(true, 0), (false, 10)] {
        let mut config = Rig::config();
        config.tcp.timestamps = true;
        config.tcp.timestamps_required = required;
        let mut rig = Rig::with(config);
        rig.accept_with(TcpOptions::default(), seg(SYN, 0, 0).mss(1_460).time(1_000, 0));
        rig.receive(seg(ACK, 1, 1).data(10));
        assert_eq!(rig.read(1), Ok(taken));
    }
}

/// Segments without ACK are dropped in every synchronized state.
#[test]
fn no_ack() {
    let mut rig = open();
    rig.receive(seg(PSH, 1, 0).data(10));
    rig.receive(seg(0, 1, 0).data(10));
    assert_eq!(rig.read(1), Ok(0));
    assert_eq!(rig.count(Counter::DropUnacceptable), 2);
}

/// Urgent data is ordinary data (RFC 6093).
/// RFC 9293 MUST-31.
#[test]
fn urgent() {
    let mut rig = open();
    rig.receive(seg(ACK | URG, 1, 1).data(10));
    assert_eq!(rig.read(1), Ok(10));
}

/// Random segments near and far from the window, with random flags: nothing panics, no frame is lost, and the delivered data
/// is the stream.
#[test]
fn noise() {
    for seed in 1..40u64 {
        let mut rig = Rig::with(crate::StackConfig { seed, ..crate::StackConfig::default() });
        rig.accept_with(TcpOptions::default(), seg(SYN, 0, 0).mss(500).scale(2).sack_permitted());
        let mut random = seed;
        let mut next = |bound: u32| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as u32 % bound
        };
        let (mut read, mut written) = (1, 1);
        for _ in 0..400 {
            let flags = [ACK, ACK, ACK, ACK | PSH, ACK | URG, 0, SYN, SYN | ACK, RST][next(9) as usize];
            let seq = if flags == RST { 500_000 + next(1_000_000) } else { read - 1 + next(3_000) };
            let mut segment = seg(flags, seq, 1 + next(5_000)).window(next(65_536) as u16).data(next(600));
            for _ in 0..next(4) {
                let left = next(6_000);
                segment = segment.sack(left, left + next(3_000));
            }
            rig.receive(segment);
            if next(5) == 0 {
                written += rig.send(written, next(4_000)) as u32;
            }
            rig.now += crate::Duration::from_millis(next(300) as u64);
            rig.stack.handle_timeout(rig.now);
            rig.sent();
            read += rig.read(read).unwrap_or(0) as u32;
        }
        rig.receive(seg(ACK | FIN, read, 1));
        let now = rig.now;
        rig.stack.abort(now, rig.id);
        rig.sent();
        rig.assert_no_leak();
    }
}
