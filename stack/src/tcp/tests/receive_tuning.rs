//! The receive buffer follows what the application reads in a round trip.

use super::rig::*;
use crate::config::TcpOptions;
use crate::wire::tcp::{ACK, PSH, SYN};

const TRUST: u32 = 128 << 10;
const FULL: u32 = MSS - 12;

/// A connection with window scaling, and timestamps if `timed`.
fn scaled(options: TcpOptions, timed: bool) -> Rig {
    let mut config = Rig::config();
    config.tcp.timestamps = timed;
    let mut rig = Rig::with(config);
    let syn = seg(SYN, 0, 0).mss(MSS as u16).scale(7);
    rig.accept_with(options, if timed { syn.time(1, 0) } else { syn });
    rig
}

/// The window that the stack would advertise now, bytes; its shift is 6 for two MiB.
fn window(rig: &Rig) -> u32 {
    rig.info().receive_window
}

/// Runs a peer that sends `per_round` bytes each round trip of `rtt_ms`, read at once. Returns the window after each round.
fn rounds(rig: &mut Rig, timed: bool, rtt_ms: u64, per_round: u32, count: u32) -> alloc::vec::Vec<u32> {
    let mut at = 1;
    let mut windows = alloc::vec::Vec::new();
    // Arrivals of a round answer what was sent in the one before.
    let (mut echo, mut next_echo) = (0, 0);
    for round in 0..count {
        let mut left = per_round.min(window(rig));
        while left >= FULL {
            let segment = seg(ACK, at, 1).data(FULL);
            rig.receive(if timed { segment.time(2 + round, echo) } else { segment });
            rig.read(at).expect("it is in order");
            at += FULL;
            left -= FULL;
            for sent in rig.sent() {
                next_echo = sent.options.timestamps.map_or(0, |times| times.value);
            }
        }
        rig.wait_ms(rtt_ms);
        rig.sent();
        echo = next_echo;
        windows.push(window(rig));
    }
    windows
}

/// An application that reads 120 KiB in each round trip gets twice that, by timestamps and without.
#[test]
fn grows_with_what_is_read() {
    for timed in [true, false] {
        let mut rig = scaled(TcpOptions::default(), timed);
        let windows = rounds(&mut rig, timed, 50, 120 << 10, 30);
        let last = windows[windows.len() - 1];
        assert!(last > 220 << 10, "timestamps {timed}: {windows:?}");
        assert!(last < 700 << 10, "as much as it needs, not all there is: {windows:?}");
        let info = rig.info();
        assert!((25_000..=110_000).contains(&info.receive_rtt_us), "timestamps {timed}: {}", info.receive_rtt_us);
        assert!((100 << 10..=260 << 10).contains(&info.receive_rate_bytes), "{}", info.receive_rate_bytes);
    }
}

/// A slow stream, however long, gets no more than `TRUST`.
#[test]
fn slow_streams_stay_small() {
    let mut rig = scaled(TcpOptions::default(), true);
    let windows = rounds(&mut rig, true, 50, 20 << 10, 100);
    assert!(windows.iter().all(|&window| window <= TRUST), "{windows:?}");
}

/// With timestamps, messages smaller than a segment start no measurement, however many come; the first full segment does.
#[test]
fn messages_are_not_measured() {
    let mut rig = scaled(TcpOptions::default(), true);
    let mut at = 1;
    let mut receive = |rig: &mut Rig, len: u32| {
        rig.receive(seg(ACK | PSH, at, 1).data(len).time(2, 1));
        rig.read(at).expect("it is in order");
        rig.sent();
        at += len;
    };
    for _ in 0..1_000 {
        receive(&mut rig, 64);
    }
    assert_eq!(rig.stack.tcp().rare_stats_count(), 0);
    receive(&mut rig, FULL);
    assert_eq!(rig.stack.tcp().rare_stats_count(), 1);
}

/// An application that does not read gets nothing, whatever the peer sends.
#[test]
fn unread_data_earns_nothing() {
    let mut rig = scaled(TcpOptions::default(), true);
    let mut at = 1;
    for round in 0..200 {
        if window(&rig) < FULL {
            break;
        }
        rig.receive(seg(ACK, at, 1).data(FULL).time(2 + round, 1));
        at += FULL;
        rig.wait_ms(50);
        rig.sent();
    }
    // Every ACK may round the edge up by the bits that the scaled field lacks.
    let rounded = at / FULL * (1 << 9);
    assert!(at - 1 <= TRUST + FULL + rounded, "{at}");
    assert!(window(&rig) < FULL);
}

/// SO_RCVBUF: that much at once, and never more.
#[test]
fn a_fixed_buffer() {
    let fixed = 300 << 10;
    let mut rig = scaled(TcpOptions { receive_buffer_bytes: fixed, ..TcpOptions::default() }, true);
    let windows = rounds(&mut rig, true, 50, 200 << 10, 10);
    assert!(windows[0] > 250 << 10, "{windows:?}");
    assert!(windows.iter().all(|&window| window <= fixed + 64), "{windows:?}");
}
