//! Fast Open (RFC 7413), both sides, and every fallback to an ordinary handshake.

use alloc::vec;
use alloc::vec::Vec;

use super::rig::*;
use crate::config::{FastOpenConfig, FastOpenKeys, StackConfig, TcpOptions};
use crate::event::{Event, SocketError, SocketId};
use crate::stats::Counter;
use crate::tcp::State;
use crate::wire::tcp::{ACK, FIN, FastOpen, PSH, RST, SYN};
use crate::{Duration, Instant};

const COOKIE: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

fn config(bits: u32) -> StackConfig {
    let mut config = Rig::config();
    config.tcp.fast_open = FastOpenConfig::from_bits(bits);
    config
}

fn fast() -> TcpOptions {
    TcpOptions { fast_open: true, ..TcpOptions::default() }
}

fn serving() -> TcpOptions {
    TcpOptions { fast_open_queue: 5, ..TcpOptions::default() }
}

impl Seg {
    fn cookie(mut self, cookie: &[u8]) -> Seg {
        self.options.fast_open = FastOpen::new(cookie, false);
        self
    }

    fn told(&self) -> Option<Vec<u8>> {
        self.options.fast_open.map(|option| option.cookie().to_vec())
    }
}

/// A client that got a cookie with its first connection, which was then reset; ports move on.
fn client_with_cookie(config: StackConfig) -> Rig {
    let mut rig = Rig::with(config);
    rig.connect(fast());
    let syn = rig.sent();
    assert_eq!((syn[0].brief(), syn[0].told()), ((SYN, 0, 0, 0), Some(vec![])), "a request");
    assert_eq!(rig.stack.fast_open_room(rig.id), None);
    rig.receive(seg(SYN | ACK, 0, 1).mss(1_460).cookie(&COOKIE));
    assert_eq!(rig.brief(), vec![(ACK, 1, 1, 0)]);
    assert_eq!(rig.info().fast_open_failure, 1);
    rig.receive(seg(RST, 1, 0));
    rig.stack.close(rig.now, rig.id);
    rig.events();
    rig
}

/// RFC 7413 §4.2.1: the SYN waits for data, carries it with the cookie, and the SYN-ACK acknowledges both.
#[test]
fn client() {
    let mut rig = client_with_cookie(config(1));
    rig.connect(fast());
    assert_eq!(rig.brief(), vec![], "the SYN waits");
    assert_eq!(rig.stack.fast_open_room(rig.id), Some(1_420));
    assert!(rig.stack.readiness(rig.id).writable);
    assert_eq!(rig.send(1, 1_000), 1_000);
    let syn = rig.sent();
    assert_eq!((syn[0].brief(), syn[0].told()), ((SYN, 0, 0, 1_000), Some(COOKIE.to_vec())));
    assert_eq!(syn[0].payload, stream(1, 1_000));
    assert!(!rig.stack.readiness(rig.id).writable);
    rig.wait_ms(20);
    rig.receive(seg(SYN | ACK, 0, 1_001).mss(1_460));
    assert_eq!(rig.brief(), vec![(ACK, 1_001, 1, 0)]);
    assert_eq!(rig.events(), vec![Event::Connected { socket: rig.id, user_token: NAME }]);
    let info = rig.info();
    assert_eq!((info.state, info.syn_data, info.fast_open_failure, info.rtt_us), (State::Established, true, 0, 20_000));
    assert_eq!((info.unacked_bytes, info.bytes_acked), (0, 1_000));
    assert_eq!((rig.count(Counter::TcpFastOpenActive), rig.count(Counter::TcpRetransSegs)), (1, 0));
    rig.send(1_001, 10);
    assert_eq!(rig.brief(), vec![(ACK | PSH, 1_001, 1, 10)]);
}

/// Data that does not fit the SYN follows after the handshake.
#[test]
fn client_with_more_than_fits() {
    let mut rig = client_with_cookie(config(1));
    rig.connect(fast());
    assert_eq!(rig.send(1, 3_000), 3_000);
    assert_eq!(rig.brief(), vec![(SYN, 0, 0, 1_420)]);
    rig.receive(seg(SYN | ACK, 0, 1_421).mss(1_460));
    let sent = rig.sent();
    assert_eq!(
        sent.iter().map(|segment| (segment.seq, segment.payload.len())).collect::<Vec<_>>(),
        [(1_421, 1_460), (2_881, 120)]
    );
    assert_eq!(sent[1].payload, stream(2_881, 120));
}

