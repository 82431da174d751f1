//! Congestion control on a wire with limited rate: throughput, queues, fairness.

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
