//! Closing: FIN in all orders, resets, orphans, TIME-WAIT.

use alloc::vec;

use super::rig::*;
use crate::config::TcpOptions;
use crate::error::{ReceiveError, SendError};
use crate::event::{Event, SocketError};
use crate::family::{Family, in_both_families};
use crate::stats::Counter;
use crate::tcp::State;
use crate::wire::tcp::{ACK, FIN, PSH, RST, SYN};

fn open() -> Rig {
    Rig::accepted(Rig::config(), TcpOptions::default())
}

fn closed(rig: &Rig) -> Event {
    Event::Closed { socket: rig.id, user_token: NAME, time_wait: false }
}

fn closed_for_a_while(rig: &Rig) -> Event {
    Event::Closed { socket: rig.id, user_token: NAME, time_wait: true }
}

fn sockets(rig: &Rig, state: State) -> usize {
    let mut count = 0;
    rig.stack.for_each_socket(&mut |socket| count += usize::from(socket.state == state));
    count
}

in_both_families! {
    text_without_a_reader
    text_for_a_reader
}

/// RFC 1122 §4.2.2.13: both directions are shut, so arriving data has no reader: RST, and the application gets the error.
fn text_without_a_reader(family: Family) {
    for acknowledged in [false, true] {
        let mut rig = Rig::accepted_over(family, Rig::config(), TcpOptions::default());
        let now = rig.now;
        rig.stack.shutdown_read(now, rig.id);
        rig.receive(seg(ACK | PSH, 1, 1).data(10));
        assert_eq!(rig.read(1), Ok(10), "one direction is open, and arriving data can be read");
        rig.events();
        rig.stack.shutdown_write(now, rig.id);
        assert_eq!(rig.next_sent().1[0].brief(), (ACK | FIN, 1, 11, 0));
        let ack = if acknowledged { 2 } else { 1 };
        rig.receive(seg(ACK, 11, ack));
        rig.receive(seg(ACK | PSH, 1, ack).data(10));
        assert!(rig.sent().iter().all(|segment| segment.flags & RST == 0), "a duplicate");
        rig.receive(seg(ACK | PSH, 11, ack).data(10));
        let sent = rig.sent();
        assert_eq!((sent.len(), sent[0].flags & RST), (1, RST));
        assert_eq!(rig.events(), vec![Event::Failed { socket: rig.id, user_token: NAME, error: SocketError::Reset }]);
        assert_eq!(rig.count(Counter::TcpAbortOnData), 1);
        rig.assert_no_leak();
    }
}

/// With only its own direction shut, an application reads on; a FIN without data causes no reset either way.
fn text_for_a_reader(family: Family) {
    for read_shut in [false, true] {
        let mut rig = Rig::accepted_over(family, Rig::config(), TcpOptions::default());
        let now = rig.now;
        rig.stack.shutdown_write(now, rig.id);
        rig.sent();
        if read_shut {
            rig.stack.shutdown_read(now, rig.id);
            rig.receive(seg(ACK | FIN, 1, 2));
            assert_eq!(rig.brief(), vec![(ACK, 2, 2, 0)], "no text, no reset");
            continue;
        }
        rig.receive(seg(ACK | PSH, 1, 2).data(10));
        assert_eq!(rig.read(1), Ok(10));
    }
}

/// We close first: FIN-WAIT-1, FIN-WAIT-2, TIME-WAIT for a minute.
#[test]
fn active_close() {
    let mut rig = open();
    rig.send(1, 10);
    let now = rig.now;
    rig.stack.close(now, rig.id);
    assert_eq!(rig.brief(), vec![(ACK | PSH | FIN, 1, 1, 10)]);
    rig.receive(seg(ACK, 1, 12));
    assert_eq!(sockets(&rig, State::FinWait2), 1);
    rig.receive(seg(ACK | FIN, 1, 12));
    assert_eq!(rig.brief(), vec![(ACK, 12, 2, 0)]);
    assert_eq!(rig.events(), vec![closed_for_a_while(&rig)]);
    assert_eq!(sockets(&rig, State::TimeWait), 1);
    rig.wait_ms(59_000);
    assert_eq!(sockets(&rig, State::TimeWait), 1);
    rig.wait_ms(1_100);
    assert_eq!(sockets(&rig, State::TimeWait), 0);
    rig.assert_no_leak();
}

