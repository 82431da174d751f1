//! Opening: RFC 9293 §3.5, RFC 7323 §2, RFC 2018 §2.

use alloc::vec;

use super::rig::*;
use crate::config::TcpOptions;
use crate::event::{Event, SocketError};
use crate::stats::Counter;
use crate::tcp::ActiveOpen;
use crate::tcp::State;
use crate::wire::tcp::{ACK, RST, SYN};

/// Passive open: SYN, SYN-ACK with MSS and the options that the peer offered too, ACK, accept.
#[test]
fn passive_open() {
    let rig = Rig::accepted(Rig::config(), TcpOptions::default());
    assert_eq!(rig.state(), State::Established);
    assert_eq!(rig.count(Counter::TcpPassiveOpens), 1);
    assert_eq!(rig.info().send_mss, MSS);
    assert_eq!((rig.info().send_scale, rig.info().receive_scale), (0, 0));
}

/// With all options offered, all are negotiated; timestamps make full segments 12 bytes smaller.
/// RFC 9293 MUST-14, MUST-16.
#[test]
fn passive_open_with_options() {
    let mut rig = Rig::with(crate::StackConfig::default());
    rig.accept_with(TcpOptions::default(), seg(SYN, 0, 0).mss(1_460).scale(3).sack_permitted().time(100, 0));
    let info = rig.info();
    assert_eq!((info.send_scale, info.receive_scale, info.timestamps, info.sack), (3, 9, true, true));
    assert_eq!(info.send_mss, 1_448);
    // The window of the ACK is not that of a SYN: it is scaled.
    assert_eq!(info.send_window, 65_535 << 3);
}

/// Active open: SYN with our options, SYN-ACK, ACK; the application gets the event.
#[test]
fn active_open() {
    let mut rig = Rig::with(crate::StackConfig::default());
    rig.connect(TcpOptions::default());
    let syn = rig.sent();
    assert_eq!(syn[0].brief(), (SYN, 0, 0, 0));
    assert_eq!((syn[0].options.maximum_segment_size, syn[0].options.window_scale), (Some(1_460), Some(9)));
    assert!(syn[0].options.sack_permitted && syn[0].options.timestamps.is_some());
    rig.wait_ms(30);
    rig.receive(seg(SYN | ACK, 0, 1).mss(1_000));
    assert_eq!(rig.brief(), vec![(ACK, 1, 1, 0)]);
    assert_eq!(rig.events(), vec![Event::Connected { socket: rig.id, user_token: NAME }]);
    assert_eq!(rig.state(), State::Established);
    assert_eq!(rig.info().send_mss, 1_000);
}

/// The SYN is sent again after 1, 2, 4 ... seconds, six times; then the open has failed.
/// RFC 9293 MUST-22.
#[test]
fn syn_retransmission() {
    let mut rig = Rig::with(Rig::config());
    rig.connect(TcpOptions::default());
    assert_eq!(rig.sent().len(), 1);
    for seconds in [1, 2, 4, 8, 16, 32] {
        let (elapsed, sent) = rig.next_sent();
        assert_eq!((elapsed, sent[0].brief()), (seconds * 1_000, (SYN, 0, 0, 0)));
    }
    rig.wait_ms(64_000);
    assert_eq!(rig.events(), vec![Event::Failed { socket: rig.id, user_token: NAME, error: SocketError::TimedOut }]);
}

/// The first answer of an old connection is reset whatever the limit of resets, and the SYN follows once.
#[test]
fn an_old_connection_of_the_peers_is_reset_and_the_syn_follows() {
    let mut rig = Rig::with(crate::StackConfig { replies_per_second: 0, ..Rig::config() });
    rig.connect(TcpOptions::default());
    assert_eq!(rig.brief(), vec![(SYN, 0, 0, 0)]);
    rig.wait_ms(10);
    rig.receive_all([seg(ACK, 500, 9_000), seg(ACK, 500, 9_000)]);
    assert_eq!(rig.brief(), vec![(RST, 9_000, 0, 0)]);
    let (elapsed, sent) = rig.next_sent();
    assert_eq!((elapsed, sent[0].brief()), (2, (SYN, 0, 0, 0)));
    rig.receive(seg(ACK, 500, 9_000));
    let (elapsed, sent) = rig.next_sent();
    assert_eq!((elapsed, sent[0].brief()), (2_000, (SYN, 0, 0, 0)));
    assert_eq!((rig.count(Counter::TcpOutRsts), rig.count(Counter::DropRateLimited)), (1, 2));
    rig.receive(seg(SYN | ACK, 0, 1).mss(1_000));
    assert_eq!(rig.state(), State::Established);
}

