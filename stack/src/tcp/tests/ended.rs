//! Ends of connections, for a tool that listens.

use super::rig::*;
use crate::tcp::State;
use crate::wire::tcp::{ACK, FIN, RST};

#[test]
fn an_end_is_noted_once_with_what_was_counted() {
    let mut rig = Rig::accepted(Rig::config(), newreno());
    rig.stack.want_ends(true);
    rig.send(1, 100);
    rig.sent();
    rig.receive(seg(ACK, 1, 101));
    assert!(rig.stack.take_ends().is_empty(), "it goes on");
    rig.receive(seg(ACK | FIN, 1, 101));
    rig.stack.close(rig.now, rig.id);
    rig.sent();
    assert!(rig.stack.take_ends().is_empty(), "our FIN is not acknowledged");
    rig.receive(seg(ACK, 2, 102));
    let ends = rig.stack.take_ends();
    assert_eq!(ends.len(), 1);
    assert_eq!((ends[0].summary.id, ends[0].summary.state, ends[0].info.bytes_acked), (rig.id, State::Closed, 100));
    assert!(rig.stack.take_ends().is_empty());
}

/// Also where the application still holds it, and where a TIME-WAIT record follows.
#[test]
fn an_end_by_the_peer_and_one_in_time_wait_are_noted() {
    let mut rig = Rig::accepted(Rig::config(), newreno());
    rig.stack.want_ends(true);
    rig.receive(seg(RST, 1, 0));
    let states = |rig: &mut Rig| rig.stack.take_ends().iter().map(|end| end.summary.state).collect::<alloc::vec::Vec<_>>();
    assert_eq!(states(&mut rig), [State::Closed]);
    rig.stack.close(rig.now, rig.id);
    assert_eq!(states(&mut rig), [], "it has ended before");

    let mut rig = Rig::accepted(Rig::config(), newreno());
    rig.stack.want_ends(true);
    rig.stack.close(rig.now, rig.id);
    rig.sent();
    rig.receive(seg(ACK | FIN, 1, 2));
    assert_eq!(states(&mut rig), [State::TimeWait]);
}

#[test]
fn without_a_tool_nothing_is_kept() {
    let mut rig = Rig::accepted(Rig::config(), newreno());
    rig.receive(seg(RST, 1, 0));
    assert!(!rig.stack.wants_ends() && rig.stack.take_ends().is_empty());
    let mut rig = Rig::accepted(Rig::config(), newreno());
    rig.stack.want_ends(true);
    rig.receive(seg(RST, 1, 0));
    rig.stack.want_ends(false);
    assert!(rig.stack.take_ends().is_empty(), "the tool has gone");
}