/// The peer closes first: end of stream, CLOSE-WAIT, LAST-ACK.
#[test]
fn passive_close() {
    let mut rig = open();
    rig.receive(seg(ACK | FIN, 1, 1).data(10));
    assert_eq!(rig.brief(), vec![(ACK, 1, 12, 0)]);
    assert_eq!(rig.read(1), Ok(10));
    assert_eq!(rig.read(11), Err(ReceiveError::EndOfStream));
    assert_eq!(rig.state(), State::CloseWait);
    assert!(rig.stack.readiness(rig.id).peer_closed && !rig.stack.readiness(rig.id).hung_up);
    rig.send(1, 5);
    let now = rig.now;
    rig.stack.close(now, rig.id);
    assert_eq!(rig.brief(), vec![(ACK | PSH | FIN, 1, 12, 5)]);
    rig.receive(seg(ACK, 12, 7));
    rig.events.clear();
    assert!(rig.events().contains(&closed(&rig)));
    rig.assert_idle();
    rig.assert_no_leak();
}

/// RFC 9293 §3.10.7.4, second: a reset in LAST-ACK. The peer's stream has ended before; the reset is reported once.
#[test]
fn reset_in_last_ack() {
    let mut rig = open();
    rig.receive(seg(ACK | FIN, 1, 1).data(10));
    let now = rig.now;
    rig.stack.shutdown_write(now, rig.id);
    assert_eq!(rig.brief(), vec![(ACK | FIN, 1, 12, 0)]);
    rig.events();
    rig.receive(seg(RST, 12, 0));
    assert!(rig.events().contains(&Event::Failed { socket: rig.id, user_token: NAME, error: SocketError::Reset }));
    assert_eq!(rig.read(1), Ok(10));
    assert_eq!(rig.read(11), Err(ReceiveError::EndOfStream));
    assert_eq!(rig.count(Counter::TcpEstabResets), 0, "RFC 4022 counts those of ESTABLISHED and CLOSE-WAIT");
}

/// Both close at once: CLOSING, then TIME-WAIT.
#[test]
fn simultaneous_close() {
    let mut rig = open();
    let now = rig.now;
    rig.stack.shutdown_write(now, rig.id);
    assert_eq!(rig.brief(), vec![(ACK | FIN, 1, 1, 0)]);
    rig.receive(seg(ACK | FIN, 1, 1));
    assert_eq!(rig.state(), State::Closing);
    assert_eq!(rig.brief(), vec![(ACK, 2, 2, 0)]);
    rig.receive(seg(ACK, 2, 2));
    assert_eq!(sockets(&rig, State::TimeWait), 1);
    assert!(rig.stack.readiness(rig.id).hung_up);
    rig.stack.close(now, rig.id);
    assert!(rig.events().contains(&closed_for_a_while(&rig)));
}

/// Half close: data still comes after our FIN, and no more can be sent.
#[test]
fn half_close() {
    let mut rig = open();
    let now = rig.now;
    rig.stack.shutdown_write(now, rig.id);
    rig.sent();
    rig.receive(seg(ACK, 1, 2).data(100));
    assert_eq!(rig.read(1), Ok(100));
    let refused = rig.stack.send_with(rig.id, 1, &mut |_| panic!("nothing may be asked for"));
    assert_eq!(refused, Err(SendError::Closed));
}

/// An application that keeps the socket is signalled when the last FIN has been acknowledged, whichever end closed first.
#[test]
fn the_end_is_news() {
    let early: [&[Seg]; 3] = [&[seg(ACK | FIN, 1, 1)], &[], &[]];
    let late: [&[Seg]; 3] = [&[seg(ACK, 2, 2)], &[seg(ACK | FIN, 1, 1), seg(ACK, 2, 2)], &[seg(ACK, 1, 2), seg(ACK | FIN, 1, 2)]];
    for (before, after) in early.into_iter().zip(late) {
        let mut rig = open();
        let (now, id) = (rig.now, rig.id);
        before.iter().for_each(|segment| rig.receive(segment.clone()));
        rig.stack.shutdown_write(now, id);
        rig.sent();
        let (last, others) = after.split_last().expect("an end");
        others.iter().for_each(|segment| rig.receive(segment.clone()));
        rig.events();
        assert!(!rig.stack.readiness(id).hung_up);
        rig.receive(last.clone());
        assert!(matches!(rig.events()[..], [Event::Ready { socket, .. }] if socket == id), "{last:?}");
        assert!(rig.stack.readiness(id).hung_up);
    }
}

