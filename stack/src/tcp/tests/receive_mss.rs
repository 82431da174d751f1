//! Arriving segments, and the estimate of their size.

use super::rig::*;
use crate::config::TcpOptions;
use crate::family::{Family, in_both_families};
use crate::wire::tcp::{ACK, PSH};
use alloc::vec::Vec;

in_both_families! {
    full_segments
    what_our_syn_has_offered
    what_the_application_allows
    smaller_segments
}

fn rig(family: Family) -> Rig {
    Rig::accepted_over(family, Rig::config(), Default::default())
}

/// Delivers segments of `lens` bytes with `flags`, one after the other; returns TCP_INFO's size after each.
fn sizes(rig: &mut Rig, flags: u8, lens: &[u32]) -> Vec<u32> {
    let mut next = 1 + rig.info().bytes_received as u32;
    let said = lens.iter().map(|&len| {
        rig.receive(seg(flags, next, 1).data(len));
        next += len;
        rig.info().receive_mss
    });
    said.collect()
}

/// The largest segment is the size, and the ends of writes do not change it.
fn full_segments(family: Family) {
    let mut rig = rig(family);
    assert_eq!(rig.info().receive_mss, 536, "before anything has arrived");
    assert_eq!(sizes(&mut rig, ACK | PSH, &[1_000, 1_200, 300, 1_200, 100]), [1_000, 1_200, 1_200, 1_200, 1_200]);
    // A larger one that is no end counts at once, too.
    assert_eq!(sizes(&mut rig, ACK, &[1_300]), [1_300]);
}

/// The size never exceeds the offer, whatever arrives in one piece.
fn what_our_syn_has_offered(family: Family) {
    let mut rig = rig(family);
    let offered = rig.info().advertised_mss;
    assert_eq!(offered, 1_460, "the links of both families carry that");
    rig.receive_burst(&[seg(ACK, 1, 1).data(offered), seg(ACK, 1 + offered, 1).data(offered)]);
    assert_eq!(rig.info().receive_mss, offered, "two coalesced segments count as two");
}

/// The listener's TCP_MAXSEG is what its connections have offered, whatever is set later.
fn what_the_application_allows(family: Family) {
    let options = TcpOptions { maximum_segment_size: 700, ..TcpOptions::default() };
    let mut rig = Rig::accepted_over(family, Rig::config(), options);
    assert_eq!(rig.info().advertised_mss, 700);
    rig.stack.set_options(rig.now, rig.id, TcpOptions::default());
    assert_eq!(rig.info().advertised_mss, 700);
    assert_eq!(sizes(&mut rig, ACK, &[1_000]), [700], "more than was offered");
}

/// On a path that has become smaller the size follows two equal segments that are not small or are no end.
fn smaller_segments(family: Family) {
    let mut rig = rig(family);
    assert_eq!(sizes(&mut rig, ACK | PSH, &[1_400, 900, 900]), [1_400, 1_400, 900]);
    assert_eq!(sizes(&mut rig, ACK | PSH, &[700, 650, 700]), [900, 900, 900], "not two in a row");
    assert_eq!(sizes(&mut rig, ACK | PSH, &[300, 300]), [900, 900], "messages");
    assert_eq!(sizes(&mut rig, ACK, &[300, 300]), [900, 300], "segments");
    assert_eq!(sizes(&mut rig, ACK, &[50, 50]), [300, 300], "too small to be full segments");
}
