//! Connections that leave the stack for a kernel socket, and those that come back because there is none for them.

use std::io::IoSlice;

use ringway_channel::{CONFINED, ControlAnswer, Flags, Operation, ProcessDescriptor, Request, SlotRef};
use ringway_shm::Duration;
use ringway_stack::SharedRate;

use super::harness::{Net, RULED, pattern};
use crate::attach::HandoverCommand;
use crate::guard::Guard;
use crate::handover::{Departure, Late, Left, Stays, Unmoved, Wanted};
use crate::metrics::Work;
use crate::verdict::{Allowance, Ruling, Terms};

/// A connection: listener and server's end of the first application, client's end of the second.
fn connected() -> (Net, SlotRef, SlotRef, SlotRef) {
    let mut net = Net::new();
    let listener = net.listen(0, 80);
    let client = net.connect(1, 80);
    let server = net.accept(0, listener);
    net.run_for_ms(5);
    (net, listener, server, client)
}

fn depart(net: &mut Net, slot: SlotRef) -> Result<Departure, Stays> {
    let answer = net.hand_over(0, |region, reply| HandoverCommand::Depart(region, slot, None, reply)).try_recv();
    answer.expect("it is answered at once").map(|departure| departure.expect("it is a connection"))
}

fn arrive(net: &mut Net, slot: SlotRef, departure: &Departure) -> Late {
    let image = departure.image.clone();
    let late = net.hand_over(0, |region, reply| HandoverCommand::Arrived(region, slot, image, reply));
    late.try_recv().expect("it is answered at once")
}

fn bring_back(net: &mut Net, slot: SlotRef, departure: Departure) {
    net.hand_over::<()>(0, |region, _| HandoverCommand::Returned(region, slot, departure.image));
}

/// All sockets are to go home, within five seconds after `drain_s`.
fn leave(drain_s: u64, reply: crate::command::Reply<Left>) -> HandoverCommand {
    HandoverCommand::Leave { drain: Duration::from_secs(drain_s), limit: Duration::from_secs(5), reply }
}

/// All workers have sent their sockets home.
fn leave_ports(net: &mut Net) {
    net.hand_over(0, |_, reply| HandoverCommand::LeavePorts(reply)).try_recv().expect("it is answered at once");
}

/// What the kernel's queue would hold, and what it would have to send.
fn queues(departure: &Departure) -> (Vec<u8>, Vec<u8>) {
    let unread = [departure.delivered.clone(), departure.image.receiving.unread.clone()].concat();
    let extents = departure.image.sending.extents.iter().map(|extent| extent.data.clone());
    let unsent = extents.chain([departure.unsent.clone()]).collect::<Vec<_>>().concat();
    (unread, unsent)
}

#[test]
fn all_bytes_leave_with_the_connection() {
    let (mut net, _, server, client) = connected();
    // More than slot and windows take in both directions, so that bytes are everywhere.
    let (up, down) = (pattern(900_000, 1), pattern(900_000, 2));
    let (mut sent_up, mut sent_down, mut read_up, mut read_down) = (0, 0, Vec::new(), Vec::new());
    for _ in 0..60 {
        net.write_some((1, client), &up, &mut sent_up);
        net.write_some((0, server), &down, &mut sent_down);
        net.step();
    }
    net.receive_into(1, client, &mut read_down);
    let mut first = vec![0; 4321];
    let count = net.apps[0].client.receive(server, &mut [std::io::IoSliceMut::new(&mut first)]).expect("bytes wait");
    read_up.extend_from_slice(&first[..count]);
    // Written and not seen by the worker yet.
    net.write_some((0, server), &down, &mut sent_down);

    let departure = depart(&mut net, server).expect("it is open");
    let (unread, unsent) = queues(&departure);
    assert!(!departure.delivered.is_empty() && !departure.unsent.is_empty(), "both are tested");
    read_up.extend_from_slice(&unread);
    assert!(read_up.len() < up.len() && up.starts_with(&read_up), "{} bytes", read_up.len());
    assert!(down[..sent_down].ends_with(&unsent), "{} bytes", unsent.len());

    assert_eq!(arrive(&mut net, server, &departure), Late::default());
    let slot = net.apps[0].client.slot(server.index);
    assert!(slot.flags().has(Flags::MOVED));
    assert_eq!((slot.unread(), slot.unsent()), (0, 0));
    assert_eq!(net.workers[0].core.metrics.value(Work::SocketsHandedOver), 1);
    // The peer is of no more interest: its memory and that of the slot come back.
    net.close(1, client);
    net.close(0, server);
    net.run_for_ms(300_000);
    assert!(net.frames_are_all_free(), "a frame was lost");
}

