//! `cpuload`: requests at a given rate, whatever the server does (Z-stack: figure 9). Latency counts from the intended time.
//!
//! The rates are shares of what the kernel carries of the same requests in a closed loop, measured first. Does not do: finding
//! a peak where the kernel cannot serve; there the rates are fixed ones.

use super::{Kind, MESSAGE, Scenario, closed, or};
use crate::load::order::{Pace, Plan};
use crate::options::Options;
use crate::point::{Figure, Point};

pub(super) const CPULOAD: Scenario = Scenario {
    name: "cpuload",
    about: "open loop at 10, 50 and 90 % of the kernel's peak: CPU per request and latency from the intended time",
    rounds: 3,
    seconds: 1.0,
    points,
    kind: Kind::SharesOfPeak,
    compares_two: false,
};

/// Connections over which requests are spread.
const CONNECTIONS: u32 = 64;
/// Requests per second where the kernel's peak is not known.
const RATES: [u32; 6] = [10_000, 20_000, 40_000, 60_000, 80_000, 100_000];
/// Of the kernel's peak.
const PERCENT: [u32; 3] = [10, 50, 90];

fn points(options: &Options) -> Vec<Point> {
    let mut points = Vec::new();
    for connections in or(&options.connections, &[CONNECTIONS]) {
        for rate in or(&options.rate, &RATES) {
            points.push(point(format!("{rate} requests/s"), connections, f64::from(rate)));
        }
    }
    points
}

fn point(label: String, connections: u32, rate: f64) -> Point {
    let plan = Plan { pace: Pace::Poisson(rate), ..closed(connections, MESSAGE, MESSAGE, 1) };
    Point::new(label, &[("connections", f64::from(connections)), ("rate", rate)], plan, Figure::Requests)
}

/// The points whose values are the kernel's peaks, one for each number of connections.
pub(crate) fn peaks(options: &Options) -> Vec<Point> {
    let closed =
        |connections: u32| Point::new(connections.to_string(), &[], closed(connections, MESSAGE, MESSAGE, 1), Figure::Requests);
    or(&options.connections, &[CONNECTIONS]).into_iter().map(closed).collect()
}

/// The points at shares of a peak that `point` has found.
pub(crate) fn shares(peak: &Point, value: f64) -> Vec<Point> {
    let share = |percent: u32| {
        let rate = (value * f64::from(percent) / 100.0).round().max(1.0);
        let mut point = point(format!("{percent} % of the kernel's peak"), peak.plan.connections, rate);
        if let Some(path) = peak.setup.path {
            point = point.over(path);
        }
        match peak.setup.tuning.congestion {
            Some(congestion) => point.with_congestion(congestion),
            None => point,
        }
    };
    PERCENT.into_iter().map(share).collect()
}
