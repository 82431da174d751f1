//! Socket options that change the segments on the wire, or their timing.

use alloc::vec;

use super::rig::*;
use crate::Duration;
use crate::config::TcpOptions;
use crate::event::{Event, SocketError};
use crate::stats::Counter;
use crate::wire::tcp::{ACK, FIN, PSH, RST, SYN};

fn defaults() -> TcpOptions {
    TcpOptions::default()
}

fn wake_ups(rig: &mut Rig) -> usize {
    rig.events().iter().filter(|event| matches!(event, Event::Ready { .. })).count()
}

/// TCP_NOTSENT_LOWAT limits the unsent bytes in the queue; half of them must be sent before a writer is woken.
#[test]
fn low_water() {
    let options = TcpOptions { not_sent_low_water: 4 * MSS, no_delay: true, ..defaults() };
    let mut rig = Rig::accepted(Rig::config(), options);
    // The window of ten segments is sent; four more may wait.
    assert_eq!(rig.send(1, 10 * MSS), 4 * MSS as usize);
    assert_eq!(rig.sent().len(), 4);
    assert_eq!(rig.send(1 + 4 * MSS, 4 * MSS), 4 * MSS as usize);
    rig.sent();
    assert_eq!(rig.send(1 + 8 * MSS, 4 * MSS), 4 * MSS as usize);
    rig.sent();
    assert_eq!(rig.info().unsent_bytes, 2 * MSS, "the congestion window is full");
    assert!(!rig.stack.readiness(rig.id).writable, "half of the low-water mark is unsent");
    assert_eq!(rig.send(1 + 12 * MSS, 4 * MSS), 2 * MSS as usize);
    assert_eq!(rig.stack.send_space(rig.id), 0);
    rig.events();
    rig.receive(seg(ACK, 1, 1 + MSS));
    rig.sent();
    assert_eq!((wake_ups(&mut rig), rig.stack.readiness(rig.id).writable), (0, false), "{} unsent", rig.info().unsent_bytes);
    rig.receive(seg(ACK, 1, 1 + 2 * MSS));
    rig.sent();
    assert_eq!((wake_ups(&mut rig), rig.stack.readiness(rig.id).writable), (1, true));
    assert!(rig.info().unsent_bytes * 2 < 4 * MSS);
}

/// TCP_DEFER_ACCEPT: no connection is offered before data has come.
#[test]
fn deferred_until_data() {
    let mut rig = Rig::with(Rig::config());
    let listener = rig.listen(TcpOptions { defer_accept_retries: 3, ..defaults() }, 16);
    rig.receive(seg(SYN, 0, 0).mss(MSS as u16));
    assert_eq!(rig.brief(), vec![(SYN | ACK, 0, 1, 0)]);
    rig.receive(seg(ACK, 1, 1));
    assert_eq!((rig.brief(), rig.events()), (vec![], vec![]));
    assert_eq!(rig.count(Counter::TcpDeferAcceptDrop), 1);
    rig.receive(seg(ACK | PSH, 1, 1).data(5));
    assert_eq!(rig.events().len(), 1);
    rig.id = rig.stack.accept(listener, NAME).expect("it has sent data");
    assert_eq!(rig.read(1), Ok(5));
}

/// Linux, syn_ack_recalc: the SYN-ACK is not retransmitted during the wait; the last one asks for an ACK, which ends it.
#[test]
fn deferred_until_it_is_too_long() {
    let mut rig = Rig::with(Rig::config());
    let listener = rig.listen(TcpOptions { defer_accept_retries: 3, ..defaults() }, 16);
    rig.receive(seg(SYN, 0, 0).mss(MSS as u16));
    rig.sent();
    rig.receive(seg(ACK, 1, 1));
    let (waited, sent) = rig.next_sent();
    assert_eq!(sent[0].brief(), (SYN | ACK, 0, 1, 0));
    assert!((6_900..=7_100).contains(&waited), "1 s, 2 s and 4 s, not {waited} ms");
    rig.receive(seg(ACK, 1, 1));
    assert!(rig.stack.accept(listener, NAME).is_ok());
}

/// TCP_SYNCNT
#[test]
fn attempts_to_connect() {
    let mut rig = Rig::with(Rig::config());
    rig.connect(TcpOptions { syn_retries: 2, ..defaults() });
    assert_eq!(rig.brief().len(), 1);
    assert_eq!(rig.next_sent().1.len(), 1);
    assert_eq!(rig.next_sent().1.len(), 1);
    for _ in 0..100 {
        let Some(at) = rig.stack.poll_timeout() else { break };
        rig.now = rig.now.max(at);
        rig.stack.handle_timeout(rig.now);
        assert_eq!(rig.brief(), vec![]);
    }
    let failed = Event::Failed { socket: rig.id, user_token: NAME, error: SocketError::TimedOut };
    assert!(rig.events().contains(&failed));
}

/// TCP_WINDOW_CLAMP: from the SYN on, and permanently.
#[test]
fn clamped_window() {
    let mut rig = Rig::with(Rig::config());
    rig.connect(TcpOptions { window_clamp: 5_000, ..defaults() });
    assert_eq!(rig.sent()[0].window, 5_000);
    rig.receive(seg(SYN | ACK, 0, 1).mss(MSS as u16));
    assert_eq!(rig.sent()[0].window, 5_000);
    let mut at = 1;
    for _ in 0..50 {
        rig.receive(seg(ACK | PSH, at, 1).data(MSS));
        rig.read(at).expect("it is in order");
        at += MSS;
        assert!(rig.sent().iter().all(|segment| segment.window <= 5_000));
    }
}