#[test]
fn a_connection_that_comes_back_goes_on_with_all_its_bytes() {
    let (mut net, _, server, client) = connected();
    let (up, down) = (pattern(700_000, 3), pattern(700_000, 4));
    let (mut sent_up, mut sent_down, mut read_up, mut read_down) = (0, 0, Vec::new(), Vec::new());
    for round in 0..6_000 {
        net.write_some((1, client), &up, &mut sent_up);
        net.write_some((0, server), &down, &mut sent_down);
        net.receive_into(1, client, &mut read_down);
        net.receive_into(0, server, &mut read_up);
        if round % 5 == 2 && read_up.len() < up.len() {
            let departure = depart(&mut net, server).expect("it is open");
            // The peer sends into the silence.
            net.step();
            bring_back(&mut net, server, departure);
        }
        net.step();
    }
    net.run_until(|net| {
        net.write_some((1, client), &up, &mut sent_up);
        net.write_some((0, server), &down, &mut sent_down);
        net.receive_into(1, client, &mut read_down);
        net.receive_into(0, server, &mut read_up);
        read_up.len() >= up.len() && read_down.len() >= down.len()
    });
    assert!(read_up == up && read_down == down, "the streams differ");
    assert!(net.workers[0].core.metrics.value(Work::HandoversUndone) > 3);
    assert!(!net.apps[0].client.slot(server.index).flags().has(Flags::MOVED));
}

#[test]
fn what_the_program_asks_for_meanwhile_waits() {
    for arrives in [true, false] {
        let (mut net, _, server, client) = connected();
        let departure = depart(&mut net, server).expect("it is open");
        let ticket = net.apps[0].client.control(server, Operation::Shutdown).expect("none is under way");
        net.run_for_ms(50);
        assert_eq!(net.apps[0].client.completed(ticket, &mut []), None, "it waits");
        if arrives {
            assert_eq!(arrive(&mut net, server, &departure), Late { shuts: true, resets: false });
        } else {
            bring_back(&mut net, server, departure);
            net.run_until(|net| net.apps[1].client.slot(client.index).flags().has(Flags::PEER_CLOSED));
        }
        let answer = net.apps[0].client.completed(ticket, &mut []);
        assert_eq!(answer, Some(ringway_channel::ControlResult::Answer(ControlAnswer::Done)));
    }
}

#[test]
fn a_socket_that_is_closed_on_its_way_is_free_at_the_end() {
    for (linger_s, resets) in [(None, false), (Some(0), true)] {
        for arrives in [true, false] {
            let (mut net, _, server, client) = connected();
            let before = net.workers[0].attachments.sockets();
            let departure = depart(&mut net, server).expect("it is open");
            assert!(net.apps[0].client.release(server.index));
            // The request as `Client::close` makes it, which waits for the slot's locks.
            let operation = Operation::Close { linger_s };
            assert!(net.apps[0].client.submit(Request { slot: server, sequence: 0, operation }));
            net.run_for_ms(50);
            assert_eq!(net.workers[0].attachments.sockets(), before, "it is on its way");
            if arrives {
                assert_eq!(arrive(&mut net, server, &departure), Late { shuts: false, resets });
            } else {
                bring_back(&mut net, server, departure);
                let ended = if resets { Flags::FAILED } else { Flags::PEER_CLOSED };
                net.run_until(|net| net.apps[1].client.slot(client.index).flags().has(ended));
            }
            assert_eq!(net.workers[0].attachments.sockets(), before - 1);
        }
    }
}

