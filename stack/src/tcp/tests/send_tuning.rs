//! The send buffer follows the congestion window.

use super::rig::*;
use crate::config::TcpOptions;
use crate::wire::tcp::{ACK, SYN};

const INITIAL: u32 = 256 << 10;

/// A connection to a peer with an unlimited window.
fn wide(options: TcpOptions) -> Rig {
    let mut rig = Rig::with(Rig::config());
    rig.accept_with(options, seg(SYN, 0, 0).mss(MSS as u16).scale(10));
    rig
}

/// Fills the buffer and acknowledges everything sent, `count` times. Returns the bytes that could be queued at a time.
fn rounds(rig: &mut Rig, count: u32) -> u32 {
    let (mut at, mut acknowledged) = (1, 1);
    for _ in 0..count {
        at += rig.send(at, 16 << 20) as u32;
        for segment in rig.sent() {
            acknowledged = acknowledged.max(segment.seq + segment.payload.len() as u32);
        }
        rig.wait_ms(10);
        rig.receive(seg(ACK, 1, acknowledged));
    }
    at += rig.send(at, 16 << 20) as u32;
    at - acknowledged
}

/// A connection that fills the buffer while the window grows gets twice the window, and its writer is signalled.
#[test]
fn grows_with_the_window() {
    let mut rig = wide(newreno());
    assert_eq!(rig.send(1, 16 << 20) as u32, INITIAL);
    let mut rig = wide(newreno());
    let queued = rounds(&mut rig, 6);
    let cwnd = rig.info().cwnd_bytes;
    assert!(cwnd > INITIAL / 2, "the window has outgrown the first buffer: {cwnd}");
    assert_eq!(queued, 2 * cwnd);
    assert!(!rig.events().is_empty());
}

/// The configured maximum bounds the growth.
#[test]
fn grows_up_to_the_maximum() {
    let mut config = Rig::config();
    config.tcp.send_buffer_bytes = 200_000;
    let mut rig = Rig::with(config);
    rig.accept_with(newreno(), seg(SYN, 0, 0).mss(MSS as u16).scale(10));
    assert_eq!(rounds(&mut rig, 10), 200_000);
}

/// SO_SNDBUF is exact, whatever the window; other options do not change a grown buffer.
#[test]
fn what_was_asked_for_stays() {
    let mut rig = wide(TcpOptions { send_buffer_bytes: 50_000, ..newreno() });
    assert_eq!(rounds(&mut rig, 10), 50_000);
    let mut rig = wide(newreno());
    let grown = rounds(&mut rig, 6);
    let now = rig.now;
    rig.stack.set_options(now, rig.id, TcpOptions { no_delay: true, ..newreno() });
    assert_eq!(rig.stack.send_space(rig.id), 0);
    assert!(rig.stack.send_queued(rig.id) as u32 == grown);
}

/// A buffer cut while memory is short promises that an ACK signals space: only a buffer for which an ACK does so is cut.
#[test]
fn what_is_cut_is_told_of_when_it_is_acknowledged() {
    for queued in 1..=8u32 {
        let mut rig = wide(newreno());
        assert_eq!(rig.send(1, queued) as u32, queued);
        rig.sent();
        let is_told = rig.stack.cut_send_buffer(rig.id);
        rig.events();
        rig.receive(seg(ACK, 1, 1 + queued));
        let ready = rig.events().iter().any(|event| matches!(event, crate::Event::Ready { .. }));
        assert!(ready || !is_told, "{queued} bytes");
        assert_eq!(is_told, queued >= 3, "{queued} bytes");
    }
}
