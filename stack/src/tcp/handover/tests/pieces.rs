//! One mechanism at a time: what its state is when the connection moves, and that it goes on.

use super::world::*;
use ringway_shm::Class;

use crate::admission::FrameUse;
use crate::config::{CongestionControl, Ecn, StackConfig};
use crate::error::ConnectError;
use crate::event::SocketError;
use crate::handover::{ExportError, ImportError, Purpose};
use crate::stats::Counter;
use crate::tcp::State;
use crate::tcp::ecn::EcnMode;
use crate::tcp::tcb::Recovery;
use crate::wire::tcp::{Header, RST};
use crate::{ActiveOpen, Duration, SocketAddress, TcpOptions};

fn open(plan: Plan) -> World {
    let mut world = World::new(plan);
    world.until("the handshake", |world| world.ends.iter().all(|end| super::super::moves(end.state())));
    world
}

/// Both ends write so slowly that the connection stays open.
fn idle(seed: u64) -> Plan {
    Plan { bytes: [1_000_000; 2], piece: [0; 2], ..Plan::of(seed) }
}

/// The flags of a packet without IP options.
fn flags(bytes: &[u8]) -> u8 {
    Header::parse(&bytes[20..]).expect("a TCP header").0.flags
}

/// States without a connection, or without a whole one, stay where they are; so does one that was not accepted.
#[test]
fn some_states_stay() {
    let mut world = World::new(idle(1));
    let (now, id) = (world.now, world.ends[0].id.expect("it opens"));
    assert_eq!(world.ends[0].stack.export(now, id), Err(ExportError::State(State::SynSent)));
    let listener = SocketAddress { ip: [10, 0, 0, 1].into(), port: 9 };
    let listener = world.ends[0].stack.listen(listener, 1, TcpOptions::default(), 0).expect("the port is free");
    assert_eq!(world.ends[0].stack.export(now, listener), Err(ExportError::NotConnected));
    world.until("both", |world| world.ends.iter().all(|end| end.state() == State::Established));
    world.export(0);
    let stale = world.ends[0].id.expect("it had a name");
    assert_eq!(world.ends[0].stack.export(world.now, stale), Err(ExportError::NotConnected));
}

/// A connection that has ended has nothing to move, and its TIME-WAIT stays in the stack that has it.
#[test]
fn time_wait_stays() {
    let mut world = World::new(Plan::of(2));
    world.until("the end", World::is_done);
    world.pass(Duration::from_millis(100));
    for end in &mut world.ends {
        let (at, id) = (end.time(world.now), end.id.expect("it was open"));
        assert_eq!(end.stack.export(at, id), Err(ExportError::State(State::Closed)));
    }
    let records = world.ends.iter().map(|end| end.stack.records().1).sum::<usize>();
    assert!(records > 0, "one end waits");
}

/// The stack that had the connection is silent about it, and gives its four-tuple to no other connection, until the hold ends.
#[test]
fn the_old_stack_is_silent() {
    let mut plan = idle(3);
    plan.piece = [10, 0];
    let mut world = open(plan);
    let (local, remote) = world.ends[1].stack.addresses(world.ends[1].id.expect("open")).expect("open");
    let image = world.export(1);
    let before = world.trace.len();
    world.pass(Duration::from_millis(500));
    assert!(world.trace[before..].iter().all(|(_, end, _)| *end == 0), "the old stack says nothing");
    assert!(world.trace.len() > before, "the peer has sent something");
    let old = &mut world.ends[1].stack;
    assert!(old.counters().get(Counter::DropHandedOver) > 0);
    assert_eq!(old.counters().get(Counter::TcpOutRsts), 0);
    let open = ActiveOpen { local: Some(local), user_token: 9, ..ActiveOpen::to(remote) };
    let again = old.connect(world.now, ActiveOpen { local: Some(SocketAddress { port: 81, ..local }), ..open });
    // Another four-tuple is free.
    old.abort(world.now, again.expect("it is free"));
    let taken = old.connect(world.now, open);
    assert_eq!(taken, Err(ConnectError::InUse));
    // It may come back: the hold ends with that.
    world.import(1, &image);
    world.export(1);
    assert!(world.ends[1].stack.release_hold(local, remote));
    assert!(!world.ends[1].stack.release_hold(local, remote));
    let before = world.trace.len();
    world.pass(Duration::from_secs(3));
    let resets = world.trace[before..].iter().filter(|(_, end, bytes)| *end == 1 && flags(bytes) & RST != 0).count();
    assert!(resets > 0, "nothing is known of it any more");
}