#[test]
fn the_death_of_the_holder_waits_for_the_end_of_the_way() {
    let (mut net, _, server, client) = connected();
    let departure = depart(&mut net, server).expect("it is open");
    let process = net.apps[0].client.process();
    net.process_gone(0, process);
    bring_back(&mut net, server, departure);
    net.run_until(|net| net.apps[1].client.slot(client.index).flags().has(Flags::PEER_CLOSED));
    assert_eq!(net.workers[0].attachments.sockets(), 0);
}

/// Its connections go on, what it has accepted is there to be accepted, and its port is the kernel's for all others.
#[test]
fn a_listener_leaves_with_nothing_lost() {
    let (mut net, listener, server, client) = connected();
    let second = net.connect(1, 80);
    net.run_for_ms(5);
    let answer = net.hand_over(0, |region, reply| HandoverCommand::Depart(region, listener, None, reply)).try_recv();
    assert_eq!(answer.expect("no handshake is under way"), Ok(None));
    assert!(net.apps[0].client.slot(listener.index).flags().has(Flags::MOVED));
    let accepted = net.accept(0, listener);
    net.close(0, listener);
    net.run_for_ms(5);
    for (near, far) in [(server, client), (accepted, second)] {
        net.send(1, far, b"up");
        let mut read = Vec::new();
        net.run_until(|net| {
            net.receive_into(0, near, &mut read);
            read == b"up"
        });
    }
}

/// A client whose SYN was answered is not left without a listener.
#[test]
fn a_listener_waits_for_handshakes() {
    let (mut net, listener, ..) = connected();
    let client = net.connect(1, 80);
    net.run_until(|net| net.workers[0].core.stack.records().0 > 0);
    let answer = net.hand_over(0, |region, reply| HandoverCommand::Depart(region, listener, None, reply));
    assert!(answer.try_recv().is_err(), "it waits");
    let accepted = net.accept(0, listener);
    net.run_for_ms(5);
    assert_eq!(answer.try_recv().expect("it is answered"), Ok(None));
    net.close(0, listener);
    net.send(1, client, b"up");
    let mut read = Vec::new();
    net.run_until(|net| {
        net.receive_into(0, accepted, &mut read);
        read == b"up"
    });
}

/// Where another worker has the port too, this one takes no SYN until that one has let it go: it would have to know of the connection.
#[test]
fn a_listener_of_several_workers_is_silent_until_all_let_it_go() {
    let (mut net, listener, _, client) = connected();
    net.keep_ports(true);
    let depart =
        |net: &mut Net| net.hand_over(0, |region, reply| HandoverCommand::Depart(region, listener, None, reply)).try_recv();
    let gone = |net: &Net| net.apps[0].client.slot(listener.index).flags().has(Flags::MOVED);
    assert_eq!(depart(&mut net).expect("it has let the port go"), Ok(None));
    let late = net.connect(1, 80);
    net.run_for_ms(40);
    assert!(!gone(&net) && net.workers[0].core.stack.records().0 == 0, "nothing of it is known");
    net.keep_ports(false);
    net.run_for_ms(5);
    assert!(!gone(&net), "the program asks all workers once more");
    assert_eq!(depart(&mut net).expect("no handshake is under way"), Ok(None));
    assert!(gone(&net));
    assert_eq!(net.left(), [(80, vec![net.apps[1].client.slot(client.index).local().port()])], "asked once");
    net.close(1, late);
}