/// The server did not take the data, or only a part: the rest follows at once.
#[test]
fn client_data_refused() {
    for taken in [0, 400] {
        let mut rig = client_with_cookie(config(1));
        rig.connect(fast());
        rig.send(1, 1_000);
        rig.sent();
        rig.receive(seg(SYN | ACK, 0, 1 + taken).mss(1_460));
        let sent = rig.sent();
        let data: Vec<_> = sent.iter().filter(|segment| !segment.payload.is_empty()).collect();
        assert_eq!((data.len(), data[0].seq, data[0].payload.clone()), (1, 1 + taken, stream(1 + taken, 1_000 - taken)));
        assert_eq!((rig.info().syn_data, rig.info().fast_open_failure), (false, 2));
        assert_eq!(rig.count(Counter::TcpFastOpenActiveFail), 1);
        rig.receive(seg(ACK, 1, 1_001));
        rig.assert_idle();
    }
}

/// RFC 7413 §4.2.1: the SYN is sent again without option and data; the data follows the handshake.
#[test]
fn client_syn_lost() {
    let mut rig = client_with_cookie(config(1));
    rig.connect(fast());
    rig.send(1, 100);
    rig.sent();
    let (elapsed, sent) = rig.next_sent();
    assert_eq!((elapsed, sent[0].brief(), sent[0].told()), (1_000, (SYN, 0, 0, 0), None));
    rig.receive(seg(SYN | ACK, 0, 1).mss(1_460));
    let sent = rig.sent();
    assert_eq!(sent.last().map(Seg::brief), Some((ACK | PSH, 1, 1, 100)));
    assert_eq!(rig.info().fast_open_failure, 3);
    rig.receive(seg(ACK, 1, 101));
    assert_eq!(rig.info().unacked_bytes, 0);
}

/// After two lost SYNs with data in a row, ordinary ones are sent for a while.
#[test]
fn client_holds_data_back() {
    let mut rig = client_with_cookie(config(1));
    for _ in 0..2 {
        rig.connect(fast());
        rig.send(1, 100);
        rig.sent();
        rig.next_sent();
        rig.receive(seg(SYN | ACK, 0, 1).mss(1_460));
        rig.sent();
        rig.receive(seg(RST, 1, 0));
        rig.stack.close(rig.now, rig.id);
    }
    rig.connect(fast());
    let syn = rig.sent();
    assert_eq!((syn[0].brief(), syn[0].told()), ((SYN, 0, 0, 0), None));
    rig.stack.abort(rig.now, rig.id);
    rig.now += Duration::from_secs(600);
    rig.connect(fast());
    assert!(rig.stack.fast_open_room(rig.id).is_some(), "and then it is tried again");
}

/// The rest after a black hole applies to all peers, and grows.
#[test]
fn client_black_hole() {
    let mut config = config(1);
    config.tcp.fast_open.black_hole_rest = Duration::from_secs(3_600);
    let mut rig = client_with_cookie(config);
    rig.connect(fast());
    rig.send(1, 100);
    rig.sent();
    rig.next_sent();
    assert_eq!(rig.count(Counter::TcpFastOpenBlackhole), 0);
    rig.next_sent();
    assert_eq!(rig.count(Counter::TcpFastOpenBlackhole), 1);
    rig.stack.abort(rig.now, rig.id);
    rig.connect(fast());
    assert_eq!(rig.sent()[0].told(), None);
    rig.stack.abort(rig.now, rig.id);
    rig.now += Duration::from_secs(3_600);
    rig.connect(fast());
    assert!(rig.stack.fast_open_room(rig.id).is_some());
}

/// A peer that ignores the request is asked once more under the experimental number, and then as before.
#[test]
fn client_tries_the_experimental_option() {
    let mut rig = Rig::with(config(1));
    for experimental in [false, true, false, false] {
        rig.connect(fast());
        let asked = rig.sent()[0].options.fast_open;
        assert_eq!(asked, Some(FastOpen::request(experimental)));
        rig.receive(seg(SYN | ACK, 0, 1).mss(1_460));
        rig.sent();
        rig.receive(seg(RST, 1, 0));
        rig.stack.close(rig.now, rig.id);
    }
}

/// Data goes without a cookie if that is configured; without the client's bit there is no Fast Open.
#[test]
fn client_without_cookie() {
    let mut rig = Rig::with(config(5));
    rig.connect(fast());
    rig.send(1, 10);
    let syn = rig.sent();
    assert_eq!((syn[0].brief(), syn[0].told()), ((SYN, 0, 0, 10), None));
    let mut rig = Rig::with(config(0));
    rig.connect(fast());
    assert_eq!(rig.sent()[0].told(), None);
    rig.receive(seg(SYN | ACK, 0, 1).mss(1_460).cookie(&COOKIE));
    assert_eq!(rig.state(), State::Established);
}

