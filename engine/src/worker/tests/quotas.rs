//! A user or group at its limit is refused, and that is counted.

use std::sync::Arc;

use ringway_channel::{Shape, SlotRef};
use ringway_shm::Class;
use ringway_shm::stats::{Holder, QuotaRecord};
use ringway_stack::{Counter, FrameUse};

use super::harness::{SERVER, SHAPE};
use super::*;
use crate::attach::Maker;
use crate::claim::{Claim, Purpose};
use crate::command::RegionRequest;
use crate::core::Core;
use crate::quota::{GroupQuotas, Quota};

impl Net {
    /// One more group at worker 0, with such quotas.
    fn attach_limited(&mut self, quotas: GroupQuotas) -> usize {
        self.workers[0].attachments.limit_groups(quotas);
        let app = self.attach(0, [9; 16]);
        self.workers[0].attachments.limit_groups(GroupQuotas::default());
        app
    }

    fn hits(&mut self, worker: usize, quota: Quota, holder: u32) -> u64 {
        self.workers[worker].core.metrics.hits().of(quota, holder)
    }

    fn group_hits(&mut self, app: usize, quota: Quota) -> u64 {
        let region = self.apps[app].region.0;
        self.hits(0, quota, region)
    }

    /// Returns the record of a group of worker 0, as tools are told.
    fn told(&mut self, app: usize, quota: Quota) -> QuotaRecord {
        let number = self.apps[app].region.0;
        let worker = &mut self.workers[0];
        let records = worker.attachments.usage(&mut worker.core);
        let is_it = |holder: &Holder| matches!(holder, Holder::Group { region, .. } if *region == number);
        let record = records.into_iter().find(|record| is_it(&record.holder)).expect("every group is told of");
        record.quotas[quota as usize].expect("a quota of groups")
    }
}

#[test]
fn sockets_beyond_the_quota_are_refused_and_counted() {
    let mut net = Net::new();
    let app = net.attach_limited(GroupQuotas { sockets: 2, ..GroupQuotas::default() });
    let [first, second] = [70, 71].map(|port| net.listen(app, port));
    let third = net.open(app);
    let operation = Operation::Listen { local: socket([0, 0, 0, 0], 72), backlog: 16, dual_stack: false };
    assert_eq!(net.control(app, third, operation), ControlAnswer::Failed(Failure::NoResources));
    assert_eq!(net.group_hits(app, Quota::SocketsOfGroup), 2, "of the peers that find no room, and of the third");
    assert_eq!(net.told(app, Quota::SocketsOfGroup), QuotaRecord { used: Some(2), limit: Some(2), hits: 2 });
    net.close(app, first);
    assert_eq!(net.control(app, third, operation), ControlAnswer::Done);
    net.close(app, second);
    net.close(app, third);
}

/// Thirty requests of a group that may make a hundred in a second: ten at once, the others in time. Nothing is lost, the worker
/// sleeps meanwhile, and another group does not wait.
#[test]
fn requests_beyond_the_rate_wait_and_the_worker_sleeps() {
    let mut net = Net::new();
    let app = net.attach_limited(GroupQuotas { requests_per_second: 100, ..GroupQuotas::default() });
    let local = socket([10, 0, 0, 1], 0);
    let slots: Vec<_> = (0..30).map(|_| net.open(app)).collect();
    let ask = |net: &Net, slot| net.apps[app].client.control(slot, Operation::Owns { local }).expect("none is under way");
    let mut open: Vec<_> = slots.iter().map(|&slot| ask(&net, slot)).collect();
    let (start, turns) = (net.now, net.workers[0].core.metrics.value(Work::Turns));
    let answered = |net: &Net, open: &mut Vec<_>| {
        open.retain(|&ticket| net.apps[app].client.completed(ticket, &mut []).is_none());
        30 - open.len()
    };
    net.workers[0].turn(start);
    assert_eq!(answered(&net, &mut open), 10);
    let other = net.open(0);
    assert_eq!(net.control(0, other, Operation::Owns { local }), ControlAnswer::Done, "another group");
    net.run_until(|net| answered(net, &mut open) == 30);
    let took = net.now.since(start).as_millis();
    assert!((190..=260).contains(&took), "{took} ms");
    let turns = net.workers[0].core.metrics.value(Work::Turns) - turns;
    assert!(turns < 20, "{turns} turns that did something");
    let idle = &mut net.workers[0];
    assert!(!idle.attachments.arm(Duration::ZERO), "it may sleep");
    idle.attachments.disarm();
    assert!(net.group_hits(app, Quota::RequestsOfGroup) >= 3);
}

