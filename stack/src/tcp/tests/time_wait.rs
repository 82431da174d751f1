//! TIME-WAIT: RFC 9293 §3.10.7.4, PAWS (RFC 7323), RFC 1337, and reuse by both ends (RFC 6191).

use alloc::vec;

use super::rig::*;
use crate::config::{StackConfig, TcpOptions};
use crate::stats::Counter;
use crate::tcp::State;
use crate::wire::tcp::{ACK, FIN, RST, SYN};
use crate::{ConnectError, Duration, SocketAddress};

/// A connection with timestamps that both ends have closed, ours first. The peer's last TSval is 1,000.
fn at_rest(config: StackConfig) -> Rig {
    let mut rig = Rig::with(config);
    rig.accept_with(TcpOptions::default(), seg(SYN, 0, 0).mss(1_460).time(900, 0));
    rig.stack.close(rig.now, rig.id);
    rig.sent();
    rig.receive(seg(ACK | FIN, 1, 2).time(1_000, 0));
    assert_eq!(rig.brief(), vec![(ACK, 2, 2, 0)]);
    rig.wait_ms(1_500);
    rig
}

fn count_at_rest(rig: &Rig) -> usize {
    let mut count = 0;
    rig.stack.for_each_socket(&mut |socket| count += usize::from(socket.state == State::TimeWait));
    count
}

/// RFC 9293 §3.10.7.4: a RST that fits ends the wait; one that does not, or is old, does nothing.
#[test]
fn resets() {
    let mut rig = at_rest(StackConfig::default());
    rig.receive(seg(RST, 3, 0).time(2_000, 0));
    rig.receive(seg(RST, 2, 0).time(500, 0));
    assert_eq!((count_at_rest(&rig), rig.brief()), (1, vec![]));
    rig.receive(seg(RST, 2, 0).time(2_000, 0));
    assert_eq!((count_at_rest(&rig), rig.brief()), (0, vec![]));
}

/// RFC 6191: a newer timestamp lets a SYN in whatever its sequence number is; an older one keeps it out.
#[test]
fn reuse_by_the_peer() {
    let mut rig = at_rest(StackConfig::default());
    rig.receive(seg(SYN, 50_000, 0).time(999, 0));
    assert_eq!(rig.brief(), vec![(ACK, 2, 2, 0)]);
    assert_eq!(rig.count(Counter::PawsEstab), 1);
    rig.receive(seg(SYN, 0u32.wrapping_sub(50_000), 0).time(1_001, 0));
    assert_eq!(rig.sent()[0].flags, SYN | ACK);
    assert_eq!((rig.count(Counter::TimeWaitRecycled), count_at_rest(&rig)), (1, 0));
}

/// RFC 6191, Linux tcp_tw_reuse: our own open takes the place a second later, beyond the old sequence numbers.
#[test]
fn reuse_by_us() {
    let connect = |rig: &mut Rig| {
        let end = |ip: core::net::Ipv4Addr, port| SocketAddress { ip: ip.into(), port };
        rig.stack.connect(rig.now, Some(end(LOCAL, 80)), end(REMOTE, 1_000), TcpOptions::default(), 5)
    };
    for reuse in [false, true] {
        let mut config = StackConfig::default();
        config.tcp.time_wait_reuse = reuse;
        let mut rig = Rig::with(config);
        rig.connect(TcpOptions::default());
        rig.sent();
        rig.receive(seg(SYN | ACK, 0, 1).mss(1_460).time(900, 0));
        rig.stack.close(rig.now, rig.id);
        rig.sent();
        rig.receive(seg(ACK | FIN, 1, 2).time(1_000, 0));
        rig.sent();
        assert_eq!(connect(&mut rig), Err(ConnectError::InUse), "not within a second");
        rig.wait_ms(1_100);
        let before = rig.iss.expect("it has sent a SYN");
        assert_eq!(connect(&mut rig).is_ok(), reuse);
        if reuse {
            rig.sent();
            assert!(rig.iss.expect("another SYN").after(before + 65_536));
            assert_eq!(count_at_rest(&rig), 0);
        }
    }
}

/// One peer that repeats its FIN for ever is answered twice a second, and does not push out other records.
#[test]
fn repeated_fins() {
    let mut rig = at_rest(StackConfig { time_wait_max: 4, ..StackConfig::default() });
    let mut answers = 0;
    for _ in 0..10_000 {
        rig.receive(seg(ACK | FIN, 1, 2).time(1_000, 0));
        answers += rig.sent().len();
        rig.now += Duration::from_micros(100);
    }
    assert!((2..=3).contains(&answers), "{answers}");
    assert_eq!((count_at_rest(&rig), rig.count(Counter::TimeWaitOverflow)), (1, 0));
}