/// A waiting SYN goes when the application will not write; closing drops it.
#[test]
fn client_without_data() {
    let mut rig = client_with_cookie(config(1));
    rig.connect(fast());
    rig.stack.shutdown_write(rig.now, rig.id);
    assert_eq!(rig.brief(), vec![(SYN, 0, 0, 0)]);
    rig.receive(seg(SYN | ACK, 0, 1).mss(1_460));
    assert_eq!(rig.brief(), vec![(ACK | FIN, 1, 1, 0)]);
    rig.stack.abort(rig.now, rig.id);
    rig.sent();
    rig.connect(fast());
    rig.stack.close(rig.now, rig.id);
    assert_eq!(rig.brief(), vec![]);
    rig.assert_idle();
    rig.assert_no_leak();
}

/// Both ends open at once, ours with data that the peer has not seen: it is sent after the handshake.
#[test]
fn client_simultaneous() {
    let mut rig = client_with_cookie(config(1));
    rig.connect(fast());
    rig.send(1, 100);
    rig.sent();
    rig.receive(seg(SYN, 0, 0).mss(1_460));
    assert_eq!(rig.brief(), vec![(SYN | ACK, 0, 1, 0)]);
    rig.receive(seg(SYN | ACK, 0, 1).mss(1_460));
    let sent = rig.sent();
    assert_eq!(sent.last().map(Seg::brief), Some((ACK | PSH, 1, 1, 100)));
    assert_eq!(rig.state(), State::Established);
}

/// A server with a listener, and the cookie that it gives.
fn server(bits: u32, options: TcpOptions) -> (Rig, SocketId, Vec<u8>) {
    let mut rig = Rig::with(config(bits));
    let listener = rig.listen(options, 16);
    rig.receive(seg(SYN, 0, 0).mss(1_460).cookie(&[]));
    let answer = rig.sent();
    let cookie = answer[0].told().unwrap_or_default();
    rig.receive(seg(RST, 1, 0));
    rig.ports.1 += 1;
    (rig, listener, cookie)
}

fn open_early(rig: &mut Rig, listener: SocketId, cookie: &[u8], data: u32) -> Vec<Seg> {
    rig.receive(Seg { payload: stream(1, data), ..seg(SYN, 0, 0).mss(1_460).cookie(cookie) });
    let sent = rig.sent();
    if let Ok(id) = rig.stack.accept(listener, NAME) {
        rig.id = id;
    }
    sent
}

/// RFC 7413 §4.2.2: data is read, and answered, before the handshake is over.
#[test]
fn server_side() {
    let (mut rig, listener, cookie) = server(2, serving());
    assert_eq!((cookie.len(), rig.count(Counter::TcpFastOpenCookieReqd)), (8, 1));
    let answer = open_early(&mut rig, listener, &cookie, 500);
    assert_eq!((answer[0].brief(), answer[0].told()), ((SYN | ACK, 0, 501, 0), None));
    assert_eq!((rig.state(), rig.info().syn_data), (State::SynReceived, true));
    assert_eq!(rig.read(1), Ok(500));
    assert_eq!(rig.send(1, 700), 700);
    assert_eq!(rig.brief(), vec![(ACK | PSH, 1, 501, 700)]);
    rig.wait_ms(30);
    rig.receive(seg(ACK, 501, 701));
    assert_eq!((rig.state(), rig.info().unacked_bytes), (State::Established, 0));
    assert_eq!(rig.count(Counter::TcpFastOpenPassive), 1);
    assert!(rig.events().iter().all(|event| !matches!(event, Event::Connected { .. })));
    rig.receive(seg(ACK, 501, 701).data(20));
    assert_eq!(rig.read(501), Ok(20));
    assert_eq!(rig.next_sent().1.iter().map(Seg::brief).collect::<Vec<_>>(), vec![(ACK, 701, 521, 0)]);
    rig.assert_idle();
}

/// The ACK of the SYN-ACK alone leaves the data to its timer.
#[test]
fn server_data_lost() {
    let (mut rig, listener, cookie) = server(2, serving());
    open_early(&mut rig, listener, &cookie, 500);
    rig.send(1, 700);
    rig.sent();
    rig.receive(seg(ACK, 501, 1));
    assert_eq!(rig.state(), State::Established);
    assert_eq!(rig.next_sent().1.iter().map(Seg::brief).collect::<Vec<_>>(), vec![(ACK | PSH, 1, 501, 700)]);
}