/// A thread that fills its rings as fast as they are emptied, and another one of the same program that closes a socket.
#[test]
fn a_close_is_served_beside_data_requests_that_use_up_every_turn() {
    let mut net = Net::new();
    let busy = net.listen(0, 80);
    let closing = net.listen(0, 81);
    let fill = |net: &Net| {
        for _ in 0..1_200 {
            net.apps[0].client.submit(Request { slot: busy, sequence: 0, operation: Operation::Consumed });
        }
    };
    fill(&net);
    let client = &net.apps[0].client;
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(client.release(closing.index) && client.close(closing, None)));
    });
    let before = net.workers[0].attachments.sockets();
    let mut turns = 0;
    while net.workers[0].attachments.sockets() == before {
        let now = net.now;
        net.workers[0].turn(now);
        fill(&net);
        turns += 1;
        assert!(turns <= 2, "the close waits behind data");
    }
    assert!(net.workers[0].core.metrics.value(Work::TurnsUsedUp) >= 1, "the turns were used up");
}

#[test]
fn a_user_that_has_all_its_ports_shares_those_that_it_has() {
    let mut net = Net::new();
    let listeners = [80, 81].map(|port| net.listen(0, port));
    net.workers[1].core.ports.limit_users(1);
    let first = net.connect(1, 80);
    net.accept(0, listeners[0]);
    let second = net.connect(1, 81);
    net.accept(0, listeners[1]);
    let port = |net: &Net, slot: SlotRef| net.apps[1].client.slot(slot.index).local().port();
    assert_eq!(port(&net, first), port(&net, second), "the peers differ");
    let third = net.open(1);
    let remote = socket(SERVER, 81);
    assert_eq!(net.control(1, third, Operation::Connect { remote }), ControlAnswer::Failed(Failure::NotAvailable));
    assert_eq!(net.hits(1, Quota::PortsOfUser, 0), 2);
    net.workers[1].core.ports.limit_users(2);
    assert_eq!(net.control(1, third, Operation::Connect { remote }), ControlAnswer::Done);
}

/// The bound is the service's, not one user's: the second connection is lent the port of the first, the third finds none.
#[test]
fn a_service_without_a_port_left_lends_those_that_it_has_until_one_comes_back() {
    let mut net = Net::new();
    let listeners = [80, 81].map(|port| net.listen(0, port));
    net.limit_chosen_ports(1);
    let first = net.connect(1, 80);
    let first_accepted = net.accept(0, listeners[0]);
    assert_eq!(net.hits(1, Quota::Ports, 0), 0, "there was one");
    let second = net.connect(1, 81);
    let second_accepted = net.accept(0, listeners[1]);
    let port = |net: &Net, slot: SlotRef| net.apps[1].client.slot(slot.index).local().port();
    assert_eq!(port(&net, first), port(&net, second), "lent: the peers differ");
    assert_eq!((net.hits(1, Quota::Ports, 0), net.workers[1].core.metrics.value(Work::PortsLent)), (1, 1));
    let third = net.open(1);
    let remote = socket(SERVER, 81);
    assert_eq!(net.control(1, third, Operation::Connect { remote }), ControlAnswer::Failed(Failure::NotAvailable));
    assert_eq!(net.hits(1, Quota::Ports, 0), 2);
    assert_eq!(net.hits(1, Quota::PortsOfUser, 0), 0, "the user may have more");
    let bytes = pattern(10_000, 3);
    let (at_server, at_client) = net.exchange((0, first_accepted), (1, first), &bytes[..5_000], &bytes);
    assert!(at_server == bytes && at_client == bytes[..5_000], "the others go on");
    for (client, server) in [(first, first_accepted), (second, second_accepted)] {
        net.close(0, server);
        net.close(1, client);
    }
    net.run_for_ms(200_000);
    assert_eq!(net.control(1, third, Operation::Connect { remote }), ControlAnswer::Done, "it has come back");
    assert_eq!((net.hits(1, Quota::Ports, 0), net.workers[1].core.metrics.value(Work::PortsLent)), (2, 1));
}