/// A lost FIN is retransmitted.
#[test]
fn fin_retransmission() {
    let mut rig = open();
    let now = rig.now;
    rig.stack.close(now, rig.id);
    assert_eq!(rig.brief(), vec![(ACK | FIN, 1, 1, 0)]);
    assert_eq!(rig.next_sent().1[0].brief(), (ACK | FIN, 1, 1, 0));
    rig.receive(seg(ACK | FIN, 1, 2));
    assert_eq!(sockets(&rig, State::TimeWait), 1);
}

/// RFC 2525 §2.17: closing with unread data resets.
#[test]
fn close_with_unread_data() {
    let mut rig = open();
    rig.receive(seg(ACK, 1, 1).data(10));
    let now = rig.now;
    rig.stack.close(now, rig.id);
    assert_eq!(rig.brief(), vec![(RST | ACK, 1, 11, 0)]);
    assert_eq!(rig.count(Counter::TcpAbortOnClose), 1);
    rig.assert_no_leak();
}

/// Data for an application that has closed is reset.
#[test]
fn data_after_close() {
    let mut rig = open();
    let now = rig.now;
    rig.stack.close(now, rig.id);
    rig.sent();
    rig.receive(seg(ACK, 1, 2).data(10));
    assert_eq!(rig.brief(), vec![(RST, 2, 0, 0)]);
    assert_eq!(rig.count(Counter::TcpAbortOnData), 1);
    assert!(rig.events().contains(&closed(&rig)));
    rig.assert_no_leak();
}

/// Abort: RST, and the id is stale at once.
#[test]
fn abort() {
    let mut rig = open();
    rig.send(1, 100);
    let now = rig.now;
    rig.stack.abort(now, rig.id);
    assert_eq!(rig.brief(), vec![(RST | ACK, 1, 1, 0)]);
    assert_eq!(rig.events(), vec![closed(&rig)]);
    assert_eq!(rig.stack.info(rig.id), None);
    rig.assert_no_leak();
}

/// RFC 9293 §3.10.5: after FINs both ways a connection is dropped silently; with unsent data it sends RST.
#[test]
fn abort_behind_both_ends() {
    for waiting in [0, 50_000] {
        let mut rig = open();
        rig.receive(seg(ACK | FIN, 1, 1));
        rig.send(1, waiting);
        rig.stack.shutdown_write(rig.now, rig.id);
        let last = *rig.brief().last().expect("a FIN, or what the congestion window allows");
        assert_eq!((rig.state(), last.0 & FIN != 0), (State::LastAck, waiting == 0));
        rig.stack.abort(rig.now, rig.id);
        let reset = (RST | ACK, last.1 + last.3 as u32, 2, 0);
        assert_eq!(rig.brief(), if waiting == 0 { vec![] } else { vec![reset] });
        rig.assert_no_leak();
    }
}

/// An orphan does not wait in FIN-WAIT-2 for ever.
#[test]
fn fin_wait_2_timeout() {
    let mut rig = open();
    let now = rig.now;
    rig.stack.close(now, rig.id);
    rig.sent();
    rig.receive(seg(ACK, 1, 2));
    assert_eq!(sockets(&rig, State::FinWait2), 1);
    rig.wait_ms(60_001);
    assert_eq!(sockets(&rig, State::FinWait2), 0);
    assert!(rig.events().contains(&closed(&rig)));
}

