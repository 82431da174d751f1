//! Multicast groups of programs, in virtual time.

use std::io::IoSlice;
use std::net::Ipv4Addr;

use ringway_channel::datagram::ENVELOPE;
use ringway_channel::{Envelope, Failure, Membership, Multicast, Operation, SlotRef};

use super::harness::{Net, socket};
use super::*;
use crate::core::Link;

const GROUP: [u8; 4] = [239, 1, 2, 3];
const PAYLOAD: usize = 100;

fn named(group: [u8; 4]) -> Multicast {
    Multicast { group: group.into(), interface: 0, address: Ipv4Addr::UNSPECIFIED }
}

fn datagrams(net: &mut Net, app: usize, port: u16) -> SlotRef {
    let slot = net.open(app);
    let operation = Operation::Datagram { local: socket([0; 4], port), dual_stack: false };
    assert_eq!(net.control(app, slot, operation), ControlAnswer::Done);
    slot
}

/// Two hosts, of which the first leaves groups to the stack: interface 7 of its kernel.
fn net() -> Net {
    let mut net = Net::new();
    let core = &mut net.workers[0].core;
    core.multicast_on_stack = true;
    core.set_link(0, Link { number: 7, is_alone: false, copies_multicast: true });
    net
}

/// The second host sends a datagram to the group.
fn send(net: &mut Net, from: SlotRef, group: [u8; 4]) {
    let envelope = Envelope { len: PAYLOAD, peer: Some(socket(group, 54)), ..Envelope::default() };
    let message = [&envelope.encode()[..], &[7; PAYLOAD]].concat();
    assert_eq!(net.apps[1].client.send(from, &[IoSlice::new(&message)]), Ok(message.len()), "there is room");
    net.run_for_ms(5);
}

/// Datagrams that a socket of the first host has received since.
fn arrived(net: &mut Net, app: usize, slot: SlotRef) -> usize {
    let mut bytes = Vec::new();
    net.receive_into(app, slot, &mut bytes);
    bytes.len() / (ENVELOPE + PAYLOAD)
}

fn memberships(net: &mut Net, slot: SlotRef) -> Vec<Membership> {
    let mut bytes = [0; 512];
    let len = net.control_bytes(0, slot, Operation::Memberships, &mut bytes);
    Membership::read_all(&bytes[..len]).collect()
}

#[test]
fn a_socket_hears_what_it_has_joined_until_it_leaves() {
    let mut net = net();
    let (member, other) = (datagrams(&mut net, 0, 54), datagrams(&mut net, 0, 55));
    let sender = datagrams(&mut net, 1, 53);
    assert_eq!(net.control(0, member, Operation::JoinMulticast(named(GROUP))), ControlAnswer::Done);
    assert_eq!(memberships(&mut net, member), [Membership { group: GROUP.into(), interface: 7 }]);
    let before = net.ports_in_use();
    send(&mut net, sender, GROUP);
    send(&mut net, sender, [239, 1, 2, 4]);
    assert_eq!((arrived(&mut net, 0, member), arrived(&mut net, 0, other)), (1, 0));
    let twice = net.control(0, member, Operation::JoinMulticast(Multicast { interface: 7, ..named(GROUP) }));
    assert_eq!(twice, ControlAnswer::Failed(Failure::InUse));
    assert_eq!(net.control(0, other, Operation::LeaveMulticast(named(GROUP))), ControlAnswer::NotOurs);
    assert_eq!(net.control(0, member, Operation::LeaveMulticast(named(GROUP))), ControlAnswer::Done);
    send(&mut net, sender, GROUP);
    assert_eq!(arrived(&mut net, 0, member), 0);
    assert_eq!(net.ports_in_use(), before - 1, "nothing is steered here for the group");
    net.close(0, member);
    net.run_for_ms(1);
    assert_eq!(net.ports_in_use(), before - 2);
}

#[test]
fn what_a_closed_socket_has_joined_is_left() {
    let mut net = net();
    let member = datagrams(&mut net, 0, 54);
    let before = net.ports_in_use();
    for number in 0..10 {
        assert_eq!(net.control(0, member, Operation::JoinMulticast(named([239, 0, 0, number]))), ControlAnswer::Done);
    }
    net.close(0, member);
    net.run_for_ms(1);
    assert_eq!(net.ports_in_use(), before - 1);
}

