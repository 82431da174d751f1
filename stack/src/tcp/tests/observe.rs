//! Observing a connection: what it waits for is what the planner says, and looking changes nothing.

use alloc::vec::Vec;

use ringway_shm::{Flow, WaitsFor};

use super::rack::{RTT_MS, at, measured};
use super::rig::*;
use crate::config::TcpOptions;
use crate::tcp::isn::mix;
use crate::tcp::{Observation, State};
use crate::wire::tcp::{ACK, FIN, SYN};

fn observe(rig: &mut Rig) -> Option<Observation> {
    let flow = Flow { local: (LOCAL.into(), 80), remote: (REMOTE.into(), 1_000) };
    rig.stack.observe(&flow)
}

fn waits(rig: &mut Rig) -> WaitsFor {
    observe(rig).expect("the connection is there").waits
}

fn state(rig: &mut Rig) -> (State, bool, WaitsFor) {
    let observation = observe(rig).expect("the connection is there");
    (observation.summary.state, observation.info.is_some(), observation.waits)
}

#[test]
fn from_the_handshake_to_the_end() {
    let mut rig = Rig::with(Rig::config());
    assert_eq!(observe(&mut rig), None);
    rig.listen(newreno(), 5);
    rig.receive(seg(SYN, 0, 0).mss(MSS as u16));
    rig.sent();
    assert_eq!(state(&mut rig), (State::SynReceived, false, WaitsFor::Handshake));

    let mut rig = Rig::accepted(Rig::config(), newreno());
    assert_eq!(state(&mut rig), (State::Established, true, WaitsFor::Application));
    rig.send(1, 100);
    assert_eq!(waits(&mut rig), WaitsFor::Turn);
    rig.sent();
    assert_eq!(waits(&mut rig), WaitsFor::Acknowledgment);
    rig.receive(seg(ACK, 1, 101));
    assert_eq!(waits(&mut rig), WaitsFor::Application);
    // An application that has closed holds it no more.
    rig.stack.close(rig.now, rig.id);
    rig.sent();
    assert_eq!(state(&mut rig), (State::FinWait1, true, WaitsFor::Acknowledgment));
    rig.receive(seg(ACK, 1, 102));
    assert_eq!(state(&mut rig).2, WaitsFor::Nothing);
    rig.receive(seg(ACK | FIN, 1, 102));
    rig.sent();
    assert_eq!(state(&mut rig), (State::TimeWait, false, WaitsFor::Nothing));
}

#[test]
fn each_limit_has_its_word() {
    let mut rig = Rig::accepted(Rig::config(), newreno());
    let window = rig.info().cwnd_bytes;
    rig.send(1, window + 10 * MSS);
    rig.sent();
    assert_eq!(waits(&mut rig), WaitsFor::CongestionWindow);
    rig.receive(seg(ACK, 1, 1 + MSS).window(100));
    rig.sent();
    assert_eq!(waits(&mut rig), WaitsFor::PeerWindow);

    let mut rig = Rig::accepted(Rig::config(), newreno());
    rig.send(1, 10);
    rig.sent();
    rig.send(11, 10);
    rig.sent();
    assert_eq!(waits(&mut rig), WaitsFor::Nagle);

    let mut rig = Rig::accepted(Rig::config(), TcpOptions { cork: true, ..newreno() });
    rig.send(1, 10);
    rig.sent();
    assert_eq!(waits(&mut rig), WaitsFor::Cork);

    let mut rig = Rig::accepted(Rig::config(), TcpOptions { pacing_rate_max: 1_000, ..newreno() });
    rig.send(1, 10 * MSS);
    rig.sent();
    assert_eq!(waits(&mut rig), WaitsFor::Pacing);
}

/// A lost last segment: the probe is seen.
#[test]
fn a_probe_and_what_follows_it() {
    let mut rig = measured(5);
    rig.wait_ms(RTT_MS);
    rig.receive(seg(ACK, 1, at(5)));
    assert!(!observe(&mut rig).expect("it is there").probing);
    rig.next_sent();
    let observation = observe(&mut rig).expect("it is there");
    assert_eq!((observation.probing, observation.waits), (true, WaitsFor::Acknowledgment));
}

/// Two connections with the same input, one observed between all steps: their output and their values are equal.
#[test]
fn observing_changes_nothing() {
    for seed in 0..40 {
        let mut random = mix(seed);
        let mut next = |below: u64| {
            random = mix(random);
            random % below
        };
        let options = TcpOptions { no_delay: next(2) == 0, cork: next(5) == 0, ..TcpOptions::default() };
        let mut rigs = [false, true].map(|_| {
            let mut config = Rig::config();
            config.tcp.sack = true;
            let mut rig = Rig::with(config);
            rig.accept_with(options, seg(SYN, 0, 0).mss(MSS as u16).sack_permitted());
            rig
        });
        let (mut queued, mut sent_end, mut acknowledged) = (1_u32, 1_u32, 1_u32);
        for _ in 0..60 {
            let (step, amount) = (next(4), next(8 * u64::from(MSS)) as u32 + 1);
            let window = if next(6) == 0 { 1_000 } else { 65_535 };
            let mut outputs = Vec::new();
            for (at, rig) in rigs.iter_mut().enumerate() {
                let look = |rig: &mut Rig| {
                    if at == 1 {
                        observe(rig).expect("it is there");
                    }
                };
                match step {
                    0 => drop(rig.send(queued, 3 * amount)),
                    1 => {
                        // Two ACKs before anything is sent: the window grows by both, if it was full before.
                        let end = acknowledged.max(sent_end.min(acknowledged + amount));
                        let middle = acknowledged + (end - acknowledged) / 2;
                        rig.receive(seg(ACK, 1, middle).window(window));
                        look(rig);
                        rig.receive(seg(ACK, 1, end).window(window));
                    }
                    2 if sent_end > acknowledged + 2 * MSS => {
                        rig.receive(seg(ACK, 1, acknowledged).sack(acknowledged + MSS, acknowledged + 2 * MSS));
                    }
                    _ => rig.wait_ms(u64::from(amount) / 40),
                }
                look(rig);
                outputs.push((rig.sent(), rig.info()));
                look(rig);
            }
            assert_eq!(outputs[0], outputs[1], "seed {seed}");
            let info = outputs[0].1;
            acknowledged = 1 + info.bytes_acked as u32;
            sent_end = acknowledged + info.unacked_bytes;
            queued = sent_end + info.unsent_bytes;
        }
    }
}