/// Four receive chunks and a small one, and a program that reads none of five connections. What finds no chunk waits in the stack, and comes
/// when another socket was read.
#[test]
fn a_group_without_a_chunk_leaves_data_in_the_stack_and_is_counted() {
    let mut net = Net::new();
    let app = net.attach_shaped(0, [9; 16], Shape { rx_large: 4, rx_small: 1, rx_bulk: 0, rx_middle: 0, ..SHAPE });
    let listener = net.listen(app, 80);
    let bytes = pattern(1_000, 5);
    let open = |net: &mut Net| {
        let sender = net.connect(1, 80);
        let reader = net.accept(app, listener);
        net.send(1, sender, &bytes);
        net.run_for_ms(20);
        reader
    };
    let held: Vec<_> = (0..4).map(|_| open(&mut net)).collect();
    let has_all = |slot: &SlotRef| net.apps[app].client.slot(slot.index).unread() as usize == bytes.len();
    assert!(held.iter().all(has_all), "a chunk for each of them");
    assert_eq!(net.group_hits(app, Quota::MemoryOfGroup), 0);
    let starved = open(&mut net);
    assert_eq!(net.group_hits(app, Quota::MemoryOfGroup), 1);
    assert_eq!(net.told(app, Quota::MemoryOfGroup).hits, 1);
    assert_eq!(net.apps[app].client.slot(starved.index).unread(), 256, "the small chunk; the other bytes are in the stack");
    let others = net.listen(0, 81);
    let sender = net.connect(1, 81);
    let reader = net.accept(0, others);
    net.send(1, sender, &bytes);
    let arrived = |net: &mut Net, app, slot| {
        let mut read = Vec::new();
        net.run_until(|net| {
            net.receive_into(app, slot, &mut read);
            read.len() >= bytes.len()
        });
        assert!(read == bytes);
    };
    arrived(&mut net, 0, reader);
    assert_eq!(net.group_hits(0, Quota::MemoryOfGroup), 0, "another group");
    arrived(&mut net, app, held[0]);
    arrived(&mut net, app, starved);
    held[1..].iter().for_each(|&slot| arrived(&mut net, app, slot));
    assert_eq!(net.group_hits(app, Quota::MemoryOfGroup), 1, "once");
}

/// 100,000 connections that sent at once had 27,000 starved sockets, and each read of the program tried all of them.
#[test]
fn a_chunk_that_comes_back_is_offered_to_the_longest_starved_alone() {
    const CONNECTIONS: usize = 40;
    let mut net = Net::new();
    let app = net.attach_shaped(0, [9; 16], Shape { rx_large: 4, rx_small: 1, rx_bulk: 0, rx_middle: 0, ..SHAPE });
    let listener = net.listen(app, 80);
    let bytes = pattern(100, 5);
    let opened = (0..CONNECTIONS).map(|_| {
        let sender = net.connect(1, 80);
        let reader = net.accept(app, listener);
        net.send(1, sender, &bytes);
        net.run_for_ms(20);
        reader
    });
    let readers: Vec<_> = opened.collect();
    let before = net.group_hits(app, Quota::MemoryOfGroup);
    assert_eq!(before, CONNECTIONS as u64 - 5);
    // The last ones have nothing to read before the first ones have been read.
    for &reader in &readers {
        let mut read = Vec::new();
        net.run_until(|net| {
            net.receive_into(app, reader, &mut read);
            read.len() >= bytes.len()
        });
        assert!(read == bytes);
    }
    let tries = net.group_hits(app, Quota::MemoryOfGroup) - before;
    assert!(tries <= 2 * CONNECTIONS as u64, "{tries} vain tries");
}