/// A router refuses the data before the SYN-ACK is acknowledged: no retransmission begins with the SYN, and the timer sends
/// the data in smaller pieces after the handshake.
#[test]
fn server_data_too_large() {
    let (mut rig, listener, cookie) = server(2, serving());
    open_early(&mut rig, listener, &cookie, 500);
    rig.send(1, 1_000);
    rig.sent();
    super::hostile::icmp(&mut rig, 3, 4, 600, 1);
    assert_eq!((rig.brief(), rig.info().send_mss), (vec![], 560));
    rig.receive(seg(ACK, 501, 1));
    assert_eq!(rig.next_sent().1.iter().map(Seg::brief).collect::<Vec<_>>(), vec![(ACK, 1, 501, 560)]);
}

/// The SYN-ACK is sent again, without cookie, on its timeout or for a repeated SYN; at last the connection fails.
#[test]
fn server_syn_ack_lost() {
    let (mut rig, listener, cookie) = server(2, serving());
    open_early(&mut rig, listener, &cookie, 500);
    rig.receive(seg(SYN, 0, 0).mss(1_460));
    assert_eq!(rig.brief(), vec![(SYN | ACK, 0, 501, 0)]);
    for seconds in [1, 2, 4, 8, 16, 32] {
        let (elapsed, sent) = rig.next_sent();
        assert_eq!((elapsed, sent[0].brief()), (seconds * 1_000, (SYN | ACK, 0, 501, 0)));
    }
    rig.wait_ms(64_000);
    let failed = Event::Failed { socket: rig.id, user_token: NAME, error: SocketError::TimedOut };
    assert!(rig.events().contains(&failed));
}

/// RFC 9293 §3.8.6, RFC 7323 §2.2: the window sent with data is larger than a SYN-ACK can express. A repeated SYN-ACK does
/// not withdraw it, though memory has become scarce.
#[test]
fn server_window_after_another_syn_ack() {
    let (mut rig, listener, cookie) = server(2, serving());
    let syn = seg(SYN, 0, 0).mss(1_460).scale(7);
    rig.receive(Seg { payload: stream(1, 500), ..syn.clone().cookie(&cookie) });
    let shift = rig.sent()[0].options.window_scale.expect("both scale");
    let edge = |segment: &Seg| segment.ack + (u32::from(segment.window) << shift);
    rig.id = rig.stack.accept(listener, NAME).expect("it is offered at once");
    rig.send(1, 700);
    let promised = edge(&rig.sent()[0]);
    assert!(promised > 501 + 65_535);
    let held: Vec<_> = (0..4_000).map_while(|_| rig.arena.alloc(ringway_shm::Class::Large)).collect();
    rig.receive(syn);
    assert_eq!(rig.brief(), vec![(SYN | ACK, 0, 501, 0)]);
    rig.receive(seg(ACK, 501, 701));
    rig.send(701, 10);
    assert_eq!(edge(&rig.sent()[0]), promised);
    drop(held);
}

/// A bad cookie, or none, leads to an ordinary handshake with a valid cookie; the data is not acknowledged.
#[test]
fn server_bad_cookie() {
    let (mut rig, listener, cookie) = server(2, serving());
    let answer = open_early(&mut rig, listener, &COOKIE, 500);
    assert_eq!((answer[0].brief(), answer[0].told()), ((SYN | ACK, 0, 1, 0), Some(cookie)));
    assert_eq!(rig.count(Counter::TcpFastOpenPassiveFail), 1);
    rig.receive(seg(ACK, 1, 1).data(500));
    rig.id = rig.stack.accept(listener, NAME).expect("an ordinary connection");
    assert_eq!(rig.read(1), Ok(500));
    rig.next_sent();
    rig.ports.1 += 1;
    rig.receive(seg(SYN, 0, 0).mss(1_460).data(100));
    let answer = rig.sent();
    assert_eq!((answer[0].brief(), answer[0].told()), ((SYN | ACK, 0, 1, 0), None));
}

/// A listener without the option, or a stack that does not serve it, gives no cookies.
#[test]
fn server_off() {
    for (bits, options) in [(2, TcpOptions::default()), (1, serving())] {
        let (mut rig, listener, cookie) = server(bits, options);
        assert_eq!(cookie, vec![]);
        assert_eq!(open_early(&mut rig, listener, &COOKIE, 100)[0].brief(), (SYN | ACK, 0, 1, 0));
    }
    let (_, _, cookie) = server(0x402, TcpOptions::default());
    assert_eq!(cookie.len(), 8, "all listeners");
    let (mut rig, listener, _) = server(0x202, serving());
    assert_eq!(open_early(&mut rig, listener, &[], 100)[0].brief(), (SYN | ACK, 0, 101, 0), "no cookie is required");
}