/// A program may end between the two questions: others that have the listener are told all the same.
#[test]
fn a_listener_that_has_left_is_gone_also_without_a_second_question() {
    let (mut net, listener, ..) = connected();
    net.keep_ports(true);
    net.hand_over(0, |region, reply| HandoverCommand::Depart(region, listener, None, reply))
        .try_recv()
        .expect("a vote")
        .expect("no refusal");
    net.keep_ports(false);
    net.run_for_ms(200);
    assert!(net.apps[0].client.slot(listener.index).flags().has(Flags::MOVED));
    assert_eq!(net.workers[0].core.metrics.value(Work::SocketsHandedOver), 1);
}

/// Another worker does not let the port go: the listener serves it as before.
#[test]
fn a_listener_whose_port_is_kept_goes_on() {
    let (mut net, listener, ..) = connected();
    net.keep_ports(true);
    let answer = net.hand_over(0, |region, reply| HandoverCommand::Depart(region, listener, None, reply)).try_recv();
    assert_eq!(answer.expect("it has let the port go"), Ok(None));
    net.run_for_ms(1_010);
    net.connect(1, 80);
    net.accept(0, listener);
    assert!(!net.apps[0].client.slot(listener.index).flags().has(Flags::MOVED));
}

/// A rule may go again before all workers have followed it.
#[test]
fn a_port_that_is_about_to_leave_comes_back() {
    let mut net = Net::new();
    let listener = net.listen(0, RULED);
    net.keep_ports(true);
    net.guard(0, &[RULED]);
    let early = net.open(1);
    let remote = super::harness::socket(super::harness::SERVER, RULED);
    assert!(net.apps[1].client.submit(Request { slot: early, sequence: 0, operation: Operation::Connect { remote } }));
    net.run_for_ms(40);
    assert_eq!(net.workers[0].core.stack.records().0, 0, "no SYN is taken");
    net.guard(0, &[]);
    net.run_for_ms(1);
    net.connect(1, RULED);
    net.accept(0, listener);
    assert!(!net.workers[0].core.ports.takes_nothing(super::harness::SERVER.into(), RULED));
}

/// Programs of cgroups may not be gone around: where another worker keeps the port, the listener loses it.
#[test]
fn a_confined_listener_loses_a_port_that_cannot_leave() {
    let mut net = Net::new();
    net.listen(0, 80);
    net.keep_ports(true);
    let ports = net.ports_in_use();
    net.confine(0, Guard::LISTEN_IPV4);
    net.run_for_ms(500);
    assert_eq!(net.ports_in_use(), ports, "the other worker may let it go yet");
    net.run_for_ms(700);
    assert_eq!(net.ports_in_use(), ports - 1);
}

#[test]
fn only_an_open_connection_of_a_program_departs() {
    let (mut net, _, server, client) = connected();
    let fresh = net.open(0);
    let stale = SlotRef { generation: server.generation + 1, ..server };
    assert_eq!(depart(&mut net, fresh).err(), Some(Stays::Unknown));
    assert_eq!(depart(&mut net, stale).err(), Some(Stays::Unknown));
    // Not accepted yet.
    let second = net.connect(1, 80);
    net.run_for_ms(5);
    let waiting = (0..net.apps[0].client.slots()).map(|index| net.apps[0].client.slot(index));
    let remote = net.apps[1].client.slot(second.index).local();
    let (index, slot) = waiting.enumerate().find(|(_, slot)| slot.remote() == remote).expect("it is in the queue");
    let unaccepted = SlotRef { index: index as u32, generation: slot.generation() };
    assert_eq!(depart(&mut net, unaccepted).err(), Some(Stays::NotAccepted));
    // On its way already; then over.
    let departure = depart(&mut net, server).expect("it is open");
    assert_eq!(depart(&mut net, server).err(), Some(Stays::NotConnected));
    arrive(&mut net, server, &departure);
    assert_eq!(depart(&mut net, server).err(), Some(Stays::NotConnected));
    net.close(1, client);
}

