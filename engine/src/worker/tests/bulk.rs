//! Connections that go to the kernel because they carry bulk data.

use ringway_channel::{Flags, SlotRef};
use ringway_stack::SharedRate;

use super::harness::{Net, pattern};
use crate::attach::{BulkPolicy, HandoverCommand};
use crate::handover::Wanted;
use crate::metrics::Work;
use crate::verdict::{Allowance, Ruling, Terms};

/// What is carried between two looks: more than 1 Gbit/s.
const MUCH: usize = 14_000_000;
/// Time between two looks.
const LOOK_MS: u64 = 100;

/// A network whose first worker asks for connections that have carried so much, and its listener.
fn net(after: Option<u64>) -> (Net, SlotRef) {
    let mut net = Net::new();
    net.workers[0].core.bulk = after.map(|after| BulkPolicy { after, received: true });
    let listener = net.listen(0, 80);
    (net, listener)
}

/// A connection: client's end and server's end.
fn connect(net: &mut Net, listener: SlotRef) -> (SlotRef, SlotRef) {
    let client = net.connect(1, 80);
    (client, net.accept(0, listener))
}

fn look(net: &mut Net) {
    net.step();
    let worker = &mut net.workers[0];
    worker.attachments.write_records(&mut worker.core);
}

/// Carries bytes from the client to the server and back, then looks after the usual time.
fn carry(net: &mut Net, (client, server): (SlotRef, SlotRef), up: usize, down: usize) {
    let start = net.now;
    net.exchange((1, client), (0, server), &pattern(up, 1), &pattern(down, 2));
    let spent = net.now.since(start).as_millis();
    assert!(spent < LOOK_MS, "the wire of the test carries it in {spent} ms");
    net.run_for_ms(LOOK_MS - spent);
    look(net);
}

fn is_wanted(net: &Net, slot: SlotRef) -> bool {
    net.apps[0].client.slot(slot.index).flags().has(Flags::WANTED)
}

/// The connection goes to the kernel.
fn leave(net: &mut Net, slot: SlotRef) {
    let answer = net.hand_over(0, |region, reply| HandoverCommand::Depart(region, slot, None, reply));
    let departure = answer.try_recv().expect("it is answered at once").expect("it is open");
    let image = departure.expect("it is a connection").image;
    net.hand_over(0, |region, reply| HandoverCommand::Arrived(region, slot, image, reply)).try_recv().expect("answered");
}

#[test]
fn a_stream_in_either_direction_is_asked_for_once() {
    for (up, down) in [(MUCH, 0), (0, MUCH)] {
        let (mut net, listener) = net(Some(8 << 20));
        let ends = connect(&mut net, listener);
        look(&mut net);
        carry(&mut net, ends, up, down);
        assert!(is_wanted(&net, ends.1), "{up} bytes up, {down} down");
    }
}

/// The kernel does not know the rate that it shares with others.
#[test]
fn a_stream_that_shares_a_rate_stays() {
    static RATE: SharedRate = SharedRate::new(1 << 40);
    let (mut net, listener) = net(Some(8 << 20));
    let ends = connect(&mut net, listener);
    let terms = Terms { shared_rates: [Some(&RATE), None], ..Terms::default() };
    net.rule(0, Ruling { allowance: Allowance { terms, ..Allowance::default() }, ..Ruling::default() });
    look(&mut net);
    carry(&mut net, ends, MUCH, 0);
    assert!(!is_wanted(&net, ends.1));
}

#[test]
fn what_is_received_counts_only_where_the_policy_says_so() {
    let (mut net, listener) = net(None);
    net.workers[0].core.bulk = Some(BulkPolicy { after: 8 << 20, received: false });
    let ends = connect(&mut net, listener);
    look(&mut net);
    carry(&mut net, ends, MUCH, 0);
    assert!(!is_wanted(&net, ends.1));
    carry(&mut net, ends, 0, MUCH);
    assert!(is_wanted(&net, ends.1));
}

#[test]
fn what_is_slow_or_has_carried_little_stays() {
    // Not so much yet.
    let (mut net, listener) = net(Some(64 << 20));
    let ends = connect(&mut net, listener);
    look(&mut net);
    carry(&mut net, ends, MUCH, MUCH);
    assert!(!is_wanted(&net, ends.1));
    // As much as that in all, and never fast.
    net.workers[0].core.bulk = Some(BulkPolicy { after: 4 << 20, received: true });
    look(&mut net);
    for _ in 0..4 {
        carry(&mut net, ends, 1_000_000, 0);
        assert!(!is_wanted(&net, ends.1));
    }
    // The policy is off.
    net.workers[0].core.bulk = None;
    carry(&mut net, ends, MUCH, MUCH);
    assert!(!is_wanted(&net, ends.1));
}

#[test]
fn the_reason_is_told_and_counted_and_only_for_bulk_data() {
    let (mut net, listener) = net(Some(8 << 20));
    for count in 1..=2 {
        let ends = connect(&mut net, listener);
        look(&mut net);
        carry(&mut net, ends, MUCH, 0);
        leave(&mut net, ends.1);
        assert_eq!(net.refused(0), [(80, 0, "bulk", count)]);
    }
    let (_, other) = connect(&mut net, listener);
    net.hand_over(0, |_, reply| HandoverCommand::Want(Wanted::All, reply));
    leave(&mut net, other);
    assert_eq!(net.refused(0), [(80, 0, "bulk", 2)]);
    assert_eq!(net.workers[0].core.metrics.value(Work::BulkHandedOver), 2);
}