/// A cookie of the backup key is valid and gets a new one; one of an older key is not.
#[test]
fn server_keys() {
    let (mut rig, listener, old) = server(2, serving());
    let before = rig.stack.fast_open_keys(None);
    rig.stack.set_fast_open_keys(None, FastOpenKeys { primary: [7; 16], backup: Some(before.primary) });
    let answer = open_early(&mut rig, listener, &old, 10);
    assert_eq!(answer[0].brief(), (SYN | ACK, 0, 11, 0));
    let new = answer[0].told().expect("a new cookie");
    assert_eq!(rig.count(Counter::TcpFastOpenPassiveAltKey), 1);
    rig.ports.1 += 1;
    assert_eq!(open_early(&mut rig, listener, &new, 10)[0].brief(), (SYN | ACK, 0, 11, 0));
    rig.stack.set_fast_open_keys(Some(listener), FastOpenKeys { primary: [8; 16], backup: None });
    rig.ports.1 += 1;
    assert_eq!(open_early(&mut rig, listener, &new, 10)[0].brief(), (SYN | ACK, 0, 1, 0));
}

/// RFC 7413 §5.1: the number is limited; connections that were reset count for another minute, and no longer.
#[test]
fn server_limit() {
    let (mut rig, listener, cookie) = server(2, TcpOptions { fast_open_queue: 2, ..TcpOptions::default() });
    for (n, early) in [true, true, false].into_iter().enumerate() {
        rig.ports.1 = 2_000 + n as u16;
        let answer = open_early(&mut rig, listener, &cookie, 10);
        assert_eq!(answer[0].ack, if early { 11 } else { 1 });
    }
    assert_eq!(rig.count(Counter::TcpFastOpenListenOverflow), 1);
    for port in [2_000, 2_001] {
        rig.ports.1 = port;
        rig.receive(seg(RST, 11, 0));
    }
    rig.ports.1 = 2_010;
    assert_eq!(open_early(&mut rig, listener, &cookie, 10)[0].ack, 1);
    rig.now = Instant::from_millis(rig.now.as_millis() + 60_000);
    rig.ports.1 = 2_011;
    assert_eq!(open_early(&mut rig, listener, &cookie, 10)[0].ack, 11);
    // A finished handshake frees the place at once.
    rig.receive(seg(ACK, 11, 1));
    rig.now = Instant::from_millis(rig.now.as_millis() + 1);
    rig.ports.1 = 2_012;
    assert_eq!(open_early(&mut rig, listener, &cookie, 10)[0].ack, 11);
}

/// A reset before the handshake is over reaches the application; closing sends its FIN early.
#[test]
fn server_ends_early() {
    let (mut rig, listener, cookie) = server(2, serving());
    open_early(&mut rig, listener, &cookie, 10);
    rig.receive(seg(RST, 11, 0));
    let failed = Event::Failed { socket: rig.id, user_token: NAME, error: SocketError::Reset };
    assert!(rig.events().contains(&failed));
    rig.stack.close(rig.now, rig.id);
    rig.ports.1 += 1;
    open_early(&mut rig, listener, &cookie, 10);
    rig.read(1).expect("ten bytes");
    rig.stack.close(rig.now, rig.id);
    assert_eq!(rig.brief(), vec![(ACK | FIN, 1, 11, 0)]);
    rig.receive(seg(ACK, 11, 2));
    rig.receive(seg(ACK | FIN, 11, 2));
    assert_eq!(rig.brief(), vec![(ACK, 2, 12, 0)]);
    rig.now += Duration::from_secs(120);
    rig.stack.handle_timeout(rig.now);
    rig.stack.close(rig.now, listener);
    rig.assert_no_leak();
}

/// A SYN with a FIN opens nothing, with or without a cookie.
#[test]
fn server_fin_in_the_syn() {
    let (mut rig, listener, cookie) = server(2, serving());
    rig.receive(Seg { payload: stream(1, 10), ..seg(SYN | FIN, 0, 0).mss(1_460).cookie(&cookie) });
    assert_eq!(rig.brief(), vec![]);
    assert!(rig.stack.accept(listener, NAME).is_err());
}
