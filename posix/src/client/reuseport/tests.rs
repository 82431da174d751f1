//! Two workers played by the test: a program's view of a listener with a slot at each.
use crate::channel::{Channel, ControlAnswer, Place, Request, Sleepers, State, Taking, Workers};
use crate::client::Attached;
use crate::mock::two_workers;
use ringway_channel::{Attachment, Operation, SocketOption};
use ringway_shm::Instant;
use std::io::IoSliceMut;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;

const LOCAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 80);

/// Carries out the requests, each with `answer`; returns them.
fn serve(worker: &mut Attachment, answer: ringway_channel::ControlAnswer) -> Vec<Operation> {
    let mut seen = Vec::new();
    while let Some(request) = worker.next_request() {
        if let Operation::Listen { .. } = request.operation {
            worker.set_state(request.slot.index, ringway_channel::State::Listening);
        }
        worker.answer(&request, answer);
        seen.push(request.operation);
    }
    worker.flush_wakes();
    seen
}

/// Lets a connection with `bytes` wait at a worker's listener.
fn arrive(worker: &mut Attachment, listener: u32, bytes: &[u8], now: Instant) {
    let child = worker.allocate_slot().expect("a slot is free").index;
    worker.set_state(child, ringway_channel::State::Connected);
    assert_eq!(worker.push_rx(child, bytes), bytes.len());
    worker.signal(child);
    assert!(worker.push_accepted(listener, child, now));
    worker.signal(listener);
    worker.flush_wakes();
}

fn is_listen(operation: &Operation) -> bool {
    matches!(operation, Operation::Listen { .. })
}

#[test]
fn a_listener_is_one_socket_with_a_slot_at_each_worker() {
    let house = two_workers();
    let channel = Attached::new(house.clients(), 0);
    let listener = channel.open(Place::Every).expect("slots are free");
    let request = Request::Listen { local: LOCAL, backlog: 5, dual_stack: false, workers: Workers::All };
    let ticket = channel.request(listener, request).expect("no other request is in progress");
    let (mut first, mut second) = house.workers();
    let done = ringway_channel::ControlAnswer::Done;
    let asked = serve(&mut first, done);
    assert_eq!(asked[0], Operation::SetOption { option: SocketOption::EveryWorker, value: 1 });
    assert!(asked.last().is_some_and(is_listen));
    assert_eq!(channel.answer(ticket, &mut []), None, "the other worker has not answered");
    assert_eq!(serve(&mut second, done), asked);
    assert_eq!(channel.answer(ticket, &mut []), Some(ControlAnswer::Done));
    // It has the first slot of either region.
    let slot = listener.index >> 1;
    let edges = channel.view(listener).expect("current").receive_sequence;
    // The clock's microseconds wrap between the second and the third.
    let at = |micros: u64| Instant::from_micros((1 << 32) - 2 + micros);
    arrive(&mut second, slot, b"first", at(0));
    arrive(&mut first, slot, b"second", at(1));
    arrive(&mut second, slot, b"third", at(3));
    arrive(&mut first, slot, b"fourth", at(4));
    let view = channel.view(listener).expect("current");
    assert_eq!((view.state, view.readable, view.receive_sequence.wrapping_sub(edges)), (State::Listening, 4, 4));
    let texts: Vec<String> = std::iter::from_fn(|| channel.accept(listener))
        .map(|socket| {
            let mut bytes = [0; 16];
            let count = channel.receive(socket, &mut [IoSliceMut::new(&mut bytes)], Taking::Take).expect("bytes are there");
            String::from_utf8_lossy(&bytes[..count]).into_owned()
        })
        .collect();
    assert_eq!(texts, ["first", "second", "third", "fourth"], "in the order in which they came");
    assert_eq!(channel.view(listener).expect("current").readable, 0);
    assert_eq!(channel.held().len(), 5, "the listener once, and four connections");
    // The last holder closes it everywhere.
    serve(&mut first, done);
    serve(&mut second, done);
    assert!(channel.release(listener));
    channel.close(listener, None);
    for worker in [&mut first, &mut second] {
        assert_eq!(serve(worker, done), [Operation::Close { linger_s: None }]);
    }
}