/// The SYN-ACK is sent again after 1, 2, 4, 8, 16 seconds; then the record is dropped.
#[test]
fn syn_ack_retransmission() {
    let mut rig = Rig::with(Rig::config());
    rig.listen(TcpOptions::default(), 16);
    rig.receive(seg(SYN, 0, 0).mss(1_460));
    assert_eq!(rig.brief(), vec![(SYN | ACK, 0, 1, 0)]);
    for seconds in [1, 2, 4, 8, 16] {
        let (elapsed, sent) = rig.next_sent();
        assert_eq!((elapsed, sent[0].brief()), (seconds * 1_000, (SYN | ACK, 0, 1, 0)));
    }
    rig.wait_ms(32_000);
    assert_eq!(rig.stack.poll_timeout(), None);
    let mut sockets = 0;
    rig.stack.for_each_socket(&mut |_| sockets += 1);
    assert_eq!(sockets, 1, "the listener");
}

/// The peer refuses: RST in answer to our SYN.
#[test]
fn refused() {
    let mut rig = Rig::with(Rig::config());
    rig.connect(TcpOptions::default());
    assert_eq!(rig.sent().len(), 1);
    rig.receive(seg(RST | ACK, 0, 2));
    assert_eq!(rig.events(), vec![], "an ACK of unsent data proves nothing");
    rig.sent();
    rig.receive(seg(RST | ACK, 0, 1));
    assert_eq!(rig.events(), vec![Event::Failed { socket: rig.id, user_token: NAME, error: SocketError::Refused }]);
}

/// RFC 9293 figure 7: both ends open at once and become established.
/// RFC 9293 MUST-10.
#[test]
fn simultaneous_open() {
    let mut rig = Rig::with(Rig::config());
    rig.connect(TcpOptions::default());
    assert_eq!(rig.brief(), vec![(SYN, 0, 0, 0)]);
    rig.receive(seg(SYN, 0, 0).mss(1_460));
    assert_eq!(rig.brief(), vec![(SYN | ACK, 0, 1, 0)]);
    rig.receive(seg(SYN | ACK, 0, 1).mss(1_460));
    assert_eq!(rig.state(), State::Established);
    assert_eq!(rig.events(), vec![Event::Connected { socket: rig.id, user_token: NAME }]);
    assert_eq!(rig.brief(), vec![(ACK, 1, 1, 0)], "the peer may not have our SYN-ACK");
    // Nor that ACK.
    rig.receive(seg(SYN | ACK, 0, 1).mss(1_460));
    assert_eq!(rig.brief(), vec![(ACK, 1, 1, 0)]);
}

/// RFC 9293 §3.10.7.3, fourth: a SYN-ACK's contents are processed from the URG bit on.
#[test]
fn urgent_data_with_the_syn_ack() {
    let mut rig = Rig::with(Rig::config());
    rig.connect(TcpOptions::default());
    rig.sent();
    rig.receive(seg(SYN | ACK, 0, 1).mss(1_460).data(10).urgent(4));
    assert_eq!(rig.state(), State::Established);
    assert_eq!(rig.stack.urgent(rig.id).map(|mark| mark.at), Some(2), "the SYN has a sequence number");
    assert_eq!(rig.brief(), vec![(ACK, 1, 11, 0)]);
}

/// A restarted peer, with a SYN inside the window of its old record, gets a challenge; its reset makes space.
#[test]
fn another_syn_for_a_record() {
    let mut rig = Rig::with(Rig::config());
    rig.listen(TcpOptions::default(), 16);
    rig.receive(seg(SYN, 0, 0).mss(1_460));
    assert_eq!(rig.brief(), vec![(SYN | ACK, 0, 1, 0)]);
    rig.receive(seg(SYN, 500, 0).mss(1_460));
    assert_eq!(rig.brief(), vec![(ACK, 1, 1, 0)]);
    rig.receive(seg(RST, 1, 0));
    rig.receive(seg(SYN, 500, 0).mss(1_460));
    let answer = rig.brief();
    assert_eq!((answer[0].0, answer[0].2), (SYN | ACK, 501));
}

/// A SYN-ACK that acknowledges something else is reset, and the open goes on.
#[test]
fn wrong_syn_ack() {
    let mut rig = Rig::with(Rig::config());
    rig.connect(TcpOptions::default());
    rig.sent();
    rig.receive(seg(SYN | ACK, 0, 99));
    assert_eq!(rig.brief(), vec![(RST, 99, 0, 0)]);
    assert_eq!(rig.state(), State::SynSent);
}

/// Ports without a listener answer SYN with RST,ACK and ACK with RST; never a RST.
#[test]
fn closed_port() {
    let mut rig = Rig::with(Rig::config());
    rig.receive(seg(SYN, 0, 0));
    assert_eq!(rig.brief(), vec![(RST | ACK, 0, 1, 0)]);
    rig.receive(seg(ACK, 5, 9));
    assert_eq!(rig.brief(), vec![(RST, 9, 0, 0)]);
    rig.receive(seg(RST, 5, 0));
    assert_eq!(rig.brief(), vec![]);
    rig.assert_no_leak();
}

