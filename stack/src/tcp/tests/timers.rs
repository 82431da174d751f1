//! Zero-window probes and keepalive.

use alloc::vec;
use alloc::vec::Vec;

use super::rig::*;
use crate::config::{StackConfig, TcpOptions};
use crate::event::{Event, SocketError};
use crate::stats::Counter;
use crate::tcp::ActiveOpen;
use crate::wire::tcp::{ACK, PSH, SYN};
use crate::{Duration, SocketAddress};

/// A closed window is probed with doubling waits; data is sent when it opens.
/// RFC 9293 MUST-35, MUST-36, MUST-37, SHLD-29, SHLD-30.
#[test]
fn zero_window() {
    let mut rig = Rig::accepted(Rig::config(), TcpOptions::default());
    rig.send(1, 10);
    rig.sent();
    rig.receive(seg(ACK, 1, 11).window(0));
    rig.send(11, 500);
    assert_eq!(rig.brief(), vec![]);
    let mut waits = alloc::vec::Vec::new();
    for _ in 0..4 {
        let (elapsed, probe) = rig.next_sent();
        waits.push(elapsed);
        assert_eq!(probe[0].brief(), (ACK, 10, 1, 0), "before the window: must be answered");
        rig.receive(seg(ACK, 1, 11).window(0));
    }
    for pair in waits.windows(2) {
        assert!((2 * pair[0] - 8..=2 * pair[0] + 8).contains(&pair[1]), "{waits:?}");
    }
    assert_eq!(rig.count(Counter::TcpWinProbe), 4);
    rig.receive(seg(ACK, 1, 11).window(1_000));
    assert_eq!(rig.brief(), vec![(ACK | PSH, 11, 1, 500)]);
}

/// A peer may keep its window shut for ever as long as it answers. One that answers no probe is given up after as many as
/// there are retransmissions, with keepalive too, whose own probes wait until all is sent.
#[test]
fn probes_without_an_answer_end_a_connection() {
    for (answers, keepalive) in [(true, false), (true, true), (false, false), (false, true)] {
        let options = TcpOptions { keepalive, keepalive_idle: Duration::from_secs(10), ..TcpOptions::default() };
        let mut rig = Rig::accepted(Rig::config(), options);
        rig.receive(seg(ACK, 1, 1).window(0));
        rig.send(1, 500);
        rig.sent();
        let mut probes = 0;
        while probes < 100
            && let Some(at) = rig.stack.poll_timeout()
        {
            rig.now = rig.now.max(at);
            rig.stack.handle_timeout(rig.now);
            if !rig.sent().is_empty() {
                probes += 1;
                if answers {
                    rig.receive(seg(ACK, 1, 1).window(0));
                }
            }
        }
        let timed_out = Event::Failed { socket: rig.id, user_token: NAME, error: SocketError::TimedOut };
        assert_eq!((probes, rig.events().contains(&timed_out)), if answers { (100, false) } else { (15, true) }, "{keepalive}");
    }
}

/// A window of a few bytes is not filled at once (silly window), but not for ever either.
/// RFC 9293 MUST-38.
#[test]
fn silly_window() {
    let mut rig = Rig::accepted(Rig::config(), TcpOptions::default());
    rig.send(1, 10);
    rig.sent();
    rig.receive(seg(ACK, 1, 11).window(20));
    rig.send(11, 500);
    assert_eq!(rig.brief(), vec![]);
    let (elapsed, sent) = rig.next_sent();
    assert!(elapsed >= 200);
    assert_eq!(sent.iter().map(Seg::brief).collect::<alloc::vec::Vec<_>>(), vec![(ACK, 11, 1, 20)]);
}