/// An import that is refused leaves nothing: no frame, no name, no flow.
#[test]
fn a_refused_import_leaves_nothing() {
    let mut plan = Plan { reads_each_ms: [1, 1_000_000], ..Plan::of(4) };
    plan.bytes = [1_000_000; 2];
    let mut world = open(plan);
    world.pass(Duration::from_millis(60));
    let image = world.export(1);
    world.renew(1);
    world.import(1, &image);
    let at = world.ends[1].time(world.now);
    assert_eq!(world.ends[1].stack.import(at, &image, 8), Err(ImportError::InUse));
    let image = world.export(1);
    // A stack that has no more places, and one with too few frames.
    world.plan.configs[1] = StackConfig { connections_max: 0, ..StackConfig::default() };
    world.renew(1);
    let at = world.ends[1].time(world.now);
    assert_eq!(world.ends[1].stack.import(at, &image, 8), Err(ImportError::Full));
    world.plan.configs[1] = StackConfig::default();
    world.renew(1);
    let end = &mut world.ends[1];
    let mut held = alloc::vec::Vec::new();
    let at = end.time(world.now);
    assert!(image.receiving.unread.len() > 20_000, "there is something to hold");
    let least = FrameUse::Unread.leaves(end.arena.capacity(Class::Large));
    while end.arena.free(Class::Large) > least + 5 {
        held.push(end.arena.alloc(Class::Large));
    }
    assert_eq!(end.stack.import(at, &image, 8), Err(ImportError::NoFrames));
    assert_eq!(end.stack.connections(), 0);
    held.clear();
    end.assert_no_leak();
    world.import(1, &image);
}

/// A peer's closed window: the persist timer and its probes move, and the data leaves when the window opens.
#[test]
fn a_zero_window() {
    let mut plan = Plan { reads_each_ms: [1, 4_000], ..Plan::of(6) };
    plan.options[1].receive_buffer_bytes = 8_192;
    plan.bytes = [60_000, 1];
    let mut world = open(plan);
    world.until("a closed window", |world| {
        let end = &world.ends[0];
        end.stack.info(end.id.expect("open")).is_some_and(|info| info.send_window == 0)
    });
    world.pass(Duration::from_millis(600));
    let image = world.export(0);
    assert_eq!((image.sending.wnd, image.deadlines.purpose), (0, Purpose::Persist));
    assert!(image.deadlines.retransmission_ms.is_some() && image.sending.extents.len() > 1);
    world.renew(0);
    world.import(0, &image);
    let image = world.export(1);
    assert!(image.receiving.edge == image.receiving.nxt && !image.receiving.unread.is_empty());
    world.renew(1);
    world.import(1, &image);
    world.until("all data", World::is_done);
}

/// A hole on the receiver's side, and what the sender knows of it, in its recovery: both move, in the midst of it.
#[test]
fn holes_and_recovery() {
    for sack in [true, false] {
        for control in CongestionControl::ALL {
            let mut plan = Plan { faults: [25, 0, 0], ..Plan::of(7) };
            plan.bytes = [200_000, 0];
            plan.piece = [10_000, 0];
            plan.configs.iter_mut().for_each(|config| config.tcp.sack = sack);
            plan.options[0].congestion_control = control;
            let mut world = open(plan);
            let (mut holes, mut recoveries, mut timeouts) = (0, 0, 0);
            for _ in 0..3_000 {
                if world.is_done() {
                    break;
                }
                world.step();
                for number in [0, 1] {
                    if !super::super::moves(world.ends[number].state()) || !world.random.one_in(10) {
                        continue;
                    }
                    let image = world.export(number);
                    let (gaps, board) = (image.receiving.gaps.len(), image.recovering.scoreboard.is_empty());
                    holes += u32::from(gaps > 0);
                    recoveries += u32::from(image.recovering.recovery == Recovery::Fast && (!sack || !board));
                    timeouts += u32::from(image.recovering.recovery == Recovery::Loss);
                    world.renew(number);
                    world.import(number, &image);
                }
            }
            world.until("the end", World::is_done);
            assert!(holes > 0 && recoveries > 0, "{control:?}, sack {sack}: {holes}, {recoveries}, {timeouts}");
        }
    }
}