/// Received data may hold all frames but the last, one for each of many sockets, while the program that is to read it waits until it has
/// sent an answer. (8 servers of 12,500 connections each stood still.)
#[test]
fn an_answer_leaves_while_received_data_holds_the_frames() {
    let mut net = Net::new();
    let app = net.attach(0, [9; 16]);
    let listener = net.listen(app, 80);
    let peer = net.connect(1, 80);
    let reader = net.accept(app, listener);
    net.run_until(|net| net.apps[1].client.slot(peer.index).state() == State::Connected);
    let core = &mut net.workers[0].core;
    let (arena, mut id) = (core.arena.clone(), None);
    core.stack
        .for_each_socket(&mut |socket| id = id.or((socket.state == ringway_stack::State::Established).then_some(socket.id)));
    let id = id.expect("it is open");
    let capacity = arena.capacity(Class::Small);
    // As what has come in order: between the mark of senders and the last frames.
    let taken: Vec<_> =
        std::iter::from_fn(|| (arena.free(Class::Small) > capacity / 16).then(|| arena.alloc(Class::Small))).collect();
    let send = |core: &mut Core| {
        let allowed = core.send_allowance(id, 9);
        (allowed, core.stack.send_with(id, 9, &mut |piece| piece.fill(7)).ok())
    };
    assert_eq!(send(core), (0, None), "peers that acknowledge nothing take no frame of the others' data");
    core.note_backlog(capacity as usize / 2, Vec::new());
    let (allowed, sent) = send(core);
    assert!(allowed >= 9 && sent == Some(9), "{allowed} {sent:?}");
    assert_eq!(core.send_allowance(id, 9), 0, "one frame");
    core.note_backlog(0, Vec::new());
    drop(taken);
    let mut read = Vec::new();
    net.run_until(|net| {
        net.receive_into(1, peer, &mut read);
        read.len() >= 9
    });
    net.close(app, reader);
}

/// A program leaves a message unread on each of some 500 sockets and has few chunks: its further data is refused from the moment when half of
/// the frames is used, and that of another program is not.
#[test]
fn a_group_that_leaves_many_sockets_unread_is_held_back_alone() {
    let mut net = Net::new();
    let hoarder =
        net.attach_shaped(0, [9; 16], Shape { slots: 2_048, rx_large: 4, rx_small: 1, rx_bulk: 0, rx_middle: 0, ..SHAPE });
    let crowd = net.attach_shaped(1, [8; 16], Shape { slots: 2_048, ..SHAPE });
    let listener = net.listen(hoarder, 80);
    let bytes = pattern(100, 5);
    let arena = net.workers[0].core.arena.clone();
    let limit = net.workers[0].core.hoard_max();
    let senders: Vec<_> = (0..limit + 20)
        .map(|_| {
            let sender = net.connect(crowd, 80);
            net.accept(hoarder, listener);
            net.send(crowd, sender, &bytes);
            sender
        })
        .collect();
    net.run_for_ms(50);
    // As what others hold.
    let half = FrameUse::Hoard.leaves(arena.capacity(Class::Large));
    let taken: Vec<_> = std::iter::from_fn(|| (arena.free(Class::Large) > half).then(|| arena.alloc(Class::Large))).collect();
    let refused = |net: &Net| net.workers[0].core.stack.counters().get(Counter::DropNoBuffer);
    assert_eq!(refused(&net), 0);
    net.send(crowd, senders[0], &bytes);
    net.run_for_ms(50);
    assert!(refused(&net) > 0, "the group is held back");
    let others = net.listen(0, 81);
    let (sender, before) = (net.connect(crowd, 81), refused(&net));
    let reader = net.accept(0, others);
    net.send(crowd, sender, &pattern(30_000, 6));
    let mut read = Vec::new();
    net.run_until(|net| {
        net.receive_into(0, reader, &mut read);
        read.len() >= 30_000
    });
    assert!(read == pattern(30_000, 6));
    assert!(refused(&net) <= before + 1, "the hoarder's own, sent once more");
    drop(taken);
}