/// Keepalive: after the idle time, then by interval; without answers the connection fails.
/// RFC 9293 MUST-24, MUST-26, MUST-27, MUST-29.
#[test]
fn keepalive() {
    let options = TcpOptions {
        keepalive: true,
        keepalive_idle: Duration::from_secs(10),
        keepalive_interval: Duration::from_secs(2),
        keepalive_probes: 3,
        ..TcpOptions::default()
    };
    let mut rig = Rig::accepted(Rig::config(), options);
    rig.wait_ms(5_000);
    rig.receive(seg(ACK, 1, 1).data(1));
    rig.next_sent();
    let (elapsed, probe) = rig.next_sent();
    assert!((9_900..=10_010).contains(&elapsed), "{elapsed}");
    assert_eq!(probe[0].brief(), (ACK, 0, 2, 0));
    rig.receive(seg(ACK, 2, 1));
    let (elapsed, _) = rig.next_sent();
    assert!((9_900..=10_010).contains(&elapsed), "an answer starts the idle time again: {elapsed}");
    for _ in 0..2 {
        let (elapsed, probe) = rig.next_sent();
        assert_eq!((elapsed, probe.len()), (2_000, 1));
    }
    rig.events();
    rig.wait_ms(2_000);
    assert_eq!(rig.events(), vec![Event::Failed { socket: rig.id, user_token: NAME, error: SocketError::TimedOut }]);
}

/// Without work no timer is armed: an idle connection costs nothing.
#[test]
fn idle_is_idle() {
    let mut rig = Rig::accepted(Rig::config(), TcpOptions::default());
    rig.assert_idle();
    assert!(rig.now.as_millis() < 12_000, "what is left is the SYN-ACK's timer");
}

/// A thousand connections that are never answered wake the stack by their timers alone, and all fail.
#[test]
fn many_timers() {
    let mut rig = Rig::with(Rig::config());
    for n in 0..1_000u16 {
        let remote = SocketAddress { ip: REMOTE.into(), port: 1 + n };
        rig.stack.connect(rig.now, ActiveOpen { user_token: n as u64, ..ActiveOpen::to(remote) }).expect("there is room");
    }
    rig.stack.transmit(rig.now, &mut rig.out);
    rig.out[0].clear();
    for _ in 0..100_000 {
        let Some(at) = rig.stack.poll_timeout() else { break };
        rig.now = rig.now.max(at);
        rig.stack.handle_timeout(rig.now);
        rig.stack.transmit(rig.now, &mut rig.out);
        rig.out[0].clear();
    }
    assert_eq!(rig.count(Counter::TcpTimeouts), 7_000);
    assert_eq!(rig.events().len(), 1_000);
}

/// A connection with a round trip of `millis`, measured often enough to dominate the estimate.
fn with_round_trip(config: StackConfig, millis: u64) -> Rig {
    let mut rig = Rig::accepted(config, TcpOptions::default());
    for n in 0..60 {
        rig.send(1 + n, 1);
        rig.sent();
        rig.wait_ms(millis);
        rig.receive(seg(ACK, 1, 2 + n));
    }
    rig
}

/// RFC 5681 §4.2, RFC 9293 §3.8.6.3: a lone segment is acknowledged after a quarter of the round trip, whatever that is.
#[test]
fn a_delayed_ack_for_each_round_trip() {
    for millis in 1..=60 {
        let mut config = Rig::config();
        config.tcp.quick_start_segments = 0;
        let mut rig = with_round_trip(config, millis);
        let rtt_ms = u64::from(rig.info().rtt_us / 1_000);
        assert!((millis - 1..=millis).contains(&rtt_ms), "{rtt_ms} ms of {millis}");
        rig.receive(seg(ACK, 1, 61).data(10));
        let (waited_ms, sent) = rig.next_sent();
        assert!(waited_ms <= millis / 4 + 2, "{waited_ms} ms at {millis} ms");
        assert_eq!(sent[0].brief(), (ACK, 61, 11, 0));
    }
}

/// The same when the wheel's entry was a stale timer's that expired just before the delay's end.
#[test]
fn a_delayed_ack_behind_another_timer() {
    for before in 1..=4 {
        let mut config = Rig::config();
        (config.tcp.quick_start_segments, config.tcp.delayed_ack) = (0, Duration::from_millis(20));
        let mut rig = with_round_trip(config, 100);
        // Old entries expire first; then one of a retransmission timer is left.
        rig.assert_idle();
        rig.send(61, 1);
        rig.sent();
        let timeout_ms = u64::from(rig.info().rto_us.div_ceil(1_000));
        rig.receive(seg(ACK, 1, 62));
        rig.wait_ms(timeout_ms - 20 + before);
        rig.receive(seg(ACK, 1, 62).data(10));
        assert_eq!(rig.next_sent().0, 20);
    }
}