/// Urgent data that was announced here and there, before and after it has arrived.
#[test]
fn urgent_data() {
    let mut plan = idle(8);
    plan.piece = [0, 0];
    let mut world = open(plan);
    let id = world.ends[0].id.expect("open");
    let end = &mut world.ends[0];
    let mut text = |piece: &mut [u8]| piece.fill(b'u');
    end.stack.send_with(id, 5, &mut text).expect("there is room");
    end.stack.mark_urgent(id, 0);
    world.plan.is_forged = true;
    let image = world.export(0);
    world.renew(0);
    world.import(0, &image);
    world.now += Duration::from_millis(1);
    world.send();
    let urgent = world.trace.iter().rev().find(|(_, end, _)| *end == 0).map(|(_, _, bytes)| flags(bytes));
    assert_ne!(urgent.map(|flags| flags & crate::wire::tcp::URG), Some(0), "the mark goes with the data");
    // It arrives, and is not read.
    let at = world.now + Duration::from_millis(20);
    world.plan.reads_each_ms = [1_000_000; 2];
    world.ends[1].put_off_reading(at + Duration::from_secs(1_000));
    world.pass(Duration::from_millis(20));
    let mark = world.ends[1].stack.urgent(world.ends[1].id.expect("open"));
    assert_eq!(mark.and_then(|mark| mark.byte), Some(b'u'));
    let image = world.export(1);
    world.renew(1);
    world.import(1, &image);
    assert_eq!(world.ends[1].stack.urgent(world.ends[1].id.expect("open")), mark);
}

/// Keepalive goes on where it was: the probe comes when it would have come.
#[test]
fn keepalive() {
    let mut times = alloc::vec::Vec::new();
    for moves in [false, true] {
        let mut plan = idle(9);
        plan.options[0] = TcpOptions { keepalive: true, keepalive_idle: Duration::from_secs(5), ..TcpOptions::default() };
        let mut world = open(plan);
        world.pass(Duration::from_secs(2));
        if moves {
            let image = world.export(0);
            assert!(image.deadlines.idle_ms.is_some_and(|ms| (2_900..3_100).contains(&ms)), "{:?}", image.deadlines);
            world.renew(0);
            world.import(0, &image);
        }
        let before = world.trace.len();
        world.until("a probe", |world| world.trace.len() > before);
        times.push(world.trace[before].0);
        world.pass(Duration::from_millis(20));
        assert_eq!(world.ends[0].failed, None, "it was answered");
    }
    assert_eq!(times[0], times[1]);
}

/// A delayed ACK goes out when its delay ends, from the new stack.
#[test]
fn a_delayed_ack() {
    let mut plan = idle(10);
    plan.delay_us = 30_000;
    plan.options[1].quick_ack = Some(false);
    let mut world = open(plan);
    world.pass(Duration::from_millis(300));
    let id = world.ends[0].id.expect("open");
    world.plan.is_forged = true;
    world.ends[0].stack.send_with(id, 10, &mut |piece: &mut [u8]| piece.fill(1)).expect("there is room");
    world.send();
    let at = world.now + Duration::from_secs(1_000);
    world.ends[1].put_off_reading(at);
    world.pass(Duration::from_millis(31));
    let image = world.export(1);
    assert!(image.deadlines.is_ack_pending, "{:?}", image.deadlines);
    let rest = image.deadlines.delayed_ack_ms.expect("it is delayed");
    world.renew(1);
    world.import(1, &image);
    world.ends[1].put_off_reading(at);
    let (before, start) = (world.trace.len(), world.now.as_millis());
    world.until("the ACK", |world| world.trace[before..].iter().any(|(_, end, _)| *end == 1));
    assert_eq!(world.now.as_millis() - start, u64::from(rest));
}

/// The counts of ECN feedback go on: neither end reports a mark twice, or loses count.
#[test]
fn accurate_feedback() {
    let mut plan = Plan::of(11);
    plan.configs.iter_mut().for_each(|config| config.tcp.ecn = Ecn::AccurateRequest);
    let mut world = open(plan);
    world.pass(Duration::from_millis(15));
    for number in [0, 1] {
        let image = world.export(number);
        assert_eq!(image.terms.ecn, EcnMode::Accurate);
        assert!(image.terms.accurate.is_some());
        world.renew(number);
        world.import(number, &image);
    }
    world.until("the end", World::is_done);
    for end in &world.ends {
        assert_eq!(end.stack.counters().get(Counter::TcpDeliveredCe), 0, "nothing was marked");
    }
}

/// An application has closed: the orphan's data and FIN still arrive, from the new stack, without a name.
#[test]
fn an_orphan() {
    let mut plan = Plan { delay_us: 20_000, ..Plan::of(12) };
    plan.bytes = [40_000, 0];
    plan.piece = [40_000, 0];
    let mut world = open(plan);
    world.until("all is written", |world| world.ends[0].written == 40_000);
    let (id, at) = (world.ends[0].id.expect("open"), world.ends[0].time(world.now));
    world.ends[0].stack.close(at, id);
    let image = world.export(0);
    assert!(image.is_orphan && image.state == State::FinWait1);
    world.renew(0);
    world.import(0, &image);
    world.until("the stream", |world| world.ends[1].read == 40_000 && world.ends[1].peer_ended);
    world.until("the end", |world| world.ends[0].closed);
}