/// An option is set once all workers of the listener have it; a connection has one worker, and no call waits for it.
#[test]
fn options_of_a_listener_are_awaited_at_each_worker() {
    let house = two_workers();
    let channel = Attached::new(house.clients(), 0);
    let [listener, connection] = [Place::Every, Place::Any].map(|place| channel.open(place).expect("slots are free"));
    assert!(channel.is_served_by_several(listener) && !channel.is_served_by_several(connection));
    let (mut first, mut second) = house.workers();
    channel.set_fast_open_keys(listener, [7; 16], None);
    let ticket = channel.request(listener, Request::Settle).expect("no other request is in progress");
    let done = ringway_channel::ControlAnswer::Done;
    let is_key = |operation: &Operation| matches!(operation, Operation::FastOpenKey { .. });
    for worker in [&mut first, &mut second] {
        assert_eq!(channel.answer(ticket, &mut []), None, "one worker has not done it");
        let asked = serve(worker, done);
        assert!(asked.len() >= 2 && is_key(&asked[asked.len() - 2]), "{asked:?}");
    }
    assert_eq!(channel.answer(ticket, &mut []), Some(ControlAnswer::Done));
}

#[test]
fn a_worker_that_cannot_listen_spoils_it_but_a_port_of_the_first_alone_does_not() {
    use ringway_channel::{ControlAnswer as Answer, Failure};
    for (refusal, expected) in [(Failure::NoResources, ControlAnswer::NoResources), (Failure::InUse, ControlAnswer::Done)] {
        let house = two_workers();
        let channel = Attached::new(house.clients(), 0);
        let listener = channel.open(Place::Every).expect("slots are free");
        let request = Request::Listen { local: LOCAL, backlog: 5, dual_stack: false, workers: Workers::All };
        let ticket = channel.request(listener, request).expect("no other request is in progress");
        let (mut first, mut second) = house.workers();
        serve(&mut first, Answer::Done);
        serve(&mut second, Answer::Failed(refusal));
        assert_eq!(channel.answer(ticket, &mut []), Some(expected));
    }
}

/// Two processes that offer one listener at the same moment: one of them has it at both workers, the other one at none.
#[test]
fn the_first_worker_decides_between_two_listeners() {
    let house = two_workers();
    let channel = Attached::new(house.clients(), 0);
    let listener = channel.open(Place::Every).expect("slots are free");
    let request = Request::Listen { local: LOCAL, backlog: 5, dual_stack: false, workers: Workers::First };
    let ticket = channel.request(listener, request).expect("no other request is in progress");
    let (mut first, mut second) = house.workers();
    let in_use = ringway_channel::ControlAnswer::Failed(ringway_channel::Failure::InUse);
    assert!(serve(&mut first, in_use).iter().any(is_listen));
    assert_eq!(channel.answer(ticket, &mut []), Some(ControlAnswer::InUse));
    assert!(!serve(&mut second, in_use).iter().any(is_listen), "it has not been asked");
}

#[test]
fn connections_go_round_and_what_has_a_port_of_its_own_stays_at_the_first() {
    let house = two_workers();
    let channel = Attached::new(house.clients(), 0);
    let at = |place| channel.open(place).expect("slots are free").index & 1;
    let any: Vec<u32> = (0..4).map(|_| at(Place::Any)).collect();
    assert_eq!(any, [0, 1, 0, 1]);
    assert_eq!([at(Place::First), at(Place::First)], [0, 0]);
}

#[test]
fn a_context_hears_of_the_sockets_of_all_workers() {
    let house = two_workers();
    let channel = Attached::new(house.clients(), 0);
    let (context, wake_fd) = channel.claim_context(Sleepers::One).expect("one is free");
    let rang = || ringway_channel::sys::silence_wake_fd(wake_fd.as_raw_fd());
    let listener = channel.open(Place::Every).expect("slots are free");
    let (one, other) = (channel.open(Place::Any).expect("free"), channel.open(Place::Any).expect("free"));
    let (mut first, mut second) = house.workers();
    let done = ringway_channel::ControlAnswer::Done;
    serve(&mut first, done);
    serve(&mut second, done);
    for socket in [listener, one, other] {
        channel.watch(socket, context);
    }
    channel.arm(context);
    assert!(!channel.has_event(context) && !rang());
    // The listener's slot has the same number at both.
    second.signal(listener.index >> 1);
    second.signal(other.index >> 1);
    second.flush_wakes();
    assert!(channel.has_event(context) && rang());
    first.signal(one.index >> 1);
    first.flush_wakes();
    let events: Vec<_> = std::iter::from_fn(|| channel.next_event(context)).collect();
    assert_eq!(events, [one, listener, other], "in the first worker's order, then the second's");
    channel.unwatch(listener, context);
    second.signal(listener.index >> 1);
    assert!(!channel.has_event(context));
    channel.release_context(context);
}