/// Each ACK has its own delay, after an earlier one went out with an answer: in the same tick, before the end of the earlier
/// delay and after it.
#[test]
fn a_delayed_ack_after_one_that_an_answer_has_carried() {
    for millis in [1, 4, 12, 40, 100] {
        for pause in 0..=8 {
            let mut config = Rig::config();
            config.tcp.quick_start_segments = 0;
            let least_us = config.tcp.delayed_ack_min.as_micros() as u32;
            let most_us = config.tcp.delayed_ack.as_micros() as u32;
            let mut rig = with_round_trip(config, millis);
            rig.receive(seg(ACK, 1, 61).data(10));
            rig.send(61, 1);
            assert_eq!(rig.brief(), [(ACK | PSH, 61, 11, 1)]);
            rig.wait_ms(pause);
            assert_eq!(rig.brief(), []);
            rig.receive(seg(ACK, 11, 62).data(10));
            let delay_ms = u64::from((rig.info().rtt_us / 4).max(least_us).min(most_us).div_ceil(1_000));
            let (waited_ms, sent) = rig.next_sent();
            assert_eq!((waited_ms, sent[0].brief()), (delay_ms, (ACK, 62, 21, 0)), "{millis} ms, {pause} ms later");
            rig.assert_idle();
        }
    }
}

/// A connection of 4 ms on which we have sent data; the sequence numbers of both sides continue at 1 and 61.
fn conversation() -> Rig {
    let mut config = Rig::config();
    config.tcp.quick_start_segments = 0;
    with_round_trip(config, 4)
}

/// Delivers the peer's next message: two full segments, the last one pushed. Returns the acknowledgment to expect.
fn message(rig: &mut Rig, sequence: u32) -> u32 {
    rig.receive(seg(ACK, sequence, 61).data(MSS));
    rig.receive(seg(ACK | PSH, sequence + MSS, 61).data(MSS));
    sequence + 2 * MSS
}

/// A client that writes 4 KiB and waits for the answer got a separate ACK for each request, a packet in four.
#[test]
fn the_answer_acknowledges_a_message_of_two_segments() {
    let mut rig = conversation();
    let next = message(&mut rig, 1);
    assert_eq!(rig.brief(), []);
    rig.send(61, 10);
    assert_eq!(rig.brief(), [(ACK | PSH, 61, next, 10)]);
    rig.receive(seg(ACK, next, 71));
    rig.assert_idle();
}

/// An ACK due for two full segments is delayed after all when the message ends in the same burst.
#[test]
fn the_end_of_a_message_is_waited_for_though_its_start_was_due() {
    let mut rig = conversation();
    for (n, flags) in [ACK, ACK, ACK | PSH].into_iter().enumerate() {
        rig.receive(seg(flags, 1 + n as u32 * MSS, 61).data(MSS));
    }
    assert_eq!(rig.brief(), []);
    let (waited_ms, sent) = rig.next_sent();
    assert_eq!((waited_ms, sent[0].brief()), (1, (ACK, 61, 1 + 3 * MSS, 0)));
}

#[test]
fn after_an_answer_that_did_not_come_messages_are_acknowledged_at_once() {
    let mut rig = conversation();
    let mut next = message(&mut rig, 1);
    let (waited_ms, sent) = rig.next_sent();
    assert_eq!((waited_ms, sent[0].brief()), (1, (ACK, 61, next, 0)));
    for _ in 0..64 {
        rig.read(next - 2 * MSS).expect("a message is there");
        next = message(&mut rig, next);
        assert_eq!(rig.brief(), [(ACK, 61, next, 0)]);
    }
    rig.read(next - 2 * MSS).expect("a message is there");
    next = message(&mut rig, next);
    assert_eq!(rig.brief(), [], "it is tried again");
    assert_eq!(rig.next_sent().1[0].brief(), (ACK, 61, next, 0));
}