#[test]
fn a_program_that_reads_all_the_time_is_waited_for_and_not_for_ever() {
    let (mut net, _, server, _) = connected();
    for ends in [true, false] {
        net.hold_slot(0, server, true);
        let answer = net.hand_over(0, |region, reply| HandoverCommand::Depart(region, server, None, reply));
        net.run_for_ms(100);
        assert!(answer.try_recv().is_err(), "it waits");
        if ends {
            net.hold_slot(0, server, false);
            net.run_for_ms(5);
            let departure = answer.try_recv().expect("it is answered").expect("it has left");
            bring_back(&mut net, server, departure.expect("it is a connection"));
        } else {
            net.run_for_ms(150);
            assert_eq!(answer.try_recv().expect("it is answered").err(), Some(Stays::Busy));
        }
    }
}

#[test]
fn programs_are_asked_for_the_sockets_that_are_meant() {
    let (mut net, _, server, _) = connected();
    let pid = std::process::id();
    let slot = |net: &Net| net.apps[0].client.slot(server.index).flags().has(Flags::WANTED);
    let (local, remote) = (net.apps[0].client.slot(server.index).local(), net.apps[0].client.slot(server.index).remote());
    let other = std::net::SocketAddr::new(remote.ip(), remote.port() ^ 1);
    for (wanted, count) in [
        (Wanted::Process(pid + 1), 0),
        (Wanted::Port(81), 0),
        (Wanted::Flow(local, other), 0),
        (Wanted::Port(80), 1),
        (Wanted::Process(pid), 1),
        (Wanted::Flow(remote, local), 1),
        (Wanted::All, 1),
    ] {
        let answer = net.hand_over(0, |_, reply| HandoverCommand::Want(wanted, reply));
        assert_eq!(answer.try_recv(), Ok(count), "{wanted:?}");
        assert!(count > 0 || !slot(&net), "{wanted:?}");
    }
    assert!(slot(&net));
}

/// A program that sleeps does not give what it is asked for. Its word is good as long as it holds what it names, and no longer than it stands.
#[test]
fn what_a_program_does_not_give_is_named_once() {
    let (mut net, _, server, _) = connected();
    let place = |number| ProcessDescriptor { process: 0, number };
    let note = |net: &Net, place| net.apps[0].client.slot(server.index).set_place(place);
    note(&net, place(7));
    let wish =
        |net: &mut Net| net.hand_over(0, |_, reply| HandoverCommand::Want(Wanted::All, reply)).try_recv().expect("at once");
    assert_eq!(wish(&mut net), 1);
    net.run_for_ms(990);
    assert!(net.taken().is_empty(), "it may be about to");
    net.run_for_ms(1_500);
    let region = net.apps[0].region;
    assert_eq!(net.taken(), [Unmoved { region, slot: server, place: place(7) }]);
    note(&net, place(8));
    let depart = |place| move |region, reply| HandoverCommand::Depart(region, server, Some(place), reply);
    assert_eq!(net.hand_over(0, depart(place(7))).try_recv().expect("at once"), Err(Stays::Unknown));
    // A process that does not hold it, and one that may make no other system calls than before.
    for (place, flags) in [(ProcessDescriptor { process: 9, number: 8 }, 0), (place(8), CONFINED)] {
        note(&net, place);
        net.apps[0].client.slot(server.index).change_app_flags(flags, 0);
        wish(&mut net);
        net.run_for_ms(1_500);
        assert!(net.taken().is_empty());
        assert_eq!(net.hand_over(0, depart(place)).try_recv().expect("at once"), Err(Stays::Unknown));
    }
    net.apps[0].client.slot(server.index).change_app_flags(0, CONFINED);
    assert!(net.hand_over(0, depart(place(8))).try_recv().expect("at once").is_ok_and(|departure| departure.is_some()));
}

