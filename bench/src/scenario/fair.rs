//! `fair`: fairness between saturated connections (mTCP: section 5.2), by Jain's index.

use super::{Kind, Scenario, closed, or};
use crate::options::{Options, size_name};
use crate::point::{Figure, Point};

pub(super) const FAIR: Scenario = Scenario {
    name: "fair",
    about: "fairness between bulk connections: Jain's index, 1 is fair",
    rounds: 3,
    seconds: 2.0,
    points,
    kind: Kind::Traffic,
    compares_two: false,
};

/// Bytes of a reply, small enough for many replies per connection in a round.
const SIZE: u32 = 16 << 10;

fn points(options: &Options) -> Vec<Point> {
    let mut points = Vec::new();
    for connections in or(&options.connections, &[16, 256, 1024]) {
        for size in or(&options.size, &[SIZE]) {
            let numbers = [("connections", f64::from(connections)), ("size", f64::from(size))];
            let label = format!("{connections} connections, {}", size_name(size));
            points.push(Point::new(label, &numbers, closed(connections, 64, size, 1), Figure::Fairness));
        }
    }
    points
}