/// The peer resets: the error is reported, received data stays readable.
/// RFC 9293 MUST-12.
#[test]
fn reset_by_the_peer() {
    let mut rig = open();
    rig.receive(seg(ACK, 1, 1).data(10));
    rig.receive(seg(RST, 11, 0));
    assert!(rig.events().contains(&Event::Failed { socket: rig.id, user_token: NAME, error: SocketError::Reset }));
    assert_eq!(rig.read(1), Ok(10));
    let now = rig.now;
    rig.stack.close(now, rig.id);
    assert_eq!(rig.brief(), vec![]);
    assert_eq!(rig.events(), vec![closed(&rig)]);
    rig.assert_no_leak();
}

/// TIME-WAIT answers a repeated FIN, ignores RST (RFC 1337), and lets a newer SYN in (RFC 6191).
/// RFC 9293 MUST-13.
#[test]
fn time_wait() {
    let mut rig = open();
    let now = rig.now;
    rig.stack.close(now, rig.id);
    rig.sent();
    rig.receive(seg(ACK | FIN, 1, 2));
    assert_eq!(rig.brief(), vec![(ACK, 2, 2, 0)]);
    rig.wait_ms(30_000);
    rig.receive(seg(ACK | FIN, 1, 2));
    assert_eq!(rig.brief(), vec![(ACK, 2, 2, 0)]);
    rig.wait_ms(31_000);
    assert_eq!(sockets(&rig, State::TimeWait), 1, "the FIN started the wait again");
    rig.receive(seg(RST, 2, 0));
    assert_eq!(sockets(&rig, State::TimeWait), 1);
    rig.receive(seg(SYN, 1, 0));
    assert_eq!(rig.brief(), vec![(ACK, 2, 2, 0)], "an old SYN is answered with the ACK");
    rig.receive(seg(SYN | FIN, 50_000, 0));
    assert_eq!(rig.brief(), vec![(ACK, 2, 2, 0)], "one with a FIN opens nothing");
    let before = rig.iss;
    rig.receive(seg(SYN, 50_000, 0));
    let answer = rig.sent();
    assert_eq!((answer[0].flags, answer[0].ack), (SYN | ACK, 50_001));
    assert!(rig.iss.zip(before).is_some_and(|(new, old)| new.after(old + 65_536)));
    assert_eq!(rig.count(Counter::TimeWaitRecycled), 1);
}

/// An event of a connection that is gone says nothing about the next one at its index; the events of that are reported once.
#[test]
fn events_of_the_place_before() {
    let mut rig = Rig::with(Rig::config());
    let listener = rig.listen(TcpOptions::default(), 16);
    let [gone, here] = [0, 1].map(|time| {
        if time > 0 {
            let now = rig.now;
            rig.stack.abort(now, rig.id);
        }
        rig.receive(seg(SYN, 0, 0));
        rig.sent();
        rig.receive(seg(ACK, 1, 1));
        rig.id = rig.stack.accept(listener, NAME).expect("one connection waits");
        rig.receive(seg(ACK | PSH, 1, 1).data(10));
        rig.id
    });
    assert_eq!(here.index, gone.index, "the same index");
    let is_news_of = |id| move |event: &Event| matches!(event, Event::Ready { socket, .. } if *socket == id);
    while rig.stack.poll_event().is_some_and(|event| !is_news_of(gone)(&event)) {}
    rig.receive(seg(ACK | PSH, 11, 1).data(10));
    assert_eq!(rig.events().iter().filter(|event| is_news_of(here)(event)).count(), 1);
}

/// Closing a listener resets the connections in its queue.
#[test]
fn close_a_listener() {
    let mut rig = Rig::with(Rig::config());
    let listener = rig.listen(TcpOptions::default(), 16);
    rig.receive(seg(SYN, 0, 0).mss(1_460));
    rig.sent();
    rig.receive(seg(ACK, 1, 1));
    let now = rig.now;
    rig.stack.close(now, listener);
    assert_eq!(rig.brief(), vec![(RST | ACK, 1, 1, 0)]);
    rig.receive(seg(SYN, 0, 0));
    assert_eq!((rig.sent()[0].flags, sockets(&rig, State::Listen)), (RST | ACK, 0));
    assert_eq!(
        rig.events().last(),
        Some(&Event::Closed { socket: listener, user_token: 78, time_wait: false }),
        "the other has no name"
    );
    rig.listen(TcpOptions::default(), 16);
}
