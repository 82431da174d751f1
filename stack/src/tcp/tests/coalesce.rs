//! Coalescing of segments in one burst, and its limits.

use alloc::vec;

use super::rig::*;
use crate::config::TcpOptions;
use crate::stats::Counter;
use crate::wire::tcp::{ACK, FIN, PSH, SYN};

fn open() -> Rig {
    Rig::accepted(Rig::config(), TcpOptions::default())
}

fn segment(n: u32) -> Seg {
    seg(ACK, 1 + n * MSS, 1).data(MSS)
}

/// Consecutive segments are one segment: processed once, read whole, acknowledged once.
#[test]
fn a_burst_is_one_segment() {
    let mut rig = open();
    rig.receive_all([segment(0), segment(1), segment(2), seg(ACK | PSH, 1 + 3 * MSS, 1).data(10)]);
    assert_eq!((rig.count(Counter::TcpRcvCoalesce), rig.count(Counter::TcpInSegs)), (3, 6));
    assert_eq!(rig.brief(), vec![(ACK, 1, 11 + 3 * MSS, 0)]);
    assert_eq!(rig.read(1), Ok(3 * MSS as usize + 10));
    rig.stack.abort(rig.now, rig.id);
    rig.sent();
    rig.assert_no_leak();
}

/// A gap, another ACK, another window, a FIN or no data: each stays a segment of its own, and all is delivered.
#[test]
fn what_differs_stays_apart() {
    for next in [
        segment(1).window(1_000),
        Seg { flags: ACK | FIN, ..segment(1) },
        Seg { ack: 0u32.wrapping_sub(5), ..segment(1) },
        segment(2),
        segment(0),
        seg(ACK, 1 + MSS, 1),
    ] {
        let mut rig = open();
        rig.receive_all([segment(0), next.clone()]);
        assert_eq!(rig.count(Counter::TcpRcvCoalesce), 0, "{:?}", next.brief());
        assert!(rig.read(1).is_ok());
    }
}

/// Segments with different timestamps were sent at different times: they are not coalesced.
#[test]
fn timestamps_stay_apart() {
    let mut rig = Rig::with(crate::StackConfig { seed: 7, ..crate::StackConfig::default() });
    rig.accept_with(TcpOptions::default(), seg(SYN, 0, 0).mss(MSS as u16).time(100, 0));
    rig.receive_all([segment(0).time(101, 1), segment(1).time(101, 1), segment(2).time(102, 1)]);
    assert_eq!(rig.count(Counter::TcpRcvCoalesce), 1);
    assert_eq!(rig.read(1), Ok(3 * MSS as usize));
}

/// A coalesced segment that was received in part already is trimmed like any other.
#[test]
fn joined_overlap() {
    let mut rig = open();
    rig.receive(seg(ACK, 1, 1).data(MSS + 100));
    rig.receive_all([segment(0), segment(1), segment(2)]);
    assert_eq!(rig.count(Counter::TcpRcvCoalesce), 2);
    assert_eq!(rig.read(1), Ok(3 * MSS as usize));
}
