//! Congestion control on a wire with limited rate: throughput, queues, fairness.

use ringway_stack::congestion::{ConstantRate, Controller, Flow, Timely, TimelyParameters};

use super::*;

/// 100 Mbit/s.
const RATE_BITS: u64 = 100_000_000;

/// Makes a transfer over a wire of 100 Mbit/s, `delay_ms` each way, whose queue takes `queue_bytes`.
fn over_a_slow_wire(bytes: u64, delay_ms: u64, queue_bytes: u64, congestion_control: CongestionControl) -> Scenario {
    let mut faults = Faults::none(Duration::from_millis(delay_ms));
    (faults.wire.rate_bits, faults.wire.rate_queue_bytes) = (RATE_BITS, queue_bytes);
    let mut scenario = Scenario::transfer(3, bytes, faults);
    scenario.options.congestion_control = congestion_control;
    scenario
}

/// Returns the percentage of the wire's rate that the transfer of `bytes` has used.
fn percent(bytes: u64, report: &Report) -> u64 {
    bytes * 8 / (RATE_BITS / 100_000) / report.millis
}

/// Every algorithm fills a wire of 100 Mbit/s to nine tenths, also when its queue overflows (RFC 9438, RFC 5681: loss is the
/// only sign), and when one packet in 10,000 is lost.
#[test]
fn a_slow_wire_is_filled() {
    let bytes = 40_000_000;
    for (congestion_control, loss_ppm, least) in [
        (CongestionControl::Cubic, 0, 90),
        (CongestionControl::NewReno, 0, 90),
        (CongestionControl::Bbr, 0, 90),
        (CongestionControl::Cubic, 100, 80),
        (CongestionControl::Bbr, 100, 90),
    ] {
        let mut scenario = over_a_slow_wire(bytes, 5, 128 * 1024, congestion_control);
        scenario.faults.wire.loss_ppm = loss_ppm;
        let report = run(&scenario);
        let percent = percent(bytes, &report);
        assert!(percent >= least, "{congestion_control:?} {loss_ppm} ppm: {percent} % {report:?}");
    }
}

/// 1 percent of random loss at 40 ms, unrelated to congestion: BBR fills the wire, CUBIC cannot.
#[test]
fn random_loss() {
    let bytes = 40_000_000;
    let used = |congestion_control| {
        let mut scenario = over_a_slow_wire(bytes, 20, 512 * 1024, congestion_control);
        scenario.faults.wire.loss_ppm = 10_000;
        percent(bytes, &run(&scenario))
    };
    let (bbr, cubic) = (used(CongestionControl::Bbr), used(CongestionControl::Cubic));
    assert!(bbr >= 70 && bbr > 4 * cubic, "BBR {bbr} %, CUBIC {cubic} %");
}

/// The default buffers fill a long fat path, 12.5 MB in a round trip.
#[test]
fn a_long_path_is_filled() {
    let mut scenario = over_a_slow_wire(1_000_000_000, 500, 16_000_000, CongestionControl::Cubic);
    scenario.frames = 65_536;
    let mut network = scenario.network();
    assert_eq!(network.run_for(Duration::from_secs(20)), Ok(()));
    let before = infos(&network)[0].bytes_acked;
    assert_eq!(network.run_for(Duration::from_secs(4)), Ok(()));
    let carried = infos(&network)[0].bytes_acked - before;
    assert!(carried * 8 / 4 > RATE_BITS * 85 / 100, "{carried} bytes in 4 s");
}

/// RFC 9406: the first slow start ends before a deep queue overflows (six round trips: conservative slow start may treble
/// the window); nothing is lost, and the wire is filled.
#[test]
fn slow_start_ends_before_the_queue_overflows() {
    let bytes = 15_000_000;
    for congestion_control in [CongestionControl::Cubic, CongestionControl::NewReno] {
        let mut scenario = over_a_slow_wire(bytes, 20, 3_500_000, congestion_control);
        (scenario.options.send_buffer_bytes, scenario.options.receive_buffer_bytes) = (8 << 20, 8 << 20);
        let report = run(&scenario);
        assert_eq!(report.retransmitted, 0, "{congestion_control:?} {report:?}");
        let percent = percent(bytes, &report);
        assert!(percent >= 70, "{congestion_control:?}: {percent} %");
    }
}

/// BBR keeps a deep queue short: the round trip stays near that of the empty wire.
#[test]
fn bbr_keeps_the_queue_short() {
    let scenario = over_a_slow_wire(1_000_000_000, 20, 4_000_000, CongestionControl::Bbr);
    let mut network = scenario.network();
    assert_eq!(network.run_for(Duration::from_secs(4)), Ok(()));
    let mut round_trips = Vec::new();
    for _ in 0..40 {
        assert_eq!(network.run_for(Duration::from_millis(50)), Ok(()));
        round_trips.push(infos(&network)[0].rtt_us);
    }
    let mean = round_trips.iter().sum::<u32>() / 40;
    assert!((40_000..50_000).contains(&mean), "{round_trips:?}");
}