/// A full accept queue drops SYNs and the last ACK, and counts both; the client gets the SYN-ACK again.
#[test]
fn accept_queue_overflow() {
    let mut rig = Rig::with(Rig::config());
    let listener = rig.listen(TcpOptions::default(), 2);
    let mut isses = vec![];
    for port in 1_000..1_003 {
        rig.ports.1 = port;
        rig.receive(seg(SYN, 0, 0).mss(1_460));
        rig.sent();
        isses.push((port, rig.iss));
        if port > 1_000 {
            // No more than two are half open at a time.
            (rig.ports.1, rig.iss) = isses[port as usize - 1_001];
            rig.receive(seg(ACK, 1, 1));
        }
    }
    (rig.ports.1, rig.iss) = isses[2];
    rig.receive(seg(ACK, 1, 1));
    assert_eq!(rig.count(Counter::ListenOverflows), 1);
    rig.ports.1 = 1_003;
    rig.receive(seg(SYN, 0, 0));
    assert_eq!(rig.brief(), vec![]);
    assert_eq!((rig.count(Counter::ListenOverflows), rig.count(Counter::ListenDrops)), (2, 2));
    rig.stack.accept(listener, 1).expect("one waits");
    rig.ports.1 = 1_002;
    assert_eq!(rig.next_sent().1[0].flags, SYN | ACK);
    rig.receive(seg(ACK, 1, 1));
    rig.stack.accept(listener, 2).expect("the second one");
    rig.stack.accept(listener, 3).expect("the third one had another chance");
}

/// The SYN queue is bounded; without cookies a further SYN displaces a record.
#[test]
fn syn_queue_overflow() {
    let mut config = crate::StackConfig { syn_queue_max: 2, ..Rig::config() };
    config.tcp.syn_cookies = crate::SynCookies::Off;
    let mut rig = Rig::with(config);
    rig.listen(TcpOptions::default(), 16);
    for port in 1_000..1_003 {
        rig.ports.1 = port;
        rig.receive(seg(SYN, 0, 0));
        assert_eq!(rig.sent().len(), 1);
    }
    assert_eq!(rig.count(Counter::TcpReqQFullDrop), 1);
}

/// Data may come with the last ACK of the handshake.
#[test]
fn data_with_the_last_ack() {
    let mut rig = Rig::with(Rig::config());
    let listener = rig.listen(TcpOptions::default(), 16);
    rig.receive(seg(SYN, 0, 0).mss(1_460));
    rig.sent();
    rig.receive(seg(ACK, 1, 1).data(100));
    rig.id = rig.stack.accept(listener, NAME).expect("one waits");
    assert_eq!(rig.read(1), Ok(100));
}

/// Ephemeral ports differ, lie in the range, and a named 4-tuple in use is refused.
#[test]
fn ports() {
    let mut rig = Rig::with(Rig::config());
    let remote = crate::SocketAddress { ip: REMOTE.into(), port: 9 };
    let mut seen = alloc::collections::BTreeSet::new();
    for _ in 0..50 {
        let id = rig.stack.connect(rig.now, ActiveOpen::to(remote)).expect("ports are free");
        let (local, _) = rig.stack.addresses(id).expect("the id is valid");
        assert!((32_768..=60_999).contains(&local.port));
        assert!(seen.insert(local.port));
    }
    let local = crate::SocketAddress { ip: LOCAL.into(), port: *seen.first().expect("fifty") };
    let again = rig.stack.connect(rig.now, ActiveOpen { local: Some(local), ..ActiveOpen::to(remote) });
    assert_eq!(again, Err(crate::ConnectError::InUse));
}

/// SO_REUSEPORT: the listeners of a reuseport group serve one address, each its flows; one without the option is refused;
/// when one closes the others serve its flows.
#[test]
fn listeners_that_share_a_port() {
    let mut rig = Rig::with(Rig::config());
    let sharing = TcpOptions { reuse_port: true, ..TcpOptions::default() };
    let listeners = [0; 2].map(|_| rig.listen(sharing, 64));
    let local = crate::SocketAddress { ip: rig.family.any(), port: rig.ports.0 };
    let refused = rig.stack.listen(local, 64, TcpOptions::default(), NAME);
    assert_eq!(refused, Err(crate::ListenError::InUse));
    let open = |rig: &mut Rig, port: u16| {
        rig.ports.1 = port;
        rig.receive(seg(SYN, 0, 0));
        rig.sent();
        rig.receive(seg(ACK, 1, 1));
    };
    (2_000..2_032).for_each(|port| open(&mut rig, port));
    let accepted = |rig: &mut Rig, listener| (0..64).take_while(|_| rig.stack.accept(listener, NAME).is_ok()).count();
    let [first, second] = listeners.map(|listener| accepted(&mut rig, listener));
    assert!(first >= 4 && second >= 4 && first + second == 32, "{first} and {second}");
    let now = rig.now;
    rig.stack.close(now, listeners[0]);
    (3_000..3_032).for_each(|port| open(&mut rig, port));
    assert_eq!(accepted(&mut rig, listeners[1]), 32);
}
