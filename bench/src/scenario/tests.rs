//! Every scenario has points that can be told apart.
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