#[test]
fn a_worker_that_leaves_waits_for_its_connections_and_gives_ports_back() {
    let (mut net, listener, server, _) = connected();
    let answer = net.hand_over(0, |_, reply| leave(0, reply));
    // A client that comes now finds silence, not a reset: its next SYN is the kernel's.
    let late = net.open(1);
    let remote = super::harness::socket(super::harness::SERVER, 80);
    assert!(net.apps[1].client.submit(Request { slot: late, sequence: 0, operation: Operation::Connect { remote } }));
    net.run_for_ms(500);
    assert!(answer.try_recv().is_err(), "a connection is left");
    assert!(net.apps[0].client.slot(server.index).flags().has(Flags::WANTED));
    assert!(!net.apps[1].client.slot(late.index).flags().has(Flags::FAILED));
    let departure = depart(&mut net, server).expect("it is open");
    net.run_for_ms(5);
    assert!(answer.try_recv().is_err(), "it is on its way");
    let ports = net.ports_in_use();
    arrive(&mut net, server, &departure);
    assert_eq!(answer.try_recv(), Ok(Left { connections: 0 }));
    assert!(!net.apps[0].client.slot(listener.index).flags().has(Flags::MOVED), "another worker may have connections yet");
    leave_ports(&mut net);
    assert!(net.apps[0].client.slot(listener.index).flags().has(Flags::MOVED));
    assert_eq!(net.ports_in_use(), ports - 1, "the listener's port is the kernel's");
}

/// The program may be busy elsewhere. A second before the end it is asked to put what waits into the kernel's accept queue; where there is no more than
/// two, when half of the time is over.
#[test]
fn a_worker_that_leaves_asks_for_what_waits_at_listeners() {
    for (limit_s, asked_after_ms) in [(5, 5_000), (1, 1_500)] {
        asks_for_what_waits(limit_s, asked_after_ms);
    }
}

fn asks_for_what_waits(limit_s: u64, asked_after_ms: u64) {
    let (mut net, listener, server, _) = connected();
    net.close(0, server);
    let flags = |net: &Net| net.apps[0].client.slot(listener.index).flags();
    net.connect(1, 80);
    net.run_for_ms(5);
    let wishes = net.apps[0].client.wishes();
    let (drain, limit) = (Duration::from_secs(1), Duration::from_secs(limit_s));
    let answer = net.hand_over(0, |_, reply| HandoverCommand::Leave { drain, limit, reply });
    net.run_for_ms(asked_after_ms - 100);
    assert!(!flags(&net).has(Flags::EMPTIES), "it may accept it yet");
    net.run_for_ms(200);
    assert!(flags(&net).has(Flags::EMPTIES) && net.apps[0].client.wishes() > wishes + 1);
    let waiting = net.accept(0, listener);
    let departure = depart(&mut net, waiting).expect("it is open");
    arrive(&mut net, waiting, &departure);
    assert_eq!(answer.try_recv(), Ok(Left { connections: 0 }));
}

/// Nothing sends the last bytes again when the worker has gone.
#[test]
fn a_worker_that_leaves_waits_for_what_was_closed_with_bytes_on_their_way() {
    let (mut net, _, server, client) = connected();
    let (data, mut sent, mut read) = (pattern(600_000, 6), 0, Vec::new());
    for _ in 0..100 {
        net.write_some((0, server), &data, &mut sent);
        net.step();
    }
    assert!(sent > 100_000, "more than the peer's window");
    net.close(0, server);
    let answer = net.hand_over(0, |_, reply| leave(0, reply));
    net.run_for_ms(500);
    assert!(answer.try_recv().is_err(), "the peer has yet to read");
    net.run_until(|net| {
        net.receive_into(1, client, &mut read);
        read.len() == sent
    });
    net.run_for_ms(50);
    assert!(read == data[..sent]);
    assert_eq!(answer.try_recv(), Ok(Left { connections: 0 }));
}

