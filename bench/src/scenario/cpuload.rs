//! `cpuload`: requests at a given rate, whatever the server does (Z-stack: figure 9). Latency counts from the intended time.

use super::{Kind, MESSAGE, Scenario, closed, or};
use crate::load::order::{Pace, Plan};
use crate::options::Options;
use crate::point::{Figure, Point};

pub(super) const CPULOAD: Scenario = Scenario {
    name: "cpuload",
    about: "open loop at given rates: CPU per request and latency from the intended time",
    rounds: 3,
    seconds: 1.0,
    points,
    kind: Kind::Traffic,
};

/// Connections over which requests are spread.
const CONNECTIONS: u32 = 64;
/// Requests per second: about 10, 50 and 90 per cent of what the kernel carries over veth here, and points between.
const RATES: [u32; 6] = [10_000, 20_000, 40_000, 60_000, 80_000, 100_000];

fn points(options: &Options) -> Vec<Point> {
    let mut points = Vec::new();
    for connections in or(&options.connections, &[CONNECTIONS]) {
        for rate in or(&options.rate, &RATES) {
            let plan = Plan { pace: Pace::Poisson(f64::from(rate)), ..closed(connections, MESSAGE, MESSAGE, 1) };
            let numbers = [("connections", f64::from(connections)), ("rate", f64::from(rate))];
            points.push(Point::new(format!("{rate} requests/s"), &numbers, plan, Figure::Requests));
        }
    }
    points
}
