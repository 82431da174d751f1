//! Streams and their ends across moves, at random instants.

use super::world::*;
use crate::Duration;
use crate::config::{CongestionControl, Ecn, TcpOptions};
use crate::tcp::State;

const CONTROLS: [CongestionControl; 4] = CongestionControl::ALL;
const ECNS: [Ecn; 4] = [Ecn::Off, Ecn::Request, Ecn::AccurateRequest, Ecn::AccuratePassiveRequest];

/// A plan of a seed: any options, any faults.
fn drawn(seed: u64) -> Plan {
    let mut random = Random(seed ^ 0x4a11);
    let mut plan = Plan { is_ipv6: random.one_in(2), odd_clocks: random.one_in(2), ..Plan::of(seed) };
    for end in [0, 1] {
        let tcp = &mut plan.configs[end].tcp;
        tcp.timestamps = !random.one_in(3);
        tcp.sack = !random.one_in(3);
        tcp.window_scaling = !random.one_in(4);
        tcp.ecn = random.pick(&ECNS);
        plan.options[end] = TcpOptions {
            congestion_control: random.pick(&CONTROLS),
            no_delay: random.one_in(2),
            keepalive: random.one_in(4),
            keepalive_idle: Duration::from_millis(if random.one_in(4) { 1_000 } else { 0 }),
            receive_buffer_bytes: random.pick(&[0, 0, 4_096, 20_000, 300_000]),
            ..TcpOptions::default()
        };
        plan.bytes[end] = random.pick(&[0, 1, 3_000, 60_000, 200_000]);
        plan.piece[end] = random.pick(&[1, 100, 1_500, 20_000]).max(plan.bytes[end] / 3_000);
        plan.reads_each_ms[end] = random.pick(&[1, 1, 10, 300]);
    }
    plan.delay_us = random.pick(&[200, 3_000, 20_000]);
    plan.mtu = random.pick(&[1_500, 1_500, 1_280]);
    if !random.one_in(3) {
        plan.faults = [random.pick(&[0, 10, 50]), random.pick(&[0, 5, 30]), random.pick(&[0, 20])];
    }
    plan
}

/// Runs a plan in which ends move with a chance of one in `rarity` at each step. Returns the states in which one moved.
fn run(plan: Plan, rarity: u64) -> Vec<State> {
    let mut random = Random(plan.seed ^ 0x3013);
    let mut world = World::new(plan);
    let mut seen = Vec::new();
    for _ in 0..3_000_000 {
        if world.is_done() {
            break;
        }
        world.step();
        let number = random.below(2) as usize;
        let state = world.ends[number].state();
        if random.one_in(rarity) && super::super::moves(state) && seen.len() < 60 {
            world.move_end(number);
            seen.push(state);
        }
        for end in &world.ends {
            assert_eq!(end.failed, None, "seed {}, end in {:?}", world.plan.seed, end.state());
        }
    }
    world.until("the end", World::is_done);
    seen
}

use alloc::vec::Vec;

/// Whatever was agreed on and whatever the wire does: both streams and both ends arrive, and all states move.
#[test]
fn streams_and_ends_survive_moves() {
    let mut seen = Vec::new();
    for seed in 0..60 {
        seen.extend(run(drawn(seed), [5, 40, 300][seed as usize % 3]));
    }
    for state in [State::Established, State::FinWait1, State::FinWait2, State::CloseWait, State::Closing, State::LastAck] {
        let count = seen.iter().filter(|&&other| other == state).count();
        assert!(count > 3, "{state:?} moved {count} times of {}", seen.len());
    }
}

/// A move shows on the wire neither by a packet nor by its contents or time: the trace is that of a run without moves.
#[test]
fn the_wire_sees_nothing() {
    for seed in 0..12 {
        let mut plan = Plan { is_ipv6: seed % 2 == 1, ..Plan::of(seed) };
        plan.bytes = [40_000, 40_000];
        plan.piece = [700 + seed, 900];
        for options in &mut plan.options {
            options.congestion_control = if seed % 3 == 0 { CongestionControl::NewReno } else { CongestionControl::Cubic };
        }
        for config in &mut plan.configs {
            config.tcp.timestamps = seed % 4 != 0;
        }
        let traces = [false, true].map(|moves| {
            let mut random = Random(seed ^ 0x77);
            let mut world = World::new(plan.clone());
            let mut count = 0;
            for _ in 0..600 {
                world.step();
                let number = random.below(2) as usize;
                if random.one_in(4) && moves && super::super::moves(world.ends[number].state()) {
                    world.move_end(number);
                    count += 1;
                }
            }
            assert!(world.is_done() && (count > 5 || !moves), "{count} moves");
            world.trace
        });
        for (without, with) in traces[0].iter().zip(&traces[1]) {
            let parts = |(at, end, bytes): &(u64, usize, Vec<u8>)| {
                let mut bytes = bytes.clone();
                if plan.is_ipv6 {
                    // Each stack has its own flow labels.
                    bytes[1..4].fill(0);
                }
                (*at, *end, bytes.len(), bytes[..80.min(bytes.len())].to_vec(), bytes)
            };
            let (without, with) = (parts(without), parts(with));
            assert_eq!((without.0, without.1, without.2, &without.3), (with.0, with.1, with.2, &with.3), "seed {seed}");
            assert!(without.4 == with.4, "seed {seed}: the payload");
        }
        assert_eq!(traces[0].len(), traces[1].len());
    }
}