/// A listener's clamp applies to its connections.
#[test]
fn clamped_listener() {
    let mut rig = Rig::with(Rig::config());
    rig.listen(TcpOptions { window_clamp: 3_000, ..defaults() }, 16);
    rig.receive(seg(SYN, 0, 0).mss(MSS as u16));
    assert_eq!(rig.sent()[0].window, 3_000);
    rig.receive(seg(ACK | PSH, 1, 1).data(1_000));
    assert!(rig.next_sent().1.iter().all(|segment| segment.window <= 3_000));
}

/// TCP_LINGER2: time that an orphan waits in FIN-WAIT-2.
#[test]
fn patience_in_fin_wait_2() {
    let mut rig = Rig::accepted(Rig::config(), TcpOptions { fin_timeout: Some(Duration::from_secs(5)), ..defaults() });
    rig.stack.close(rig.now, rig.id);
    assert_eq!(rig.brief(), vec![(FIN | ACK, 1, 1, 0)]);
    rig.receive(seg(ACK, 1, 2));
    rig.events();
    rig.wait_ms(4_900);
    assert_eq!(rig.events(), vec![]);
    rig.wait_ms(200);
    assert_eq!(rig.events().len(), 1, "it is over");
}

/// TCP_LINGER2, negative: no wait; the peer gets a reset.
#[test]
fn no_patience_in_fin_wait_2() {
    let mut rig = Rig::accepted(Rig::config(), TcpOptions { fin_timeout: Some(Duration::ZERO), ..defaults() });
    rig.stack.close(rig.now, rig.id);
    rig.sent();
    rig.receive(seg(ACK, 1, 2));
    assert_eq!(rig.brief(), vec![(RST | ACK, 2, 1, 0)]);
    assert_eq!(rig.events().len(), 1);
}

/// tcp(7), TCP_CORK: a partial segment waits 200 ms at most.
#[test]
fn a_cork_holds_for_200_ms() {
    let mut rig = Rig::accepted(Rig::config(), TcpOptions { cork: true, ..defaults() });
    rig.receive(seg(ACK | PSH, 1, 1).data(10));
    rig.next_sent();
    rig.send(1, MSS + 100);
    assert_eq!(rig.brief(), vec![(ACK, 1, 11, MSS as usize)]);
    rig.wait_ms(20);
    rig.receive(seg(ACK, 11, 1 + MSS));
    let (waited, sent) = rig.next_sent();
    assert_eq!(sent[0].brief(), (ACK | PSH, 1 + MSS, 11, 100));
    assert!((200..=300).contains(&waited), "{waited} ms");
    assert_eq!(rig.count(Counter::TcpWinProbe), 0, "nothing was wrong with the window");
    rig.receive(seg(ACK, 11, 101 + MSS));
    rig.assert_idle();
}

/// Linux: TCP_QUICKACK lasts until the connection answers what it receives.
#[test]
fn quick_acks_end_with_an_answer() {
    let mut rig = Rig::accepted(Rig::config(), TcpOptions { quick_ack: Some(true), ..defaults() });
    rig.receive(seg(ACK | PSH, 1, 1).data(10));
    assert_eq!(rig.brief(), vec![(ACK, 1, 11, 0)], "at once");
    rig.send(1, 20);
    assert_eq!(rig.brief(), vec![(ACK | PSH, 1, 11, 20)]);
    rig.receive(seg(ACK | PSH, 11, 21).data(10));
    assert_eq!(rig.brief(), vec![], "with the next answer");
    assert_eq!(rig.next_sent().1[0].brief(), (ACK, 21, 21, 0));
}

/// TCP_QUICKACK switched off: ACKs are delayed, also when the first segments of a connection would be acknowledged at once.
#[test]
fn quick_acks_switched_off() {
    let mut config = Rig::config();
    config.tcp.quick_start_segments = 16;
    let mut rig = Rig::accepted(config, defaults());
    rig.receive(seg(ACK | PSH, 1, 1).data(10));
    assert_eq!(rig.brief(), vec![(ACK, 1, 11, 0)], "at once");
    let now = rig.now;
    rig.stack.set_options(now, rig.id, TcpOptions { quick_ack: Some(false), ..defaults() });
    rig.receive(seg(ACK | PSH, 11, 1).data(10));
    assert_eq!(rig.brief(), vec![]);
    assert_eq!(rig.next_sent().1[0].brief(), (ACK, 1, 21, 0));
    let now = rig.now;
    rig.stack.set_options(now, rig.id, TcpOptions { quick_ack: None, ..defaults() });
    rig.receive(seg(ACK | PSH, 21, 1).data(10));
    assert_eq!(rig.brief(), vec![(ACK, 1, 31, 0)]);
}

/// A receiver that does not answer keeps its quick ACKs.
#[test]
fn quick_acks_of_a_reader_stay() {
    let mut rig = Rig::accepted(Rig::config(), TcpOptions { quick_ack: Some(true), ..defaults() });
    for n in 0..5 {
        rig.receive(seg(ACK | PSH, 1 + n * 10, 1).data(10));
        assert_eq!(rig.brief(), vec![(ACK, 1, 11 + n * 10, 0)]);
        rig.wait_ms(100);
    }
    rig.send(1, 20);
    rig.sent();
    rig.receive(seg(ACK | PSH, 51, 21).data(10));
    assert_eq!(rig.brief(), vec![(ACK, 21, 61, 0)], "data sent long after is no answer");
}
