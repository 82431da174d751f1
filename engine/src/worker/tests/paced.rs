//! Datagrams at a rate, in virtual time.

use std::io::IoSlice;

use ringway_channel::datagram::ENVELOPE;
use ringway_channel::{Envelope, Operation, SlotRef};
use ringway_stack::SharedRate;

use super::harness::{Net, SLOW, socket};
use super::*;
use crate::verdict::{Allowance, Ruling, Terms};

const PAYLOAD: usize = 1_000;
/// A megabyte a second: a message each millisecond.
const RATE: u64 = 1_000_000;

/// A socket of UDP at this port.
fn datagrams(net: &mut Net, app: usize, port: u16) -> SlotRef {
    let slot = net.open(app);
    let operation = Operation::Datagram { local: socket([0; 4], port), dual_stack: false };
    assert_eq!(net.control(app, slot, operation), ControlAnswer::Done);
    slot
}

/// Sends so many messages to a port of the other application.
fn send(net: &mut Net, slot: SlotRef, count: usize) {
    let envelope = Envelope { len: PAYLOAD, peer: Some(socket(super::SERVER, 54)), ..Envelope::default() };
    let message = [&envelope.encode()[..], &[7; PAYLOAD]].concat();
    for _ in 0..count {
        assert_eq!(net.apps[1].client.send(slot, &[IoSlice::new(&message)]), Ok(message.len()), "there is room");
    }
}

/// Messages that have arrived since.
fn arrived(net: &mut Net, slot: SlotRef) -> usize {
    let mut bytes = Vec::new();
    net.receive_into(0, slot, &mut bytes);
    bytes.len() / (ENVELOPE + PAYLOAD)
}

fn allowed(net: &mut Net, terms: Terms) {
    net.rule(1, Ruling { allowance: Allowance { terms, ..Allowance::default() }, ..Ruling::default() });
}

#[test]
fn datagrams_leave_at_the_rate_of_their_rule() {
    let mut net = Net::new();
    let (server, client) = (datagrams(&mut net, 0, 54), datagrams(&mut net, 1, 53));
    send(&mut net, client, 20);
    net.run_for_ms(10);
    assert_eq!(arrived(&mut net, server), 20, "no rule limits them");
    allowed(&mut net, Terms { rate_max: RATE, ..Terms::default() });
    send(&mut net, client, 40);
    net.run_for_ms(20);
    let first = arrived(&mut net, server);
    assert!((18..=24).contains(&first), "{first} in 20 ms");
    net.run_for_ms(30);
    assert_eq!(first + arrived(&mut net, server), 40, "none is lost");
    // The rule goes: what waits leaves at once.
    send(&mut net, client, 40);
    net.run_for_ms(5);
    allowed(&mut net, Terms::default());
    net.run_for_ms(2);
    assert_eq!(arrived(&mut net, server), 40);
}

/// The same rate for both together.
#[test]
fn sockets_share_the_rate_of_their_rule() {
    static SHARED: SharedRate = SharedRate::new(RATE);
    let mut net = Net::new();
    let server = datagrams(&mut net, 0, 54);
    let clients = [datagrams(&mut net, 1, 53), datagrams(&mut net, 1, 55)];
    allowed(&mut net, Terms { shared_rates: [Some(&SHARED), None], ..Terms::default() });
    for client in clients {
        send(&mut net, client, 30);
    }
    net.run_for_ms(30);
    let both = arrived(&mut net, server);
    assert!((28..=36).contains(&both), "{both} in 30 ms");
    // One that is closed still sends what was written.
    net.close(1, clients[0]);
    net.run_for_ms(60);
    assert_eq!(both + arrived(&mut net, server), 60);
}

/// A rule about the port, which is there before the socket.
#[test]
fn a_socket_has_the_rate_of_its_port() {
    let mut net = Net::new();
    let (server, client) = (datagrams(&mut net, 0, 54), datagrams(&mut net, 1, SLOW));
    send(&mut net, client, 40);
    net.run_for_ms(20);
    let first = arrived(&mut net, server);
    assert!((18..=24).contains(&first), "{first} in 20 ms");
}