#[test]
fn a_worker_that_leaves_waits_for_the_acknowledgment_of_a_fin() {
    let (mut net, _, server, client) = connected();
    assert!(net.apps[0].client.release(server.index) && net.apps[0].client.close(server, None));
    let now = net.now;
    net.workers[0].turn(now);
    let answer = net.hand_over(0, |_, reply| leave(0, reply));
    assert!(answer.try_recv().is_err(), "it has just been sent");
    net.run_until(|net| net.apps[1].client.slot(client.index).flags().has(Flags::PEER_CLOSED));
    net.run_for_ms(50);
    assert_eq!(answer.try_recv(), Ok(Left { connections: 0 }), "the peer's FIN is not waited for");
}

/// Steered to the worker before the port was the kernel's, taken from the device's ring after it.
#[test]
fn a_syn_on_its_way_finds_silence_when_the_port_is_the_kernels() {
    let mut net = Net::new();
    net.listen(0, 80);
    let late = net.open(1);
    let remote = super::harness::socket(super::harness::SERVER, 80);
    assert!(net.apps[1].client.submit(Request { slot: late, sequence: 0, operation: Operation::Connect { remote } }));
    let answer = net.hand_over(0, |_, reply| leave(0, reply));
    assert_eq!(answer.try_recv(), Ok(Left { connections: 0 }), "nothing stays");
    leave_ports(&mut net);
    net.run_for_ms(500);
    assert!(!net.apps[1].client.slot(late.index).flags().has(Flags::FAILED), "it was not refused");
}

#[test]
fn a_worker_that_leaves_does_not_wait_longer_than_it_may() {
    let (mut net, listener, server, _) = connected();
    assert!(net.apps[0].client.send(server, &[IoSlice::new(b"still here")]).is_ok());
    let answer = net.hand_over(0, |_, reply| leave(0, reply));
    net.run_for_ms(4_900);
    assert!(answer.try_recv().is_err());
    net.run_for_ms(200);
    assert_eq!(answer.try_recv(), Ok(Left { connections: 1 }));
    leave_ports(&mut net);
    assert!(net.apps[0].client.slot(listener.index).flags().has(Flags::MOVED));
}

#[test]
fn the_change_of_its_kernel_socket_is_no_loss_of_the_right_to_the_port() {
    let (mut net, _, server, _) = connected();
    let departure = depart(&mut net, server).expect("it is open");
    net.revoke(0, server);
    assert_eq!(arrive(&mut net, server, &departure), Late::default());
    // The news of what the service has done to the kernel socket may come late.
    net.revoke(0, server);
    assert!(net.apps[0].client.slot(server.index).flags().has(Flags::MOVED));
    assert_eq!(net.apps[0].client.slot(server.index).generation(), server.generation, "the slot is still the program's");
}

/// Packets that a device's ring has taken before the flow was steered to the kernel come out after the connection has arrived there.
/// At the kernel it is the connection's own limit; one that comes back shares it again.
#[test]
fn a_shared_rate_is_a_limit_at_the_kernel() {
    static RATE: SharedRate = SharedRate::new(1_000_000);
    let (mut net, _, server, client) = connected();
    let terms = Terms { shared_rates: [Some(&RATE), None], ..Terms::default() };
    net.rule(0, Ruling { allowance: Allowance { terms, ..Allowance::default() }, ..Ruling::default() });
    let departure = depart(&mut net, server).expect("it is open");
    assert_eq!(departure.options.pacing_rate_max, 1_000_000);
    bring_back(&mut net, server, departure);
    net.run_for_ms(5);
    assert_eq!(net.apps[1].client.slot(client.index).error(), None);
    let sent = net.now;
    assert_eq!(net.send(0, server, &pattern(100_000, 1)), 100_000);
    let mut arrived = Vec::new();
    net.run_until(|net| {
        net.receive_into(1, client, &mut arrived);
        arrived.len() == 100_000
    });
    assert!(net.now.since(sent).as_millis() >= 90, "a hundred milliseconds at this rate");
}