/// An address that is no group's, an interface that is not there, one whose device has no copies, and a policy that leaves groups to the kernel.
#[test]
fn what_cannot_be_heard_here_is_the_kernels() {
    let mut net = net();
    let member = datagrams(&mut net, 0, 54);
    let join = |net: &mut Net, which| net.control(0, member, Operation::JoinMulticast(which));
    assert_eq!(join(&mut net, named([10, 0, 0, 9])), ControlAnswer::NotOurs);
    assert_eq!(join(&mut net, Multicast { interface: 8, ..named(GROUP) }), ControlAnswer::NotOurs);
    assert_eq!(join(&mut net, Multicast { address: [10, 0, 0, 9].into(), ..named(GROUP) }), ControlAnswer::NotOurs);
    net.workers[0].core.multicast_on_stack = false;
    assert_eq!(join(&mut net, named(GROUP)), ControlAnswer::NotOurs);
    let alone = Link { number: 0, is_alone: true, copies_multicast: true };
    net.workers[0].core.set_link(0, alone);
    assert_eq!(join(&mut net, Multicast { address: super::SERVER.into(), ..named(GROUP) }), ControlAnswer::Done);
    assert_eq!(memberships(&mut net, member), [Membership { group: GROUP.into(), interface: 0 }]);
    let slot = net.open(0);
    assert_eq!(net.control(0, slot, Operation::JoinMulticast(named(GROUP))), ControlAnswer::Failed(Failure::Invalid));
}

#[test]
fn an_application_has_so_many_groups_and_others_have_theirs() {
    let mut net = net();
    let member = datagrams(&mut net, 0, 54);
    let join = |net: &mut Net, number| net.control(0, member, Operation::JoinMulticast(named([239, 0, 0, number])));
    for number in 0..64 {
        assert_eq!(join(&mut net, number), ControlAnswer::Done);
    }
    assert_eq!(join(&mut net, 64), ControlAnswer::Failed(Failure::NoResources));
    let further = datagrams(&mut net, 0, 55);
    let answer = net.control(0, further, Operation::JoinMulticast(named([239, 0, 0, 1])));
    assert_eq!(answer, ControlAnswer::Failed(Failure::NoResources));
    let other = net.attach(0, [9; 16]);
    let theirs = datagrams(&mut net, other, 56);
    assert_eq!(net.control(other, theirs, Operation::JoinMulticast(named([239, 0, 0, 1]))), ControlAnswer::Done);
}

/// The service says so, and the library takes off the filter that kept the kernel's copies away.
#[test]
fn a_socket_whose_group_is_not_heard_any_more_is_given_back() {
    let mut net = net();
    let member = datagrams(&mut net, 0, 54);
    assert_eq!(net.control(0, member, Operation::JoinMulticast(named(GROUP))), ControlAnswer::Done);
    net.workers[0].core.set_link(0, Link { number: 7, is_alone: false, copies_multicast: false });
    net.workers[0].follow_rules();
    assert_eq!(net.ports_in_use(), 0);
    assert_eq!(net.apps[0].client.slot(member.index).take_error(), Some(Failure::NotOurs));
    assert_eq!(net.control(0, member, Operation::JoinMulticast(named(GROUP))), ControlAnswer::Failed(Failure::Invalid));
}

/// What goes to a group is the kernel's to send, whose sockets hear it, but on an interface that the kernel does not have.
#[test]
fn the_way_to_a_group_is_the_stacks_where_it_is_alone() {
    let mut net = net();
    let slot = datagrams(&mut net, 0, 54);
    let route = Operation::Route { remote: socket(GROUP, 54), interface: 0 };
    assert_eq!(net.control(0, slot, route), ControlAnswer::NotOurs);
    net.workers[0].core.set_link(0, Link { number: 7, is_alone: true, copies_multicast: true });
    assert_eq!(net.control(0, slot, route), ControlAnswer::Done);
    let through = |interface| Operation::Route { remote: socket(GROUP, 54), interface };
    assert_eq!(
        (net.control(0, slot, through(7)), net.control(0, slot, through(8))),
        (ControlAnswer::Done, ControlAnswer::NotOurs)
    );
}
