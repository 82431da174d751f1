//! Flow groups that migrate to another stack: late flows are recorded before they are answered, and present ones are known.

use alloc::vec;
use alloc::vec::Vec;

use ringway_shm::{Flow, FlowGroup, GroupSet};

use super::rig::*;
use crate::config::TcpOptions;
use crate::tcp::State;
use crate::wire::tcp::{ACK, FIN, RST, SYN};

fn flows(rig: &Rig) -> Vec<Flow> {
    let mut flows = Vec::new();
    rig.stack.for_each_flow(&mut |flow, _| flows.push(*flow));
    flows
}

fn states(rig: &Rig) -> Vec<State> {
    let mut states = Vec::new();
    rig.stack.for_each_flow(&mut |_, state| states.push(state));
    states
}

fn all_but(group: FlowGroup) -> GroupSet {
    FlowGroup::all().filter(|&other| other != group).collect()
}

/// A SYN that was steered here before its group left: the flow is recorded before the SYN-ACK is written, so that it can be
/// kept here first. Its last ACK and its data are not recorded.
#[test]
fn a_late_connection_is_told_before_the_syn_ack() {
    let mut rig = Rig::with(Rig::config());
    rig.listen(TcpOptions::default(), 16);
    rig.stack.watch_groups(GroupSet::ALL);
    rig.receive(seg(SYN, 0, 0).mss(1_460));
    let told = core::mem::take(rig.stack.migrating_flows());
    assert_eq!(told, flows(&rig));
    assert_eq!(told.len(), 1);
    assert_eq!(rig.brief(), vec![(SYN | ACK, 0, 1, 0)]);
    rig.receive(seg(ACK, 1, 1));
    rig.receive(seg(ACK, 1, 1).data(100));
    assert_eq!(*rig.stack.migrating_flows(), []);
}

/// No flow is recorded when no group migrates, or another one.
#[test]
fn a_connection_to_a_group_that_stays_is_not_told() {
    let mut rig = Rig::with(Rig::config());
    rig.listen(TcpOptions::default(), 16);
    rig.receive(seg(SYN, 0, 0).mss(1_460));
    assert_eq!(*rig.stack.migrating_flows(), []);
    let group = flows(&rig)[0].group();
    rig.receive(seg(RST, 1, 0));
    rig.stack.watch_groups(all_but(group));
    rig.receive(seg(SYN, 0, 0).mss(1_460));
    assert_eq!(*rig.stack.migrating_flows(), []);
}

/// A connection is known while half open, open and in TIME-WAIT, and no longer.
#[test]
fn a_connection_is_known_until_time_wait_ends() {
    let mut rig = Rig::with(Rig::config());
    rig.accept_with(TcpOptions::default(), seg(SYN, 0, 0).mss(1_460));
    let flow = flows(&rig)[0];
    assert!(rig.stack.knows(&flow));
    assert_eq!(states(&rig), [State::Established]);
    let other = Flow { local: flow.remote, remote: flow.local };
    assert!(!rig.stack.knows(&other));
    rig.stack.close(rig.now, rig.id);
    assert_eq!(rig.next_sent().1[0].brief(), (ACK | FIN, 1, 1, 0));
    rig.receive(seg(ACK | FIN, 1, 2));
    assert_eq!((flows(&rig), states(&rig)), (vec![flow], vec![State::TimeWait]));
    assert!(rig.stack.knows(&flow));
    rig.wait_ms(120_000);
    assert_eq!(flows(&rig), []);
    assert!(!rig.stack.knows(&flow));
}
