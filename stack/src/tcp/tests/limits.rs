//! Limits that change while the stack runs.

use super::rig::*;
use crate::config::StackConfig;
use crate::event::SocketId;
use crate::family::Family;
use crate::stats::Counter;
use crate::wire::tcp::{ACK, FIN, SYN};

/// Returns true if a connection from `port` can be opened and accepted.
fn opens(rig: &mut Rig, listener: SocketId, port: u16) -> bool {
    (rig.ports.1, rig.iss) = (port, None);
    rig.receive(seg(SYN, 0, 0).mss(1_460));
    if rig.sent().is_empty() {
        return false;
    }
    rig.receive(seg(ACK, 1, 1));
    rig.sent();
    let accepted = rig.stack.accept(listener, u64::from(port));
    rig.id = accepted.unwrap_or(rig.id);
    accepted.is_ok()
}

#[test]
fn a_limit_that_shrinks_takes_nothing_away() {
    let with = |connections_max| StackConfig { connections_max, ..Rig::config() };
    let mut rig = Rig::of(Family::Ipv4, with(1));
    let listener = rig.listen(newreno(), 10);
    assert!(opens(&mut rig, listener, 1_000));
    let first = rig.id;
    let abort = |rig: &mut Rig, id, port| {
        (rig.ports.1, rig.iss) = (port, None);
        rig.stack.abort(rig.now, id);
        rig.sent();
    };
    assert!(!opens(&mut rig, listener, 1_001));
    rig.stack.set_limits(&with(2));
    assert!(opens(&mut rig, listener, 1_002));
    rig.stack.set_limits(&with(1));
    assert!(!opens(&mut rig, listener, 1_003));
    let second = rig.id;
    abort(&mut rig, first, 1_000);
    assert!(!opens(&mut rig, listener, 1_004), "one is left, and that is the limit");
    abort(&mut rig, second, 1_002);
    assert!(opens(&mut rig, listener, 1_005));
}

#[test]
fn the_oldest_records_of_time_wait_go_when_there_may_be_fewer() {
    let with = |time_wait_max| StackConfig { time_wait_max, ..Rig::config() };
    let mut rig = Rig::of(Family::Ipv4, with(3));
    let listener = rig.listen(newreno(), 10);
    let close = |rig: &mut Rig, port| {
        assert!(opens(rig, listener, port));
        rig.stack.close(rig.now, rig.id);
        rig.sent();
        rig.receive(seg(ACK | FIN, 1, 2));
        rig.sent();
    };
    (1_000..1_003).for_each(|port| close(&mut rig, port));
    assert_eq!((rig.stack.records().1, rig.count(Counter::TimeWaitOverflow)), (3, 0));
    rig.stack.set_limits(&with(1));
    close(&mut rig, 1_003);
    assert_eq!((rig.stack.records().1, rig.count(Counter::TimeWaitOverflow)), (1, 3));
    rig.stack.set_limits(&with(2));
    close(&mut rig, 1_004);
    assert_eq!((rig.stack.records().1, rig.count(Counter::TimeWaitOverflow)), (2, 3));
}

#[test]
fn listeners_and_half_open_connections_have_limits_that_change() {
    let with = |listeners_max, syn_queue_max| StackConfig { listeners_max, syn_queue_max, ..Rig::config() };
    let mut rig = Rig::of(Family::Ipv4, with(1, 2));
    rig.listen(newreno(), 10);
    let again = |rig: &mut Rig| {
        let local = crate::address::SocketAddress { ip: LOCAL.into(), port: 81 };
        rig.stack.listen(local, 10, newreno(), 0).is_ok()
    };
    assert!(!again(&mut rig));
    rig.stack.set_limits(&with(2, 2));
    assert!(again(&mut rig));
    let half_open = |rig: &mut Rig, ports: core::ops::Range<u16>| {
        for port in ports {
            (rig.ports.1, rig.iss) = (port, None);
            rig.receive(seg(SYN, 0, 0).mss(1_460));
            rig.sent();
        }
        rig.stack.records().0
    };
    assert_eq!(half_open(&mut rig, 1_000..1_003), 2);
    rig.stack.set_limits(&with(2, 4));
    assert_eq!(half_open(&mut rig, 1_003..1_008), 4);
    rig.stack.set_limits(&with(2, 1));
    assert_eq!(half_open(&mut rig, 1_008..1_020), 4, "those that there are stay, and the others are answered with cookies");
}