/// A peer with a congestion window that ended with each write of its program got no ACK until the delay was over, 1 ms for
/// every 64 windows: a kernel that sent 2 MiB with a window of 1.4 MB had less than half of its rate.
#[test]
fn a_peer_that_is_kept_waiting_is_so_ever_more_rarely() {
    let mut rig = conversation();
    let (mut next, mut waits) = (1, Vec::new());
    for n in 0..4_000 {
        let message_at = next;
        next = message(&mut rig, next);
        if rig.brief().is_empty() {
            waits.push(n);
            assert_eq!(rig.next_sent().1[0].brief(), (ACK, 61, next, 0));
        }
        rig.read(message_at).expect("a message is there");
        rig.sent();
    }
    assert_eq!(waits, [0, 65, 194, 451, 964, 1_989]);
}

/// More than 256 KiB does not wait for an answer, however large the buffer is, with or without PSH.
#[test]
fn a_large_message_is_acknowledged_while_it_comes() {
    let mut config = Rig::config();
    config.tcp.quick_start_segments = 0;
    let mut rig = Rig::with(config);
    let options = TcpOptions { receive_buffer_bytes: 4 << 20, ..TcpOptions::default() };
    rig.accept_with(options, seg(SYN, 0, 0).mss(MSS as u16).scale(7));
    rig.send(1, 60);
    rig.sent();
    rig.receive(seg(ACK, 1, 61));
    let mut next = 1;
    while next <= 256 << 10 {
        assert_eq!(rig.brief(), [], "{next}");
        rig.receive(seg(ACK | PSH, next, 61).data(MSS));
        next += MSS;
    }
    assert_eq!(rig.brief(), [(ACK, 61, next, 0)]);
}

/// RFC 5681 §4.2: every second full segment is acknowledged, when no answer is expected.
#[test]
fn two_segments_are_acknowledged_at_once() {
    let mut config = Rig::config();
    config.tcp.quick_start_segments = 0;
    let mut upload = Rig::accepted(config, TcpOptions::default());
    upload.receive(seg(ACK, 1, 1).data(MSS));
    upload.receive(seg(ACK | PSH, 1 + MSS, 1).data(MSS));
    assert_eq!(upload.brief(), [(ACK, 1, 1 + 2 * MSS, 0)], "we have never sent anything");
    let mut rig = conversation();
    rig.receive(seg(ACK, 1, 61).data(MSS));
    rig.receive(seg(ACK, 1 + MSS, 61).data(MSS));
    assert_eq!(rig.brief(), [(ACK, 61, 1 + 2 * MSS, 0)], "the message goes on");
}

/// A quarter of the receive buffer is not held back.
#[test]
fn a_large_message_is_acknowledged_at_once() {
    let mut config = Rig::config();
    config.tcp.quick_start_segments = 0;
    config.tcp.receive_buffer_bytes = 32_768;
    let mut rig = with_round_trip(config, 4);
    let segments = 8_192 / MSS + 1;
    let flags = |n| if n + 1 == segments { ACK | PSH } else { ACK };
    let message: Vec<Seg> = (0..segments).map(|n| seg(flags(n), 1 + n * MSS, 61).data(MSS)).collect();
    rig.receive_burst(&message);
    assert_eq!(rig.brief(), [(ACK, 61, 1 + segments * MSS, 0)]);
}

/// A server with few requests woke up once more for each of them, a millisecond later, without work.
#[test]
fn no_timer_wakes_for_an_ack_that_an_answer_has_carried() {
    let mut rig = conversation();
    rig.receive(seg(ACK | PSH, 1, 61).data(10));
    rig.send(61, 1);
    assert_eq!(rig.brief(), [(ACK | PSH, 61, 11, 1)]);
    let delay_end = Some(rig.now + Duration::from_millis(1));
    assert_eq!(rig.stack.poll_timeout(), delay_end, "the deadline is kept for the next one");
    rig.stack.forget_ended_delays();
    assert!(rig.stack.poll_timeout() > delay_end, "only a timer of what was sent before is left");
    // An ACK for data in the same tick has its delay all the same.
    rig.receive(seg(ACK | PSH, 11, 62).data(10));
    rig.stack.forget_ended_delays();
    let (waited_ms, sent) = rig.next_sent();
    assert_eq!((waited_ms, sent[0].brief()), (1, (ACK, 62, 21, 0)));
}
