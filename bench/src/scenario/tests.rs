//! Every scenario has distinct points.
use super::*;
use clap::Parser;
use std::collections::BTreeSet;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    options: Options,
}

fn options(words: &[&str]) -> Options {
    Line::parse_from([&["bench"], words].concat()).options
}

#[test]
fn points_can_be_told_apart_by_people_and_by_programs() {
    for scenario in ALL {
        for words in [&[][..], &["--connections", "2,3", "--size", "1K,2M"]] {
            let points = (scenario.points)(&options(words));
            let labels: BTreeSet<String> = points.iter().map(|point| format!("{} {:?}", point.label, point.parameters)).collect();
            assert!(!points.is_empty() && labels.len() == points.len(), "{}: {labels:?}", scenario.name);
        }
        assert_eq!(find(scenario.name).map(|found| found.about), Some(scenario.about));
    }
    assert!(find("nonsense").is_none());
}

#[test]
fn conns_names_its_points_by_the_connections_alone() {
    let points = (conns::CONNS.points)(&options(&["--connections", "1,64,1024,10000"]));
    let labels: Vec<&str> = points.iter().map(|point| point.label.as_str()).collect();
    assert_eq!(labels, ["1", "64", "1024", "10000"]);
}

#[test]
fn cpuload_asks_for_shares_of_the_peak_on_the_same_connections() {
    let peaks = cpuload::peaks(&options(&["--connections", "8"]));
    let points = cpuload::shares(&peaks[0], 120_000.0);
    assert!(peaks.len() == 1 && peaks[0].plan.pace == Pace::Closed);
    let rates: Vec<Option<f64>> = points
        .iter()
        .map(|point| match point.plan.pace {
            Pace::Poisson(rate) => Some(rate),
            _ => None,
        })
        .collect();
    assert_eq!(rates, [Some(12_000.0), Some(60_000.0), Some(108_000.0)]);
    assert!(points.iter().all(|point| point.plan.connections == 8));
}

#[test]
fn a_path_and_congestion_controls_make_a_point_each() {
    let options = options(&["--rtt", "20ms", "--loss", "0,1%", "--cc", "cubic,bbr"]);
    let points = varied((latency::LATENCY.points)(&options), &options);
    assert_eq!(points.len(), 4 * (latency::LATENCY.points)(&options).len());
    assert_eq!(points[0].label, "64 B, loss 0, rtt 20 ms, cubic");
    let last = points.last().expect("there are some");
    assert_eq!(last.parameters["loss"], crate::row::Parameter::Number(0.01));
    assert_eq!(last.setup.path.map(|path| (path.rtt_us, path.bits_per_second)), Some((20_000, 1_000_000_000)));
    assert_eq!(last.setup.tuning.congestion, Some(Congestion::Bbr));
    let plain = self::options(&[]);
    assert!(varied((latency::LATENCY.points)(&plain), &plain).iter().all(|point| point.setup == crate::bed::Setup::default()));
}

#[test]
fn a_path_needs_the_veth_wire() {
    assert!(options(&["--wire", "memory", "--target", "embedded", "--rtt", "1ms"]).targets().is_err());
    assert!(options(&["--rtt", "1ms"]).targets().is_ok());
}

#[test]
fn cores_has_a_run_for_each_number_of_cores() {
    let labels = |words: &[&str]| -> Vec<String> {
        cores::runs(&options(words)).iter().flat_map(|options| (cores::CORES.points)(options)).map(|point| point.label).collect()
    };
    assert_eq!(labels(&[]), ["1 core, 4800 connections", "2 cores, 4800 connections"]);
    assert_eq!(labels(&["--workers", "4", "--connections", "9"]), ["4 cores, 9 connections"]);
}

#[test]
fn loss_has_the_papers_rates_and_a_long_path_for_each_congestion_control() {
    let options = options(&[]);
    let points = (loss::LOSS.points)(&options);
    assert_eq!(points.len(), 5 * 2 * 2);
    assert_eq!(points[0].label, "download, loss 0, cubic");
    let last = points.last().expect("there are some");
    assert_eq!(last.label, "upload, loss 1 %, rtt 20 ms, bbr");
    // At least twice the bandwidth-delay product is in flight, in small pieces.
    assert!(u64::from(last.plan.request) * u64::from(last.plan.depth) >= 5_000_000 && last.plan.request <= 16 << 10);
    assert_eq!(varied(points.clone(), &options).len(), points.len());
    let said = self::options(&["--loss", "1/50", "--rtt", "5ms", "--cc", "bbr"]);
    let labels: Vec<String> = varied((loss::LOSS.points)(&said), &said).into_iter().map(|point| point.label).collect();
    assert_eq!(labels, ["download, loss 1/50, rtt 5 ms, bbr", "upload, loss 1/50, rtt 5 ms, bbr"]);
}

#[test]
fn all_to_all_sends_half_of_its_flows_each_way() {
    let points = (host::ALL_TO_ALL.points)(&options(&[]));
    let flows: Vec<(u32, u32)> = points.iter().map(|point| (point.plan.connections, point.plan.streams)).collect();
    assert_eq!(flows, [(1, 0), (64, 32), (256, 128), (576, 288)]);
    assert!(points.iter().all(|point| point.figure == crate::point::Figure::BothWays));
}

#[test]
fn experiments_compare_linux_and_embedded_unless_more_is_said() {
    use crate::target::Target;
    assert_eq!(options(&[]).targets_of(&host::SINGLE), Ok(vec![Target::Linux, Target::Embedded]));
    assert_eq!(options(&["--target", "preload"]).targets_of(&host::SINGLE), Ok(vec![Target::Preload]));
    assert_eq!(options(&[]).targets_of(&conns::CONNS), options(&[]).targets());
    assert_eq!(options(&["--wire", "memory"]).targets_of(&host::SINGLE), Ok(vec![Target::Embedded]));
}