/// A reset reaches an end that has moved, and one that has moved can reset.
#[test]
fn resets() {
    for number in [0, 1] {
        for resets in [0, 1] {
            let mut world = open(Plan { piece: [10, 10], ..Plan::of(13) });
            world.pass(Duration::from_millis(20));
            world.move_end(number);
            let end = &mut world.ends[resets];
            let at = end.time(world.now);
            end.stack.abort(at, end.id.expect("open"));
            end.id = None;
            world.until("the reset", |world| world.ends[1 - resets].failed.is_some());
            assert_eq!(world.ends[1 - resets].failed, Some(SocketError::Reset));
        }
    }
}

/// The timestamp clock that the peer knows goes on in TIME-WAIT: a repeated FIN is answered with a TSval that is not old.
#[test]
fn time_wait_keeps_the_peers_clock() {
    let mut plan = Plan::of(14);
    plan.bytes = [100, 0];
    plan.piece = [100, 0];
    plan.faults = [3, 0, 0];
    let mut answered = 0;
    for seed in 0..30 {
        let mut world = open(Plan { seed, ..plan.clone() });
        world.until("its FIN", |world| world.ends[0].state() != State::Established);
        if super::super::moves(world.ends[0].state()) {
            world.move_end(0);
        }
        world.until("the peer's end", |world| world.is_done() && world.ends[1].state() == State::Closed);
        answered += world.ends[0].stack.records().1;
        for end in &world.ends {
            assert_eq!(end.stack.counters().get(Counter::PawsEstab), 0, "seed {seed}: a TSval went back");
        }
    }
    assert!(answered > 10);
}

/// BBR's model begins again with the bandwidth and the round trip that it had measured.
#[test]
fn bbr_begins_with_what_it_knew() {
    let mut plan = Plan { delay_us: 10_000, ..Plan::of(15) };
    plan.bytes = [3_000_000, 0];
    plan.piece = [60_000, 0];
    plan.options[0].congestion_control = CongestionControl::Bbr;
    let mut world = open(plan);
    world.pass(Duration::from_millis(200));
    let id = world.ends[0].id.expect("open");
    let before = world.ends[0].stack.info(id).expect("open").pacing_rate;
    world.move_end(0);
    let id = world.ends[0].id.expect("open");
    let after = world.ends[0].stack.info(id).expect("open").pacing_rate;
    assert!(after > before / 4 && after <= before, "{before} then {after}");
    world.until("the end", World::is_done);
}

/// A peer has sent data behind a FIN that came before its time: that FIN is not moved, as it never comes in order.
#[test]
fn a_fin_that_data_has_passed() {
    let mut world = open(idle(16));
    world.pass(Duration::from_millis(50));
    let mut image = world.export(1);
    image.receiving.fin = Some(image.receiving.nxt.wrapping_add(5));
    world.plan.is_forged = true;
    world.renew(1);
    world.import(1, &image);
    let id = world.ends[0].id.expect("open");
    world.ends[0].stack.send_with(id, 10, &mut |piece: &mut [u8]| piece.fill(1)).expect("there is room");
    world.pass(Duration::from_millis(50));
    let image = world.export(1);
    assert_eq!((image.receiving.bytes, image.receiving.fin), (10, None));
    world.renew(1);
    world.import(1, &image);
}

/// A connection that comes back to its stack takes the fast paths again. In a stack with another timestamp clock it takes
/// the slow path, and its peer sees no step in the TSvals.
#[test]
fn the_fast_paths_know_one_clock() {
    for is_foreign in [false, true] {
        let mut plan = Plan { piece: [10, 10], bytes: [1_000_000; 2], ..Plan::of(17) };
        plan.configs.iter_mut().for_each(|config| config.tcp.timestamps = true);
        let mut world = open(plan);
        world.pass(Duration::from_millis(100));
        assert!(world.ends[1].stack.fast_segments() > 0);
        let image = world.export(1);
        if is_foreign {
            world.renew(1);
        }
        world.import(1, &image);
        let before = world.ends[1].stack.fast_segments();
        world.pass(Duration::from_millis(100));
        assert_eq!(world.ends[1].stack.fast_segments() > before, !is_foreign);
        assert_eq!(world.ends[0].stack.counters().get(Counter::PawsEstab), 0);
    }
}
