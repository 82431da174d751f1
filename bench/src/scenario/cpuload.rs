//! `cpuload`: requests in an open loop at a given rate (Z-stack: figure 9). Latency counts from the intended time.
//!
//! The rates are shares of the kernel's peak, measured first with the same requests in a closed loop. Does not do: find a
//! peak when the kernel cannot serve; the rates are fixed then.

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

/// Default number of connections.
const CONNECTIONS: u32 = 64;
/// Requests per second when the kernel's peak is unknown.
const RATES: [u32; 6] = [10_000, 20_000, 40_000, 60_000, 80_000, 100_000];
/// Rates in percent of the kernel's peak.
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

/// Points that measure the kernel's peak, one for each number of connections.
pub(crate) fn peaks(options: &Options) -> Vec<Point> {
    let closed =
        |connections: u32| Point::new(connections.to_string(), &[], closed(connections, MESSAGE, MESSAGE, 1), Figure::Requests);
    or(&options.connections, &[CONNECTIONS]).into_iter().map(closed).collect()
}

/// The points at shares of the value measured at `peak`.
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
