//! Connections of which a stack is told only what any TCP can tell.

use super::world::*;
use crate::handover::{ConnectionImage, Quiet};
use crate::tcp::State;

/// What another TCP would tell of it, when nothing is under way.
fn quiet(image: &ConnectionImage) -> Option<Quiet> {
    let (terms, receiving, sending) = (&image.terms, &image.receiving, &image.sending);
    let is_quiet = image.state == State::Established
        && sending.una == sending.nxt
        && sending.extents.is_empty()
        && receiving.unconsumed == 0
        && receiving.gaps.is_empty();
    is_quiet.then_some(Quiet {
        local: image.local,
        remote: image.remote,
        mss: terms.mss,
        send_scale: terms.send_scale,
        receive_scale: terms.receive_scale,
        sack: terms.sack,
        timestamp: terms.timestamps.map(|clock| clock.now),
        rcv_nxt: receiving.nxt,
        edge: receiving.edge,
        snd_nxt: sending.nxt,
        wnd: sending.wnd,
        wl1: sending.wl1,
        max_window: sending.max_window,
        srtt_us: image.deadlines.srtt_us,
        rttvar_us: image.deadlines.rttvar_us,
    })
}

/// Both streams arrive, with pauses in which an end goes to a stack with another clock, which learns the peer's.
#[test]
fn quiet_connections_go_on() {
    for seed in 0..24 {
        let mut plan = Plan { is_ipv6: seed % 2 == 1, odd_clocks: seed % 3 == 1, delay_us: 300, ..Plan::of(seed) };
        for end in [0, 1] {
            plan.configs[end].tcp.timestamps = seed % 4 != 3;
            plan.bytes[end] = 400_000;
        }
        let mut random = Random(seed);
        let mut world = World::new(plan);
        let (mut moved, mut learned) = (0, 0);
        for step in 0..400_000 {
            if world.is_done() {
                break;
            }
            let is_pause = step / 200 % 2 == 1;
            world.plan.piece = if is_pause { [0; 2] } else { [700, 300] };
            world.step();
            let number = random.below(2) as usize;
            if !random.one_in(40) || world.ends[number].state() != State::Established {
                continue;
            }
            let image = world.export(number);
            let before = image.terms.timestamps.and_then(|clock| clock.recent);
            learned += u32::from(moved > 0 && before.is_some());
            match quiet(&image) {
                Some(quiet) => {
                    let config = world.plan.configs[number].tcp.clone();
                    world.renew(number);
                    world.import(number, &ConnectionImage::of_quiet(&quiet, &config));
                    moved += 1;
                }
                None => world.import(number, &image),
            }
            assert_eq!(world.ends.each_ref().map(|end| end.failed), [None, None], "seed {seed}");
        }
        world.until("the end", World::is_done);
        assert!(moved > 2 && (learned > 0 || seed % 4 == 3), "seed {seed}: {moved} moves, {learned} times known");
    }
}