#[test]
fn packets_that_come_late_find_silence() {
    let (mut net, _, server, client) = connected();
    let departure = depart(&mut net, server).expect("it is open");
    assert_eq!(net.send(1, client, b"taken before the change"), 23);
    arrive(&mut net, server, &departure);
    net.run_for_ms(500);
    assert!(!net.apps[1].client.slot(client.index).flags().has(Flags::FAILED), "the peer was reset");
    net.run_for_ms(2_000);
    let later = net.connect(1, 80);
    net.run_until(|net| net.apps[1].client.slot(later.index).state() == ringway_channel::State::Connected);
}

/// New connections are the kernel's at once; those that there are may end by themselves, then they are asked for.
#[test]
fn connections_may_end_before_they_are_asked_for() {
    for ends in [true, false] {
        let (mut net, listener, server, client) = connected();
        let answer = net.hand_over(0, |_, reply| leave(10, reply));
        assert_eq!(net.left(), [(80, vec![net.apps[1].client.slot(client.index).local().port()])], "the port, and who stays");
        net.run_for_ms(9_000);
        let flags = |net: &Net| net.apps[0].client.slot(server.index).flags();
        assert!(!flags(&net).has(Flags::WANTED));
        if ends {
            net.close(1, client);
            net.close(0, server);
            net.run_for_ms(100);
        } else {
            net.run_for_ms(1_100);
            assert!(flags(&net).has(Flags::WANTED));
            assert!(answer.try_recv().is_err());
            net.run_for_ms(5_000);
        }
        assert_eq!(answer.try_recv(), Ok(Left { connections: u32::from(!ends) }));
        leave_ports(&mut net);
        assert!(net.apps[0].client.slot(listener.index).flags().has(Flags::MOVED));
    }
}

/// The service keeps no more for a socket that is on its way than an honest program asks for.
#[test]
fn a_flood_of_requests_for_a_socket_on_its_way_takes_no_memory() {
    let (mut net, _, server, client) = connected();
    let departure = depart(&mut net, server).expect("it is open");
    let operations = [Operation::Transmit, Operation::Consumed, Operation::Info, Operation::Shutdown];
    for at in 0..5_000 {
        let request = Request { slot: server, sequence: 0, operation: operations[at % operations.len()] };
        assert!(net.apps[0].client.submit(request));
        net.step();
    }
    assert_eq!(net.waiting_requests(0, server), 16);
    bring_back(&mut net, server, departure);
    net.run_until(|net| net.apps[1].client.slot(client.index).flags().has(Flags::PEER_CLOSED));
}

/// `ss -K`: as Linux's tcp_abort, the program reads ECONNABORTED, the peer is reset, and everything is free again.
#[test]
fn connections_that_the_operator_ends_are_reset_at_both_ends() {
    let (mut net, listener, server, client) = connected();
    net.send(1, client, &pattern(1_000, 1));
    net.run_for_ms(5);
    let (local, remote) = (net.apps[0].client.slot(server.index).local(), net.apps[0].client.slot(server.index).remote());
    let other = std::net::SocketAddr::new(remote.ip(), remote.port() ^ 1);
    for (wanted, count) in [(Wanted::Flow(local, other), 0), (Wanted::Flow(local, remote), 1), (Wanted::Flow(local, remote), 0)] {
        let answer = net.hand_over(0, |_, reply| HandoverCommand::Kill(wanted, reply));
        assert_eq!(answer.try_recv(), Ok(count), "{wanted:?}");
    }
    assert_eq!(net.apps[0].client.slot(server.index).error(), Some(ringway_channel::Failure::Aborted));
    net.run_until(|net| net.apps[1].client.slot(client.index).flags().has(Flags::FAILED));
    assert_eq!(net.apps[1].client.slot(client.index).error(), Some(ringway_channel::Failure::Reset));
    // The listener goes on.
    let again = net.connect(1, 80);
    let accepted = net.accept(0, listener);
    for (app, slot) in [(0, server), (0, accepted), (0, listener), (1, client), (1, again)] {
        net.close(app, slot);
    }
    net.run_for_ms(70_000);
    assert!(net.frames_are_all_free());
    assert_eq!(net.ports_in_use(), 0);
}