#[test]
fn a_socket_holds_no_more_chunks_than_it_may() {
    let mut net = Net::new();
    let app = net.attach_limited(GroupQuotas { chunk_bytes: 8_192, ..GroupQuotas::default() });
    let listener = net.listen(app, 80);
    let sender = net.connect(1, 80);
    let reader = net.accept(app, listener);
    let bytes = pattern(60_000, 7);
    net.send(1, sender, &bytes);
    net.run_for_ms(50);
    let unread = net.apps[app].client.slot(reader.index).unread();
    assert!((4_096..=8_192 + 2_048).contains(&unread), "{unread} bytes in chunks");
    assert!(net.group_hits(app, Quota::ChunksOfSocket) > 0);
    let mut read = Vec::new();
    net.run_until(|net| {
        net.receive_into(app, reader, &mut read);
        read.len() == bytes.len()
    });
    assert!(read == bytes);
}

#[test]
fn a_fork_beyond_the_quota_finds_no_number_and_is_counted() {
    let mut net = Net::new();
    let app = net.attach_limited(GroupQuotas { processes: 2, ..GroupQuotas::default() });
    let fork = |net: &Net| net.apps[app].client.before_fork();
    assert!(fork(&net), "this process and a child");
    net.apps[app].client.after_fork_in_parent(Some(1));
    assert!(!fork(&net));
    net.workers[0].write_metrics();
    assert_eq!(net.told(app, Quota::ProcessesOfGroup), QuotaRecord { used: Some(2), limit: Some(2), hits: 1 });
    net.workers[0].write_metrics();
    assert_eq!(net.group_hits(app, Quota::ProcessesOfGroup), 1, "once");
}

/// A port that a program has shown is a kernel socket that the service keeps, and that counts, until the slot is closed.
#[test]
fn a_port_that_was_shown_and_is_never_used_is_let_go_with_its_slot() {
    let mut net = Net::new();
    let kept = Arc::new(());
    let show = |net: &mut Net| {
        let (slot, region) = (net.open(0), net.apps[0].region);
        let claim = Claim { purpose: Purpose::Listen, local: socket(SERVER, 80), dual_stack: false, kept: kept.clone() };
        assert!(net.workers[0].attachments.claim(region, slot, claim));
        slot
    };
    let closed = show(&mut net);
    assert_eq!(Arc::strong_count(&kept), 2);
    net.close(0, closed);
    assert_eq!(Arc::strong_count(&kept), 1, "closed");
    show(&mut net);
    let process = net.apps[0].client.process();
    net.process_gone(0, process);
    assert_eq!(Arc::strong_count(&kept), 1, "its process is dead");
}

#[test]
fn a_group_beyond_all_that_there_may_be_is_refused() {
    let mut net = Net::new();
    net.workers[0].attachments.limit_regions(1, 1);
    let owner = RegionRequest { uid: 5, ..RegionRequest::trusted([8; 16], "late") };
    let made = Maker::new(SHAPE).make(owner).expect("memory");
    let worker = &mut net.workers[0];
    assert!(worker.attachments.attach(made, &mut worker.core, &worker.idle).is_err());
    assert_eq!(net.hits(0, Quota::Groups, 0), 1);
}

/// The sum that `ringway nstat` shows is of all quotas.
#[test]
fn the_sum_is_of_all_quotas() {
    let mut net = Net::new();
    let metrics = &mut net.workers[0].core.metrics;
    metrics.hit(Quota::GroupsOfUser, 1000);
    metrics.hit(Quota::Groups, 0);
    net.workers[0].write_metrics();
    assert_eq!(net.workers[0].core.metrics.value(Work::QuotaHits), 2);
}
