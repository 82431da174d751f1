//! Interference between hosts: narrow hops, lying peers and routers, company on the wire. Each test states its bound.

use super::*;
use crate::datagrams::Datagrams;
use crate::path::hop::{Manner, Narrow};
use crate::path::liar::Lie;

/// Makes a transfer from client to server over `delay_ms` each way whose server (the receiver) lies.
fn to_a_liar(seed: u64, bytes: u64, lie: Option<Lie>) -> Scenario {
    let mut scenario = Scenario::transfer(seed, bytes, Faults::none(Duration::from_millis(20)));
    scenario.path.lies[1] = lie;
    scenario
}

/// RFC 3465 §2.3, RFC 5681 §7: a receiver that divides or repeats its acknowledgments gets no data sooner than an honest
/// one, and none twice.
#[test]
fn divided_and_repeated_acknowledgments_gain_nothing() {
    for ipv6 in [false, true] {
        for control in [CongestionControl::NewReno, CongestionControl::Cubic, CongestionControl::Bbr, CongestionControl::Dctcp] {
            let millis = |lie| {
                let mut scenario = Scenario { ipv6, ..to_a_liar(5, 1_000_000, lie) };
                scenario.options.congestion_control = control;
                let report = run(&scenario);
                assert_eq!(report.retransmitted, 0, "{lie:?} {control:?} {report:?}");
                report.millis
            };
            let honest = millis(None);
            for lie in [Lie::Division, Lie::Duplication] {
                let lying = millis(Some(lie));
                assert!(lying * 100 >= honest * 95, "{lie:?} {control:?}: {lying} ms, an honest peer {honest} ms");
            }
        }
    }
}

/// An acknowledgment of data that was not sent counts for nothing, one of data that has not arrived yet for no more than the
/// window: the wire's checker verifies that. All bytes arrive.
#[test]
fn optimistic_acknowledgments() {
    for (ipv6, window_scaling) in [(false, false), (true, false), (false, true)] {
        let mut scenario = Scenario { ipv6, ..to_a_liar(6, 2_000_000, Some(Lie::Optimism)) };
        scenario.configs.iter_mut().for_each(|config| config.tcp.window_scaling = window_scaling);
        let report = run(&scenario);
        assert_eq!((report.complete, report.received_bytes), (1, 2_000_000));
    }
}

/// RFC 2018 §8, RFC 2883 §5: blocks for data lost, never sent or acknowledged long ago: lost data is retransmitted.
#[test]
fn invented_sack_blocks() {
    for (seed, ipv6) in [(7, false), (8, true)] {
        let mut scenario = Scenario { ipv6, ..to_a_liar(seed, 1_000_000, Some(Lie::Sacks)) };
        scenario.faults.wire.loss_ppm = 20_000;
        let report = run(&scenario);
        assert!(report.complete == 1 && report.retransmitted > 0, "{report:?}");
    }
}

/// RFC 9293 §3.8.6: windows that shrink, shut and open at random delay the sender, but not for ever.
#[test]
fn window_games() {
    for (seed, ipv6) in [(9, false), (10, true)] {
        let report = run(&Scenario { ipv6, ..to_a_liar(seed, 300_000, Some(Lie::Windows)) });
        assert!(report.complete == 1 && report.millis < 600_000, "{report:?}");
    }
}

/// Whatever a peer sends, a host holds no more than its sockets' buffers allow.
#[test]
fn memory_of_a_victim() {
    for lie in Lie::ALL {
        let mut scenario = to_a_liar(11, 3_000_000, Some(lie));
        (scenario.options.send_buffer_bytes, scenario.options.receive_buffer_bytes) = (BUFFER_BYTES, BUFFER_BYTES);
        let mut network = scenario.network();
        let arena = network.hosts[0].arena.clone();
        let used = || 2_048 * u64::from(arena.capacity(Class::Large) - arena.free(Class::Large));
        for _ in 0..2_000 {
            assert_eq!(network.run_for(Duration::from_millis(2)), Ok(()), "{lie:?}");
            // Both buffers, in frames that may be half full.
            assert!(used() <= 4 * u64::from(BUFFER_BYTES), "{lie:?}: {} bytes", used());
        }
    }
}

const BUFFER_BYTES: u32 = 128 * 1024;

/// RFC 5927: false ICMP messages about one segment in five, half of them with true numbers: the stream goes on, in segments
/// no smaller than every path takes.
#[test]
fn rumors() {
    for ipv6 in [false, true] {
        let mut scenario = Scenario { ipv6, ..Scenario::transfer(12, 2_000_000, Faults::none(Duration::from_millis(5))) };
        scenario.plans.down_bytes = (500_000, 500_000);
        scenario.path.rumor_ppm = 200_000;
        let report = run(&scenario);
        assert_eq!((report.complete, report.received_bytes), (1, 2_500_000));
        let least = if ipv6 { 1_200 } else { 480 };
        assert!(report.segments < 3 * 2_500_000 / least, "{report:?}");
    }
}