/// Two flows of the same kind share: after some seconds neither has carried more than three fifths.
#[test]
fn two_flows_share() {
    for congestion_control in [CongestionControl::Cubic, CongestionControl::NewReno, CongestionControl::Bbr] {
        let mut scenario = over_a_slow_wire(1_000_000_000, 20, 64 * 1024, congestion_control);
        scenario.faults.wire.rate_bits = RATE_BITS / 5;
        (scenario.connections, scenario.at_once) = (2, 2);
        let mut network = scenario.network();
        assert_eq!(network.run_for(Duration::from_secs(15)), Ok(()));
        let before: Vec<u64> = infos(&network).iter().map(|info| info.bytes_acked).collect();
        assert_eq!(network.run_for(Duration::from_secs(40)), Ok(()));
        let carried: Vec<u64> = infos(&network).iter().zip(before).map(|(info, before)| info.bytes_acked - before).collect();
        let total: u64 = carried.iter().sum();
        assert!(carried.iter().all(|bytes| bytes * 10 < total * 6), "{congestion_control:?} {carried:?}");
        assert!(total * 8 / 40 > RATE_BITS / 5 * 85 / 100, "{congestion_control:?} {carried:?}");
    }
}

/// SO_MAX_PACING_RATE bounds the rate of any algorithm, exactly.
#[test]
fn the_pacing_rate_is_kept() {
    for congestion_control in CongestionControl::ALL {
        let mut scenario = over_a_slow_wire(5_000_000, 5, 128 * 1024, congestion_control);
        scenario.options.pacing_rate_max = 1_000_000;
        let report = run(&scenario);
        assert_eq!(report.retransmitted, 0);
        assert!((4_900..5_400).contains(&report.millis), "{congestion_control:?} {report:?}");
    }
}

/// Returns the TCP_INFO of the client's connections.
fn infos(network: &Network) -> Vec<ringway_stack::TcpInfo> {
    let stack = &network.hosts[0].stack;
    let mut ids = Vec::new();
    stack.for_each_socket(&mut |summary| ids.push(summary.id));
    ids.into_iter().filter_map(|id| stack.info(id)).collect()
}

/// A scenario of [`over_a_slow_wire`] whose client has this congestion control.
fn under_own(bytes: u64, delay_ms: u64, queue_bytes: u64, make: MakeController) -> Scenario {
    Scenario { own_control: Some(make), ..over_a_slow_wire(bytes, delay_ms, queue_bytes, CongestionControl::Cubic) }
}

/// TIMELY for a path of 10 ms: the queue is to be between 1 and 10 ms long.
fn timely(flow: &Flow) -> Box<dyn Controller> {
    let (rtt_low, rtt_high) = (Duration::from_millis(11), Duration::from_millis(20));
    let parameters = TimelyParameters { rtt_low, rtt_high, rtt_min: Duration::from_millis(10), step: 125_000, weight: 875 };
    Box::new(Timely::new(flow, parameters))
}

/// TIMELY fills the wire and keeps the queue between its thresholds; the queue could hold 320 ms.
#[test]
fn timely_fills_the_wire_with_a_short_queue() {
    let scenario = under_own(1_000_000_000, 5, 4_000_000, timely);
    let mut network = scenario.network();
    assert_eq!(network.run_for(Duration::from_secs(5)), Ok(()));
    let before = infos(&network)[0];
    let mut round_trips = Vec::new();
    for _ in 0..100 {
        assert_eq!(network.run_for(Duration::from_millis(50)), Ok(()));
        round_trips.push(infos(&network)[0].rtt_us);
    }
    let after = infos(&network)[0];
    let carried = (after.bytes_acked - before.bytes_acked) * 8 / 5;
    assert!(carried > RATE_BITS * 90 / 100, "{carried} bits a second");
    let mean = round_trips.iter().sum::<u32>() / 100;
    assert!((10_000..20_000).contains(&mean), "{round_trips:?}");
    assert_eq!(after.total_retransmits, 0);
}

/// Two flows of TIMELY share: after some seconds neither has carried more than two thirds, without a loss.
#[test]
fn two_flows_of_timely_share() {
    let mut scenario = under_own(1_000_000_000, 5, 4_000_000, timely);
    (scenario.connections, scenario.at_once) = (2, 2);
    let mut network = scenario.network();
    assert_eq!(network.run_for(Duration::from_secs(15)), Ok(()));
    let before: Vec<u64> = infos(&network).iter().map(|info| info.bytes_acked).collect();
    assert_eq!(network.run_for(Duration::from_secs(20)), Ok(()));
    let carried: Vec<u64> = infos(&network).iter().zip(before).map(|(info, before)| info.bytes_acked - before).collect();
    let total: u64 = carried.iter().sum();
    assert!(carried.iter().all(|bytes| bytes * 3 < total * 2), "{carried:?}");
    assert!(total * 8 / 20 > RATE_BITS * 85 / 100, "{carried:?}");
}

/// TIMELY under losses, reordering and duplicates: every byte arrives.
#[test]
fn timely_on_a_bad_wire() {
    for seed in 0..20 {
        let mut scenario = under_own(400_000, 5, 64 * 1024, timely);
        scenario.seed = seed;
        (scenario.faults.wire.loss_ppm, scenario.faults.wire.duplicate_ppm) = (20_000, 10_000);
        run(&scenario);
    }
}

/// A constant rate stays what it is when one packet in a hundred is lost: 4 MB at 4 MB/s, round trips at the start and the end, and what is
/// sent again.
#[test]
fn a_constant_rate() {
    for (loss_ppm, most) in [(0, 1_200), (10_000, 1_300)] {
        let mut scenario = under_own(4_000_000, 20, 1_000_000, |_| Box::new(ConstantRate::new(4_000_000)));
        scenario.faults.wire.loss_ppm = loss_ppm;
        let report = run(&scenario);
        assert!((990..most).contains(&report.millis), "{loss_ppm} ppm: {report:?}");
    }
}