/// RFC 791, RFC 1191, RFC 8201, RFC 4821: a hop with a smaller MTU than the links fragments, sends an ICMP message, or is
/// found by probing: every byte arrives; with ICMP messages little is retransmitted.
#[test]
fn narrow_hops() {
    for (manner, ipv6, mtu) in [
        (Manner::Cuts, false, 600),
        (Manner::Tells, false, 600),
        (Manner::Tells, true, 1_280),
        (Manner::Swallows, false, 1_006),
        (Manner::Swallows, true, 1_280),
    ] {
        for link in [MemoryOptions::default(), MemoryOptions::offloading()] {
            let transfer = Scenario::transfer(13, 1_000_000, Faults::none(Duration::from_millis(5)));
            let mut scenario = Scenario { ipv6, link, ..transfer };
            scenario.path.hop = Some(Narrow { mtu, manner });
            let report = run(&scenario);
            assert_eq!(report.complete, 1, "{manner:?}");
            let again = if manner == Manner::Cuts { 0 } else { 100 };
            assert!(report.retransmitted <= again, "{manner:?} {mtu} {report:?}");
            assert!(report.millis < 10_000, "{manner:?} {mtu} {report:?}");
        }
    }
}

/// Flows of each congestion control at one bottleneck whose queue overflows: all make progress, and the wire is full.
#[test]
fn mixed_flows_share_a_bottleneck() {
    let mut scenario = Scenario::transfer(14, 1_000_000_000, Faults::none(Duration::from_millis(10)));
    (scenario.faults.wire.rate_bits, scenario.faults.wire.rate_queue_bytes) = (20_000_000, 64 * 1024);
    (scenario.connections, scenario.at_once, scenario.mixed_control) = (8, 8, true);
    let mut network = scenario.network();
    assert_eq!(network.run_for(Duration::from_secs(60)), Ok(()));
    let stack = &network.hosts[0].stack;
    let mut carried = Vec::new();
    stack.for_each_socket(&mut |summary| carried.extend(stack.info(summary.id).map(|info| info.bytes_acked)));
    let total: u64 = carried.iter().sum();
    assert_eq!(carried.len(), 8);
    assert!(carried.iter().all(|bytes| bytes * 100 > total), "one starves: {carried:?}");
    assert!(total * 8 / 60 > 20_000_000 * 85 / 100, "{carried:?}");
}

/// RFC 3168 §5, RFC 7567 §4.2.1: a queue that marks instead of overflowing: ECN keeps it short and nothing is lost.
#[test]
fn a_marking_queue() {
    for control in [CongestionControl::Cubic, CongestionControl::NewReno, CongestionControl::Dctcp] {
        let mut scenario = Scenario::transfer(15, 10_000_000, Faults::none(Duration::from_millis(10)));
        let wire = &mut scenario.faults.wire;
        (wire.rate_bits, wire.rate_queue_bytes, wire.mark_above_bytes) = (50_000_000, 1_000_000, 60_000);
        scenario.ecn = [Ecn::Request, Ecn::Passive];
        (scenario.options.congestion_control, scenario.server_control) = (control, control);
        let report = run(&scenario);
        assert_eq!(report.retransmitted, 0, "{control:?} {report:?}");
        assert!(report.millis < 2_500, "{control:?} {report:?}");
    }
}

/// Datagrams larger than the links, and UDP_SEGMENT writes, beside streams, in both families: where nothing is lost all
/// arrive.
#[test]
fn datagrams_beside_streams() {
    for (ipv6, train_of) in [(false, 0), (true, 0), (false, 1_000), (true, 1_000)] {
        for link in [MemoryOptions::default(), MemoryOptions::offloading()] {
            let transfer = Scenario::transfer(16, 500_000, Faults::none(Duration::from_millis(2)));
            let mut scenario = Scenario { ipv6, link, ..transfer };
            let every = Duration::from_millis(1);
            scenario.datagrams = Some(Datagrams { count: 200, bytes_max: 9_000, every, train_of });
            let mut network = scenario.network();
            network.run_until_done(scenario.limit).expect("nothing goes wrong");
            network.run_for(Duration::from_secs(1)).expect("nothing goes wrong");
            for host in &network.hosts {
                assert_eq!(host.beside.as_ref().map(|beside| beside.taken()), Some(200), "{} {train_of} {ipv6}", host.name);
            }
            assert_eq!(network.check_nothing_left(), Ok(()));
        }
    }
}

/// RFC 6093: urgent marks of many writes on a bad wire name bytes of the stream, and take none of them away.
#[test]
fn urgent_data_on_a_bad_wire() {
    for ipv6 in [false, true] {
        let mut scenario = Scenario { ipv6, ..Scenario::transfer(17, 500_000, Faults::bad_wire()) };
        scenario.plans.down_bytes = (100_000, 100_000);
        scenario.plans.urgent_one_in = 2;
        let report = run(&scenario);
        assert_eq!((report.complete, report.received_bytes), (1, 600_000));
    }
}
